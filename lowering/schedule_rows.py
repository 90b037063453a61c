"""Products whose vectors lie along columns of the result, several rows at once: any number of rows, any right factor.

    grid [d0 = M, d1 = N]: %s = for [r0 = K] reduce [add] { load %x[d0, r0] * load %w[d1, r0] }; store %s, %y[d0, d1]

    grid [t0, t1]:                                                    blocks of rows, of columns
      for [d1 block, r0] transpose { store load %w[d1, r0], %p[r0, d1] }      where columns are no neighbours
      for [c0, d1 block] { %0, … = for [r0] reduce [add, …] { … load %x[6*c0, r0] * load %p[r0, d1], … }; … }
      for [d0 rest, d1 block] { … }                                   rows that make up no tile

The columns are the side whose points are neighbours in what is stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import Block, Operation

from ..dialects import expr
from ..dialects.expr import Dim
from ..dialects.loop import (
    DimsAttr,
    EndOp,
    ForOp,
    IndexAttr,
    KernelOp,
    LoadOp,
    LoopDim,
    ScratchOp,
    StoreOp,
    YieldOp,
)
from ..dialects.tensor import TensorType
from .contraction import Contraction
from .fuse_cost import Hints, Machine
from .schedule_access import accesses, stride, type_of
from .schedule_dims import block_extent, blocked, bytes_of
from .schedule_written import written_out
from .vectors import Vectors

MOST_ROWS = 12
"""Rows of a tile at most."""

WIDTHS = (256, 192, 128, 96, 64)
"""Columns of a block, where there are more."""

FEWEST = 32
"""Rows of a block at least where the right factor is copied for it."""

SUM_ACROSS, COPY, GATHER = 4.0, 8.0, 0.25
"""Cycles for the sum over a vector, to exchange one with others, and to gather an element, of which four columns make
use, where a product of vectors takes half a one.
"""


def column_side(kernel: KernelOp, found: Contraction) -> tuple[tuple[LoopDim, ...], LoopDim] | None:
    """The dims of the one side and the dim of the other along which all that is stored is neighbours; else None."""
    stores = [o for o in kernel.body.block.ops if isinstance(o, StoreOp)]
    for rows, columns in ((found.rows, found.columns), (found.columns, found.rows)):
        if len(columns) == 1 and rows and all(stride(o, columns[0].symbol) == 1 for o in stores):
            return rows, columns[0]
    return None


def in_rows(
    kernel: KernelOp,
    loop: ForOp,
    found: Contraction,
    vectors: Vectors,
    machine: Machine,
    hints: Hints,
    always: bool,
) -> tuple[LoopDim, int] | None:
    """Rewrite a kernel in place; the dim of its vectors, and how many a row has. None where that is no gain."""
    side = column_side(kernel, found)
    if side is None or len(found.reduce) != 1:
        return None
    rows, column = side
    (r,) = found.reduce
    moved = _across(loop, column, r)
    if moved is None or not all(_is_whole(d) for d in (*rows, column, r)):
        return None
    m, n, k = hints.points(rows), hints.size(column.extent), hints.size(r.extent)
    read = accesses(loop.body.block.ops) or accesses(kernel.body.block.ops)  # factors may be computed from places alone
    lanes = max(1, vectors.bits // (8 * max(map(bytes_of, read))))
    copies = max(1, min(vectors.copies, -(-n // lanes)))
    least = max(bytes_of(o) for o in moved) * k * lanes if moved else 0
    if moved and (not isinstance(r.extent, int) or not isinstance(column.extent, int) or least > machine.l2 // 4):
        return None
    jumps = any(stride(o, r.symbol) not in (0, 1) for o in read)
    if moved and not always and not _gains(m, n, k, lanes, jumps):
        return None
    width = _width(column, lanes, least, machine)
    tile = _tile(rows[-1].extent, max(1, min(MOST_ROWS, vectors.sums // copies)))
    _Rewrite(kernel, loop, found, rows, column).run(moved, width, tile, machine, hints, vectors.bits)
    return column, copies


def _across(loop: ForOp, column: LoopDim, r: LoopDim) -> list[LoadOp] | None:
    """The loads that move with the columns and are to be copied, as their neighbours lie along `r`; None where some
    can not be.
    """
    found: list[LoadOp] = []
    for o in accesses(loop.body.block.ops):
        along = stride(o, column.symbol)
        if along in (0, 1):
            continue
        if not isinstance(o, LoadOp) or len(o.operands) > 1 or o.mask is not None or stride(o, r.symbol) != 1:
            return None
        found.append(o)
    return found


def _gains(m: int, n: int, k: int, lanes: int, jumps: bool) -> bool:
    """Whether vectors along the columns of a copy take less time than sums over vectors along the inner dim, where the
    other factor may jump.
    """
    across = m * n * (-(-k // lanes) * 0.5 + SUM_ACROSS + jumps * k * GATHER)
    along = -(-n // lanes) * k * (0.5 * m + COPY * -(-m // max(m, FEWEST)))
    return along < across


def _width(column: LoopDim, lanes: int, least: int, machine: Machine) -> int:
    """Columns of a block: so many that half of the second cache holds the copy."""
    n = column.extent
    room = machine.l2 // 4 // max(least, 1) * lanes
    if isinstance(n, int) and n <= min(WIDTHS[0], room):
        return n
    fitting = [w for w in WIDTHS if w <= room]
    whole = [w for w in fitting if isinstance(n, int) and n % w == 0]
    return next(iter((*whole, *fitting)), lanes)


def _tile(extent: Dim, most: int) -> int:
    """Rows of a tile: as many in the last one, or nearly."""
    if not isinstance(extent, int):
        return most
    return -(-extent // -(-extent // most))


def _is_whole(d: LoopDim) -> bool:
    return d.lo == 0 and d.extent != 0


class _Rewrite:
    """One kernel."""

    def __init__(
        self, kernel: KernelOp, loop: ForOp, found: Contraction, rows: Sequence[LoopDim], column: LoopDim
    ) -> None:
        self.kernel, self.loop, self.found = kernel, loop, found
        self.rows, self.column = rows, column
        self.at = kernel.location

    def run(self, moved: list[LoadOp], width: int, tile: int, machine: Machine, hints: Hints, bits: int) -> None:
        blocks, column = blocked(self.column, "t1", width)
        others = hints.points(self.found.batch) * -(-hints.size(self.column.extent) // width)
        outer, first = blocked(self.rows[0], "t0", self._height(others, tile, bool(moved), machine, hints))
        rows = [first, *self.rows[1:]]
        before = [op for load in moved for op in self._copied(load, column, bits)]
        block = self.kernel.body.block
        body = [o for o in block.ops if not isinstance(o, EndOp)]
        grid = [*self.found.batch, *blocks, *outer]
        last = rows[-1]
        whole = expr.normal(expr.floordiv(last.extent, tile) * tile)  # pyright: ignore[reportOperatorIssue]
        middle = expr.normal(last.lo + whole)  # pyright: ignore[reportOperatorIssue]
        made = [self._loop(rows[:-1], LoopDim(last.name, last.lo, middle), column, body, tile, "c", grid)]
        left = expr.normal(last.extent - whole)  # pyright: ignore[reportOperatorIssue]
        if left != 0:
            rest = LoopDim(last.name, middle, last.hi)
            made.append(self._loop(rows[:-1], rest, column, body, left if isinstance(left, int) else 1, "e", grid))
        for op in reversed(list(block.ops)):
            op.detach()
            op.erase(safe_erase=False)
        block.add_ops([*before, *made, EndOp.create(location=self.at)])
        self.kernel.properties["grid"] = DimsAttr.get(grid)

    def _height(self, others: int, tile: int, copies: bool, machine: Machine, hints: Hints) -> int:
        """Rows of a block, of the first of their dims: enough blocks for the threads."""
        first, more = hints.size(self.rows[0].extent), hints.points(tuple(self.rows[1:]))
        wanted = -(-first * others // (2 * machine.threads))
        least = -(-(FEWEST if copies else tile) // more)
        unit = tile if len(self.rows) == 1 else 1
        return -(-max(wanted, least, 1) // unit) * unit

    def _copied(self, load: LoadOp, column: LoopDim, bits: int) -> list[Operation]:
        """A buffer with what is loaded, columns as neighbours; the load reads it from now on."""
        n = min(16, bits // (8 * bytes_of(load)))
        r = self.found.reduce[0]
        within = expr.normal(column.symbol - column.lo)  # pyright: ignore[reportOperatorIssue]
        at = IndexAttr.get([r.symbol, within])
        shape = [-(-cast(int, block_extent(d)) // n) * n for d in (r, column)]
        scratch = ScratchOp.create(result_types=[TensorType.get(shape, type_of(load).dtype)], location=load.location)
        copied = LoadOp.make(load.source, load.index, location=load.location)
        kept = StoreOp.make(copied.res, scratch.res, at, location=load.location)
        body = Block([copied, kept, YieldOp.create(location=load.location)])
        fill = ForOp.make(DimsAttr.get([column, r]), body, location=load.location)
        fill.attributes["transpose"] = IntegerAttr(n, i64)
        new = LoadOp.make(scratch.res, at, location=load.location)
        self.loop.body.block.insert_op_before(new, load)
        load.res.replace_all_uses_with(new.res)
        load.detach()
        load.erase()
        return [scratch, fill]

    def _loop(
        self,
        around: Sequence[LoopDim],
        row: LoopDim,
        column: LoopDim,
        body: Sequence[Operation],
        tile: int,
        prefix: str,
        grid: Sequence[LoopDim],
    ) -> ForOp:
        """A loop over tiles of rows, and over columns."""
        dims, ops = written_out([*around, row, column], body, {row.name: tile}, prefix, grid)
        return ForOp.make(DimsAttr.get(dims), Block([*ops, YieldOp.create(location=self.at)]), location=self.at)
