"""What is looked for, counted or picked by value natively against eager."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from lamella.tools.op_check import check_call


def numbers(count: int, dtype: torch.dtype, seed: int) -> Tensor:
    """Numbers of which many are equal; floats with NaN, infinity and zeros of both signs."""
    x = (torch.randn(count, generator=torch.Generator().manual_seed(seed)) * 40).round().to(dtype)
    if dtype.is_floating_point:
        x[:4] = torch.tensor([torch.nan, torch.inf, -0.0 if seed else 0.0, -1.0])
    return x


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64, torch.int64, torch.uint8], ids=str)
@pytest.mark.parametrize("count", [5, 32, 33, 500])
def test_isin(dtype: torch.dtype, count: int) -> None:
    x, among = numbers(90, dtype, 0).reshape(9, 10), numbers(count, dtype, 1)
    for invert in (False, True):
        assert check_call(torch.isin, (x, among), {"invert": invert}, verify=False) == []
    assert check_call(torch.isin, (x[0, 3], among), verify=False) == []


@pytest.mark.parametrize("mode", ["forward", "dynamic"])
@pytest.mark.parametrize("size", [1, 7, 200])
def test_nonzero_static(size: int, mode: str) -> None:
    generator = torch.Generator().manual_seed(0)
    for x in (
        torch.rand(5, 7, generator=generator) > 0.6,
        torch.randint(0, 3, (40,), generator=generator),
        torch.randn(3, 4, 5, generator=generator).relu(),
        torch.zeros(4, 4),
        torch.tensor([[torch.nan, -0.0]]),
    ):
        keywords = {"size": size, "fill_value": -7}
        assert check_call(torch.nonzero_static, (x,), keywords, mode, verify=False) == []


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("parts", [(10, -1, 1), (100, -2, 2.5), (7, 0, 1), (64, -40.0, 40.0)])
def test_histc(dtype: torch.dtype, parts: tuple[int, float, float]) -> None:
    edges = torch.linspace(parts[1], parts[2], parts[0] + 1, dtype=dtype)
    x = torch.cat([numbers(300, dtype, 0), torch.randn(3000, dtype=dtype), edges])
    assert check_call(torch.histc, (x, *parts), verify=False) == []
