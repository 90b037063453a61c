"""What the collector of reference cycles is told."""

from __future__ import annotations

import gc
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


def test_what_is_settled_is_old_and_still_collected() -> None:
    loop: list[object] = []
    loop.append(loop)
    gc.collect()  # nothing older is garbage
    made: list[object] = []
    made.append(made)
    assert generation_of(made) == 0
    settle("a")
    assert generation_of(made) == 2 and gc.get_freeze_count() == 0 and gc.get_count()[1:] == (0, 0)
    del made
    assert gc.collect() == 1


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
