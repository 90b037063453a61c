"""Rows that a program reads once though no power of two is their length: tiles of a row that are written out.

    for [d1 = 20000] { … }   with tile = {d1 = 1024}, unroll:   20 tiles, the last one with 544 points

What one loop over the row loads is at hand in the next ones. Few threads with many registers each hold most: what a
thread needs besides its elements is needed once a thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..dialects.loop import LoopDim
from .tile_extent import at_most

HELD = 52 << 10
"""Elements of the longest row that is held: by 512 threads that have 128 registers each."""

SCRATCH = HELD // 2
"""Elements of a row that loops hand on to each other: two programs of such rows fit a processor."""

EACH = 104
"""Elements of a row for a thread at most: of 128 registers."""

WASTE = 1.125
"""Lanes for each point beyond which a row is not one tile."""

_THREADS = 512

_TILES = 64
"""Tiles that are written out at most."""

_NEIGHBOURS = 128
"""Bytes that lie together in memory, of each tile at least."""


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
    sizes = [at_most(d) for d in dims]
    if not 1 <= len(sizes) <= 2 or not all(isinstance(d.lo, int) and d.lo == 0 for d in dims[-1:]):
        return None
    *outer, n = (size or 0 for size in sizes)
    m, free = (outer[0], dims[0].lo == 0) if outer else (1, True)
    if not 0 < m * n <= most:
        return None
    threads = 32
    while threads < _THREADS and m * n > threads * (EACH if threads >= 256 else 64 // narrow):
        threads *= 2
    for t in (threads, threads // 2, threads * 2):
        found = [c for k in range(3, 13) if (c := _tiled(m, n, free, 1 << k, t, narrow)) is not None]
        if found and 32 <= t <= _THREADS:
            best = min(found, key=lambda c: (c.lanes, -c.tiles[-1]))
            return Chunks(best.tiles[-len(sizes) :], best.lanes, best.threads)
    return None


def _tiled(m: int, n: int, free: bool, inner: int, threads: int, narrow: int) -> Chunks | None:
    """`inner` elements along the last dim, and as many along the other as all threads read at once; `free`: there may
    be several such tiles along that.
    """
    at_once = threads * 16 // narrow
    across = at_once // inner
    if across == 0 or across > m or (across < m and not free) or inner * narrow < _NEIGHBOURS:
        return None
    lanes = -(-n // inner) * inner * -(-m // across) * across
    fits = lanes <= threads * EACH and lanes <= WASTE * m * n and lanes // at_once <= _TILES
    return Chunks((across, inner), lanes, threads) if fits else None
