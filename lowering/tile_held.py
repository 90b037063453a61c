"""Rows that a program reads once though no power of two is their length: tiles of a row that are written out.

    for [d1 = 20000] { … }   with tile = {d1 = 1024}, unroll:   20 tiles, the last one with 544 points

What one loop over the row loads is at hand in the next ones. Few threads with many registers each hold most: what a
thread needs besides its elements is needed once a thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..dialects.loop import LoopDim

HELD = 26 << 10
"""Elements of the longest row that is held: two programs of such rows fit a processor, and one loads while the other
one computes.
"""

EACH = 104
"""Elements of a row for a thread at most: of 128 registers."""

WASTE = 1.125
"""Lanes for each point beyond which a row is not one tile."""

_TILES = 64
"""Tiles that are written out at most."""


@dataclass(frozen=True)
class Chunks:
    """Tiles of the dims of nested loops, how many lanes all of them have, and the threads."""

    tiles: tuple[int, ...]
    lanes: int
    threads: int


def chunks(dims: Sequence[LoopDim], narrow: int, most: int) -> Chunks | None:
    """Tiles of up to two dims, of which memory is contiguous along the last one, with elements of `narrow` bytes; None
    where a row has more than `most` points or its length is no number.
    """
    sizes = [d.hi for d in dims if d.lo == 0 and isinstance(d.hi, int)]
    if len(sizes) != len(dims) or not 1 <= len(sizes) <= 2:
        return None
    *outer, n = sizes
    m = outer[0] if outer else 1
    threads = 32
    while threads < 512 and m * n > threads * (EACH if threads >= 256 else 64 // narrow):
        threads *= 2
    at_once = threads * 16 // narrow
    best: Chunks | None = None
    inner = at_once
    while inner >= 64:
        across = at_once // inner
        lanes = -(-n // inner) * inner * -(-m // across) * across
        if across <= m and (best is None or lanes < best.lanes):
            best = Chunks((across, inner) if outer else (inner,), lanes, threads)
        inner //= 2
    fits = best is not None and m * n <= most and best.lanes <= threads * EACH and best.lanes <= WASTE * m * n
    return best if fits and best is not None and best.lanes // at_once <= _TILES else None
