"""Floats that a program computes of floats it reads: expressions as tensors of rank 0, where kernels read them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import sympy
from torch.utils._sympy.functions import FloatPow, FloatTrueDiv, IntTrueDiv, ToFloat
from xdsl.dialects.builtin import LocationAttr
from xdsl.ir import SSAValue

from ..dialects import prims
from ..dialects.aten import AtenOp, lookup
from ..dialects.tensor import TensorType
from .prims_builder import Builder, Value
from .size_code import has_code

_FLOAT_ARITHMETIC = (sympy.Add, sympy.Mul, IntTrueDiv, FloatTrueDiv, ToFloat)
_FUNCTIONS = {
    **{"OpaqueUnaryFn_sqrt": prims.SqrtOp, "OpaqueUnaryFn_log2": prims.Log2Op, "OpaqueUnaryFn_sin": prims.SinOp},
    **{"OpaqueUnaryFn_cos": prims.CosOp, "OpaqueUnaryFn_tanh": prims.TanhOp, "Abs": prims.AbsOp},
}
"""Of Python's `math`, and `abs`, by what torch calls them in an expression."""


def float_tensor(b: Builder, e: sympy.Expr, device: str) -> Value | None:
    """An expression over `b.floats` and sizes as a tensor of rank 0 on a device, in f64: sums, products, quotients,
    powers and `_FUNCTIONS` of these and of numbers. None for others.
    """
    if (known := b.floats.get((cast(sympy.Symbol, e), device))) is not None:
        return known.reshape(()).to("f64")
    if e.is_number or has_code(e):
        return b.full(float(e) if e.is_number else e, TensorType.get((), "f64", None, device))
    if isinstance(e, (sympy.Pow, FloatPow)) and e.args[1].is_number:
        base, exponent = cast("tuple[sympy.Expr, sympy.Expr]", e.args)
        value = float_tensor(b, base, device)
        return None if value is None else value.binary(prims.PowOp.make, float(exponent))
    if (function := _FUNCTIONS.get(type(e).__name__)) is not None:
        value = float_tensor(b, cast(sympy.Expr, e.args[0]), device)
        return None if value is None else value.unary(function.make)
    parts = [float_tensor(b, cast(sympy.Expr, a), device) for a in e.args] if isinstance(e, _FLOAT_ARITHMETIC) else []
    first, *rest = parts or [None]
    if first is None or any(part is None for part in rest):
        return None
    for part in cast("list[Value]", rest):
        quotient = isinstance(e, (IntTrueDiv, FloatTrueDiv))
        first = first / part if quotient else first + part if isinstance(e, sympy.Add) else first * part
    return first


def note_float(b: Builder, symbol: sympy.Symbol, number: SSAValue, devices: Sequence[str]) -> None:
    """That a float is the element of `number`, and of copies of it that kernels of other devices can read."""
    own = cast(TensorType, number.type).device
    for device in devices:
        value = number
        if device != own:
            b.ops.append(copy := copied(number, device, b.location))
            value = copy.results[0]
        b.floats[symbol, device] = Value(b, value)


def copied(v: SSAValue, device: str, location: LocationAttr | None) -> AtenOp:
    """A tensor on another device."""
    t, cls = cast(TensorType, v.type), lookup("aten._to_copy")
    assert cls is not None
    given = {"self": v, "device": device}
    arguments = [given.get(a.name, a.default) for a in cls.schema.args]
    return cls.call(arguments, [TensorType.get(t.shape, t.dtype, None, device)], location)
