"""Sums of columns that are made strip by strip, as their tensor is reduced along its rows too, or as what is summed is
computed for something that is stored.

    grad_weight[c] = sum over r of g[r, c] * n[r, c]  beside  mean_g[r] = sum over c of g[r, c] * w[c]
    grad_bias[c] = sum over r of g[r, c]  beside  grad_x = call(g)

In strips of rows one kernel has both (`fuse_turns`). How many there are depends on sizes alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

import sympy
from xdsl.ir import Operation, SSAValue

from ..dialects import expr
from ..dialects.loop import IndexAttr, LoadOp, LoopDim, NestOp
from .contraction import contraction_of_nest
from .fuse_cost import Hints, Machine
from .fuse_graph import outermost, tensor_type
from .fuse_turns import SUMMED

LEAST = 8
"""Rows of a strip at least: then its sums cost little beside its rows."""

ROW = 768
"""Columns of a row of which the strips that a machine wants are long enough; of shorter rows there are more strips."""

WIDE = 64
"""Columns at least where nothing is reduced along the rows: the loop inside of a row is as long."""

DEPTH = 48
"""Pointwise nests that are looked through, one behind the other."""

Cut: TypeAlias = tuple[int, int]
"""Which of the reduced dims is cut, and how many of its points a part has."""

Moves: TypeAlias = tuple[frozenset[sympy.Symbol], ...]
"""For each dim of a tensor, the dims of a nest that it moves with."""

Way: TypeAlias = tuple[frozenset[int], frozenset[int]]
"""The dims of a tensor that a reduction to columns keeps, and those that it reduces."""


def strips(ops: Sequence[Operation], hints: Hints, machine: Machine, least: int) -> dict[NestOp, list[Cut]]:
    """The sums of columns of tensors of at least so many elements that are reduced along their rows too: how their
    reduced dims are cut.
    """
    nests = [o for o in ops if isinstance(o, NestOp) and o.combine.data and o.scan is None]
    large = [o for o in nests if hints.points((*o.dims, *o.reduce)) >= least and len(o.dims)]
    if not any(map(is_sum, large)):
        return {}
    sources = _Sources(ops, hints, least)
    rows: dict[tuple[SSAValue, Way], NestOp] = {}
    columns: list[tuple[NestOp, SSAValue, Way]] = []
    for o in large:
        if contraction_of_nest(o) is not None:
            continue
        for v, moves in sources.of(o).items():
            kept, reduced = _along(moves, o.dims), _along(moves, o.reduce)
            if kept and reduced:
                rows.setdefault((v, (reduced, kept)), o)
                if is_sum(o) and len(moves) - 1 in kept - reduced and _reads_once(o, moves):
                    columns.append((o, v, (kept, reduced)))
    position = {o: i for i, o in enumerate(ops)}
    found: dict[NestOp, list[Cut]] = {}
    for o, v, way in columns:
        row = rows.get((v, way))
        if o in found or not _fits(o, machine):
            continue
        beside = row is not None and not _needs(row, o, position)
        if not beside and ((machine.sums and not sources.after_rows(v)) or not sources.stored(v, o, position)):
            continue
        wanted = machine.strips * max(1, ROW // hints.points(tuple(o.dims)) if machine.sums else 1)
        few = max(LEAST, -(-hints.points(tuple(o.reduce)) // wanted))
        if cuts := cuts_of([hints.size(d.extent) for d in o.reduce], few, wanted):
            found[o] = cuts
    return found


def _needs(o: Operation, other: Operation, position: Mapping[Operation, int]) -> bool:
    """Whether an op is computed from another one."""
    waiting, seen = [o], {o}
    while waiting:
        at = waiting.pop()
        if at is other:
            return True
        loaded = (v for r in at.regions for b in r.blocks for inner in b.ops for v in inner.operands)
        owners = (v.owner for v in (*at.operands, *loaded))
        above = {x for x in owners if isinstance(x, Operation) and position.get(x, -1) >= position[other]} - seen
        seen |= above
        waiting += above
    return False


def _fits(o: NestOp, machine: Machine) -> bool:
    """Whether a grid point has room for the sums of all columns."""
    columns = expr.product(d.extent for d in o.dims)
    return not machine.sums or (isinstance(columns, int) and columns <= machine.sums)


def is_sum(o: NestOp) -> bool:
    return [k.data for k in o.combine.data] == ["add"] and tensor_type(o.res[0]).dtype in SUMMED


def _reads_once(o: NestOp, moves: Moves) -> bool:
    """Whether no two points of a nest read the same element: a factor of a product is read again."""
    return {d.symbol for d in (*o.dims, *o.reduce)} <= frozenset[sympy.Symbol]().union(*moves)


def _along(moves: Moves, dims: Iterable[LoopDim]) -> frozenset[int]:
    """The dims of a tensor that move with some of these dims of a nest."""
    symbols = {d.symbol for d in dims}
    return frozenset(i for i, m in enumerate(moves) if m & symbols)


def cuts_of(sizes: Sequence[int], least: int, wanted: int) -> list[Cut]:
    """The outer dims point by point, and so many points of the next one that parts have at least `least`, more where
    there would be more parts than `wanted`: so each part is a run of rows. Empty where all is one.
    """
    cuts: list[Cut] = []
    parts, inside = 1, math.prod(sizes)
    for i, n in enumerate(sizes):
        inside //= max(n, 1)
        few = max(-(-least // max(inside, 1)), -(-n * parts // wanted) if cuts else 1)
        rows = next((m for m in range(few, few + few // 2 + 1) if n % m == 0), few)
        if 2 * rows <= n:
            cuts.append((i, rows))
        if few > 1:
            break
        parts *= n
    return cuts


class _Sources:
    """The large tensors that nests read, through pointwise nests that make what they read."""

    def __init__(self, ops: Iterable[Operation], hints: Hints, least: int) -> None:
        self.hints, self.least = hints, least
        plain = (o for o in ops if isinstance(o, NestOp) and not o.combine.data and o.scan is None)
        self.producers: Mapping[SSAValue, NestOp] = {r: o for o in plain for r in o.res}
        self._known: dict[NestOp, dict[SSAValue, Moves]] = {}

    def stored(self, v: SSAValue, column: NestOp, position: Mapping[Operation, int]) -> bool:
        """Whether v is computed, and stored, or something is that pointwise nests make of it without the sum of its
        columns.
        """
        if v not in self.producers or self.hints.points(tuple(column.dims)) < WIDE or self._is_of_product(column):
            return False
        seen, waiting = {v}, [v]
        while waiting:
            value = waiting.pop()
            for reader in {outermost(use.operation, position) for use in value.uses} - {column}:
                if not isinstance(reader, NestOp):
                    return True
                if contraction_of_nest(reader) is not None and self._is_computed(value):
                    return True
                made = [r for r in reader.res if r not in seen and self.producers.get(r) is reader]
                if made and not _needs(reader, column, position):
                    seen.update(made)
                    waiting += made
        return False

    def after_rows(self, v: SSAValue) -> bool:
        """Whether v is made of what a reduction gives, as the rows of a norm's gradient are. Programs of a GPU that go
        from element to element alone are faster without order, also if what they store is read once more.
        """
        seen, waiting = set[SSAValue](), [v]
        while waiting:
            producer = self.producers.get(waiting.pop())
            for load in () if producer is None else producer.body.block.ops:
                if isinstance(load, LoadOp) and load.source not in seen:
                    owner = load.source.owner
                    if isinstance(owner, NestOp) and owner.combine.data and not owner.scan:
                        return True
                    seen.add(load.source)
                    waiting.append(load.source)
        return False

    def _is_of_product(self, column: NestOp) -> bool:
        """Whether it sums what is made at the points of a product of matrices, whose kernel takes tiles, no rows."""
        points = self.hints.points((*column.dims, *column.reduce))
        seen, waiting = {column}, [column]
        while waiting:
            for v in (o.source for o in waiting.pop().body.block.ops if isinstance(o, LoadOp)):
                owner = v.owner
                if not isinstance(owner, NestOp) or owner in seen or self.hints.points(tuple(owner.dims)) != points:
                    continue
                if contraction_of_nest(owner) is not None:
                    return True
                if v in self.producers:
                    seen.add(owner)
                    waiting.append(owner)
        return False

    def _is_computed(self, v: SSAValue) -> bool:
        """Whether a nest does more than to convert another tensor."""
        producer = self.producers.get(v)
        if producer is None:
            return False
        loads = [o for o in producer.body.block.ops if isinstance(o, LoadOp)]
        ops = len(list(producer.body.block.ops)) - 1  # without the yield
        return self._is_computed(loads[0].source) if len(loads) == 1 and ops <= 2 else True

    def of(self, o: NestOp, depth: int = 0) -> dict[SSAValue, Moves]:
        """Those of a nest."""
        known = self._known.get(o)
        if known is not None:
            return known
        found: dict[SSAValue, Moves] = {}
        symbols = {d.symbol for d in (*o.dims, *o.reduce)}
        for load in o.body.block.ops:
            if not isinstance(load, LoadOp) or self.hints.bytes(load.source) < 2 * self.least:
                continue
            index: IndexAttr = load.index
            moves = tuple(frozenset(expr.symbols(e) & symbols) for e in index)
            found.setdefault(load.source, moves)
            producer = self.producers.get(load.source)
            if producer is None or depth >= DEPTH:
                continue
            out = producer.out.data.items if producer.out is not None else tuple(d.symbol for d in producer.dims)
            of: dict[sympy.Symbol, frozenset[sympy.Symbol]] = {}
            for e, m in zip(out, moves, strict=True):
                for s in expr.symbols(e):
                    of[s] = of.get(s, frozenset()) | m
            for v, inner in self.of(producer, depth + 1).items():
                if v not in found:
                    found[v] = tuple(frozenset(t for s in m for t in of.get(s, ())) for m in inner)
        self._known[o] = found
        return found
