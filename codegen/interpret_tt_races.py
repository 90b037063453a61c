"""Who touched which element of memory, to find races: programs and threads of a launch that depend on their order.

An element is checked between programs, which run in any order, and between the lanes of one program, which are on
different threads: what a lane wrote another may read or write only after a barrier, and write what it read. The same
lane of as many is taken for the same thread. Atomics may meet atomics. A program that has acquired, by an atomic, may
read what others wrote.
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


@dataclass
class _Touch:
    """The last access of a kind to each element."""

    program: Tensor
    """0 for none."""
    barriers: Tensor
    lane: Tensor

    @classmethod
    def none(cls, elements: int) -> _Touch:
        numbers = torch.zeros(elements, dtype=torch.int32), torch.zeros(elements, dtype=torch.int32)
        return cls(*numbers, torch.zeros(elements, dtype=torch.int64))

    def by_another_lane(self, places: Tensor, lanes: Tensor, now: Moment) -> Tensor:
        """Where the program itself was last, but for another lane, and no barrier came since."""
        recent = (self.program[places].abs() == now.program) & (self.barriers[places] == now.barriers)
        return recent & (self.lane[places] != lanes)


class Watch:
    """The elements of one tensor."""

    def __init__(self, elements: int) -> None:
        self._written = _Touch.none(elements)  # programs are negative where they wrote by an atomic
        self._read = _Touch.none(elements)  # _MANY where several programs or lanes did

    def read(self, places: Tensor, lanes: Tensor, now: Moment) -> None:
        """The program reads `places`, by `lanes`."""
        writer = self._written.program[places].abs()
        if not now.acquired:
            _refuse(places, (writer != 0) & (writer != now.program), "is read, and written by another program")
        unsafe = self._written.by_another_lane(places, lanes, now)
        _refuse(places, unsafe, "is read without a barrier after another lane wrote it")
        reader, others = self._read.program[places], self._read.by_another_lane(places, lanes, now)
        first = (reader == 0) | (reader == now.program)
        self._read.program[places] = torch.where(first, now.program, _MANY).to(torch.int32)
        self._read.lane[places] = torch.where(others, _MANY, lanes)
        self._read.barriers[places] = now.barriers

    def write(self, places: Tensor, lanes: Tensor, changed: Tensor, now: Moment, atomic: bool) -> None:
        """The program writes `places`, by `lanes`; `changed` are those that hold something else now."""
        if not now.acquired:
            writer, reader = self._written.program[places], self._read.program[places]
            others = (writer != 0) & (writer.abs() != now.program)
            if atomic:
                others &= writer > 0
            _refuse(places, others & changed, "is written by two programs")
            read = (reader != 0) & (reader != now.program)
            _refuse(places, read & changed, "is written, and read by another program")
        unsafe = self._read.by_another_lane(places, lanes, now)
        _refuse(places, unsafe & changed, "is written without a barrier after another lane read it")
        if not atomic:
            unsafe = self._written.by_another_lane(places, lanes, now)
            _refuse(places, unsafe & changed, "is written without a barrier after another lane wrote it")
        self._written.program[places] = -now.program if atomic else now.program
        self._written.barriers[places] = now.barriers
        self._written.lane[places] = lanes


def _refuse(places: Tensor, wrong: Tensor, what: str) -> None:
    if bool(wrong.any()):
        raise AccessError(f"element {int(places[wrong][0])} {what}")
