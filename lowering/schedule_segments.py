"""Loops cut where a predicate changes: inside each part it is known, and what it chose between is computed alone.

```
for [d1 = 96] { p = pred [lt(d1, 32)]; a = load %x[d1] mask [lt(d1, 32)]; b = load …; store select(p, a, b) }
for [d1 = 32] { store load %x[d1] }    for [d1 = 32 : 96] { store b }
```
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any, cast

import sympy
from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Attribute, Block, Operation, SSAValue

from ..dialects import expr
from ..dialects.expr import Dim
from ..dialects.loop import ALONG, DimsAttr, ForOp, KernelOp, LoadOp, LoopDim, PredAttr, PredOp
from .fuse_body import zero_of
from .fuse_emit import drop_unused
from .fuse_graph import load_parts
from .index_simplify import Facts, facts

MOST = 6
"""Parts of a loop along one dim at most."""

OPS = 64
"""Ops that all parts of a loop may come to, where it is cut along a second dim."""


def segment(kernel: KernelOp) -> None:
    """Cut the outer loops of a kernel that have no reductions, in place."""
    grid = tuple(kernel.grid)
    block = kernel.body.block
    waiting = [(o, 0, frozenset[str]()) for o in block.ops if isinstance(o, ForOp)]
    while waiting:
        loop, others, done = waiting.pop()
        if loop.reduce.data or any(o.regions or o.name in ALONG for o in loop.body.block.ops):
            continue
        cut = _cut(loop, grid, done)
        if cut is None:
            continue
        d, points = cut
        if others and others + (len(points) + 1) * len(loop.body.block.ops) > OPS:
            continue
        parts = [_part(loop, LoopDim(d.name, lo, hi), grid) for lo, hi in pairwise((d.lo, *points, d.hi))]
        block.insert_ops_before(parts, loop)
        loop.detach()
        loop.erase()
        others += sum(len(p.body.block.ops) for p in parts)
        waiting += [(p, others - len(p.body.block.ops), done | {d.name}) for p in parts]


def _relations(loop: ForOp) -> list[Any]:
    found: dict[Any, None] = {}
    for o in loop.body.block.ops:
        a = o.properties.get("mask" if isinstance(o, LoadOp) else "value")
        if isinstance(a, PredAttr):
            found.update((r, None) for r in a)
    return list(found)


def _cut(loop: ForOp, grid: tuple[LoopDim, ...], done: frozenset[str]) -> tuple[LoopDim, list[Dim]] | None:
    """A dim of the loop but `done`, and the points inside its bounds at which predicates on it alone change."""
    known = facts((*grid, *loop.dims))
    symbols = {d.symbol for d in loop.dims if d.name not in done}
    points: dict[LoopDim, dict[Dim, None]] = {}
    for r in _relations(loop):
        found = _change(known.relation(r))
        if found is None or found[0] not in symbols or {d.symbol for d in loop.dims} & expr.symbols(found[1]):
            continue
        d = next(d for d in loop.dims if d.symbol == found[0])
        points.setdefault(d, {})[found[1]] = None
    # the last dim is the vector, where a predicate costs most
    for d, found in sorted(points.items(), key=lambda p: -loop.dims.names.index(p[0].name)):
        # numbers are in order by themselves, one expression if it is known to lie inside
        numbers = sorted(p for p in found if isinstance(p, int))
        ordered: list[Dim] = [*numbers] if len(numbers) == len(found) else [*found]
        if len(ordered) >= MOST or (len(ordered) > 1 and len(numbers) < len(found)):
            continue
        if all(_inside(p, d, grid) for p in ordered):
            return d, ordered
    return None


def _change(r: Any) -> tuple[Any, Dim] | None:
    """The symbol and the first value from which on `c*d >= n` holds, or `c*d < n` does not."""
    if not isinstance(r, (sympy.Lt, sympy.Ge)):
        return None
    left: Any = r.lhs
    factor, symbol = left.as_coeff_Mul()
    right = expr.normal(r.rhs)
    if factor == 1:
        return symbol, right
    return (symbol, -(-right // int(factor))) if isinstance(right, int) else None


def _inside(p: Dim, d: LoopDim, grid: tuple[LoopDim, ...]) -> bool:
    known = facts(grid)
    above = known.decide(sympy.Ge(sympy.sympify(p), sympy.sympify(d.lo)))
    below = known.decide(sympy.Le(sympy.sympify(p), sympy.sympify(d.hi)))
    return above is True and below is True


def _part(loop: ForOp, d: LoopDim, grid: tuple[LoopDim, ...]) -> ForOp:
    """The loop over a part of `d`, without what is decided there."""
    dims = [d if x.name == d.name else x for x in loop.dims]
    ops, _ = decided(loop.body.block.ops, facts((*grid, *dims)))
    block = Block(ops)
    drop_unused(block)
    return ForOp.make(DimsAttr.get(dims), block, attributes=dict(loop.attributes), location=loop.location)


def decided(ops: Iterable[Operation], known: Facts) -> tuple[list[Operation], dict[SSAValue, SSAValue]]:
    """Copies of ops without what is decided in a domain, and what the results of the old ones are now."""
    values: dict[SSAValue, SSAValue] = {}
    truths: dict[SSAValue, bool] = {}
    copies: list[Operation] = []
    for o in ops:
        new = _decided(o, known, values, truths)
        if isinstance(new, SSAValue):
            values[o.results[0]] = new
            continue
        copies.extend(new)
        values.update(zip(o.results, new[-1].results, strict=True))
    return copies, values


def _decided(
    o: Operation, known: Facts, values: dict[SSAValue, SSAValue], truths: dict[SSAValue, bool]
) -> SSAValue | list[Operation]:
    """What an op is in a part: a value that is there, or new ops, the last in its place."""
    if isinstance(o, PredOp):
        left = known.conjunction(o.value)
        if not left:
            new = _constant(IntegerAttr(int(left is not None), 1), o)
            truths[new.results[0]] = left is not None
            return [new]
    elif isinstance(o, arith.SelectOp):
        truth = truths.get(values.get(o.cond, o.cond))
        if truth is not None:
            chosen = o.lhs if truth else o.rhs
            return values.get(chosen, chosen)
    elif isinstance(o, LoadOp) and "mask" in o.properties:
        left = known.conjunction(cast(PredAttr, o.properties["mask"]))
        if left is None:
            return [_constant(o.properties.get("other") or zero_of(o.res.type), o)]
        source, indices, ok = load_parts(o)
        indices = tuple(values.get(v, v) for v in indices)
        other = o.properties.get("other") if left or ok is not None else None
        ok = values.get(ok, ok) if ok is not None else None
        mask = PredAttr.get(left) if left else None
        return [LoadOp.make(source, o.index, indices, mask=mask, ok=ok, other=other, location=o.location)]
    copy = type(o).create(
        operands=[values.get(v, v) for v in o.operands],
        result_types=o.result_types,
        properties=o.properties,
        attributes=o.attributes,
        location=o.location,
    )
    return [copy]


def _constant(value: Attribute, o: Operation) -> Operation:
    return arith.ConstantOp.create(
        result_types=[value.type],  # pyright: ignore
        properties={"value": value},
        location=o.location,
    )
