"""Which buffers are tensors of their own, so that the arena, which is there for all of a call, is no larger than what a
call needs when it needs most.

A backward has most at its beginning, when all that was saved is there, and its largest buffers at its end. Each such
tensor is an allocation more: they are as few as lower the peak, and none where it would be no lower to speak of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from .arena_plan import Plan, Request, plan
from .lent_memory import Lender, Loans, around, lend, profile

LARGE = 1 << 20
"""Bytes from which on a buffer is worth an allocation."""

SMALLER = 1 << 18
"""The same where that leaves too much in the arena."""

WORTH = 64
"""The part of the peak, without what is there all the time, by which it must become lower."""


def placed(
    requests: Sequence[Request],
    lenders: Sequence[Lender],
    others: Sequence[Request],
    steps: int,
    hints: Mapping[str, int],
) -> Loans:
    """Loans, and requests apart, that lower the peak. A loan may pay only where something else is apart, as where a
    result is written over the largest buffer, and another as large would keep the arena large.
    """
    given = (requests, lenders, others, steps, hints)
    found, peaks = set_apart(*given, lend(*given))
    if not peaks or not any(lender.over and lender.size >= LARGE for lender in lenders):
        return found
    other, its = set_apart(*given, lend(*given, arena=False))
    return other if peaks[0] - its[0] >= LARGE and its[1] <= peaks[1] else found


def set_apart(
    requests: Sequence[Request],
    lenders: Sequence[Lender],
    others: Sequence[Request],
    steps: int,
    hints: Mapping[str, int],
    loans: Loans,
) -> tuple[Loans, list[int]]:
    """`loans` with the requests that are better tensors of their own, and the peaks where arguments go after their last
    use and where they stay, none with symbolic sizes. The arguments are those of `lend`.
    """
    sizes = [r.size for r in (*requests, *others)]
    if not all(isinstance(size, int) for size in sizes) or not isinstance(loans.arena.size, int):
        return loans, []
    spans = [(r.first, r.last, int(r.size)) for r in requests]
    results = profile([(at, steps - 1, x.size) for at, x in zip(loans.made, lenders, strict=True)], steps)
    given, held = ([*map(int.__add__, alive, results)] for alive in around(others, steps))
    planned = [i for i in range(len(requests)) if i not in loans.places]
    alive = profile([spans[i] for i in planned], steps)

    def tried(apart: frozenset[int]) -> tuple[Loans, list[int]]:
        rest = [i for i in planned if i not in apart]
        smaller = plan([requests[i] for i in rest], hints) if apart else loans.arena
        assert isinstance(smaller.size, int)
        own = profile([spans[i] for i in apart], steps)
        peaks = [smaller.size + max(map(int.__add__, around, own)) for around in (given, held)]
        if not apart:
            return loans, peaks
        offsets = dict(zip(rest, smaller.offsets, strict=True))
        arena = Plan(tuple(offsets.get(i, 0) for i in range(len(requests))), smaller.size)
        return replace(loans, arena=arena, apart=apart), peaks

    best, least = tried(frozenset())
    total = [*map(int.__add__, given, alive)]
    worth = (least[0] - min(given)) // WORTH
    if loans.arena.size < worth or least[0] - max(total) < worth:
        return best, least
    for most, size in ((alive[total.index(max(total))], LARGE), (0, LARGE), (0, SMALLER)):
        apart = _above(most, [i for i in planned if spans[i][2] >= size], spans, alive)
        found, peaks = tried(apart)
        if least[0] - peaks[0] >= worth and peaks[1] <= least[1]:
            best, least = found, peaks
    return best, least


def _above(
    most: int, candidates: Sequence[int], spans: Sequence[tuple[int, int, int]], alive: Sequence[int]
) -> frozenset[int]:
    """The largest requests without which no more than `most` bytes are alive at any step."""
    left = list(alive)
    taken: set[int] = set()
    for i in sorted(candidates, key=lambda i: -spans[i][2]):
        first, last, size = spans[i]
        if max(left[first : last + 1]) > most:
            taken.add(i)
            left[first : last + 1] = [bytes - size for bytes in left[first : last + 1]]
    return frozenset(taken)
