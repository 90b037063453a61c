"""Loads, stores, atomics and descriptors of kernels, on the memory of the interpreter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Operation

from ..dialects import tt
from ..dialects.tt_enums import DESCRIPTOR_REDUCE, PADDING, RMW, SEMANTIC
from ..dialects.tt_foreign import BarrierOp
from ..dialects.tt_types import PtrType, TensorDescType, element_of, shape_of
from .interpret_tt_memory import Memory
from .interpret_tt_ops import dtype_of, poison
from .interpret_tt_races import AccessError


@dataclass(frozen=True)
class Descriptor:
    """A tensor descriptor: a tensor in memory of which blocks are loaded and stored."""

    base: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: torch.dtype
    nan: bool = False
    """What lies outside reads as NaN, else as 0."""


def _addptr(memory: Memory, op: tt.AddPtrOp, ptr: Tensor, offset: Tensor) -> Tensor:
    pointer = element_of(op.ptr.type)
    assert isinstance(pointer, PtrType)
    return ptr + offset.to(torch.int64) * dtype_of(pointer.pointee).itemsize


def _load(
    memory: Memory, op: tt.LoadOp, ptr: Tensor, mask: Tensor | None = None, other: Tensor | None = None
) -> Tensor:
    result = poison(op.result.type) if other is None else other
    return memory.load(ptr, mask, result.expand(ptr.shape).clone())


def _store(memory: Memory, op: tt.StoreOp, ptr: Tensor, value: Tensor, mask: Tensor | None = None) -> None:
    memory.store(ptr, mask, value.expand(ptr.shape))


_ATOMIC: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "and": torch.bitwise_and,
    "or": torch.bitwise_or,
    "xor": torch.bitwise_xor,
    "add": torch.add,
    "fadd": torch.add,
    "max": torch.maximum,
    "min": torch.minimum,
    "umax": lambda x, y: torch.where(_unsigned_less(x, y), y, x),
    "umin": lambda x, y: torch.where(_unsigned_less(x, y), x, y),
    "exch": lambda x, y: y,
}


def _unsigned_less(x: Tensor, y: Tensor) -> Tensor:
    return (x < y) ^ ((x < 0) ^ (y < 0))


def _atomic_rmw(memory: Memory, op: tt.AtomicRMWOp, ptr: Tensor, val: Tensor, mask: Tensor | None = None) -> Tensor:
    _order(memory, op.sem)
    combine = _ATOMIC[RMW.of(op.atomic_rmw_op)]
    return memory.update(ptr, mask, poison(op.result.type).expand(ptr.shape), val.expand(ptr.shape), combine)


def _atomic_cas(memory: Memory, op: tt.AtomicCASOp, ptr: Tensor, cmp: Tensor, val: Tensor) -> Tensor:
    """Lane by lane; what compares are bits."""
    _order(memory, op.sem)
    old = val.expand(ptr.shape).clone()
    lanes = torch.arange(ptr.numel()).reshape(ptr.shape)
    for i, expected in enumerate(cmp.expand(ptr.shape).reshape(-1)):
        old = memory.update(
            ptr,
            lanes == i,
            old,
            val.expand(ptr.shape),
            lambda x, y, e=expected: torch.where(_integer(x) == _integer(e.reshape(1)), y, x),
        )
    return old


def _order(memory: Memory, sem: Any) -> None:
    """What an atomic acquires is what others released before, and its threads wait for each other."""
    if SEMANTIC.of(sem) in ("acquire", "acq_rel"):
        memory.now.acquired = True
        memory.now.barriers += 1


def _integer(x: Tensor) -> Tensor:
    return x.view({1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[x.element_size()])


# ----------------------------------------------------------------------------------------------------- descriptors


def _make_descriptor(memory: Memory, op: tt.MakeTensorDescriptorOp, base: Tensor, *numbers: Tensor) -> Descriptor:
    rank, values = len(op.shape), [int(n) for n in numbers]
    strides, dtype = values[rank:], dtype_of(_block_type(op.result.type))
    if strides[-1] != 1 or any(s * dtype.itemsize % 16 for s in strides[:-1]) or int(base) % 16:
        raise AccessError(
            f"a descriptor at {int(base):#x} with strides {strides}: multiples of 16 bytes, and 1 at last"
        )
    nan = op.padding is not None and PADDING.of(op.padding) == "nan"
    return Descriptor(int(base), tuple(values[:rank]), tuple(strides), dtype, nan)


def _block_type(type: Attribute) -> TensorType[Attribute]:
    assert isinstance(type, TensorDescType)
    return type.block


def _block(desc: Descriptor, ranges: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Addresses of a block, and which of them are inside of the tensor; `ranges` has the positions by dim."""
    offset, inside = torch.tensor(0), torch.tensor(True)
    for dim, positions in enumerate(ranges):
        shape = [1] * len(ranges)
        shape[dim] = -1
        at = positions.long().reshape(shape)
        offset = offset + at * desc.strides[dim]
        inside = inside & (at >= 0) & (at < desc.shape[dim])
    return desc.base + offset * desc.dtype.itemsize, inside


def _ranges(desc: Attribute, indices: Sequence[Tensor]) -> list[Tensor]:
    block = _block_type(desc).get_shape()
    return [int(i) + torch.arange(n) for i, n in zip(indices, block, strict=True)]


def _read(memory: Memory, desc: Descriptor, ranges: Sequence[Tensor], shape: Sequence[int]) -> Tensor:
    addresses, inside = _block(desc, ranges)
    result = torch.zeros(addresses.shape, dtype=desc.dtype)
    if desc.nan:
        result = torch.full(addresses.shape, torch.nan, dtype=desc.dtype)
    return memory.load(addresses, inside, result).reshape(tuple(shape))


def _write(memory: Memory, desc: Descriptor, ranges: Sequence[Tensor], value: Tensor) -> None:
    addresses, inside = _block(desc, ranges)
    memory.store(addresses, inside, value.reshape(addresses.shape))


def _descriptor_load(memory: Memory, op: tt.DescriptorLoadOp, desc: Descriptor, *indices: Tensor) -> Tensor:
    return _read(memory, desc, _ranges(op.desc.type, indices), shape_of(op.result.type))


def _descriptor_store(
    memory: Memory, op: tt.DescriptorStoreOp, desc: Descriptor, src: Tensor, *indices: Tensor
) -> None:
    _write(memory, desc, _ranges(op.desc.type, indices), src)


def _descriptor_reduce(
    memory: Memory, op: tt.DescriptorReduceOp, desc: Descriptor, src: Tensor, *indices: Tensor
) -> None:
    kind = DESCRIPTOR_REDUCE.of(op.kind)
    if kind not in _ATOMIC:
        raise NotImplementedError(f"a reduction {kind} is not interpreted")
    addresses, inside = _block(desc, _ranges(op.desc.type, indices))
    memory.update(addresses, inside, src, src.reshape(addresses.shape), _ATOMIC[kind])


def _rows(op: tt.DescriptorGatherOp | tt.DescriptorScatterOp, rows: Tensor, column: Tensor) -> list[Tensor]:
    width = _block_type(op.desc.type).get_shape()[-1]
    return [rows, int(column) + torch.arange(width)]


def _descriptor_gather(
    memory: Memory, op: tt.DescriptorGatherOp, desc: Descriptor, rows: Tensor, column: Tensor
) -> Tensor:
    return _read(memory, desc, _rows(op, rows, column), shape_of(op.result.type))


def _descriptor_scatter(
    memory: Memory, op: tt.DescriptorScatterOp, desc: Descriptor, rows: Tensor, column: Tensor, src: Tensor
) -> None:
    _write(memory, desc, _rows(op, rows, column), src)


def _barrier(memory: Memory, op: BarrierOp) -> None:
    memory.now.barriers += 1


ACCESS: dict[type[Operation], Callable[..., Any]] = {
    BarrierOp: _barrier,
    tt.AddPtrOp: _addptr,
    tt.LoadOp: _load,
    tt.StoreOp: _store,
    tt.AtomicRMWOp: _atomic_rmw,
    tt.AtomicCASOp: _atomic_cas,
    tt.MakeTensorDescriptorOp: _make_descriptor,
    tt.DescriptorLoadOp: _descriptor_load,
    tt.DescriptorStoreOp: _descriptor_store,
    tt.DescriptorReduceOp: _descriptor_reduce,
    tt.DescriptorGatherOp: _descriptor_gather,
    tt.DescriptorScatterOp: _descriptor_scatter,
}
"""Op to `run(memory, op, *operands)`."""
