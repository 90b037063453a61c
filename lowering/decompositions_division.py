"""Quotients that are rounded to whole numbers, and what they leave over."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from ..dialects import prims
from ..dialects.prims import Number
from .decomposition import pointwise
from .prims_builder import Value


@pointwise("aten.div.Tensor_mode", "aten.div.Scalar_mode", rounded=(0,))
def div_mode(a: Value, b: Value | Number, rounding_mode: str | None) -> Any:
    if rounding_mode is None:
        return a / b
    if rounding_mode == "floor":
        return floor_divide(a, b)
    return (a / b).trunc() if a.is_float else _divided(prims.DivTruncOp, a, b)


def _divided(op: type[prims.IntegerDivisionOp], a: Value, b: Value | Number) -> Value:
    """Of whole numbers and b = 0 only GPUs give a result."""
    checked = not a.is_float and a.type.device == "cpu"
    return a.binary(partial(op.make, message="RuntimeError: ZeroDivisionError" if checked else None), b)


@pointwise("aten.floor_divide", "aten.floor_divide.Scalar", rounded=(0,))
def floor_divide(a: Value, b: Value | Number) -> Any:
    """floor(a / b); of floats so that `a = b * q + remainder` holds, as c10's div_floor_floating."""
    if not a.is_float:
        return _divided(prims.DivFloorOp, a, b)
    a, d = a.align(b)
    modulo = a.binary(prims.RemOp.make, d)
    quotient = (a - modulo) / d
    quotient = (modulo.ne(0.0) & (modulo < 0.0).ne(d < 0.0)).where(quotient - 1.0, quotient)
    floored = quotient.floor()
    floored = (quotient - floored > 0.5).where(floored + 1.0, floored)
    whole = a / d
    zero = whole.full(0.0).binary(prims.CopysignOp.make, whole)
    too_large = whole.abs().eq(math.inf) & a.abs().ne(math.inf)  # also by 0; the remainder may be NaN there
    return too_large.where(whole, d.eq(0.0).where(whole, quotient.eq(0.0).where(zero, floored)))


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
