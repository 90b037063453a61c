"""Which buffers lie in results that are written later, so that arena and results are not both there at the peak.

A result's tensor may be made before it is needed, and until it is written its bytes are as good as the arena's. A
buffer that the result is written over (its last reader makes the result in its place) lies there too. A tensor made
earlier is there for longer: a loan is made only where the most bytes alive at once become fewer. Whether an argument is
gone after its last use is for the caller to decide: they must not become more if it is, nor if it is not.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter

from .arena_plan import ALIGNMENT, Plan, Request, plan

LARGE = 1 << 16
"""Bytes of a result from which on its memory is worth lending."""

MOST = 12
"""How many results may lend, the largest first: each is a plan more to make."""


@dataclass(frozen=True)
class Lender:
    """A result of `size` bytes that is written at step `first`; it may be over one of the requests numbered `over`."""

    first: int
    size: int
    over: tuple[int, ...] = ()


@dataclass(frozen=True)
class Loans:
    """For each request that lies in a result, which and at what byte; where the others lie in the arena."""

    places: dict[int, tuple[int, int]]
    arena: Plan
    made: tuple[int, ...] = ()
    """The step at which the tensor of each lender is made."""
    apart: frozenset[int] = frozenset()
    """The requests that have tensors of their own."""
    over: Mapping[int, int] = field(default_factory=dict[int, int])
    """For a lender that is written over a request, which."""


def lend(
    requests: Sequence[Request],
    lenders: Sequence[Lender],
    others: Sequence[Request],
    steps: int,
    hints: Mapping[str, int],
    arena: bool = True,
) -> Loans:
    """The loans that lower the peak. `others` is the memory that is neither requested nor a lender's; of an argument
    `first` is negative. Without `arena` it is the peak of what is alive, as though each buffer were a tensor.
    """
    loans = Loans({}, plan(requests, hints), tuple(lender.first for lender in lenders))
    sizes = [r.size for r in (*requests, *others)]
    if not lenders or not all(isinstance(size, int) for size in sizes):
        return loans
    profiles = around(others, steps)

    def arranged(places: Mapping[int, object]) -> Plan:
        rest = [i for i in range(len(requests)) if i not in places]
        smaller = plan([requests[i] for i in rest], hints)
        offsets = dict(zip(rest, smaller.offsets, strict=True))
        return Plan(tuple(offsets.get(i, 0) for i in range(len(requests))), smaller.size)

    def peaks(planned: Plan, made: Sequence[int], places: Mapping[int, object]) -> list[int]:
        made_spans = [(at, steps - 1, x.size) for at, x in zip(made, lenders, strict=True)]
        if arena:
            results = profile(made_spans, steps)
            return [_int(planned) + max(map(int.__add__, alive, results)) for alive in profiles]
        rest = [(r.first, r.last, _int(r)) for i, r in enumerate(requests) if i not in places]
        results = profile([*made_spans, *rest], steps)
        return [max(map(int.__add__, alive, results)) for alive in profiles]

    least = peaks(loans.arena, loans.made, {})
    for k in sorted(range(len(lenders)), key=lambda k: -lenders[k].size)[:MOST]:
        before = loans
        for over in [i for i in lenders[k].over if i not in before.places] or [None]:
            lent = _borrowers(requests, lenders[k], over, before.places)
            if not lent:
                continue
            places = before.places | {i: (k, offset) for i, offset in lent.items()}
            made = before.made
            earlier = (*made[:k], min(made[k], *(requests[i].first for i in lent)), *made[k + 1 :])
            planned = arranged(places) if arena else before.arena
            now = peaks(planned, earlier, places)
            if now != least and all(map(int.__le__, now, least)):
                written = before.over if over is None else {**before.over, k: over}
                loans, least = Loans(places, planned, earlier, over=written), now
    return loans if arena else replace(loans, arena=arranged(loans.places))


def _borrowers(
    requests: Sequence[Request], lender: Lender, over: int | None, placed: Mapping[int, object]
) -> dict[int, int]:
    """Offsets in the lender of the requests that fit there before it is written, largest first after `over`."""
    held = {} if over is None else {over: 0}
    end = lender.first if over is None else requests[over].first
    waiting = [i for i, r in enumerate(requests) if i not in placed and i not in held and r.last < end]
    by_offset = [(0, _padded(requests[i]), requests[i]) for i in held]
    for i in sorted(waiting, key=lambda i: (-_int(requests[i]), requests[i].first)):
        at, size = 0, _padded(requests[i])
        for offset, others_end, other in by_offset:
            if others_end > at and other.meets(requests[i]):
                if offset >= at + size:
                    break
                at = others_end
        if at + size <= lender.size:
            held[i] = at
            insort(by_offset, (at, at + size, requests[i]), key=itemgetter(0))
    return held


def around(others: Sequence[Request], steps: int) -> tuple[list[int], list[int]]:
    """Bytes alive at each step of what is not planned: where arguments go after their last use, and where they stay."""
    given = [(r.first, r.last, _int(r)) for r in others]
    held = [(first, steps - 1 if first < 0 else last, size) for first, last, size in given]
    return profile(given, steps), profile(held, steps)


def profile(spans: Sequence[tuple[int, int, int]], steps: int) -> list[int]:
    """Bytes alive at each step; spans have their first and last step."""
    changes = [0] * (steps + 1)
    for first, last, size in spans:
        changes[max(first, 0)] += size
        changes[min(last, steps - 1) + 1] -= size
    alive, found = 0, list[int]()
    for change in changes[:steps]:
        alive += change
        found.append(alive)
    return found


def _int(sized: Request | Plan) -> int:
    assert isinstance(sized.size, int)
    return sized.size


def _padded(request: Request) -> int:
    return -(-_int(request) // ALIGNMENT) * ALIGNMENT
