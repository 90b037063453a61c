"""What is asked of tensors before each replay: whether they lie where they did, and how many own their memory.

Both are asked of tables, of some hundred tensors each time, by native code once the driver has said where it is.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

_c: Any = torch._C

Native = Callable[[], tuple[Callable[[list[Any], bytes], bool], Callable[[bytes], bool] | None]]
"""Loads the native functions; the second is None where torch does not keep counts as that would read them."""


def table(pairs: Iterable[tuple[int, int]]) -> bytes:
    """Pairs of numbers of 64 bits."""
    numbers = [number for pair in pairs for number in pair]
    return struct.pack(f"{len(numbers)}Q", *numbers)


def _pairs(table: bytes) -> Iterator[tuple[int, int]]:
    return struct.iter_unpack("QQ", table)  # type: ignore[return-value]


def _same_places(inputs: list[Any], places: bytes) -> bool:
    return all(inputs[i].data_ptr() == address for i, address in _pairs(places))


def _more_owners(owned: bytes) -> bool:
    return any(_c._storage_Use_Count(storage) > count for storage, count in _pairs(owned))


@dataclass
class Questions:
    same_places: Callable[[list[Any], bytes], bool] = _same_places
    """Whether the data of each tensor of a list whose index the table has begins at the address beside it."""
    more_owners: Callable[[bytes], bool] = _more_owners
    """Whether one of the storages whose `_cdata` the table has, all of which there are, has more owners than it says
    beside it.
    """
    native: Native | None = None
    settled: bool = False

    def settle(self) -> None:
        """Load what the driver has given, once: code may have to be compiled for it."""
        if self.native is not None and not self.settled:
            self.same_places, owners = self.native()
            self.more_owners = owners or _more_owners
            self.settled = True


QUESTIONS = Questions()
