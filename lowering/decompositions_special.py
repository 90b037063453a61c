"""Special functions, elementwise."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from xdsl.ir import SSAValue

from ..dialects import prims
from ..dialects.prims import Number
from .decomposition import Call, pointwise, rule
from .decompositions_comparison import unless
from .prims_builder import Value
from .steps import step


@pointwise("aten.sinc", "aten.special_sinc")
def sinc(x: Value) -> Value:
    """sin(pi x) / (pi x), 1 at 0."""
    y = x * math.pi
    return x.eq(0).where(1.0, y.unary(prims.SinOp.make) / y)


@pointwise("aten.logit", "aten.special_logit", rounded=(1,), steps=True)
def logit(x: Value, eps: Value | Number | None, *, dtype: str) -> Value:
    """log(x / (1 - x)), x clamped to [eps, 1 - eps]."""
    if eps is not None:
        low, high = x.full(eps), step(1.0 - x.full(eps), dtype)
        x = (x < low).where(low, (x > high).where(high, x))
    return step(x / step(1.0 - x, dtype), dtype).log()


@pointwise("aten.logit_backward", rounded=(2,), steps=True)
def logit_backward(grad: Value, x: Value, eps: Value | Number | None, *, dtype: str) -> Value:
    """grad / (x (1 - x)); where logit clamps 0, and without `eps` NaN outside of [0, 1]."""
    inner = grad / step(x * step(1.0 - x, dtype), dtype)
    if eps is None:
        return ((x >= 0.0) & (x <= 1.0)).where(inner, math.nan)
    low, high = x.full(eps), step(1.0 - x.full(eps), dtype)
    return unless(x, (x >= low) & (x <= high), (x < low) | (x > high)).where(inner, 0.0)


@pointwise("aten.special_entr", steps=True)
def entr(x: Value, *, dtype: str) -> Value:
    """-x log x; 0 at 0, -inf below."""
    y = x.eq(0).where(0.0, (-x) * step(x.log(), dtype))
    return (x < 0).where(-math.inf, y)


@pointwise("aten.special_ndtr")
def ndtr(x: Value) -> Value:
    """The normal distribution function, accurate in both tails."""
    t = x * math.sqrt(0.5)
    tail = t.abs().unary(prims.ErfcOp.make) * 0.5
    middle = t.erf() * 0.5 + 0.5
    return (t < -1.0).where(tail, (t > 1.0).where(1.0 - tail, middle))


@pointwise("aten.hypot")
def hypot(a: Value, b: Value) -> Value:
    """sqrt(a^2 + b^2) without overflow."""
    a, b = a.abs(), b.abs()
    large, small = a.maximum(b), a.minimum(b)
    ratio = large.eq(0.0).where(0.0, small / large)
    infinite = a.eq(math.inf) | b.eq(math.inf)
    return infinite.where(math.inf, large * (ratio * ratio + 1.0).sqrt())


@pointwise("aten.logaddexp")
def logaddexp(a: Value, b: Value) -> Value:
    """log(e^a + e^b)."""
    large = a.maximum(b)
    sum_ = large + (-(a - b).abs()).exp().log1p()
    return (a.isinf() & a.eq(b)).where(a, sum_)


@pointwise("aten.logaddexp2")
def logaddexp2(a: Value, b: Value) -> Value:
    """log2(2^a + 2^b)."""
    large = a.maximum(b)
    sum_ = large + (-(a - b).abs()).unary(prims.Exp2Op.make).log1p() * (1 / math.log(2))
    return (a.isinf() & a.eq(b)).where(a, sum_)


def _x_times(x: Value, y: Value, log: Value) -> Value:
    """x * log, 0 where x is 0, NaN where y is."""
    return y.isnan().where(math.nan, x.eq(0.0).where(0.0, x * log))


@pointwise("aten.xlogy.Tensor", "aten.xlogy.Scalar_Other", "aten.special_xlogy", rounded=(0, 1), steps=True)
def xlogy(x: Value, y: Value | Number, *, dtype: str) -> Value:
    y = y if isinstance(y, Value) else x.full(y)
    return _x_times(x, y, step(y.log(), dtype))


@pointwise("aten.xlogy.Scalar_Self", rounded=(0, 1), steps=True)
def xlogy_scalar(x: Value | Number, y: Value, *, dtype: str) -> Value:
    return xlogy(y.full(x), y, dtype=dtype)


@pointwise("aten.special_xlog1py", rounded=(0, 1), steps=True)
def xlog1py(x: Value, y: Value, *, dtype: str) -> Value:
    return _x_times(x, y, step(y.log1p(), dtype))


@pointwise("aten.angle")
def angle(x: Value) -> Value:
    """pi below 0, else 0; NaN of NaN."""
    return x.isnan().where(x, (x < 0.0).where(math.pi, x.full(0.0)))


@pointwise("aten.mvlgamma")
def mvlgamma(x: Value, p: int) -> Any:
    """The logarithm of the multivariate gamma function: p (p - 1) / 4 log pi + sum over j of lgamma(x - j / 2). Of
    many terms it is a call: a kernel has each.
    """
    if p > 64:
        return NotImplemented
    total = x.full(p * (p - 1) / 4 * math.log(math.pi))
    for j in range(p):
        total = total + (x - j / 2).unary(prims.LgammaOp.make)
    return total


def _with_steps(op: Callable[[SSAValue, SSAValue], prims.PrimsOp], *names: str) -> None:
    """Registers a function of two operands, either of which may be a number, that takes as many steps as they say: of
    a CPU's scalars.
    """

    def lowered(a: Value | Number, b: Value | Number) -> Any:
        one = a if isinstance(a, Value) else b
        assert isinstance(one, Value)
        return one.full(a).binary(op, one.full(b)) if one.type.device == "cpu" else NotImplemented

    pointwise(*names)(lowered)


_with_steps(prims.IgammaOp.make, "aten.igamma", "aten.special_gammainc")
_with_steps(prims.IgammacOp.make, "aten.igammac", "aten.special_gammaincc")
for _name, _op in {
    "hermite_polynomial_h": prims.HermiteHOp,
    "hermite_polynomial_he": prims.HermiteHeOp,
    "laguerre_polynomial_l": prims.LaguerreOp,
    "legendre_polynomial_p": prims.LegendreOp,
}.items():
    _with_steps(_op.make, *(f"aten.special_{_name}{overload}" for overload in ("", ".x_scalar", ".n_scalar")))


@rule("aten.frexp.Tensor")
def frexp(call: Call, x: Value) -> tuple[Value, Value]:
    """m and e with x = m 2^e and |m| in [1/2, 1); x and 0 for 0, inf and NaN."""
    y = x.opmath()
    wide = y.dtype == "f64"
    bits, digits, bias = ("i64", 52, 1022) if wide else ("i32", 23, 126)
    t = y.type.with_(dtype=bits)
    tiny = y.abs() < 2.0 ** (1 - bias)  # without a leading 1: made larger by a power of 2
    scaled = tiny.where(y * 2.0 ** (digits + 1), y)
    word = scaled.bitcast(t)
    exponent = word.binary(prims.ShrOp.make, digits) & (2 * bias + 3)
    e = exponent - bias - tiny.where(y.b.full(digits + 1, t), 0)
    mantissa = ((word & ~((2 * bias + 3) << digits)) | (bias << digits)).bitcast(y.type)
    plain = y.eq(0.0) | y.isinf() | y.isnan()
    return plain.where(y, mantissa), plain.where(e.full(0), e)
