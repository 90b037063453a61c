"""Sizes of the buffers in which rows are sorted; `codegen/sorting_runtime.py` has the code."""

from __future__ import annotations

from typing import Any, Final

LANES: Final = {"i32": 16, "i64": 8}
"""Elements of the vectors that sorting works with, by dtype."""

BLOCK: Final = 8
"""Vectors that are sorted in registers."""

RUN: Final = 128
"""Vectors of a run that goes through a network; longer rows are merged from runs, in twice the room."""

CANDIDATES: Final = 4
"""How many candidates there is room for at least, for each element that is wanted."""


def room(n: Any, dtype: str) -> Any:
    """Elements of a buffer in which n, perhaps a symbol, are sorted: whole blocks, a vector that may be read, and as
    much again for long rows.
    """
    lanes = LANES[dtype]
    whole = n + (BLOCK + 1) * lanes
    return whole if isinstance(n, int) and n <= RUN * lanes else 2 * whole


def held(size: Any, dtype: str) -> Any:
    """The n of `room`."""
    lanes = LANES[dtype]
    more = (BLOCK + 1) * lanes
    if isinstance(size, int):
        return size - more if size - more <= RUN * lanes else size // 2 - more
    return size / 2 - more


def candidates(n: Any, count: Any, dtype: str) -> Any:
    """How many of n elements are kept at a time to find the `count` least: all, or a few more than are wanted."""
    if not isinstance(count, int):
        return n
    few = max(BLOCK * LANES[dtype], CANDIDATES << (count - 1).bit_length() if count else 0)
    return min(n, few) if isinstance(n, int) else few
