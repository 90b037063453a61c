"""The native functions with loops: polynomials as ATen's bit for bit, gamma functions against series of many digits."""

from __future__ import annotations

import ctypes
import math
import random
from typing import Any

import mpmath
import pytest
import torch
from torch import special

from lamella.codegen.special_runtime import PREFIX
from lamella.codegen.special_runtime import special as functions
from lamella.codegen.target import CpuTarget

POLYNOMIALS = {
    "hermite_h": special.hermite_polynomial_h,
    "hermite_he": special.hermite_polynomial_he,
    "laguerre": special.laguerre_polynomial_l,
    "legendre": special.legendre_polynomial_p,
}
TYPES = {torch.float64: ("", ctypes.c_double), torch.float32: ("f", ctypes.c_float)}
INF, NAN = math.inf, math.nan


def function(name: str, dtype: torch.dtype = torch.float64) -> Any:
    end, t = TYPES[dtype]
    return ctypes.CFUNCTYPE(t, t, t)(functions()[f"{PREFIX}{name}{end}"])


@pytest.mark.skipif(not CpuTarget.host().has_fma, reason="ATen's own code multiplies and adds in one step")
@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("name", POLYNOMIALS)
def test_polynomials(name: str, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    places = [*(torch.randn(40, generator=generator) * 2).tolist(), 0.0, -0.0, 1.0, -1.0, INF, -INF]
    orders = [*range(-2, 30), 2.7, -0.5, 127.0, 128.0, 129.0, 512.0, 513.0, NAN, -INF]
    if name.startswith("hermite"):  # the others take as many steps
        orders += [1e30, INF]
    x, n = torch.cartesian_prod(torch.tensor(places, dtype=dtype), torch.tensor(orders, dtype=dtype)).unbind(1)
    f = function(name, dtype)
    found = torch.tensor([f(*pair) for pair in zip(x.tolist(), n.tolist(), strict=True)], dtype=dtype)
    torch.testing.assert_close(found, POLYNOMIALS[name](x, n), rtol=0, atol=0, equal_nan=True)


def shares(a: float, x: float) -> tuple[Any, Any]:
    """P and Q by the power series of P, with as many digits as it takes."""
    digits = 60 + int(x / 2.3)
    with mpmath.workdps(digits):
        term = total = mpmath.mpf(1)
        r, y = mpmath.mpf(a), mpmath.mpf(x)
        while term > total * mpmath.mpf(10) ** (5 - digits):
            r += 1
            term *= y / r
            total += term
        p = total * mpmath.exp(a * mpmath.log(y) - y - mpmath.loggamma(mpmath.mpf(a) + 1))
        return p, 1 - p


def test_gamma() -> None:
    """Within 1e-12 of the value, however small it is, in each of the regions that have a way of their own."""
    choose = random.Random(0)
    p, q = function("igamma"), function("igammac")
    for _ in range(80):
        a = 10 ** choose.uniform(-8, 3.3)
        x = min(a * 10 ** choose.uniform(-1.5, 0.7), 5000.0)
        if choose.random() < 0.4:
            x = abs(a + choose.gauss(0, 3) * math.sqrt(a))
        for f, exact in zip((p, q), shares(a, x), strict=True):
            assert exact < 1e-290 or abs(f(a, x) - exact) < 1e-12 * exact, (a, x)
    assert p(1e300, 1e300) == pytest.approx(0.5, rel=1e-12)
    assert q(1e-300, 1.0) == pytest.approx(1e-300 * float(mpmath.e1(1)), rel=1e-12)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_gamma_of_special_values(dtype: torch.dtype) -> None:
    values = torch.tensor([0.0, -0.0, 1.0, -1.0, INF, -INF, NAN, 1e30, 0.5, 250.0], dtype=dtype)
    a, x = torch.cartesian_prod(values, values).unbind(1)
    for name, wanted in (("igamma", special.gammainc), ("igammac", special.gammaincc)):
        f = function(name, dtype)
        found = torch.tensor([f(*pair) for pair in zip(a.tolist(), x.tolist(), strict=True)], dtype=dtype)
        torch.testing.assert_close(found, wanted(a, x), rtol=1e-6, atol=0, equal_nan=True)
