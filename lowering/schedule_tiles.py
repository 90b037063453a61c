"""Transposes through scratch: tiles are copied with rows and columns exchanged, then read as they lie.

for [d0 tile, d1 tile] { load %x[d1, d0]; … }
for [d1 tile, d0 tile] transpose { store load %x[d1, d0], %t[d0, d1] }    for [d0 tile, d1 tile] { load %t[d0, d1]; … }
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import Block, Operation

from ..dialects import expr
from ..dialects.expr import Dim
from ..dialects.loop import DimsAttr, ForOp, IndexAttr, KernelOp, LoadOp, LoopDim, ScratchOp, StoreOp, YieldOp
from ..dialects.tensor import TensorType
from .schedule_access import Access, stride, type_of
from .schedule_dims import bytes_of

LINE = 256
"""Bytes of the rows of a tile, in what is read or in what is written."""

COLUMNS = 64
"""Elements of the other side."""


PLACES = 4096
"""Bytes after which lines fall in the same places of the first cache."""


def tile_of(access: Access, wide: bool = False) -> tuple[int, int]:
    """Rows and columns of a tile of a buffer: some lines long, so that pages are not entered for one line each, more so
    in what is written, and there in `wide` ones.
    """
    line = LINE // max(2, bytes_of(access))
    return min(line, COLUMNS), 2 * COLUMNS if wide and line == COLUMNS else max(line, COLUMNS)


def crowded(found: Sequence[Access], rows: LoopDim) -> bool:
    """Whether what is written has rows that fall in the same places of the first cache."""
    steps = ((stride(a, rows.symbol), bytes_of(a)) for a in found if isinstance(a, StoreOp))
    return any(isinstance(s, int) and s and s * n % PLACES == 0 for s, n in steps)


def stage(kernel: KernelOp, rows: LoopDim, columns: LoopDim, tile: tuple[int, int], bits: int) -> None:
    """In a kernel of one loop over tiles of `rows` and `columns`, read through scratch what lies along `rows`.

    No line is fetched more than once. Blocks of the tile are exchanged in vectors of `bits` bits.
    """
    block = kernel.body.block
    loop = next(o for o in block.ops if isinstance(o, ForOp))
    at = IndexAttr.get([_within(rows), _within(columns)])
    for load in [o for o in loop.body.block.ops if isinstance(o, LoadOp)]:
        along = stride(load, rows.symbol), stride(load, columns.symbol)
        if along[0] != 1 or along[1] in (0, 1) or len(load.operands) > 1 or load.mask is not None:
            continue
        t = TensorType.get([*tile], type_of(load).dtype)
        scratch = ScratchOp.create(result_types=[t], location=load.location)
        copied = LoadOp.make(load.source, load.index, location=load.location)
        kept = StoreOp.make(copied.res, scratch.res, at, location=load.location)
        body = Block([copied, kept, YieldOp.create(location=load.location)])
        fill = ForOp.make(DimsAttr.get([columns, rows]), body, location=load.location)
        fill.attributes["transpose"] = IntegerAttr(min(16, bits // (8 * bytes_of(load))), i64)
        if isinstance(along[1], int):
            # the next tile lies as many rows further on, in places of the first cache that this one takes
            copied.attributes["level"] = IntegerAttr(2, i64)
            copied.attributes["prefetch"] = IntegerAttr(along[1] * tile[1] * bytes_of(load), i64)
        block.insert_ops_before([scratch, fill], loop)
        new = LoadOp.make(scratch.res, at, location=load.location)
        loop.body.block.insert_op_before(new, load)
        load.res.replace_all_uses_with(new.res)
        load.detach()
        load.erase()


def gather_first(kernel: KernelOp, column: LoopDim) -> None:
    """In a kernel of one loop, put side by side what jumps along its vector `column` and stays the same along the other
    dims: a row of scratch for each load.
    """
    block = kernel.body.block
    loop = next(o for o in block.ops if isinstance(o, ForOp))
    others = [d for d in loop.dims if d.name != column.name]
    found = [o for o in loop.body.block.ops if isinstance(o, LoadOp) and _repeats(o, column, others)]
    if not found or not isinstance(column.extent, int):
        return
    location = found[0].location
    filled: list[Operation] = []
    for load in found:
        copied = LoadOp.make(load.source, load.index, location=load.location)
        made: list[Operation] = [copied]
        old: list[Operation] = [load]
        user = load.res.get_user_of_unique_use()
        if isinstance(user, arith.ExtFOp):  # once for all points
            made.append(user.clone({load.res: copied.res}))
            old.append(user)
        value, result = made[-1].results[0], old[-1].results[0]
        t = TensorType.get([column.extent], str(value.type) if len(made) > 1 else type_of(load).dtype)
        scratch = ScratchOp.create(result_types=[t], location=location)
        at = IndexAttr.get([_within(column)])
        filled += [*made, StoreOp.make(value, scratch.res, at, location=load.location)]
        new = LoadOp.make(scratch.res, at, location=load.location)
        loop.body.block.insert_op_before(new, old[-1])
        result.replace_all_uses_with(new.res)
        for op in reversed(old):
            op.detach()
            op.erase()
        block.insert_op_before(scratch, loop)
    body = Block([*filled, YieldOp.create(location=location)])
    block.insert_op_before(ForOp.make(DimsAttr.get([column]), body, location=location), loop)


def _repeats(load: LoadOp, column: LoopDim, others: Sequence[LoopDim]) -> bool:
    if len(load.operands) > 1 or load.mask is not None or stride(load, column.symbol) in (0, 1):
        return False
    return all(stride(load, d.symbol) == 0 for d in others)


def _within(d: LoopDim) -> Dim:
    return expr.normal(d.symbol - d.lo)  # pyright: ignore[reportOperatorIssue]
