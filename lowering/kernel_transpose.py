"""Copies of tiles with rows and columns exchanged, block by block in registers.

    for [d1, d0] transpose 16 { store load %x[d1, d0], %t[d0, d1] }

Each block is as many vectors as a vector has lanes: whole rows are read, exchanged in log2 steps, and written. Rows and
columns past the end of the loop may be written too, so that `%t` must have room for whole blocks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects import llvm
from xdsl.dialects.builtin import i64
from xdsl.ir import SSAValue

from ..dialects.loop import ForOp, LoadOp, StoreOp
from ..dialects.tensor import TensorType
from .address import evaluate, lane_compare, multiple_of
from .fuse_cost import LINE
from .llvm_builder import FunctionBuilder, Num, bits_of, vector
from .llvm_properties import KernelError
from .memory_to_llvm import Element

if TYPE_CHECKING:
    from .kernel_body import KernelBody


def transpose_block(b: FunctionBuilder, rows: list[SSAValue]) -> list[SSAValue]:
    """The columns of n rows of n lanes: halves, quarters, … of two rows are exchanged down to what lies in 16 bytes,
    and there rows are interleaved, which x86 has an instruction of.
    """
    n = step = len(rows)
    within = min(n, max(1, 128 // bits_of(rows[0])))
    while step > within:
        step //= 2
        low = [j if j & step == 0 else n + j - step for j in range(n)]
        high = [j + step if j & step == 0 else n + j for j in range(n)]
        for i in (i for i in range(n) if i & step == 0):
            a, c = rows[i], rows[i + step]
            rows[i], rows[i + step] = b.shuffle(a, c, low), b.shuffle(a, c, high)
    half, starts = within // 2, range(0, n, within)
    low, high = ([k + at + first + j for at in starts for j in range(half) for k in (0, n)] for first in (0, half))
    for _ in range(half.bit_length()):
        pairs = [(rows[at + i], rows[at + i + half]) for at in starts for i in range(half)]
        rows = [b.shuffle(a, c, lanes) for a, c in pairs for lanes in (low, high)]
    return rows


class TransposeLoop:
    """One such loop: `columns` jump in what is read, `rows` in what is written."""

    def __init__(self, body: KernelBody, op: ForOp, n: int):
        self.body, self.b, self.n = body, body.b, n
        load, store, *_ = ops = tuple(op.body.block.ops)
        if not (isinstance(load, LoadOp) and isinstance(store, StoreOp)) or len(ops) != 3 or len(op.dims) != 2:
            raise KernelError(f"loop.for {op.dims.text} is transposed, but copies no elements of two dims")
        self.columns, self.rows = op.dims
        self.load, self.store = load, store
        self.element = Element.of(cast(TensorType, self.load.source.type))
        self.ends = [evaluate(self.b, d.hi, body.index) for d in (self.columns, self.rows)]

    def run(self) -> None:
        starts = [evaluate(self.b, d.lo, self.body.index) for d in (self.columns, self.rows)]
        target = self.body.target
        masks = target.has_avx512 or (target.vector_bits >= 256 and self.element.size in (4, 8))
        last = self.ends[1]
        if not masks and not multiple_of(self.rows.extent, self.n):
            whole = self.b.index_sub(last, starts[1])
            last = self.b.index_add(starts[1], self.b.index_mul(self._quotient(whole), self.n))
        self.b.loop(starts[0], self.ends[0], self.n, [], lambda c, _: self._blocks(c, starts[1], last, masks))
        if last is not self.ends[1]:
            self.b.loop(starts[0], self.ends[0], 1, [], lambda c, _: self._elements(c, last))

    def _quotient(self, extent: Num) -> Num:
        if isinstance(extent, int):
            return extent // self.n
        return self.b.binary(llvm.SDivOp, extent, self.b.constant(self.n, i64))

    def _blocks(self, column: Num, start: Num, end: Num, masks: bool) -> list[SSAValue]:
        """As many blocks at once as a cache line is wide, each of which asks for its share of the lines."""
        n, beside = self.n, max(1, LINE // (self.n * self.element.size))
        if not multiple_of(self.rows.extent, n * beside):
            beside = 1

        def blocks(row: Num, _: Any) -> list[SSAValue]:
            for k in range(beside):
                self._block(column, self.b.index_add(row, k * n), masks, k, beside)
            return []

        return self.b.loop(start, end, n * beside, [], blocks)

    def _block(self, column: Num, row: Num, masks: bool, share: int, beside: int) -> None:
        b, n, type = self.b, self.n, vector(self.element.memory, self.n)
        mask = None
        if masks and not multiple_of(self.rows.extent, n):
            mask = lane_compare(b, "lt", b.index_sub(self.ends[1], row), n)
        vectors: list[SSAValue] = []
        for k in range(n):
            at = self._before_end(b.index_add(column, k))
            pointer = self._address(self.load, at, row)
            ahead = self.load.attributes.get("prefetch")
            if ahead is not None and k % beside == share:
                first = b.index_sub(self.body.bytes(ahead), share * n * self.element.size)
                self.body.memory.prefetch(self.load, pointer, first, n * beside * self.element.size)
            vectors.append(
                b.load(pointer, type, self.element.size)
                if mask is None
                else self.body.memory.load_masked(self.element, pointer, mask, n)
            )
        for k, v in enumerate(transpose_block(b, vectors)):
            b.store(v, self._address(self.store, column, b.index_add(row, k)), self.element.size)

    def _before_end(self, column: Num) -> Num:
        """A column to read: what lies behind the last one is not touched."""
        if multiple_of(self.columns.extent, self.n):
            return column
        b = self.b
        last = b.number(b.index_sub(self.ends[0], 1))
        return b.select(b.icmp("slt", b.number(column), last), b.number(column), last)

    def _elements(self, column: Num, start: Num) -> list[SSAValue]:
        def at(row: Num, _: Any) -> list[SSAValue]:
            value = self.b.load(self._address(self.load, column, row), self.element.memory, self.element.size)
            self.b.store(value, self._address(self.store, column, row), self.element.size)
            return []

        return self.b.loop(start, self.ends[1], 1, [], at)

    def _address(self, op: LoadOp | StoreOp, column: Num, row: Num) -> SSAValue:
        index = self.body.index
        index[self.columns.symbol], index[self.rows.symbol] = column, row
        buffer = op.source if isinstance(op, LoadOp) else op.target
        at = self.body.lane_index(0)
        pointer, _ = at.address(
            self.body.pointers[buffer], cast(TensorType, buffer.type), tuple(op.index), self.element.memory
        )
        del index[self.columns.symbol], index[self.rows.symbol]
        return pointer
