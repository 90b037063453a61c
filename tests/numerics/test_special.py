"""Special functions that are polynomials of our own, against mpmath's with 30 digits: in f32, compiled."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import mpmath
import pytest
import torch
from torch import special

from lamella.dialects.text import print_module
from lamella.driver import lower

NEAR = [0.001, 0.25, 0.5, 0.999, 1.0, 1.5, 2.0, 2.25, 3.75, 4.99, 5.01, 7.9, 8.1]
FAR = [*NEAR, 12.5, 30.0, 80.0]
SIGNED = [*FAR, *(-x for x in FAR), 0.0]
SHARES = [1e-30, 1e-6, 0.01, 0.1353, 0.1354, 0.3, 0.5, 0.75, 0.8646, 0.8647, 0.99, 0.999]


def _log_ndtr(x: Any) -> Any:
    return mpmath.log(mpmath.erfc(-x / mpmath.sqrt(2)) / 2)


def _ndtri(p: Any) -> Any:
    guess = float(special.ndtri(torch.tensor(float(p), dtype=torch.float64)))
    return mpmath.findroot(lambda x: mpmath.erfc(-x / mpmath.sqrt(2)) / 2 / p - 1, guess)


def _e(x: Any) -> Any:
    return mpmath.exp(-abs(x))


FUNCTIONS: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], Callable[[Any], Any], list[float]]] = {
    "i0": (special.i0, lambda x: mpmath.besseli(0, x), SIGNED),
    "i0e": (special.i0e, lambda x: _e(x) * mpmath.besseli(0, x), SIGNED),
    "i1": (special.i1, lambda x: mpmath.besseli(1, x), SIGNED),
    "i1e": (special.i1e, lambda x: _e(x) * mpmath.besseli(1, x), SIGNED),
    "k0": (special.modified_bessel_k0, lambda x: mpmath.besselk(0, x), FAR),
    "k1": (special.modified_bessel_k1, lambda x: mpmath.besselk(1, x), FAR),
    "scaled k0": (special.scaled_modified_bessel_k0, lambda x: mpmath.besselk(0, x) / _e(x), FAR),
    "scaled k1": (special.scaled_modified_bessel_k1, lambda x: mpmath.besselk(1, x) / _e(x), FAR),
    "j0": (special.bessel_j0, lambda x: mpmath.besselj(0, x), SIGNED),
    "j1": (special.bessel_j1, lambda x: mpmath.besselj(1, x), SIGNED),
    "y0": (special.bessel_y0, lambda x: mpmath.bessely(0, x), FAR),
    "y1": (special.bessel_y1, lambda x: mpmath.bessely(1, x), FAR),
    "airy": (special.airy_ai, mpmath.airyai, [*NEAR, 12.5, 30.0, *(-x for x in FAR), 0.0]),
    "spherical j0": (special.spherical_bessel_j0, lambda x: mpmath.sin(x) / x if x else mpmath.mpf(1), SIGNED),
    "erfcx": (special.erfcx, lambda x: mpmath.exp(x * x) * mpmath.erfc(x), [*FAR, 0.0, -0.5, -2.0, -8.0]),
    "log_ndtr": (special.log_ndtr, _log_ndtr, [*FAR[:-1], *(-x for x in FAR), 0.0]),
    "ndtri": (special.ndtri, _ndtri, SHARES),
    "erfinv": (torch.erfinv, mpmath.erfinv, [*SHARES, 0.69, 0.71, 1 - 2.0**-20, 1 - 2.0**-40, 1 - 2.0**-53]),
    "chebyshev t": (lambda x: special.chebyshev_polynomial_t(x, 7), lambda x: mpmath.chebyt(7, x), SIGNED),
    "chebyshev u": (lambda x: special.chebyshev_polynomial_u(x, 6), lambda x: mpmath.chebyu(6, x), SIGNED),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_function(name: str) -> None:
    """Within 2 ulp of the value, or of 1 where it is smaller: it may be near a zero."""
    f, exact, points = FUNCTIONS[name]
    x = torch.tensor(points, dtype=torch.float32)
    torch._dynamo.reset()
    got = torch.compile(f, backend="lamella", options={"cache": False})(x).double()
    with mpmath.workdps(30):
        values = [float(exact(mpmath.mpf(float(v)))) for v in x]
    wanted = torch.tensor(values, dtype=torch.float64)
    wanted = wanted.float().double()  # what is too large for f32 is infinite
    finite = wanted.isfinite()
    assert torch.equal(got[~finite], wanted[~finite])
    error = (got - wanted).abs() / wanted.abs().clamp(min=1.0 if name[0] in "jycsl" else 1e-38)
    assert float(error[finite].max()) <= 2 * 2.0**-23


@pytest.mark.parametrize("name", ["erfcx", "log_ndtr", "ndtri", "erfinv"])
def test_function_in_f64(name: str) -> None:
    """As near as the rounding of x^2 / 2 allows in an exponent of 450."""
    f, exact, points = FUNCTIONS[name]
    x = torch.tensor(points, dtype=torch.float64)
    torch._dynamo.reset()
    got = torch.compile(f, backend="lamella", options={"cache": False})(x)
    with mpmath.workdps(400 if name in ("erfcx", "log_ndtr") else 40):
        wanted = torch.tensor([float(exact(mpmath.mpf(float(v)))) for v in x], dtype=torch.float64)
    torch.testing.assert_close(got, wanted, rtol=2e-13 if name in ("erfcx", "log_ndtr") else 1e-15, atol=0)


def test_next_to_a_pole_from_below() -> None:
    x = torch.tensor([-1e-30, -1e-8, -1e-4, -1 - 2.0**-40, -2 + 2.0**-40], dtype=torch.float64)
    torch._dynamo.reset()
    got = torch.compile(lambda x: torch.polygamma(2, x), backend="lamella", options={"cache": False})(x)
    torch.testing.assert_close(got, torch.polygamma(2, x), rtol=1e-13, atol=0)


@pytest.mark.parametrize("letter", "tuvw")
def test_polynomials_far_out(letter: str) -> None:
    """They are infinite, with the sign of the highest power."""
    f = getattr(special, f"chebyshev_polynomial_{letter}")
    x, n = torch.tensor([math.inf, -math.inf, -math.inf]), torch.tensor([1.0, 1.0, 2.0])
    torch._dynamo.reset()
    got = torch.compile(f, backend="lamella", options={"cache": False})(x, n)
    assert got.tolist() == [math.inf, -math.inf, math.inf]


SPECIAL = torch.tensor([0.0, -0.0, 1.0, -1.0, 2.0, math.inf, -math.inf, math.nan])


@pytest.mark.parametrize("name", [n for n in FUNCTIONS if not n.startswith("chebyshev")])
def test_special_values(name: str) -> None:
    """As eager."""
    f, _, _ = FUNCTIONS[name]
    torch._dynamo.reset()
    got = torch.compile(f, backend="lamella", options={"cache": False})(SPECIAL)
    expected = f(SPECIAL)
    torch.testing.assert_close(got, expected, equal_nan=True)
    if name in ("i1", "i1e"):
        assert torch.equal(got[:2].signbit(), expected[:2].signbit())


@pytest.mark.parametrize(("dtype", "left"), [("f32", False), ("f64", True)])
def test_eagers_errors_are_kept_in_f64(dtype: str, left: bool) -> None:
    t = f"!sym.t<[4], {dtype}>"
    text = f"func.func @main(%x: {t}) -> {t} {{ %r = aten.special_bessel_j0(%x) : ({t}) -> {t} func.return %r : {t} }}"
    assert ("aten." in print_module(lower(text, "prims"))) == left
