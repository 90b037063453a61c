"""Sums of products of bytes in vectors, for the loops that `schedule_matrix` makes where there are no matrix units.

`pmaddwd` multiplies pairs of 16 bits and adds the two: of bytes that is exact, where instructions on bytes themselves
saturate. A tile has rows of the left factor, a pair of which goes to all lanes, and vectors of packed columns.

Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, PMADDWD.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from xdsl.dialects import llvm
from xdsl.dialects.builtin import i16, i32, i64
from xdsl.ir import SSAValue

from ..dialects.loop import ForOp
from ..dialects.tensor import TensorType
from .address import evaluate
from .kernel_matrix import MatrixLoop, SumsLoop, address_of, packed_of
from .llvm_builder import Num, vector
from .target import CpuTarget
from .vectors import Vectors

if TYPE_CHECKING:
    from .kernel_body import KernelBody

_MULTIPLY = {4: "x86.sse2.pmadd.wd", 8: "x86.avx2.pmadd.wd", 16: "x86.avx512.pmaddw.d.512"}
"""Lanes of a vector of sums to the instruction."""


def sums_of(op: ForOp, target: CpuTarget) -> type[SumsLoop] | None:
    """What adds up the products that a loop of `schedule_matrix` packs a factor of, or adds up; None where the target
    has no instructions for it.
    """
    packed = packed_of(op)
    if packed is None:
        return None
    if packed.dtype != "i16":
        return MatrixLoop if target.has_amx else None
    return PairsLoop if target.has_pairs and 32 * cast(int, packed.shape[2]) <= target.vector_bits else None


class PairsLoop(SumsLoop):
    """Tiles are of vectors."""

    def __init__(self, body: KernelBody, op: ForOp) -> None:
        super().__init__(body, op)
        panels, _, lanes, _ = cast("tuple[int, int, int, int]", cast(TensorType, self.packed.source.type).shape)
        self.lanes = lanes
        vectors = Vectors(body.target.vector_bits, body.target.registers)
        self.copies = next(n for n in range(min(vectors.copies, panels), 0, -1) if panels % n == 0)
        self.height = cast(int, cast(TensorType, self.store.target.type).shape[0])
        self.tile = min(self.height, vectors.sums // vectors.copies)

    def run(self) -> None:
        """The last tile of rows is a whole one, though some of its rows were there already."""
        b, index = self.b, self.body.index
        n_lo, n_hi = (evaluate(b, e, index) for e in (self.columns.lo, self.columns.hi))
        m_lo, k = (evaluate(b, e, index) for e in (self.rows.lo, self.r.hi))
        step = self.copies * self.lanes

        def columns(n: Num) -> list[SSAValue]:
            return b.loop(0, self.height, self.tile, [], lambda m, _: self._tile(self._row(m), m_lo, n, n_lo, k))

        b.loop(n_lo, n_hi, step, [], lambda n, _: columns(n))

    def _row(self, m: Num) -> Num:
        if self.height % self.tile == 0:
            return m
        b, last = self.b, self.b.constant(self.height - self.tile, i64)
        return b.select(b.icmp("slt", b.number(m), last), b.number(m), last)

    def _tile(self, row: Num, m_lo: Num, n: Num, first: Num, k: Num) -> list[SSAValue]:
        b, index, lanes = self.b, self.body.index, self.lanes
        pairs = evaluate(b, cast(TensorType, self.packed.source.type).shape[1], index)
        width = evaluate(b, cast(TensorType, self.store.target.type).strides[0], index)
        column = b.index_sub(n, first)
        panel = b.gep(self.body.pointers[self.packed.source], b.index_mul(column, b.index_mul(pairs, 2)), i16)
        far = b.index_mul(pairs, 2 * lanes)
        index[self.columns.symbol], index[self.r.symbol] = n, 0
        starts: list[SSAValue] = []
        for i in range(self.tile):
            index[self.rows.symbol] = b.index_add(b.index_add(m_lo, row), i)
            starts.append(address_of(self.body, self.x))
        for d in (self.rows, self.columns, self.r):
            del index[d.symbol]
        t, halves = vector(i32, lanes), vector(i16, 2 * lanes)

        def step(r: Num, sums: Sequence[SSAValue]) -> list[SSAValue]:
            at = b.gep(panel, b.index_mul(r, lanes), i16)
            w = [b.load(b.gep(at, b.index_mul(far, j), i16), halves, 2) for j in range(self.copies)]
            new: list[SSAValue] = []
            for i, start in enumerate(starts):
                pair = b.splat(b.load(b.gep(start, r, i16), i32, 2), lanes)
                x = b.pure(llvm.BitcastOp, (pair,), halves)
                for j, v in enumerate(w):
                    new.append(b.add(sums[i * self.copies + j], b.intrinsic(_MULTIPLY[lanes], (x, v), t)))
            return new

        zero = b.constant(0, t)
        sums = b.loop(0, k, 2, [zero] * (self.tile * self.copies), step)
        target = b.gep(self.body.pointers[self.store.target], b.index_add(b.index_mul(row, width), column), i32)
        for i in range(self.tile):
            for j in range(self.copies):
                at = b.gep(b.gep(target, b.index_mul(width, i), i32), j * lanes, i32)
                b.store(sums[i * self.copies + j], at, 4)
        return []
