"""How many digits of a float are kept, where nothing but f16 and bf16 is made of it: the rest need not be computed."""

from __future__ import annotations

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import BFloat16Type, Float16Type, FloatAttr
from xdsl.ir import Operation, SSAValue

from ..dialects.loop import ForOp, LoadOp, ScratchOp, StoreOp, YieldOp

ALL, OF_F16, OF_BF16 = 24, 11, 8

_PASSING = (arith.MulfOp, arith.DivfOp, arith.NegfOp, arith.MaximumfOp, arith.MinimumfOp, math.AbsFOp, math.SqrtOp,
            math.RsqrtOp)  # fmt: skip
"""Ops whose result has about the relative error of an operand."""


def digits(value: SSAValue) -> int:
    """Binary digits to which an f32 is rounded in the end, after ops that keep a relative error as it is: products,
    quotients, sums of what is not negative, also through scratch. `ALL` where something else is made of it.
    """
    return _digits(value, set())


def _digits(value: SSAValue, seen: set[SSAValue]) -> int:
    if value in seen:  # along another way
        return 0
    seen.add(value)
    return max((_kept(use.operation, use.index, seen) for use in value.uses), default=ALL)


def _kept(op: Operation, index: int, seen: set[SSAValue]) -> int:
    match op:
        case arith.TruncFOp():
            return OF_BF16 if isinstance(op.result.type, BFloat16Type) else _of_f16(op)
        case arith.AddfOp():
            return _digits(op.result, seen) if all(_is_positive(v) for v in op.operands) else ALL
        case arith.SelectOp():
            return _digits(op.result, seen) if index else ALL
        case YieldOp():
            return _reduced(op, index, seen)
        case StoreOp():
            return _stored(op, index, seen)
        case _:
            return _digits(op.results[0], seen) if isinstance(op, _PASSING) else ALL


def _of_f16(op: arith.TruncFOp) -> int:
    return OF_F16 if isinstance(op.result.type, Float16Type) else ALL


def _reduced(op: YieldOp, index: int, seen: set[SSAValue]) -> int:
    loop = op.parent_op()
    if not isinstance(loop, ForOp) or len(loop.reduce.data) != len(loop.res):
        return ALL
    kind = loop.reduce.data[index].data
    if kind not in ("add", "max", "min") or (kind == "add" and not _is_positive(op.values[index])):
        return ALL
    return _digits(loop.res[index], seen)


def _stored(op: StoreOp, index: int, seen: set[SSAValue]) -> int:
    """What is read of scratch; a buffer that is an argument is kept as it is."""
    if index or op.combine is not None or not isinstance(op.target.owner, ScratchOp):
        return ALL
    readers = [use.operation for use in op.target.uses if isinstance(use.operation, LoadOp)]
    return max((_digits(o.res, seen) for o in readers), default=ALL)


def _is_positive(value: SSAValue) -> bool:
    """Whether a value is known not to be negative."""
    match value.owner:
        case math.ExpOp() | math.AbsFOp() | math.SqrtOp():
            return True
        case arith.ConstantOp() as op:
            return isinstance(op.value, FloatAttr) and op.value.value.data >= 0
        case _:
            return False
