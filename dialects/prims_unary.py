"""Elementwise ops of `prims` with one operand, the x of the equations."""

from __future__ import annotations

from typing import ClassVar

from xdsl.irdl import irdl_op_definition

from .prims_elementwise import INTEGER, FloatUnaryOp, PredicateOp, UnaryOp


@irdl_op_definition
class NegOp(UnaryOp):
    """result = -x."""

    name = "prims.neg"


@irdl_op_definition
class AbsOp(UnaryOp):
    """result = |x|."""

    name = "prims.abs"


@irdl_op_definition
class SignOp(UnaryOp):
    """-1, 0 or 1 as x is below, equal to or above 0; 0 for NaN."""

    name = "prims.sign"


@irdl_op_definition
class ExpOp(FloatUnaryOp):
    """result = e^x."""

    name = "prims.exp"


@irdl_op_definition
class Exp2Op(FloatUnaryOp):
    """result = 2^x."""

    name = "prims.exp2"


@irdl_op_definition
class Expm1Op(FloatUnaryOp):
    """result = e^x - 1, accurate near 0."""

    name = "prims.expm1"


@irdl_op_definition
class LogOp(FloatUnaryOp):
    """Natural logarithm; NaN below 0, -inf at 0."""

    name = "prims.log"


@irdl_op_definition
class Log2Op(FloatUnaryOp):
    """Logarithm to base 2."""

    name = "prims.log2"


@irdl_op_definition
class Log10Op(FloatUnaryOp):
    """Logarithm to base 10."""

    name = "prims.log10"


@irdl_op_definition
class Log1pOp(FloatUnaryOp):
    """result = log(1 + x), accurate near 0."""

    name = "prims.log1p"


@irdl_op_definition
class SqrtOp(FloatUnaryOp):
    """Square root, correctly rounded; NaN below 0."""

    name = "prims.sqrt"


@irdl_op_definition
class RsqrtOp(FloatUnaryOp):
    """result = 1 / sqrt(x)."""

    name = "prims.rsqrt"


@irdl_op_definition
class ReciprocalOp(FloatUnaryOp):
    """result = 1 / x."""

    name = "prims.reciprocal"


@irdl_op_definition
class SinOp(FloatUnaryOp):
    """Sine."""

    name = "prims.sin"


@irdl_op_definition
class CosOp(FloatUnaryOp):
    """Cosine."""

    name = "prims.cos"


@irdl_op_definition
class TanOp(FloatUnaryOp):
    """Tangent."""

    name = "prims.tan"


@irdl_op_definition
class AsinOp(FloatUnaryOp):
    """Inverse sine; NaN outside of [-1, 1]."""

    name = "prims.asin"


@irdl_op_definition
class AcosOp(FloatUnaryOp):
    """Inverse cosine; NaN outside of [-1, 1]."""

    name = "prims.acos"


@irdl_op_definition
class AtanOp(FloatUnaryOp):
    """Inverse tangent."""

    name = "prims.atan"


@irdl_op_definition
class SinhOp(FloatUnaryOp):
    """Hyperbolic sine."""

    name = "prims.sinh"


@irdl_op_definition
class CoshOp(FloatUnaryOp):
    """Hyperbolic cosine."""

    name = "prims.cosh"


@irdl_op_definition
class TanhOp(FloatUnaryOp):
    """Hyperbolic tangent."""

    name = "prims.tanh"


@irdl_op_definition
class AsinhOp(FloatUnaryOp):
    """Inverse hyperbolic sine."""

    name = "prims.asinh"


@irdl_op_definition
class AcoshOp(FloatUnaryOp):
    """Inverse hyperbolic cosine; NaN below 1."""

    name = "prims.acosh"


@irdl_op_definition
class AtanhOp(FloatUnaryOp):
    """Inverse hyperbolic tangent; NaN outside of [-1, 1]."""

    name = "prims.atanh"


@irdl_op_definition
class ErfOp(FloatUnaryOp):
    """result = 2/sqrt(pi) * integral of e^(-t^2) from 0 to x."""

    name = "prims.erf"


@irdl_op_definition
class ErfcOp(FloatUnaryOp):
    """result = 1 - erf(x), accurate for large x."""

    name = "prims.erfc"


@irdl_op_definition
class ErfinvOp(FloatUnaryOp):
    """The inverse of erf; NaN outside of [-1, 1]."""

    name = "prims.erfinv"


@irdl_op_definition
class LgammaOp(FloatUnaryOp):
    """Logarithm of |gamma(x)|."""

    name = "prims.lgamma"


@irdl_op_definition
class DigammaOp(FloatUnaryOp):
    """Derivative of lgamma."""

    name = "prims.digamma"


@irdl_op_definition
class FloorOp(FloatUnaryOp):
    """Largest integer not above x."""

    name = "prims.floor"


@irdl_op_definition
class CeilOp(FloatUnaryOp):
    """Smallest integer not below x."""

    name = "prims.ceil"


@irdl_op_definition
class TruncOp(FloatUnaryOp):
    """The integer part, towards 0."""

    name = "prims.trunc"


@irdl_op_definition
class RoundOp(FloatUnaryOp):
    """Nearest integer, halves to even."""

    name = "prims.round"


@irdl_op_definition
class IsnanOp(PredicateOp):
    """Whether x is NaN."""

    name = "prims.isnan"


@irdl_op_definition
class IsinfOp(PredicateOp):
    """Whether x is inf or -inf."""

    name = "prims.isinf"


@irdl_op_definition
class SignbitOp(PredicateOp):
    """Whether the sign bit is set (-0.0 and negative NaN too)."""

    name = "prims.signbit"


@irdl_op_definition
class NotOp(UnaryOp):
    """Logical negation of i1, bitwise of integers."""

    name = "prims.not"
    ACCEPTS: ClassVar[str] = INTEGER
