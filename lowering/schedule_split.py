"""Products of f32 of packed factors: blocks of rows and columns, buffers of sums.

    grid [d0 = M, d1 = N]: %s = for [r0] reduce [add] { load %x[d0, r0] * load %w[d1, r0] }; store f(%s), %y

    grid [t0, t1]:
      for [d0 block, d1 block] matrix split ["r0", "r0"] {
        %s = for [r0] reduce [add] { load %x[d0, r0] * load %w[d1, r0] }; store %s, %t[…]
      }
      for [d0 block, d1 block] { store f(load %t[…]), %y }

The first loop is one like any other; `split` names the dims along which vectors of the factors lie, for `kernel_split`,
which packs both: as three bf16 for each number, where matrix units multiply them, or as they are, for vectors.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import cast

from xdsl.dialects.builtin import ArrayAttr, StringAttr, UnitAttr, f32
from xdsl.ir import Block, Operation, SSAValue

from ..dialects import expr
from ..dialects.loop import ForOp, KernelOp, LoadOp, LoopDim, YieldOp
from . import vector_functions
from .contraction import Contraction
from .fuse_cost import Hints, Machine
from .kernel_matrix import SIDE
from .kernel_split import SPLIT, packed_bytes
from .schedule_access import accesses, stride
from .schedule_blocks import Blocks, clone, copied
from .schedule_dims import best_dim, bytes_of
from .schedule_matrix import narrow
from .schedule_memory import prefetch
from .split_functions import LANES
from .vectors import Vectors

MOST = (512, 1024)
"""Rows and columns of a block at most."""

LEAST = (32, 32, 64)
"""Rows, columns and points of the inner dim from which on packing pays."""

PRODUCTS = 1 << 21
"""Products of numbers from which on it does."""

SHARE = 0.45
"""Of the cache that the packed columns of a block fill."""

PACK, COPY = 32, 14
"""Products of numbers that take as long as packing one number, and as copying it for vectors."""

AHEAD = 64
"""Bytes ahead at which rows are asked for whose neighbours are packed: those of the next tile."""


def split_pays(m: int, n: int, k: int) -> bool:
    """Whether a product of such sizes is one for blocks."""
    return all(map(int.__ge__, (m, n, k), LEAST)) and m * n * k >= PRODUCTS


def split_product(
    kernel: KernelOp, loop: ForOp, found: Contraction, vectors: Vectors, machine: Machine, hints: Hints
) -> bool:
    """Rewrite a kernel for products of f32 in blocks, in place; False where its product is none for them."""
    if not vectors.blocks or not found.rows or len(found.columns) != 1 or len(found.reduce) != 1:
        return False
    # rows of several dims that are not one in memory: all but the last are as those of a batch
    found = replace(found, batch=(*found.batch, *found.rows[:-1]), rows=found.rows[-1:])
    (rows,), (columns,), (r,) = found.rows, found.columns, found.reduce
    if any(d.lo != 0 for d in (rows, columns, r)) or not all(isinstance(d.extent, int) for d in (columns, r)):
        return False
    m, n, k = (hints.size(d.extent) for d in (rows, columns, r))
    if loop.results[0].type != f32 or not split_pays(m, n, k):
        return False
    if vectors.amx and narrow(found.left) is not None and narrow(found.right) is not None:
        return False  # one bf16 holds each factor
    block = _block(m, n, hints.points(found.batch), vectors, machine)
    _Rewrite(kernel, loop, found, *block).run()
    return True


def _block(m: int, n: int, others: int, vectors: Vectors, machine: Machine) -> tuple[int, int]:
    """Rows and columns of a block: the cache holds what is packed, and the thread with the most blocks has the least to
    do, packing counted.
    """

    pack, room, tile = (
        (PACK, packed_bytes, SIDE) if vectors.amx else (COPY, vector_functions.packed_bytes, vector_functions.ROWS)
    )

    def time(rows: int, columns: int) -> float:
        blocks = -(-m // rows) * -(-n // columns) * others
        return -(-blocks // vectors.threads) * (rows * columns + pack * (rows + columns))

    fitting = [
        (rows, columns)
        for rows in _sides(m, MOST[0], tile)
        for columns in _sides(n, MOST[1], SIDE)
        if room(columns) <= machine.l2 * SHARE
    ]
    return min(fitting, key=lambda b: time(*b), default=(SIDE, SIDE))


def _sides(extent: int, most: int, tile: int) -> Iterator[int]:
    """Blocks of a dim up to a size: whole tiles, about as many in each."""
    steps = -(-extent // tile)
    for blocks in range(1, steps + 1):
        side = -(-steps // blocks) * tile
        if side <= most:
            yield side


class _Rewrite(Blocks):
    """One kernel."""

    def __init__(self, kernel: KernelOp, loop: ForOp, found: Contraction, rows: int, columns: int) -> None:
        (d0,), (d1,) = found.rows, found.columns
        super().__init__(kernel, loop, found.batch, [(d0, rows), (d1, columns)])
        # blocks of rows outside: a thread writes pages that no other one does
        self.grid = [*found.batch, *reversed(self.grid[len(found.batch) :])]
        self.found = found

    def run(self) -> None:
        """Replace the body of the kernel."""
        sums, at = self.scratch(self.shape, "f32"), self.loop.location
        values: dict[SSAValue, SSAValue] = {}
        factors = [copied(v, values) for v in (self.found.left, self.found.right)]
        along = [StringAttr(self._along(ops, d)) for ops, d in zip(factors, self.dims, strict=True)]
        for ops, name, d in zip(factors, along, self.dims, strict=True):
            _read_ahead(ops, d, name.data == d.name)
        product = clone(cast(Operation, cast(YieldOp, self.loop.body.block.last_op).operands[0].owner), values)
        body = Block([*factors[0], *factors[1], product, YieldOp.create(operands=product.results, location=at)])
        inner = ForOp.make(self.loop.dims, body, reduce=["add"], result_types=[f32], location=at)
        loop = self.over(self.dims, [inner, self.keep(inner.results[0], sums, self.place)])
        loop.attributes |= {"matrix": UnitAttr(), SPLIT: ArrayAttr(along)}
        self.ops += [loop, self.rest(sums)]
        self.replace()

    def _along(self, ops: list[Operation], d: LoopDim) -> str:
        """The dim along which vectors of a factor lie: its neighbours."""
        (r,) = self.found.reduce
        loads = [a for a in accesses(ops) if isinstance(a, LoadOp)]
        return r.name if best_dim([d, r], loads, Hints({})) is r else d.name


def _read_ahead(ops: list[Operation], d: LoopDim, across: bool) -> None:
    """Fetch what the next tiles are packed of: further on in each row of the inner dim, or the next rows of `d`, which
    are as many as a tile has, often some pages apart each and so in the same few places of the first cache.
    """
    for a in ops:
        if isinstance(a, LoadOp) and across:
            prefetch(a, AHEAD)
        elif isinstance(a, LoadOp) and (step := stride(a, d.symbol)) is not None and step != 0:
            prefetch(a, expr.normal(step * bytes_of(a) * LANES), 2)  # pyright: ignore[reportOperatorIssue]
