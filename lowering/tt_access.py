"""Where the elements lie that a kernel reads and writes at tiles, and what of them is at hand.

What is written and read again by the same program is kept as a value where reader and writer have the same tile, else
the program's threads wait in between.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import sympy
from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, StringAttr, i8, i32
from xdsl.ir import Attribute, Operation, SSAValue

from ..dialects import expr, tt
from ..dialects.errors import describe_location
from ..dialects.loop import ForOp, LoadOp, LoopDim, ScratchOp, StoreOp, body_ops
from ..dialects.tensor import TensorType, is_complex
from ..dialects.tt_foreign import BarrierOp
from ..dialects.tt_types import element_of, shape_of, tensor
from .llvm_properties import KernelError
from .tt_builder import Shape, TtBuilder, joint
from .tt_index import MOST, Env, Index, Number, Place, known
from .tt_loops import UNROLL
from .tt_reductions import combine, identity, over
from .tt_scalar import widened


@dataclass(frozen=True, slots=True)
class Axis:
    """A dim of the tile: which loop dim, how many lanes, which of them are points (None: all), and where these end."""

    symbol: sympy.Symbol
    size: int
    valid: SSAValue | None
    end: Number | None


class Accesses:
    """Appends loads and stores to a function."""

    def __init__(self, b: TtBuilder, buffers: Mapping[SSAValue, SSAValue], sizes: Env) -> None:
        self.b = b
        self.buffers = dict(buffers)
        self.env: dict[sympy.Symbol, Place] = dict(sizes)
        self.axes: list[Axis] = []
        self.values: dict[SSAValue, SSAValue] = {}
        self.written: dict[SSAValue, Operation | None] = {}
        """Buffers written since the program last waited for all its threads, with the loop that did it last."""
        self.mutable: set[SSAValue] = set()
        """Buffers that the kernel writes."""
        self.updated: set[SSAValue] = set()
        """Buffers that it writes where data says."""
        self.sums: dict[SSAValue, dict[Any, None]] = {}
        """For each scratch that is added to, the keys of its elements: what loops carry of it."""
        self.zero_beyond = False
        """Whether lanes that are no points read zero; else anything."""
        self.cache = "none"
        """A hint for loads: `ca`, which is what is done without one, makes them differ from those of another form."""

    # Axes

    def index(self, operands: Sequence[SSAValue] = (), bounds: Sequence[int] = ()) -> Index:
        """Index expressions here, with v0, v1, … for `operands`, which are at most `bounds`."""
        env = dict(self.env)
        for i, operand in enumerate(operands):
            value = self.values[operand]
            bound = bounds[i] if i < len(bounds) else 2**63
            if bound <= MOST:
                value = self.b.resize(value, i32)
            number = Number(value, bound)
            env[expr.symbol(f"v{i}")] = Place(known(0), number) if shape_of(value.type) else Place(number)
        return Index(self.b, env)

    @property
    def shape(self) -> Shape:
        return tuple(a.size for a in self.axes)

    def valid(self, shape: Shape) -> SSAValue | None:
        """Which lanes of a value of that shape are points; None for all."""
        mask: SSAValue | None = None
        for axis, n in zip(self.axes, shape, strict=False):
            if n > 1:
                mask = self.b.both(mask, axis.valid)
        return mask

    def add_axis(self, d: LoopDim, start: Number, tile: int, end: Number | None, multiple: int) -> None:
        """An axis of `tile` lanes from `start` on; with `end`, lanes from there on are no points."""
        b = self.b
        lane = Number(b.lanes(tile, len(self.axes)), tile - 1)
        self.env[d.symbol] = Place(start, lane, multiple)
        valid = None
        if end is not None:
            valid = Index(b, self.env).compare("lt", (start, lane), (end, None))
        self.axes.append(Axis(d.symbol, tile, valid, end))

    # Memory

    def _place(self, op: LoadOp | StoreOp, buffer: SSAValue, by: int = 0) -> tuple[Index, SSAValue, SSAValue | None]:
        """Where an access goes, `by` elements on along its last dim, and where it may: index, pointers, condition."""
        type = cast(TensorType, buffer.type)
        index = self.index(op.indices, _bounds(op, type))
        at = tuple(op.index) if by == 0 else (*op.index[:-1], expr.normal(op.index[-1] + by))
        pointer = index.pointer(self.buffers[buffer], type, at)
        mask = None if op.mask is None else index.conjunction(list(op.mask))
        if op.ok is not None:
            mask = self.b.both(mask, self.values[op.ok])
        return index, pointer, mask

    def load(self, op: LoadOp) -> None:
        buffer = op.source
        if buffer in self.mutable:
            kept = self._kept(op)
            if kept is not None:
                self.values[op.res] = self._or_other(op, kept)
                return
            if isinstance(buffer.owner, ScratchOp):
                raise KernelError(f"loop.scratch is read where it is not written ({describe_location(op.location)})")
            if buffer in self.written:
                self.b.insert(BarrierOp.make())
                self.written.clear()
        type = cast(TensorType, buffer.type)
        parity = self._parity(op, type)
        _, pointer, mask = self._place(op, buffer, -parity if parity else 0)
        shape = joint(shape_of(v.type) for v in (pointer, mask) if v is not None)
        valid = self.valid(shape)
        mask, other = self.b.both(mask, valid), None if mask is None else self._other(op, type)
        if self.zero_beyond and other is None and valid is not None:
            other = self.b.constant(0, memory_element(type))
        if parity is None:
            value = self._read(pointer, mask, other, buffer in self.mutable, _evict(op))
        else:
            value = self._of_pairs(pointer, mask, other, parity, _evict(op))
        self.values[op.res] = self._from_memory(value, type)

    def _parity(self, op: LoadOp, type: TensorType) -> int | None:
        """0 or 1 for every second element of rows of even length, from an even or odd one on, in a window: another load
        may read the others, and both are one load of pairs. None for other accesses.
        """
        around = op.parent_op()
        if not isinstance(around, ForOp) or UNROLL not in around.attributes or op.source in self.mutable:
            return None
        if op.indices or not type.shape or type.dtype not in PAIRS:
            return None
        n, moving = type.shape[-1], expr.symbols(op.index[-1])
        lane = next((a.symbol for a in self.axes if a.symbol in moving), None)
        if lane is None:
            return None
        even = isinstance(n, int) and n % 2 == 0 and all(isinstance(s, int) and s % 2 == 0 for s in type.strides[:-1])
        if not even or type.strides[-1] != 1 or any(lane in expr.symbols(e) for e in op.index[:-1]):
            return None
        rest = self.index().fixed(expr.normal(op.index[-1] - 2 * lane))
        return rest % 2 if isinstance(rest, int) else None

    def _of_pairs(
        self, pointer: SSAValue, mask: SSAValue | None, other: SSAValue | None, parity: int, evict: str
    ) -> SSAValue:
        """The first or second of two elements that begin at each pointer."""
        b, shape = self.b, (*self.shape, 2)
        second = b.lanes(2, len(shape) - 1)
        pairs = b.pure(tt.AddPtrOp, (b.fit(b.fit(pointer, self.shape), shape), b.fit(second, shape)),
                       tensor(element_of(pointer.type), shape))  # fmt: skip
        loaded = self._read(pairs, None if mask is None else b.fit(mask, self.shape), other, False, evict)
        halves = b.recall(("halves", loaded))
        if halves is None:
            type = tensor(element_of(loaded.type), self.shape)
            halves = b.effect(tt.SplitOp, (loaded,), (type, type)).results
            b.remember(("halves", loaded), halves)
        return halves[parity]

    def _other(self, op: LoadOp, type: TensorType) -> SSAValue:
        """What a load gives where it may not read, as it would be in memory."""
        memory = memory_element(type)
        if isinstance(op.other, (IntegerAttr, FloatAttr)):
            return self.b.constant(cast(Any, op.other).value.data, memory)
        return self.b.constant(0, memory)

    def _or_other(self, op: LoadOp, value: SSAValue) -> SSAValue:
        """A value at hand for a load that may have a condition."""
        if op.mask is None and op.ok is None:
            return value
        index = self.index(op.indices)
        mask = self.b.both(None if op.mask is None else index.conjunction(list(op.mask)),
                           None if op.ok is None else self.values[op.ok])  # fmt: skip
        if mask is None:
            return value
        other = self.b.constant(0, element_of(value.type)) if op.other is None else self.b.literal(cast(Any, op.other))
        return self.b.select(mask, value, other)

    def _read(
        self, pointer: SSAValue, mask: SSAValue | None, other: SSAValue | None, changes: bool, evict: str
    ) -> SSAValue:
        b = self.b
        shape = joint(shape_of(v.type) for v in (pointer, mask) if v is not None)
        operands = [b.fit(v, shape) for v in (pointer, mask, other if mask is not None else None) if v is not None]
        key = (tt.LoadOp, *operands)
        found = None if changes else b.recall(key)
        if found is None:
            found = b.insert(
                tt.LoadOp.make(*operands, evict=evict, cache=self.cache if evict == "evict_normal" else "none")
            ).results[0]
            if not changes:
                b.remember(key, found)
        return found

    def _from_memory(self, value: SSAValue, type: TensorType) -> SSAValue:
        return self.b.compare("ne", value, self.b.constant(0, i8)) if type.dtype == "i1" else value

    def _to_memory(self, value: SSAValue, type: TensorType) -> SSAValue:
        return self.b.resize(value, i8, False) if type.dtype == "i1" else value

    def store(self, op: StoreOp) -> None:
        b, buffer, value = self.b, op.target, self.values[op.value]
        if isinstance(buffer.owner, ScratchOp) and buffer in self.updated:
            self._add_up(op, value)
            return
        if op.mask is None and op.ok is None and buffer not in self.updated:
            self._keep(op, value)
        if isinstance(buffer.owner, ScratchOp):
            return
        type = cast(TensorType, buffer.type)
        _, pointer, mask = self._place(op, buffer)
        value = self._to_memory(value, type)
        if op.combine is not None:
            self._update(op, pointer, value, mask, type)
            return
        shape = joint(shape_of(v.type) for v in (pointer, value, mask) if v is not None)
        mask = b.both(mask, self.valid(shape))
        operands = [b.fit(v, shape) for v in (pointer, value, mask) if v is not None]
        around = op.parent_op()
        if self.written.get(buffer, around) is not around:
            self.b.insert(BarrierOp.make())  # what is written again was another thread's
            self.written.clear()
        b.insert(tt.StoreOp.make(*operands, evict=_evict(op)))
        self.written[buffer] = around

    def _add_up(self, op: StoreOp, value: SSAValue) -> None:
        """Set an element of scratch, or add to it what the lanes of all axes have that loops around entered since."""
        b, (key, axes), rank = self.b, self._element(op), len(self.axes)
        value = b.fit(value, self.shape)
        if op.combine is not None:
            old, before, rank = b.recall(key) or (None, (), 0)
            new = len(self.axes) - rank
            if old is None or op.mask is not None or op.ok is not None or axes != tuple(a + new for a in before):
                raise KernelError(f"loop.scratch is added to, but not as it was set ({describe_location(op.location)})")
            kind, axes, first = op.combine.data, before, rank - len(axes)
            for axis in self.axes[first : first + new]:
                if axis.valid is not None:
                    value = b.select(axis.valid, value, identity(b, kind, element_of(value.type)))
            for at in reversed(range(first, first + new)):
                (value,) = over(b, [value], at, lambda x, y: [combine(b, kind, x[0], y[0])])
            value = combine(b, kind, old, value)
        self.sums.setdefault(op.target, {})[key] = None
        b.remember(key, (value, axes, rank))

    def carried(self, op: ForOp) -> list[Any]:
        """The keys of the elements of scratch that a loop adds to, of those that are set."""
        stores = [o for o in body_ops(op.body) if isinstance(o, StoreOp) and o.combine is not None]
        keys = [key for buffer in dict.fromkeys(o.target for o in stores) for key in self.sums.get(buffer, ())]
        return [key for key in keys if self.b.recall(key) is not None]

    def carry(self, keys: Sequence[Any], values: Sequence[SSAValue]) -> None:
        """Have other values at hand for elements of scratch."""
        for key, value in zip(keys, values, strict=True):
            self.b.remember(key, (value, *self.b.recall(key)[1:]))

    def _update(self, op: StoreOp, pointer: SSAValue, value: SSAValue, mask: SSAValue | None, type: TensorType) -> None:
        """Every point updates: at once where the hardware can, else this program is alone and goes point by point."""
        b, kind, around = self.b, cast(StringAttr, op.combine).data, op.parent_op()
        if self.written.get(op.target, around) is not around:
            b.insert(BarrierOp.make())  # what it adds to was set by another thread
            self.written.clear()
        shape = self.shape
        mask = b.both(mask, self.valid(shape))
        operands = [b.fit(v, shape) for v in (pointer, value, mask) if v is not None]
        atomic = atomic_kind(kind, type.dtype)
        if atomic is not None:
            b.insert(tt.AtomicRMWOp.make(atomic, *operands))
        else:
            old = self._from_memory(self._read(pointer, mask, None, True, "evict_normal"), type)
            new = combine(b, kind, widened(b, old), widened(b, self.values[op.value]))
            new = self._to_memory(self.b.cast(arith.TruncFOp, new, type.element) if new.type != old.type else new, type)
            operands[1] = b.fit(new, shape)
            b.insert(tt.StoreOp.make(*operands))
        self.written[op.target] = around

    def _element(self, op: LoadOp | StoreOp) -> tuple[Any, tuple[int, ...]]:
        """Which element of its buffer an access means, and which axes its plain indices are.

        Equal dims of different loops are one place, also where their axes come in another order.
        """
        index = self.index(op.indices)
        parts: list[Any] = [op.operands[int(isinstance(op, StoreOp))]]
        axes: list[int] = []
        for e in op.index:
            axis = next((i for i, a in enumerate(self.axes) if a.symbol == e), None)
            base, lane = index.split(e)
            if axis is None:
                parts.append((base.value, None if lane is None else lane.value))
            else:
                parts.append((base.value, self.axes[axis].size))
                axes.append(axis)
        return tuple(parts), tuple(axes)

    def _keep(self, op: StoreOp, value: SSAValue) -> None:
        """Remember what was written."""
        key, axes = self._element(op)
        self.b.remember(key, (value, axes, len(self.axes)))

    def _kept(self, op: LoadOp) -> SSAValue | None:
        """What was written to the element that is read here, if it is at hand."""
        key, axes = self._element(op)
        found = self.b.recall(key)
        if found is None:
            return None
        value, before, rank = found
        shape = shape_of(value.type)
        if not shape or (axes == before and len(shape) <= len(self.axes)):
            return value
        # axes that the element has go to their places here, the others have one point
        rank = max(rank, len(self.axes))
        moved = dict(zip(axes, before, strict=True))
        rest = [i for i in range(rank) if i not in moved.values()]
        order = [moved[i] if i in moved else rest.pop(0) for i in range(rank)]
        value = self.b.fit(value, (*shape, *[1] * (rank - len(shape))))
        return self.b.reorder(value, order, len(self.axes))


PAIRS = ("f32", "bf16", "f16")
"""Elements of which two are loaded at once."""


def _evict(op: LoadOp | StoreOp) -> str:
    """What the caches are told of an access: loop-tile's attribute `evict`."""
    hint = op.attributes.get("evict")
    return f"evict_{hint.data}" if isinstance(hint, StringAttr) else "evict_normal"


def memory_element(type: TensorType) -> Attribute:
    """What an element is in memory. Raises KernelError for one that no kernel of a GPU has."""
    if is_complex(type.dtype):
        raise KernelError(f"kernels have no elements of type {type.dtype}")
    return i8 if type.dtype == "i1" else type.element


def _bounds(op: LoadOp | StoreOp, type: TensorType) -> list[int]:
    """For v0, v1, …: how large they may be, where they stand by themselves in the index of a known shape."""
    bounds: list[int] = []
    for i in range(len(op.indices)):
        v = expr.symbol(f"v{i}")
        sizes = [n for e, n in zip(op.index, type.shape, strict=True) if v in expr.symbols(e)]
        plain = all(e == v for e in op.index if v in expr.symbols(e))
        bounds.append(sizes[0] if plain and len(sizes) == 1 and isinstance(sizes[0], int) else 2**63)
    return bounds


def atomic_kind(kind: str, dtype: str) -> str | None:
    """The atomic operation of the hardware for an update, if there is one."""
    if dtype in ("f32", "f64", "f16", "bf16"):
        return "fadd" if kind == "add" else None
    if dtype in ("i32", "i64"):
        return kind if kind in ("add", "max", "min") else None
    return None
