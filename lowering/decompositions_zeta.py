"""Hurwitz' zeta function and the derivatives of digamma, in f64 as Cephes: terms, then Euler and Maclaurin's sum."""

from __future__ import annotations

import math
from typing import Any, Final

from ..dialects import prims
from ..dialects.prims import Number
from .decomposition import pointwise
from .prims_builder import Value

TERMS: Final = 9
"""Terms added one by one before the rest is estimated."""

COEFFICIENTS: Final = (
    *(12.0, -720.0, 30240.0, -1209600.0, 47900160.0, -1.8924375803183791606e9, 7.47242496e10),
    *(-2.950130727918164224e12, 1.1646782814350067249e14, -4.5979787224074726105e15),
    *(1.8152105401943546773e17, -7.1661652561756670113e18),
)
"""(2k)! / B_2k."""

EPSILON: Final = 2.0**-53


def _power(x: Value, exponent: Value) -> Value:
    return x.binary(prims.PowOp.make, exponent)


def _sum(s: Value, q: Value) -> Value:
    """zeta(s, q) for s > 1 and q > 0."""
    total = _power(q, -s)
    a, b = q, total
    for _ in range(TERMS):
        a = a + 1.0
        b = _power(a, -s)
        total = total + b
    w = a
    total = total + b * w / (s - 1.0) - b * 0.5
    factor = s.full(1.0)
    done = b.abs() < total.abs() * EPSILON
    for i, coefficient in enumerate(COEFFICIENTS):
        factor = factor * (s + 2.0 * i)
        b = b / w
        term = factor * b / coefficient
        total = done.where(total, total + term)
        done = done | (term.abs() < total.abs() * EPSILON)
        factor = factor * (s + (2.0 * i + 1.0))
        b = b / w
    return total


def _integer(x: Value) -> Value:
    return x.floor().eq(x)


def hurwitz(s: Value, q: Value) -> Value:
    """The sum of 1 / (q + k)^s over k = 0, 1, …; for negative q where s is whole: the terms below 0 are those of
    zeta(s, g) that zeta(s, 1 - q) lacks, g the fraction of -q, with the sign of (-1)^s. Not 1 less that of q: next to
    a pole that has no digits.
    """
    fraction = q - q.floor()
    gap = -q - (-q).floor()
    negative = q <= 0.0
    own = _sum(s, negative.where(fraction, q))
    below = _sum(s, gap) - _sum(s, 1.0 - negative.where(q, 0.0))
    odd = ~_integer(s * 0.5)
    mirrored = own + odd.where(-below, below)
    value = (s.isnan() | q.isnan()).where(math.nan, negative.where(mirrored, own))
    value = (negative & s.eq(math.inf)).where(math.inf, value)
    value = (negative & ~_integer(s)).where(math.nan, value)
    value = (negative & _integer(q)).where(math.inf, value)
    return s.eq(1.0).where(math.inf, (s < 1.0).where(math.nan, value))


@pointwise("aten.special_zeta", "aten.special_zeta.self_scalar", "aten.special_zeta.other_scalar")
def zeta(s: Value | Number, q: Value | Number) -> Value:
    one = s if isinstance(s, Value) else q
    assert isinstance(one, Value)
    wide = [v.to("f64") if isinstance(v, Value) else one.to("f64").full(v) for v in (s, q)]
    return hurwitz(*wide)


@pointwise("aten.polygamma")
def polygamma(n: int, x: Value) -> Any:
    """The n-th derivative of digamma: (-1)^(n + 1) n! zeta(n + 1, x)."""
    if n == 0:
        return x.unary(prims.DigammaOp.make)
    if n == 1:
        return trigamma(x)
    factor = math.exp(math.lgamma(n + 1.0)) if n < 171 else math.inf
    q = x.to("f64")
    return hurwitz(q.full(n + 1.0), q) * (factor if n % 2 else -factor)


def trigamma(x: Value) -> Value:
    """As ATen, in x's dtype, so that it is as large at the poles: mirrored below 1/2, six terms, and the asymptotic
    series of the rest (Abramowitz and Stegun, 6.4.7, 6.4.6 and 6.4.12).
    """
    left = x < 0.5
    sin = (x * math.pi).unary(prims.SinOp.make)
    y = left.where(1.0 - x, x)
    total = left.where(-(math.pi * math.pi / (sin * sin)), 0.0)
    for _ in range(6):
        total = total + 1.0 / (y * y)
        y = y + 1.0
    z = 1.0 / (y * y)
    rest = (1.0 + 1.0 / (y * 2.0) + z * (1 / 6 - z * (1 / 30 - z * (1 / 42)))) / y
    total = total + rest
    return left.where(-total, total)
