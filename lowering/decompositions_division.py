"""Quotients that are rounded to whole numbers, and what they leave over."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from ..dialects import prims
from ..dialects.prims import Number
from .decomposition import Call, as_half, fit, pointwise, rule
from .prims_builder import Value
from .promotion import opmath
from .steps import rounded


def _quotient(*names: str) -> Callable[[Callable[..., Value]], Callable[..., Value]]:
    """Registers `function(a, b, dtype, ...)`: a digit more could make another whole number, so each step is rounded to
    that dtype as in eager, of halves their own, but for a divisor that is one number.
    """

    def register(function: Callable[..., Value]) -> Callable[..., Value]:
        def lowered(call: Call, a: Value | Number, b: Value | Number, *rest: Any) -> Any:
            if isinstance(a, complex) or isinstance(b, complex):
                return NotImplemented
            t, computed = call.type, opmath(call.type.dtype)
            one = not isinstance(b, Value) or all(d == 1 for d in b.shape)
            if computed != t.dtype:
                a, b = as_half(call, a), b if one else as_half(call, b)
            x, y = (fit(call.b, v, "Tensor", t, computed) for v in (a, b))
            return function(x, y, computed if one else t.dtype, *rest)

        rule(*names, elementwise=True)(lowered)
        return function

    return register


@_quotient("aten.div.Tensor_mode", "aten.div.Scalar_mode")
def div_mode(a: Value, b: Value, dtype: str, rounding_mode: str | None) -> Value:
    if rounding_mode is None:
        return a / b
    if rounding_mode == "floor":
        return floor_divide(a, b, dtype)
    return rounded(a / b, dtype).trunc() if a.is_float else _divided(prims.DivTruncOp, a, b)


def _divided(op: type[prims.IntegerDivisionOp], a: Value, b: Value | Number) -> Value:
    """Of whole numbers and b = 0 only GPUs give a result."""
    checked = not a.is_float and a.type.device == "cpu"
    return a.binary(partial(op.make, message="RuntimeError: ZeroDivisionError" if checked else None), b)


@_quotient("aten.floor_divide", "aten.floor_divide.Scalar")
def floor_divide(a: Value, b: Value, dtype: str) -> Value:
    """floor(a / b); of floats so that `a = b * q + remainder` holds, as c10's div_floor_floating."""
    if not a.is_float:
        return _divided(prims.DivFloorOp, a, b)
    modulo = a.binary(prims.RemOp.make, b)
    quotient = rounded(rounded(a - modulo, dtype) / b, dtype)
    below = modulo.ne(0.0) & (modulo < 0.0).ne(b < 0.0)
    quotient = below.where(rounded(quotient - 1.0, dtype), quotient)
    floored = quotient.floor()
    floored = (quotient - floored > 0.5).where(rounded(floored + 1.0, dtype), floored)
    whole = rounded(a / b, dtype)
    zero = whole.full(0.0).binary(prims.CopysignOp.make, whole)
    too_large = whole.abs().eq(math.inf) & a.abs().ne(math.inf)  # also by 0; the remainder may be NaN there
    return too_large.where(whole, b.eq(0.0).where(whole, quotient.eq(0.0).where(zero, floored)))


@pointwise("aten.fmod.Tensor", "aten.fmod.Scalar", rounded=(0, 1))
def fmod(a: Value, b: Value | Number) -> Value:
    return _divided(prims.RemOp, a, b)


@pointwise("aten.remainder.Scalar_Tensor", rounded=(0, 1))
def remainder_of_number(a: Value | Number, b: Value) -> Value:
    return remainder(b.full(a), b)


@pointwise("aten.remainder.Tensor", "aten.remainder.Scalar", rounded=(0, 1))
def remainder(a: Value, b: Value | Number) -> Value:
    """a - b * floor(a / b): the sign of b."""
    a, d = a.align(b)
    r = _divided(prims.RemOp, a, d)
    if a.dtype[0] == "u":
        return r
    return (r.ne(0) & (r < 0).ne(d < 0)).where(r + d, r)
