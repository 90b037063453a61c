"""Complex numbers as pairs of floats, with the formulas of c10 and of C's library where eager uses these."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias, cast

from ..dialects import prims
from ..dialects.expr import Dim
from ..dialects.tensor import TensorType
from .prims_builder import Value

PARTS: Final = {"c32": "f16", "c64": "f32", "c128": "f64"}
"""Complex dtype to that of its parts, in which they are kept; formulas take those of c32 in f32, as eager does."""

Factor: TypeAlias = "Pair | Value | complex | float | int"


def packed_type(t: TensorType) -> TensorType:
    """As `aten.view_as_real` makes it."""
    strides = [*(cast(Any, s) * 2 for s in t.strides), 1]
    return TensorType.get([*t.shape, 2], PARTS[t.dtype], strides, t.device)


class Pair(NamedTuple):
    """A tensor of complex numbers `re + i im`."""

    re: Value
    im: Value

    @property
    def shape(self) -> tuple[Dim, ...]:
        return self.re.shape

    @property
    def rank(self) -> int:
        return self.re.rank

    def expand(self, shape: Sequence[Dim]) -> Pair:
        return Pair(self.re.expand(shape), self.im.expand(shape))

    def each(self, function: Callable[[Value], Value]) -> Pair:
        """What it makes of both parts."""
        return Pair(function(self.re), function(self.im))

    def to(self, part: str, *, rounding: bool = False) -> Pair:
        return Pair(self.re.to(part, rounding=rounding), self.im.to(part, rounding=rounding))

    def opmath(self) -> Pair:
        """The pair in the dtype that eager computes in."""
        return Pair(self.re.opmath(), self.im.opmath())

    def full(self, value: complex | float) -> Pair:
        """A number everywhere, as a pair like this one."""
        value = complex(value)
        return Pair(self.re.full(value.real), self.im.full(value.imag))

    def plus(self, other: Pair) -> Pair:
        return Pair(self.re + other.re, self.im + other.im)

    def minus(self, other: Pair) -> Pair:
        return Pair(self.re - other.re, self.im - other.im)

    def negative(self) -> Pair:
        return Pair(-self.re, -self.im)

    def conjugate(self) -> Pair:
        return Pair(self.re, -self.im)

    def times_i(self) -> Pair:
        return Pair(-self.im, self.re)

    def over_i(self) -> Pair:
        return Pair(self.im, -self.re)

    def scaled(self, factor: Value | float) -> Pair:
        """By a real number."""
        return Pair(self.re * factor, self.im * factor)

    def times(self, other: Factor) -> Pair:
        if isinstance(other, Value):
            return self.scaled(other)
        if not isinstance(other, Pair):
            other = self.full(other)
        return Pair(self.re * other.re - self.im * other.im, self.re * other.im + self.im * other.re)

    def times_as_c(self, other: Pair) -> Pair:
        """As C's (annex G of its standard): a product that would be NaN is infinite where a factor is."""
        plain = self.times(other)
        ours, theirs = (v.re.isinf() | v.im.isinf() for v in (self, other))
        a = self.each(direction).where(ours, self)
        b = other.each(direction).where(theirs, other)
        a, b = a.each(_numbers).where(theirs, a), b.each(_numbers).where(ours, b)
        lost = plain.re.isnan() & plain.im.isnan() & (ours | theirs)
        return a.times(b).scaled(math.inf).where(lost, plain)

    def over(self, other: Pair) -> Pair:
        """As c10: scaled by the larger part of the divisor, so that its square does not overflow."""
        a, b, c, d = self.re, self.im, other.re, other.im
        larger = c.abs() >= d.abs()
        zero = c.eq(0.0) & d.eq(0.0)
        ratio = larger.where(d, c) / larger.where(c, d)
        scale = 1.0 / larger.where(c + d * ratio, c * ratio + d)
        re = larger.where(a + b * ratio, a * ratio + b) * scale
        im = larger.where(b - a * ratio, b * ratio - a) * scale
        return Pair(zero.where(a / c.abs(), re), zero.where(b / c.abs(), im))

    def where(self, condition: Value, other: Pair) -> Pair:
        """This one where the condition holds, else the other."""
        return Pair(condition.where(self.re, other.re), condition.where(self.im, other.im))

    # Tests

    def is_nan(self) -> Value:
        return self.re.isnan() | self.im.isnan()

    def is_zero(self) -> Value:
        return self.re.eq(0.0) & self.im.eq(0.0)

    def equals(self, other: Pair) -> Value:
        return self.re.eq(other.re) & self.im.eq(other.im)

    # Functions

    def magnitude(self) -> Value:
        """sqrt(re^2 + im^2) without overflow; inf if a part is, even beside NaN."""
        a, b = self.re.abs(), self.im.abs()
        large, small = a.maximum(b), a.minimum(b)
        ratio = large.eq(0.0).where(0.0, small / large)
        return (a.eq(math.inf) | b.eq(math.inf)).where(math.inf, large * (ratio * ratio + 1.0).sqrt())

    def angle(self) -> Value:
        return self.im.binary(prims.Atan2Op.make, self.re)

    def exp(self) -> Pair:
        """e^re (cos im + i sin im); a real number for a real one, and of infinite parts what C says."""
        size, (cos, sin) = self.re.exp(), _turn(self.im)
        real = self.im.eq(0.0)
        infinite = ~(self.im.abs() < math.inf) & self.re.isinf()
        none = infinite & (self.re < 0.0)
        re = infinite.where(size, real.where(size, size * cos))
        return Pair(re, none.where(0.0, real.where(self.im, size * sin)))

    def exp_of_infinite(self) -> Pair:
        """e^self where re is inf: no part is NaN because of a cosine or sine that is 0."""
        nowhere = self.im.isnan() | self.im.isinf()
        cos, sin = (t.eq(0.0).where(0.0, t * math.inf) for t in _turn(self.im))
        return Pair(nowhere.where(math.inf, cos), nowhere.where(math.nan, sin))

    def log(self) -> Pair:
        return Pair(self.magnitude().log(), self.angle())

    def sqrt(self) -> Pair:
        """The root on the right, by the larger of its parts."""
        size = self.magnitude()
        t = ((self.re.abs() + size) * 0.5).sqrt()
        other = self.im.abs() / (t * 2.0)
        right = self.re >= 0.0
        nothing, far = self.is_zero(), self.im.isinf()
        re = right.where(t, other)
        im = right.where(other, t).binary(prims.CopysignOp.make, self.im)
        return Pair(nothing.where(0.0, far.where(math.inf, re)), (nothing | far).where(self.im, im))

    def power(self, exponent: Pair) -> Pair:
        """e^(exponent log), as C's. In f64, as the exponent multiplies the logarithm's error."""
        return exponent.to("f64").times_as_c(self.to("f64").log()).exp().to(self.re.dtype)

    def sinh(self) -> Pair:
        cos, sin = _turn(self.im)
        re, im = _exactly(self.re.unary(prims.SinhOp.make), cos), _exactly(self.re.unary(prims.CoshOp.make), sin)
        return Pair(self._infinite(re), im)

    def cosh(self) -> Pair:
        cos, sin = _turn(self.im)
        re, im = _exactly(self.re.unary(prims.CoshOp.make), cos), _exactly(self.re.unary(prims.SinhOp.make), sin)
        return Pair(self._infinite(re), im)

    def _infinite(self, part: Value) -> Value:
        """A part that is infinite where re is, in whatever direction im turns it."""
        return (self.re.isinf() & part.isnan()).where(math.inf, part)

    def tanh(self) -> Pair:
        """By tan(im) and sinh(re); far out, where sinh overflows, by its limit. A part that is 0 stays 0."""
        tan = self.im.unary(prims.TanOp.make)
        sinh = self.re.unary(prims.SinhOp.make)
        beta, rho = tan * tan + 1.0, (sinh * sinh + 1.0).sqrt()
        below = 1.0 + beta * (sinh * sinh)
        cos, sin = _turn(self.im)
        far = self.re.abs() > 11.0
        one = (tan.isnan() & ~self.re.isinf()).where(tan, _sign(self.re))
        tiny = (self.re.abs() * -2.0).exp() * 4.0
        re, im = far.where(one, beta * rho * sinh / below), far.where(sin * cos * tiny, tan / below)
        im = (self.re.isinf() & im.isnan()).where(0.0, im)
        return Pair(self.re.eq(0.0).where(self.re, re), self.im.eq(0.0).where(self.im, im))


def direction(x: Value) -> Value:
    """1 for infinity, 0 for all else, with the sign."""
    return x.isinf().where(1.0, x.full(0.0)).binary(prims.CopysignOp.make, x)


def _numbers(x: Value) -> Value:
    """0 for NaN."""
    return x.isnan().where(x.full(0.0).binary(prims.CopysignOp.make, x), x)


def _exactly(a: Value, b: Value) -> Value:
    """a b of factors whose zeros are exact: beside infinity and NaN they make zeros."""
    product = a * b
    zero = a.eq(0.0) | b.eq(0.0)
    return (product.isnan() & zero).where(_sign(a) * _sign(b) * 0.0, product)


def _sign(x: Value) -> Value:
    """1 or -1, of zeros too; 1 of NaN, whose sign says nothing."""
    return x.isnan().where(1.0, x.full(1.0).binary(prims.CopysignOp.make, x))


def _turn(angle: Value) -> tuple[Value, Value]:
    return angle.unary(prims.CosOp.make), angle.unary(prims.SinOp.make)


def with_real(x: Any, part: str) -> Pair:
    """A real tensor, or a pair, as a pair of parts of that dtype."""
    if isinstance(x, Pair):
        return x.to(part)
    re = x.to(part)
    return Pair(re, re.full(0.0))
