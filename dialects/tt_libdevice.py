"""The names of CUDA's libdevice: `__nv_tanh` is of f64 and `__nv_tanhf` of f32, and so for each of these.

Triton checks no types of such calls: with others they give wrong numbers.
"""

from __future__ import annotations

from xdsl.dialects.builtin import f32, f64
from xdsl.ir import Attribute

_NAMES = """
    acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh cospi cyl_bessel_i0 cyl_bessel_i1 erf erfc
    erfcinv erfcx erfinv exp exp10 exp2 expm1 fabs fdim floor fma fmax fmin fmod hypot j0 j1 ldexp lgamma log
    log10 log1p log2 logb nearbyint nextafter normcdf normcdfinv pow powi rcbrt remainder rint round rsqrt sin
    sinh sinpi sqrt tan tanh tgamma trunc y0 y1
"""

FLOAT_FUNCTIONS = frozenset(_NAMES.split())


def operand_of(symbol: str) -> Attribute | None:
    """The type of the first operand of `symbol`; None if it is not in the table."""
    name = symbol.removeprefix("__nv_")
    if name == symbol:
        return None
    if name in FLOAT_FUNCTIONS:
        return f64
    return f32 if name.endswith("f") and name[:-1] in FLOAT_FUNCTIONS else None
