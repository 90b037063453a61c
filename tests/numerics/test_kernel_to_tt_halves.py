"""What a GPU computes for results of f16 and bf16, which need not be exact to 24 bits, is as near as eager."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from lamella.dialects import tt
from lamella.frontend.capture import capture

from . import test_kernel_to_tt as kernels


def on_gpu(program: Callable[[Tensor], Any], x: Tensor) -> Any:
    """The module of GPU kernels that a function becomes."""
    return kernels.on_gpu(capture(program, x).module, f"aten,prims,loop,{kernels.FROM_LOOP}")


def run(program: Callable[[Tensor], Any], x: Tensor) -> Tensor:
    """Its only result, by the interpreter."""
    (found,) = kernels.Program(on_gpu(program, x), [x]).results
    return found


ROUNDED: dict[str, Callable[[Tensor], Tensor]] = {
    "exp": lambda x: x.exp(),
    "erf": lambda x: x.erf(),
    "gelu": lambda x: F.gelu(x),
    "gelu by tanh": lambda x: F.gelu(x, approximate="tanh"),
    "tanh": lambda x: x.tanh(),
    "silu": lambda x: F.silu(x),
    "quotients": lambda x: 1 / x + x.sigmoid(),
    "softmax": lambda x: x.reshape(-1, 8).softmax(-1),
    "long softmax": lambda x: x[:5].repeat(8000).softmax(-1),
    "two softmax": lambda x: x.reshape(-1, 8).softmax(-1) * x.reshape(-1, 8).neg().softmax(-1),
    "shares": lambda x: x.reshape(-1, 8) / x.reshape(-1, 8).abs().amax(-1, keepdim=True),
}
"""Of which results of 8 or 11 bits are made, so that they need not be exact."""

EXACT: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": lambda x: 0.5 * x * (-x * 0.5**0.5).erfc(),
    "gelu by tanh": lambda x: x * ((x + 0.044715 * x**3) * (8 / torch.pi) ** 0.5).sigmoid(),
}
"""Those whose definition cancels what their tail is made of, in f64 too."""


def off(found: Tensor, exact: Tensor, eager: Tensor) -> Tensor:
    """How many units results are further off than f32 rounded to their dtype, or eager, of finite numbers."""
    limits = torch.finfo(found.dtype)
    unit = limits.eps * exact.abs().clamp(min=limits.tiny)
    finite = exact.isfinite() & (exact.abs() < limits.max)
    ours, theirs = ((y.double() - exact).abs()[finite] / unit[finite] for y in (found, eager))
    return ours - theirs.clamp(min=0.52)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", EXACT)
def test_every_number(name: str, dtype: torch.dtype) -> None:
    x = torch.arange(1 << 16).to(torch.int16).view(dtype)
    x = x[x.isfinite()]
    program = ROUNDED[name]
    assert off(run(program, x), EXACT[name](x.double()), program(x)).max() <= 0


EVERYWHERE: list[Callable[[Tensor], Tensor]] = [
    torch.exp, torch.expm1, torch.exp2, torch.log, torch.log2, torch.log1p, torch.sin, torch.cos, torch.tanh, torch.sinh,
    torch.cosh, torch.asinh, torch.acosh, torch.atanh, torch.erf, torch.rsqrt, torch.sigmoid, torch.lgamma, F.silu,
    torch.digamma, F.softplus, F.mish, F.elu, lambda x: x**2, lambda x: x**-1, lambda x: x**1.7, lambda x: 2.0**x,
]  # fmt: skip
"""Functions that float64 has exactly enough, and of which kernels compute some in f32 and approximate some."""


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_functions_of_every_number(dtype: torch.dtype) -> None:
    """Rounded once, or as near as eager; NaN where it is."""
    x = torch.arange(1 << 16).to(torch.int16).view(dtype)
    found = kernels.Program(on_gpu(lambda x: tuple(f(x) for f in EVERYWHERE), x), [x]).results
    for f, y in zip(EVERYWHERE, found, strict=True):
        assert torch.equal(y.isnan(), f(x).isnan()), f
        assert off(y, f(x.double()), f(x)).nan_to_num().max() <= 0, f


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", ROUNDED)
def test_rounded(name: str, dtype: torch.dtype) -> None:
    """As near as f32 rounded to the result is, or as eager: small and large values, infinities and NaN included."""
    inf = float("inf")
    tiny = [torch.finfo(dtype).tiny * 2.0**k for k in (-6, -3, 0, 1, 5, 12)]
    special = [0.0, -0.0, 1.0, -1.0, inf, -inf, float("nan"), 1e-4, -1e-4, 9.0, -5.5, 88.0, -90.0, 6e4, -6e4, 0.0078]
    x = torch.tensor([*tiny, *special, 1e-3, 0.7], dtype=dtype)
    x = torch.cat([x, *(kernels.normal(504).to(dtype) * 2.0**k for k in (-9, -3, 0, 2))])
    program = ROUNDED[name]
    found = run(program, x)
    exact = EXACT.get(name, program)(x.double())
    assert torch.equal(found.isnan(), exact.isnan())
    assert off(found, exact, program(x)).max() <= 0


def test_softmax_of_the_largest_numbers() -> None:
    """Where log2(e) times the largest value would be infinite, and next to it."""
    most, inf = torch.finfo(torch.bfloat16).max, float("inf")
    rows = [[most, most, -most, 0], [2.0**126, 2.0**126 * 0.99, 1, -1], [-most, -most, -inf, -most], [2.5e38, 2.4e38, 2.5e38, 7],
            [most, inf, 0, 0], [8.4e37, 8.5e37, 8.5e37, 0], [-inf, -inf, -inf, -inf], [1, 2, float("nan"), 3]]  # fmt: skip
    x = torch.tensor(rows, dtype=torch.bfloat16)
    program = lambda x: x.softmax(-1)  # noqa: E731
    found = run(program, x)
    torch.testing.assert_close(found, program(x), equal_nan=True, rtol=0, atol=0)


def test_a_softmax_is_seen() -> None:
    """Of halves exponentials are one instruction, whether they are kept or computed again; not of f32, and not where
    they are read by themselves.
    """

    def symbols(program: Callable[[Tensor], Any], x: Tensor) -> set[str]:
        module = on_gpu(program, x)
        return {o.symbol.data for o in module.walk() if isinstance(o, tt.ExternElementwiseOp)}

    fast = {"__nv_fmaf", "llvm.nvvm.ex2.approx.ftz.f"}
    for columns in (64, 20000):
        x = torch.empty(1024, columns, dtype=torch.bfloat16)
        assert symbols(lambda x: x.softmax(-1), x) == fast
        assert not symbols(lambda x: x.softmax(-1), x.float()) & fast
        assert not symbols(lambda x: (x - x.amax(-1, keepdim=True)).exp().cumsum(-1), x) & fast
