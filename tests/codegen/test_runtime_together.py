"""Kernels that run as one, by themselves: every point is computed once, and all threads are done at about the same time."""

from __future__ import annotations

import ctypes
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lamella.codegen.runtime_support import load_support
from lamella.codegen.runtime_together import PIECES, UNIT

PREPARE = ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_uint64))
BODY = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.POINTER(ctypes.c_uint64), ctypes.c_int64, ctypes.c_int64)

Ran = list[tuple[int, int, int, int]]
"""Of each call of a body: the launch, the first point and the one after the last, and the thread."""


def together(
    shapes: Sequence[tuple[int, int]], seconds: Sequence[float] = (), codes: Sequence[int] = ()
) -> tuple[int, Ran]:
    """What a group returns and what ran, of launches with some work and points each, a point of each taking its seconds."""
    ran: Ran = []
    table, words, functions = list[int](), list[int | None](), list[Any]()
    for i, (work, points) in enumerate(shapes):

        def body(_: Any, lo: int, hi: int, i: int = i) -> int:
            ran.append((i, lo, hi, threading.get_ident()))
            time.sleep(seconds[i] * (hi - lo) if seconds else 0)
            return codes[i] if codes else 0

        run = BODY(body)

        def prepare(context: Any, run: Any = run, work: int = work, points: int = points) -> None:
            context[0], context[1], context[2] = work, points, ctypes.cast(run, ctypes.c_void_p).value

        function = PREPARE(prepare)
        functions += [run, function]
        words.append(ctypes.cast(function, ctypes.c_void_p).value)
        table += [i, 1, 2 * i + 1]
    call = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_void_p])(
        load_support()["lamella_together"]
    )
    arrays = [(ctypes.c_uint64 * len(a))(*a) for a in (table, words, [0] * 5 * len(shapes))]
    return call(arrays[0], len(shapes), arrays[1], arrays[2]), ran


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@given(
    st.lists(
        st.tuples(st.sampled_from([0, 1, UNIT, 100, 10_000, 3_000_000]), st.sampled_from([0, 1, 2, 3, 7, 64, 1000])),
        min_size=1,
        max_size=6,
    ),
    st.integers(1, 3),
)
def test_every_point_once(shapes: list[tuple[int, int]], threads: int) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        code, ran = together(shapes)
    finally:
        torch.set_num_threads(before)
    assert code == 0
    for i, (work, points) in enumerate(shapes):
        parts = sorted((lo, hi) for launch, lo, hi, _ in ran if launch == i)
        assert [p for lo, hi in parts for p in range(lo, hi)] == list(range(points))
        assert all(lo < hi for lo, hi in parts) and (work or len(parts) <= 1)
    assert len(ran) <= 2 * (len(shapes) + PIECES * threads)


def test_points_that_take_long_are_shared(two_threads: None) -> None:
    """Two points of a product follow short launches: each thread takes one of them, whatever their work is said to be."""
    _, ran = together([(40, 64), (40, 64), (100_000, 2)], (0, 0, 0.1))
    threads = [thread for launch, _, _, thread in ran if launch == 2]
    assert len(threads) == len(set(threads)) == 2


def test_who_is_done_helps(two_threads: None) -> None:
    """Points of the second launch take four times as long as their work says: by that, one thread had 68 of all 80."""
    _, ran = together([(10_000, 16), (5_000, 64)], (0.004, 0.004))
    points = Counter[int]()
    for _, lo, hi, thread in ran:
        points[thread] += hi - lo
    assert len(points) == 2 and min(points.values()) >= 24


def test_threads_come_back_to_their_pieces(two_threads: None) -> None:
    """Where all is as it was said, each thread has one part of a launch, which is in its caches."""
    _, ran = together([(16_000, 16)], (0.01,))
    parts: dict[int, list[int]] = {}
    for _, lo, hi, thread in ran:
        parts.setdefault(thread, []).extend(range(lo, hi))
    assert len(parts) == 2 and all(len({p // 8 for p in part[:6]}) == 1 for part in parts.values())


def test_the_highest_code_is_returned(two_threads: None) -> None:
    assert together([(1000, 8), (1000, 8), (1000, 8)], codes=(1, 3, 2))[0] == 3
