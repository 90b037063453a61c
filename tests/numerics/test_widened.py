"""Halves on machines whose libraries have no instructions for them: no further from the exact result than eager is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from lamella.codegen.target import CpuTarget
from lamella.driver import explain

TARGET = "avx512" if CpuTarget.host().has_avx512 else "avx2"
WITHOUT: dict[str, Any] = {"target": TARGET, "strict": True}
"""A machine without instructions for halves."""

HALVES = pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])


def check(f: Callable[..., Tensor], args: Sequence[Tensor], gradients: bool = False) -> None:
    """The result, and the gradients of all arguments, have eager's types and strides and at most its error."""
    torch._dynamo.reset()
    compiled = torch.compile(f, backend="lamella", options=WITHOUT)
    seed = torch.randn(f(*args).shape)

    def run(function: Callable[..., Tensor], dtype: torch.dtype) -> list[Tensor]:
        given = [a.to(dtype).detach().requires_grad_(gradients) for a in args]
        result = function(*given)
        if not gradients:
            return [result]
        return [result, *torch.autograd.grad(result, given, seed.to(args[0].dtype).to(dtype))]

    dtype = args[0].dtype
    for g, e, right in zip(run(compiled, dtype), run(f, dtype), run(f, torch.float64), strict=True):
        assert g.dtype == e.dtype and g.shape == e.shape and g.stride() == e.stride()
        if g.numel():
            allowed = 1.2 * (e - right).abs().max() + torch.finfo(dtype).eps * right.abs().max()
            assert (g - right).abs().max() <= allowed


def made(*shape: int, dtype: torch.dtype) -> Tensor:
    return (torch.randn(shape) / shape[-1] ** 0.25).to(dtype)


@HALVES
@pytest.mark.parametrize("gradients", [False, True])
@pytest.mark.parametrize("layout", ["kk", "kn", "mk", "mn"])
def test_products(dtype: torch.dtype, layout: str, gradients: bool) -> None:
    torch.manual_seed(0)
    x = made(200, 256, dtype=dtype) if layout[0] == "k" else made(256, 200, dtype=dtype).t()
    w = made(256, 300, dtype=dtype) if layout[1] == "n" else made(300, 256, dtype=dtype).t()
    b = made(300, dtype=dtype)
    check(lambda b, x, w: torch.tanh(torch.addmm(b, x, w, beta=0.5, alpha=2)), (b, x, w), gradients)
    check(lambda x, w: x @ w, (x, w), gradients)


@HALVES
def test_of_any_layout_and_in_layers(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    parts = made(203, 2 * 259, dtype=dtype)[3:, 2 : 2 * 257 : 2]
    rows = made(1, 256, dtype=dtype).expand(200, 256)
    check(lambda x, y, w: (x + y) @ w + y @ w, (parts, rows, made(256, 200, dtype=dtype)))
    x, w, v = made(2, 100, 256, dtype=dtype), made(512, 256, dtype=dtype), made(256, 512, dtype=dtype)
    check(lambda x, w, v: x + F.linear(F.gelu(F.linear(x, w)), v), (x, w, v), gradients=True)


@HALVES
def test_batches(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    x, y, c = (made(*s, dtype=dtype) for s in ((3, 200, 192), (3, 192, 256), (3, 200, 256)))
    check(lambda c, x, y: torch.baddbmm(c, x, y, beta=2.0, alpha=0.5), (c, x, y), gradients=True)
    check(lambda x, y: (x @ y).relu(), (x, y))


@HALVES
@pytest.mark.parametrize("groups,last", [(1, False), (1, True), (4, False)])
def test_convolutions(dtype: torch.dtype, groups: int, last: bool) -> None:
    torch.manual_seed(0)
    x, w, b = made(2, 16, 19, 17, dtype=dtype), made(32, 16 // groups, 3, 3, dtype=dtype), made(32, dtype=dtype)
    x = x.to(memory_format=torch.channels_last) if last else x
    check(lambda x, w, b: F.conv2d(x, w, b, stride=2, padding=1, groups=groups).relu(), (x, w, b), gradients=True)
    check(lambda x, w: F.conv_transpose2d(x, w, stride=2), (x, made(16, 8, 3, 3, dtype=dtype)), gradients=True)


@HALVES
@pytest.mark.parametrize("causal", [False, True])
def test_attention(dtype: torch.dtype, causal: bool) -> None:
    torch.manual_seed(0)
    q, k, v = (made(2, 4, n, 48, dtype=dtype) for n in (70, 90, 90))
    check(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=causal), (q, k, v))


def test_what_is_not_finite_and_what_is_empty() -> None:
    torch.manual_seed(0)
    x, w = made(200, 256, dtype=torch.bfloat16), made(256, 200, dtype=torch.bfloat16)
    x[2, 7], w[5, 3] = float("nan"), float("-inf")
    torch._dynamo.reset()
    compiled = torch.compile(torch.mm, backend="lamella", options=WITHOUT, dynamic=True)
    for rows in (200, 0, 130):
        got, eager = compiled(x[:rows], w), torch.mm(x[:rows], w)
        assert torch.equal(got.isnan(), eager.isnan()) and torch.equal(got.isinf(), eager.isinf())


def test_it_is_told() -> None:
    x = torch.ones(200, 256, dtype=torch.bfloat16)
    told = "\n".join(explain(lambda x: x @ x.t(), x, options={"target": TARGET}).graphs[0].decisions)
    assert "in f32, the library has instructions for f32 alone there" in told


@HALVES
@pytest.mark.parametrize("bias", [False, True])
def test_gradients_of_a_weight_larger_than_its_images(dtype: torch.dtype, bias: bool) -> None:
    """A part of the channels that it takes at a time, but where there is a bias."""

    def f(x: Tensor, w: Tensor, u: Tensor, v: Tensor, *b: Tensor) -> Tensor:
        h = torch.relu(F.conv2d(torch.relu(F.conv2d(x, w, padding=1)), u, padding=1))
        return F.conv2d(h, v, *b, padding=1)

    shapes = ((2, 16, 7, 7), (512, 16, 3, 3), (512, 512, 3, 3), (384, 512, 3, 3), *([(384,)] if bias else []))
    check(f, [torch.randn(s, dtype=torch.float64).to(dtype) / max(s[1:], default=1) for s in shapes], gradients=True)
