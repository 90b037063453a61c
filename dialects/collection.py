"""Pausing Python's collector of reference cycles while IR is built."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager


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
