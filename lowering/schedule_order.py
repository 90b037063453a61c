"""The order in which a kernel's points come: those that read the same row stand together.

loop.kernel @add … grid [d0 = 4, d1 = 256] { … load %x[d0, d1, d2] … load %p[d1, d2] … }
loop.kernel @add … grid [d1 = 256, d0 = 4] { … }

Positions, masks and biases that a batch shares are read once then, not once for each of its members, where no cache
holds all that comes between; and threads, which take runs of points, do not all read the whole of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import prod

from xdsl.ir import SSAValue

from ..dialects import expr
from ..dialects.loop import DimsAttr, ForOp, KernelOp, LoopDim, body_ops
from .fuse_cost import Hints, Machine
from .schedule_access import Access, accesses, buffer_of
from .schedule_dims import bytes_of

WORTH = 1 / 16
"""The share of a thread's traffic that must be saved: points one after the other are read as one stream."""

STREAMS = 32
"""Points that may share a row: each of them reads and writes somewhere else."""


@dataclass
class _Row:
    """What a point reads or writes of a buffer: how many bytes, and along which dims of the grid it moves."""

    bytes: int = 0
    along: set[str] = field(default_factory=set[str])


def order_points(kernel: KernelOp, machine: Machine, hints: Hints) -> None:
    """Move one dim of the grid to its end if that saves traffic."""
    grid = list(kernel.grid)
    total = sum(hints.bytes(v) for v in kernel.body.block.args)
    # tiles of rows and columns ask for the one beside them
    if len(grid) < 2 or total <= machine.l2 or any("transpose" in o.attributes for o in body_ops(kernel.body)):
        return
    rows = list(_rows(kernel, hints).values())
    few = [d for d in grid[:-1] if hints.size(d.extent) <= STREAMS and any(d.name not in r.along for r in rows)]
    last = [[*(x for x in grid if x is not d), d] for d in few]
    best = min(last, key=lambda order: _traffic(order, rows, machine, hints), default=grid)
    if _traffic(best, rows, machine, hints) < (1 - WORTH) * _traffic(grid, rows, machine, hints):
        kernel.properties["grid"] = DimsAttr.get(best)


def _rows(kernel: KernelOp, hints: Hints) -> dict[SSAValue, _Row]:
    """Each buffer's row."""
    args = set(kernel.body.block.args)
    found: dict[SSAValue, _Row] = {}
    for a in accesses(body_ops(kernel.body)):
        if buffer_of(a) not in args:
            continue
        row, size = found.setdefault(buffer_of(a), _Row()), bytes_of(a)
        names = {s.name for e in a.index for s in expr.symbols(e)}
        for d in _around(a):
            if d.name in names:
                size *= hints.size(d.extent)
                names |= {s.name for s in expr.symbols(d.lo) | expr.symbols(d.hi)}
        row.bytes = max(row.bytes, size)
        # where data says what is read, points have nothing in common that one could tell
        row.along |= set(kernel.grid.names) if a.indices else names & set(kernel.grid.names)
    return found


def _around(a: Access) -> Iterator[LoopDim]:
    """The dims of the loops around an access, from the inside."""
    op = a.parent_op()
    while isinstance(op, ForOp):
        yield from reversed(tuple(op.dims))
        op = op.parent_op()


def _traffic(order: Sequence[LoopDim], rows: Sequence[_Row], machine: Machine, hints: Hints) -> float:
    """Bytes that one thread moves from or to what is beyond its second-level cache."""
    extents: dict[str, int] = {}
    threads = machine.threads
    for d in order:
        n = max(1, hints.size(d.extent))
        extents[d.name] = -(-n // threads)
        threads = max(1, threads // n)
    names = [d.name for d in order]

    def between(d: str) -> float:
        """What is touched until `d` has grown by 1."""
        inner = names[names.index(d) + 1 :]
        return sum(r.bytes * prod(extents[x] for x in inner if x in r.along) for r in rows)

    total = 0.0
    for r in rows:
        read = r.bytes * prod(extents[x] for x in r.along)
        outside = [x for i, x in enumerate(names) if x not in r.along and r.along & set(names[i + 1 :])]
        total += read * prod(extents[x] for x in outside if between(x) > machine.l2)
    return total
