"""Integers that programs are called with, in kernels for GPUs, which take sizes of 32 bits."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from lamella.frontend.backend import Backend
from lamella.lowering.options import Options
from lamella.tools.op_devices import compile_interpreted

NUMBERS = (3, -1, -2, 2**31 - 1, 2**31, 2**40 + 1, -(2**31) - 5)
PROGRAMS: dict[str, Callable[[torch.Tensor, int], Any]] = {
    "sum": lambda x, n: x + n,
    "products of numbers": lambda x, n: x.to(torch.int64) * (2 * n - 1) + n,
    "several results": lambda x, n: [t.sum(0) + n for t in x.split([3, 5, 9, 51])],
    "truth": lambda x, n: torch.where(x.double() > n, n, x.double()),
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_numbers_of_any_size(program: str) -> None:
    f = PROGRAMS[program]
    graphs: list[str] = []
    backend = Backend(Options(), compile_interpreted, watch=lambda event: graphs.append(event.reason))
    compiled: Any = torch.compile(f, backend=backend, dynamic=True)
    x = torch.randn(68, 4)
    for n in NUMBERS:
        torch.testing.assert_close(compiled(x, n), f(x, n))
    assert graphs == [""]


def test_places_of_any_sign() -> None:
    """What says where something lies has 32 bits and may be negative."""
    compiled: Any = torch.compile(
        lambda x, n: x.roll(n, 0), backend=Backend(Options(), compile_interpreted), dynamic=True
    )
    x = torch.arange(68)
    for n in (5, -3, 0, 67, -(2**31) + 1):
        assert torch.equal(compiled(x, n), x.roll(n, 0))
