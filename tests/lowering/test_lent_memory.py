"""Loans of results' memory: nobody writes what another still needs, and the peak is never higher."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from lamella.lowering.arena_plan import Request, plan
from lamella.lowering.lent_memory import Lender, Loans, lend
from lamella.lowering.own_memory import placed, set_apart

STEPS = 20
SIZES = (64, 128, 192, 512, 640, 1000, 4096)


def spans(most: int) -> st.SearchStrategy[list[Request]]:
    one = st.tuples(st.integers(0, STEPS - 2), st.integers(0, 9), st.sampled_from(SIZES))
    return st.lists(one.map(lambda t: Request(t[0], min(t[0] + t[1], STEPS - 1), t[2])), max_size=most)


def peak(arena: int, made: list[tuple[int, int]], others: list[Request]) -> int:
    def alive(step: int) -> int:
        around = sum(int(r.size) for r in others if r.first <= step <= r.last)
        return arena + around + sum(size for first, size in made if first <= step)

    return max(map(alive, range(STEPS)))


@given(spans(10), st.lists(st.tuples(st.integers(1, STEPS - 1), st.sampled_from(SIZES)), max_size=4), spans(4))
def test_loans(asked: list[Request], results: list[tuple[int, int]], others: list[Request]) -> None:
    ends = [[i for i, r in enumerate(asked) if (r.last, r.size) == made] for made in results]
    lenders = [Lender(*made, tuple(over)) for made, over in zip(results, ends, strict=True)]
    found = lend(asked, lenders, others, STEPS, {})
    made = [first for first, _ in results]
    for i, (k, offset) in found.places.items():
        lender = lenders[k]
        assert offset % 64 == 0 and 0 <= offset <= lender.size - int(asked[i].size)
        assert asked[i].last < lender.first or (found.over.get(k) == i in lender.over and offset == 0)
        made[k] = min(made[k], asked[i].first)
    _apart(found, asked)
    after = list(zip(made, (x.size for x in lenders), strict=True))
    assert peak(int(found.arena.size), after, others) <= peak(int(plan(asked, {}).size), results, others)


@given(spans(10), st.lists(st.tuples(st.integers(1, STEPS - 1), st.sampled_from(SIZES)), max_size=3), spans(6))
def test_own_tensors(asked: list[Request], results: list[tuple[int, int]], others: list[Request]) -> None:
    asked = [replace(r, size=int(r.size) << 14) for r in asked]
    given = [replace(r, size=int(r.size) << 14) for r in others]
    lenders = [Lender(first, size << 14) for first, size in results]
    loans = lend(asked, lenders, given, STEPS, {})
    found, _ = set_apart(asked, lenders, given, STEPS, {}, loans)
    assert found.places == loans.places and not found.apart & set(found.places)
    _apart(found, asked)
    made = [(at, x.size) for at, x in zip(loans.made, lenders, strict=True)]
    before, after = (peak(int(x.arena.size), made, [*given, *(asked[i] for i in x.apart)]) for x in (loans, found))
    assert after < before if found.apart else after == before


def _apart(found: Loans, asked: list[Request]) -> None:
    own = {i: (-2 - i, 0) for i in found.apart}
    where = [(found.places | own).get(i, (-1, found.arena.offsets[i])) for i in range(len(asked))]
    for i, (k, a) in enumerate(where):
        for j, (other, b) in enumerate(where[:i]):
            if k == other and asked[i].meets(asked[j]):
                assert int(a) + int(asked[i].size) <= int(b) or int(b) + int(asked[j].size) <= int(a)
        assert k != -1 or int(a) + int(asked[i].size) <= int(found.arena.size)


def test_a_result_at_the_end_holds_what_came_before() -> None:
    """Three buffers of which two are alive at once, and a large result: no arena is left but for what it reads."""
    asked = [Request(0, 1, 4096), Request(1, 2, 4096), Request(2, 3, 1024)]
    found = lend(asked, [Lender(3, 8192)], [], 5, {})
    assert set(found.places) == {0, 1}
    assert found.arena.size == 1024


def test_a_result_lies_over_what_it_reads_that_is_there_longest() -> None:
    """Over the second operand of two: the first is made just before, when nothing else is there any more."""
    asked = [Request(3, 4, 1 << 20), Request(1, 4, 1 << 20), Request(1, 2, 2 << 20)]
    found = lend(asked, [Lender(4, 1 << 20, (0, 1))], [], 6, {})
    assert found.over == {0: 1} and found.places == {1: (0, 0)}
    assert found.arena.size == 2 << 20


def test_a_loan_that_pays_with_another_apart() -> None:
    """A result over the larger of two large buffers: the arena would be as large for the other, were it not apart."""
    asked = [Request(2, 7, 8 << 20), Request(6, 7, 8 << 20), Request(1, 1, 64)]
    given = (asked, [Lender(7, 8 << 20, (0, 1))], [Request(0, 2, 9 << 20)], 9, {})
    assert not lend(*given).places
    found = placed(*given)
    assert found.over == {0: 0} and found.places == {0: (0, 0), 2: (0, 0)}
    assert found.apart == {1} and found.arena.size == 0


def test_none_where_the_result_would_be_there_too_early() -> None:
    """At the first steps something large is alive that is gone when the result is made."""
    asked, large = [Request(1, 2, 4096)], [Request(1, 2, 1 << 20)]
    assert not lend(asked, [Lender(5, 8192)], large, 7, {}).places
    assert lend(asked, [Lender(5, 8192)], [], 7, {}).places
    assert lend(asked, [Lender(5, 8192)], [Request(-1, 2, 4096)], 7, {}).places, "an argument may be there to the end"
    assert not lend(asked, [Lender(5, 8192)], [Request(-1, 2, 1 << 20)], 7, {}).places, "and may not"
