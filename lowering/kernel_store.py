"""Stores of a kernel's body: where vectors lie as they are made, past the caches, or read, combined and written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import sympy
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import SSAValue

from ..dialects import expr
from ..dialects.loop import StoreOp
from ..dialects.tensor import TensorType, scalar_type
from .address import LaneIndex, multiple_of
from .kernel_apart import store_apart
from .lanes import Lanes
from .llvm_builder import lanes_of
from .memory_to_llvm import Element
from .reductions import combine

if TYPE_CHECKING:
    from .kernel_body import KernelBody


def store(body: KernelBody, op: StoreOp) -> None:
    type = cast(TensorType, op.target.type)
    element = Element.of(type)
    if "nontemporal" in op.attributes and _streams(body, op, type, element):
        b = body.b
        body.has_nontemporal = True
        aligned = body.memory.is_aligned(body.pointers[op.target], cast(Lanes, body.lanes).bytes(element.size))

        def whole(nontemporal: bool) -> list[SSAValue]:
            _store_copies(body, op, type, element, nontemporal)
            return []

        b.when(aligned, lambda: whole(True), lambda: whole(False))
        return
    _store_copies(body, op, type, element, False)


def _store_copies(body: KernelBody, op: StoreOp, type: TensorType, element: Element, nontemporal: bool) -> None:
    if body.lanes is not None and body.lanes.apart:
        store_apart(body, op, nontemporal)
        return
    for k in range(body.copies):
        _store_copy(body, op, type, element, k, nontemporal)


def _streams(body: KernelBody, op: StoreOp, type: TensorType, element: Element) -> bool:
    """Whether all its vectors lie as the buffer does: only then may the store bypass the caches."""
    lanes = body.lanes
    if lanes is None or lanes.mask is not None or not lanes.aligned or op.mask is not None or op.ok is not None:
        return False
    if op.combine is not None or op.indices:
        return False
    at = body.lane_index(0)
    steps = [at.step(e) for e in op.index]
    if any(s is None for s in steps) or sum(s * t for s, t in zip(steps, type.strides, strict=True)) != 1:
        return False
    offset = sum(e * t for e, t in zip(op.index, type.strides, strict=True)) - lanes.dim
    return multiple_of(expr.normal(sympy.expand(offset)), lanes.run)


def _store_copy(body: KernelBody, op: StoreOp, type: TensorType, element: Element, k: int, nontemporal: bool) -> None:
    b, lanes, memory = body.b, body.lanes, body.memory
    at = body.lane_index(k, op.indices)
    value = body.operand(op.value, k)
    mask = body.active(body.mask_of(op, k, at))
    pointer, step = at.address(body.pointers[op.target], type, tuple(op.index), element.memory)
    ahead = body.ahead(op)
    if k == 0 and ahead is not None and step == 1 and lanes is not None and lanes.mask is None:
        memory.prefetch(op, pointer, ahead, lanes.lanes * lanes.copies * element.size)
    if op.combine is not None:
        _update(body, op, element, value, pointer, step, mask, at)
    elif lanes is None or (step == 0 and lanes_of(value) == 1 and (mask is None or lanes_of(mask) == 1)):
        memory.store_one(element, value, pointer, mask)
    elif step in (1, -1):
        memory.store_lanes(element, value, pointer, step, lanes.lanes, mask, nontemporal)
    else:
        pointers = pointer if step is None else b.gep(pointer, at.offsets(step), element.memory)
        memory.store_lanes(element, value, pointers, None, lanes.lanes, mask)


def _update(
    body: KernelBody,
    op: StoreOp,
    element: Element,
    value: SSAValue,
    pointer: SSAValue,
    step: Any,
    mask: SSAValue | None,
    at: LaneIndex,
) -> None:
    """Read, combine, write: a vector at once where the lanes are neighbours, else lane by lane in order."""
    b, memory, kind = body.b, body.memory, cast(StringAttr, op.combine).data
    lanes = 1 if body.lanes is None else body.lanes.lanes
    if lanes > 1 and step in (1, -1) and op.atomic is None:
        old = memory.load_lanes(element, pointer, step, lanes, mask, None, False)
        new = _combined(body, element, kind, old, b.splat(value, lanes))
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
            memory.store_one(element, _combined(body, element, kind, old, one), place, on)


def _combined(body: KernelBody, element: Element, kind: str, old: SSAValue, new: SSAValue) -> SSAValue:
    type = scalar_type(element.dtype)
    return body.code.narrowed(combine(body.code, kind, *(body.code.widened(v, type) for v in (old, new))), type)
