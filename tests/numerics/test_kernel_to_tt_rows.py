"""What GPU kernels make of rows where order matters: running extremes of equals, and norms far from zero."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from . import test_kernel_to_tt as kernels
from .test_kernel_to_tt_halves import on_gpu


@pytest.mark.parametrize("shape", [(5, 70), (70, 5), (2, 9000)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_running_extremes_of_equals(shape: tuple[int, int], dtype: torch.dtype) -> None:
    """The last of equals stands: its sign where it is zero, and its place; NaN from the first on."""
    torch.manual_seed(0)
    x = torch.tensor([0.0, -0.0, -1.0])[torch.randint(3, shape)].to(dtype)
    x[-1, -3] = torch.nan

    def running(x: Tensor) -> tuple[Tensor, ...]:
        extremes = (*x.cummax(1), *(-x).cummin(1), *x.cummax(0))
        return (*extremes, *(e.signbit() & (e == e) for e in extremes[::2]))

    module = on_gpu(running, x)
    for found, expected in zip(kernels.Program(module, [x]).results, running(x), strict=True):
        torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("shape", [(2, 5000), (1, 200_000)], ids=["rows at hand", "in parts"])
def test_norms_far_from_zero(shape: tuple[int, int]) -> None:
    """A mean is hardly further off than its own dtype makes it."""
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0)) + 1e6
    exact = F.layer_norm(x.double(), shape[1:])
    module = on_gpu(lambda x: F.layer_norm(x, x.shape[1:]), x)
    (found,) = kernels.Program(module, [x]).results
    assert (found - exact).abs().max() <= 0.7 / 16
