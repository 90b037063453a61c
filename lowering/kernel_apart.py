"""Loads and stores of vectors that hold every other element: see `schedule_apart`."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from xdsl.dialects import llvm
from xdsl.dialects.builtin import f32, i32
from xdsl.ir import SSAValue

from ..dialects.loop import LoadOp, StoreOp
from ..dialects.tensor import TensorType
from .halves_apart import HIGH
from .llvm_builder import FunctionBuilder, KernelError, Num, lanes_of, vector
from .memory_to_llvm import Element

if TYPE_CHECKING:
    from .kernel_body import KernelBody


def load_apart(body: KernelBody, op: LoadOp) -> tuple[SSAValue, ...] | None:
    """A vector for each copy, or None for what all lanes share."""
    b, lanes = body.b, body.lanes
    assert lanes is not None
    type = cast(TensorType, op.source.type)
    element, n = Element.of(type), lanes.lanes
    other = None if op.other is None else body.code.literal(op.other)
    invariant = op.source in body.read_only and not op.indices
    found: list[SSAValue] = []
    for k in range(0, lanes.copies, 2):
        at = body.lane_index(k, op.indices)
        mask = body.mask_of(op, k, at)
        pointer, step = at.address(body.pointers[op.source], type, tuple(op.index), element.memory)
        if step == 0:
            return None
        if step != 1 or (mask is not None and lanes_of(mask) > 1) or type.dtype not in ("f32", "bf16"):
            raise KernelError(f"{op.name} in a loop that is apart")
        if k == 0:
            _ask_ahead(body, op, pointer, element.size)
        if mask is not None:
            pointer = b.select(mask, pointer, body.memory.filler(element, other, 2 * n))
        found += _pair(body, op, pointer, n, invariant and mask is None)
    return tuple(found)


def _ask_ahead(body: KernelBody, op: LoadOp | StoreOp, pointer: SSAValue, size: int) -> None:
    ahead, lanes = body.ahead(op), body.lanes
    if ahead is not None and lanes is not None:
        body.memory.prefetch(op, pointer, ahead, lanes.lanes * lanes.copies * size)


def _pair(body: KernelBody, op: LoadOp, pointer: SSAValue, n: int, invariant: bool) -> list[SSAValue]:
    b, apart = body.b, body.code.apart
    if cast(TensorType, op.source.type).dtype == "bf16":
        both = b.load(pointer, vector(i32, n), 2, invariant)
        even = b.shl(both, b.constant(16, both.type))
        return [apart.bits_of(even, b.cast(llvm.BitcastOp, even, f32)), apart.bits_of(both)]
    low, high = (b.load(b.gep(pointer, at, f32), vector(f32, n), 4, invariant) for at in (0, n))
    if "apart" in op.attributes:
        return [low, high]
    return [b.shuffle(low, high, range(first, 2 * n, 2)) for first in (0, 1)]


def store_apart(body: KernelBody, op: StoreOp, nontemporal: bool) -> None:
    """The vectors of all copies."""
    b, lanes = body.b, body.lanes
    assert lanes is not None
    type = cast(TensorType, op.target.type)
    element, n = Element.of(type), lanes.lanes
    for k in range(0, lanes.copies, 2):
        at = body.lane_index(k, op.indices)
        mask = body.mask_of(op, k, at)
        pointer, step = at.address(body.pointers[op.target], type, tuple(op.index), element.memory)
        adds = op.combine is not None and op.combine.data == "add" and type.dtype == "f32"
        if step != 1 or (op.combine and not adds) or mask is not None or type.dtype not in ("f32", "bf16"):
            raise KernelError(f"{op.name} in a loop that is apart")
        if k == 0:
            _ask_ahead(body, op, pointer, element.size)
        even, odd = (b.splat(body.operand(op.value, k + i), n) for i in (0, 1))
        if type.dtype == "bf16":
            even, odd = (body.code.apart.top(v) for v in (even, odd))
            low = b.binary(llvm.LShrOp, even, b.constant(16, even.type))
            # a mask that LLVM knew would be a shuffle of two vectors, four times as long
            mask = b.opaque([HIGH] * n, i32)
            both = b.binary(llvm.OrOp, low, b.binary(llvm.AndOp, odd, mask))
            _put(b, both, pointer, 0, 4 * n if nontemporal else 2, nontemporal)
            continue
        if "apart" not in op.attributes:
            lows, highs = ([i + half for i in range(n // 2) for half in (at, at + n)] for at in (0, n // 2))
            even, odd = b.shuffle(even, odd, lows), b.shuffle(even, odd, highs)
        for value, place in ((even, 0), (odd, n)):
            if adds:
                value = b.fadd(b.load(b.gep(pointer, place, f32), value.type, 4), value)
            _put(b, value, pointer, place, 4 * n if nontemporal else 4, nontemporal)


def _put(b: FunctionBuilder, value: SSAValue, pointer: SSAValue, at: Num, alignment: int, nontemporal: bool) -> None:
    b.store(value, b.gep(pointer, at, f32), alignment, nontemporal)
