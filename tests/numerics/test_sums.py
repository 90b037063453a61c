"""Long sums of f32 are as near to float64 as eager's, along whichever dims, of known and of unknown sizes."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from xdsl.dialects import arith
from xdsl.ir import SSAValue

import lamella
from lamella.lowering.cascade import block_sizes
from lamella.lowering.target import CpuTarget


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch._dynamo.reset()


ROWS = (48, 20000)
COLUMNS = (20000, 48)
MIDDLE = (4, 16384, 16)
IMAGES = (4, 32, 64, 64)
SHORT = (2, 5000, 32)
"""Summed over the second dim and four of the third at a time: the inner loop is one vector."""


def _sum(x: torch.Tensor, dims: tuple[int, ...]) -> torch.Tensor:
    return x.sum(dims)


def _products(x: torch.Tensor, dims: tuple[int, ...]) -> torch.Tensor:
    return (x * x).sum(dims)


def _groups(x: torch.Tensor) -> torch.Tensor:
    return x.unflatten(-1, (8, 4)).sum((1, 3))


CASES: dict[str, tuple[tuple[int, ...], Callable[[torch.Tensor], torch.Tensor]]] = {
    "rows": (ROWS, partial(_sum, dims=(1,))),
    "products of rows": (ROWS, partial(_products, dims=(1,))),
    "columns": (COLUMNS, partial(_sum, dims=(0,))),
    "products of columns": (COLUMNS, partial(_products, dims=(0,))),
    "middle": (MIDDLE, partial(_sum, dims=(1,))),
    "channels": (IMAGES, partial(_sum, dims=(0, 2, 3))),
    "outer and inner": (IMAGES, partial(_sum, dims=(0, 2))),
    "groups of channels": (SHORT, _groups),
}


def _error(t: torch.Tensor, exact: torch.Tensor) -> float:
    return float((t.double() - exact).square().mean().sqrt())


@pytest.mark.parametrize("dynamic", [False, True], ids=["known", "unknown"])
@pytest.mark.parametrize("name", CASES)
def test_long_sums(name: str, dynamic: bool) -> None:
    """Numbers around 1, whose partial sums grow: what is lost then grows with how many are added one by one."""
    shape, function = CASES[name]
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0)) + 1
    exact = function(x.double())
    compiled = torch.compile(function, backend="lamella", dynamic=dynamic, fullgraph=True)
    assert _error(compiled(x), exact) <= 1.3 * _error(function(x), exact)


@pytest.mark.parametrize("runs", [0, 4, 1], ids=["short runs", "long runs", "whole rows"])
@pytest.mark.parametrize("dynamic", [False, True], ids=["known", "unknown"])
def test_columns_in_strips(dynamic: bool, runs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums of more columns than a line has, of memory that no cache near a core holds, which are added up in strips:
    enough of them for 16 cores.
    """
    monkeypatch.setattr(CpuTarget, "runs", runs)
    for dtype in (torch.float32, torch.float64, torch.int64, torch.bfloat16):
        torch._dynamo.reset()
        compiled = torch.compile(_columns, backend="lamella", dynamic=dynamic, fullgraph=True, options={"cache": False})
        for rows in (600, 640, 333) if dynamic else (600, 640):
            x = (3 * torch.randn((rows, 6000), generator=torch.Generator().manual_seed(rows)) + 1).to(dtype)
            exact = _columns(x.double() if dtype.is_floating_point else x)
            for found, eager, e in zip(compiled(x), _columns(x), exact, strict=True):
                if dtype in (torch.float64, torch.int64):  # there is nothing more exact
                    torch.testing.assert_close(found, e, rtol=1e-14 if dtype.is_floating_point else 0, atol=0)
                else:
                    assert _error(found, e) <= 1.3 * _error(eager, e), (dtype, rows)


def _columns(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return x.sum(0), (x * x - x).sum(0)


@pytest.mark.parametrize("dynamic", [False, True], ids=["known", "unknown"])
@pytest.mark.parametrize("length", [1000, 10000, 65536])
@pytest.mark.parametrize("far", [100.0, 1e4, 1e6])
def test_norms_far_from_zero(far: float, length: int, dynamic: bool) -> None:
    """A mean is hardly further off than its own dtype makes it, however far from zero a row lies."""
    x = torch.randn(4, length, generator=torch.Generator().manual_seed(0)) + far
    exact = F.layer_norm(x.double(), (length,))
    found = torch.compile(_normed, backend="lamella", dynamic=dynamic, fullgraph=True)(x)
    spacing = float(torch.nextafter(torch.tensor(far), torch.tensor(torch.inf))) - far
    assert (found - exact).abs().max() <= 0.7 * spacing + 2e-6


def _normed(x: torch.Tensor) -> torch.Tensor:
    return F.layer_norm(x, x.shape[-1:])


def test_norms_of_equals() -> None:
    """What is taken from a sum of squares leaves no negative one, and infinity as it is."""
    x = torch.tensor([1.234e10, 0.1, 1e6 + 0.25, -3e37, 1e30, math.inf, math.nan])[:, None].repeat(1, 1000)
    x[4, ::2] = 0.0
    spread = torch.compile(lambda x: torch.native_layer_norm(x, (1000,), None, None, 0.0), backend="lamella")(x)[2]
    assert not spread[:5].isnan().any() and spread[4].item() == 0 and spread[5:].isnan().all()


def test_channels_last_backward() -> None:
    """The gradient of a group norm, whose groups are four neighbours in memory: what its sums lose, all of it has."""
    generator = torch.Generator().manual_seed(0)
    x, grad = (torch.randn(2, 32, 32, 32, generator=generator) + 1 for _ in range(2))
    x, grad = (t.contiguous(memory_format=torch.channels_last) for t in (x, grad))
    weight, bias = torch.randn(32, generator=generator), torch.randn(32, generator=generator)

    def gradient(function: Callable[..., torch.Tensor], dtype: torch.dtype) -> torch.Tensor:
        leaves = [t.to(dtype).requires_grad_() for t in (x, weight, bias)]
        found = torch.autograd.grad(function(*leaves), leaves, grad.to(dtype))
        return torch.cat([found[0].sum((0, 2, 3)), *found[1:]])

    def norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.group_norm(x, 8, weight, bias)

    exact = gradient(norm, torch.float64)
    compiled = torch.compile(norm, backend="lamella", fullgraph=True)
    assert _error(gradient(compiled, torch.float32), exact) <= 1.3 * _error(gradient(norm, torch.float32), exact)


def test_blocks() -> None:
    """Partial sums have at most a block of terms, whatever stands inside a loop."""
    assert block_sizes(0, 16, 1, 1, 16) == []
    assert block_sizes(0, 17, 1, 1, 16) == [16]
    assert block_sizes(0, 4096, 1, 1, 16) == [256, 16]
    assert block_sizes(0, 4096, 64, 1, 16) == [1024]
    assert block_sizes(0, 100, 1, 4, 16) == [64, 4]
    assert block_sizes(SSAValue.get(arith.ConstantOp.from_int_and_width(0, 64)), 256, 1, 1, 16, 256) == [16]
    assert block_sizes(0, 16, 1, 1000, 16) == []
    assert block_sizes(0, 32, 1, None, 16) == [16]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int32], ids=str)
@pytest.mark.parametrize("shape", [(4096, 1024), (1031, 2100), (16384, 600)], ids=str)
def test_long_columns(shape: tuple[int, int], dtype: torch.dtype) -> None:
    """Strips of rows leave nothing out, and are no less exact."""
    x = (torch.randn(shape, generator=torch.Generator().manual_seed(0)) * 100).to(dtype)
    torch._dynamo.reset()
    got, expected = lamella.compile(lambda v: v.sum(0) + 1, fullgraph=True)(x), x.sum(0) + 1
    if not dtype.is_floating_point:
        assert torch.equal(got, expected)
        return
    errors = [float((v.double() - (x.double().sum(0) + 1)).square().mean().sqrt()) for v in (got, expected)]
    assert errors[0] <= 1.5 * errors[1]
