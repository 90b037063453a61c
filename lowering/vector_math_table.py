"""Math functions on f32 by a table in registers: a polynomial of low degree about one of sixteen places.

One permutation picks a coefficient for each of 16 lanes (AVX-512's vpermps), beside the fused multiply-adds of Horner's
rule: half the work of a polynomial that holds everywhere.
"""

from collections.abc import Callable

from .vector_math_calls import concatenate, lanes_of_value, resize
from .vector_value import Value

LANES = 16

_STEP = 17 / 64
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
    """The error function; 0.8 ulp.

    |x| = n * step + t;  erf(|x|) = c0 + (t + c0' + t * (c1 - 1 + t * (c2 + … )))
    """
    return in_registers(x, _erf)


def _erf(x: Value) -> Value:
    size = x.abs().at_most(4.1)  # where erf is 1
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
        0.292823255,
        0.547528446,
        0.740236998,
        0.867058277,
        0.939653337,
        0.975797713,
        0.99145031,
        0.997345984,
        0.999277413,
        0.999827683,
        0.999964058,
        0.999993443,
        0.999998987,
        0.999999881,
        1,
    ),
    (
        0,
        -1.40973899e-08,
        -3.09793746e-10,
        -1.346395e-08,
        -7.68283126e-09,
        1.64133418e-08,
        7.78713183e-09,
        -2.15121876e-08,
        -1.33426523e-08,
        -2.13823625e-08,
        1.40427332e-08,
        3.84685439e-09,
        6.36022346e-09,
        -2.9144104e-08,
        -2.55475925e-08,
        -1.75305157e-08,
    ),
    (
        0.128379166,
        0.0515082777,
        -0.149086088,
        -0.40203765,
        -0.635097086,
        -0.806626916,
        -0.911012292,
        -0.964438558,
        -0.987659156,
        -0.996281028,
        -0.999026775,
        -0.999778807,
        -0.999956369,
        -0.999992549,
        -0.999998868,
        -0.999999881,
    ),
    (
        -3.8359218e-08,
        -0.279306799,
        -0.452048004,
        -0.476501256,
        -0.387709349,
        -0.256823659,
        -0.141824186,
        -0.0661220625,
        -0.0262242425,
        -0.00889068749,
        -0.00258516357,
        -0.000646236236,
        -0.00013912523,
        -2.58291147e-05,
        -4.13953376e-06,
        -5.73175669e-07,
    ),
    (
        -0.376123011,
        -0.301038206,
        -0.123539746,
        0.0538153499,
        0.15298973,
        0.162938148,
        0.121027246,
        0.0701113865,
        0.0330379158,
        0.0129298242,
        0.00425329572,
        0.00118496001,
        0.000281033048,
        5.69474723e-05,
        9.88618285e-06,
        1.47337801e-06,
    ),
    (
        -0.000108425731,
        0.133066922,
        0.18349655,
        0.137392983,
        0.0479622595,
        -0.0225913748,
        -0.0491673052,
        -0.0431402735,
        -0.0263613723,
        -0.0124918912,
        -0.0047874325,
        -0.0015158765,
        -0.000401577418,
        -8.97318823e-05,
        -1.70070816e-05,
        -2.74522995e-06,
    ),
    (
        0.114415832,
        0.0757165104,
        -0.00169175153,
        -0.0593548194,
        -0.0658936575,
        -0.036868576,
        -0.00514740217,
        0.0108947316,
        0.0124375196,
        0.00807198696,
        0.00383166107,
        0.00143094873,
        0.00043437854,
        0.000109120898,
        2.29388443e-05,
        4.06541767e-06,
    ),
    (
        -0.0106056836,
        -0.0413656868,
        -0.0483673401,
        -0.0208283104,
        0.0104407771,
        0.0221785009,
        0.0157178342,
        0.00470375875,
        -0.00177245529,
        -0.00307727046,
        -0.00209744764,
        -0.000979987439,
        -0.000350774731,
        -0.000100542515,
        -2.36138312e-05,
        -4.60760293e-06,
    ),
)
