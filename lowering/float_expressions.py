"""Floats that a program computes of floats it reads: expressions as tensors of rank 0."""

from __future__ import annotations

from typing import cast

import sympy
from torch.utils._sympy.functions import FloatPow, FloatTrueDiv, IntTrueDiv, ToFloat

from ..dialects import prims
from ..dialects.tensor import TensorType
from .prims_builder import Builder, Value
from .size_code import has_code

_FLOAT_ARITHMETIC = (sympy.Add, sympy.Mul, IntTrueDiv, FloatTrueDiv, ToFloat)


def float_tensor(b: Builder, e: sympy.Expr) -> Value | None:
    """An expression over `b.floats` and sizes as a tensor of rank 0, in f64: sums, products, quotients and powers of
    these and of numbers. None for others.
    """
    if e in b.floats:
        return b.floats[cast(sympy.Symbol, e)].reshape(()).to("f64")
    if e.is_number or has_code(e):
        return b.full(float(e) if e.is_number else e, TensorType.get((), "f64"))
    if isinstance(e, (sympy.Pow, FloatPow)) and e.args[1].is_number:
        base, exponent = cast("tuple[sympy.Expr, sympy.Expr]", e.args)
        value = float_tensor(b, base)
        return None if value is None else value.binary(prims.PowOp.make, float(exponent))
    parts = [float_tensor(b, cast(sympy.Expr, a)) for a in e.args] if isinstance(e, _FLOAT_ARITHMETIC) else []
    first, *rest = parts or [None]
    if first is None or any(part is None for part in rest):
        return None
    for part in cast("list[Value]", rest):
        quotient = isinstance(e, (IntTrueDiv, FloatTrueDiv))
        first = first / part if quotient else first + part if isinstance(e, sympy.Add) else first * part
    return first
