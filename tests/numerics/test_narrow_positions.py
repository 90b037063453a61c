"""Positions in windows that are kept in one or two bytes between kernels are those that eager finds."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional


@pytest.mark.parametrize("window", [2, 3, 11, 12])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_gradient_of_max_pool(window: int, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    x = torch.randint(-9, 9, (2, 8, 100, 100)).to(dtype)  # many are equal: the first counts
    x[0, 0, 5, 7] = torch.nan
    n = 101 - window
    weight = torch.randint(1, 4, (2, 8, n, n)).to(dtype)

    def loss(x: Tensor) -> Tensor:
        return (functional.max_pool2d(functional.relu(x), window, 1) * weight).sum()

    def gradient(f: Callable[[Tensor], Tensor]) -> Tensor:
        leaf = x.clone().requires_grad_()
        f(leaf).backward()
        assert leaf.grad is not None
        return leaf.grad

    torch.compiler.reset()
    torch.testing.assert_close(gradient(torch.compile(loss, backend="lamella")), gradient(loss), equal_nan=True)
