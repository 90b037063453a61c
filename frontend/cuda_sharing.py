"""Memory that several recordings share, and who has something there.

What a recording needs for a while is free for others once it has been recorded, so later ones have it, too. Each
writes there whenever it is replayed: so none is while somebody has a result of a later one in its memory. Nothing is
ever written where an earlier result lay that was there when it was recorded.
"""

from __future__ import annotations

import math
from bisect import bisect
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary, ref

from torch.multiprocessing.reductions import StorageWeakRef

from .cuda_steps import are_held, forget_unused

if TYPE_CHECKING:
    from .cuda_recording import Recording

Parts = list[tuple[int, int]]
"""Where parts of memory begin and end, in order."""

PATIENCE: Final = 16, 4
"""Replays of one recording after which all are made again if some of the first are gone, which leave holes between
others; and how many times as many it takes next time.
"""


class Guest:
    """Results of a recording where another one may write."""

    def __init__(self, recording: Recording, places: frozenset[int]) -> None:
        self.recording = ref(recording)
        self.places = places
        given = (*recording.kept, *recording.lent)
        self.storages = [StorageWeakRef(storage) for address, storage, _ in given if address in places]

    def gone(self) -> bool:
        """Whether nothing is there any more."""
        recording = self.recording()
        return (recording is None or recording.retired) and not self._left()

    def held(self) -> bool:
        """Whether somebody has one of them: the recording may be gone, what it has given is not."""
        recording = self.recording()
        if recording is None or recording.retired:
            return self._left()
        return recording.held() and are_held([c for c in (*recording.kept, *recording.lent) if c[0] in self.places])

    def _left(self) -> bool:
        forget_unused()
        return not all(storage.expired() for storage in self.storages)


class Sharing:
    """The recordings that share the memory of a GPU, with what there was of it when each was made."""

    def __init__(self) -> None:
        self.parts: WeakKeyDictionary[Recording, Parts] = WeakKeyDictionary()
        self.made = 0
        self.patience = PATIENCE[0]

    def add(self, recording: Recording, parts: Parts) -> None:
        """One that has just been made, and all the memory that there is now."""
        places = [address for address, _, _ in (*recording.kept, *recording.lent)]
        for other, parts_then in self.parts.items():
            if here := frozenset(address for address in places if lies_in(address, parts_then)):
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
