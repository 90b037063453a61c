"""Kernels that reduce along an outer dim: blocks of neighbouring columns run side by side, the reductions inside.

grid [d0 = 4096]: %s = for [r0 = 4096] reduce [add] { load %x[r0, d0] }; store %s, %y[d0]
grid [b0 = 16]: for [d0 = 256*b0 : 256*b0 + 256] { %s = for [r0 = 4096] reduce [add] {…}; store %s, %y[d0] }
"""

from __future__ import annotations

from ..dialects import expr
from ..dialects.loop import DimsAttr, ForOp, IndexAttr, KernelOp, LoopDim, ScratchOp, SortOp, body_ops
from ..dialects.tensor import TensorType
from .fuse_cost import Hints, Machine
from .schedule_access import accesses, buffer_of
from .schedule_dims import best_dim, blocked, move_into_loop, unit_weight
from .schedule_strips import COLUMNS, make_strips, strips_of

LEAST, MOST = 64, 256
"""Columns of a grid point: whole lines of a cache, and so many that pages are read in long runs."""


SHORT = 8
"""Points of a dim from which on it is long enough for vectors."""


def column_dim(kernel: KernelOp, hints: Hints) -> LoopDim | None:
    """The last dim of the grid, where the loops inside jump through memory and it does not."""
    if not len(kernel.grid) or any(isinstance(o, SortOp) for o in body_ops(kernel.body)):
        return None
    inner = [a for o in kernel.body.block.ops if isinstance(o, ForOp) for a in accesses(body_ops(o.body))]
    d = best_dim(list(kernel.grid), inner, hints)
    if d is None or hints.size(d.extent) < SHORT:
        return None
    loops = [o for o in kernel.body.block.ops if isinstance(o, ForOp)]
    dims = [d for o in loops for d in o.dims if hints.size(d.extent) >= SHORT]
    best = max((unit_weight(inner, d) for d in dims), default=0)
    return d if unit_weight(inner, d) > max(best, 0) else None


def columns(kernel: KernelOp, d: LoopDim, machine: Machine, hints: Hints) -> None:
    """Run blocks of neighbouring columns side by side: the whole body in a loop along `d`, as vectors."""
    strips = strips_of(kernel, d, hints, machine)
    width = _width(kernel, d, machine, hints, MOST if strips is None else COLUMNS)
    if width <= MOST:
        strips = None
    block, dim = blocked(d, "b0", width)
    grid = [x for g in kernel.grid for x in (block if g.name == d.name else [g])]
    kernel.properties["grid"] = DimsAttr.get(grid)
    for op in list(kernel.body.block.ops):
        if isinstance(op, ScratchOp):
            _widen_scratch(kernel, op, dim, width)
    move_into_loop(kernel, [dim])
    if strips is not None:
        make_strips(kernel, strips, width)


def _width(kernel: KernelOp, d: LoopDim, machine: Machine, hints: Hints, most: int) -> int:
    """Columns of a block: few where they are read twice, or where the threads would have too little to share."""
    if sum(isinstance(o, ForOp) for o in kernel.body.block.ops) > 1:
        return LEAST
    others = hints.points(tuple(g for g in kernel.grid if g.name != d.name))
    shares = -(-machine.threads // max(1, others))
    return max(LEAST, min(most, hints.size(d.extent) // shares // LEAST * LEAST))


def _widen_scratch(kernel: KernelOp, op: ScratchOp, d: LoopDim, block: int) -> None:
    """A scratch buffer of one column becomes one of all columns of the block."""
    t = op.res.type
    assert isinstance(t, TensorType)
    offset = expr.normal(d.symbol - d.lo)  # pyright: ignore[reportOperatorIssue]
    for a in accesses(body_ops(kernel.body)):
        if buffer_of(a) is op.res:
            a.properties["index"] = IndexAttr.get([*a.index, offset])
    width = d.extent if isinstance(d.extent, int) else block
    op.res._type = TensorType.get([*t.shape, width], t.dtype)  # pyright: ignore
