"""Two groups as one: which axes of both iterate together, and which are left to the grid."""

from __future__ import annotations

from collections.abc import Sequence

from ..dialects import expr
from .fuse_axes import Edge, alike, edges, named
from .fuse_index import point_of
from .fuse_plan import Axis, Group
from .fuse_turns import common_turns, merge_in_turn


def merge_groups(a: Group, b: Group) -> Group | None:
    """The group of both; None if no kernel fits both."""
    return merge_in_turn(a, b) or merge_in_turn(b, a) or _merge(a, b)


def _merge(a: Group, b: Group) -> Group | None:
    """The group of both, axes of `b` that iterate with axes of `a` named alike."""
    reads = edges(a, b)
    shared = _unify(a, b, reads)
    fresh = max(a.extents, default=-1) + 1
    rename: dict[Axis, Axis] = {}
    for axis in b.extents:
        rename[axis] = shared.get(axis, fresh + axis)
    axes = a.axes | {n: tuple(rename[x] for x in xs) for n, xs in b.axes.items()}
    extents = {rename[x]: d for x, d in b.extents.items()} | a.extents
    members = sorted((*a.members, *b.members), key=lambda n: n.number)
    theirs = {rename[x]: None for x in b.grid}
    in_turn = {*a.turns, *(rename[x] for x in b.turns)}
    # where an axis has one point, nests that do not have it are at that point
    single = {x for x, (d, _) in extents.items() if d.extent == 1}
    alone = single - (a.extents.keys() & {rename[x] for x in b.extents})
    grid = [x for x in a.grid if x in theirs or x in alone]
    grid += [x for x in theirs if x in alone]
    for n, p, read in reads:
        point = point_of(n, p, read)
        if point is None:
            return None
        reading = {d.symbol: x for d, x in zip(n.domain, axes[n], strict=True)}
        for d, x in zip(p.dims, axes[p], strict=False):
            if x in grid and x not in single and reading.get(point[d.symbol]) != x:  # pyright: ignore[reportArgumentType]
                grid.remove(x)
            elif x in in_turn and reading.get(point[d.symbol]) != x:  # pyright: ignore[reportArgumentType]
                return None
    turns = common_turns(a, b, rename)
    if turns is None or (turns and {*grid} != {*(a.grid if a.turns else theirs)}):
        return None
    merged = Group(members, axes, extents, tuple(grid), turns)
    if turns and any(merged.adds_up(p) for _, p, _ in reads):
        return None  # it is there when all rows have had their turn
    return merged if _ordered(merged, a, b, bool(reads)) else None


def _unify(a: Group, b: Group, reads: Sequence[Edge]) -> dict[Axis, Axis]:
    """Axes of `b` that may iterate with axes of `a`."""
    shared: dict[Axis, Axis] = {}
    taken: set[Axis] = set()

    def propose(x: Axis, y: Axis) -> None:
        if x in taken or y in shared:
            return
        (p, owner), (q, other) = a.extents[x], b.extents[y]
        if p.lo != q.lo or p.hi != q.hi:
            return
        if p.lo != 0:
            # parts: the dims that count them go together first
            xs, ys = named(a, owner), named(b, other)
            counting = [s for s in expr.symbols(p.lo) if s in xs and s in ys]
            for s in counting:
                propose(xs[s], ys[s])
            if any(shared.get(ys[s]) != xs[s] for s in counting):
                return
        shared[y] = x
        taken.add(x)

    for x, y in alike(a, b, reads):
        propose(x, y)
    return shared


def _ordered(merged: Group, a: Group, b: Group, connected: bool) -> bool:
    """Whether loops inside a grid point still run along the last dims of every nest, as they did before."""
    for n in merged.members:
        inside = [x not in merged.grid and x not in merged.turns for x in merged.axes[n][: len(n.dims)]]
        if not inside or not any(inside) or all(inside[inside.index(True) :]):
            continue
        before = a if n in a.axes else b
        if set(before.inner(n)) != set() and connected:
            continue
        return False
    return True
