"""Integers of 64 bits that are small, in 32: places in a tile, their sums, differences, products and comparisons.

    extsi(i) - extsi(j) = extsi(i - j)      sitofp(extsi(i)) = sitofp(i)      extsi(i) < extsi(j)  =  i < j

What is known to fit has a value in 32 bits beside the other, which nobody uses then.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import IntegerAttr, i32, i64
from xdsl.ir import Operation, SSAValue

from ..dialects.tensor import HALF_TYPES
from .tt_builder import INTEGER_PREDICATES, TtBuilder
from .tt_index import MOST

_NARROW = "narrow"
_SIGNED = 6
"""Predicates of `arith.cmpi` below this take signed numbers."""


def remember(b: TtBuilder, wide: SSAValue, narrow: SSAValue, bound: int) -> None:
    """`wide` is `narrow`, between -bound and bound, in 64 bits."""
    b.remember((_NARROW, wide), (narrow, bound))


def narrow(b: TtBuilder, op: Operation, operands: Sequence[SSAValue]) -> SSAValue | None:
    """The result of an op on such integers; None where it must be computed in 64 bits."""
    if not operands or not all(v.type == i64 for v in op.operands):
        return None
    known = [_known(b, v) for v in operands]
    if None in known:
        return None
    values, bounds = zip(*cast("list[tuple[SSAValue, int]]", known), strict=True)
    match op:
        case arith.CmpiOp():
            predicate = cast("IntegerAttr[Any]", op.predicate).value.data
            return b.compare(INTEGER_PREDICATES[predicate], *values) if predicate < _SIGNED else None
        case arith.SIToFPOp():
            real = op.results[0].type
            return None if isinstance(real, HALF_TYPES) else b.cast(arith.SIToFPOp, values[0], real)
        case arith.AddiOp() | arith.SubiOp():
            bound = sum(bounds)
        case arith.MuliOp():
            bound = bounds[0] * bounds[1]
        case arith.MaxSIOp() | arith.MinSIOp():
            bound = max(bounds)
        case math.AbsIOp():
            value = b.integer(arith.MaxSIOp, values[0], b.integer(arith.SubiOp, b.constant(0, i32), values[0]))
            return _widened(b, value, bounds[0])
        case _:
            return None
    return _widened(b, b.integer(type(op), *values), bound) if bound <= MOST else None


def _known(b: TtBuilder, v: SSAValue) -> tuple[SSAValue, int] | None:
    op = v.owner
    if isinstance(op, arith.ConstantOp) and isinstance(op.value, IntegerAttr):
        n = cast("IntegerAttr[Any]", op.value).value.data
        return (b.constant(n, i32), abs(n)) if abs(n) <= MOST else None
    return b.recall((_NARROW, v))


def _widened(b: TtBuilder, v: SSAValue, bound: int) -> SSAValue:
    wide = b.resize(v, i64)
    remember(b, wide, v, bound)
    return wide
