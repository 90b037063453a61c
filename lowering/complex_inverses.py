"""Inverse trigonometric and hyperbolic functions of complex numbers, and those near 1, without cancellation.

By W. Kahan, "Branch cuts for complex elementary functions" (1987): roots of 1 - z and 1 + z, of which only such parts
are multiplied as have one sign. Of parts that are infinite or NaN, what C says (annex G of its standard).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from ..dialects import prims
from .complex_value import Pair, direction
from .prims_builder import Value


def _atan2(y: Value, x: Value) -> Value:
    return y.binary(prims.Atan2Op.make, x)


def _asinh(x: Value) -> Value:
    return x.unary(prims.AsinhOp.make)


def _roots(z: Pair) -> tuple[Pair, Pair]:
    """The roots of 1 - z and of 1 + z; the zero of a real z keeps its sign, which says on which side of a cut it is."""
    return Pair(1.0 - z.re, -z.im).sqrt(), Pair(1.0 + z.re, z.im).sqrt()


def _cross(a: Pair, b: Pair) -> Value:
    """The imaginary part of conj(a) b."""
    return a.re * b.im - a.im * b.re


def _is_finite(z: Pair) -> Value:
    return (z.re.abs() < math.inf) & (z.im.abs() < math.inf)


def _signed(x: Value, sign: Value) -> Value:
    return x.binary(prims.CopysignOp.make, sign)


def _far(z: Pair, y: Value, x: Value) -> tuple[Value, Value]:
    """Of z with a part that is not finite: its size; the angle of (x, y), which are its parts or their sizes."""
    size = (z.re.isinf() | z.im.isinf()).where(z.re.full(math.inf), z.re.full(math.nan))
    return size, z.is_nan().where(math.nan, _atan2(direction(y), direction(x)))


def _asin(z: Pair) -> Pair:
    below, above = _roots(z)
    near = Pair(_atan2(z.re, below.re * above.re - below.im * above.im), _asinh(_cross(below, above)))
    size, angle = _far(z, z.re, z.im.abs())
    return near.where(_is_finite(z), Pair(z.re.eq(0.0).where(z.re, angle), _signed(size, z.im)))


def _acos(z: Pair) -> Pair:
    below, above = _roots(z)
    near = Pair(_atan2(below.re, above.re) * 2.0, _asinh(_cross(above, below)))
    size, angle = _far(z, z.im.abs(), z.re)
    return near.where(_is_finite(z), Pair(z.re.eq(0.0).where(math.pi / 2, angle), _signed(size, -z.im)))


def _acosh(z: Pair) -> Pair:
    less, more = Pair(z.re - 1.0, z.im).sqrt(), Pair(z.re + 1.0, z.im).sqrt()
    near = Pair(_asinh(less.re * more.re + less.im * more.im), _atan2(less.im, more.re) * 2.0)
    size, angle = _far(z, z.im.abs(), z.re)
    return near.where(_is_finite(z), Pair(size, _signed(z.re.eq(0.0).where(math.pi / 2, angle), z.im)))


def _atanh(z: Pair) -> Pair:
    """log1p(4 x / ((1 - x)^2 + y^2)) / 4, by |x|; log(2 / y) / 2 beside 1; the angle between 1 + z and 1 - z."""
    x = z.re.abs()
    size = (x * 4.0 / ((1.0 - x) * (1.0 - x) + z.im * z.im)).log1p() * 0.25
    beside = x.eq(1.0) & (z.im.abs() < 1e-9)
    size = beside.where((math.log(2.0) - z.im.abs().log()) * 0.5, size)
    angle = _atan2(z.im * 2.0, (1.0 - x) * (1.0 + x) - z.im * z.im) * 0.5
    infinite = z.re.isinf() | z.im.isinf()
    none = (infinite | z.re.eq(0.0)).where(z.re.full(0.0), z.re.full(math.nan))
    right = (z.im.isinf() | (z.re.isinf() & ~z.im.isnan())).where(z.re.full(math.pi / 2), z.re.full(math.nan))
    finite = _is_finite(z)
    return Pair(_signed(finite.where(size, none), z.re), finite.where(angle, _signed(right, z.im)))


def log1p(z: Pair) -> Pair:
    """Near 0 by log1p of |1 + z|^2 - 1, elsewhere by the logarithm of 1 + z."""
    sum_ = Pair(z.re + 1.0, z.im)
    near = z.magnitude() < 0.5
    size = (z.re * (z.re + 2.0) + z.im * z.im).log1p() * 0.5
    return Pair(z.is_nan().where(math.nan, near.where(size, sum_.magnitude().log())), sum_.angle())


def _expm1(z: Pair) -> Pair:
    """e^x cos y - 1 = expm1(x) cos y - 2 sin(y / 2)^2."""
    half = (z.im * 0.5).unary(prims.SinOp.make)
    re = z.re.unary(prims.Expm1Op.make) * z.im.unary(prims.CosOp.make) - half * half * 2.0
    return Pair(re, z.re.exp() * z.im.unary(prims.SinOp.make))


FUNCTIONS: Final[dict[str, Callable[[Pair], Pair]]] = {
    "aten.asin": _asin,
    "aten.acos": _acos,
    "aten.acosh": _acosh,
    "aten.atanh": _atanh,
    "aten.asinh": lambda z: _asin(z.times_i()).over_i(),
    "aten.atan": lambda z: _atanh(z.times_i()).over_i(),
    "aten.log1p": log1p,
    "aten.expm1": _expm1,
}
