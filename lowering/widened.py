"""Calls of ATen with f16 and bf16 factors in f32, where its library has no instructions for halves.

    %c = aten.mm(%a, %b) : … bf16  ->  %x, %y = convert %a, %b : f32;  %c = aten.mm(%x, %y) : … f32

Results are not rounded yet: what follows is computed from sums of f32, and rounds them once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from xdsl.ir import Attribute

from ..dialects.aten import AtenOp, lookup
from ..dialects.tensor import TensorType
from .decomposition import Call
from .prims_builder import Value
from .storage import is_dense


def widened(x: Value) -> Value:
    """A tensor in f32, in the order that it has in memory."""
    t = x.type.with_(dtype="f32")
    return x.to("f32") if is_dense(t) else x.copy(t.with_(shape=t.shape))


def called(call: Call, name: str, args: Sequence[Any], types: Sequence[Attribute]) -> list[Value]:
    """The results of a call of an operator, where that is decomposed."""
    op = cast("type[AtenOp]", lookup(name)).call(
        [a.ssa if isinstance(a, Value) else a for a in args], types, call.b.location
    )
    call.b.ops.append(op)
    return [Value(call.b, r) for r in op.results]


def called_in_f32(call: Call, args: Sequence[Any]) -> list[Value]:
    """The same operator on halves that are widened."""
    results = [r.type for r in call.op.results]
    types = [t.with_(dtype="f32") if isinstance(t, TensorType) else t for t in results]
    return called(call, call.op.name, [widened(a) if isinstance(a, Value) else a for a in args], types)
