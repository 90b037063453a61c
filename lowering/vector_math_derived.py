"""Math functions made of other functions, for f32 and f64 alike."""

from collections.abc import Callable

from .vector_value import Value

INF = float("inf")
NAN = float("nan")
LN2 = 0.6931471805599453
PI = 3.141592653589793

Unary = Callable[[Value], Value]


def in_double(function: Unary) -> Unary:
    """`function`, computed in f64 for f32 too."""
    return lambda x: function(x) if x.is_double else function(x.extend()).truncate(x.type)


def asinh(x: Value, log1p: Unary) -> Value:
    """log(|x| + sqrt(x**2 + 1)), with the sign of x; 1.8 ulp."""
    size = x.abs()
    square = size * size
    grown = size + square / ((square + 1.0).sqrt() + 1.0)
    huge = size > 1e18  # before x**2 overflows
    y = log1p(huge.select(size, grown)) + huge.select(x.like(LN2), 0.0)
    return y.copysign(x)


def acosh(x: Value, log1p: Unary) -> Value:
    """log(x + sqrt(x**2 - 1)), NaN below 1; 2.0 ulp."""
    t = x - 1.0
    grown = t + t.fma(t, t + t).sqrt()
    huge = x > 1e18
    y = log1p(huge.select(x, grown)) + huge.select(x.like(LN2), 0.0)
    return (x < 1.0).select(x.like(NAN), y)


_STEP, _GROWTH = 1.32659912109375, 3.7682063578329363
"""e**_STEP, which is close to a float of either width; what is _STEP less than a float far out is a float too."""


def hyperbolic(x: Value, function: Unary) -> Value:
    """sinh or cosh: far out, where SLEEF's overflow before the result does, e**_STEP times that a step further in."""
    far = x.abs() > (709.0 if x.is_double else 88.0)
    y = function(far.select(x - x.like(_STEP).copysign(x), x))
    return far.select(y * _GROWTH, y)


def erfinv(y: Value, call: Callable[[str, Value], Value]) -> Value:
    """The x with erf(x) = y: a rational guess as in ATen's calc_erfinv, good to 4e-4, then Halley's method twice."""
    size = y.abs()
    square = y * y
    near = size * square.poly(-0.140543331, 0.914624893, -1.645349621, 0.886226899)
    near = near / square.poly(0.012229801, -0.329097515, 1.442710462, -2.118377725, 1.0)
    rest = 1.0 - size
    z = (-call("log", rest * 0.5)).sqrt()
    far = z.poly(1.641345311, 3.429567803, -1.624906493, -1.970840454) / z.poly(1.637067800, 3.543889200, 1.0)
    x = (size < 0.7).select(near, far)
    for _ in range(2):
        # Near 1 the difference is taken from the other side, where it keeps its digits.
        error = (size < 0.5).select(call("erf", x) - size, rest - call("erfc", x))
        step = error * (PI**0.5 / 2) * call("exp", x * x)
        x = x - step / x.fma(step, 1.0)
    return size.equals(1.0).select(y * INF, x.copysign(y))


def erfinv_single(y: Value, log: Unary, exp: Unary, call: Callable[[str, Value], Value]) -> Value:
    """`erfinv` of f32: M. Giles' approximation in w = -log(1 - y**2), good to 4 ulp, then one step of Newton in f64."""
    w = -log((1.0 - y) * (y + 1.0))
    near, far = w - 2.5, w.sqrt() - 3.0
    p = near.poly(
        *(2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 2.1858087e-4),
        *(-1.25372503e-3, -4.17768164e-3, 0.246640727, 1.50140941),
    )
    q = far.poly(
        *(-2.00214257e-4, 1.00950558e-4, 1.34934322e-3, -3.67342844e-3, 5.73950773e-3),
        *(-7.6224613e-3, 9.43887047e-3, 1.00167406, 2.83297682),
    )
    x = (w < 5.0).select(p, q) * y
    slope, exact = exp(x * x).extend(), x.extend()
    better = exact - (call("erf", exact) - y.extend()) * (PI**0.5 / 2) * slope
    return y.abs().equals(1.0).select(y * INF, better.truncate(y.type))


_PSI_10 = 2.25175258906672110764


def digamma(x: Value, call: Callable[[str, Value], Value]) -> Value:
    """d/dx log(gamma(x)), as ATen's calc_digamma: reflection below 0, recurrence up to 10, a series above."""
    negative = x < 0.0
    whole = x.b.intrinsic("trunc", x)
    reflection = PI / call("tan", (x - whole) * PI)
    t = negative.select(1.0 - x, x)
    result = x.like(0.0)
    for _ in range(10):
        below = t < 10.0
        result = result - below.select(1.0 / t, 0.0)
        t = below.select(t + 1.0, t)
    inverse = 1.0 / (t * t)
    series = inverse * inverse.poly(
        *(8.33333333333333333333e-2, -2.10927960927960927961e-2, 7.57575757575757575758e-3),
        *(-4.16666666666666666667e-3, 3.96825396825396825397e-3, -8.33333333333333333333e-3, 8.33333333333333333333e-2),
    )
    y = call("log", t) - 0.5 / t - series + result
    y = t.equals(10.0).select(result + _PSI_10, y)
    y = negative.select(whole.equals(x).select(x.like(NAN), y - reflection), y)
    return x.equals(0.0).select(x.like(INF).copysign(-x), y)
