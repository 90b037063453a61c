"""Long float sums in blocks of blocks: a partial sum has few terms, and so has a sum of partial sums.

The error of a sum one after the other grows with its length, that of a cascade with the logarithm. ATen adds up in
blocks of 16 too.
"""

from __future__ import annotations

from .llvm_builder import Num

BLOCK = 16
"""Terms of a partial sum."""

ADDED = 2 * BLOCK
"""Terms of what a strip of rows adds up before that is added in f64 (schedule_strips): so few that sums are as exact,
and what follows a strip costs little.
"""

LONG_BLOCK = 128
"""The same where a block's end costs more: it has divisions, or a tile's sums of products leave their registers."""


def block_sizes(lo: Num, hi: Num, step: int, inside: int | None, block: int, steps: int | None = None) -> list[int]:
    """How far the blocks of a loop reach, the largest first. `inside`: terms that a step adds up, None if not known;
    `steps`: how many there are at most, if that is known of others than numbers.
    """
    first = block if inside is None or inside >= block else max(1, block // max(1, inside))
    if isinstance(lo, int) and isinstance(hi, int):
        steps = -(-(hi - lo) // step)
    if steps is not None:
        levels = 0
        while steps > (first if levels == 0 else block):
            steps, levels = -(-steps // (first if levels == 0 else block)), levels + 1
    else:
        # A million terms are few blocks of the largest: each lane adds up its part of them.
        levels = (2 if step >= 16 else 4) if block < LONG_BLOCK else (1 if step >= 16 else 2)
    return [step * first * block**k for k in reversed(range(levels))]
