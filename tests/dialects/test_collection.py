"""What the collector of reference cycles is told."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from lamella.dialects.collection import settle, without_collection


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    settle.cache_clear()
    gc.disable()
    yield
    gc.unfreeze()
    gc.enable()


def generation_of(value: object) -> int:
    return next(i for i in range(3) if any(v is value for v in gc.get_objects(generation=i)))


class Loop(list[object]):
    """A list that can be referred to weakly."""


def test_what_is_settled_is_old_and_still_collected() -> None:
    made = Loop()
    made.append(made)
    there = weakref.ref(made)
    assert generation_of(made) == 0
    settle("a")
    assert generation_of(made) == 2 and gc.get_freeze_count() == 0 and gc.get_count()[1:] == (0, 0)
    del made
    gc.collect()
    assert there() is None


def test_what_python_froze_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gc, "get_freeze_count", lambda: 375)  # as Python 3.12 begins
    made: list[object] = [[]]
    settle("a")
    assert generation_of(made) == 2


def test_it_is_done_once_for_each() -> None:
    settle("a")
    made: list[object] = [[]]
    settle("a")
    assert generation_of(made) == 0
    settle("b")
    assert generation_of(made) == 2


def test_what_a_program_froze_stays_frozen() -> None:
    gc.freeze()
    made: list[object] = [[]]
    settle("a")
    assert gc.get_freeze_count() > 0 and generation_of(made) == 0


def test_collection_is_on_after_the_last_that_turned_it_off() -> None:
    gc.enable()
    with without_collection():
        with without_collection():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()
