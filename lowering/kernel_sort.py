"""`loop.sort`: values of a loop are put into a buffer, which `lamella_sort_*` orders (`codegen/sorting_runtime.py`).

Where the buffer holds all of them that is all. Else it takes those that are not above a bound: when it is full it is
sorted, what is wanted stays, and the last of that is the new bound. Few vectors have anything below it after a while.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from xdsl.dialects import llvm
from xdsl.dialects.builtin import IntegerType, i1, i64
from xdsl.ir import SSAValue

from ..dialects import expr
from ..dialects.loop import SortOp
from ..dialects.tensor import TensorType
from .address import evaluate
from .llvm_builder import lanes_of
from .llvm_properties import intern
from .sorting import LANES, held

if TYPE_CHECKING:
    from .kernel_body import KernelBody


class Sorter:
    """The code of one `loop.sort`; its state is how many elements are in the buffer, and the bound."""

    def __init__(self, body: KernelBody, op: SortOp) -> None:
        self.body, self.op, self.b = body, op, body.b
        t = cast(TensorType, op.target.type)
        self.dtype, self.element = t.dtype, cast(IntegerType, t.element)
        self.lanes = LANES[t.dtype]
        self.held = expr.normal(held(t.shape[0], t.dtype))

    def start(self) -> list[SSAValue]:
        b = self.b
        return [b.constant(0, i64), b.constant((1 << (self.element.width.data - 1)) - 1, self.element)]

    def add(self, values: Sequence[SSAValue], state: Sequence[SSAValue], all: bool) -> list[SSAValue]:
        """The state with the lanes of `values` that are on; `all`: the buffer holds all there are."""
        state = list(state)
        lanes = self.body.lanes
        for value in values:
            on = None if lanes is None else lanes.mask
            if lanes is not None:
                value = self.b.splat(value, lanes.lanes)
            for first in range(0, lanes_of(value), self.lanes):
                part, mask = self._part(value, first), None if on is None else self._part(on, first)
                state = self._put(part, mask, state) if all else self._choose(part, mask, state)
        return state

    def _part(self, v: SSAValue, first: int) -> SSAValue:
        size = lanes_of(v)
        return v if size <= self.lanes else self.b.shuffle(v, v, list(range(first, min(first + self.lanes, size))))

    def _put(self, v: SSAValue, mask: SSAValue | None, state: list[SSAValue]) -> list[SSAValue]:
        """The buffer has room for whole vectors: what is off behind the others is overwritten or filled later."""
        b = self.b
        b.store(v, self._place(state[0]), self.element.width.data // 8)
        more = b.constant(lanes_of(v), i64) if mask is None else self._count(mask)
        return [b.add(state[0], more), state[1]]

    def _choose(self, v: SSAValue, mask: SSAValue | None, state: list[SSAValue]) -> list[SSAValue]:
        b = self.b
        hits = b.icmp("sle", v, state[1])
        if mask is not None:
            hits = b.binary(llvm.AndOp, hits, mask)
        some = hits if lanes_of(v) == 1 else b.intrinsic("vector.reduce.or", (hits,), i1)

        def put() -> list[SSAValue]:
            place = self._place(state[0])
            if lanes_of(v) == 1:
                b.store(v, place, self.element.width.data // 8)
            else:
                b.effect_intrinsic("masked.compressstore", (v, place, hits))
            there = b.add(state[0], self._count(hits))
            full = b.icmp("sgt", there, b.constant(cast(int, self.held) - self.lanes, i64))
            return b.when(full, lambda: self._shortened(there), [there, state[1]])

        return b.when(some, put, state)

    def _shortened(self, there: SSAValue) -> list[SSAValue]:
        b = self.b
        self.finish(there)
        count = b.number(evaluate(b, self.op.count, self.body.index))
        place = self._place(b.sub(count, b.constant(1, i64)))
        return [count, b.load(place, self.element, self.element.width.data // 8)]

    def _count(self, mask: SSAValue) -> SSAValue:
        b, lanes = self.b, lanes_of(mask)
        if lanes == 1:
            return b.cast(llvm.ZExtOp, mask, i64)
        bits = intern(IntegerType(lanes))
        whole = b.pure(llvm.BitcastOp, (mask,), bits)
        return b.cast(llvm.ZExtOp, b.intrinsic("ctpop", (whole,), bits), i64)

    def _place(self, i: SSAValue) -> SSAValue:
        return self.b.gep(self.body.pointers[self.op.target], i, self.element)

    def finish(self, there: SSAValue) -> None:
        """Order what is in the buffer."""
        self.b.call(f"lamella_sort_{self.dtype}", (self.body.pointers[self.op.target], there))
