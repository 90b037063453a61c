"""What Python's collector of reference cycles looks at: nothing while IR is built, and loaded modules not again."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache


@contextmanager
def without_collection() -> Generator[None]:
    """No search for reference cycles inside the `with`.

    Every op, use and block is part of a cycle that is alive, and thousands are made at once, so the collector walks all
    of the IR again and again and frees nothing: measured, two to four times the cost of parsing or cloning 8,000 nests.
    Threads may be inside at the same time: the first to enter turns collection back on when it leaves.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


_FROZEN_BY_PYTHON = 1000
"""Python 3.12 begins with fewer frozen objects (375), other versions with none; a program freezes thousands."""


@cache
def settle(what: str) -> None:
    """Tell the collector, once for each `what`, that what was made so far stays: modules that were loaded.

    It would look through them three times in the calls that follow: measured, 60 ms after the first graph that is
    compiled and 190 ms in the next. What of it is garbage, the next full collection finds.
    """
    if gc.get_freeze_count() < _FROZEN_BY_PYTHON:  # else the program keeps objects from the collector itself
        gc.freeze()
        gc.unfreeze()  # into the oldest generation
