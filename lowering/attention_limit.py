"""Up to which key a block of rows has to look: behind it, all that a kernel of attention adds up is said to be zero.

    %p = select(pred [r <= q + c], %e, 0)        no row of a block q = lo, …, hi - 1 sees a key behind hi - 1 + c

A zero that is written is none that is computed: what it is multiplied by is not looked at, as in ATen's kernel.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, cast

import sympy
from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, IntegerType
from xdsl.ir import SSAValue

from ..dialects import expr
from ..dialects.expr import Dim
from ..dialects.loop import ForOp, IndexOp, LoopDim, PredOp, StoreOp, YieldOp

_AT_MOST = {2: (1, 0), 3: (0, 0), 4: (1, 1), 5: (0, 1)}
"""Predicates of `arith.cmpi` as left + n <= right: n, and whether the sides are exchanged first."""

_IDENTITY = {"max": -math.inf, "add": 0.0}

STEP = 64
"""Keys to whose next multiple a limit goes up: vectors are whole."""


def limit_of(loops: Iterable[ForOp], keys: LoopDim, row: LoopDim, block: LoopDim) -> Dim:
    """Where all loops over `keys` that reduce rows may end, for the rows of `block`: the last key, or sooner."""
    found: list[Any] = []
    for loop in loops:
        if [d.name for d in loop.dims] != [keys.name]:
            return keys.extent
        values = cast(YieldOp, loop.body.block.last_op).values
        reduced = [(v, _IDENTITY.get(k.data)) for v, k in zip(values, loop.reduce.data, strict=True)]
        stored: list[tuple[SSAValue, float | None]] = [
            (o.value, 0.0) for o in loop.body.block.ops if isinstance(o, StoreOp) and not loop.reduce.data
        ]
        for v, identity in (*reduced, *stored):
            ends = [] if identity is None else _ends(v, identity, keys, row, block)
            if not ends:
                return keys.extent
            found.append(sympy.Min(*ends))
    if not found:
        return keys.extent
    end = sympy.Max(0, *found)
    return expr.normal(sympy.Min(keys.extent, expr.ceildiv(expr.normal(end), STEP) * STEP))  # pyright: ignore


def _ends(v: SSAValue, identity: float, keys: LoopDim, row: LoopDim, block: LoopDim) -> list[Any]:
    """Keys from which on a value is the identity of its reduction, for all rows of the block."""
    select = v.owner
    if not isinstance(select, arith.SelectOp):
        return []
    other = select.rhs.owner
    if not isinstance(other, arith.ConstantOp) or not isinstance(other.value, FloatAttr):
        return []
    if other.value.value.data != identity:
        return []
    return [end for gap in _gaps(select.cond) if (end := _end(gap, keys, row, block)) is not None]


def _gaps(condition: SSAValue) -> list[Any]:
    """Expressions that are at least 0 where a condition holds."""
    op = condition.owner
    if isinstance(op, arith.AndIOp):
        return [*_gaps(op.lhs), *_gaps(op.rhs)]
    if isinstance(op, PredOp):
        relations: list[Any] = list(op.value)
        return [gap for r in relations for gap in _gap(r)]
    if not isinstance(op, arith.CmpiOp):
        return []
    sides = [o.value[0] if isinstance(o := s.owner, IndexOp) else _number(s) for s in (op.lhs, op.rhs)]
    known = _AT_MOST.get(cast("IntegerAttr[IntegerType]", op.predicate).value.data)
    if known is None or None in sides:
        return []
    step, swapped = known
    left, right = cast("list[Any]", sides[::-1] if swapped else sides)
    return [sympy.sympify(right - left - step)]


def _gap(r: Any) -> list[Any]:
    match r:
        case sympy.Lt():
            return [cast(Any, r.rhs) - r.lhs - 1]
        case sympy.Ge():
            return [cast(Any, r.lhs) - r.rhs]
        case _:
            return []


def _number(v: SSAValue) -> int | None:
    op = v.owner
    if isinstance(op, arith.ConstantOp) and isinstance(op.value, IntegerAttr):
        return cast("IntegerAttr[IntegerType]", op.value).value.data
    return None


def _end(gap: Any, keys: LoopDim, row: LoopDim, block: LoopDim) -> Any | None:
    """The first key at which `gap` is negative for all rows of the block, if it falls as keys go on."""
    gap = sympy.expand(gap)
    if not gap.is_polynomial(keys.symbol, row.symbol) or gap.coeff(keys.symbol) != -1:
        return None
    rest = sympy.expand(gap + keys.symbol)
    slope = rest.coeff(row.symbol)
    if not slope.is_Integer or not sympy.expand(rest - slope * row.symbol).is_Integer:
        return None
    last = block.hi - 1 if slope > 0 else block.lo  # pyright: ignore[reportOperatorIssue]
    return rest.subs(row.symbol, last) + 1
