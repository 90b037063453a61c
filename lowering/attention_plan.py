"""Attention in a kernel of a GPU: which loops are its products, and what is done with rows of scores between them.

    for [d3 = K] { %s = for [r0] reduce [add] { %q * %k }; … }           scores: `first`
    %m = for [d3] reduce [max] { x(%s) }                                 `most`
    %l = for [d3] reduce [add] { %p = exp(x(%s) - %m) }                  `total`, %p is `grown`
    for [d4] { %o = for [d3] reduce [add] { w(%p) * %v }; … }            `last`, w multiplies with what is of the row

A sum of weights w(p) v is w(the sum of p v): all can be one loop over keys, with a maximum that is one so far.
"""

from __future__ import annotations

import math as numbers
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import FloatAttr, IntegerAttr
from xdsl.ir import Operation, SSAValue
from xdsl.traits import Pure

from ..dialects.loop import ForOp, KernelOp, LoadOp, LoopDim, ScratchOp, StoreOp, YieldOp, body_ops
from ..dialects.tensor import HALF_TYPES
from .attention_factors import Factors, factors_of
from .attention_limit import Source, is_lowest
from .tile_online import alike

EQUAL = 1
"""The predicate `oeq` of arith.cmpf."""

_FOLDED = frozenset({"max", "min", "and", "or", "add"})


@dataclass(frozen=True)
class Statistic:
    """What a row is reduced to, and what of each score."""

    kind: str
    value: SSAValue
    result: SSAValue


@dataclass(frozen=True)
class Attention:
    """The loops of one kernel."""

    row: LoopDim
    first: Factors
    last: Factors
    factors: tuple[SSAValue, SSAValue, SSAValue]
    """Queries, keys and values, of one type."""
    scale: float
    """What the first two are multiplied by besides."""
    most: Statistic
    total: Statistic
    others: tuple[Statistic, ...]
    """Other reductions of rows of scores."""
    grown: SSAValue
    safe: bool
    """Whether exponentials are 0 where all scores of a row are -inf; else NaN."""
    weight: tuple[tuple[Operation, int], ...]
    """The ops that make a weight of it, in order, and which operand comes of it."""
    stored: dict[SSAValue, StoreOp]
    """What is kept for each score, by buffer."""

    @property
    def keys(self) -> LoopDim:
        return self.first.columns

    @property
    def is_f32(self) -> bool:
        """Whether products are of f32."""
        return not is_half(self.factors[0])

    @property
    def scores(self) -> SSAValue:
        return self.most.value

    @staticmethod
    def of(kernel: KernelOp) -> Attention | None:
        """The attention that a kernel is; None where it is none."""
        loops = [o for o in kernel.body.block.ops if isinstance(o, ForOp)]
        nested = [o for o in loops if any(isinstance(i, ForOp) for i in o.body.block.ops)]
        if len(nested) != 2:
            return None
        for row in reversed(tuple(kernel.grid)):
            first, last = (factors_of(o, row) for o in nested)
            if first is None or last is None or row.lo != 0 or first.columns != last.reduced:
                continue
            between = [o for o in loops if o not in nested and o.dims == first.outer.dims]
            return _plan(kernel, row, first, last, between)
        return None

    def source(self, load: LoadOp) -> SSAValue | None:
        """What was stored where a load reads: the same place."""
        return _source(self.stored, load)


def _plan(kernel: KernelOp, row: LoopDim, first: Factors, last: Factors, between: list[ForOp]) -> Attention | None:
    block = kernel.body.block
    stored: dict[SSAValue, StoreOp] = {}
    for o in (first.outer, *between):
        for store in [i for i in o.body.block.ops if isinstance(i, StoreOp)]:
            if not isinstance(store.target.owner, ScratchOp) or store.target in stored or store.mask or store.ok:
                return None
            stored[store.target] = store

    def source(load: LoadOp) -> SSAValue | None:
        return _source(stored, load)

    chain = weight_of(last.left, source, lambda v: isinstance(v.owner, Operation) and v.owner.parent is block)
    if chain is None:
        return None
    (queries, a), (keys, b), (values, c) = (factor_of(v, source) for v in (first.left, first.right, last.right))
    if c != 1 or len({queries.type, keys.type, values.type}) != 1:
        return None
    grown, weight = chain
    below = cast(Operation, grown.owner).operands[0].owner
    if not isinstance(below, arith.SubfOp):
        return None
    found = [
        Statistic(k.data, v, r)
        for o in between
        if o.reduce.data
        for k, v, r in zip(o.reduce.data, cast(YieldOp, o.body.block.last_op).values, o.res, strict=False)
    ]
    largest = most_of(below.rhs, source)
    most = next((s for s in found if s.result is largest and s.kind == "max"), None)
    total = next((s for s in found if s.kind == "add" and alike(through(s.value, source), grown)), None)
    if most is None or total is None or not alike(through(below.lhs, source), through(most.value, source)):
        return None
    others = tuple(s for s in found if s is not most and s is not total)
    if any(s.kind not in _FOLDED for s in others):
        return None
    if not all(_is_plain(s.value, first.inner.res[0], source, kernel) for s in (most, *others)):
        return None
    behind = list(block.ops)[list(block.ops).index(last.outer) :]
    if any(isinstance(o, ForOp) and o in (first.outer, *between) for o in behind):
        return None
    if any(isinstance(o, LoadOp) and o.source in stored for b in behind[1:] for r in b.regions for o in body_ops(r)):
        return None
    safe = through(below.rhs, source) is not most.result
    factors = (queries, keys, values)
    return Attention(row, first, last, factors, a * b, most, total, others, grown, safe, weight, stored)


def weight_of(
    v: SSAValue, source: Source, of_row: Callable[[SSAValue], bool]
) -> tuple[SSAValue, tuple[tuple[Operation, int], ...]] | None:
    """The exponential that a weight is made of, and the ops that make it, each of which multiplies with a number of the
    row, or puts 0 or NaN in place of all of the row; conversions are left out.
    """
    ops: list[tuple[Operation, int]] = []
    while isinstance(op := v.owner, Operation):
        match op:
            case math.ExpOp():
                return v, tuple(reversed(ops))
            case LoadOp():
                found = source(op)
                if found is None:
                    return None
                v = found
                continue
            case arith.ExtFOp() | arith.TruncFOp():
                v = op.input
                continue
            case arith.DivfOp() if of_row(op.rhs):
                at = 0
            case arith.MulfOp() if of_row(op.rhs) or of_row(op.lhs):
                at = 0 if of_row(op.rhs) else 1
            case arith.SelectOp() if of_row(op.cond) and (_is_blank(op.lhs) or _is_blank(op.rhs)):
                at = 2 if _is_blank(op.lhs) else 1
            case _:
                return None
        ops.append((op, at))
        v = op.operands[at]
    return None


def most_of(v: SSAValue, source: Source) -> SSAValue | None:
    """The largest score that exponentials are below, which is taken by itself, or as 0 where it is -inf."""
    v = through(v, source)
    op = v.owner
    if isinstance(op, arith.SelectOp) and _is_blank(op.lhs):
        cond, v = through(op.cond, source).owner, through(op.rhs, source)
        if not isinstance(cond, arith.CmpfOp) or cast("IntegerAttr[Any]", cond.predicate).value.data != EQUAL:
            return None
        if not is_lowest(cond.rhs) or not _is_same(through(cond.lhs, source), v):
            return None
    return v


def _is_same(a: SSAValue, b: SSAValue) -> bool:
    return a is b or alike(a, b)


def _is_blank(v: SSAValue) -> bool:
    """0 or NaN."""
    op = v.owner
    if not isinstance(op, arith.ConstantOp) or not isinstance(op.value, FloatAttr):
        return False
    return op.value.value.data == 0 or numbers.isnan(op.value.value.data)


def factor_of(v: SSAValue, source: Source) -> tuple[SSAValue, float]:
    """What a factor is before it was converted to f32 and multiplied by a number."""
    scale = 1.0
    while isinstance(op := v.owner, Operation) and not is_half(v):
        match op:
            case LoadOp() if (found := source(op)) is not None:
                v = found
            case arith.ExtFOp():
                v = op.input
            case arith.MulfOp() if (n := _number(op.rhs)) is not None or (n := _number(op.lhs)) is not None:
                scale *= n
                v = op.lhs if _number(op.rhs) is not None else op.rhs
            case _:
                break
    return v, scale


def _number(v: SSAValue) -> float | None:
    op = v.owner
    return op.value.value.data if isinstance(op, arith.ConstantOp) and isinstance(op.value, FloatAttr) else None


def is_half(v: SSAValue) -> bool:
    return isinstance(v.type, HALF_TYPES)


def _source(stored: dict[SSAValue, StoreOp], load: LoadOp) -> SSAValue | None:
    store = stored.get(load.source)
    plain = store is not None and load.mask is None and load.ok is None and load.index == store.index
    return store.value if store is not None and plain else None


def through(v: SSAValue, source: Source) -> SSAValue:
    """The value that is loaded, if it is one."""
    while isinstance(v.owner, LoadOp) and (found := source(v.owner)) is not None:
        v = found
    return v


def _is_plain(v: SSAValue, score: SSAValue, source: Source, kernel: KernelOp) -> bool:
    """Whether a value is made of the score, of what is read and of what stands beside loops."""
    op = v.owner
    if v is score or not isinstance(op, Operation):
        return True
    if isinstance(op, LoadOp):
        if isinstance(op.source.owner, ScratchOp):
            found = source(op)
            return found is not None and _is_plain(found, score, source, kernel)
        if op.source in kernel.outs:
            return False
        return all(_is_plain(i, score, source, kernel) for i in op.operands[1:])
    if op.regions or not op.has_trait(Pure):
        return False
    return all(_is_plain(i, score, source, kernel) for i in op.operands)
