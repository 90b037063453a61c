"""Memory of the tt interpreter: tensors at addresses, far apart, so that no access beyond one hits another.

A pointer is an i64, as on the device: it can be selected, converted to an integer and back, and be one of many in a
tensor. Each pointer argument has a region of its own; two arguments on one storage share its bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

_REGION = 1 << 40
"""Bytes of addresses for a tensor, which lies in the middle of them."""
_LINE = 256
"""Addresses keep the alignment of the tensor's own up to this."""

_CARRIERS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
"""Elements move as integers of their size: f8 has no indexing on the CPU, and NaNs keep their bits."""


class AccessError(Exception):
    """An access that no program may make; the message has no op in it."""


@dataclass(frozen=True)
class _Region:
    base: int
    tensor: Tensor
    """From the first element to the last, contiguous."""


@dataclass
class Memory:
    """Regions in order of their addresses."""

    _regions: list[_Region] = field(default_factory=list[_Region])

    def place(self, tensor: Tensor) -> int:
        """The address of `tensor`'s first element."""
        last = sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
        elements = last + 1 if tensor.numel() else 0
        whole = torch.as_strided(tensor.detach(), (elements,), (1,))
        base = _REGION * len(self._regions) + _REGION // 2 + tensor.data_ptr() % _LINE
        self._regions.append(_Region(base, whole))
        return base

    def _locate(self, addresses: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """The region that `addresses` (at least one) are in, as elements of the size of `dtype`, and their places."""
        size = dtype.itemsize
        number = int(addresses.reshape(-1)[0]) // _REGION
        if not 0 <= number < len(self._regions):
            raise AccessError(f"address {int(addresses.reshape(-1)[0]):#x} is in no tensor")
        region = self._regions[number]
        offsets = addresses - region.base
        if bool((offsets % size != 0).any()):
            raise AccessError(f"an address is not a multiple of {size} bytes")
        places = offsets // size
        elements = region.tensor.numel() * region.tensor.element_size() // size
        low, high = int(places.min()), int(places.max())
        if low < 0 or high >= elements:
            wrong = low if low < 0 else high
            raise AccessError(f"element {wrong} of a tensor of {elements} (argument {number})")
        return region.tensor.view(_CARRIERS[size]), places

    def _by_region(self, addresses: Tensor) -> list[Tensor]:
        """Masks over flat `addresses`: those of one region each."""
        numbers = addresses // _REGION
        if bool((numbers == numbers[0]).all()):
            return [torch.ones_like(addresses, dtype=torch.bool)]
        return [numbers == n for n in numbers.unique()]

    def load(self, addresses: Tensor, dtype: torch.dtype) -> Tensor:
        """The elements at flat `addresses`."""
        result = torch.empty(addresses.shape, dtype=_CARRIERS[dtype.itemsize])
        if addresses.numel():
            for mask in self._by_region(addresses):
                elements, places = self._locate(addresses[mask], dtype)
                result[mask] = elements[places]
        return result.view(dtype)

    def store(self, addresses: Tensor, values: Tensor) -> None:
        """Write flat `values` to flat `addresses`."""
        if addresses.numel():
            carried = values.contiguous().view(_CARRIERS[values.element_size()])
            for mask in self._by_region(addresses):
                elements, places = self._locate(addresses[mask], values.dtype)
                elements[places] = carried[mask]

    def update(self, addresses: Tensor, values: Tensor, combine: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        """`*address = combine(*address, value)`, one after the other where an address comes twice; the old values."""
        if addresses.unique().numel() == addresses.numel():
            old = self.load(addresses, values.dtype)
            self.store(addresses, combine(old, values))
            return old
        parts = [self.update(addresses[i : i + 1], values[i : i + 1], combine) for i in range(addresses.numel())]
        return torch.cat(parts)
