"""Powers of reals, with ATen's results for infinities, zeros and negative numbers."""

from __future__ import annotations

import math
from typing import Any

import sympy

from ..dialects import prims
from ..dialects.prims import Number
from ..dialects.tensor import HALVES
from .decomposition import Call, as_half, fit, pointwise, rule
from .prims_builder import Value
from .promotion import opmath
from .steps import step


@pointwise("aten.pow.Tensor_Tensor", rounded=(0, 1))
def pow_tensor(a: Value, b: Value) -> Value:
    return a.binary(prims.PowOp.make, b)


@pointwise("aten.pow.Scalar", rounded=(0, 1))
def pow_scalar(a: Value | Number, b: Value) -> Value:
    return b.full(a).binary(prims.PowOp.make, b)


@rule("aten.pow.Tensor_Scalar", elementwise=True)
def pow_of_number(call: Call, x: Value, exponent: Number | complex) -> Any:
    """Of a half the exponent is one too. The root of f16 is a power on CPUs, of -inf and of -0.0 too."""
    if isinstance(exponent, complex):
        return NotImplemented
    t = call.type
    if t.dtype in HALVES:
        exponent = as_half(call, exponent)
    x, power = (fit(call.b, a, "", t, opmath(t.dtype)) for a in (x, exponent))
    if power in (0.5, -0.5) and t.dtype == "f16" and t.device == "cpu":
        x = x.eq(-math.inf).where(math.inf, x.eq(0.0).where(0.0, x))
    return pow_number(x, power, t.dtype)


def pow_number(x: Value, exponent: Number, dtype: str) -> Value:
    """The exponents that ATen computes without pow are computed so here; those of bf16 in its steps."""
    dtype = dtype if dtype == "bf16" else x.dtype
    if isinstance(exponent, sympy.Expr):
        return x.binary(prims.PowOp.make, exponent)
    if exponent == 0:
        return x.full(1)
    if exponent == 1:
        return x
    if exponent == 2:
        return x * x
    if exponent == 3:
        return step(x * x, dtype) * x
    if not x.is_float:
        return x.binary(prims.PowOp.make, exponent)
    if exponent == 0.5:
        return x.sqrt()
    if exponent == -0.5:
        return x.sqrt().reciprocal()
    if exponent == -1:
        return x.reciprocal()
    if exponent == -2:
        return step(x * x, dtype).reciprocal()
    return x.binary(prims.PowOp.make, exponent)


@rule("aten.ldexp.Tensor", elementwise=True)
def ldexp(call: Call, x: Value | Number, exponent: Value | Number) -> Value:
    """x * 2^exponent. The power of a whole exponent may be out of range where the result is not, which matters for
    floats: it is one of f64, for f64 in parts, the last of which rounds.
    """
    t, dtype = call.type, opmath(call.type.dtype)
    if not isinstance(exponent, Value) or exponent.is_float or (isinstance(x, Value) and not x.is_float):
        y, n = (fit(call.b, v, "Tensor", t, dtype) for v in (x, exponent))
        return y * n.unary(prims.Exp2Op.make)
    y, n = (fit(call.b, v, "Tensor", t, "f64") for v in (x, exponent))
    parts: list[Value] = []
    for _ in range(3 if dtype == "f64" else 1):
        parts.append(n.maximum(-1000.0).minimum(1000.0))
        n = n - parts[-1]
    for part in reversed(parts):
        y = y * part.unary(prims.Exp2Op.make)
    return y
