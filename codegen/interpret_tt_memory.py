"""Memory of the tt interpreter: tensors at addresses, far apart, so that no access beyond one hits another.

A pointer is an i64, as on the device: it can be selected, converted to an integer and back, and be one of many in a
tensor. Each pointer argument has a region of its own; two arguments on one storage share its bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from .interpret_tt_races import MOST, AccessError, Moment, Watch

_REGION = 1 << 40
"""Bytes of addresses for a tensor, which lies in the middle of them."""

_LINE = 256
"""Addresses keep the alignment of the tensor's own up to this."""

_CARRIERS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
"""Elements move as integers of their size: f8 has no indexing on the CPU, and NaNs keep their bits."""


@dataclass
class _Region:
    base: int
    tensor: Tensor
    """From the first element to the last, contiguous."""
    watch: Watch | None = None
    shift: int = 0
    """The first element's number in `watch`."""


@dataclass(frozen=True)
class _Part:
    """The lanes of an access that are in one region."""

    region: _Region
    elements: Tensor
    """Of the region, as carriers."""
    places: Tensor
    lanes: Tensor
    """Which of the lanes of the access these are."""
    all: int
    """Lanes of the access, those without effect included."""

    def watched(self) -> tuple[Watch, Tensor, Tensor] | None:
        """The watch, places and lanes in its terms."""
        region = self.region
        if region.watch is None or self.elements.element_size() != region.tensor.element_size():
            return None
        return region.watch, self.places + region.shift, self.lanes * self.all + self.all


@dataclass
class Memory:
    """Regions in order of their addresses."""

    now: Moment = field(default_factory=Moment)
    _regions: list[_Region] = field(default_factory=list[_Region])

    def place(self, tensor: Tensor) -> int:
        """The address of `tensor`'s first element."""
        last = sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
        elements = last + 1 if tensor.numel() else 0
        whole = torch.as_strided(tensor.detach(), (elements,), (1,))
        base = _REGION * len(self._regions) + _REGION // 2 + tensor.data_ptr() % _LINE
        self._regions.append(_Region(base, whole))
        return base

    def watch(self) -> None:
        """From here on accesses to what was placed are watched for races; regions on the same bytes share a watch."""
        end, group = 0, list[_Region]()
        for region in sorted(self._regions, key=lambda r: r.tensor.data_ptr()):
            if region.tensor.data_ptr() >= end:
                _share_watch(group)
                group = []
            group.append(region)
            end = max(end, _end(region))
        _share_watch(group)

    def _parts(self, ptr: Tensor, mask: Tensor | None, dtype: torch.dtype) -> list[_Part]:
        """The lanes where `mask` is true, by region. Raises AccessError."""
        addresses, count = ptr.reshape(-1), ptr.numel()
        lanes = torch.arange(count) if mask is None else mask.reshape(-1).nonzero().squeeze(1)
        if not lanes.numel():
            return []
        addresses = addresses[lanes]
        numbers = addresses // _REGION
        first = int(numbers[0])
        if bool((numbers == first).all()):
            return [self._part(first, addresses, lanes, count, dtype)]
        found: list[_Part] = []
        for number in numbers.unique():
            chosen = numbers == number
            found.append(self._part(int(number), addresses[chosen], lanes[chosen], count, dtype))
        return found

    def _part(self, number: int, addresses: Tensor, lanes: Tensor, count: int, dtype: torch.dtype) -> _Part:
        size = dtype.itemsize
        if not 0 <= number < len(self._regions):
            raise AccessError(f"address {int(addresses[0]):#x} is in no tensor")
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
        return _Part(region, region.tensor.view(_CARRIERS[size]), places, lanes, count)

    def load(self, ptr: Tensor, mask: Tensor | None, result: Tensor) -> Tensor:
        """`result` with the elements at `ptr` where `mask` is true."""
        flat = result.contiguous().view(_CARRIERS[result.element_size()]).reshape(-1)
        for part in self._parts(ptr, mask, result.dtype):
            flat[part.lanes] = part.elements[part.places]
            if (watched := part.watched()) is not None:
                watch, places, lanes = watched
                watch.read(places, lanes, self.now)
        return flat.reshape(ptr.shape).view(result.dtype)

    def store(self, ptr: Tensor, mask: Tensor | None, values: Tensor) -> None:
        """Write `values` to `ptr` where `mask` is true."""
        flat = values.contiguous().view(_CARRIERS[values.element_size()]).reshape(-1)
        for part in self._parts(ptr, mask, values.dtype):
            self._write(part, flat[part.lanes], atomic=False)

    def _write(self, part: _Part, values: Tensor, atomic: bool) -> None:
        if (watched := part.watched()) is not None:
            watch, places, lanes = watched
            watch.write(places, lanes, part.elements[part.places] != values, self.now, atomic)
        part.elements[part.places] = values

    def update(
        self,
        ptr: Tensor,
        mask: Tensor | None,
        result: Tensor,
        values: Tensor,
        combine: Callable[[Tensor, Tensor], Tensor],
    ) -> Tensor:
        """`*ptr = combine(*ptr, value)` at once, one lane after the other where addresses are the same.

        Gives `result` with the old values where `mask` is true.
        """
        carrier, dtype = _CARRIERS[values.element_size()], values.dtype
        flat, given = result.contiguous().view(carrier).reshape(-1), values.reshape(-1)
        for part in self._parts(ptr, mask, dtype):
            for chosen in _distinct(part.places):
                step = _Part(part.region, part.elements, part.places[chosen], part.lanes[chosen], part.all)
                old = step.elements[step.places]
                flat[step.lanes] = old
                new = combine(old.view(dtype), given[step.lanes]).contiguous().view(carrier)
                self._write(step, new, atomic=True)
        return flat.reshape(ptr.shape).view(dtype)


def _end(region: _Region) -> int:
    return region.tensor.data_ptr() + region.tensor.numel() * region.tensor.element_size()


def _share_watch(regions: list[_Region]) -> None:
    """One watch for regions that overlap, if their elements do not."""
    regions = [r for r in regions if r.tensor.numel()]
    if not regions:
        return
    start, size = regions[0].tensor.data_ptr(), regions[0].tensor.element_size()
    elements = (max(map(_end, regions)) - start) // size
    if elements <= MOST and all(
        r.tensor.element_size() == size and (r.tensor.data_ptr() - start) % size == 0 for r in regions
    ):
        watch = Watch(elements)
        for region in regions:
            region.watch, region.shift = watch, (region.tensor.data_ptr() - start) // size


def _distinct(places: Tensor) -> list[Tensor]:
    """Indices into `places` in order, in as few groups as keep equal places apart."""
    rest, groups = torch.arange(places.numel()), list[Tensor]()
    while rest.numel():
        _, inverse = places[rest].unique(return_inverse=True)
        first = torch.full((int(inverse.max()) + 1,), rest.numel())
        first.scatter_reduce_(0, inverse, torch.arange(rest.numel()), "amin")
        groups.append(rest[first])
        kept = torch.ones(rest.numel(), dtype=torch.bool)
        kept[first] = False
        rest = rest[kept]
    return groups
