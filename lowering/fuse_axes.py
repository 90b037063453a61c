"""Axes of two groups that run along the same: what one reads of the other, and what both read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from xdsl.ir import SSAValue

from ..dialects import expr
from ..dialects.expr import Dim
from .fuse_graph import Node, Read
from .fuse_index import point_of
from .fuse_plan import Axis, Group

Edge = tuple[Node, Node, Read]
"""A reader, a producer, and what is read."""

_Part = tuple[Dim, Node, dict[Any, Axis]]
"""A part of an index of a member, whose axes have the names of its dims."""


def edges(a: Group, b: Group) -> list[Edge]:
    """What `b` reads of `a`, then what `a` reads of `b`."""
    return [*_read(a, b), *_read(b, a)]


def _read(a: Group, b: Group) -> Iterator[Edge]:
    produced = {r: n for n in a.members for r in n.results}
    return ((n, produced[r.source], r) for n in b.members for r in n.reads if r.source in produced)


def named(g: Group, n: Node) -> dict[Any, Axis]:
    """The axes of a member by the symbols of its domain."""
    return {d.symbol: x for d, x in zip(n.domain, g.axes[n], strict=True)}


def alike(a: Group, b: Group, edges: Sequence[Edge]) -> Iterator[tuple[Axis, Axis]]:
    """Axes of `a`, each with one of `b` along the same dim of a tensor: along edges first, then where both read one."""
    for n, p, read in edges:
        point = point_of(n, p, read)
        if point is None:
            continue
        producer, reader = (a, b) if n in b.axes else (b, a)
        reading = named(reader, n)
        for d, x in zip(p.dims, producer.axes[p], strict=False):
            y = reading.get(point[d.symbol])
            if y is not None:
                yield (x, y) if producer is a else (y, x)
    first: dict[SSAValue, tuple[Node, Read]] = {}
    for n in a.members:
        for r in n.reads:
            first.setdefault(r.source, (n, r))
    for n in b.members:
        mine = named(b, n)
        for r in n.reads:
            if r.source in first:
                m, s = first[r.source]
                theirs = named(a, m)
                for e, f in zip(s.index, r.index, strict=True):
                    if e in theirs and f in mine:
                        yield theirs[e], mine[f]
                    else:
                        yield from _moving_alike((e, m, theirs), (f, n, mine))


def _moving_alike(a: _Part, b: _Part) -> Iterator[tuple[Axis, Axis]]:
    """The axes that move two parts of an index, where these are the same: `2*d2 + r0 - 1`, of windows."""
    xs, ys = _moving(a), _moving(b)
    if len(xs) == len(ys) > 0 and a[0] == expr.substitute(b[0], dict(zip(ys, xs, strict=True))):
        yield from ((a[2][x], b[2][y]) for x, y in zip(xs, ys, strict=True))


def _moving(part: _Part) -> list[Any]:
    e, n, _ = part
    symbols = expr.symbols(e)
    return [d.symbol for d in n.domain if d.symbol in symbols]
