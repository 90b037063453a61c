"""Where each buffer of a call lies in the one arena, so that buffers share bytes only when they are not alive
together.

Fixed sizes are packed, largest first, each at the lowest offset that is free during its life. With symbolic sizes the
arena is a row of blocks, each as large as the largest of the buffers that take turns in it: `max` where no one size
is always the largest. Which buffers take turns follows the sizes seen when compiling; that they fit holds for all
sizes.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

import sympy

from ..dialects import expr
from ..dialects.expr import Dim
from .address import multiple_of

ALIGNMENT = 64
UNKNOWN_SIZE = 64
"""Stands for a symbol of which no size was seen."""


@dataclass(frozen=True)
class Request:
    """Memory of `size` bytes from op `first` to op `last`, both included."""

    first: int
    last: int
    size: Dim

    def meets(self, other: Request) -> bool:
        """Whether both are alive at some op."""
        return self.first <= other.last and other.first <= self.last


@dataclass(frozen=True)
class Plan:
    """Byte offset of each request, and the bytes of the arena; all multiples of ALIGNMENT."""

    offsets: tuple[Dim, ...]
    size: Dim


def plan(requests: Sequence[Request], hints: Mapping[str, int]) -> Plan:
    """Offsets for `requests`, in their order. `hints` are sizes of symbols, by name, that were seen when compiling."""
    requests = [Request(r.first, r.last, aligned(r.size)) for r in requests]
    if all(isinstance(r.size, int) for r in requests):
        return _pack(requests)
    return _take_turns(requests, hints)


def aligned(size: Dim) -> Dim:
    """`size` rounded up to a multiple of ALIGNMENT."""
    if multiple_of(size, ALIGNMENT):
        return size
    return expr.normal(ALIGNMENT * expr.floordiv(size + (ALIGNMENT - 1), ALIGNMENT))


def _pack(requests: Sequence[Request]) -> Plan:
    offsets: dict[int, Any] = {}
    placed: list[tuple[int, int, int, int]] = []  # offset, end, first and last op; by offset
    for i in sorted(range(len(requests)), key=lambda i: (-int(requests[i].size), requests[i].first)):
        first, last, size, at = requests[i].first, requests[i].last, int(requests[i].size), 0
        for offset, end, others_first, others_last in placed:
            if offset >= at + size:
                break
            if end > at and others_first <= last and first <= others_last:
                at = end
        offsets[i] = at
        insort(placed, (at, at + size, first, last), key=itemgetter(0))
    return Plan(tuple(offsets[i] for i in range(len(requests))), max((end for _, end, *_ in placed), default=0))


@dataclass
class _Block:
    size: Dim
    expected: int
    members: list[int] = field(default_factory=list)


def _take_turns(requests: Sequence[Request], hints: Mapping[str, int]) -> Plan:
    expected = [estimate(r.size, hints) for r in requests]
    blocks: list[_Block] = []
    for i in sorted(range(len(requests)), key=lambda i: (-expected[i], requests[i].first)):
        free = [b for b in blocks if not any(requests[j].meets(requests[i]) for j in b.members)]
        # of the free blocks one that surely is large enough, then the smallest
        sure = [b for b in free if at_least(b.size, requests[i].size)]
        block = min(sure or free, key=lambda b: b.expected, default=None)
        if block is None:
            block = _Block(requests[i].size, expected[i])
            blocks.append(block)
        elif block not in sure:
            block.size = larger(block.size, requests[i].size)
        block.members.append(i)
    offsets: dict[int, Dim] = {}
    total: Dim = 0
    for block in blocks:
        for i in block.members:
            offsets[i] = total
        total = expr.normal(total + block.size)  # pyright: ignore[reportOperatorIssue]
    return Plan(tuple(offsets[i] for i in range(len(requests))), total)


def estimate(size: Dim, hints: Mapping[str, int]) -> int:
    """The bytes where symbols are as they were seen when compiling."""
    values = {s.name: hints.get(s.name, UNKNOWN_SIZE) for s in expr.symbols(size)}
    return int(expr.evaluate(size, values))


def at_least(a: Dim, b: Dim) -> bool:
    """Whether a >= b for all sizes, as far as is seen at once: in terms of s - 1 for each s, nothing is taken away."""
    if isinstance(a, int) and isinstance(b, int):
        return a >= b
    if a == b or b == 0:
        return True
    if isinstance(a, sympy.Max):
        return any(at_least(expr.normal(part), b) for part in a.args)
    difference: Any = sympy.sympify(a - b)
    sizes = {s: expr.symbol(f"less_{s.name}") + 1 for s in difference.free_symbols if s.is_positive}
    return bool(sympy.expand(difference.xreplace(sizes)).is_nonnegative)


def larger(a: Dim, b: Dim) -> Dim:
    """max(a, b)."""
    return a if at_least(a, b) else b if at_least(b, a) else expr.normal(sympy.Max(a, b))
