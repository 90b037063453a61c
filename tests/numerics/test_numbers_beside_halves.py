"""Numbers, tensors of one element and integers beside f16 and bf16: where eager makes halves of them before anything
else, a number that no half is gives another result than the half next to it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

HALVES = [torch.float16, torch.bfloat16]
_foreach_add: Callable[..., Any] = vars(torch)["_foreach_add"]
NUMBERS = [0.1, 0.3, -0.7, 2049, 257, 1e5, 2**31, -(2**63), 1e39, -math.inf, 1e-8, 0, 3]

BESIDE: dict[str, Callable[[Tensor, float], Tensor]] = {
    "add": lambda x, v: x + v,
    "sub": lambda x, v: x - v,
    "rsub": lambda x, v: v - x,
    "mul": lambda x, v: x * v,
    "power of a number": lambda x, v: abs(v) ** x,
    "add of an element": lambda x, v: torch.tensor(v) + x,
    "mul of an element": lambda x, v: torch.tensor(v) * x,
    "foreach": lambda x, v: _foreach_add([x], v)[0],
}


def compiled(f: Callable[..., list[Tensor]], *args: Tensor) -> list[Tensor]:
    torch._dynamo.reset()
    return torch.compile(f, backend="lamella", fullgraph=True, options={"cache": False, "strict": True})(*args)


def inputs(dtype: torch.dtype) -> Tensor:
    """Vectors only, as eager rounds what is left over otherwise."""
    torch.manual_seed(0)
    ends = torch.tensor([0.0, -0.0, 1.0, -1.0, 2.0, -2.0, math.inf, -math.inf, math.nan, 65504.0, -65504.0, 0.5])
    return torch.cat([ends, torch.randn(58), torch.randn(58) * 100]).to(dtype)


def assert_equal(found: list[Tensor], expected: list[Tensor], names: list[float]) -> None:
    """The same bits, of all but NaN."""
    for a, b, name in zip(found, expected, names, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=0, equal_nan=True, msg=lambda m, n=name: f"{n}: {m}")
        assert torch.equal(a.signbit()[~a.isnan()], b.signbit()[~b.isnan()]), name


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("name", BESIDE)
def test_numbers_are_halves_first(name: str, dtype: torch.dtype) -> None:
    f, x = BESIDE[name], inputs(dtype)

    def program(x: Tensor) -> list[Tensor]:
        return [f(x, v) for v in NUMBERS]

    if name == "power of a number":
        for found, expected in zip(compiled(program, x), program(x), strict=True):
            torch.testing.assert_close(found, expected, equal_nan=True)
    else:
        assert_equal(compiled(program, x), program(x), NUMBERS)


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_exponents_are_halves_first(dtype: torch.dtype) -> None:
    """2049 is even as a half, and the least numbers are 0."""
    exponents = [2049, 257, -0.7, 1e-8, 1e-45, 3, 2]
    x = inputs(dtype)

    def powers(x: Tensor) -> list[Tensor]:
        return [x**e for e in exponents]

    for found, expected in zip(compiled(powers, x), powers(x), strict=True):
        torch.testing.assert_close(found, expected, equal_nan=True)
        known = ~expected.isnan()
        assert torch.equal(found.signbit()[known], expected.signbit()[known])


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_logarithms_of_numbers_that_are_infinite_halves(dtype: torch.dtype) -> None:
    """Also those of clamped probabilities: a limit that is 0 as a half does not clamp."""
    numbers = [2**31, 1e5, 1e39, 1e-8, 0.1]

    def logarithms(x: Tensor) -> list[Tensor]:
        return [
            *(torch.xlogy(x, v) for v in numbers),
            *(torch.xlogy(v, x) for v in numbers),
            *(torch.special.xlog1py(x, v) for v in numbers),
            *(torch.logit(x, v) for v in (1e-8, 1e-45, 0.3)),
        ]

    x = inputs(dtype)
    rtol = 2 * torch.finfo(dtype).eps
    for found, expected in zip(compiled(logarithms, x), logarithms(x), strict=True):
        torch.testing.assert_close(found, expected, rtol=rtol, atol=0.02, equal_nan=True)


@pytest.mark.parametrize("dtype", [*HALVES, torch.float32, torch.int64], ids=str)
def test_a_factor_of_what_is_added(dtype: torch.dtype) -> None:
    """0 times infinity is NaN, 0 of integers has no sign, and the least of 64 digits is its own negative."""
    factors = [0, 2, 3, 2049] if dtype in (torch.float16, torch.int64) else [0, 2, 3, -(2**63)]
    numbers = [2, -0.0, 1e5] if dtype.is_floating_point else [2, 7]
    x = inputs(dtype) if dtype.is_floating_point else torch.arange(-64, 64)
    x = x.clamp(-1e30, 1e30) if dtype in (torch.bfloat16, torch.float32) else x

    def sums(x: Tensor) -> list[Tensor]:
        operations = (torch.add, torch.sub, torch.rsub)
        return [f(x, other, alpha=a) for f in operations for a in factors for other in (x, *numbers)]

    rtol, atol = (2e-7, 1e-6) if dtype is torch.float32 else (0, 0)  # that eager may round twice
    for found, expected in zip(compiled(sums, x), sums(x), strict=True):
        torch.testing.assert_close(found, expected, rtol=rtol, atol=atol, equal_nan=True)
        if dtype.is_floating_point:
            assert torch.equal(found.signbit()[~found.isnan()], expected.signbit()[~expected.isnan()])


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_integers_are_halves_first(dtype: torch.dtype) -> None:
    """All but the one element of a second factor."""
    x, n = inputs(dtype), torch.arange(128) * 37 - 1000

    def f(x: Tensor, n: Tensor) -> list[Tensor]:
        return [x * n, n * x, x + n, n - x, x * n[:1] * 1, x * n[5], torch.atan2(x, n)]

    found, expected = compiled(f, x, n), f(x, n)
    assert_equal(found[:-1], expected[:-1], list(range(len(found) - 1)))
    torch.testing.assert_close(found[-1], expected[-1], equal_nan=True)
