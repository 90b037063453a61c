"""The memory in which Python keeps the frames of its functions."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

_P = ParamSpec("_P")
_R = TypeVar("_R")

_WORDS = 1 << 16
"""Of the frame that makes room: with what Python adds a little more than half a MiB, so that its piece is a MiB."""


def with_room(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """The function, with room for frames where it is called: half a MiB in one piece.

    CPython (3.11 and later, `push_chunk` in pystate.c) has them in pieces of 16 KiB, and gives a piece back to the
    system as soon as the last frame in it returns. Where the frames of a loop end at a piece's end, each call that it
    makes maps memory, touches it for the first time and unmaps it: measured, half of what lowering a model took, by
    the depth of the stack that it happens to be called at. A frame that is larger than a piece has one to itself, of
    the next power of two, and what it calls has the rest of it.
    """

    def call(*args: Any, **keywords: Any) -> Any:
        return function(*args, **keywords)

    call.__code__ = call.__code__.replace(co_stacksize=_WORDS)
    return wraps(function)(call)
