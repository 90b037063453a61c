"""Loads and stores of tensor elements: by how the address moves between lanes, with masks, hints and read-modify-write.

bool is a byte in memory and i1 in registers, f16 and bf16 are i16. What a mask leaves out is not touched: vectors use
masked instructions, single elements are redirected to a spare slot on the stack.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from xdsl.dialects import llvm
from xdsl.dialects.builtin import IntegerAttr, IntegerType, f32, f64, i1, i8, i32, i64
from xdsl.ir import Attribute, SSAValue

from ..dialects import llvm_ext
from ..dialects.loop import LoadOp, StoreOp
from ..dialects.tensor import TensorType, itemsize
from .address import lane_compare
from .llvm_builder import FunctionBuilder, KernelError, Num, lanes_of, vector
from .llvm_properties import memory_access
from .scalar_to_llvm import register_type

SUPPORTED = ("i1", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f16", "bf16", "f32", "f64")

MAX_STRIDE = 4
"""Steps between lanes up to which whole vectors are read and picked from, instead of one element after the other."""


@dataclass(frozen=True)
class Element:
    """How one element of a tensor is kept in memory and in registers."""

    dtype: str
    memory: Attribute
    register: Attribute
    size: int

    @staticmethod
    def of(type: TensorType) -> Element:
        """KernelError for a dtype that kernels do not read or write (complex; f8 travels as bits)."""
        dtype = type.dtype
        if dtype == "i1":
            return Element(dtype, i8, i1, 1)
        if dtype not in SUPPORTED and dtype[:2] != "f8":
            raise KernelError(f"kernels have no elements of type {dtype}")
        register = register_type(type.element)
        return Element(dtype, register, register, itemsize(dtype))


class Memory:
    """Loads and stores of a function."""

    def __init__(self, b: FunctionBuilder):
        self.b = b
        self._spare: SSAValue | None = None
        self._fillers: dict[tuple[SSAValue, int], tuple[SSAValue, int]] = {}

    @property
    def spare(self) -> SSAValue:
        """Eight bytes that nobody reads."""
        if self._spare is None:
            self._spare = self.b.alloca(8, 8)
        return self._spare

    # ---------------------------------------------------------------------------------------------------------- loads

    def load_one(
        self, element: Element, pointer: SSAValue, mask: SSAValue | None, other: SSAValue | None, invariant: bool
    ) -> SSAValue:
        """One element; `other` where the scalar `mask` is false."""
        b = self.b
        if mask is not None:
            pointer = b.select(mask, pointer, self.spare)
            invariant = False
        value = self._from_memory(element, b.load(pointer, element.memory, element.size, invariant))
        if mask is None:
            return value
        return b.select(mask, value, other if other is not None else b.constant(0, element.register))

    def load_lanes(
        self,
        element: Element,
        pointer: SSAValue,
        step: Any,
        lanes: int,
        mask: SSAValue | None,
        other: SSAValue | None,
        invariant: bool,
    ) -> SSAValue:
        """`lanes` elements `step` apart (1 or -1) from lane 0's address, or at a vector of addresses (`step` None)."""
        b = self.b
        type = vector(element.memory, lanes)
        if step == -1:
            pointer = b.gep(pointer, 1 - lanes, element.memory)
            mask = None if mask is None else self._reversed(b.splat(mask, lanes), lanes)
        if step in (1, -1) and mask is None:
            value = b.load(pointer, type, element.size, invariant)
        else:
            keep = b.constant(1, vector(i1, lanes)) if mask is None else b.splat(mask, lanes)
            rest = b.constant(0, type) if mask is not None else b.poison(type)
            if step is None:
                cls, size = llvm_ext.GatherOp, element.size
            else:
                cls, size = llvm_ext.MaskedLoadOp, element.size
            alignment = {"alignment": IntegerAttr(size, i32)}
            value = b.effect(cls, (pointer, keep, rest), (type,), alignment).results[0]
        if step == -1:
            value = self._reversed(value, lanes)
            mask = None if mask is None else self._reversed(mask, lanes)
        value = self._from_memory(element, value)
        if mask is not None and other is not None:
            value = b.select(mask, value, b.splat(other, lanes))
        return value

    def load_strided(
        self, element: Element, pointer: SSAValue, step: int, lanes: int, left: Num | None, invariant: bool
    ) -> SSAValue:
        """`lanes` elements a few apart, the first `left` of them: `step` vectors, of which the lanes are picked.

        Nothing behind the last element is read: the last vector ends there, or is masked.
        """
        b, type = self.b, vector(element.memory, lanes)
        starts = [*range(0, (step - 1) * lanes, lanes), step * (lanes - 1) + 1 - lanes]
        if left is None:
            parts = [b.load(b.gep(pointer, at, element.memory), type, element.size, invariant) for at in starts]
        else:
            starts[-1] = (step - 1) * lanes
            span = b.index_add(b.index_mul(b.index_sub(left, 1), step), 1)
            masks = [lane_compare(b, "lt", b.index_sub(span, at), lanes) for at in starts]
            parts = [self.load_masked(element, b.gep(pointer, at, element.memory), m, lanes)
                     for at, m in zip(starts, masks, strict=True)]  # fmt: skip
        value, places = parts[0], [min(i * step, lanes - 1) for i in range(lanes)]
        for k in range(1, step):
            later = range(-(-k * lanes // step), lanes)  # the lanes in part k and after it
            for i in later:
                places[i] = lanes + min(i * step - starts[k], lanes - 1)
            value = b.shuffle(value, parts[k], places)
            places = list(range(lanes))
        return self._from_memory(element, value)

    def load_masked(self, element: Element, pointer: SSAValue, mask: SSAValue, lanes: int) -> SSAValue:
        """Neighbours as they are in memory, 0 where they are left out."""
        type, alignment = vector(element.memory, lanes), {"alignment": IntegerAttr(element.size, i32)}
        operands = (pointer, mask, self.b.constant(0, type))
        return self.b.effect(llvm_ext.MaskedLoadOp, operands, (type,), alignment).results[0]

    def filler(self, element: Element, other: SSAValue | None, count: int) -> SSAValue:
        """The address of `count` elements that are all `other`, for loads that a mask leaves out as a whole."""
        b = self.b
        value = b.constant(0, element.memory) if other is None else other
        if element.dtype == "i1":
            value = b.constant(b.literal(value) or 0, element.memory)
        known = self._fillers.get((value, element.size))
        if known is None or known[1] < count:
            pointer = b.alloca(count * element.size)
            b.at_entry(llvm_ext.StoreOp, (b.splat(value, count), pointer), memory_access(64))
            known = self._fillers[value, element.size] = pointer, count
        return known[0]

    def _reversed(self, value: SSAValue, lanes: int) -> SSAValue:
        return self.b.shuffle(value, value, range(lanes - 1, -1, -1))

    def _from_memory(self, element: Element, value: SSAValue) -> SSAValue:
        if element.dtype != "i1":
            return value
        return self.b.icmp("ne", value, self.b.constant(0, value.type))

    def _to_memory(self, element: Element, value: SSAValue) -> SSAValue:
        return self.b.cast(llvm.ZExtOp, value, i8) if element.dtype == "i1" else value

    # --------------------------------------------------------------------------------------------------------- stores

    def store_one(self, element: Element, value: SSAValue, pointer: SSAValue, mask: SSAValue | None) -> None:
        """One element, where the scalar `mask` is true."""
        if mask is not None:
            pointer = self.b.select(mask, pointer, self.spare)
        self.b.store(self._to_memory(element, value), pointer, element.size)

    def store_lanes(
        self,
        element: Element,
        value: SSAValue,
        pointer: SSAValue,
        step: Any,
        lanes: int,
        mask: SSAValue | None,
        nontemporal: bool = False,
    ) -> None:
        """`lanes` elements `step` apart (1 or -1), or at a vector of addresses, in the order of the lanes."""
        b = self.b
        value = self._to_memory(element, b.splat(value, lanes))
        if step == -1:
            pointer = b.gep(pointer, 1 - lanes, element.memory)
            value = self._reversed(value, lanes)
            mask = None if mask is None else self._reversed(b.splat(mask, lanes), lanes)
        if step is not None and mask is None:
            b.store(value, pointer, element.size * lanes if nontemporal else element.size, nontemporal)
            return
        keep = b.constant(1, vector(i1, lanes)) if mask is None else b.splat(mask, lanes)
        alignment = {"alignment": IntegerAttr(element.size, i32)}
        if step is None:
            b.effect(llvm_ext.ScatterOp, (value, pointer, keep), (), alignment)
        else:
            b.effect(llvm_ext.MaskedStoreOp, (value, pointer, keep), (), alignment)

    def prefetch(self, op: LoadOp | StoreOp, pointer: SSAValue, ahead: Num, size: int) -> None:
        """Asks for the cache lines of `size` bytes that lie `ahead` bytes further on, to be read or written, in the
        cache of the op's level.
        """
        level = op.attributes.get("level")
        number = cast("IntegerAttr[IntegerType]", level).value.data if level is not None else 1
        self.fetch(pointer, ahead, size, number, isinstance(op, StoreOp))

    def fetch(self, pointer: SSAValue, ahead: Num, size: int, level: int, written: bool = False) -> None:
        """The same for the cache of a level."""
        b = self.b
        flags = [b.constant(n, i32) for n in (int(written), 4 - level, 1)]
        pointer = b.gep(pointer, ahead, i8)
        for line in range(0, max(size, 1), 64):
            b.effect_intrinsic("prefetch", (b.gep(pointer, line, i8), *flags))

    def is_aligned(self, pointer: SSAValue, alignment: int) -> SSAValue:
        b = self.b
        address = b.pure(llvm.PtrToIntOp, (pointer,), i64)
        low = b.binary(llvm.AndOp, address, b.constant(alignment - 1, i64))
        return b.icmp("eq", low, b.constant(0, i64))

    # -------------------------------------------------------------------------------------------- read-modify-write

    def atomic(self, element: Element, kind: str, value: SSAValue, pointer: SSAValue, mask: SSAValue | None) -> None:
        """`*pointer = combine(*pointer, value)` of one element in one step. KernelError where there is no such step."""
        name = _ATOMIC.get((kind, element.register in (f32, f64)))
        if name is None or element.dtype in ("i1", "f16", "bf16"):
            raise KernelError(f"no atomic {kind} for {element.dtype}")
        if mask is not None:
            pointer = self.b.select(mask, pointer, self.spare)
        properties = {
            "bin_op": IntegerAttr(llvm_ext.ATOMIC_BINARY.index(name), i64),
            "ordering": IntegerAttr(2, i64),
        }
        self.b.effect(llvm_ext.AtomicRMWOp, (pointer, value), (value.type,), properties)

    def lanes(self, value: SSAValue, count: int) -> Sequence[SSAValue]:
        """The lanes of a value one by one; a scalar is in each."""
        return [self.b.extract(value, i) for i in range(count)] if lanes_of(value) > 1 else [value] * count


_ATOMIC = {
    ("add", False): "add", ("add", True): "fadd", ("max", False): "max", ("min", False): "min",
}  # fmt: skip
