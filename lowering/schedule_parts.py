"""Both parts of complex numbers at one point of the grid: straight code, which can be vectors of numbers and computes
once what both parts need.

    grid [d0 = 512, d1 = 2]: select(d1 < 1, f(load %x[d0, 0], load %x[d0, 1]), g(…)); store %y[d0, d1]
    grid [d0 = 512]: %a = load %x[d0, 0]; %b = load %x[d0, 1]; …; store f, %y[d0, 0]; store g, %y[d0, 1]

All is read before anything is written, so that a kernel may write over what it reads.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Final

import sympy
from xdsl.dialects import arith
from xdsl.ir import Block, Operation, SSAValue

from ..dialects import expr
from ..dialects.loop import ALONG, DimsAttr, ForOp, KernelOp, LoadOp, LoopDim, PredAttr, StoreOp
from .fuse_emit import drop_unused
from .index_simplify import facts
from .index_split import substitute_body
from .schedule_segments import decided

PARTS: Final = 2

OPS: Final = 512
"""Ops that a point may come to."""


def write_parts_out(kernel: KernelOp) -> None:
    """Take the last dim from the grid, or the loop over it, in place, where it counts parts that are computed in
    different ways.
    """
    found = _candidate(kernel)
    if found is None:
        return
    last, grid, inner, place = found
    block, ops = kernel.body.block, list(inner.ops)[:-1]
    if (last.lo, last.hi) != (0, PARTS) or not _is_written_out(ops, last.symbol):
        return
    known = facts(tuple(grid))
    made: dict[Hashable, Operation] = {}
    stores: list[Operation] = []
    for part in range(PARTS):
        body = substitute_body(inner, {last.symbol: part}, known)
        values: dict[SSAValue, SSAValue] = dict(zip(body.args, inner.args, strict=True))
        for op in decided(list(body.ops)[:-1], known)[0]:
            op.operands = [values.get(v, v) for v in op.operands]
            if isinstance(op, StoreOp):
                stores.append(op)
                continue
            key = (op.name, *op.operands, *op.result_types, *sorted(op.properties.items()))
            same = made.setdefault(key, op)
            values.update(zip(op.results, same.results, strict=True))
            if same is op:
                block.insert_op_before(op, place)
        for op in reversed(list(body.ops)):
            op.detach()
            op.erase()
    block.insert_ops_before(stores, place)
    for op in [place] if inner is not block else reversed(ops):
        op.detach()
        op.erase()
    drop_unused(block)
    kernel.properties["grid"] = DimsAttr.get(grid)


def _candidate(kernel: KernelOp) -> tuple[LoopDim, list[LoopDim], Block, Operation] | None:
    """A dim that may count parts: the only loop of a kernel, or the last dim of the grid of one without loops; the grid
    without it, the block that is run over it, and the op that its code is to stand before.
    """
    block, grid = kernel.body.block, list(kernel.grid)
    match [o for o in block.ops if not isinstance(o, arith.ConstantOp)]:
        case [ForOp() as loop, _] if len(loop.dims) == 1 and not loop.results:
            return next(iter(loop.dims)), grid, loop.body.block, loop
        case [*_, end] if grid:
            return grid[-1], grid[:-1], block, end
        case _:
            return None


def _is_written_out(ops: Sequence[Operation], part: sympy.Symbol) -> bool:
    """Whether a point is straight code that asks for the part, and reads nothing that it writes."""
    stored = {o.target for o in ops if isinstance(o, StoreOp)}
    for o in ops:
        if o.regions or o.name in (*ALONG, "loop.assert") or (isinstance(o, StoreOp) and o.combine):
            return False
        if isinstance(o, LoadOp) and o.source in stored:
            return False
    asked = (r for o in ops for p in o.properties.values() if isinstance(p, PredAttr) for r in p)
    return any(part in expr.symbols(r) for r in asked) and PARTS * len(ops) <= OPS
