"""Arithmetic and mathematical functions, elementwise."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import sympy

from ..dialects import prims
from ..dialects.prims import Number, PrimsOp, UnaryOp
from ..dialects.tensor import HALVES
from .decomposition import Call, as_half, fit, pointwise, rule, view
from .numbers import number_as
from .prims_builder import Value
from .promotion import opmath

FUNCTIONS: Final[dict[str, type[UnaryOp]]] = {
    "aten.acos": prims.AcosOp,
    "aten.acosh": prims.AcoshOp,
    "aten.asin": prims.AsinOp,
    "aten.asinh": prims.AsinhOp,
    "aten.atan": prims.AtanOp,
    "aten.atanh": prims.AtanhOp,
    "aten.cos": prims.CosOp,
    "aten.cosh": prims.CoshOp,
    "aten.digamma": prims.DigammaOp,
    "aten.erf": prims.ErfOp,
    "aten.erfc": prims.ErfcOp,
    "aten.erfinv": prims.ErfinvOp,
    "aten.exp": prims.ExpOp,
    "aten.exp2": prims.Exp2Op,
    "aten.expm1": prims.Expm1Op,
    "aten.lgamma": prims.LgammaOp,
    "aten.log": prims.LogOp,
    "aten.log10": prims.Log10Op,
    "aten.log1p": prims.Log1pOp,
    "aten.log2": prims.Log2Op,
    "aten.reciprocal": prims.ReciprocalOp,
    "aten.rsqrt": prims.RsqrtOp,
    "aten.sin": prims.SinOp,
    "aten.sinh": prims.SinhOp,
    "aten.sqrt": prims.SqrtOp,
    "aten.tan": prims.TanOp,
    "aten.tanh": prims.TanhOp,
}
"""Functions of floats; integers are converted to the default dtype, which is the result's."""

INTEGRAL: Final[dict[str, type[UnaryOp]]] = {
    "aten.ceil": prims.CeilOp,
    "aten.floor": prims.FloorOp,
    "aten.round": prims.RoundOp,
    "aten.trunc": prims.TruncOp,
}
"""Functions that leave integers as they are."""


def _function(op: type[UnaryOp]) -> Callable[[Value], Value]:
    return lambda x: x.unary(op.make)


def _integral(op: type[UnaryOp]) -> Callable[[Value], Value]:
    return lambda x: x.unary(op.make) if x.is_float else x


for _name, _op in FUNCTIONS.items():
    pointwise(_name)(_function(_op))
for _name, _op in INTEGRAL.items():
    pointwise(_name)(_integral(_op))
pointwise("aten.fix")(_integral(prims.TruncOp))


@pointwise("aten.neg", "aten.negative")
def neg(x: Value) -> Value:
    return -x


@pointwise("aten.abs", "aten.absolute")
def absolute(x: Value) -> Value:
    return x if x.is_bool or x.dtype[0] == "u" else x.abs()


@pointwise("aten.sign", "aten.sgn")
def sign(x: Value) -> Value:
    return x if x.is_bool else x.unary(prims.SignOp.make)


@view("aten.positive", "aten.real", "aten.conj", "aten._conj", "aten.resolve_conj", "aten.resolve_neg")
def positive(call: Call, x: Value) -> Value:
    """x itself, as no complex dtype gets here."""
    return x


@pointwise("aten.conj_physical")
def conj_physical(x: Value) -> Value:
    return x


@pointwise("aten.frac")
def frac(x: Value) -> Value:
    return x - x.trunc()


@pointwise("aten.round.decimals")
def round_decimals(x: Value, decimals: int) -> Any:
    """round(x * 10^decimals) / 10^decimals, by a division for negative decimals."""
    if not x.is_float:
        return NotImplemented
    ten = 10.0 ** abs(decimals) if abs(decimals) < 309 else math.inf
    if decimals < 0:
        return (x / ten).unary(prims.RoundOp.make) * ten
    return (x * ten).unary(prims.RoundOp.make) / ten


@pointwise("aten.square")
def square(x: Value) -> Value:
    return x * x


@pointwise("aten.deg2rad")
def deg2rad(x: Value) -> Value:
    return x * (math.pi / 180)


@pointwise("aten.rad2deg")
def rad2deg(x: Value) -> Value:
    return x * (180 / math.pi)


@rule("aten.nan_to_num")
def nan_to_num(call: Call, x: Value, nan: float | None, posinf: float | None, neginf: float | None) -> Value:
    """Infinities become the largest numbers of the dtype itself, whatever is computed in."""
    return finite(x.opmath(), LARGEST[x.dtype], nan, posinf, neginf) if x.is_float else x


LARGEST: Final[dict[str, float]] = {
    "f16": 65504.0,
    "bf16": 3.3895313892515355e38,
    "f32": 3.4028234663852886e38,
    "f64": 1.7976931348623157e308,
}


def finite(x: Value, largest: float, nan: float | None, posinf: float | None, neginf: float | None) -> Value:
    y = x.isnan().where(0.0 if nan is None else nan, x)
    y = x.eq(math.inf).where(largest if posinf is None else posinf, y)
    return x.eq(-math.inf).where(-largest if neginf is None else neginf, y)


# Two operands


def scaling(*names: str) -> Callable[[Callable[..., Value]], Callable[..., Value]]:
    """`pointwise` for operators with `alpha` as their last argument: on CPUs ATen has all in the result's dtype."""

    def register(function: Callable[..., Value]) -> Callable[..., Value]:
        def lowered(call: Call, *args: Any) -> Value:
            t, given = call.type, args
            if t.dtype in HALVES and t.device == "cpu":
                given = [as_half(call, x) for x in args]
            elements = zip(given, call.op.schema.args, strict=True)
            return function(*(fit(call.b, x, e.element, t, opmath(t.dtype)) for x, e in elements))

        rule(*names, elementwise=True)(lowered)
        return function

    return register


def _is_one(alpha: Any) -> bool:
    return isinstance(alpha, (bool, int, float)) and alpha == 1


def _scaled(x: Any, alpha: Number) -> Any:
    return x if _is_one(alpha) else x * alpha


@scaling("aten.add.Tensor", "aten.add.Scalar")
def add(a: Value, b: Value | Number, alpha: Number) -> Value:
    """a + b * alpha, of floats rounded once as in ATen."""
    if _is_one(alpha):
        return a + b
    b = _as_value(a, b)
    return b.fma(alpha, a) if a.is_float else a + b * alpha


@scaling("aten.sub.Tensor", "aten.sub.Scalar", "aten.subtract.Tensor")
def sub(a: Value, b: Value | Number, alpha: Number) -> Value:
    """a + b * -alpha, which of an integer has 64 digits, and no sign of 0."""
    if _is_one(alpha):
        return a - b
    return add(a, b, number_as(-alpha, "i64") if isinstance(alpha, int) else -alpha)


@scaling("aten.rsub.Tensor", "aten.rsub.Scalar")
def rsub(a: Value, b: Value | Number, alpha: Number) -> Value:
    return sub(_as_value(a, b), a, alpha)


def _as_value(like: Value, x: Value | Number) -> Value:
    return x if isinstance(x, Value) else like.full(x)


@pointwise("aten.mul.Tensor", "aten.mul.Scalar", "aten.multiply.Tensor", rounded_on_cpus=(0,))
def mul(a: Value, b: Value | Number) -> Value:
    return a * b


@pointwise("aten.div.Tensor", "aten.div.Scalar", "aten.true_divide.Tensor", rounded_on_cpus=(0,))
def div(a: Value, b: Value | Number) -> Value:
    return a / b


BINARY: Final[dict[str, Callable[..., PrimsOp]]] = {
    "aten.atan2": prims.Atan2Op.make,
    "aten.copysign.Tensor": prims.CopysignOp.make,
    "aten.copysign.Scalar": prims.CopysignOp.make,
    "aten.nextafter": prims.NextafterOp.make,
}


def _binary(op: Callable[..., PrimsOp]) -> Callable[[Value, Value | Number], Value]:
    return lambda a, b: a.binary(op, b)


for _name, _make in BINARY.items():
    if _name != "aten.nextafter":
        pointwise(_name, rounded=(0, 1))(_binary(_make))


@rule("aten.nextafter")
def nextafter(call: Call, a: Value, b: Value) -> Any:
    """The neighbour of a towards b, in the dtype itself: of f16 and bf16 by their bits."""
    if a.dtype != b.dtype:
        return NotImplemented
    shape = call.type.shape
    a, b = a.expand(shape), b.expand(shape)
    if opmath(a.dtype) == a.dtype:
        return a.binary(prims.NextafterOp.make, b)
    x, y, bits = a.opmath(), b.opmath(), a.bitcast(a.type.with_(dtype="i16"))
    away = (x > 0.0).eq(y > x)
    step = bits + away.where(bits.full(1), bits.full(-1))
    smallest = (y < 0.0).where(bits.full(-32767), bits.full(1))
    moved = x.eq(0.0).where(smallest, step).bitcast(a.type)
    plain = x.eq(y).where(b, moved)
    return (x.isnan() | y.isnan()).where(math.nan, plain)


@pointwise("aten.heaviside")
def heaviside(x: Value, values: Value) -> Value:
    """0 below 0, `values` at 0, 1 above; NaN as above 0 is false: 0."""
    return x.eq(0).where(values, (x > 0).to(x.dtype))


# Three operands


@pointwise("aten.addcmul")
def addcmul(x: Value, a: Value, b: Value, value: Number) -> Value:
    """x + a * value * b, of floats rounded as in ATen, whose last product is not rounded by itself."""
    a = _scaled(a, value)
    return a.fma(b, x) if x.is_float else x + a * b


@pointwise("torch_prims.fma")
def fma(a: Value, b: Value, x: Value) -> Value:
    """Updates in place are made of it by torch."""
    return a.fma(b, x) if x.is_float else a * b + x


@pointwise("aten.addcdiv")
def addcdiv(x: Value, a: Value, b: Value, value: Number) -> Value:
    return x + _scaled(a, value) / b


@pointwise("aten.lerp.Scalar")
def lerp_scalar(start: Value, end: Value, weight: Value | Number) -> Any:
    if isinstance(weight, sympy.Expr):
        return NotImplemented
    if isinstance(weight, Value):
        return lerp(start, end, weight)
    if abs(weight) < 0.5:
        return (end - start).fma(weight, start)
    return (end - start).fma(weight - 1.0, end)


@pointwise("aten.lerp.Tensor")
def lerp(start: Value, end: Value, weight: Value) -> Value:
    """From the nearer end, as ATen."""
    near = (end - start).fma(weight, start)
    far = (end - start).fma(weight - 1.0, end)
    return (weight.abs() < 0.5).where(near, far)


# Bits

BITWISE: Final[dict[str, Callable[..., PrimsOp]]] = {
    "and": prims.AndOp.make,
    "or": prims.OrOp.make,
    "xor": prims.XorOp.make,
    "left_shift": prims.ShlOp.make,
    "right_shift": prims.ShrOp.make,
}


def _bitwise_from_number(op: Callable[..., PrimsOp]) -> Callable[[Number, Value], Value]:
    return lambda a, b: b.full(a).binary(op, b)


for _word, _make in BITWISE.items():
    _scalar = "Tensor_Scalar" if _word.endswith("shift") else "Scalar"
    pointwise(f"aten.bitwise_{_word}.Tensor", f"aten.bitwise_{_word}.{_scalar}")(_binary(_make))
    pointwise(f"aten.bitwise_{_word}.Scalar_Tensor")(_bitwise_from_number(_make))
for _word, _make in (("and", prims.AndOp.make), ("or", prims.OrOp.make), ("xor", prims.XorOp.make)):
    pointwise(f"aten.__{_word}__.Tensor", f"aten.__{_word}__.Scalar")(_binary(_make))
for _word, _make in (("lshift", prims.ShlOp.make), ("rshift", prims.ShrOp.make)):
    pointwise(f"aten.__{_word}__.Tensor", f"aten.__{_word}__.Scalar")(_binary(_make))


@pointwise("aten.bitwise_not")
def bitwise_not(x: Value) -> Value:
    return ~x


@rule("aten.addr")
def addr(call: Call, x: Value, a: Value, b: Value, beta: Number, alpha: Number) -> Value:
    """beta x + alpha a b^T; x does not matter where beta is 0."""
    t = call.type
    dtype = opmath(t.dtype)
    outer = a.to(dtype).unsqueeze(1).expand(t.shape) * b.to(dtype).unsqueeze(0).expand(t.shape)
    y = _scaled(outer, alpha)
    return y if beta == 0 else _scaled(x.to(dtype).expand(t.shape), beta) + y
