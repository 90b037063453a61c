"""Comparisons, logic, choices and clamps, elementwise."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from ..dialects import prims
from ..dialects.prims import CompareOp, Number
from .decomposition import Call, fit, operand_dtype, pointwise, rule
from .prims_builder import Value

COMPARISONS: Final[dict[str, type[CompareOp]]] = {
    "eq": prims.EqOp,
    "ne": prims.NeOp,
    "lt": prims.LtOp,
    "le": prims.LeOp,
    "gt": prims.GtOp,
    "ge": prims.GeOp,
    "not_equal": prims.NeOp,
    "less": prims.LtOp,
    "less_equal": prims.LeOp,
    "greater": prims.GtOp,
    "greater_equal": prims.GeOp,
}


def _comparison(op: type[CompareOp]) -> Callable[[Value, Value | Number], Value]:
    return lambda a, b: a.binary(op.make, b)


for _name, _op in COMPARISONS.items():
    pointwise(f"aten.{_name}.Tensor", f"aten.{_name}.Scalar", operands=True)(_comparison(_op))


def truth(x: Value) -> Value:
    """x != 0."""
    return x.to("i1")


@rule("aten.logical_and")
def logical_and(call: Call, a: Value, b: Value) -> Value:
    return _logical(call, a, b, prims.AndOp.make)


@rule("aten.logical_or")
def logical_or(call: Call, a: Value, b: Value) -> Value:
    return _logical(call, a, b, prims.OrOp.make)


@rule("aten.logical_xor")
def logical_xor(call: Call, a: Value, b: Value) -> Value:
    return _logical(call, a, b, prims.XorOp.make)


def _logical(call: Call, a: Value | Number, b: Value | Number, op: Callable[..., prims.PrimsOp]) -> Value:
    """Each operand as a truth value by itself, whatever the other's dtype."""
    t = call.type
    x, y = (fit(call.b, v, "Tensor", t, "i1") for v in (a, b))
    return x.binary(op, y)


@rule("aten.logical_not")
def logical_not(call: Call, x: Value) -> Value:
    return ~truth(x)


@pointwise("aten.isnan", operands=True)
def isnan(x: Value) -> Value:
    return x.isnan() if x.is_float else _false(x)


@pointwise("aten.isinf", operands=True)
def isinf(x: Value) -> Value:
    return x.isinf() if x.is_float else _false(x)


@pointwise("aten.isfinite", operands=True)
def isfinite(x: Value) -> Value:
    """|x| < inf, which is false for NaN."""
    return x.abs() < math.inf if x.is_float else ~_false(x)


@pointwise("aten.isposinf", operands=True)
def isposinf(x: Value) -> Value:
    return x.eq(math.inf) if x.is_float else _false(x)


@pointwise("aten.isneginf", operands=True)
def isneginf(x: Value) -> Value:
    return x.eq(-math.inf) if x.is_float else _false(x)


@pointwise("aten.signbit", operands=True)
def signbit(x: Value) -> Value:
    if x.is_float:
        return x.unary(prims.SignbitOp.make)
    return _false(x) if x.is_bool else x < 0


def _false(x: Value) -> Value:
    return x.b.full(False, x.type.with_(dtype="i1"))


# Choices


@rule("aten.where.self", "aten.where.ScalarSelf", "aten.where.ScalarOther", "aten.where.Scalar")
def where(call: Call, condition: Value, a: Value | Number, b: Value | Number) -> Value:
    t = call.type
    x, y = (v if isinstance(v, Value) else call.full(v) for v in (a, b))
    return condition.to("i1").expand(t.shape).where(x.to(t.dtype).expand(t.shape), y.to(t.dtype).expand(t.shape))


@rule("aten.masked_fill.Scalar", "aten.masked_fill.Tensor")
def masked_fill(call: Call, x: Value, mask: Value, value: Value | Number) -> Value:
    t = call.type
    filler = value.to(t.dtype).expand(t.shape) if isinstance(value, Value) else call.full(value)
    return mask.to("i1").expand(t.shape).where(filler, x.to(t.dtype).expand(t.shape))


# Extremes: results are exact, so nothing is computed in f32


def _exact(call: Call, *args: Any) -> list[Value]:
    """Tensors and numbers in the type of the result."""
    return [fit(call.b, a, "Tensor", call.type, call.type.dtype) for a in args]


EXTREMES: Final[dict[str, tuple[str, ...]]] = {
    "maximum": ("aten.maximum", "aten.max.other"),
    "minimum": ("aten.minimum", "aten.min.other"),
    "fmax": ("aten.fmax",),
    "fmin": ("aten.fmin",),
}
_MAKE = {
    "maximum": prims.MaximumOp.make,
    "minimum": prims.MinimumOp.make,
    "fmax": prims.FmaxOp.make,
    "fmin": prims.FminOp.make,
}


def _extreme(kind: str) -> Callable[..., Value]:
    def lowered(call: Call, a: Value, b: Value) -> Value:
        x, y = _exact(call, a, b)
        # Only floats have NaN, which is what sets fmax and fmin apart.
        return x.binary(_MAKE[kind if x.is_float else kind.replace("fmax", "maximum").replace("fmin", "minimum")], y)

    return lowered


for _kind, _names in EXTREMES.items():
    rule(*_names)(_extreme(_kind))


@rule("aten.clamp", "aten.clip", "aten.clamp.Tensor", "aten.clip.Tensor", elementwise=True)
def clamp(call: Call, x: Value, low: Value | Number | None, high: Value | Number | None) -> Value:
    """min(max(x, low), high): NaN stays, and high wins where low > high. A zero that equals a number keeps its sign."""
    (y,) = _exact(call, x)
    if low is not None:
        end = _exact(call, low)[0]
        y = y.maximum(end) if isinstance(low, Value) or low != low else (y < end).where(end, y)
    if high is not None:
        end = _exact(call, high)[0]
        y = y.minimum(end) if isinstance(high, Value) or high != high else (y > end).where(end, y)
    return y


@rule("aten.clamp_min", "aten.clamp_min.Tensor", elementwise=True)
def clamp_min(call: Call, x: Value, low: Value | Number) -> Value:
    return clamp(call, x, low, None)


@rule("aten.clamp_max", "aten.clamp_max.Tensor", elementwise=True)
def clamp_max(call: Call, x: Value, high: Value | Number) -> Value:
    return clamp(call, x, None, high)


@rule("aten.isin.Tensor_Scalar")
def isin(call: Call, x: Value, element: Number, assume_unique: bool, invert: bool) -> Value:
    dtype = operand_dtype(call, (x, element, assume_unique, invert))
    y = x.to(dtype)
    return y.ne(element) if invert else y.eq(element)


def unless(x: Value, holds: Value, fails: Value) -> Value:
    """What `holds` on CPUs, and does not `fail` on GPUs: ATen's kernels compare so, of which one takes NaN in."""
    return holds if x.type.device == "cpu" else ~fails
