"""The arena plan: buffers that are alive together never share a byte, for any sizes."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from lamella.dialects import expr
from lamella.lowering.arena_plan import ALIGNMENT, Plan, Request, aligned, at_least, larger, plan

S0, S1 = expr.symbol("s0"), expr.symbol("s1")
SIZES: list[Any] = [0, 1, 100, 4096, 4 * S0, 64 * S0, 4 * S0 * S1, 4 * S0 + 12, 64 * S1]


def requests(sizes: list[Any]) -> st.SearchStrategy[list[Request]]:
    one = st.tuples(st.integers(0, 12), st.integers(0, 6), st.sampled_from(sizes))
    return st.lists(one.map(lambda t: Request(t[0], t[0] + t[1], t[2])), max_size=14)


def check(found: Plan, asked: list[Request], values: dict[str, int]) -> None:
    size = expr.evaluate(found.size, values)
    spans = []
    for request, offset in zip(asked, found.offsets, strict=True):
        start = expr.evaluate(offset, values)
        end = start + expr.evaluate(request.size, values)
        assert start % ALIGNMENT == 0
        assert start >= 0 and end <= size
        spans.append((request, start, end))
    for i, (a, start, end) in enumerate(spans):
        for b, other_start, other_end in spans[:i]:
            if a.meets(b) and start < end and other_start < other_end:
                assert end <= other_start or other_end <= start


@given(requests([0, 1, 64, 100, 4096, 10_000]))
def test_fixed_sizes_never_overlap(asked: list[Request]) -> None:
    check(plan(asked, {}), asked, {})


@given(requests(SIZES), st.integers(1, 300), st.integers(1, 300), st.integers(1, 300))
def test_symbolic_sizes_never_overlap_whatever_was_hinted(asked: list[Request], s0: int, s1: int, hint: int) -> None:
    check(plan(asked, {"s0": hint}), asked, {"s0": s0, "s1": s1})


def test_fixed_sizes_are_packed() -> None:
    """Two small buffers lie where a large one was; that is as small as it gets."""
    found = plan([Request(0, 1, 128), Request(2, 4, 64), Request(3, 4, 64), Request(1, 2, 64)], {})
    assert found.size == 192
    assert found.offsets[0] == 0


def test_one_size_takes_turns() -> None:
    """A chain of equal buffers needs two places."""
    found = plan([Request(i, i + 1, 64 * S0) for i in range(10)], {})
    assert found.size == 128 * S0


def test_comparisons_hold_for_all_sizes() -> None:
    assert at_least(4 * S0 + 4, 4 * S0)
    assert at_least(4 * S0 * S1, 4 * S0)
    assert not at_least(4 * S0, 4 * S1)
    assert larger(4 * S0, 8 * S0) == 8 * S0
    assert expr.text(larger(4 * S0, 4 * S1)) == "max(4*s0, 4*s1)"
    assert aligned(64 * S0) == 64 * S0
    assert expr.evaluate(aligned(4 * S0), {"s0": 17}) == 128
