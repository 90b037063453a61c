"""Code of matrix units (AMX) for the loops that `schedule_matrix` makes: packing a factor, and sums of tiles.

A tile is 16 rows of 64 bytes. `tdpbf16ps` adds to 16 x 16 sums the products of 16 x 32 elements of the left factor and
of the right one's 32 x 16, which lie in pairs along the inner dim: p[n / 16, k / 2, n mod 16, k mod 2]. Two tiles of
rows and two of columns are at work at once.

Source: Intel Architecture Instruction Set Extensions Programming Reference, chapter 3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects import llvm
from xdsl.dialects.builtin import StringAttr, i8, i16, i32, i64
from xdsl.ir import Operation, SSAValue

from ..dialects import llvm_ext
from ..dialects.expr import Dim
from ..dialects.loop import ForOp, LoadOp, LoopDim, StoreOp
from ..dialects.tensor import TensorType
from .address import evaluate
from .kernel_loops import Lanes
from .kernel_transpose import transpose_block
from .llvm_builder import Num, vector
from .llvm_properties import memory_access
from .memory_to_llvm import Element
from .schedule_access import stride
from .target import TILE_PERMISSION

if TYPE_CHECKING:
    from .kernel_body import KernelBody

SIDE = 32
"""Rows, columns, and points of the inner dim of a step."""

ROWS = 8
"""Rows that are packed before the next columns are, where columns are neighbours: pages are read in long runs."""

INNER = 256
"""Points of the inner dim after which the next columns come: what a strip of rows has there stays in the L1 cache."""

_A, _B = (4, 5), (6, 7)
_SUMS = ((0, 1), (2, 3))


def is_matrix(op: ForOp) -> bool:
    """Whether a loop has the form that `MatrixLoop` has code for."""
    body = [o.name for o in op.body.block.ops]
    if "matrix" not in op.attributes or body != ["loop.for", "loop.store", "loop.yield"] or len(op.dims) != 2:
        return False
    inner = [o.name for o in cast(ForOp, op.body.block.first_op).body.block.ops]
    return inner == ["loop.load", "arith.extf", "loop.load", "arith.extf", "arith.mulf", "loop.yield"]


class PackLoop:
    """The loop that puts a factor in pairs; its vectors lie along the dim that its attribute `pack` names."""

    def __init__(self, body: KernelBody, op: ForOp) -> None:
        self.body, self.b = body, body.b
        self.columns, self.r = op.dims
        *self.ops, self.store, _ = cast("list[Any]", list(op.body.block.ops))
        self.across = cast(StringAttr, op.attributes["pack"]).data == self.r.name
        self.pairs = cast(TensorType, self.store.target.type).shape[1]

    def run(self) -> None:
        b = self.b
        lo, hi = (evaluate(b, e, self.body.index) for e in (self.columns.lo, self.columns.hi))
        k = evaluate(b, self.r.hi, self.body.index)
        target = self.body.pointers[self.store.target]

        def base(n: Num) -> SSAValue:
            return b.gep(target, b.index_mul(b.index_sub(n, lo), b.index_mul(self._size(), 2)), i16)

        if self.across:
            b.loop(lo, hi, 16, [], lambda n, _: b.loop(0, k, SIDE, [], lambda r, _: self._transposed(base(n), n, r)))
        else:
            b.loop(0, k, ROWS, [], lambda r, _: b.loop(lo, hi, SIDE, [], lambda n, _: self._interleaved(base(n), n, r)))

    def _size(self) -> Num:
        """Pairs along the inner dim."""
        return evaluate(self.b, self.pairs, self.body.index)

    def _values(self, column: Num, row: Num, along: LoopDim) -> SSAValue:
        """The bits of 32 elements along a dim."""
        body = self.body
        body.index[self.columns.symbol], body.index[self.r.symbol] = column, row
        body.lanes = Lanes(along.symbol, SIDE, 1, None, False)
        body.run(self.ops)
        value = self.b.splat(body.operand(self.store.value, 0), SIDE)
        body.lanes = None
        for d in (self.columns, self.r):
            del body.index[d.symbol]
        return value

    def _transposed(self, base: SSAValue, column: Num, row: Num) -> list[SSAValue]:
        """16 columns that lie along the inner dim: pairs are exchanged as integers."""
        b = self.b
        rows = [self._values(b.index_add(column, i), row, self.r) for i in range(16)]
        pairs = [b.pure(llvm.BitcastOp, (v,), vector(i32, 16)) for v in rows]
        start = b.gep(base, b.index_mul(row, 16), i16)
        for j, v in enumerate(transpose_block(b, pairs)):
            b.store(v, b.gep(start, j * SIDE, i16), 2)
        return []

    def _interleaved(self, base: SSAValue, column: Num, row: Num) -> list[SSAValue]:
        """32 columns that are neighbours, of a few rows, two at a time."""
        b = self.b
        start = b.gep(base, b.index_mul(row, 16), i16)
        other = b.gep(start, b.index_mul(self._size(), SIDE), i16)
        for j in range(0, ROWS, 2):
            one, two = (self._values(column, b.index_add(row, j + i), self.columns) for i in (0, 1))
            for first, to in ((0, start), (16, other)):
                lanes = [first + i // 2 + (i % 2) * SIDE for i in range(SIDE)]
                b.store(b.shuffle(one, two, lanes), b.gep(to, j * 16, i16), 2)
        return []


class MatrixLoop:
    """The loop over rows and columns of a block whose sums are made in tiles."""

    def __init__(self, body: KernelBody, op: ForOp) -> None:
        self.body, self.b = body, body.b
        self.rows, self.columns = op.dims
        inner, self.store, _ = cast("tuple[ForOp, StoreOp, Operation]", tuple(op.body.block.ops))
        self.x, self.packed = (o for o in inner.body.block.ops if isinstance(o, LoadOp))
        (self.r,) = inner.dims
        self.height = cast(int, self.rows.extent)
        self.heights = (16, 16) if self.height >= SIDE else (min(self.height, 16), max(self.height - 16, 0))

    def run(self) -> None:
        b, index = self.b, self.body.index
        b.call("syscall", [b.constant(n, i64) for n in TILE_PERMISSION], i64)
        b.effect_intrinsic("x86.ldtilecfg", (self._configuration(),))
        n_lo, n_hi = (evaluate(b, e, index) for e in (self.columns.lo, self.columns.hi))
        m_lo, k = (evaluate(b, e, index) for e in (self.rows.lo, self.r.hi))

        def strip(m: Num, _: Any) -> list[SSAValue]:
            """The last strip is a whole one, though some of its rows were there already."""
            if self.height > SIDE and self.height % SIDE:
                last = b.constant(self.height - SIDE, i64)
                m = b.select(b.icmp("slt", b.number(m), last), b.number(m), last)
            at = b.index_add(m_lo, m)

            def part(lo: Num, hi: Num) -> list[SSAValue]:
                return b.loop(n_lo, n_hi, SIDE, [], lambda n, _: self._tiles(m, at, n, n_lo, lo, hi))

            part(0, self._end(0, k))
            b.loop(INNER, k, INNER, [], lambda lo, _: part(lo, self._end(lo, k)))
            return []

        b.loop(0, self.height, SIDE, [], strip)
        b.effect_intrinsic("x86.tilerelease", ())

    def _end(self, lo: Num, k: Num) -> Num:
        """Where a part of the inner dim ends."""
        b, hi = self.b, self.b.index_add(lo, INNER)
        if isinstance(hi, int) and isinstance(k, int):
            return min(hi, k)
        return b.select(b.icmp("slt", b.number(hi), b.number(k)), b.number(hi), b.number(k))

    def _configuration(self) -> SSAValue:
        """The 64 bytes that say how many rows of how many bytes each tile has."""
        b = self.b
        rows = [self.heights[0]] * 2 + [self.heights[1]] * 2 + [*self.heights] + [16] * 2
        data = [0] * 64
        data[0] = 1
        for i, n in enumerate(rows):
            data[16 + 2 * i], data[48 + i] = (64, n) if n else (0, 0)
        place = b.alloca(64)
        b.at_entry(llvm_ext.StoreOp, (b.dense(data, i8), place), memory_access(64))
        return place

    def _tiles(self, row: Num, m: Num, n: Num, first: Num, lo: Num, hi: Num) -> list[SSAValue]:
        """Four tiles of sums over a part of the inner dim. `row` is that of the block, `first` its first column."""
        b, index = self.b, self.body.index
        used = [(i, j) for i in (0, 1) if self.heights[i] for j in (0, 1)]
        index[self.rows.symbol], index[self.columns.symbol] = m, n
        pitch = evaluate(b, cast(Dim, stride(self.x, self.rows.symbol)), index)
        pairs = evaluate(b, cast(TensorType, self.packed.source.type).shape[1], index)
        width = evaluate(b, cast(TensorType, self.store.target.type).strides[0], index)
        column = b.index_sub(n, first)
        panel = b.gep(self.body.pointers[self.packed.source], b.index_mul(column, b.index_mul(pairs, 2)), i16)
        far = b.index_mul(pairs, SIDE)
        sums = b.gep(self.body.pointers[self.store.target], b.index_add(b.index_mul(row, width), column), i32)

        def place(i: int, j: int) -> tuple[SSAValue, Num]:
            at = b.gep(sums, b.index_mul(width, 16 * i), i32)
            return b.gep(at, 16 * j, i32), b.index_mul(width, 4)

        for i, j in used:
            if lo == 0:
                self._do("tilezero", _SUMS[i][j])
            else:
                self._do("tileloadd64", _SUMS[i][j], *place(i, j))

        def step(r: Num, _: Any) -> list[SSAValue]:
            index[self.r.symbol] = r
            x, w = self._address(self.x), b.gep(panel, b.index_mul(r, 16), i16)
            for i in dict.fromkeys(i for i, _ in used):
                self._do("tileloadd64", _A[i], b.gep(x, b.index_mul(pitch, 16 * i), i16), b.index_mul(pitch, 2))
            for j in (0, 1):
                self._do("tileloadd64", _B[j], b.gep(w, b.index_mul(far, j), i16), 64)
            for i, j in used:
                self._do("tdpbf16ps", _SUMS[i][j], _A[i], _B[j])
            del index[self.r.symbol]
            return []

        b.loop(lo, hi, SIDE, [], step)
        for i, j in used:
            self._do("tilestored64", _SUMS[i][j], *place(i, j))
        for d in (self.rows, self.columns):
            del index[d.symbol]
        return []

    def _address(self, load: LoadOp) -> SSAValue:
        t = cast(TensorType, load.source.type)
        at = self.body.lane_index(0)
        pointer, _ = at.address(self.body.pointers[load.source], t, tuple(load.index), Element.of(t).memory)
        return pointer

    def _do(self, name: str, tile: int, *operands: Any) -> None:
        """An intrinsic of tiles: these are numbers, as are steps that are known."""
        b = self.b
        constant = i8 if name == "tdpbf16ps" else i64
        values = [b.constant(v, constant) if isinstance(v, int) else v for v in operands]
        b.effect_intrinsic(f"x86.{name}", (b.constant(tile, i8), *values))
