"""Networks of convolutions whose images are kept channels last give what eager gives, in the layout that eager gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import lamella


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch._dynamo.reset()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()


class Residual(nn.Module):
    """As in ResNet: two branches, batch norm, pooling, a linear layer at the end."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.norm = nn.Conv2d(3, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16)
        self.a, self.b, self.short = nn.Conv2d(16, 16, 3, 1, 1), nn.Conv2d(16, 32, 1), nn.Conv2d(16, 32, 1)
        self.last, self.head = nn.BatchNorm2d(32), nn.Linear(32, 5)

    def forward(self, x: torch.Tensor) -> Any:
        x = F.max_pool2d(self.norm(self.stem(x)).relu(), 3, 2, 1)
        y = self.last(self.b(self.a(x).relu()))
        y = (y + self.short(x)).relu()
        return y, self.head(F.adaptive_avg_pool2d(y, 1).flatten(1))


class Squeezed(nn.Module):
    """As in MobileNet: depthwise convolutions, gates per channel, branches of other layouts."""

    def __init__(self) -> None:
        super().__init__()
        self.expand, self.depth = nn.Conv2d(4, 24, 1), nn.Conv2d(24, 24, 5, 2, 2, groups=24)
        self.down, self.up, self.project = nn.Conv2d(24, 6, 1), nn.Conv2d(6, 24, 1), nn.Conv2d(24, 8, 1)
        self.up2 = nn.Conv2d(8, 8, 3, 1, 1)

    def forward(self, x: torch.Tensor) -> Any:
        y = F.hardswish(self.depth(F.silu(self.expand(x))))
        gate = self.up(self.down(y.mean((2, 3), keepdim=True)).relu()).sigmoid()
        y = self.project(y * gate)
        z = F.interpolate(torch.cat([y, y * 2], 1)[:, 4:12], scale_factor=2)
        return self.up2(z), y.flatten(2).transpose(1, 2), y.permute(0, 2, 3, 1)


def check(model: nn.Module, x: torch.Tensor, compiled: Callable[..., Any], tolerance: float = 1e-5) -> None:
    with torch.no_grad():
        for got, expected in zip(compiled(x), model(x), strict=True):
            torch.testing.assert_close(got, expected, rtol=tolerance, atol=tolerance, equal_nan=True)
            assert got.stride() == expected.stride()


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last], ids=["nchw", "nhwc"])
@pytest.mark.parametrize(("kind", "channels"), [(Residual, 3), (Squeezed, 4)])
def test_networks(kind: type[nn.Module], channels: int, layout: torch.memory_format) -> None:
    model = kind().eval()
    compiled = lamella.compile(model, fullgraph=True)
    x = torch.randn(2, channels, 24, 32).to(memory_format=layout)
    check(model, x, compiled)
    x[0, 1, 3, 4], x[1, 2, 7, 9] = torch.nan, torch.inf
    check(model, x, compiled)


def test_sizes_that_change() -> None:
    model = Residual().eval()
    compiled = lamella.compile(model, dynamic=True)
    for shape in ((2, 3, 24, 32), (3, 3, 40, 24), (1, 3, 16, 16)):
        check(model, torch.randn(shape), compiled)


def test_bfloat16() -> None:
    model = Squeezed().eval().bfloat16()
    check(model, torch.randn(2, 4, 24, 32, dtype=torch.bfloat16), lamella.compile(model), 3e-2)


def test_training() -> None:
    model, other = Residual(), Residual()
    other.load_state_dict(model.state_dict())
    x = torch.randn(4, 3, 24, 32)
    compiled = lamella.compile(model)
    for f, m in ((compiled, model), (other, other)):
        y, z = f(x)
        (y.square().mean() + z.sum()).backward()
        assert m.stem.weight.grad is not None
    for p, q in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(p.grad, q.grad, rtol=1e-4, atol=1e-4)
