"""The native functions that sort, against torch: every length of a block, of a run, and of merged runs."""

from __future__ import annotations

import ctypes

import pytest
import torch

from lamella.codegen.sorting_runtime import sorting
from lamella.lowering.sorting import BLOCK, LANES, RUN, held, room

DTYPES = {"i32": torch.int32, "i64": torch.int64}
UNTOUCHED = 77


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("largest", [2, 2**31 - 1])
def test_sorts_every_length(dtype: str, largest: int) -> None:
    sort = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(sorting(dtype)[f"lamella_sort_{dtype}"])
    block, run = BLOCK * LANES[dtype], RUN * LANES[dtype]
    lengths = [*range(2 * block + 2), 3 * block, run - 1, run, run + 1, 2 * run, 3 * run + 5, 8 * run + block, 9 * run]
    for n in lengths:
        row = torch.randint(-largest - 1, largest + 1, (n,), dtype=torch.int64).to(DTYPES[dtype])
        if n > 2:
            row[:2] = torch.tensor([torch.iinfo(row.dtype).max, torch.iinfo(row.dtype).min])
        buffer = torch.full((room(n, dtype) + 3,), UNTOUCHED, dtype=row.dtype)
        buffer[:n] = row
        sort(buffer.data_ptr(), n)
        assert torch.equal(buffer[:n], row.sort().values), n
        assert (buffer[-3:] == UNTOUCHED).all(), n


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_buffer_tells_what_it_holds(dtype: str) -> None:
    for n in (0, 1, 64, RUN * LANES[dtype], RUN * LANES[dtype] + 1, 1 << 20):
        assert held(room(n, dtype), dtype) == n
