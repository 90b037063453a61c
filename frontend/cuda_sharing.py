"""Memory that several recordings share, and who has something there.

What a recording needs for a while is free for others once it has been recorded, so later ones have it, too. Each
writes there whenever it is replayed: so none is while somebody has a result of a later one in its memory. Nothing is
ever written where an earlier result lay that was there when it was recorded, but for results that are spent: a backward
may write where it reads what its forward has kept, and so may what is recorded after it. That is not replayed while
somebody has such a result.
"""

from __future__ import annotations

import math
from bisect import bisect
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary, WeakSet, ref

from .cuda_steps import left

if TYPE_CHECKING:
    from .cuda_recording import Recording

Parts = list[tuple[int, int]]
"""Where parts of memory begin and end, in order."""

PATIENCE: Final = 16, 4
"""Replays of one recording after which all are made again if those that are gone leave holes between others; and how
many times as many it takes next time.
"""

HOLES: Final = 16
"""Of how much memory those that are gone have had one part, from which on others are made again."""


class Guest:
    """Results of a recording where another one may write."""

    def __init__(self, recording: Recording, places: Iterable[int]) -> None:
        self.recording, self.lease = ref(recording), recording.lease
        self.places = frozenset(places)

    def gone(self) -> bool:
        """Whether nothing is there any more."""
        recording = self.recording()
        return (recording is None or recording.retired) and not self._left()

    def held(self) -> bool:
        """Whether somebody has one of them: the recording may be gone, what it has given is not."""
        recording = self.recording()
        if recording is None or recording.retired:
            return self._left()
        return recording.held() and recording.held_at(self.places)

    def _left(self) -> bool:
        if self.places:
            left()
            if not self.lease.in_use(self.places):
                self.places = frozenset()  # nothing is given any more: this is asked before each replay
        return bool(self.places)


class Sharing:
    """The recordings that share the memory of a GPU, with what there was of it when each was made."""

    def __init__(self) -> None:
        self.parts: WeakKeyDictionary[Recording, Parts] = WeakKeyDictionary()
        self.outside: WeakSet[Recording] = WeakSet()
        """Those that would share it but for the others that there were, until all are made again for the first time:
        what is crowded out then, when they come in the order of the program, will be each time.
        """
        self.renewed = False
        self.spent: list[Guest] = []
        """Results that are spent."""
        self.made = 0
        """Bytes that all have had."""
        self.patience = PATIENCE[0]

    def add(self, recording: Recording, parts: Parts, spent: Iterable[Guest]) -> None:
        """One that has just been made, all the memory that there is now, and what had been spent before."""
        self.spent = [guest for guest in self.spent if not guest.gone()]
        for other, parts_then in self.parts.items():
            other.guests = [guest for guest in other.guests if not guest.gone()]
            if here := [address for address in recording.given() if lies_in(address, parts_then)]:
                other.guests.append(Guest(recording, here))
        recording.guests += spent
        self.parts[recording] = parts
        self.made += recording.size

    def is_spent(self, address: int, giver: Recording | None) -> bool:
        """Whether what a recording, if any, has given there is spent."""
        if giver is not None:
            return address in giver.lease.spent
        return any(address in guest.places for guest in self.spent)

    def is_loose(self, times: int) -> bool:
        """Whether all are to be made again, after so many replays of one of them."""
        if times != self.patience:
            return False
        return HOLES * (self.made - sum(recording.size for recording in self.parts)) > self.made

    def retire(self) -> None:
        """None of them is replayed any more."""
        for recording in [*self.parts, *self.outside]:
            recording.retire()
        self.parts.clear()
        self.outside.clear()
        self.renewed = True
        self.spent.clear()  # what is made from now on lies elsewhere
        self.made, self.patience = 0, self.patience * PATIENCE[1]


def lies_in(address: int, parts: Parts) -> bool:
    i = bisect(parts, (address, math.inf)) - 1
    return i >= 0 and address < parts[i][1]
