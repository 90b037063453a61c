"""In what order a scatter's updates run: dims along which no two meet are parallel, the others keep their order.

A dim that stands by itself in the target's index (`d1` of `[v0, d1]`) sends different points to different places. It
may be a dim of the grid if besides it runs over all of that dimension of the target, so that a grid point copies from
the base what it updates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import sympy

from ..dialects.loop import LoopDim, ScatterOp, YieldAtOp
from .fuse_graph import Node, tensor_type


@dataclass(frozen=True)
class UpdateOrder:
    """Positions of a scatter's dims by where they run: grid, then in order, then inside of these in any order."""

    grid: tuple[int, ...]
    ordered: tuple[int, ...]
    free: tuple[int, ...]
    places: dict[int, int]
    """For a dimension of the target, the dim that runs over all of it."""


def update_order(n: Node) -> UpdateOrder:
    """The order for a scatter: free dims are those behind the last one along which updates may meet."""
    op = cast(ScatterOp, n.op)
    index = cast(YieldAtOp, op.body.block.last_op).index
    shape = tensor_type(op.res).shape
    position = {d.symbol: i for i, d in enumerate(n.dims)}
    plain = {position[e]: p for p, e in enumerate(index) if isinstance(e, sympy.Symbol) and e in position}
    places = {p: i for i, p in plain.items() if _covers(n.dims[i], shape[p])}
    meeting = [i for i, d in enumerate(n.dims) if i not in plain and d.extent != 1]
    last = meeting[-1] if meeting else len(n.dims) - 2
    # behind them loops run along memory, before them nothing but the grid would
    grid = tuple(i for i in range(last + 1) if i in places.values())
    if not meeting:
        return UpdateOrder(grid, (), tuple(i for i in range(len(n.dims)) if i not in grid), places)
    ordered = tuple(i for i in range(last + 1) if i not in grid)
    return UpdateOrder(grid, ordered, tuple(range(last + 1, len(n.dims))), places)


def _covers(d: LoopDim, size: object) -> bool:
    return d.lo == 0 and d.hi == size
