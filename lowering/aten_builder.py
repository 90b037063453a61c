"""Calls of ATen before an op, with the types of their results: what passes of the aten level build."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from xdsl.ir import Block, Operation, SSAValue

from ..dialects import expr
from ..dialects.aten import lookup
from ..dialects.expr import Dim
from ..dialects.tensor import TensorType


class AtenBuilder:
    """Inserts calls before `at`, with its location. Results are contiguous but for those of views."""

    def __init__(self, at: Operation) -> None:
        self.at = at
        self.device = next((v.type.device for v in at.operands if isinstance(v.type, TensorType)), "cpu")

    def calls(self, name: str, types: Sequence[TensorType], *args: Any) -> Sequence[SSAValue]:
        """The results of a call with these types."""
        cls = lookup(name)
        assert cls is not None
        cast(Block, self.at.parent).insert_op_before(made := cls.call(args, types, self.at.location), self.at)
        return made.results

    def call(self, name: str, type: TensorType, *args: Any) -> SSAValue:
        return self.calls(name, [type], *args)[0]

    def new(self, shape: Sequence[Dim], dtype: str) -> TensorType:
        """The type of a contiguous tensor."""
        return TensorType.get(tuple(shape), dtype, None, self.device)

    def number(self, value: float, dtype: str) -> SSAValue:
        """A tensor without dims."""
        return self.call("aten.scalar_tensor", self.new((), dtype), value, dtype, None, self.device)

    def arange(self, n: Dim) -> SSAValue:
        return self.call("aten.arange", self.new((n,), "i64"), n, "i64", None, self.device)

    def same(self, name: str, x: SSAValue, *args: Any, dtype: str | None = None) -> SSAValue:
        """A pointwise call whose result has the sizes of `x`."""
        return self.call(name, self.new(shape(x), dtype or type_of(x).dtype), x, *args)

    def plain(self, x: SSAValue, dtype: str) -> SSAValue:
        """Contiguous, in that dtype."""
        if type_of(x).dtype != dtype:
            args = (dtype, None, None, None, False, "contiguous_format")
            return self.same("aten._to_copy", x, *args, dtype=dtype)
        return x if type_of(x).is_contiguous else self.same("aten.clone", x, "contiguous_format")

    def converted(self, x: SSAValue, dtype: str) -> SSAValue:
        """In that dtype, contiguous where it was another."""
        return x if type_of(x).dtype == dtype else self.plain(x, dtype)

    def unsqueeze(self, x: SSAValue, dim: int) -> SSAValue:
        t = type_of(x)
        stride: Any = expr.normal(cast(Any, t.shape[dim]) * t.strides[dim]) if dim < t.rank else 1
        sizes, strides = (*t.shape[:dim], 1, *t.shape[dim:]), (*t.strides[:dim], stride, *t.strides[dim:])
        return self.call("aten.unsqueeze", t.with_(shape=sizes, strides=strides), x, dim)

    def expand(self, x: SSAValue, sizes: Sequence[Dim]) -> SSAValue:
        """With dims of one element repeated."""
        t = type_of(x)
        if t.shape == tuple(sizes):
            return x
        strides = [0 if n == 1 != m else s for n, m, s in zip(t.shape, sizes, t.strides, strict=True)]
        return self.call("aten.expand", t.with_(shape=tuple(sizes), strides=strides), x, tuple(sizes))

    def transpose(self, x: SSAValue) -> SSAValue:
        """With the last two dims exchanged."""
        t = type_of(x)
        (*n, a, b), (*s, p, q) = t.shape, t.strides
        return self.call("aten.transpose.int", t.with_(shape=(*n, b, a), strides=(*s, q, p)), x, -2, -1)

    def merged(self, x: SSAValue) -> SSAValue:
        """With the first two dims as one: a view, where they are one in memory, or of a copy."""
        t = type_of(x)
        (a, b, *n), (p, q, *s) = t.shape, t.strides
        if a == 1:
            stride = q
        elif b == 1:
            stride = p
        elif expr.normal(cast(Any, b) * q) == p:
            stride = q
        else:
            return self.merged(self.plain(x, t.dtype))
        sizes = (expr.normal(cast(Any, a) * b), *n)
        return self.call("aten.view", t.with_(shape=sizes, strides=(stride, *s)), x, sizes)

    def view(self, x: SSAValue, sizes: Sequence[Dim]) -> SSAValue:
        """What is contiguous, with other sizes."""
        return self.call("aten.view", self.new(sizes, type_of(x).dtype), x, tuple(sizes))

    def matmul(self, x: SSAValue, y: SSAValue) -> SSAValue:
        """The products of matrices of `[a, b, m, k]` and `[a, b, k, n]`."""
        (a, b, m, _), n = shape(x), shape(y)[-1]
        both = self.new((expr.normal(cast(Any, a) * b), m, n), type_of(x).dtype)
        return self.view(self.call("aten.bmm", both, self.merged(x), self.merged(y)), (a, b, m, n))

    def laid_out(self, x: SSAValue, t: TensorType) -> SSAValue:
        """In the dtype and with the strides of a type."""
        x = self.plain(x, t.dtype)
        if t.is_contiguous:
            return x
        memory = self.call("aten.new_empty_strided", t, x, t.shape, t.strides, None, None, None, None)
        return self.call("aten.copy", t, memory, x, False)


def type_of(x: SSAValue) -> TensorType:
    return cast(TensorType, x.type)


def shape(x: SSAValue) -> tuple[Dim, ...]:
    return type_of(x).shape
