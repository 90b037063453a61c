"""Transposes through scratch: tiles are copied as they lie in memory, then read across.

for [d0 tile, d1 tile] { load %x[d1, d0]; … }
for [d1 tile, d0 tile] { store load %x[d1, d0], %t[d1, d0] }    for [d0 tile, d1 tile] { load %t[d1, d0]; … }
"""

from __future__ import annotations

from xdsl.ir import Block

from ..dialects import expr
from ..dialects.expr import Dim
from ..dialects.loop import DimsAttr, ForOp, IndexAttr, KernelOp, LoadOp, LoopDim, ScratchOp, StoreOp, YieldOp
from ..dialects.tensor import TensorType
from .schedule_access import stride, type_of


def stage(kernel: KernelOp, rows: LoopDim, columns: LoopDim, tile: tuple[int, int]) -> None:
    """In a kernel of one loop over tiles of `rows` and `columns`, read through scratch what lies along `rows`.

    No line is fetched more than once. A row of scratch is one element longer than the tile: strides that are powers of
    two meet in one set of a cache.
    """
    block = kernel.body.block
    loop = next(o for o in block.ops if isinstance(o, ForOp))
    at = IndexAttr.get([_within(columns), _within(rows)])
    for load in [o for o in loop.body.block.ops if isinstance(o, LoadOp)]:
        along = stride(load, rows.symbol), stride(load, columns.symbol)
        if along[0] != 1 or along[1] in (0, 1) or len(load.operands) > 1 or load.mask is not None:
            continue
        t = TensorType.get([tile[1], tile[0] + 1], type_of(load).dtype)
        scratch = ScratchOp.create(result_types=[t], location=load.location)
        copied = LoadOp.make(load.source, load.index, location=load.location)
        kept = StoreOp.make(copied.res, scratch.res, at, location=load.location)
        body = Block([copied, kept, YieldOp.create(location=load.location)])
        fill = ForOp.make(DimsAttr.get([columns, rows]), body, location=load.location)
        block.insert_ops_before([scratch, fill], loop)
        new = LoadOp.make(scratch.res, at, location=load.location)
        loop.body.block.insert_op_before(new, load)
        load.res.replace_all_uses_with(new.res)
        load.detach()
        load.erase()


def _within(d: LoopDim) -> Dim:
    return expr.normal(d.symbol - d.lo)  # pyright: ignore[reportOperatorIssue]
