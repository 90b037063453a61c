"""The body of a kernel as llvm ops: its loops, and in them scalar ops made as many lanes wide as the loop says.

A `loop.for` with `vector` runs its dim in vectors of `lanes`, `unroll` of them side by side: every value that depends
on the dim is one vector per copy, every other one stays scalar. What is left over runs in one more loop of single
vectors, masked in its last step, or element by element on a target without masks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, cast

import sympy
from xdsl.dialects import arith, llvm
from xdsl.dialects.builtin import IntegerAttr, IntegerType, StringAttr, f32, f64, i1
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
from ..dialects.tensor import TensorType, scalar_type
from .address import LaneIndex, evaluate, lane_compare, multiple_of, relation
from .kernel_loops import ForLoop, Lanes, Value, scan_type
from .kernel_pack import PackLoop
from .kernel_pairs import sums_of
from .kernel_sort import Sorter
from .kernel_transpose import TransposeLoop
from .llvm_builder import FunctionBuilder, KernelError, Num, element_of, lanes_of
from .memory_to_llvm import MAX_STRIDE, Element, Memory
from .reductions import combine, scan_lanes
from .scalar_to_llvm import ScalarCode


class KernelBody:
    """Appends a kernel's ops to a function.

    `pointers` has the buffers, `index` the values of size and grid symbols. `fail(ok, n)` leaves the function when the
    n-th message's condition does not hold.
    """

    def __init__(
        self,
        b: FunctionBuilder,
        target: Any,
        pointers: Mapping[SSAValue, SSAValue],
        read_only: frozenset[SSAValue],
        index: dict[sympy.Symbol, Num],
        fail: Callable[[SSAValue, str], None],
    ):
        self.b = b
        self.target = target
        self.code = ScalarCode(b, target)
        self.memory = Memory(b)
        self.pointers = dict(pointers)
        self.read_only = read_only
        self.index = index
        self.fail = fail
        self.values: dict[SSAValue, Value] = {}
        self.lanes: Lanes | None = None
        self.scans: dict[ScanOp | SortOp, list[SSAValue]] = {}
        self.has_nontemporal = False

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

    def _scalar(self, op: Operation) -> Value:
        operands = [self.values[v] for v in op.operands]
        if not any(isinstance(v, tuple) for v in operands):
            return self.code.emit(op, cast("list[SSAValue]", operands))
        if isinstance(op, arith.TruncFOp) and (rounded := self.code.rounded(op, cast("Any", operands[0]))) is not None:
            return tuple(rounded)
        return tuple([self.code.emit(op, [self.copy(v, k) for v in operands]) for k in range(self.copies)])

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
        env[lanes.dim] = b.index_add(env[lanes.dim], k * lanes.lanes)
        return LaneIndex(b, env, lanes.dim, lanes.lanes, lanes.aligned, varying)

    def _index(self, op: IndexOp) -> None:
        self.values[op.res] = self._per_copy(lambda k: self.b.number(self.lane_index(k).value(op.value[0])))

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
        self.values[op.res] = self._per_copy(lambda k: self._conjunction(op.value, self.lane_index(k)))

    def _per_copy(self, build: Callable[[int], SSAValue]) -> Value:
        """One value for each copy; that of the first alone where it is a scalar."""
        first = build(0)
        if self.lanes is None or lanes_of(first) == 1:
            return first
        return (first, *(build(k) for k in range(1, self.copies)))

    def _conjunction(self, relations: Any, at: LaneIndex) -> SSAValue:
        result: SSAValue | None = None
        for r in relations:
            value = relation(self.b, r, at)
            result = value if result is None else self.b.binary(llvm.AndOp, result, value)
        return self.b.constant(1, i1) if result is None else result

    def _mask(self, op: LoadOp | StoreOp, k: int, at: LaneIndex) -> SSAValue | None:
        """Where the op's own conditions hold, or None for everywhere."""
        mask = None if op.mask is None else self._conjunction(op.mask, at)
        if op.ok is not None:
            ok = self.operand(op.ok, k)
            mask = ok if mask is None else self.b.binary(llvm.AndOp, mask, ok)
        return mask

    def _active(self, mask: SSAValue | None) -> SSAValue | None:
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
        type = cast(TensorType, op.source.type)
        element, other = Element.of(type), None if op.other is None else self.code.literal(op.other)
        first = self._load_copy(op, type, element, other, 0)
        if self.lanes is None or lanes_of(first) == 1:
            self.values[op.res] = first
            return
        self.values[op.res] = (first, *(self._load_copy(op, type, element, other, k) for k in range(1, self.copies)))

    def _load_copy(self, op: LoadOp, type: TensorType, element: Element, other: SSAValue | None, k: int) -> SSAValue:
        b, lanes, memory = self.b, self.lanes, self.memory
        at = self.lane_index(k, op.indices)
        mask = self._mask(op, k, at)
        pointer, step = at.address(self.pointers[op.source], type, tuple(op.index), element.memory)
        # Reading where the kernel never writes may be done earlier; not so where the address depends on data.
        invariant = op.source in self.read_only and not op.indices
        if lanes is None or (step == 0 and (mask is None or lanes_of(mask) == 1)):
            return memory.load_one(element, pointer, mask, other, invariant)
        if step == 0:
            assert mask is not None
            value = memory.load_one(element, pointer, self._any(cast(SSAValue, self._active(mask))), None, False)
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
        ahead = op.attributes.get("prefetch")
        if k == 0 and ahead is not None and step == 1 and lanes.mask is None:
            memory.prefetch(op, pointer, self.bytes(ahead), lanes.lanes * lanes.copies * element.size)
        if lanes.mask is not None and mask is None:
            return memory.load_lanes(element, pointer, step, lanes.lanes, lanes.mask, None, False)
        return memory.load_lanes(element, pointer, step, lanes.lanes, self._active(mask), other, invariant)

    def bytes(self, ahead: Attribute) -> Num:
        """A number of bytes as a schedule gives it."""
        if isinstance(ahead, IntegerAttr):
            return cast("IntegerAttr[IntegerType]", ahead).value.data
        return evaluate(self.b, cast(IndexAttr, ahead)[0], self.index)

    def _store(self, op: StoreOp) -> None:
        type = cast(TensorType, op.target.type)
        element = Element.of(type)
        if "nontemporal" in op.attributes and self._streams(op, type, element):
            b = self.b
            self.has_nontemporal = True
            aligned = self.memory.is_aligned(self.pointers[op.target], element.size * cast(Lanes, self.lanes).lanes)

            def store(nontemporal: bool) -> list[SSAValue]:
                for k in range(self.copies):
                    self._store_copy(op, type, element, k, nontemporal)
                return []

            b.when(aligned, lambda: store(True), lambda: store(False))
            return
        for k in range(self.copies):
            self._store_copy(op, type, element, k, False)

    def _streams(self, op: StoreOp, type: TensorType, element: Element) -> bool:
        """Whether all its vectors lie as the buffer does: only then may the store bypass the caches."""
        lanes = self.lanes
        if lanes is None or lanes.mask is not None or not lanes.aligned or op.mask is not None or op.ok is not None:
            return False
        if op.combine is not None or op.indices:
            return False
        at = self.lane_index(0)
        steps = [at.step(e) for e in op.index]
        if any(s is None for s in steps) or sum(s * t for s, t in zip(steps, type.strides, strict=True)) != 1:
            return False
        offset = sum(e * t for e, t in zip(op.index, type.strides, strict=True)) - lanes.dim
        return multiple_of(expr.normal(sympy.expand(offset)), lanes.lanes)

    def _store_copy(self, op: StoreOp, type: TensorType, element: Element, k: int, nontemporal: bool) -> None:
        b, lanes, memory = self.b, self.lanes, self.memory
        at = self.lane_index(k, op.indices)
        value = self.operand(op.value, k)
        mask = self._active(self._mask(op, k, at))
        pointer, step = at.address(self.pointers[op.target], type, tuple(op.index), element.memory)
        ahead = op.attributes.get("prefetch")
        if k == 0 and ahead is not None and step == 1 and lanes is not None and lanes.mask is None:
            memory.prefetch(op, pointer, self.bytes(ahead), lanes.lanes * lanes.copies * element.size)
        if op.combine is not None:
            self._update(op, element, value, pointer, step, mask, at)
        elif lanes is None or (step == 0 and lanes_of(value) == 1 and (mask is None or lanes_of(mask) == 1)):
            memory.store_one(element, value, pointer, mask)
        elif step in (1, -1):
            memory.store_lanes(element, value, pointer, step, lanes.lanes, mask, nontemporal)
        else:
            pointers = pointer if step is None else b.gep(pointer, at.offsets(step), element.memory)
            memory.store_lanes(element, value, pointers, None, lanes.lanes, mask)

    def _update(
        self,
        op: StoreOp,
        element: Element,
        value: SSAValue,
        pointer: SSAValue,
        step: Any,
        mask: SSAValue | None,
        at: LaneIndex,
    ) -> None:
        """Read, combine, write: a vector at once where the lanes are neighbours, else lane by lane in order."""
        b, memory, kind = self.b, self.memory, cast(StringAttr, op.combine).data
        lanes = 1 if self.lanes is None else self.lanes.lanes
        if lanes > 1 and step in (1, -1) and op.atomic is None:
            old = memory.load_lanes(element, pointer, step, lanes, mask, None, False)
            new = self._combined(element, kind, old, b.splat(value, lanes))
            memory.store_lanes(element, new, pointer, step, lanes, mask)
            return
        if lanes > 1 and step is not None:
            pointer = b.gep(pointer, at.offsets(step), element.memory)
        parts = [memory.lanes(v, lanes) for v in (value, pointer)]
        masks = [None] * lanes if mask is None else memory.lanes(mask, lanes)
        for one, place, on in zip(*parts, masks, strict=True):
            if op.atomic is not None:
                memory.atomic(element, kind, one, place, on)
            else:
                old = memory.load_one(element, place, on, None, False)
                memory.store_one(element, self._combined(element, kind, old, one), place, on)

    def _combined(self, element: Element, kind: str, old: SSAValue, new: SSAValue) -> SSAValue:
        type = scalar_type(element.dtype)
        return self.code.narrowed(combine(self.code, kind, *(self.code.widened(v, type) for v in (old, new))), type)

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
            if across:
                value = scan_lanes(self.code, kind, value)
            new = combine(self.code, kind, state, value)
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
    "loop.store": KernelBody._store,
    "loop.index": KernelBody._index,
    "loop.pred": KernelBody._pred,
    "arith.cmpi": KernelBody._compare,
    "loop.assert": KernelBody._assert,
    "loop.scratch": KernelBody._scratch,
    "loop.for": KernelBody._for,
    "loop.scan": KernelBody._scan,
    "loop.sort": KernelBody._sort,
}
