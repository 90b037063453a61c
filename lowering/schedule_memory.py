"""Which stores of a kernel bypass the caches, and which memory is asked for ahead."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, cast

from xdsl.dialects.builtin import IntegerAttr, StringAttr, UnitAttr, i64
from xdsl.ir import Operation, SSAValue

from ..dialects import expr
from ..dialects.expr import Dim
from ..dialects.loop import ForOp, IndexAttr, KernelOp, LoadOp, StoreOp, body_ops
from .fuse_cost import Hints, Machine
from .schedule_access import Access, accesses, buffer_of, stride
from .schedule_dims import block_extent, bytes_of

PREFETCH = 4096
"""Bytes ahead at which streams are prefetched."""

WRITTEN_AHEAD = 2048
"""The same for what is written as halves: a line of these is two vectors' work, so that the machine has few stores in
sight, and between the stores of a row and those of the next one it only reads.
"""

TILES_AHEAD = 8192
"""The same in products, where several rows are read side by side: past the tile."""

FEW_FLOPS = 4
"""Operations for each byte up to which a product is read from memory, not computed."""

ROWS_AHEAD = 8
"""Rows ahead at which columns are prefetched, where a row is so long that the machine does not see the next one."""

TILE_ROWS_AHEAD = 4
"""The same in tiles, whose rows are no more than some lines."""

SHORT_ROW = 1 << 10
"""Bytes of a tile's row up to which the machine does not see the next one either, which is further away."""


def memory(kernel: KernelOp, machine: Machine, hints: Hints, is_product: bool, packs: bool = False) -> None:
    """Stream outputs of kernels that no cache holds, and fetch ahead what is read once and in order, and what tiles of
    rows and columns are written to. A product whose factors are packed (`packs`) computes longer than it writes: its
    results need not be in a cache before they are written, and leave it to the factors.
    """
    args = set(kernel.body.block.args)
    loaded = {buffer_of(a) for a in accesses(body_ops(kernel.body)) if isinstance(a, LoadOp)}
    total = sum(hints.bytes(v) for v in args)
    far = TILES_AHEAD if is_product else PREFETCH
    near = machine.l1 if is_product and _reads_once(kernel, hints) else machine.l2
    if total <= near:
        return
    sides = cast("IntegerAttr[Any]", kernel.attributes.get("sides", IntegerAttr(1, i64))).value.data
    loops = [o for o in kernel.body.block.ops if isinstance(o, ForOp)]
    loops = loops if is_product else list(_streaming(loops))
    readers: dict[SSAValue, list[ForOp]] = {}
    for loop in loops:
        for buffer in {buffer_of(a): None for a in accesses(body_ops(loop.body)) if isinstance(a, LoadOp)}:
            readers.setdefault(buffer, []).append(loop)
    for loop in loops:
        found = [a for a in accesses(body_ops(loop.body)) if buffer_of(a) in args]
        vector = loop.attributes.get("vector")
        d = expr.symbol(vector.data) if isinstance(vector, StringAttr) else None
        for a in found:
            if d is None or stride(a, d) != 1:
                continue
            buffer = buffer_of(a)
            if a.indices:
                if isinstance(a, LoadOp) and 2 * hints.bytes(buffer) > near and chosen_before(a, kernel) is not None:
                    a.attributes["next"] = UnitAttr()
                continue
            if isinstance(a, StoreOp):
                size = hints.bytes(buffer)
                streams = size > machine.l2 if packs else total > machine.l3 < 4 * size
                if buffer not in loaded and a.combine is None and streams:
                    a.attributes["nontemporal"] = UnitAttr()
                elif 2 * size > near:
                    step = _next_tile(a, loop, kernel) or _row_step(a, loop)
                    if step is not None:
                        prefetch(a, step, 2)
                    elif not is_product and buffer not in loaded and a.combine is None and bytes_of(a) == 2:
                        prefetch(a, WRITTEN_AHEAD)
            elif 2 * hints.bytes(buffer) > near:
                first, last = readers[buffer][0], readers[buffer][-1]
                row = None if first is last or is_product else _row_of_point(a, kernel, machine)
                # the loop that is last to read a row asks for another one, and all find theirs in the cache
                if row is None and first is not last and not is_product and _rows_apart(a, loop, kernel, machine):
                    if loop is last:
                        a.attributes["next"] = UnitAttr()
                elif row is None and loop is first:
                    _read_ahead(a, loop, kernel, far if is_product else _past_the_rest(a, loop, kernel, far, sides))
                elif row is not None and loop is last:
                    prefetch(a, row * -(-far // row) * sides)


def chosen_before(a: LoadOp, kernel: KernelOp) -> list[Operation] | None:
    """The ops of a point that find the one row which a load reads, in order; None where that is done elsewhere."""
    needed: set[Operation] = set()
    left = list(a.indices)
    if len(left) != 1 or stride(a, expr.symbol("v0")) is None:
        return None
    while left:
        op = left.pop().owner
        if not isinstance(op, Operation) or op.parent_op() is not kernel or op.regions:
            return None
        if op not in needed:
            needed.add(op)
            left += op.operands if not isinstance(op, LoadOp) else [*op.indices, *([op.ok] if op.ok else [])]
    return [o for o in kernel.body.block.ops if o in needed]


def _row_of_point(a: LoadOp, kernel: KernelOp, machine: Machine) -> int | None:
    """Bytes from what a point of the grid reads to what the next one does, if a cache holds more of these."""
    step = stride(a, kernel.grid[-1].symbol) if len(kernel.grid) else None
    row = step * bytes_of(a) if isinstance(step, int) else 0
    return row if 0 < row <= machine.l1 // 2 else None


def _past_the_rest(a: LoadOp, loop: ForOp, kernel: KernelOp, far: int, sides: int) -> int:
    """At least `far` bytes, to what is read later: of rows of which a part is read, those that are all the way."""
    rows = [*kernel.grid, *loop.dims][-2:]
    step = stride(a, rows[0].symbol) if len(rows) > 1 else None
    extent = block_extent(loop.dims[-1])
    if not isinstance(step, int) or not isinstance(extent, int):
        return far
    part, row = extent * bytes_of(a), step * bytes_of(a) * sides
    return row * -(-far // row) if part <= far and part < row // sides else far


def _rows_apart(a: LoadOp, loop: ForOp, kernel: KernelOp, machine: Machine) -> bool:
    """Whether points read short rows each, the next of which does not lie behind this one."""
    row = expr.product(block_extent(d) for d in loop.dims)
    if len(kernel.grid) < 2 or not isinstance(row, int) or row * bytes_of(a) > machine.l1 // 2:
        return False
    counting = {s for d in loop.dims for e in (d.lo, d.hi) for s in expr.symbols(e)}
    return not any(d.symbol in counting or stride(a, d.symbol) is None for d in kernel.grid)


def _reads_once(kernel: KernelOp, hints: Hints) -> bool:
    """Whether a product takes as long as its matrix is read: between two calls a model reads other ones, so that the
    second-level cache no longer has it.
    """
    found = (kernel.attributes.get(name) for name in ("flops", "bytes"))
    flops, moved = (hints.size(a[0]) if isinstance(a, IndexAttr) else 0 for a in found)
    return flops <= FEW_FLOPS * moved


def _streaming(ops: Iterable[Operation]) -> Iterator[ForOp]:
    """The outermost loops with vectors; of a loop without any, itself."""
    for loop in (o for o in ops if isinstance(o, ForOp)):
        inner = [o for o in body_ops(loop.body) if isinstance(o, ForOp) and "vector" in o.attributes]
        if "vector" in loop.attributes or not inner:
            yield loop
        else:
            yield from _streaming(loop.body.block.ops)


def _read_ahead(a: LoadOp, loop: ForOp, kernel: KernelOp, far: int) -> None:
    """Prefetch what a load reads: along the vector, or some rows ahead where it runs over columns or tiles."""
    inner = a.parent_op()
    if inner is loop or not isinstance(inner, ForOp):
        row = _next_tile(a, loop, kernel) or _row_step(a, loop)
        return prefetch(a, far) if row is None else prefetch(a, row, 2)
    if all(block_extent(d) == 1 for d in inner.dims):
        return None  # row after row as they lie, which the machine sees
    step = stride(a, inner.dims[-1].symbol)
    return prefetch(a, far if step in (None, 0, 1) else expr.normal(step * bytes_of(a) * ROWS_AHEAD))  # pyright: ignore


def _next_tile(a: Access, loop: ForOp, kernel: KernelOp) -> int | None:
    """Bytes from a tile's row to that of the tile of the next point of the grid, if it lies beside this one."""
    if len(loop.dims) < 2 or not len(kernel.grid):
        return None
    row = block_extent(loop.dims[-1])
    beside = kernel.grid[-1].symbol in expr.symbols(loop.dims[-1].lo)
    return row * bytes_of(a) if beside and isinstance(row, int) and _row_step(a, loop) is not None else None


def _row_step(a: Access, loop: ForOp) -> Dim | None:
    """Bytes to a later row of a tile; None where rows are long, or lie close together."""
    if len(loop.dims) < 2:
        return None
    row, step = block_extent(loop.dims[-1]), stride(a, loop.dims[-2].symbol)
    if not isinstance(row, int) or row * bytes_of(a) > SHORT_ROW or step is None:
        return None
    far = expr.normal(step * bytes_of(a))  # pyright: ignore[reportOperatorIssue]
    if isinstance(far, int) and abs(far) <= SHORT_ROW:
        return None
    return expr.normal(far * TILE_ROWS_AHEAD)  # pyright: ignore[reportOperatorIssue]


def prefetch(a: Access, ahead: Dim, level: int = 1) -> None:
    """Rows of tiles lie in the same few places of the first cache: they are fetched to the second one."""
    a.attributes["prefetch"] = IntegerAttr(ahead, i64) if isinstance(ahead, int) else IndexAttr.get([ahead])
    if level > 1:
        a.attributes["level"] = IntegerAttr(level, i64)
