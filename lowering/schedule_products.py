"""Products of matrices: several rows and columns at once, so that registers hold what both factors give.

    grid [d0 = 16, d1 = 64]: %s = for [r0 = K] reduce [add] { load %x[d0, r0] * load %w[d1, r0] }; store %s, %y[d0, d1]
    grid [t0 = 16, t1 = 4]: %0, … = for [r0 = K] reduce [add, …] { load %x[4*t1, r0] * load %w[4*t0, r0], … }; …

Along which dim the vectors lie is decided as for any loop. Where that is the reduced dim, a tile has rows and columns,
and each vector of a factor is used once for each of the other side; where it is a column, a tile has rows, and what is
read of the matrix is used by all of them. Outer tiles are those of the factor that is larger: it is read once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import sympy
from xdsl.ir import Attribute, Block, Operation, SSAValue

from ..dialects import expr
from ..dialects.expr import Dim
from ..dialects.loop import (
    AssertOp,
    DimsAttr,
    EndOp,
    ForOp,
    IndexAttr,
    KernelOp,
    LoopDim,
    PredAttr,
    ScratchOp,
    StoreOp,
    YieldOp,
)
from .contraction import Contraction, contraction_of_loop
from .fuse_cost import Hints, Machine
from .fuse_graph import op_cost
from .index_simplify import Facts, facts
from .schedule_blocks import Blocks, copied
from .schedule_columns import column_dim
from .schedule_matrix import matrix_product

SUMS = 24
"""Vectors of running sums of a tile at most: of 32 registers, the others hold factors."""

FEW_SUMS = 12
"""The same where there are 16 registers."""

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


def tile_product(kernel: KernelOp, bits: int, machine: Machine, hints: Hints, amx: bool = False) -> Tiling | None:
    """Make tiles of a kernel that multiplies matrices, in place, for the matrix unit where there is `amx`. None where
    the kernel is no product.
    """
    loop = product_loop(kernel)
    found = contraction_of_loop(loop, tuple(kernel.grid), vectors=True) if loop is not None else None
    if loop is None or found is None:
        return None
    if amx and machine.parts and matrix_product(kernel, loop, found, machine, hints):
        return Tiling(None, None)
    sums = SUMS if bits >= 512 else FEW_SUMS
    vector = column_dim(kernel, hints)
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
    return Tiling(vector, max(1, min(COPIES, sums // (rows * columns))) if machine.parts else 1)


def product_loop(kernel: KernelOp) -> ForOp | None:
    """The loop of a kernel that has one, over one dim, and else plain ops."""
    loop, *others = [o for o in kernel.body.block.ops if o.regions] or [None]
    if others or not isinstance(loop, ForOp) or len(loop.dims) != 1:
        return None
    if any(o.regions or isinstance(o, StoreOp) or o.name == "loop.scan" for o in loop.body.block.ops):
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
    """Rows and columns with the most products for each vector that is loaded. Of one row or column, four others."""
    sides = product(_divisors(rows), _divisors(columns))
    found = [(r, c) for r, c in sides if r * c <= (sums if r > 1 and c > 1 else 4)]
    return max(found, key=lambda t: (t[0] * t[1] / (t[0] + t[1]), t[1]))


def products_per_load(rows: Dim, columns: Dim, sums: int = SUMS) -> float:
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
    dims, ops = _written_out(main.dims, body, tiles, "c", blocks.grid)
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
    grid, made = _written_out(kernel.grid, ops[:-1], tiles, "t", ())
    kernel.properties["grid"] = DimsAttr.get(grid)
    for op in reversed(ops):
        op.detach()
        op.erase(safe_erase=False)
    old.add_ops([*made, EndOp.create(location=kernel.location)])


def _written_out(
    dims: Iterable[LoopDim], ops: Sequence[Operation], tiles: Mapping[str, int], prefix: str, around: Iterable[LoopDim]
) -> tuple[list[LoopDim], list[Operation]]:
    """The dims that count tiles, and new ops for all points of a tile."""
    counting: list[LoopDim] = []
    steps: list[tuple[sympy.Symbol, Dim, int]] = []
    for d in dims:
        n = tiles.get(d.name)
        if n is None:
            counting.append(d)
            continue
        t: Dim = 0
        if d.extent != n:
            t = expr.symbol(f"{prefix}{len(steps)}")
            counting.append(LoopDim(t.name, 0, expr.floordiv(d.extent, n)))
        steps.append((d.symbol, expr.normal(d.lo + t * n), n))  # pyright: ignore[reportOperatorIssue]
    points: list[dict[sympy.Symbol, Dim]] = [
        {d: expr.normal(start + i) for (d, start, _), i in zip(steps, at, strict=True)}  # pyright: ignore
        for at in product(*(range(n) for _, _, n in steps))
    ]
    tile = _Tile(points, facts((*around, *counting)))
    tile.ops(ops)
    return counting, tile.made


class _Tile:
    """The ops of several points under construction, each op once for all points at which it is the same."""

    def __init__(self, points: Sequence[Mapping[sympy.Symbol, Dim]], known: Facts) -> None:
        self.points, self.known = points, known
        self.values: list[dict[SSAValue, SSAValue]] = [{} for _ in points]
        self.made: list[Operation] = []
        self._there: dict[Any, Operation] = {}

    def ops(self, ops: Sequence[Operation]) -> None:
        """Append what ops become, each for all points before the next: elements are read before any is written."""
        for op in ops:
            if isinstance(op, ForOp):
                self._loop(op)
                continue
            for k in range(len(self.points)):
                self._op(op, k)

    def _op(self, op: Operation, k: int) -> None:
        values = self.values[k]
        operands = tuple(values.get(v, v) for v in op.operands)
        properties = {name: self._at(a, k) for name, a in op.properties.items()}
        key = (type(op), operands, tuple(properties.items()), tuple(op.result_types))
        new = None if isinstance(op, StoreOp | AssertOp) else self._there.get(key)
        if new is None:
            new = self._there[key] = type(op).create(
                operands=operands,
                result_types=op.result_types,
                properties=properties,
                attributes=op.attributes,
                location=op.location,
            )
            self.made.append(new)
        values.update(zip(op.results, new.results, strict=True))

    def _at(self, a: Attribute, k: int) -> Attribute:
        point = self.points[k]
        if isinstance(a, IndexAttr):
            return IndexAttr.get(self.known.simplify(expr.substitute(e, point)) for e in a)
        if isinstance(a, PredAttr):
            return PredAttr.get(self.known.relation(expr.substitute(r, point)) for r in a)
        return a

    def _loop(self, loop: ForOp) -> None:
        """One loop that gives the reductions of all points."""
        outside = self.made, self._there, self.known
        self.made, self._there = [], dict(self._there)
        *body, last = loop.body.block.ops
        self.ops(body)
        yields = [values.get(v, v) for values in self.values for v in last.operands]
        made = self.made
        self.made, self._there, self.known = outside
        n = len(self.points)
        new = ForOp.make(
            loop.dims,
            Block([*made, YieldOp.create(operands=yields, location=last.location)]),
            reduce=[kind.data for kind in loop.reduce.data] * n,
            result_types=list(loop.result_types) * n,
            attributes=dict(loop.attributes),
            location=loop.location,
        )
        self.made.append(new)
        results = iter(new.results)
        for values in self.values:
            values.update((r, next(results)) for r in loop.results)
