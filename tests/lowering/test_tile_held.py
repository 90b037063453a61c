"""Rows that are held: as many tiles as there are loops, which together have all points."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lamella.dialects.loop import LoopDim
from lamella.lowering.tile_held import EACH, WASTE, chunks

SIZES = st.integers(1, 60000)


@given(st.lists(st.one_of(st.just(1), st.integers(1, 64), SIZES), min_size=1, max_size=2), st.sampled_from([1, 2, 4]))
def test_a_tile_for_each_loop(sizes: list[int], narrow: int) -> None:
    """Also where a loop runs once, as those of parts do that are one image."""
    found = chunks([LoopDim(f"d{i}", 0, n) for i, n in enumerate(sizes)], narrow, 52 << 10)
    if found is None:
        return
    assert len(found.tiles) == len(sizes)
    lanes = 1
    for tile, n in zip(found.tiles, sizes, strict=True):
        lanes *= -(-n // tile) * tile
    points = sizes[0] * (sizes[1] if len(sizes) == 2 else 1)
    assert points <= lanes == found.lanes <= min(WASTE * points, EACH * found.threads)


def test_one_image_is_held() -> None:
    found = chunks([LoopDim("d1", 0, 1), LoopDim("d2", 0, 12544)], 2, 52 << 10)
    assert found is not None and found.tiles[0] == 1
