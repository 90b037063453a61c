"""Rows in turn: a grid point that takes the rows of a strip one after the other, and adds up columns on the way.

    sum over columns of x[r, c]  and  sum over the rows of strip p of x[r, c]

have no loop in common, but a grid point that is a strip has both: for each of its rows all that the row needs, with the
sums of columns in a buffer. So a tensor is read once for the gradients of a layer norm's input and of its weight.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import sympy

from ..dialects import expr
from ..dialects.expr import Dim
from ..dialects.loop import LoopDim
from .fuse_axes import Edge, alike, edges, named
from .fuse_graph import Node, tensor_type
from .fuse_index import point_of
from .fuse_plan import Axis, Group

SUMMED = frozenset({"f32", "f64", "i32", "i64"})
"""dtypes that are added up in memory."""


def merge_in_turn(a: Group, b: Group) -> Group | None:
    """The group of both, where the rows of `a` are those that `b` adds up, or takes in turn; else None."""
    strip = _strip(b)
    if strip is None or a.turns or any(n.scan is not None or n.asserts for n in (*a.members, *b.members)):
        return None
    counting, rows = strip
    reads = edges(a, b)
    if any(p in b.axes and (b.adds_up(p) or not b.turns) for _, p, _ in reads):
        return None  # what is added up is there when all rows have had their turn
    same = _same(a, b, reads)  # axes of `a`: those of `b`
    mine = {y: x for x, y in same.items()}
    if not all(y in mine and mine[y] in a.grid and _covers(b, y, a.extents[mine[y]][0]) for y in rows):
        return None
    if any(same.get(x) in counting or (x not in same) for x in a.grid):
        return None
    fresh = max(b.extents, default=-1) + 1
    rename = {x: same.get(x, fresh + x) for x in a.extents}
    axes = b.axes | {n: tuple(rename[x] for x in xs) for n, xs in a.axes.items()}
    extents = {rename[x]: d for x, d in a.extents.items()} | b.extents
    members = sorted((*a.members, *b.members), key=lambda n: n.number)
    turns = tuple(y for x in a.grid if (y := same[x]) in rows)
    merged = Group(members, axes, extents, tuple(x for x in b.grid if x in counting), turns)
    if not all(_takes_turns(merged, n) for n in a.members):
        return None
    for n, p, read in reads:
        point = point_of(n, p, read)
        if point is None:
            return None
        reading = {d.symbol: x for d, x in zip(n.domain, axes[n], strict=True)}
        places = {x: point[d.symbol] for d, x in zip(p.dims, axes[p], strict=False)}
        if any(reading.get(places[y]) != y for y in turns):  # pyright: ignore[reportArgumentType]
            return None
    return merged if all(_in_order(merged, n) for n in members) else None


def common_turns(a: Group, b: Group, rename: Mapping[Axis, Axis]) -> tuple[Axis, ...] | None:
    """The rows that both take in turn, or that one takes and the other adds up; () for neither, None where they differ.
    `rename` has the axes of `b` in the group of both.
    """
    theirs = tuple(rename[y] for y in b.turns)
    if a.turns == theirs:
        return a.turns
    rows, strip = (theirs, _strip(a)) if theirs and not a.turns else (a.turns, _strip(b) if not theirs else None)
    if strip is None:
        return None
    added = set(strip[1]) if theirs else {rename[y] for y in strip[1]}
    return rows if added == set(rows) else None


def _strip(g: Group) -> tuple[frozenset[Axis], tuple[Axis, ...]] | None:
    """The axes of a group that count strips, and those of the rows of one; None where it has none."""
    rows = g.turns
    if not rows:
        first = g.members[0]
        rows = g.axes[first][len(first.dims) :]
        for n in g.members:
            if n.combine != ("add",) or g.axes[n][len(n.dims) :] != rows or n.contraction:
                return None
            if tensor_type(n.results[0]).dtype not in SUMMED:
                return None
    counting: set[Axis] = set()
    for y in rows:
        d, owner = g.extents[y]
        own = named(g, owner)
        counting |= {own[s] for s in expr.symbols(d.lo) if s in own}
    return (frozenset(counting), rows) if counting and counting <= set(g.grid) else None


def _covers(g: Group, y: Axis, whole: LoopDim) -> bool:
    """Whether the strips of an axis are all of a dim."""
    d, owner = g.extents[y]
    if d.lo == 0 or whole.lo != 0:
        return d.lo == whole.lo and d.hi == whole.hi
    (counting,) = (x for s, x in named(g, owner).items() if s in expr.symbols(d.lo))
    if isinstance(d.hi, sympy.Min):
        return any(expr.normal(bound) == whole.hi for bound in d.hi.args)
    covered: Dim = expr.normal(g.extent(counting) * d.extent)  # pyright: ignore[reportOperatorIssue]
    return covered == whole.hi


def _same(a: Group, b: Group, reads: Sequence[Edge]) -> dict[Axis, Axis]:
    """Axes of `a` that run along the same dim of a tensor as axes of `b`, whose strips are all of it."""
    same: dict[Axis, Axis] = {}
    for x, y in alike(a, b, reads):
        if x not in same and y not in same.values() and _covers(b, y, a.extents[x][0]):
            same[x] = y
    return same


def _takes_turns(g: Group, n: Node) -> bool:
    """Whether a member is computed row by row, in no more loops than it had."""
    return all(y in g.axes[n][: len(n.dims)] for y in g.turns)


def _in_order(g: Group, n: Node) -> bool:
    """Whether loops inside of a row run along the last dims of a nest."""
    inside = [x not in g.grid and x not in g.turns for x in g.axes[n][: len(n.dims)]]
    return not any(inside) or all(inside[inside.index(True) :])
