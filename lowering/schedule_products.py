"""Products of matrices: several rows and columns at once, so that registers hold what both factors give.

    grid [d0 = 16, d1 = 64]: %s = for [r0 = K] reduce [add] { load %x[d0, r0] * load %w[d1, r0] }; store %s, %y[d0, d1]
    grid [t0 = 16, t1 = 4]: %0, … = for [r0 = K] reduce [add, …] { load %x[4*t1, r0] * load %w[4*t0, r0], … }; …

Along which dim the vectors lie is decided as for any loop. Where that is the reduced dim, a tile has rows and columns,
and each vector of a factor is used once for each of the other side; where it is a column, a tile has rows, and what is
read of the matrix is used by all of them. Outer tiles are those of the factor that is larger: it is read once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from xdsl.ir import Operation, SSAValue

from ..dialects.expr import Dim
from ..dialects.loop import (
    ALONG,
    AssertOp,
    DimsAttr,
    EndOp,
    ForOp,
    KernelOp,
    LoopDim,
    ScratchOp,
    StoreOp,
)
from .contraction import Contraction, contraction_of_loop
from .fuse_cost import Hints, Machine
from .fuse_graph import op_cost
from .schedule_blocks import Blocks, copied
from .schedule_columns import column_dim
from .schedule_matrix import matrix_product
from .schedule_rows import in_rows
from .schedule_split import split_product
from .schedule_written import written_out
from .vectors import Vectors

HEAVY = 8
"""Cost of what comes after a sum from which on it is worth a loop of its own: it would be done element by element."""

WIDTHS = (256, 192, 128, 96, 64, 48, 32, 16)
"""Columns of a block, where there are blocks."""

BLOCK_ROWS = 32
"""Rows of a block at most."""

MOST = 12
"""Rows or columns of a tile at most."""

COPIES = 4
"""Vectors of one sum at most."""


@dataclass(frozen=True)
class Tiling:
    """How the kernel of a product goes on: the column along which its vectors lie, if it is not the reduced dim, and
    how many vectors each sum of a tile has, if that is decided.
    """

    column: LoopDim | None
    copies: int | None
    placed: bool = False
    """Whether the loop along the column is there already."""


def tile_product(kernel: KernelOp, vectors: Vectors, machine: Machine, hints: Hints) -> Tiling | None:
    """Make tiles of a kernel that multiplies matrices, in place, for matrix units where there are any. None where
    the kernel is no product.
    """
    loop = product_loop(kernel)
    found = contraction_of_loop(loop, tuple(kernel.grid), vectors=True) if loop is not None else None
    if loop is None or found is None:
        return None
    # factors are computed where they are packed, and what only fails is not
    fails = any(isinstance(o, AssertOp) for o in loop.body.block.ops)
    for made in (matrix_product, split_product) if machine.parts and not fails else ():
        if made(kernel, loop, found, vectors, machine, hints):
            return Tiling(None, None)
    sums = vectors.sums
    vector = column_dim(kernel, hints)
    placed = (
        in_rows(kernel, loop, found, vectors, machine, hints, vector is not None)
        if _rows_remain(found, vector, machine)
        else None
    )
    if placed is not None:
        return Tiling(*placed, placed=True)
    if vector is None:
        rows, columns = _tile(_last(found.rows), _last(found.columns), sums)
        tiles = _tiles(found.rows, rows) | _tiles(found.columns, columns)
    else:
        other = found.rows if vector in found.columns else found.columns if vector in found.rows else ()
        rows, columns = max(n for n in _divisors(_last(other)) if n <= sums // 2), 1
        tiles = _tiles(other, rows)
    order_grid(kernel, found, hints)
    width = _width(kernel, loop, found, columns, machine, hints) if vector is None else None
    if width is not None:
        _in_blocks(kernel, loop, found, width, tiles)
    elif tiles:
        side_by_side(kernel, tiles)
    room = sums // (rows * columns) if vector is None else vectors.side_of(rows)
    return Tiling(vector, max(1, min(COPIES, room)) if machine.parts else 1)


def _rows_remain(found: Contraction, vector: LoopDim | None, machine: Machine) -> bool:
    """Whether whole tiles are no way to go: vectors would not lie along the columns, or rows have no good divisor.

    (How a sum is made must not depend on the number of rows where `parts` is off.)
    """
    if vector is None or vector not in found.columns:
        return machine.parts
    rows = _last(found.rows)
    most = MOST if not isinstance(rows, int) else min(MOST, rows)
    return bool(found.rows) and 2 * _divisors(rows)[-1] <= most


def product_loop(kernel: KernelOp) -> ForOp | None:
    """The loop of a kernel that has one, over one dim, and else plain ops."""
    loop, *others = [o for o in kernel.body.block.ops if o.regions] or [None]
    if others or not isinstance(loop, ForOp) or len(loop.dims) != 1:
        return None
    if any(o.regions or isinstance(o, StoreOp) or o.name in ALONG for o in loop.body.block.ops):
        return None
    return None if any(isinstance(o, ScratchOp) for o in kernel.body.block.ops) else loop


def _divisors(extent: Dim) -> list[int]:
    """The numbers of points of a dim that may be a tile: whole tiles make up the dim."""
    if not isinstance(extent, int) or extent < 1:
        return [1]
    return [n for n in range(1, MOST + 1) if extent % n == 0]


def _last(dims: Sequence[LoopDim]) -> Dim:
    """The extent of the last of some dims, which tiles are made of."""
    return dims[-1].extent if dims else 1


def _tile(rows: Dim, columns: Dim, sums: int) -> tuple[int, int]:
    """Rows and columns with the most products for each vector that is loaded. Of one row or column, eight others: so
    many streams are read from memory (four with 16 registers).
    """
    sides = product(_divisors(rows), _divisors(columns))
    found = [(r, c) for r, c in sides if r * c <= (sums if r > 1 and c > 1 else sums // 3)]
    return max(found, key=lambda t: (t[0] * t[1] / (t[0] + t[1]), t[1]))


def products_per_load(rows: Dim, columns: Dim, sums: int) -> float:
    """How many products of vectors a tile makes of each vector that it loads."""
    r, c = _tile(rows, columns, sums)
    return r * c / (r + c)


def _tiles(dims: Sequence[LoopDim], n: int) -> dict[str, int]:
    return {dims[-1].name: n} if n > 1 else {}


def order_grid(kernel: KernelOp, found: Contraction, hints: Hints) -> None:
    """The dims of the larger factor outside: while the other one stays in a cache, it is gone through once."""
    rows, columns = hints.points(found.rows), hints.points(found.columns)
    inner, outer = (found.rows, found.columns) if rows <= columns else (found.columns, found.rows)
    kernel.properties["grid"] = DimsAttr.get((*found.batch, *outer, *inner))


def _width(kernel: KernelOp, loop: ForOp, found: Contraction, tile: int, machine: Machine, hints: Hints) -> int | None:
    """Columns of a block where what comes after the sums is so much that it is to be done as vectors; else None."""
    cost = sum(op_cost(o) for o in kernel.body.block.ops if o is not loop)
    if cost < HEAVY or len(found.columns) != 1 or len(found.rows) > 1 or not all(_is_whole(d) for d in found.rows):
        return None
    (columns,) = found.columns
    if not _is_whole(columns):
        return None
    n, others = hints.size(columns.extent), hints.points(found.batch)
    fitting = [w for w in WIDTHS if n % w == 0 and w % tile == 0]
    return next((w for w in fitting if n // w * others >= 2 * machine.threads), fitting[-1] if fitting else None)


def _is_whole(d: LoopDim) -> bool:
    return isinstance(d.extent, int) and d.lo == 0 and d.extent > 0


def _in_blocks(kernel: KernelOp, loop: ForOp, found: Contraction, width: int, tiles: Mapping[str, int]) -> None:
    """Tiles of a block of columns one after the other, their sums kept; then the rest of the kernel for the block."""
    sides = [(d, d.extent if d.extent <= BLOCK_ROWS else tiles.get(d.name, 1)) for d in found.rows]  # pyright: ignore
    blocks = Blocks(kernel, loop, found.batch, [*sides, (found.columns[0], width)])  # pyright: ignore[reportArgumentType]
    sums = blocks.scratch(blocks.shape, f"{loop.results[0].type}")
    values: dict[SSAValue, SSAValue] = {}
    outside = [v for o in loop.body.block.ops for v in o.operands if _stands_beside(v, loop)]
    before = [op for v in outside for op in copied(v, values)]
    inner = loop.clone(values)
    main = blocks.over(blocks.dims[::-1], [*before, inner, blocks.keep(inner.results[0], sums, blocks.place)])
    rest = blocks.rest(sums)
    *body, last = main.body.block.ops
    dims, ops = written_out(main.dims, body, tiles, "c", blocks.grid)
    for op in reversed([*body, last]):
        op.detach()
        op.erase(safe_erase=False)
    blocks.ops += [blocks.over(dims, ops), rest]
    blocks.replace()


def _stands_beside(v: SSAValue, loop: ForOp) -> bool:
    return isinstance(v.owner, Operation) and v.owner.parent is loop.parent


def side_by_side(kernel: KernelOp, tiles: Mapping[str, int]) -> None:
    """Compute so many points of dims of the grid at once, in place: loads and ops that they share are there once."""
    old = kernel.body.block
    ops = list(old.ops)
    grid, made = written_out(kernel.grid, ops[:-1], tiles, "t", ())
    kernel.properties["grid"] = DimsAttr.get(grid)
    for op in reversed(ops):
        op.detach()
        op.erase(safe_erase=False)
    old.add_ops([*made, EndOp.create(location=kernel.location)])
