"""Code of the loops that pack a factor in groups along the inner dim:

p[n / lanes, k / group, n mod lanes, k mod group]
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects import llvm
from xdsl.dialects.builtin import StringAttr, i16, i32
from xdsl.ir import SSAValue

from ..dialects.loop import ForOp, LoopDim
from ..dialects.tensor import TensorType
from .address import evaluate
from .kernel_transpose import transpose_block
from .lanes import Lanes
from .llvm_builder import Num, vector
from .memory_to_llvm import Element

if TYPE_CHECKING:
    from .kernel_body import KernelBody

ROWS = 8
"""Rows that are packed before the next columns are, where columns are neighbours: pages are read in long runs."""


class PackLoop:
    """One such loop; its vectors lie along the dim that its attribute `pack` names."""

    def __init__(self, body: KernelBody, op: ForOp) -> None:
        self.body, self.b = body, body.b
        self.columns, self.r = op.dims
        *self.ops, self.store, _ = cast("list[Any]", list(op.body.block.ops))
        self.across = cast(StringAttr, op.attributes["pack"]).data == self.r.name
        t = cast(TensorType, self.store.target.type)
        _, self.groups, lanes, group = t.shape
        self.lanes, self.group = cast(int, lanes), cast(int, group)
        self.element = Element.of(t)

    def run(self) -> None:
        b, lanes = self.b, self.lanes
        lo, hi = (evaluate(b, e, self.body.index) for e in (self.columns.lo, self.columns.hi))
        k = evaluate(b, self.r.hi, self.body.index)
        target = self.body.pointers[self.store.target]

        def base(n: Num) -> SSAValue:
            return self._at(target, b.index_mul(b.index_sub(n, lo), b.index_mul(self._size(), self.group)))

        if self.across:
            step = lanes * self.group
            b.loop(lo, hi, lanes, [], lambda n, _: b.loop(0, k, step, [], lambda r, _: self._transposed(base(n), n, r)))
        else:
            step = 2 * lanes
            b.loop(0, k, ROWS, [], lambda r, _: b.loop(lo, hi, step, [], lambda n, _: self._interleaved(base(n), n, r)))

    def _size(self) -> Num:
        """Groups along the inner dim."""
        return evaluate(self.b, self.groups, self.body.index)

    def _at(self, base: SSAValue, n: Num) -> SSAValue:
        return self.b.gep(base, n, self.element.memory)

    def _values(self, column: Num, row: Num, along: LoopDim, lanes: int) -> SSAValue:
        """The bits of elements along a dim."""
        body = self.body
        body.index[self.columns.symbol], body.index[self.r.symbol] = column, row
        body.lanes = Lanes(along.symbol, lanes, 1, None, False)
        body.run(self.ops)
        value = self.b.splat(body.operand(self.store.value, 0), lanes)
        body.lanes = None
        for d in (self.columns, self.r):
            del body.index[d.symbol]
        return value

    def _transposed(self, base: SSAValue, column: Num, row: Num) -> list[SSAValue]:
        """As many columns as a vector has groups, along the inner dim: groups are exchanged as integers."""
        b, step = self.b, self.lanes * self.group
        rows = [self._values(b.index_add(column, i), row, self.r, step) for i in range(self.lanes)]
        groups = [b.pure(llvm.BitcastOp, (v,), vector(i32, self.lanes)) for v in rows]
        start = self._at(base, b.index_mul(row, self.lanes))
        for j, v in enumerate(transpose_block(b, groups)):
            b.store(v, self._at(start, j * step), self.element.size)
        return []

    def _interleaved(self, base: SSAValue, column: Num, row: Num) -> list[SSAValue]:
        """Columns that are neighbours, of a few rows, a group at a time."""
        b, lanes = self.b, self.lanes
        start = self._at(base, b.index_mul(row, lanes))
        other = self._at(start, b.index_mul(self._size(), lanes * self.group))
        for j in range(0, ROWS, self.group):
            rows = [self._values(column, b.index_add(row, j + i), self.columns, 2 * lanes) for i in range(self.group)]
            if self.group == 4:
                # bytes of two rows are pairs, which are interleaved as such
                zipped = [i // 2 + (i % 2) * 2 * lanes for i in range(4 * lanes)]
                two = (b.shuffle(rows[0], rows[1], zipped), b.shuffle(rows[2], rows[3], zipped))
                rows = [b.pure(llvm.BitcastOp, (v,), vector(i16, 2 * lanes)) for v in two]
            for first, to in ((0, start), (lanes, other)):
                order = [first + i // 2 + (i % 2) * 2 * lanes for i in range(2 * lanes)]
                b.store(b.shuffle(rows[0], rows[1], order), self._at(to, j * lanes), self.element.size)
        return []
