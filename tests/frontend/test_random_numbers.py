"""Numbers of Python's `random` in compiled functions: each call draws its own, and dtypes are eager's.

TorchInductor (2.13) reads the f64 that it is passed as f32.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import lamella

pytestmark = pytest.mark.usefixtures("compiled")


def floats(x: Tensor) -> Tensor:
    return x * random.uniform(-2, 2)


def integers(x: Tensor) -> Tensor:
    return x + random.randint(3, 90)


@pytest.mark.parametrize("f", [floats, integers])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.complex64, torch.int64], ids=str)
def test_random_numbers(f: Callable[[Tensor], Tensor], dtype: torch.dtype) -> None:
    x = torch.arange(1, 8).to(dtype)
    g = lamella.compile(f, fullgraph=True)
    random.seed(0)
    eagers = [f(x) for _ in range(3)]
    random.seed(0)
    ours = [g(x) for _ in range(3)]
    torch.testing.assert_close(ours, eagers)
    if dtype is torch.float64:  # the number is not rounded to the dtype that it was traced with
        assert all(map(torch.equal, ours, eagers))


def test_a_number_that_two_dtypes_read() -> None:
    def f(x: Tensor, y: Tensor, n: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        r = random.uniform(0, 1)
        return x * r, y * r, n * r

    args = (torch.ones(3), torch.ones(3, dtype=torch.float64), torch.ones(3, dtype=torch.int32))
    g = lamella.compile(f, fullgraph=True)
    random.seed(0)
    eager = f(*args)
    random.seed(0)
    ours = g(*args)
    torch.testing.assert_close(ours, eager)
    assert torch.equal(ours[1], eager[1])
