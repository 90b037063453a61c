"""Functions that all products of f32 in blocks of a module share where there are no matrix units: what packs a factor
that is read as it lies in memory, and what multiplies by vectors. A kernel that computes a factor has the code of the
first for itself.

```
@lamella.copy.{rows|columns}.{along|across}(from, step, count, inner, size, ahead, to)
@lamella.products(rows, columns, sums, pitch, first, size, count)
```
Packed rows lie one after the other, packed columns in panels of 32, as in Goto and van de Geijn: Anatomy of
High-Performance Matrix Multiplication (2008). Some products are added up in registers, and then added to the sums
before, so that errors are smaller than those of one long sum.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import llvm
from xdsl.dialects.builtin import f32, i64
from xdsl.ir import SSAValue

from ..dialects.llvm_ext import PTR
from .kernel_transpose import transpose_block
from .llvm_builder import FunctionBuilder, Num, Shared, vector
from .split_functions import LANES, Reading, finish

INNER = 256
"""Points of the inner dim whose packed factors the L2 cache holds."""

STRIP = 64
"""Rows that are packed at a time. Where rows are neighbours, four lines of each page are read one after the other."""

ROWS = 8
"""Rows of a tile, whose sums registers hold."""

PANEL = 32
"""Columns of a tile."""

PITCH = INNER + LANES
"""Elements from a packed row to the next: rows of a power of two of bytes are in the same places of the L1 cache."""

UNROLL = 4
"""Points of the inner dim that are written out one after the other."""

CHAIN = 128
"""Products that are added one after the other. A sum's error grows with their number, and MKL's are about as many."""


def packed_bytes(width: int) -> int:
    """Bytes that a loop over so many columns packs: those of a strip of rows, too."""
    return 4 * (STRIP * PITCH + width * INNER)


class Copying(Reading):
    """Writes a factor where tiles of vectors read it, in blocks of 16 points of its dim and of the inner one."""

    name, step = "copy", LANES

    def run(self, start: SSAValue, lo: Num, hi: Num, first: Num, size: Num, k: Num) -> None:
        b, count = self.b, self.b.index_sub(hi, lo)

        def block(o: Num, r: Num) -> list[SSAValue]:
            self._block(self._place(start, o, r), b.index_add(lo, o), hi, b.index_add(first, r), k)
            return []

        if self.along_inner:
            b.loop(0, count, LANES, [], lambda o, _: b.loop(0, size, LANES, [], lambda r, _: block(o, r)))
        else:
            b.loop(0, size, LANES, [], lambda r, _: b.loop(0, count, LANES, [], lambda o, _: block(o, r)))

    def _place(self, start: SSAValue, o: Num, r: Num) -> SSAValue:
        b = self.b
        if not self.right:
            return b.gep(start, b.index_add(b.index_mul(o, PITCH), r), f32)
        half = b.binary(llvm.AndOp, b.number(o), b.constant(LANES, i64))  # the second half of a panel's columns
        panel = b.index_mul(b.index_sub(o, half), INNER)
        return b.gep(start, b.index_add(b.index_add(panel, half), b.index_mul(r, PANEL)), f32)

    def _block(self, place: SSAValue, o: Num, hi: Num, r: Num, k: Num) -> None:
        b, step = self.b, PANEL if self.right else PITCH
        if self.along_inner != self.right:

            def row(i: Num, _: Sequence[SSAValue]) -> list[SSAValue]:
                b.store(self.vector(i, o, hi, r, k), b.gep(place, b.index_mul(i, step), f32), 4)
                return []

            b.loop(0, LANES, 1, [], row)
            return
        for i, v in enumerate(transpose_block(b, [self.vector(i, o, hi, r, k) for i in range(LANES)])):
            b.store(v, b.gep(place, i * step, f32), 4)


def multiply(
    shared: Shared, b: FunctionBuilder, rows: SSAValue, columns: SSAValue, sums: SSAValue, *numbers: Num
) -> None:
    """Call the function that adds products over a part of the inner dim to sums of a strip: of packed rows and
    columns; `numbers` are the elements from a row of sums to the next, which part begins, at 0 with new sums, its
    points, and how many rows there are.
    """

    def make(name: str) -> llvm.FuncOp:
        b = FunctionBuilder([*[PTR] * 3, *[i64] * 4])
        rows, columns, sums, pitch, first, size, count = b.arguments

        def chain(r: Num, _: Sequence[SSAValue]) -> list[SSAValue]:
            column = b.gep(columns, b.index_mul(r, PANEL), f32)
            points, before = b.number(b.index_min(CHAIN, b.index_sub(size, r))), b.number(b.index_add(first, r))

            def tile(m: Num, _: Sequence[SSAValue]) -> list[SSAValue]:
                row = b.gep(rows, b.index_add(b.index_mul(m, PITCH), r), f32)
                _multiply(b, row, column, b.gep(sums, b.index_mul(m, pitch), f32), pitch, before, points)
                return []

            # these columns stay in the L1 cache
            return b.loop(0, count, ROWS, [], tile)

        b.loop(0, size, CHAIN, [], chain)
        return finish(b, name)

    b.call(shared.use("lamella.products", make), [rows, columns, sums, *map(b.number, numbers)])


def _multiply(
    b: FunctionBuilder, rows: SSAValue, columns: SSAValue, sums: SSAValue, pitch: Num, first: SSAValue, size: SSAValue
) -> None:
    """A tile: each element of its rows meets two vectors of its columns."""
    t = vector(f32, LANES)
    parts = range(PANEL // LANES)

    def products(r: Num, carried: Sequence[SSAValue]) -> list[SSAValue]:
        right = [b.load(b.gep(columns, b.index_add(b.index_mul(r, PANEL), j * LANES), f32), t, 4) for j in parts]
        values: list[SSAValue] = []
        for i in range(ROWS):
            x = b.splat(b.load(b.gep(rows, b.index_add(r, i * PITCH), f32), f32, 4), LANES)
            values += [b.intrinsic("fma", (x, right[j], carried[len(parts) * i + j]), t) for j in parts]
        return values

    def several(r: Num, carried: Sequence[SSAValue]) -> list[SSAValue]:
        for i in range(UNROLL):
            carried = products(b.index_add(r, i), carried)
        return list(carried)

    whole = b.binary(llvm.AndOp, size, b.constant(-UNROLL, i64))
    found = b.loop(0, whole, UNROLL, [b.constant(0.0, t)] * (ROWS * len(parts)), several)
    found = b.loop(whole, size, 1, found, products)
    places = [b.gep(sums, b.index_add(b.index_mul(pitch, i), j * LANES), f32) for i in range(ROWS) for j in parts]

    def more() -> list[SSAValue]:
        return [b.fadd(b.load(place, t, 4), v) for place, v in zip(places, found, strict=True)]

    for v, place in zip(b.when(b.icmp("ne", first, b.constant(0, i64)), more, found), places, strict=True):
        b.store(v, place, 4)
