"""Fixtures of the tests of codegen."""

import ctypes
import mmap
from collections.abc import Callable

import pytest
import torch


@pytest.fixture
def guarded() -> Callable[[torch.Tensor], torch.Tensor]:
    """Copies of tensors that end where a page without access begins: to read or write behind them ends the process."""
    page, kept = mmap.PAGESIZE, []
    protect = ctypes.CDLL(None).mprotect

    def place(t: torch.Tensor) -> torch.Tensor:
        size = t.numel() * t.element_size()
        pages = -(-size // page)
        memory = mmap.mmap(-1, (pages + 1) * page)
        address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        assert protect(ctypes.c_void_p(address + pages * page), page, 0) == 0
        copy = torch.frombuffer(memory, dtype=t.dtype, offset=pages * page - size, count=t.numel()).view(t.shape)
        kept.append((memory, copy))
        return copy.copy_(t)

    return place
