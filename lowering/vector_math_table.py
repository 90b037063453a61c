"""Math functions on f32 by a table in registers: a polynomial of low degree about one of sixteen places.

One permutation picks a coefficient for each of 16 lanes (AVX-512's vpermps), beside the fused multiply-adds of Horner's
rule: half the work of a polynomial that holds everywhere.
"""

from collections.abc import Callable

from .vector_math_calls import concatenate, lanes_of_value, resize
from .vector_value import Value

LANES = 16

_STEP = 65 / 256
"""The distance of the places: its products with small integers are exact."""

_ROUNDER = 12582912.0
"""1.5 * 2**23: added to a small float it leaves the nearest integer in the low bits of the sum."""


def has_tables(x: Value) -> bool:
    """Whether the target permutes 16 floats in one instruction."""
    return x.b.target.has_avx512 and not x.is_double


def in_registers(x: Value, function: Callable[[Value], Value]) -> Value:
    """A function of 16 lanes for any number of them: a value has one result whatever the code around it."""
    if x.width <= LANES:
        return resize(function(resize(x, LANES)), x.width)
    parts = [lanes_of_value(x, range(at, at + LANES)) for at in range(0, x.width, LANES)]
    return concatenate([function(part) for part in parts])


def erf(x: Value) -> Value:
    """The error function; 0.9 ulp.

    |x| = n * step + t;  erf(|x|) = c0 + (t + c0' + t * (c1 - 1 + t * (c2 + … )))
    """
    return in_registers(x, _erf)


def _erf(x: Value) -> Value:
    size = x.abs().at_most(3.93)
    rounded = size.fma(1 / _STEP, _ROUNDER)
    t = (rounded - _ROUNDER).fma(-_STEP, size)
    place = rounded.bits()
    high, low, *rest = (x.b.table(c, x.type).picked(place) for c in _ERF)
    slope = rest[-1]
    for c in reversed(rest[:-1]):
        slope = slope.fma(t, c)
    return (high + slope.fma(t, t + low)).copysign(x)


# Fitted by least squares on Chebyshev nodes, relative to erf: its values at n * step in two parts, its derivative there
# less 1, and the coefficients of t**2 to t**6.
_ERF = (
    (
        0,
        0.28046301,
        0.527338505,
        0.718623817,
        0.849086046,
        0.927408159,
        0.968796372,
        0.988047481,
        0.995929182,
        0.998769462,
        0.999670327,
        0.999921799,
        0.999983609,
        0.99999696,
        0.999999523,
        0.99999994,
    ),
    (
        0,
        -1.81723436e-09,
        -2.55481911e-08,
        -8.74760353e-09,
        -1.13199832e-08,
        -1.21964012e-08,
        -2.00053965e-08,
        2.03786676e-08,
        7.18093363e-10,
        -2.83341066e-08,
        -2.08193427e-08,
        2.50947396e-09,
        -1.32056908e-08,
        -1.47985746e-09,
        -2.11485851e-08,
        -1.23722685e-08,
    ),
    (
        0.128379166,
        0.0579296611,
        -0.128109381,
        -0.368358433,
        -0.597762227,
        -0.774836242,
        -0.889205635,
        -0.952077448,
        -0.981779277,
        -0.993910313,
        -0.998210907,
        -0.999538004,
        -0.999895096,
        -0.999979079,
        -0.999996305,
        -0.999999464,
    ),
    (
        -3.06647436e-08,
        -0.268614858,
        -0.442756951,
        -0.481133223,
        -0.408522755,
        -0.285852432,
        -0.168788254,
        -0.0851748884,
        -0.0370108932,
        -0.0139159095,
        -0.00454257475,
        -0.00129042065,
        -0.000319565559,
        -6.90821398e-05,
        -1.30496192e-05,
        -2.15581872e-06,
    ),
    (
        -0.376123577,
        -0.307171017,
        -0.140739888,
        0.0337740555,
        0.142521366,
        0.166877165,
        0.134495288,
        0.0849505141,
        0.0440460183,
        0.0191702154,
        0.00709275855,
        0.00224858895,
        0.000614078424,
        0.000145008336,
        2.96908365e-05,
        5.28234978e-06,
    ),
    (
        -9.48403904e-05,
        0.128519237,
        0.183318764,
        0.14751555,
        0.0638014153,
        -0.0106422249,
        -0.0461834073,
        -0.0471006744,
        -0.0323970988,
        -0.0172650125,
        -0.00749052037,
        -0.00271013728,
        -0.000829065451,
        -0.000216322747,
        -4.84302909e-05,
        -9.3429926e-06,
    ),
    (
        0.114281483,
        0.0786554888,
        0.00515343249,
        -0.0545549504,
        -0.0682657808,
        -0.0445798859,
        -0.0123494109,
        0.00783516467,
        0.0130243013,
        0.0100183273,
        0.00549674453,
        0.0023703808,
        0.000835874875,
        0.000246075651,
        6.12355943e-05,
        1.29867158e-05,
    ),
    (
        -0.0101463422,
        -0.0401321538,
        -0.0494903065,
        -0.0254234765,
        0.00601917552,
        0.0215532202,
        0.0184534788,
        0.00785232615,
        -0.000185724304,
        -0.00300760986,
        -0.00263445615,
        -0.00147163612,
        -0.000622149848,
        -0.000210981307,
        -5.90188429e-05,
        -1.38390669e-05,
    ),
)
