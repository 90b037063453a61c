"""The body of a kernel as llvm ops: its loops, and in them scalar ops made as many lanes wide as the loop says.

A `loop.for` with `vector` runs its dim in vectors of `lanes`, `unroll` of them side by side: every value that depends
on the dim is one vector per copy, every other one stays scalar. What is left over runs in one more loop of single
vectors, masked in its last step, or element by element on a target without masks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import sympy
from xdsl.dialects import arith, llvm
from xdsl.dialects.builtin import IntegerAttr, IntegerType, f32, f64, i1
from xdsl.ir import Attribute, Block, Operation, SSAValue

from ..dialects import expr
from ..dialects.errors import describe_location
from ..dialects.loop import (
    AssertOp,
    ForOp,
    IndexAttr,
    IndexOp,
    LoadOp,
    PredOp,
    ScanOp,
    ScratchOp,
    SortOp,
    StoreOp,
)
from ..dialects.tensor import TensorType, itemsize
from .address import LaneIndex, evaluate, lane_compare, relation
from .kernel_apart import load_apart
from .kernel_loops import ForLoop, Value
from .kernel_pack import PackLoop
from .kernel_pairs import sums_of
from .kernel_sort import Sorter
from .kernel_split import run_split
from .kernel_store import store
from .kernel_transpose import TransposeLoop
from .lanes import Lanes
from .llvm_builder import FunctionBuilder, KernelError, Num, Shared, element_of, lanes_of
from .memory_to_llvm import MAX_STRIDE, Element, Memory
from .scalar_to_llvm import ScalarCode
from .scans import joined, scan_lanes, scan_type
from .schedule_access import stride


@dataclass
class Side:
    """A point of the grid beside others."""

    index: dict[sympy.Symbol, Num]
    pointers: dict[SSAValue, SSAValue]
    values: dict[SSAValue, Value] = field(default_factory=dict)
    ahead: dict[LoadOp, Num] = field(default_factory=dict)
    """Of loads that ask for the next point's row: how many bytes away that is, or which row it is of one looked up."""


class KernelBody:
    """Appends a kernel's ops to a function.

    `pointers` has the buffers, `index` the values of size and grid symbols. `fail(ok, n)` leaves the function when the
    n-th message's condition does not hold. `shared` has functions that all kernels of a module may call.
    """

    def __init__(
        self,
        b: FunctionBuilder,
        target: Any,
        pointers: Mapping[SSAValue, SSAValue],
        read_only: frozenset[SSAValue],
        index: dict[sympy.Symbol, Num],
        fail: Callable[[SSAValue, str], None],
        shared: Shared,
    ):
        self.b = b
        self.target = target
        self.code = ScalarCode(b, target)
        self.memory = Memory(b)
        self.pointers = dict(pointers)
        self.read_only = read_only
        self.index = index
        self.fail = fail
        self.shared = shared
        self.values: dict[SSAValue, Value] = {}
        self.lanes: Lanes | None = None
        self.scans: dict[ScanOp | SortOp, list[SSAValue]] = {}
        self.has_nontemporal = False
        self.rows_ahead: dict[LoadOp, Num] = {}
        self.rooms: dict[ForOp, SSAValue] = {}
        """Memory of loops that pack factors on their own."""

    # ------------------------------------------------------------------------------------------------------- ops

    def block(self, block: Block) -> None:
        """Every op of a block but its terminator."""
        self.run(op for op in block.ops if op.next_op is not None)

    def run(self, ops: Iterable[Operation]) -> None:
        """These ops, in order."""
        for op in ops:
            self.b.location = op.location
            rule = _RULES.get(op.name)
            if rule is not None:
                rule(self, op)
            else:
                self.values[op.results[0]] = self._scalar(op)

    def side_by_side(self, block: Block, sides: Sequence[Side]) -> None:
        """The ops of a block, each for all sides, so that what waits for one has the others to do."""
        for op in block.ops:
            if op.next_op is None:
                break
            for side in sides:
                self.take(side)
                self.run([op])

    def take(self, side: Side) -> None:
        """What follows is made for a point."""
        self.index, self.pointers, self.values = side.index, side.pointers, side.values
        self.rows_ahead = side.ahead

    def _scalar(self, op: Operation) -> Value:
        operands = [self.values[v] for v in op.operands]
        if not any(isinstance(v, tuple) for v in operands):
            return self.code.emit(op, cast("list[SSAValue]", operands))
        if isinstance(op, arith.TruncFOp) and (rounded := self.code.rounded(op, cast("Any", operands[0]))) is not None:
            return tuple(rounded)
        return tuple([self.code.emit(op, [self.copy(v, k) for v in operands]) for k in range(self.copies)])

    def enter(self, lanes: Lanes | None) -> None:
        """What follows is made for these lanes."""
        self.lanes = lanes
        self.code.is_apart = lanes is not None and lanes.apart

    @property
    def copies(self) -> int:
        return 1 if self.lanes is None else self.lanes.copies

    def copy(self, value: Value, k: int) -> SSAValue:
        return value[k] if isinstance(value, tuple) else value

    def operand(self, value: SSAValue, k: int) -> SSAValue:
        return self.copy(self.values[value], k)

    # ----------------------------------------------------------------------------------------------------------- index

    def lane_index(self, k: int, operands: Sequence[SSAValue] = ()) -> LaneIndex:
        """Index expressions at copy `k`, with v0, v1, … for `operands`."""
        b, lanes = self.b, self.lanes
        env: dict[sympy.Symbol, Num] = dict(self.index)
        varying: dict[sympy.Symbol, SSAValue] = {}
        for i, operand in enumerate(operands):
            value = self.operand(operand, k)
            (varying if lanes_of(value) > 1 else env)[expr.symbol(f"v{i}")] = value
        if lanes is None:
            return LaneIndex(b, env)
        env[lanes.dim] = b.index_add(env[lanes.dim], (k & ~1 if lanes.apart else k) * lanes.lanes)
        return LaneIndex(b, env, lanes.dim, lanes.lanes, lanes.aligned, varying)

    def _index(self, op: IndexOp) -> None:
        self.values[op.res] = self._per_copy(op.value, lambda k: self.b.number(self.lane_index(k).value(op.value[0])))

    def _compare(self, op: arith.CmpiOp) -> None:
        """An index that grows by 1 from lane to lane needs no vector of its own beside what all lanes share."""
        lanes, index = self.lanes, op.lhs.owner
        name = _SIGNED.get(cast("IntegerAttr[IntegerType]", op.predicate).value.data)
        right = self.values[op.rhs]
        if lanes is None or name is None or not isinstance(index, IndexOp) or isinstance(right, tuple):
            self.values[op.result] = self._scalar(op)
            return
        at = [self.lane_index(k) for k in range(self.copies)]
        e = index.value[0]
        if at[0].step(e) != 1:
            self.values[op.result] = self._scalar(op)
            return
        gaps = [self._gap(right, x.base(e), lanes.lanes) for x in at]
        self.values[op.result] = tuple([lane_compare(self.b, name, gap, lanes.lanes) for gap in gaps])

    def _gap(self, value: SSAValue, base: Num, lanes: int) -> Num:
        """value - base, but no more than just outside of the lanes: any i64 may stand there."""
        b = self.b
        low, high = (b.number(b.index_add(base, n)) for n in (-1, lanes))
        value = b.select(b.icmp("slt", value, low), low, value)
        return b.index_sub(b.select(b.icmp("sgt", value, high), high, value), base)

    def _pred(self, op: PredOp) -> None:
        self.values[op.res] = self._per_copy(op.value, lambda k: self._conjunction(op.value, self.lane_index(k)))

    def _per_copy(self, expressions: Iterable[Any], build: Callable[[int], SSAValue]) -> Value:
        """One value for each copy; that of the first alone where it is a scalar, which these expressions say.

        What all lanes of a vector share, as `floordiv(d0, 48)` of aligned ones, copies need not.
        """
        first, lanes = build(0), self.lanes
        if lanes is None:
            return first
        if lanes_of(first) > 1:
            return (first, *(build(k) for k in range(1, lanes.copies)))
        if lanes.copies == 1 or not any(lanes.dim in expr.symbols(e) for e in expressions):
            return first
        return tuple([self.b.splat(v, lanes.lanes) for v in (first, *(build(k) for k in range(1, lanes.copies)))])

    def _conjunction(self, relations: Any, at: LaneIndex) -> SSAValue:
        result: SSAValue | None = None
        for r in relations:
            value = relation(self.b, r, at)
            result = value if result is None else self.b.binary(llvm.AndOp, result, value)
        return self.b.constant(1, i1) if result is None else result

    def mask_of(self, op: LoadOp | StoreOp, k: int, at: LaneIndex) -> SSAValue | None:
        """Where the op's own conditions hold, or None for everywhere."""
        mask = None if op.mask is None else self._conjunction(op.mask, at)
        if op.ok is not None:
            ok = self.operand(op.ok, k)
            mask = ok if mask is None else self.b.binary(llvm.AndOp, mask, ok)
        return mask

    def active(self, mask: SSAValue | None) -> SSAValue | None:
        """A mask, and the lanes that are on here."""
        on = None if self.lanes is None else self.lanes.mask
        if mask is None or on is None:
            return on if mask is None else mask
        return self.b.binary(llvm.AndOp, mask, on)

    def _any(self, mask: SSAValue) -> SSAValue:
        """Whether a lane of a mask is set."""
        lanes = lanes_of(mask)
        return mask if lanes == 1 else self.b.intrinsic("vector.reduce.or", (mask,), i1)

    # ---------------------------------------------------------------------------------------------------------- memory

    def _load(self, op: LoadOp) -> None:
        if self.lanes is not None and self.lanes.apart and (found := load_apart(self, op)) is not None:
            self.values[op.res] = found
            return
        type = cast(TensorType, op.source.type)
        element, other = Element.of(type), None if op.other is None else self.code.literal(op.other)
        where = (*op.index, *(op.mask or ()))
        self.values[op.res] = self._per_copy(where, lambda k: self._load_copy(op, type, element, other, k))

    def _load_copy(self, op: LoadOp, type: TensorType, element: Element, other: SSAValue | None, k: int) -> SSAValue:
        b, lanes, memory = self.b, self.lanes, self.memory
        at = self.lane_index(k, op.indices)
        mask = self.mask_of(op, k, at)
        pointer, step = at.address(self.pointers[op.source], type, tuple(op.index), element.memory)
        # Reading where the kernel never writes may be done earlier; not so where the address depends on data.
        invariant = op.source in self.read_only and not op.indices
        if lanes is None or (step == 0 and (mask is None or lanes_of(mask) == 1)):
            return memory.load_one(element, pointer, mask, other, invariant)
        if step == 0:
            assert mask is not None
            value = memory.load_one(element, pointer, self._any(cast(SSAValue, self.active(mask))), None, False)
            rest = b.constant(0, element.register) if other is None else other
            return b.select(mask, b.splat(value, lanes.lanes), b.splat(rest, lanes.lanes))
        near = isinstance(step, int) and 1 <= step <= MAX_STRIDE <= lanes.lanes
        if near and mask is not None and lanes_of(mask) == 1:
            # what all lanes share decides where the vector is read
            pointer = b.select(mask, pointer, memory.filler(element, other, step * lanes.lanes))
            mask, other, invariant = None, None, False
        if near and step > 1 and mask is None:
            return memory.load_strided(element, pointer, step, lanes.lanes, lanes.left, invariant)
        if near and step > 1 and lanes.mask is None:
            # all lanes are on but at the ends of a row
            some, all_on = mask, b.intrinsic("vector.reduce.and", (cast(SSAValue, mask),), i1)

            def one_by_one() -> list[SSAValue]:
                each = b.gep(pointer, at.offsets(step), element.memory)
                return [memory.load_lanes(element, each, None, lanes.lanes, some, other, False)]

            whole = partial(memory.load_strided, element, pointer, step, lanes.lanes, None, False)
            return b.when(all_on, lambda: [whole()], one_by_one)[0]
        if step not in (None, 1, -1):
            pointer, step = b.gep(pointer, at.offsets(step), element.memory), None
        ahead = self.ahead(op)
        if k == 0 and ahead is not None and step == 1 and lanes.mask is None:
            memory.prefetch(op, pointer, ahead, lanes.lanes * lanes.copies * element.size)
        if lanes.mask is not None and mask is None:
            return memory.load_lanes(element, pointer, step, lanes.lanes, lanes.mask, None, False)
        return memory.load_lanes(element, pointer, step, lanes.lanes, self.active(mask), other, invariant)

    def ahead(self, op: LoadOp | StoreOp) -> Num | None:
        """How many bytes further on memory is asked for: a distance, or the row that the next point takes."""
        distance = op.attributes.get("prefetch")
        if distance is not None:
            return self.bytes(distance)
        row = self.rows_ahead.get(op) if isinstance(op, LoadOp) else None
        if row is None or not op.indices:
            return row
        source, chosen = cast(TensorType, cast(LoadOp, op).source.type), self.operand(op.indices[0], 0)
        step = evaluate(self.b, cast(Any, stride(op, expr.symbol("v0"))), self.index)
        return self.b.index_mul(self.b.index_sub(row, chosen), self.b.index_mul(step, itemsize(source.dtype)))

    def bytes(self, ahead: Attribute) -> Num:
        """A number of bytes as a schedule gives it."""
        if isinstance(ahead, IntegerAttr):
            return cast("IntegerAttr[IntegerType]", ahead).value.data
        return evaluate(self.b, cast(IndexAttr, ahead)[0], self.index)

    def _assert(self, op: AssertOp) -> None:
        for k in range(self.copies):
            ok = self.operand(op.ok, k)
            on = None if self.lanes is None else self.lanes.mask
            if on is not None:
                ok = self.b.binary(llvm.OrOp, ok, self.b.binary(llvm.XOrOp, on, self.b.constant(1, on.type)))
            if lanes_of(ok) > 1:
                ok = self.b.intrinsic("vector.reduce.and", (ok,), i1)
            self.fail(ok, op.message.data)
            if not isinstance(self.values[op.ok], tuple):
                return

    def _scratch(self, op: ScratchOp) -> None:
        if op.res not in self.pointers:
            raise KernelError(f"loop.scratch without a buffer ({describe_location(op.location)})")

    # ----------------------------------------------------------------------------------------------------------- loops

    def _for(self, op: ForOp) -> None:
        blocks = op.attributes.get("transpose")
        if isinstance(blocks, IntegerAttr) and self.lanes is None:
            TransposeLoop(self, op, cast("IntegerAttr[IntegerType]", blocks).value.data).run()
            return
        if op in self.rooms:
            run_split(self, op, self.rooms[op])
            return
        if self.lanes is None and (sums := sums_of(op, self.target)) is not None:
            (PackLoop if "pack" in op.attributes else sums)(self, op).run()
            return
        loop = ForLoop(self, op)
        results = loop.run()
        for result, value in zip(op.res, results, strict=True):
            self.values[result] = value

    def _scan(self, op: ScanOp) -> None:
        if op not in self.scans:
            raise KernelError(f"loop.scan along {op.dim.data}, which is not a dim of the loop around it")
        kind, states = op.kind.data, self.scans[op]
        across = self.lanes is not None and self.lanes.dim.name == op.dim.data
        running: list[SSAValue] = []
        for k in range(self.copies):
            state = states[0 if across else k]
            value = self.b.splat(self._scanned(op, self.operand(op.value, k)), lanes_of(state))
            new = (scan_lanes if across else joined)(self.code, kind, state, value)
            running.append(new)
            if across:
                states = [self.b.splat(self.b.extract(new, lanes_of(new) - 1), lanes_of(new))]
        self.scans[op] = states if across else running
        results = [self._unscanned(op, v) for v in running]
        self.values[op.res] = results[0] if self.lanes is None else tuple(results)

    def _sort(self, op: SortOp) -> None:
        sorter = Sorter(self, op)
        (d,) = cast(ForOp, op.parent_op()).dims
        values = [self.operand(op.value, k) for k in range(self.copies)]
        self.scans[op] = sorter.add(values, self.scans[op], sorter.held == d.extent)

    def _scanned(self, op: ScanOp, value: SSAValue) -> SSAValue:
        value = self.code.widened(value, op.value.type)
        return self.b.cast(llvm.FPExtOp, value, f64) if scan_type(op) == f64 != element_of(value) else value

    def _unscanned(self, op: ScanOp, value: SSAValue) -> SSAValue:
        if element_of(value) == f64 != op.res.type:
            value = self.b.cast(llvm.FPTruncOp, value, f32)
        return self.code.narrowed(value, op.res.type)


_SIGNED = dict(enumerate(("eq", "ne", "lt", "le", "gt", "ge")))
"""Predicates of `arith.cmpi`."""

_RULES: dict[str, Callable[[KernelBody, Any], None]] = {
    "loop.load": KernelBody._load,
    "loop.store": store,
    "loop.index": KernelBody._index,
    "loop.pred": KernelBody._pred,
    "arith.cmpi": KernelBody._compare,
    "loop.assert": KernelBody._assert,
    "loop.scratch": KernelBody._scratch,
    "loop.for": KernelBody._for,
    "loop.scan": KernelBody._scan,
    "loop.sort": KernelBody._sort,
}
