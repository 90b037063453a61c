"""Bessel functions, and functions of the tails of the normal distribution, in f64, by the tables' polynomials."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ..dialects import prims
from . import special_tables as tables
from .decomposition import pointwise
from .prims_builder import Value

Function = Callable[[Value], Value]


def in_double(*names: str) -> Callable[[Function], Function]:
    """Registers a function of one tensor that is computed in f64, whatever the dtype; it gives f32 for f16 and bf16, of
    which what reads it need not lose digits.
    """

    def register(function: Function) -> Function:
        pointwise(*names)(lambda x: function(x.to("f64")).to(x.dtype))
        return function

    return register


def polynomial(coefficients: Sequence[float], t: Value) -> Value:
    """By Horner's rule."""
    y = t.full(coefficients[0])
    for c in coefficients[1:]:
        y = y * t + c
    return y


def _cos(x: Value) -> Value:
    return x.unary(prims.CosOp.make)


def _sin(x: Value) -> Value:
    return x.unary(prims.SinOp.make)


# Modified Bessel functions


@in_double("aten.special_i0e")
def i0e(x: Value) -> Value:
    """e^-|x| I0(x)."""
    s = x.abs()
    small = polynomial(tables.I0_SMALL, s * 0.25 - 1.0)
    return (s <= 8.0).where(small, polynomial(tables.I0_LARGE, 16.0 / s - 1.0) / s.sqrt())


@in_double("aten.i0", "aten.special_i0", "aten.special_modified_bessel_i0")
def i0(x: Value) -> Value:
    return x.abs().exp() * i0e(x)


@in_double("aten.special_i1e")
def i1e(x: Value) -> Value:
    """e^-|x| I1(x); 0.0 of -0.0, as ATen."""
    s = x.abs()
    small = polynomial(tables.I1_SMALL, s * 0.25 - 1.0) * x + 0.0
    large = polynomial(tables.I1_LARGE, 16.0 / s - 1.0) / s.sqrt()
    return (s <= 8.0).where(small, (x < 0.0).where(-large, large))


@in_double("aten.special_i1", "aten.special_modified_bessel_i1")
def i1(x: Value) -> Value:
    return x.abs().exp() * i1e(x)


@in_double("aten.special_scaled_modified_bessel_k0")
def scaled_k0(x: Value) -> Value:
    """e^x K0(x)."""
    small = polynomial(tables.K0_SMALL, x * x * 0.5 - 1.0) - (x * 0.5).log() * i0(x)
    return _for_positive(x, (x <= 2.0).where(small * x.exp(), _k_large(tables.K0_LARGE, x)))


@in_double("aten.special_modified_bessel_k0")
def k0(x: Value) -> Value:
    return (-x).exp() * scaled_k0(x)


@in_double("aten.special_scaled_modified_bessel_k1")
def scaled_k1(x: Value) -> Value:
    """e^x K1(x)."""
    small = polynomial(tables.K1_SMALL, x * x * 0.5 - 1.0) / x + (x * 0.5).log() * i1(x)
    return _for_positive(x, (x <= 2.0).where(small * x.exp(), _k_large(tables.K1_LARGE, x)))


@in_double("aten.special_modified_bessel_k1")
def k1(x: Value) -> Value:
    return (-x).exp() * scaled_k1(x)


def _k_large(table: Sequence[float], x: Value) -> Value:
    return polynomial(table, 4.0 / x - 1.0) / x.sqrt()


def _for_positive(x: Value, y: Value, at_zero: float = math.inf) -> Value:
    """y, NaN below 0."""
    return x.eq(0.0).where(at_zero, (x < 0.0).where(math.nan, y))


# Bessel functions. For f64 they stay ATen's, which near 5 are off by more than its own tolerances.


def _of_single(name: str) -> Callable[[Function], Function]:
    def register(function: Function) -> Function:
        pointwise(name)(lambda x: NotImplemented if x.dtype == "f64" else function(x.to("f64")))
        return function

    return register


@_of_single("aten.special_bessel_j0")
def j0(x: Value) -> Value:
    s = x.abs()
    p, q, angle = _wave(s, tables.P0, tables.Q0, math.pi / 4)
    large = p * _cos(angle) - q * _sin(angle)
    return (s <= 5.0).where(_near(tables.J0_SMALL, s), large)


@_of_single("aten.special_bessel_j1")
def j1(x: Value) -> Value:
    s = x.abs()
    p, q, angle = _wave(s, tables.P1, tables.Q1, 3 * math.pi / 4)
    large = p * _cos(angle) - q * _sin(angle)
    return (s <= 5.0).where(_near(tables.J1_SMALL, s) * x, (x < 0.0).where(-large, large))


@_of_single("aten.special_bessel_y0")
def y0(x: Value) -> Value:
    p, q, angle = _wave(x, tables.P0, tables.Q0, math.pi / 4)
    small = _near(tables.Y0_SMALL, x) + x.log() * _near(tables.J0_SMALL, x) * (2 / math.pi)
    large = p * _sin(angle) + q * _cos(angle)
    return _for_positive(x, (x <= 5.0).where(small, large), -math.inf)


@_of_single("aten.special_bessel_y1")
def y1(x: Value) -> Value:
    p, q, angle = _wave(x, tables.P1, tables.Q1, 3 * math.pi / 4)
    pole = x.log() * (_near(tables.J1_SMALL, x) * x) - 1.0 / x
    small = _near(tables.Y1_SMALL, x) * x + pole * (2 / math.pi)
    large = p * _sin(angle) + q * _cos(angle)
    return _for_positive(x, (x <= 5.0).where(small, large), -math.inf)


def _near(table: Sequence[float], s: Value) -> Value:
    return polynomial(table, s * s * (2 / 25) - 1.0)


def _wave(s: Value, p: Sequence[float], q: Sequence[float], phase: float) -> tuple[Value, Value, Value]:
    """Amplitudes of the cosine and the sine that the functions are far from 0, and their angle."""
    t = 50.0 / (s * s) - 1.0
    amplitude = (s * (math.pi / 2)).sqrt().reciprocal()
    return amplitude * polynomial(p, t), amplitude * polynomial(q, t) / s, s - phase


@in_double("aten.special_spherical_bessel_j0")
def spherical_j0(x: Value) -> Value:
    """sin(x) / x."""
    z = x * x
    terms = [(-1) ** k / math.factorial(2 * k + 1) for k in range(8)]
    small = polynomial(terms[::-1], z)
    return x.isinf().where(0.0, (x.abs() < 0.5).where(small, _sin(x) / x))


@in_double("aten.special_airy_ai")
def airy_ai(x: Value) -> Value:
    """A wave to the left, which falls off to the right (Abramowitz and Stegun, 10.4.59 and 10.4.60); NaN of inf."""
    s = x.abs().maximum(2.0)
    root = s.sqrt()
    z = s * root * (2 / 3)
    inverse, quarter = z.full(4 * math.sqrt(2) / 3) / z, root.sqrt()
    right = polynomial(tables.AIRY_RIGHT, inverse * 2.0 - 1.0) * (-z).exp() / quarter
    t = inverse * inverse * 2.0 - 1.0
    angle = z + math.pi / 4
    wave = polynomial(tables.AIRY_SIN, t) * _sin(angle) - polynomial(tables.AIRY_COS, t) / z * _cos(angle)
    near = polynomial(tables.AIRY_NEAR, x * 0.5)
    value = (x < -2.0).where(wave / quarter, (x > 2.0).where(right, near))
    return x.isinf().where(math.nan, value)


# The normal distribution's tails


@in_double("aten.special_erfcx")
def erfcx(x: Value) -> Value:
    """e^(x^2) erfc(x)."""
    s = x.abs()
    right = polynomial(tables.ERFCX, (s - 3.75) / (s + 3.75)) / (s * 2.0 + 1.0)
    right = s.eq(math.inf).where(0.0, right)
    return (x < 0.0).where((x * x).exp() * 2.0 - right, right)


@in_double("aten.special_log_ndtr")
def log_ndtr(x: Value) -> Value:
    """The logarithm of the normal distribution function."""
    t = x * math.sqrt(0.5)
    left = (erfcx(-t) * 0.5).log() - t * t
    right = (t.unary(prims.ErfcOp.make) * -0.5).log1p()
    return (x < -1.0).where(x.eq(-math.inf).where(-math.inf, left), right)


@pointwise("aten.special_ndtri")
def ndtri(p: Value) -> Value:
    """The quantile of the normal distribution: the x with ndtr(x) = p; in the tails of f64 with a step of Newton's."""
    is_double, p = p.dtype == "f64", p.to("f64")
    middle = (p * 2.0 - 1.0).unary(prims.ErfinvOp.make) * math.sqrt(2)
    lower = p.minimum(1.0 - p)
    z = (lower.log() * -2.0).sqrt()
    low, high = 1 / 39, 1 / 2
    t = (1.0 / z - (low + high) / 2) * (2 / (high - low))
    far = z - (z.log() - polynomial(tables.NDTRI_TAIL, t)) / z
    if is_double:
        error = (far * math.sqrt(0.5)).unary(prims.ErfcOp.make) * 0.5 - lower
        better = far + error * (far * far * 0.5).exp() * math.sqrt(2 * math.pi)
        far = (lower > 1e-290).where(better, far)  # before digits of a share are lost
    tail = lower.eq(0.0).where(math.inf, far)
    signed = (p < 0.5).where(-tail, tail)
    return (lower < math.exp(-2)).where(signed, middle)
