"""Who touched which element of memory, to find races: programs and threads of a launch that depend on their order.

An element is checked between programs, which run in any order, and between the lanes of one program, which are on
different threads: what a lane wrote another may read only after a barrier. The same lane of as many is taken for the
same thread. Atomics may meet atomics. A program that has acquired, by an atomic, may read what others wrote.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

MOST = 1 << 26
"""Elements of a tensor that is watched; those of larger ones are not."""

_MANY = -1


class AccessError(Exception):
    """An access that no program may make; the message has no op in it."""


@dataclass
class Moment:
    """Which program runs, and how often its threads have waited for each other."""

    program: int = 0
    """From 1 on."""
    barriers: int = 0
    acquired: bool = False


class Watch:
    """The elements of one tensor."""

    def __init__(self, elements: int) -> None:
        self._writer = torch.zeros(elements, dtype=torch.int32)
        """The program that wrote last; below 0, by an atomic."""
        self._reader = torch.zeros(elements, dtype=torch.int32)
        """The program that read; _MANY of them."""
        self._barriers = torch.zeros(elements, dtype=torch.int32)
        self._lane = torch.zeros(elements, dtype=torch.int64)

    def read(self, places: Tensor, lanes: Tensor, now: Moment) -> None:
        """The program reads `places`, by `lanes`."""
        writer = self._writer[places].abs()
        if not now.acquired:
            _refuse(places, (writer != 0) & (writer != now.program), "is read, and written by another program")
        fresh = (writer == now.program) & (self._barriers[places] == now.barriers)
        _refuse(places, fresh & (self._lane[places] != lanes), "is read without a barrier after another lane wrote it")
        reader = self._reader[places]
        first = (reader == 0) | (reader == now.program)
        self._reader[places] = torch.where(first, now.program, _MANY).to(torch.int32)

    def write(self, places: Tensor, lanes: Tensor, changed: Tensor, now: Moment, atomic: bool) -> None:
        """The program writes `places`, by `lanes`; `changed` are those that hold something else now."""
        if not now.acquired:
            writer, reader = self._writer[places], self._reader[places]
            others = (writer != 0) & (writer.abs() != now.program)
            if atomic:
                others &= writer > 0
            _refuse(places, others & changed, "is written by two programs")
            read = (reader != 0) & (reader != now.program)
            _refuse(places, read & changed, "is written, and read by another program")
        self._writer[places] = -now.program if atomic else now.program
        self._barriers[places] = now.barriers
        self._lane[places] = lanes


def _refuse(places: Tensor, wrong: Tensor, what: str) -> None:
    if bool(wrong.any()):
        raise AccessError(f"element {int(places[wrong][0])} {what}")
