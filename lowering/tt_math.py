"""Math functions on tiles of f32 and f64: Triton's own ops where they are as exact as torch's, else libdevice.

What torch computes with CUDA's math library comes from the same library here. `math.exp` would be `ex2.approx` and
`arith.divf` an approximation; several ops of `math` Triton does not know for tensors at all.
"""

from __future__ import annotations

import math as numbers
from collections.abc import Callable, Mapping

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import BoolAttr, Float64Type, FloatAttr, IntegerType, StringAttr, f64
from xdsl.ir import Attribute, Operation, SSAValue

from ..dialects import tt
from ..dialects.tt_types import element_of
from .tt_builder import TtBuilder
from .tt_random import RANDOM

Function = Callable[..., SSAValue]


def is_double(x: SSAValue) -> bool:
    return isinstance(element_of(x.type), Float64Type)


def libdevice(b: TtBuilder, name: str, *operands: SSAValue, result: Attribute | None = None) -> SSAValue:
    """`__nv_<name>` of f64, `__nv_<name>f` of f32."""
    return external(b, f"__nv_{name}{'' if is_double(operands[0]) else 'f'}", *operands, result=result)


def external(b: TtBuilder, symbol: str, *operands: SSAValue, result: Attribute | None = None) -> SSAValue:
    """A function of libdevice, or an intrinsic of LLVM."""
    properties: dict[str, Attribute] = {
        "libname": StringAttr(""),
        "libpath": StringAttr(""),
        "symbol": StringAttr(symbol),
        "pure": BoolAttr.from_bool(True),
    }
    element = element_of(operands[0].type) if result is None else result
    return b.elementwise(tt.ExternElementwiseOp, operands, element, properties)


def _library(name: str) -> Function:
    return lambda b, *x: libdevice(b, name, *x)


def _op(cls: type[Operation]) -> Function:
    return lambda b, *x: b.float(cls, *x)


def negate(b: TtBuilder, x: SSAValue) -> SSAValue:
    """-0.0 - x: of tensors there is no arith.negf."""
    return b.float(arith.SubfOp, b.constant(-0.0, element_of(x.type)), x)


def subtract(b: TtBuilder, x: SSAValue, y: SSAValue) -> SSAValue:
    """x - y. Of one value it is 0 or NaN: a product that is subtracted from itself would be what rounding took from it,
    as ptxas makes one instruction of a product and a difference.
    """
    if x is not y:
        return b.float(arith.SubfOp, x, y)
    zero = b.constant(0.0, element_of(x.type))
    return b.float(arith.AddfOp, b.float(arith.MulfOp, x, zero), zero)


def divide(b: TtBuilder, x: SSAValue, y: SSAValue) -> SSAValue:
    """x / y, correctly rounded."""
    if isinstance(y.owner, arith.ConstantOp) and isinstance(one := y.owner.value, FloatAttr) and one.value.data == 1.0:
        return x
    return b.float(arith.DivfOp, x, y) if is_double(x) else b.elementwise(tt.PreciseDivFOp, (x, y))


def sqrt(b: TtBuilder, x: SSAValue) -> SSAValue:
    """Correctly rounded."""
    return b.float(math.SqrtOp, x) if is_double(x) else b.elementwise(tt.PreciseSqrtOp, (x,))


def _rsqrt(b: TtBuilder, x: SSAValue) -> SSAValue:
    """1 / sqrt(x): the hardware's approximation is 2 units off, which every element of a normalized row would be."""
    return divide(b, b.constant(1.0, element_of(x.type)), sqrt(b, x))


def bits(b: TtBuilder, x: SSAValue) -> SSAValue:
    """A float's bits as an integer."""
    width = element_of(x.type).bitwidth  # pyright: ignore
    return b.cast(tt.BitcastOp, x, IntegerType(width))


def is_nan(b: TtBuilder, x: SSAValue) -> SSAValue:
    return b.compare("uno", x, x)


_PSI_10 = 2.25175258906672110764


def _digamma(b: TtBuilder, x: SSAValue) -> SSAValue:
    """d/dx log(gamma(x)) in f64, as ATen's calc_digamma: reflection below 0, recurrence up to 10, a series above."""
    if not is_double(x):
        return b.cast(arith.TruncFOp, _digamma(b, b.cast(arith.ExtFOp, x, f64)), element_of(x.type))

    def c(value: float) -> SSAValue:
        return b.constant(value, f64)

    def mul(u: SSAValue, v: SSAValue) -> SSAValue:
        return b.float(arith.MulfOp, u, v)

    def add(u: SSAValue, v: SSAValue) -> SSAValue:
        return b.float(arith.AddfOp, u, v)

    def sub(u: SSAValue, v: SSAValue) -> SSAValue:
        return b.float(arith.SubfOp, u, v)

    negative = b.compare("olt", x, c(0.0))
    whole = libdevice(b, "trunc", x)
    reflection = divide(b, c(numbers.pi), libdevice(b, "tan", mul(sub(x, whole), c(numbers.pi))))
    t = b.select(negative, sub(c(1.0), x), x)
    result = c(0.0)
    for _ in range(10):
        below = b.compare("olt", t, c(10.0))
        result = sub(result, b.select(below, divide(b, c(1.0), t), c(0.0)))
        t = b.select(below, add(t, c(1.0)), t)
    inverse = divide(b, c(1.0), mul(t, t))
    terms = (
        *(8.33333333333333333333e-2, -2.10927960927960927961e-2, 7.57575757575757575758e-3),
        *(-4.16666666666666666667e-3, 3.96825396825396825397e-3, -8.33333333333333333333e-3, 8.33333333333333333333e-2),
    )
    series = c(terms[0])
    for term in terms[1:]:
        series = add(mul(series, inverse), c(term))
    log = sub(b.float(math.LogOp, t), divide(b, c(0.5), t))
    y = add(sub(log, mul(inverse, series)), result)
    y = b.select(b.compare("oeq", t, c(10.0)), add(result, c(_PSI_10)), y)
    pole = b.select(b.compare("oeq", whole, x), c(numbers.nan), sub(y, reflection))
    y = b.select(negative, pole, y)
    return b.select(b.compare("oeq", x, c(0.0)), _signed_infinity(b, x), y)


def _signed_infinity(b: TtBuilder, x: SSAValue) -> SSAValue:
    """Infinity of the sign that x has not."""
    least = b.compare("slt", bits(b, x), b.constant(0, bits_type(x)))
    return b.select(least, b.constant(numbers.inf, element_of(x.type)), b.constant(-numbers.inf, element_of(x.type)))


def bits_type(x: SSAValue) -> IntegerType:
    return IntegerType(element_of(x.type).bitwidth)  # pyright: ignore


_SAME = ("expm1", "exp2", "log10", "log1p", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh",
         "atanh", "atan2", "erfc", "erfinv", "lgamma", "trunc", "copysign", "nextafter", "fmod", "erfcx", "j0", "j1",
         "y0", "y1", "cbrt", "round", "pow", "exp")  # fmt: skip
"""Names that libdevice and the loop level share."""

MATH: Mapping[str, Function] = {
    **{name: _library(name) for name in _SAME},
    **{name: _op(cls) for name, cls in {
        "log": math.LogOp, "log2": math.Log2Op, "sin": math.SinOp, "cos": math.CosOp, "erf": math.ErfOp,
        "floor": math.FloorOp, "ceil": math.CeilOp, "fabs": math.AbsFOp,
    }.items()},
    "sqrt": sqrt,
    "rsqrt": _rsqrt,
    "roundeven": _library("rint"),
    "digamma": _digamma,
    "i0": _library("cyl_bessel_i0"),
    "i1": _library("cyl_bessel_i1"),
    "ndtri": _library("normcdfinv"),
    "fma": _library("fma"),
    **RANDOM,
}  # fmt: skip
"""Every function there is."""
