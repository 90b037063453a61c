"""Math functions on f32 that are written out: range reduction, a polynomial, and the special values put right.

Inlined, they neither spill the registers around a call nor wait for one. Each function says its largest error in units
in the last place, as measured over all exponents by `tests/lowering/test_vector_math.py`.
Polynomials: Cephes (S. Moshier) for expm1 and log, SLEEF (N. Shibata) for exp2; for exp least squares on Chebyshev
nodes, relative to the function.
"""

from collections.abc import Sequence

from xdsl.dialects.builtin import IntegerType, i32

from .vector_value import Value

INF = float("inf")
NAN = float("nan")
LOG2_E = 1.4426950408889634
LN2 = 0.6931471805599453
LN2_HIGH, LN2_LOW = 0.693359375, -2.12194440e-4
"""ln 2 in two parts: the product of the first with a small integer is exact."""

_ROUNDER = 12582912.0
_ROUNDER_BITS = 0x4B400000
"""1.5 * 2**23, and its bits: added to a small float it leaves the nearest integer in the low bits of the sum."""

# ---------------------------------------------------------------------------------------------------------- exponent


def _reduce(x: Value) -> tuple[Value, Value, Value]:
    """x = n ln2 + r with |r| <= ln2/2: gives r, n, and the sum that has n in its low bits. |x| < 2**21."""
    rounded = x.fma(LOG2_E, _ROUNDER)
    n = rounded - _ROUNDER
    return n.fma(-LN2_LOW, n.fma(-LN2_HIGH, x)), n, rounded


def _expm1_reduced(r: Value) -> Value:
    """e**r - 1 for |r| <= ln2/2."""
    tail = r.poly(1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1)
    return tail.fma(r * r, r)


def _power_of_two(n: Value, like: Value) -> Value:
    """2.0**n for integers -126 <= n <= 127."""
    return ((n + 127) << 23).as_float(like.type)


def _scale(y: Value, n: Value, rounded: Value) -> Value:
    """y * 2**n for -150 <= n <= 128, and any n where y is 0; rounded once where the result is denormal."""
    if _has_scalef(y):
        return _scalef(y, n)
    exponent = rounded.bits() - _ROUNDER_BITS
    half = exponent >> 1
    return y * _power_of_two(half, y) * _power_of_two(exponent - half, y)


def _has_scalef(y: Value) -> bool:
    return y.b.target.has_avx512 and y.width in (4, 8, 16)


def _bounded(x: Value, low: float) -> Value:
    """x, not below the bound where `_scale` of 0 needs it."""
    return x if _has_scalef(x) else x.at_least(low)


def _scalef(y: Value, n: Value) -> Value:
    """y * 2**floor(n)."""
    return _masked(y, "scalef", y, n)


def _masked(like: Value, name: str, *operands: Value) -> Value:
    """An instruction that takes a mask, on all lanes."""
    b, bits = like.b, like.width * 32
    given = [*operands, like.like(0.0), b.constant(-1, IntegerType(max(like.width, 8)))]
    if bits == 512:
        given.append(b.constant(4, i32))  # 4: the rounding mode that is set
    return b.raw_intrinsic(f"x86.avx512.mask.{name}.ps.{bits}", [v.ssa for v in given], like.type)


def _fraction(y: Value) -> Value:
    """y - floor(y), and 0 of an infinity."""
    return _masked(y, "reduce", y, y.b.constant(9, i32))  # 9: rounded down, without exceptions


def exp(x: Value) -> Value:
    """e**x; 0.9 ulp."""
    # Beyond the bounds the result is inf or 0 all the same. A 0 that comes from scaling would take as long as a
    # denormal does, some hundred cycles: rows with -inf in them, as masks make, are full of these.
    none = x < -104.0
    r, n, rounded = _reduce(_bounded(x.at_most(89.0), -104.0))
    p = r.poly(1.38204126e-3, 8.36867746e-3, 4.16682698e-2, 1.66665211e-1, 4.9999994e-1, 1.0, 1.0)
    return _scale(none.select(p.like(0.0), p), n, rounded)


_EXP2_BF16 = (7.7067003e-2, 0.22764501, 0.69511676)
_EXP2_F16 = (1.3426678e-2, 5.2242484e-2, 0.2412802, 0.69304484)
"""2**f - 1 for 0 <= f < 1, without a constant term."""


def exp_bf16(x: Value) -> Value:
    """e**x for a result of 8 digits; 1.1e-4 of it."""
    return _exp_short(x, _EXP2_BF16, (0.16517897, 0.50413126, 1.000196))


def exp_f16(x: Value) -> Value:
    """e**x for a result of 11 digits; 1e-5 of it."""
    return _exp_short(x, _EXP2_F16, (4.1513823e-2, 0.1678749, 0.50003016, 0.99996680))


def exp2_bf16(y: Value) -> Value:
    """2**y for a result of 8 digits; 1.1e-4 of it."""
    return _exp2_short(y, _EXP2_BF16)


def exp2_f16(y: Value) -> Value:
    """2**y for a result of 11 digits; 1e-5 of it."""
    return _exp2_short(y, _EXP2_F16)


def _exp2_short(y: Value, fraction: Sequence[float]) -> Value:
    """2**y, exactly 1 at 0, as 2**f 2**floor(y)."""
    if _has_scalef(y):
        p = _fraction(y).poly(*fraction, 1.0)
        return _scalef((y < -150.0).select(p.like(0.0), p), y)
    none = y < -150.0
    y = y.at_most(129.0).at_least(-150.0)
    n = y.b.intrinsic("floor", y)
    p = (y - n).poly(*fraction, 1.0)
    return _scale(none.select(p.like(0.0), p), n, n + _ROUNDER)


def _exp_short(x: Value, fraction: Sequence[float], reduced: Sequence[float]) -> Value:
    """e**x, exactly 1 at 0: by 2**f with f = y - floor(y) for y = x / ln2 where instructions do the rest, else by
    e**(x - n ln2). Each is 1 and a polynomial without a constant term.
    """
    if _has_scalef(x):
        return _exp2_short(x * LOG2_E, fraction)
    none = x < -104.0
    x = x.at_most(89.0).at_least(-104.0)
    rounded = x.fma(LOG2_E, _ROUNDER)
    n = rounded - _ROUNDER
    p = n.fma(-LN2, x).poly(*reduced, 1.0)
    return _scale(none.select(p.like(0.0), p), n, rounded)


def exp2(x: Value) -> Value:
    """2**x; 0.9 ulp."""
    none = x < -151.0
    x = _bounded(x.at_most(129.0), -151.0)
    rounded = x + _ROUNDER
    n = rounded - _ROUNDER
    r = x - n
    p = r.poly(1.535920892e-4, 1.339262701e-3, 9.618384764e-3, 5.550347269e-2, 2.402264476e-1, 6.931471825e-1, 1.0)
    return _scale(none.select(p.like(0.0), p), n, rounded)


def expm1(x: Value) -> Value:
    """e**x - 1; 1.4 ulp."""
    r, _, rounded = _reduce(x.at_most(89.0).at_least(-18.0))
    # Half of 2**n, as 2**128 is no float: 2 (2**(n-1) (e**r - 1) + (2**(n-1) - 1/2)).
    half = _power_of_two(rounded.bits() - (_ROUNDER_BITS + 1), x)
    y = half.fma(_expm1_reduced(r), half - 0.5) * 2.0
    return (x.abs() < 1e-7).select(x, y)


def tanh(x: Value) -> Value:
    """Odd polynomial below 0.625, 1 - 2 / (e**2x + 1) above; 1.4 ulp."""
    size = x.abs()
    r, _, rounded = _reduce((size * 2.0).at_most(20.0))
    power = _power_of_two(rounded.bits() - _ROUNDER_BITS, x)
    large = 1.0 - 2.0 / (power.fma(_expm1_reduced(r), power) + 1.0)
    square = x * x
    p = square.poly(-5.70498872745e-3, 2.06390887954e-2, -5.37397155531e-2, 1.33314422036e-1, -3.33332819422e-1)
    small = (p * square).fma(x, x)
    return (size < 0.625).select(small, large).copysign(x)


# --------------------------------------------------------------------------------------------------------- logarithm

_SQRT_HALF_BITS = 0x3F3504F3


def _mantissa(x: Value) -> tuple[Value, Value]:
    """x = m 2**e with sqrt(1/2) <= m < sqrt(2): gives m - 1 and e, for positive normal x."""
    bits = x.bits() - _SQRT_HALF_BITS
    m = ((bits & 0x7FFFFF) + _SQRT_HALF_BITS).as_float(x.type)
    return m - 1.0, (bits >> 23).to_float(x.type)


def _normal_mantissa(x: Value) -> tuple[Value, Value]:
    """`_mantissa` of any positive finite x: denormals are scaled up first."""
    tiny = x < 1.17549435e-38
    r, e = _mantissa(tiny.select(x * 8388608.0, x))
    return r, tiny.select(e - 23.0, e)


def _log1p_tail(r: Value) -> Value:
    """(log(1 + r) - r + r**2 / 2) / r**2 for sqrt(1/2) <= 1 + r < sqrt(2)."""
    p = r.poly(
        *(7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1),
        *(-1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1),
    )
    return p * r


def _log_specials(x: Value, y: Value) -> Value:
    """y, with the logarithms of 0, inf, NaN and negative numbers."""
    y = (x < INF).select(y, x)
    y = x.compare("ult", 0.0).select(y.like(NAN), y)
    return x.equals(0.0).select(y.like(-INF), y)


def log(x: Value) -> Value:
    """Natural logarithm; 0.9 ulp."""
    r, e = _normal_mantissa(x)
    square = r * r
    y = e.fma(LN2_LOW, _log1p_tail(r) * square)
    y = square.fma(-0.5, y)
    return _log_specials(x, e.fma(LN2_HIGH, r + y))


def _log_in_base(x: Value, high: float, low: float, exponent_high: float, exponent_low: float) -> Value:
    """log(x) * (high + low) + e * exponent parts, the products with m - 1 in two parts."""
    r, e = _normal_mantissa(x)
    square = r * r
    tail = square.fma(-0.5, _log1p_tail(r) * square)
    y = tail.fma(high, r * low)
    if exponent_low:
        y = e.fma(exponent_low, y)
    return _log_specials(x, e.fma(exponent_high, r.fma(high, y)))


def log2(x: Value) -> Value:
    """Logarithm to base 2; 1.1 ulp."""
    return _log_in_base(x, 1.44269502162933349609, 1.92596299112661746887e-8, 1.0, 0.0)


def log10(x: Value) -> Value:
    """Logarithm to base 10; 1.0 ulp."""
    return _log_in_base(x, 0.434294492006301879883, -1.01030425236e-8, 3.01025390625e-1, 4.605038981195214e-6)


def log1p(x: Value) -> Value:
    """log(1 + x), exact for small x; 1.1 ulp."""
    u = x + 1.0
    back = u - 1.0
    lost = (x - back) + (1.0 - (u - back))  # what rounding 1 + x left out, exactly
    r, e = _mantissa(u)
    exponent = (u.bits() - _SQRT_HALF_BITS) >> 23
    exponent = (exponent > 64).select(exponent.like(64), exponent)
    # The derivative of log at m is 1 / m, near enough 1 - r for what is half an ulp.
    correction = lost * _power_of_two(0 - exponent, x)
    square = r * r
    y = e.fma(LN2_LOW, _log1p_tail(r) * square)
    y = square.fma(-0.5, y) + correction * (1.0 - r)
    y = e.fma(LN2_HIGH, r + y)
    y = (x < INF).select(y, x)
    y = x.compare("ult", -1.0).select(y.like(NAN), y)
    y = x.equals(-1.0).select(y.like(-INF), y)
    return (x.abs() < 1e-8).select(x, y)


# --------------------------------------------------------------------------------------------------------- the others


def erf(x: Value) -> Value:
    """The error function, after N. Juffa: odd polynomial near 0, 1 - e**-p(|x|) beyond; 1.0 ulp."""
    size, square = x.abs(), x * x
    p = size.poly(
        *(-1.72853470e-5, 3.83197126e-4, -3.88396438e-3, 2.42546219e-2, -1.06777877e-1, -6.34846687e-1),
        -1.28717512e-1,
    )
    r, _, rounded = _reduce(p.fma(size, -size).at_least(-20.0))
    power = _power_of_two(rounded.bits() - _ROUNDER_BITS, x)
    large = (-power).fma(_expm1_reduced(r), 1.0 - power).copysign(x)
    q = square.poly(-5.96761703e-4, 4.99119423e-3, -2.67681349e-2, 1.12819925e-1, -3.76125336e-1, 1.28379166e-1)
    return (size > 0.927734375).select(large, q.fma(x, x))
