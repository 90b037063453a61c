"""Calls have room for their frames."""

from __future__ import annotations

import resource
import sys
from collections.abc import Callable

import pytest

from lamella.dialects.call_stack import with_room

CALLS = 500


def _called_often(depth: int) -> int:
    """How many pages are touched for the first time by calls from so many frames down."""
    if depth:
        return _called_often(depth - 1)
    before = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt
    for _ in range(CALLS):
        _nothing(0)
    return resource.getrusage(resource.RUSAGE_THREAD).ru_minflt - before


def _nothing(n: int) -> int:
    return n


def _most(of: Callable[[int], int]) -> int:
    return max(of(depth) for depth in range(200))


@pytest.mark.skipif(sys.platform != "linux", reason="counts of Linux")
def test_no_call_maps_memory() -> None:
    assert _most(with_room(_called_often)) < CALLS


@pytest.mark.skipif(sys.platform != "linux" or sys.version_info >= (3, 14), reason="what Python 3.11 to 3.13 do")
def test_without_it_calls_at_some_depth_map_memory() -> None:
    assert _most(_called_often) >= CALLS


def test_the_function_is_called_as_it_is() -> None:
    @with_room
    def f(a: int, *b: int, c: int = 3, **d: int) -> tuple[object, ...]:
        """Words."""
        return a, b, c, d

    assert f(1, 2, c=4, e=5) == (1, (2,), 4, {"e": 5})
    assert f.__name__ == "f" and f.__doc__ == "Words."
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'a'"):
        f()  # pyright: ignore[reportCallIssue]
