"""Up to which key a block of rows has to look: behind it, all that a kernel of attention adds up is said to be zero.

    %p = select(pred [r <= q + c], %e, 0)        no row of a block q = lo, …, hi - 1 sees a key behind hi - 1 + c

A zero that is written is none that is computed: what it is multiplied by is not looked at, as in ATen's kernel.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, cast

import sympy
from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, IntegerType
from xdsl.ir import SSAValue

from ..dialects import expr
from ..dialects.expr import Dim
from ..dialects.loop import ForOp, IndexOp, LoadOp, LoopDim, PredOp, StoreOp, YieldOp

Source = Callable[[LoadOp], "SSAValue | None"]
"""What was stored where a load reads, if one value was."""

_AT_MOST = {2: (1, 0), 3: (0, 0), 4: (1, 1), 5: (0, 1)}
"""Predicates of `arith.cmpi` as left + n <= right: n, and whether the sides are exchanged first."""

_OPPOSITE = {2: 5, 3: 4, 4: 3, 5: 2}

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


def _gaps(condition: SSAValue, negated: bool = False) -> list[Any]:
    """Expressions that are at least 0 where a condition holds, or where it does not."""
    match condition.owner:
        case arith.AndIOp() as op if not negated:
            return [*_gaps(op.lhs), *_gaps(op.rhs)]
        case arith.OrIOp() as op if negated:
            return [*_gaps(op.lhs, True), *_gaps(op.rhs, True)]
        case arith.XOrIOp() as op if _number(op.rhs) in (1, -1):
            return _gaps(op.lhs, not negated)
        case arith.SelectOp() as op if _number(op.lhs) in (1, -1) and _number(op.rhs) == 0:
            return _gaps(op.cond, negated)
        case PredOp() as op if not negated:
            relations: list[Any] = list(op.value)
            return [gap for r in relations for gap in _gap(r)]
        case arith.CmpiOp() as op:
            predicate = cast("IntegerAttr[IntegerType]", op.predicate).value.data
            known = _AT_MOST.get(_OPPOSITE.get(predicate, -1) if negated else predicate)
            sides = [_expression(v) for v in (op.lhs, op.rhs)]
            if known is None or None in sides:
                return []
            step, swapped = known
            left, right = cast("list[Any]", sides[::-1] if swapped else sides)
            return [sympy.sympify(right - left - step)]
        case _:
            return []


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


def _expression(v: SSAValue) -> Any | None:
    """An integer as an expression of places."""
    match v.owner:
        case IndexOp() as op:
            return op.value[0]
        case arith.AddiOp() | arith.SubiOp() as op:
            sides = [_expression(o) for o in (op.lhs, op.rhs)]
            if None in sides:
                return None
            left, right = cast("list[Any]", sides)
            return left + right if isinstance(op, arith.AddiOp) else left - right
        case _:
            return _number(v)


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


# On a GPU: of scores that are -inf where nothing is seen


def seen_keys(
    scores: SSAValue, source: Source, keys: LoopDim, row: LoopDim, block: LoopDim, tile: int
) -> tuple[Dim, Dim]:
    """The first key that a row of the block may see, at a multiple of `tile`, and where those end that one may see."""
    gaps: list[Any] = []
    v = scores
    while True:
        op = v.owner
        if isinstance(op, LoadOp) and (found := source(op)) is not None:
            v = found
        elif isinstance(op, arith.SelectOp) and is_lowest(op.rhs):
            gaps += _gaps(op.cond)
            v = op.lhs
        elif isinstance(op, arith.SelectOp) and is_lowest(op.lhs):
            gaps += _gaps(op.cond, True)
            v = op.rhs
        else:
            break
    ends = [end for gap in gaps if (end := _end(gap, keys, row, block)) is not None]
    starts = [start for gap in gaps if (start := _start(gap, keys, row, block)) is not None]
    first = expr.floordiv(expr.normal(sympy.Max(0, *starts)), tile) * tile if starts else 0  # pyright: ignore
    last = sympy.Min(keys.extent, sympy.Max(0, *[sympy.Min(*ends)])) if ends else keys.extent
    return expr.normal(first), expr.normal(last)


def is_lowest(v: SSAValue) -> bool:
    op = v.owner
    return isinstance(op, arith.ConstantOp) and isinstance(op.value, FloatAttr) and op.value.value.data == -math.inf


def _start(gap: Any, keys: LoopDim, row: LoopDim, block: LoopDim) -> Any | None:
    """The first key at which `gap` is not negative for some row of the block, if it grows as keys go on."""
    gap = sympy.expand(gap)
    if not gap.is_polynomial(keys.symbol, row.symbol) or gap.coeff(keys.symbol) != 1:
        return None
    rest = sympy.expand(gap - keys.symbol)
    slope = rest.coeff(row.symbol)
    if not slope.is_Integer or not sympy.expand(rest - slope * row.symbol).is_Integer:
        return None
    most = block.hi - 1 if slope > 0 else block.lo  # pyright: ignore[reportOperatorIssue]
    return -rest.subs(row.symbol, most)
