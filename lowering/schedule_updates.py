"""Updates that may meet run one after the other; threads share them by columns of the target.

    for [d0 = 8192] { i = load %i[d0]; for [d1 = 768] { store %v, %y[i, d1] combine add } }
    grid [b0 = 3]: for [d0 = 8192] { i = load %i[d0]; for [d1 = 256*b0 : 256*b0 + 256] {…} }

Every grid point goes through all updates in order, so the result does not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.ir import Operation

from ..dialects.loop import DimsAttr, ForOp, KernelOp, LoopDim, StoreOp, body_ops
from .fuse_cost import Hints, Machine
from .schedule_access import accesses, buffer_of
from .schedule_columns import LEAST as COLUMNS
from .schedule_dims import blocked
from .schedule_kernel import GRAIN


def spread(kernel: KernelOp, machine: Machine, hints: Hints) -> None:
    """Cut the columns of updates into blocks, where the grid has no points for all threads and the work is worth it."""
    points = hints.points(tuple(kernel.grid))
    d = _column(kernel)
    if d is None or points >= machine.threads:
        return
    if points * sum(_bytes(o, hints) for o in kernel.body.block.ops) < 2 * GRAIN:
        return
    shares = -(-machine.threads // max(points, 1))
    size = COLUMNS * max(1, -(-hints.size(d.extent) // (COLUMNS * shares)))
    block, dim = blocked(d, "b0", size)
    if not block:
        return
    kernel.properties["grid"] = DimsAttr.get([*kernel.grid, *block])
    for loop in _loops(kernel.body.block.ops):
        loop.properties["dims"] = DimsAttr.get(dim if x.name == d.name else x for x in loop.dims)


def _loops(ops: Iterable[Operation]) -> list[ForOp]:
    found = [o for o in ops if isinstance(o, ForOp)]
    return [*found, *(inner for o in found for inner in body_ops(o.body) if isinstance(inner, ForOp))]


def _column(kernel: KernelOp) -> LoopDim | None:
    """The last dim of the loop inside of updates that may meet, if all loops keep to its part of what they write."""
    ops = list(body_ops(kernel.body))
    updates = [o for o in ops if isinstance(o, StoreOp) and (o.indices or o.combine is not None)]
    around = updates[0].parent_op() if updates else None
    if not isinstance(around, ForOp) or not isinstance(around.parent_op(), ForOp):
        return None
    d = around.dims[-1]
    loops = [o for o in kernel.body.block.ops if isinstance(o, ForOp)]
    if d.lo != 0 or any(o.reduce.data for o in _loops(loops)):
        return None
    if any(isinstance(o, StoreOp) for o in kernel.body.block.ops):
        return None
    written = {o.target for o in ops if isinstance(o, StoreOp)}
    touching = [a for a in accesses(ops) if buffer_of(a) in written]
    if not all(any(e == d.symbol for e in a.index) for a in touching):
        return None
    return d if all(d in x.dims or any(d in y.dims for y in _loops(x.body.block.ops)) for x in loops) else None


def _bytes(o: Operation, hints: Hints) -> int:
    """A guess at what the loops of a grid point store, in bytes of four per element."""
    if not isinstance(o, ForOp):
        return 4 * isinstance(o, StoreOp)
    return hints.points(tuple(o.dims)) * sum(_bytes(inner, hints) for inner in o.body.block.ops)
