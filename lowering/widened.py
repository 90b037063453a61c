"""Calls of ATen with f16 and bf16 factors in f32, where its library has no instructions for halves.

    %c = aten.mm(%a, %b) : … bf16  ->  %x, %y = convert %a, %b : f32;  %c = aten.mm(%x, %y) : … f32

Results are not rounded yet: what follows is computed from sums of f32, and rounds them once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

from xdsl.ir import Attribute, Operation, SSAValue

from ..dialects.aten import AtenOp, lookup
from ..dialects.tensor import HALVES, TensorType
from .decomposition import Call
from .prims_builder import Value
from .products import BIASED, is_widened
from .storage import is_dense


def widened(x: Value) -> Value:
    """A tensor in f32, in the order that it has in memory."""
    t = in_f32(x.type)
    return x.to("f32") if is_dense(x.type) else x.copy(t)


def in_f32(t: TensorType) -> TensorType:
    """The type of a tensor that is widened."""
    t = t.with_(dtype="f32")
    return t if is_dense(t) else t.with_(shape=t.shape)


def convert_factors(ops: Iterable[Operation]) -> None:
    """Put the conversions of what is widened before it, as ops that other ops may be apart from it with:

        %c = aten.mm(%a, %b) {"widened"} : bf16  ->  %x = aten._to_copy(%a) : f32; …; %c = aten.mm(%x, %y) {"widened"}

    They belong to what makes the factors. `ops` of one block, in its order; a bias is not converted by itself.
    """
    known: dict[SSAValue, SSAValue] = {}
    for op in ops:
        if not is_widened(op):
            continue
        assert isinstance(op, AtenOp) and op.parent is not None
        bias = op.arg(BIASED[op.name]) if op.name in BIASED else None
        for i, v in enumerate(op.operands):
            if v is bias or not isinstance(t := v.type, TensorType) or t.dtype not in HALVES:
                continue
            if v not in known:
                made = cast("type[AtenOp]", lookup("aten._to_copy")).call([v, "f32"], [in_f32(t)], op.location)
                op.parent.insert_op_before(made, op)
                known[v] = made.results[0]
            op.operands[i] = known[v]


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
