"""max and min of f16 and bf16, which kernels find from bits: every number, zeros of both signs, NaN of both, infinities."""

import pytest
import torch
from torch import Tensor

import lamella

INT = torch.int16


def extremes(x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    return x.amax(-1), x.amin(-1), x.amax(0), x.amin(0), x.amax(), x.float().amax(-1)


@pytest.mark.usefixtures("runnable")
@pytest.mark.parametrize("target", ["host", "avx512", "avx2", "baseline"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("count", [1, 5, 32, 77, 300])
def test_extremes(count: int, dtype: torch.dtype, target: str) -> None:
    torch.manual_seed(0)
    x = (torch.randn(40, count) * 3).to(dtype)
    inf, nan = float("inf"), float("nan")
    x[1], x[2], x[3] = -x[1].abs(), x[2].abs(), -inf
    x[4], x[5, 0], x[6, -1], x[7, count // 2] = inf, nan, -inf, inf
    x[8] = -x[8].abs()
    x[8, -1] = torch.tensor(nan, dtype=dtype).view(INT).bitwise_or(-(1 << 15)).view(dtype)
    x[9], x[10] = 0.0, -0.0
    x[11] = torch.finfo(dtype).tiny / 4
    x[12] = -torch.finfo(dtype).tiny / 4
    torch._dynamo.reset()
    f = lamella.compile(extremes, fullgraph=True, options={"target": target, "cache": False, "strict": True})
    # NaN anywhere is that of its column and of all: once with, once without
    for given in (x, x[torch.tensor([i for i in range(40) if i not in (5, 8)])]):
        for result, want in zip(f(given), extremes(given), strict=True):
            assert torch.equal(result.isnan(), want.isnan())
            assert torch.equal(result[~result.isnan()], want[~want.isnan()])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_every_number_against_every_sign(dtype: torch.dtype) -> None:
    """Pairs of each number and one of eight others."""
    every = torch.arange(-(1 << 15), 1 << 15).to(INT).view(dtype)
    others = torch.tensor([0.0, -0.0, 1.0, -1.0, float("inf"), -float("inf"), float("nan"), 1e-6], dtype=dtype)
    x = torch.stack([every[:, None].expand(-1, 8), others.expand(len(every), 8)], -1).reshape(-1, 2)
    torch._dynamo.reset()
    f = lamella.compile(lambda v: (v.amax(-1), v.amin(-1)), fullgraph=True, options={"cache": False, "strict": True})
    for result, want in zip(f(x), (x.amax(-1), x.amin(-1)), strict=True):
        assert torch.equal(result.isnan(), want.isnan())
        assert torch.equal(result[~result.isnan()], want[~want.isnan()])
