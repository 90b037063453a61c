"""Conversions to and from the 8-bit floats, bit for bit as eager's; what moves their elements takes them as they are."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import lamella

FORMATS = (torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz)
BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def same_bits(got: torch.Tensor, want: torch.Tensor) -> None:
    """But for the sign and payload of NaN in wider floats, which nobody promises."""
    assert got.dtype == want.dtype and got.shape == want.shape and got.stride() == want.stride()
    bits = BITS[want.element_size()]
    differs = got.view(bits) != want.view(bits)
    if want.element_size() > 1 and want.is_floating_point():
        differs &= ~(got.isnan() & want.isnan())
    assert not differs.any(), (want.view(bits)[differs][:8], got.view(bits)[differs][:8])


def compiled(f: Callable[..., torch.Tensor], *inputs: torch.Tensor) -> torch.Tensor:
    """What `f` gives when all of it is kernels."""
    torch.compiler.reset()
    (graph,) = lamella.explain(f, *inputs).graphs
    assert not graph.reason and not graph.calls, graph
    return torch.compile(f, backend="lamella", options={"strict": True}, fullgraph=True)(*inputs)


@pytest.mark.parametrize("format", FORMATS, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64, torch.int32], ids=str)
def test_all_values_widened(format: torch.dtype, dtype: torch.dtype) -> None:
    x = torch.arange(256, dtype=torch.uint8).view(format)
    if not dtype.is_floating_point:
        x = torch.linspace(-50, 50, 256).to(format)
    same_bits(compiled(lambda x: x.to(dtype), x), x.to(dtype))


@pytest.mark.parametrize("format", FORMATS, ids=str)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_all_halves_narrowed(format: torch.dtype, dtype: torch.dtype) -> None:
    x = torch.arange(-(1 << 15), 1 << 15, dtype=torch.int32).to(torch.int16).view(dtype)
    same_bits(compiled(lambda x: x.to(format), x), x.to(format))


@pytest.mark.parametrize("format", FORMATS, ids=str)
def test_floats_narrowed(format: torch.dtype) -> None:
    """Every number of the format, what is half way to the next, and their neighbours."""
    own = torch.arange(256, dtype=torch.uint8).view(format).float()
    own = own[own.isfinite()].sort()[0]
    half = torch.cat([own, (own[1:] + own[:-1]) / 2, own * 1.0625, torch.tensor([1e-40, 1e9, -1e9])])
    x = torch.cat([half, torch.nextafter(half, torch.tensor(9e9)), torch.nextafter(half, torch.tensor(-9e9))])
    same_bits(compiled(lambda x: x.to(format), x), x.to(format))
    wide = x.double() * (1 + 2.0**-40)
    same_bits(compiled(lambda x: x.to(format), wide), wide.to(format))


@pytest.mark.parametrize("format", FORMATS, ids=str)
@pytest.mark.parametrize("target", FORMATS, ids=str)
def test_from_one_format_to_another(format: torch.dtype, target: torch.dtype) -> None:
    """Also NaN, which has the sign's bit in some."""
    x = torch.arange(256, dtype=torch.uint8).view(format)
    assert torch.equal(compiled(lambda x: x.to(target), x).view(torch.uint8), x.to(target).view(torch.uint8))


@pytest.mark.parametrize("format", FORMATS, ids=str)
def test_elements_moved(format: torch.dtype) -> None:
    x = torch.randn(4, 6).to(format)
    y = torch.arange(24, dtype=torch.uint8).view(format).reshape(4, 6)

    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.cat([x.t().contiguous(), y.reshape(6, 4)], 1)[1:, ::2].clone()

    same_bits(compiled(f, x, y), f(x, y))
    same_bits(compiled(lambda x: (x.float() * 2).to(format), x), (x.float() * 2).to(format))
