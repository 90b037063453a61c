"""Convolutions that are kernels, against float64: windows, strides, groups, the other way, derivatives, layouts."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import lamella
from lamella.lowering.target import CpuTarget

FORWARD: Any = (None, F.conv1d, F.conv2d, F.conv3d)
BACK: Any = (None, F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)
STRICT: dict[str, Any] = {"strict": True}


def check(f: Any, args: tuple[Tensor, ...], native: bool = True) -> None:
    """As close to float64 as eager is, twice, and without a call of ATen."""
    torch._dynamo.reset()
    exact, eager = f(*(a.double() for a in args)), f(*args)
    got = torch.compile(f, backend="lamella", options=STRICT)(*args)
    assert got.dtype == eager.dtype and got.shape == eager.shape and got.stride() == eager.stride()
    known = exact.isfinite()
    torch.testing.assert_close(got.double()[~known], exact[~known], equal_nan=True)
    right, g, e = exact[known], got.double()[known], eager.double()[known]
    if right.numel():
        allowed = 2 * (e - right).abs().max() + 2 * torch.finfo(eager.dtype).eps * right.abs().max()
        assert (g - right).abs().max() <= allowed
    calls = [c.name for graph in lamella.explain(f, *args).graphs for c in graph.calls]
    assert (calls == []) is native, calls


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("stride,padding,dilation,groups", [(1, 0, 1, 1), (2, 1, 1, 2), (3, 2, 2, 4), (1, 1, 2, 1)])
def test_small(n: int, stride: int, padding: int, dilation: int, groups: int) -> None:
    torch.manual_seed(0)
    x, w, b = torch.randn(2, 4, *[(7, 6, 4)[n - 1]] * n), torch.randn(4, 4 // groups, *[2] * n), torch.randn(4)
    check(lambda x, w, b: torch.relu(FORWARD[n](x, w, b, stride, padding, dilation, groups)), (x[:, :, 1:], w, b))


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("stride,padding,dilation,groups", [(1, 0, 1, 1), (2, 1, 1, 2), (3, 2, 2, 4), (1, 2, 1, 1)])
def test_the_other_way(n: int, stride: int, padding: int, dilation: int, groups: int) -> None:
    torch.manual_seed(0)
    x, w, b = torch.randn(2, 4, *[4] * n), torch.randn(4, 2, *[3] * n), torch.randn(2 * groups)
    more = stride - 1
    check(lambda x, w, b: BACK[n](x, w, b, stride, padding, more, groups, dilation), (x, w, b))


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("stride,padding,dilation,groups", [(1, 0, 1, 1), (2, 1, 1, 2), (3, 2, 2, 4)])
def test_derivatives(transposed: bool, stride: int, padding: int, dilation: int, groups: int) -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)
    x = torch.randn(2, 4, 7, requires_grad=True)
    w = torch.randn(4, 2 if transposed else 4 // groups, 3, requires_grad=True)
    b = torch.randn(2 * groups if transposed else 4, requires_grad=True)

    def f(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
        if transposed:
            return F.conv_transpose1d(x, w, b, stride, padding, stride - 1, groups, dilation)
        return F.conv1d(x, w, b, stride, padding, dilation, groups)

    exact = f(x.double(), w.double(), b.double())
    weights = torch.randn_like(exact)
    got = torch.compile(f, backend="lamella", options=STRICT)(x, w, b)
    wanted = torch.autograd.grad(exact, (x, w, b), weights)
    found = torch.autograd.grad(got, (x, w, b), weights.float())
    for g, e in zip((got, *found), (exact, *wanted), strict=True):
        torch.testing.assert_close(g.double(), e.double(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("size,kernel,stride", [((56, 56), 3, 1), ((35, 33), 3, 2), ((40, 64), 5, 1), ((300,), 9, 1)])
def test_depthwise(dtype: torch.dtype, channels_last: bool, size: tuple[int, ...], kernel: int, stride: int) -> None:
    torch.manual_seed(0)
    n = len(size)
    if channels_last and n != 2:
        pytest.skip("images only")
    x, w, b = torch.randn(2, 36, *size), torch.randn(36, 1, *[kernel] * n), torch.randn(36)
    x[0, 3, 5], x[1, 4, 0] = float("nan"), float("inf")
    args = tuple(t.to(dtype) for t in (x, w, b))
    if channels_last:
        args = (args[0].to(memory_format=torch.channels_last), *args[1:])
    # rows of 17 points are too short for two steps; bf16 along the channels is oneDNN's where it has instructions
    library = channels_last and dtype == torch.bfloat16 and CpuTarget.host().multiplies("bf16")
    native = not library and (channels_last or stride == 1)
    check(lambda x, w, b: F.relu(F.conv2d(x, w, b, stride, kernel // 2, 1, 36) if n == 2 else
                                 F.conv1d(x, w, b, stride, kernel // 2, 1, 36)), args, native)  # fmt: skip


def test_large_ones_stay_calls() -> None:
    torch.manual_seed(0)
    check(F.conv2d, (torch.randn(1, 16, 32, 32), torch.randn(16, 16, 3, 3)), native=False)


def test_sizes_that_change() -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)
    f = torch.compile(lambda x, w: F.conv1d(x, w, padding=1), backend="lamella", options=STRICT, dynamic=True)
    for batch, size in ((2, 5), (3, 9), (7, 40)):
        x, w = torch.randn(batch, 3, size), torch.randn(4, 3, 3)
        torch.testing.assert_close(f(x, w), F.conv1d(x, w, padding=1), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("last", [False, True])
def test_depthwise_with_vectors_of_256_bits(dtype: torch.dtype, last: bool) -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)
    x, w = torch.randn(1, 40, 35, 35).to(dtype), torch.randn(40, 1, 3, 3).to(dtype)
    x = x.to(memory_format=torch.channels_last) if last else x

    def f(x: Tensor, w: Tensor) -> Tensor:
        return torch.relu(F.conv2d(x, w, None, 1, 1, 1, 40))

    exact, eager = f(x.double(), w.double()), f(x, w)
    got = torch.compile(f, backend="lamella", options={**STRICT, "target": "avx2"})(x, w)
    assert got.stride() == eager.stride()
    allowed = 2 * (eager.double() - exact).abs().max() + 2 * torch.finfo(dtype).eps * exact.abs().max()
    assert (got.double() - exact).abs().max() <= allowed
