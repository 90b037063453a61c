"""Several points of a kernel's dims as straight code: what they share is there once, a loop has all sums."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Any

import sympy
from xdsl.ir import Attribute, Block, Operation, SSAValue

from ..dialects import expr
from ..dialects.expr import Dim
from ..dialects.loop import AssertOp, ForOp, IndexAttr, LoopDim, PredAttr, StoreOp, YieldOp
from .index_simplify import Facts, facts


def written_out(
    dims: Iterable[LoopDim], ops: Sequence[Operation], tiles: Mapping[str, int], prefix: str, around: Iterable[LoopDim]
) -> tuple[list[LoopDim], list[Operation]]:
    """The dims that count tiles, and new ops for all points of a tile."""
    counting: list[LoopDim] = []
    steps: list[tuple[sympy.Symbol, Dim, int]] = []
    for d in dims:
        n = tiles.get(d.name)
        if n is None:
            counting.append(d)
            continue
        t: Dim = 0
        if d.extent != n:
            t = expr.symbol(f"{prefix}{len(steps)}")
            counting.append(LoopDim(t.name, 0, expr.floordiv(d.extent, n)))
        steps.append((d.symbol, expr.normal(d.lo + t * n), n))  # pyright: ignore[reportOperatorIssue]
    points: list[dict[sympy.Symbol, Dim]] = [
        {d: expr.normal(start + i) for (d, start, _), i in zip(steps, at, strict=True)}  # pyright: ignore
        for at in product(*(range(n) for _, _, n in steps))
    ]
    tile = Tile(points, facts((*around, *counting)))
    tile.ops(ops)
    return counting, tile.made


class Tile:
    """The ops of several points under construction, each op once for all points at which it is the same."""

    def __init__(self, points: Sequence[Mapping[sympy.Symbol, Dim]], known: Facts) -> None:
        self.points, self.known = points, known
        self.values: list[dict[SSAValue, SSAValue]] = [{} for _ in points]
        self.made: list[Operation] = []
        self._there: dict[Any, Operation] = {}

    def ops(self, ops: Sequence[Operation]) -> None:
        """Append what ops become, each for all points before the next: elements are read before any is written."""
        for op in ops:
            if isinstance(op, ForOp):
                self._loop(op)
                continue
            for k in range(len(self.points)):
                self._op(op, k)

    def _op(self, op: Operation, k: int) -> None:
        values = self.values[k]
        operands = tuple(values.get(v, v) for v in op.operands)
        properties = {name: self._at(a, k) for name, a in op.properties.items()}
        key = (type(op), operands, tuple(properties.items()), tuple(op.result_types))
        new = None if isinstance(op, StoreOp | AssertOp) else self._there.get(key)
        if new is None:
            new = self._there[key] = type(op).create(
                operands=operands,
                result_types=op.result_types,
                properties=properties,
                attributes=op.attributes,
                location=op.location,
            )
            self.made.append(new)
        values.update(zip(op.results, new.results, strict=True))

    def _at(self, a: Attribute, k: int) -> Attribute:
        point = self.points[k]
        if isinstance(a, IndexAttr):
            return IndexAttr.get(self.known.simplify(expr.substitute(e, point)) for e in a)
        if isinstance(a, PredAttr):
            return PredAttr.get(self.known.relation(expr.substitute(r, point)) for r in a)
        return a

    def _loop(self, loop: ForOp) -> None:
        """One loop that gives the reductions of all points."""
        outside = self.made, self._there, self.known
        self.made, self._there = [], dict(self._there)
        *body, last = loop.body.block.ops
        self.ops(body)
        yields = [values.get(v, v) for values in self.values for v in last.operands]
        made = self.made
        self.made, self._there, self.known = outside
        n = len(self.points)
        new = ForOp.make(
            loop.dims,
            Block([*made, YieldOp.create(operands=yields, location=last.location)]),
            reduce=[kind.data for kind in loop.reduce.data] * n,
            result_types=list(loop.result_types) * n,
            attributes=dict(loop.attributes),
            location=loop.location,
        )
        self.made.append(new)
        results = iter(new.results)
        for values in self.values:
            values.update((r, next(results)) for r in loop.results)
