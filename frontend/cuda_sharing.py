"""Memory that several recordings share, and who has something there.

What a recording needs for a while is free for others once it has been recorded, so later ones have it, too. Each
writes there whenever it is replayed: so none is while somebody has a result of a later one in its memory. Nothing is
ever written where an earlier result lay that was there when it was recorded.
"""

from __future__ import annotations

import math
from bisect import bisect
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary, ref

import torch
from torch.multiprocessing.reductions import StorageWeakRef

if TYPE_CHECKING:
    from .cuda_recording import Recording

_c: Any = torch._C

Counted = Sequence[tuple[Any, int]]
"""Storages, each with how many tensors lie there while nobody has one."""

Parts = list[tuple[int, int]]
"""Where parts of memory begin and end, in order."""

PATIENCE: Final = 16, 4
"""Replays of one recording after which all are made again if some of the first are gone, which leave holes between
others; and how many times as many it takes next time.
"""


class Guest:
    """Results of a recording where another one may write."""

    def __init__(self, recording: Recording, results: Counted) -> None:
        self.recording = ref(recording)
        self.results = [(StorageWeakRef(storage), n) for storage, n in results]

    def gone(self) -> bool:
        """Whether nothing is there any more."""
        return self.recording() is None and all(storage.expired() for storage, _ in self.results)

    def held(self) -> bool:
        """Whether somebody has one of them: the recording may be gone, what it has given is not."""
        recording = self.recording()
        if recording is None or recording.retired:
            return not all(storage.expired() for storage, _ in self.results)
        return recording.held() and any(_c._storage_Use_Count(storage.cdata) > n for storage, n in self.results)


class Sharing:
    """The recordings that share the memory of a GPU, with what there was of it when each was made."""

    def __init__(self) -> None:
        self.parts: WeakKeyDictionary[Recording, Parts] = WeakKeyDictionary()
        self.made = 0
        self.patience = PATIENCE[0]

    def add(self, recording: Recording, parts: Parts) -> None:
        """One that has just been made, and all the memory that there is now."""
        given = (*recording.kept, *recording.lent)
        for other, theirs in self.parts.items():
            if here := [(storage, n) for storage, n in given if lies_in(storage.data_ptr(), theirs)]:
                other.guests.append(Guest(recording, here))
        self.parts[recording] = parts
        self.made += 1

    def is_loose(self, times: int) -> bool:
        """Whether all are to be made again, after so many replays of one of them."""
        return times == self.patience and self.made > len(self.parts)

    def retire(self) -> None:
        """None of them is replayed any more."""
        for recording in [*self.parts]:
            recording.retire()
        self.parts.clear()
        self.made, self.patience = 0, self.patience * PATIENCE[1]


def lies_in(address: int, parts: Parts) -> bool:
    i = bisect(parts, (address, math.inf)) - 1
    return i >= 0 and address < parts[i][1]
