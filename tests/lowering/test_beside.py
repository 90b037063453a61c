"""What is held beside outputs that are recycled, as their pool is told."""

from __future__ import annotations

import pytest

from lamella.lowering.beside import rooms

Outputs = list[tuple[int, int | None, int]]
"""Each the step that it is made at, the last one before it goes, and its bytes."""


@pytest.mark.parametrize(
    ("alive", "outputs", "expected"),
    [
        pytest.param([3, 5, 2], [], (5, [], {}), id="none"),
        pytest.param([1, 2, 9, 4], [(1, None, 100)], (1, [9], {}), id="from where it is made"),
        pytest.param([9, 1, 1], [(0, None, 100)], (9, [9], {}), id="made first"),
        pytest.param([1, 2, 3, 4], [(1, None, 10), (3, None, 10)], (1, [3, 4], {}), id="until the next"),
        pytest.param([0, 0, 0, 150, 0], [(0, 1, 100)], (0, [0], {0: 150}), id="its memory is needed"),
        pytest.param([0, 0, 0, 0, 0], [(0, 1, 60), (0, 3, 40)], (0, [0, 0], {}), id="there is room for it"),
        pytest.param([0, 7, 0, 90, 0], [(0, 1, 60), (0, 3, 40)], (0, [0, 7], {0: 90}), id="no room beside others"),
    ],
)
def test_rooms(alive: list[int], outputs: Outputs, expected: tuple[int, list[int], dict[int, int]]) -> None:
    assert rooms(alive, outputs) == expected
