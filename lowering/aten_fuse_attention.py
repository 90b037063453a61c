"""aten to aten: attention that is written out becomes one kernel: of ours, or a call of ATen's.

    bmm(softmax(scale * bmm(q, k^T) + mask), v) = attention(q, k, v, mask, scale)

Products that are to be one kernel of ours are marked (`attention_written`). This is the form of ATen's; there the
scores are never stored either. That pays where they are many, and for f16 and
bf16, which the kernel keeps in f32 meanwhile. Of a query that sees nothing (all of its mask is -inf) the kernel gives
0, softmax NaN: the NaNs are put in. A backward reads the result of softmax: where one follows, nothing is changed.
On a GPU attention with nothing between its products but softmax is a call where sizes are large.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, SSAValue
from xdsl.passes import ModulePass

from ..dialects import expr
from ..dialects.aten import AtenOp, lookup
from ..dialects.expr import Dim
from ..dialects.hints import size_hints
from ..dialects.tensor import TensorType
from .attention_call import FLASH, FUSED, MOST_KEYS, is_torchs
from .attention_written import written_out, written_out_on_gpu
from .decisions import decide
from .fuse_cost import Hints
from .gpu_target import GpuTarget
from .origins import origins
from .products import GENERATED, MARK, is_generated
from .target import CpuTarget

LEAST: Final = {"f32": 1 << 20, "bf16": 1 << 14, "f16": 1 << 14}
"""Scores from which on the kernel is faster, by dtype."""

QUERIES = 16
"""Queries of a head from which on it is."""

_VIEWS: Final = frozenset({"aten.view", "aten._unsafe_view", "aten.expand", "aten.reshape"})


@dataclass(frozen=True)
class AtenFuseAttention(ModulePass):
    """Find attention that is written out.

    `target`: `host` or a name of `CpuTarget.from_name`, `gpu`: a name of `GpuTarget.from_name`, for kernels of ours;
    without, none are made.
    """

    name = "aten-fuse-attention"

    target: str = ""
    gpu: str = ""
    statistics: dict[str, int] = field(default_factory=dict[str, int], init=False, compare=False)

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        hints = Hints(size_hints(op))
        target = (
            CpuTarget.host() if self.target == "host" else CpuTarget.from_name(self.target) if self.target else None
        )
        gpu = GpuTarget.from_name(self.gpu) if self.gpu else None
        lines: list[str] = []
        self.statistics["kernels"] = 0
        for function in [f for f in op.ops if isinstance(f, FuncOp) and not f.is_declaration]:
            for product in [o for o in function.body.block.ops if isinstance(o, AtenOp) and o.name == "aten.bmm"]:
                if product.parent is None:
                    continue
                place = next((o.place for o in origins(product.location)), "")
                what = f"attention written out{f' at {place}' if place else ''}"
                last = None if target is None else written_out(product, target, hints.size)
                if last is None and gpu is not None:
                    last = written_out_on_gpu(product, gpu, hints.size)
                    whole = None if last is None else _match(last)
                    if whole is not None and whole.is_torchs(gpu):
                        lines.append(f"{what} calls torch's fused kernel")
                        whole.replace_on_gpu()
                        continue
                if last is not None:
                    product.attributes[MARK] = last.attributes[MARK] = GENERATED
                    lines.append(f"{what} is one kernel")
                    self.statistics["kernels"] += 1
                    continue
                found = None if is_generated(product) else _match(product)
                if found is not None and found.pays(hints, target):
                    lines.append(f"{what} calls ATen's fused kernel")
                    found.replace()
        self.statistics["calls"] = len(lines) - self.statistics["kernels"]
        if lines:
            decide(op, dict.fromkeys(lines))


@dataclass
class _Attention:
    """One that is written out; `query`, `key_transposed` and `value` are the operands of its products."""

    product: AtenOp
    query: SSAValue
    key_transposed: SSAValue
    value: SSAValue
    shape: tuple[Dim, ...]
    """Of the scores: batch, heads, queries, keys."""
    scale: float
    mask: SSAValue | None

    def pays(self, hints: Hints, target: CpuTarget | None) -> bool:
        """Products of bf16 by vectors, as calls, are faster than a kernel that computes in f32: 1.26 to 2.2 of eager's
        speed, which has the same products and scores, where the kernel has 0.65 to 1.9.
        """
        by_vectors = target is not None and target.has_bf16_vectors and _type(self.query).dtype == "bf16"
        if by_vectors and hints.size(self.shape[3]) <= MOST_KEYS:
            return False
        scores = 1
        for n in self.shape:
            scores *= hints.size(n)
        least = LEAST.get(_type(self.query).dtype) if _type(self.query).device == "cpu" else None
        return least is not None and scores >= least and hints.size(self.shape[2]) >= QUERIES

    def replace(self) -> None:
        batch, heads, queries, keys = self.shape
        q, v = _type(self.query), _type(self.value)
        size = q.shape[2]
        query = self._split(self.query, (batch, heads, queries, size))
        key = self._split(self._transposed(self.key_transposed), (batch, heads, keys, size))
        value = self._split(self.value, (batch, heads, keys, size))
        mask = None if self.mask is None else self._with_rank_four(self.mask)
        t = TensorType.get((batch, heads, queries, size), q.dtype)
        rows = TensorType.get((batch, heads, queries), "f32")
        call = self._add(FLASH, [query, key, value, 0.0, False, mask, self.scale], [t, rows])
        if mask is not None:
            row = _type(mask).with_(shape=[*_type(mask).shape[:3], 1], strides=None)
            most = self._call("aten.amax", row, mask, (-1,), True)
            blind = self._call("aten.eq.Scalar", row.with_(dtype="i1"), most, -math.inf)
            call = self._call("aten.where.ScalarSelf", t, blind, math.nan, call)
        result = self.product.results[0]
        result.replace_all_uses_with(self._call("aten.view", _type(result), call, (v.shape[0], queries, size)))
        _erase(self.product)

    def is_torchs(self, gpu: GpuTarget) -> bool:
        """Whether torch's kernel for a GPU takes it as it is, and is faster than one of ours."""
        q = _type(self.query)
        queries, keys, size = *self.shape[2:], q.shape[2]
        if self.mask is not None or not (isinstance(queries, int) and isinstance(keys, int) and isinstance(size, int)):
            return False
        strides = [_type(self._in_heads(v)).strides for v in (self.query, self.key_transposed, self.value)]
        rows = [(*outer, y if i == 1 else x) for i, (*outer, x, y) in enumerate(strides)]
        neighbours = [x if i == 1 else y for i, (*_, x, y) in enumerate(strides)]
        whole = all(isinstance(n, int) and n % 8 == 0 for row in (*rows, (size,)) for n in row)
        return whole and neighbours == [1, 1, 1] and is_torchs(gpu, q.dtype, queries, keys, size)

    def replace_on_gpu(self) -> None:
        """Calls what chooses among torch's kernels. What it gives is laid out as the query is."""
        batch, heads, queries, keys = self.shape
        size = _type(self.query).shape[2]
        query, key, value = map(self._in_heads, (self.query, self.key_transposed, self.value))
        if _type(key).rank == 4:
            (a, b, c, d), (w, x, y, z) = _type(key).shape, _type(key).strides
            key = self._call(
                "aten.transpose.int", _type(key).with_(shape=(a, b, d, c), strides=(w, x, z, y)), key, 2, 3
            )
        else:
            key = self._split(self._transposed(key), (batch, heads, keys, size))
        query = query if _type(query).rank == 4 else self._split(query, (batch, heads, queries, size))
        value = value if _type(value).rank == 4 else self._split(value, (batch, heads, keys, size))
        t = _type(query).with_(strides=_dense_like(_type(query)))
        call = self._add(FUSED, [query, key, value, None, 0.0, False, self.scale], [t])
        if not t.is_contiguous:
            call = self._call("aten.clone", t.with_(shape=t.shape, strides=None), call, "contiguous_format")
        result = self.product.results[0]
        result.replace_all_uses_with(self._call("aten.view", _type(result), call, _type(result).shape))
        _erase(self.product)

    def _in_heads(self, operand: SSAValue) -> SSAValue:
        """The tensor of four dims that an operand is seen of, before it was copied; else the operand."""
        found, v = operand, operand
        wanted = (*self.shape[:2], *_type(operand).shape[1:])
        while isinstance(op := v.owner, AtenOp) and (op.name in _VIEWS or op.name == "aten.clone"):
            v = op.operands[0]
            if _type(v).shape == wanted:
                found = v
            elif _type(v).shape != _type(operand).shape:
                break
        return found

    def _split(self, operand: SSAValue, shape: tuple[Dim, ...]) -> SSAValue:
        """The batch as batch and heads: a view of any layout."""
        t = _type(operand)
        outer, *inner = t.strides
        strides = (expr.normal(cast(Any, outer) * shape[1]), outer, *inner)
        return self._call("aten.view", t.with_(shape=shape, strides=strides), operand, shape)

    def _transposed(self, operand: SSAValue) -> SSAValue:
        t = _type(operand)
        (a, b, c), (x, y, z) = t.shape, t.strides
        return self._call("aten.transpose.int", t.with_(shape=(a, c, b), strides=(x, z, y)), operand, 1, 2)

    def _with_rank_four(self, mask: SSAValue) -> SSAValue:
        while (t := _type(mask)).rank < 4:
            first = expr.normal(cast(Any, t.shape[0]) * t.strides[0])
            mask = self._call("aten.unsqueeze", t.with_(shape=(1, *t.shape), strides=(first, *t.strides)), mask, 0)
        return mask

    def _call(self, name: str, t: TensorType, *arguments: Any) -> SSAValue:
        return self._add(name, arguments, [t])

    def _add(self, name: str, arguments: Sequence[Any], types: Sequence[TensorType]) -> SSAValue:
        cls = lookup(name)
        assert cls is not None
        made = cls.call(arguments, types, self.product.location)
        cast(Block, self.product.parent).insert_op_before(made, self.product)
        return made.results[0]


def _match(product: AtenOp) -> _Attention | None:
    """What a product of the result of softmax is, where nothing else reads what lies between."""
    weights, value = product.operands
    weighted = _through_views(weights)
    softmax = _only(weighted, "aten._softmax") or _only(_other_dtype(weighted), "aten._softmax")
    if softmax is None:
        return None
    scores = softmax.operands[0]
    rank = _type(scores).rank
    if softmax.arg("dim") not in (-1, rank - 1) or rank not in (3, 4):
        return None
    mask: SSAValue | None = None
    inner = _other_dtype(scores)
    if (sum_ := _only(inner, "aten.add.Tensor")) is not None and len(sum_.operands) == 2 and sum_.arg("alpha") == 1:
        inner, mask = sum_.operands
        if _product_of(inner) is None:
            inner, mask = mask, inner
    found = _product_of(inner)
    if found is None or _type(inner).shape != _type(scores).shape:
        return None
    first, scale = found
    query, key = first.operands
    shape = _type(scores).shape
    shape = shape if rank == 4 else (1, *shape)
    if not _type(weights).shape[1:] == _type(first.results[0]).shape[1:] == shape[2:]:
        return None
    types = [_type(v) for v in (query, key, value, *(() if mask is None else (mask,)))]
    q, k, v = types[:3]
    if any(t.dtype != q.dtype or t.device != q.device for t in types) or q.shape[2] != v.shape[2]:
        return None
    if q.device == "cpu" and not (q.is_contiguous and k.strides[1] == 1 and v.strides[2] == 1):
        return None
    if q.device == "cpu" and {_type(v).dtype for v in (scores, softmax.results[0])} != {q.dtype}:
        return None
    if mask is not None and not _is_mask(_type(mask), shape):
        return None
    return _Attention(product, query, key, value, shape, scale, mask)


def _is_mask(t: TensorType, shape: tuple[Dim, ...]) -> bool:
    """Whether it is added to scores of that shape, with rows that are neighbours in memory."""
    if not 2 <= t.rank <= 4 or t.shape[-1] != shape[3] or t.strides[-1] != 1:
        return False
    return all(n in (1, m) for n, m in zip(t.shape, shape[4 - t.rank :], strict=True))


def _product_of(v: SSAValue) -> tuple[AtenOp, float] | None:
    """The product of matrices that a value is, and the number that it is multiplied by."""
    scale = 1.0
    for name in ("aten.mul.Tensor", "aten.mul.Scalar", "aten.div.Tensor", "aten.div.Scalar"):
        op = _only(v, name)
        if op is not None and len(op.operands) == 1 and isinstance(number := op.args()[1], (int, float)):
            if number == 0 or not math.isfinite(number):
                return None
            scale = 1.0 / number if ".div" in name else float(number)
            v = op.operands[0]
            break
    inner = _through_views(v)
    product = _only(inner, "aten.bmm") or _only(_through_views(_other_dtype(inner)), "aten.bmm")
    return None if product is None else (product, scale)


def _erase(op: AtenOp) -> None:
    """An op that nothing reads, and those that nothing else reads."""
    operands = [v for v in op.operands if isinstance(v.owner, AtenOp)]
    op.detach()
    op.erase()
    for v in operands:
        made = v.owner
        if isinstance(made, AtenOp) and made.parent is not None and not any(r.first_use for r in made.results):
            _erase(made)


def _other_dtype(v: SSAValue) -> SSAValue:
    """What a value is of another dtype, where nothing else reads that."""
    op = _only(v, "aten._to_copy")
    return v if op is None or _type(v).strides != _type(op.operands[0]).strides else op.operands[0]


def _dense_like(t: TensorType) -> tuple[int, ...]:
    """Strides without gaps that order dims as those of `t` do."""
    strides, step = [0] * t.rank, 1
    for i in sorted(range(t.rank), key=lambda i: (cast(int, t.strides[i]), -i)):
        strides[i], step = step, step * cast(int, t.shape[i])
    return tuple(strides)


def _through_views(v: SSAValue) -> SSAValue:
    """What a value is a view of, with the same elements in order, where nothing else reads that."""
    while isinstance(op := v.owner, AtenOp) and op.name in _VIEWS and _is_read_once(v):
        if expr.product(_type(op.operands[0]).shape) != expr.product(_type(v).shape):
            break
        v = op.operands[0]
    return v


def _only(v: SSAValue, name: str) -> AtenOp | None:
    """The op of that name that makes a value which one op reads."""
    op = v.owner
    return op if isinstance(op, AtenOp) and op.name == name and _is_read_once(v) else None


def _is_read_once(v: SSAValue) -> bool:
    return len(list(v.uses)) == 1


def _type(v: SSAValue) -> TensorType:
    return cast(TensorType, v.type)
