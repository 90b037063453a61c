"""Code of matrix units (AMX) for the loops that `schedule_matrix` makes: sums of tiles.

A tile is 16 rows of 64 bytes. `tdpbf16ps` adds to 16 x 16 sums the products of 16 x 32 elements of the left factor and
of the right one's 32 x 16, which lie in pairs along the inner dim: p[n / 16, k / 2, n mod 16, k mod 2]; `tdpbssd` and
its like those of 16 x 64 bytes, which lie in fours. Two tiles of rows and two of columns are at work at once.

Source: Intel Architecture Instruction Set Extensions Programming Reference, chapter 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import i8, i32, i64
from xdsl.ir import Operation, SSAValue

from ..dialects import llvm_ext
from ..dialects.expr import Dim
from ..dialects.loop import ForOp, LoadOp, StoreOp
from ..dialects.tensor import TensorType
from .address import evaluate
from .llvm_builder import FunctionBuilder, Num
from .llvm_properties import memory_access
from .memory_to_llvm import Element
from .schedule_access import stride
from .target import TILE_PERMISSION

if TYPE_CHECKING:
    from .kernel_body import KernelBody

SIDE = 32
"""Rows and columns of a step."""

BYTES = 64
"""Bytes of a row of a tile."""

INNER = 256
"""Points of the inner dim after which the next columns come: what a strip of rows has there stays in the L1 cache."""

_FACTORS = ((4, 5), (6, 7))
_SUMS = ((0, 1), (2, 3))


def is_matrix(op: ForOp) -> bool:
    """Whether a loop has the form that `MatrixLoop` has code for."""
    body = [o.name for o in op.body.block.ops]
    if "matrix" not in op.attributes or body != ["loop.for", "loop.store", "loop.yield"] or len(op.dims) != 2:
        return False
    ops = list(cast(ForOp, op.body.block.first_op).body.block.ops)
    if len(ops) != 6 or not isinstance(x := ops[0], LoadOp) or not isinstance(w := ops[2], LoadOp):
        return False
    wide, also, product = ops[1], ops[3], ops[4]
    if wide.operands[0] is not x.res or also.operands[0] is not w.res:
        return False
    halves = isinstance(product, arith.MulfOp) and isinstance(wide, arith.ExtFOp) and isinstance(also, arith.ExtFOp)
    return halves or (isinstance(product, arith.MuliOp) and isinstance(wide, _EXTENDED) and isinstance(also, _EXTENDED))


def packed_of(op: ForOp) -> TensorType | None:
    """The type of the packed factor that a loop writes or reads, if it is one of `schedule_matrix`."""
    if "pack" in op.attributes:
        return cast(TensorType, next(o for o in op.body.block.ops if isinstance(o, StoreOp)).target.type)
    if not is_matrix(op):
        return None
    _, w = (o for o in cast(ForOp, op.body.block.first_op).body.block.ops if isinstance(o, LoadOp))
    return cast(TensorType, w.source.type)


_EXTENDED = (arith.ExtSIOp, arith.ExtUIOp)


class Tiles:
    """The registers of matrix units: four tiles of sums, two of rows and two of columns of the factors."""

    def __init__(self, b: FunctionBuilder) -> None:
        self.b = b

    def configure(self, rows: Sequence[int] = (16,) * 8) -> None:
        """Get the permission, and say how many rows of 64 bytes each tile has."""
        b = self.b
        b.call("syscall", [b.constant(n, i64) for n in TILE_PERMISSION], i64)
        data = [0] * 64
        data[0] = 1
        for i, n in enumerate(rows):
            data[16 + 2 * i], data[48 + i] = (BYTES, n) if n else (0, 0)
        place = b.alloca(64)
        b.at_entry(llvm_ext.StoreOp, (b.dense(data, i8), place), memory_access(64))
        b.effect_intrinsic("x86.ldtilecfg", (place,))

    def release(self) -> None:
        self.b.effect_intrinsic("x86.tilerelease", ())

    def zero(self, i: int, j: int) -> None:
        """Sums of rows `i` and columns `j`."""
        self._do("tilezero", _SUMS[i][j])

    def load_sums(self, i: int, j: int, place: SSAValue, pitch: Num) -> None:
        """`pitch` is in bytes."""
        self._do("tileloadd64", _SUMS[i][j], place, pitch)

    def store_sums(self, i: int, j: int, place: SSAValue, pitch: Num) -> None:
        self._do("tilestored64", _SUMS[i][j], place, pitch)

    def load_factor(self, side: int, i: int, place: SSAValue, pitch: Num) -> None:
        """A tile of the left factor or of the right one (`side` 0 or 1)."""
        self._do("tileloadd64", _FACTORS[side][i], place, pitch)

    def multiply(self, product: str, i: int, j: int) -> None:
        """Add to sums the product of rows `i` and columns `j`."""
        tiles = [self.b.constant(n, i8) for n in (_SUMS[i][j], _FACTORS[0][i], _FACTORS[1][j])]
        self.b.effect_intrinsic(f"x86.{product}", tiles)

    def _do(self, name: str, tile: int, *operands: Any) -> None:
        b = self.b
        values = [b.constant(v, i64) if isinstance(v, int) else v for v in operands]
        b.effect_intrinsic(f"x86.{name}", (b.constant(tile, i8), *values))


class SumsLoop:
    """The loop over rows and columns of a block whose sums are made in tiles."""

    def __init__(self, body: KernelBody, op: ForOp) -> None:
        self.body, self.b = body, body.b
        self.rows, self.columns = op.dims
        inner, self.store, _ = cast("tuple[ForOp, StoreOp, Operation]", tuple(op.body.block.ops))
        self.terms = list(inner.body.block.ops)
        """How a point of the sum is made."""
        self.x, self.packed = (o for o in self.terms if isinstance(o, LoadOp))
        (self.r,) = inner.dims

    def run(self) -> None:
        """Emit the loop."""
        raise NotImplementedError


class MatrixLoop(SumsLoop):
    """Tiles are those of matrix units."""

    def __init__(self, body: KernelBody, op: ForOp) -> None:
        super().__init__(body, op)
        self.element = Element.of(cast(TensorType, self.packed.source.type))
        self.group = 4 // self.element.size
        signs = ["u" if isinstance(o, arith.ExtUIOp) else "s" for o in self.terms if isinstance(o, _EXTENDED)]
        self.product = f"tdpb{''.join(signs)}d" if signs else "tdpbf16ps"
        self.height = cast(int, self.rows.extent)
        self.tiles = Tiles(self.b)
        self.heights = (16, 16) if self.height >= SIDE else (min(self.height, 16), max(self.height - 16, 0))

    def run(self) -> None:
        b, index = self.b, self.body.index
        self.tiles.configure([self.heights[0]] * 2 + [self.heights[1]] * 2 + [*self.heights] + [16] * 2)
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

            part(0, b.index_min(INNER, k))
            b.loop(INNER, k, INNER, [], lambda lo, _: part(lo, b.index_min(b.index_add(lo, INNER), k)))
            return []

        b.loop(0, self.height, SIDE, [], strip)
        self.tiles.release()

    def _tiles(self, row: Num, m: Num, n: Num, first: Num, lo: Num, hi: Num) -> list[SSAValue]:
        """Four tiles of sums over a part of the inner dim. `row` is that of the block, `first` its first column."""
        b, index, tiles = self.b, self.body.index, self.tiles
        used = [(i, j) for i in (0, 1) if self.heights[i] for j in (0, 1)]
        index[self.rows.symbol], index[self.columns.symbol] = m, n
        pitch = evaluate(b, cast(Dim, stride(self.x, self.rows.symbol)), index)
        pairs = evaluate(b, cast(TensorType, self.packed.source.type).shape[1], index)
        width = evaluate(b, cast(TensorType, self.store.target.type).strides[0], index)
        column = b.index_sub(n, first)
        element, size = self.element.memory, self.element.size
        start = b.index_mul(column, b.index_mul(pairs, self.group))
        panel = b.gep(self.body.pointers[self.packed.source], start, element)
        far = b.index_mul(pairs, BYTES // size)
        sums = b.gep(self.body.pointers[self.store.target], b.index_add(b.index_mul(row, width), column), i32)

        def place(i: int, j: int) -> tuple[SSAValue, Num]:
            at = b.gep(sums, b.index_mul(width, 16 * i), i32)
            return b.gep(at, 16 * j, i32), b.index_mul(width, 4)

        for i, j in used:
            if lo == 0:
                tiles.zero(i, j)
            else:
                tiles.load_sums(i, j, *place(i, j))

        def step(r: Num, _: Any) -> list[SSAValue]:
            index[self.r.symbol] = r
            x, w = address_of(self.body, self.x), b.gep(panel, b.index_mul(r, 16), element)
            for i in dict.fromkeys(i for i, _ in used):
                at = b.gep(x, b.index_mul(pitch, 16 * i), element)
                tiles.load_factor(0, i, at, b.index_mul(pitch, size))
            for j in (0, 1):
                tiles.load_factor(1, j, b.gep(w, b.index_mul(far, j), element), BYTES)
            for i, j in used:
                tiles.multiply(self.product, i, j)
            del index[self.r.symbol]
            return []

        b.loop(lo, hi, BYTES // size, [], step)
        for i, j in used:
            tiles.store_sums(i, j, *place(i, j))
        for d in (self.rows, self.columns):
            del index[d.symbol]
        return []


def address_of(body: KernelBody, load: LoadOp) -> SSAValue:
    """Where the element lies that is loaded at the point that the indices stand at."""
    t = cast(TensorType, load.source.type)
    at = body.lane_index(0)
    pointer, _ = at.address(body.pointers[load.source], t, tuple(load.index), Element.of(t).memory)
    return pointer
