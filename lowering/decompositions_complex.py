"""Operators on complex tensors, which are pairs of floats here; what is not in this table stays a call into ATen.

    @complex_pointwise("aten.mul.Tensor")
    def mul(a: Pair, b: Pair) -> Pair:
        return a.times(b)

Operators that move, add or choose elements do so with each part: `moves.PARTWISE` names them, and their rules are those
of reals.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final, TypeVar

from ..dialects import prims
from ..dialects.tensor import TensorType, is_complex
from . import complex_inverses
from .complex_value import PARTS, Pair, with_real
from .decomposition import Call
from .decompositions_pointwise import LARGEST, finite
from .prims_builder import Builder, Value
from .prims_memory import shares_result
from .promotion import opmath, result_dtype

Function = TypeVar("Function", bound=Callable[..., Any])

COMPLEX: dict[str, Callable[..., Any]] = {}
"""`function(call, *args)` by name of the ATen op: complex tensors come as `Pair`, and so go complex results."""

ELEMENTWISE: set[str] = set()
"""Those where a number that is read from a tensor, or computed from sizes, may come as a tensor."""


def complex_rule(*names: str) -> Callable[[Function], Function]:
    def register(function: Function) -> Function:
        for name in names:
            assert name not in COMPLEX, f"two rules for {name}"
            COMPLEX[name] = function
        return function

    return register


def complex_pointwise(*names: str) -> Callable[[Function], Function]:
    """Registers `function(*args)`: tensors come as pairs of the shape of the result and of the promoted dtype."""

    def register(function: Function) -> Function:
        def lowered(call: Call, *args: Any) -> Any:
            part, shape = _part(call), call.type.shape
            elements = call.op.schema.args
            fitted: list[Any] = [
                with_real(a, part).expand(shape)
                if isinstance(a, (Pair, Value))
                else number(call, a, part)
                if e.element == "Tensor"
                else a
                for a, e in zip(args, elements, strict=True)
            ]
            return function(*fitted)

        complex_rule(*names)(lowered)
        ELEMENTWISE.update(names)
        return function

    return register


def _part(call: Call) -> str:
    """The dtype of the parts in which a call computes: torch.result_type of its tensors."""
    types = [v.type for v in call.op.operands if isinstance(v.type, TensorType)]
    promoted = call.type.dtype
    if any(is_complex(t.dtype) for t in types):
        promoted = result_dtype(tuple(t.dtype for t in types if t.rank), tuple(t.dtype for t in types if not t.rank))
    return opmath(PARTS[promoted])


def number(call: Call, value: complex | float, part: str) -> Pair:
    t = call.type.with_(dtype=part)
    value = complex(value)
    return Pair(call.b.full(value.real, t), call.b.full(value.imag, t))


def _like(a: Pair, b: Any) -> Pair:
    return b if isinstance(b, Pair) else a.full(b)


# Arithmetic


@complex_pointwise("aten.add.Tensor", "aten.add.Scalar")
def add(a: Pair, b: Any, alpha: Any) -> Pair:
    return a.plus(_like(a, b) if alpha == 1 else _like(a, b).times(alpha))


@complex_pointwise("aten.sub.Tensor", "aten.sub.Scalar")
def sub(a: Pair, b: Any, alpha: Any) -> Pair:
    return a.minus(_like(a, b) if alpha == 1 else _like(a, b).times(alpha))


@complex_pointwise("aten.rsub.Tensor", "aten.rsub.Scalar")
def rsub(a: Pair, b: Any, alpha: Any) -> Pair:
    return _like(a, b).minus(a if alpha == 1 else a.times(alpha))


@complex_pointwise("aten.mul.Tensor", "aten.mul.Scalar")
def mul(a: Pair, b: Any) -> Pair:
    return a.times(b)


@complex_pointwise("aten.div.Tensor", "aten.div.Scalar", "aten.true_divide.Tensor")
def div(a: Pair, b: Any) -> Pair:
    return a.over(_like(a, b))


@complex_pointwise("aten.reciprocal")
def reciprocal(a: Pair) -> Pair:
    return a.full(1.0).over(a)


@complex_pointwise("aten.addcmul")
def addcmul(a: Pair, b: Pair, c: Pair, value: Any) -> Pair:
    return a.plus(b.times(c).times(value))


@complex_pointwise("aten.addcdiv")
def addcdiv(a: Pair, b: Pair, c: Pair, value: Any) -> Pair:
    return a.plus(b.over(c).times(value))


@complex_pointwise("aten.lerp.Scalar", "aten.lerp.Tensor")
def lerp(a: Pair, b: Pair, weight: Any) -> Any:
    if isinstance(weight, Pair):
        near = weight.magnitude() < 0.5
        far = b.minus(b.minus(a).times(weight.full(1.0).minus(weight)))
        return a.plus(b.minus(a).times(weight)).where(near, far)
    return a.plus(b.minus(a).times(weight)) if abs(weight) < 0.5 else b.minus(b.minus(a).times(1.0 - weight))


@complex_pointwise("aten.conj", "aten._conj", "aten.conj_physical", "aten._conj_physical")
def conj(a: Pair) -> Pair:
    return a.conjugate()


@complex_pointwise("aten.square")
def square(a: Pair) -> Pair:
    return a.times(a)


@complex_pointwise("aten.pow.Tensor_Scalar")
def pow_number(a: Pair, exponent: Any) -> Any:
    """The exponents that c10 computes without pow are computed so here."""
    if exponent == 0:
        return a.full(1.0)
    if exponent == 1:
        return a
    if exponent in (2, 3):
        return a.times(a) if exponent == 2 else a.times(a).times(a)
    if exponent in (0.5, -0.5):
        return a.sqrt() if exponent == 0.5 else a.full(1.0).over(a.sqrt())
    if exponent in (-1, -2):
        return a.full(1.0).over(a if exponent == -1 else a.times(a))
    return a.power(_like(a, exponent))


@complex_pointwise("aten.pow.Tensor_Tensor")
def pow_tensor(a: Pair, b: Pair) -> Pair:
    return a.power(b)


@complex_pointwise("aten.pow.Scalar")
def pow_scalar(a: Any, b: Pair) -> Pair:
    return b.full(1.0) if not isinstance(a, Pair) and a == 1 else _like(b, a).power(b)


# Functions

COMPLEX_FUNCTIONS: Final[dict[str, Callable[[Pair], Pair]]] = {
    "aten.exp": Pair.exp,
    "aten.exp2": lambda a: a.scaled(math.log(2)).exp(),
    "aten.log": Pair.log,
    "aten.log2": lambda a: a.log().scaled(1 / math.log(2)),
    "aten.log10": lambda a: a.log().scaled(1 / math.log(10)),
    "aten.sqrt": Pair.sqrt,
    "aten.rsqrt": lambda a: a.full(1.0).over(a.sqrt()),
    "aten.sinh": Pair.sinh,
    "aten.cosh": Pair.cosh,
    "aten.tanh": Pair.tanh,
    "aten.sin": lambda a: a.times_i().sinh().over_i(),
    "aten.cos": lambda a: a.times_i().cosh(),
    "aten.tan": lambda a: a.times_i().tanh().over_i(),
    "aten.sigmoid": lambda a: a.full(1.0).over(a.full(1.0).plus(a.negative().exp())),
    "aten.silu": lambda a: a.over(a.full(1.0).plus(a.negative().exp())),
}
for _name, _function in (COMPLEX_FUNCTIONS | complex_inverses.FUNCTIONS).items():
    complex_pointwise(_name)(_function)


@complex_pointwise("aten.sgn")
def sgn(a: Pair) -> Pair:
    """z / |z|, 0 of 0."""
    size = a.magnitude()
    zero = size.eq(0.0)
    return Pair(zero.where(0.0, a.re / size), zero.where(0.0, a.im / size))


@complex_pointwise("aten.logaddexp")
def logaddexp(a: Pair, b: Pair) -> Pair:
    """log(e^a + e^b), from the one with the larger real part; as ATen where real parts are infinite."""
    one, other = a.is_nan(), b.is_nan()
    low = other | (~one & ~(a.re < b.re))
    high = other | (~one & ~(a.re >= b.re))
    small, large = b.where(low, a), b.where(high, a)
    less = small.minus(large)
    apart = large.where(less.re.eq(-math.inf), complex_inverses.log1p(less.exp()).plus(large))
    both = large.re.isinf() & small.re.eq(large.re)
    infinite = small.exp_of_infinite().plus(large.exp_of_infinite()).log()
    result = small.where(both & (large.re < 0.0), infinite.where(both, apart))
    return a.full(complex(math.nan, math.nan)).where(one | other, result)


# Parts


@complex_pointwise("aten.abs")
def magnitude(a: Pair) -> Value:
    return a.magnitude()


@complex_pointwise("aten.angle")
def angle(a: Pair) -> Value:
    return a.angle()


@complex_pointwise("aten.real")
def real(a: Pair) -> Value:
    return a.re


@complex_pointwise("aten.imag")
def imag(a: Pair) -> Value:
    return a.im


@complex_rule("aten.view_as_real", "aten.view_as_real_copy")
def view_as_real(call: Call, a: Pair) -> Any:
    if call.op.schema.is_view and shares_result(call.op):
        return NotImplemented
    return packed(call.b, a, call.type)


def packed(b: Builder, a: Pair, type: TensorType) -> Value:
    """re and im side by side, in a last dim of 2."""
    a = a.to(type.dtype)
    return b.cat([a.re.unsqueeze(a.rank), a.im.unsqueeze(a.rank)], a.rank, type)


@complex_rule("aten.view_as_complex", "aten.view_as_complex_copy")
def view_as_complex(call: Call, x: Value) -> Pair:
    return unpacked(x)


def unpacked(x: Value) -> Pair:
    """The pair of what lies side by side in a last dim of 2."""
    shape, last = x.shape[:-1], x.rank - 1
    return Pair(x.slice(last, 0, 1).reshape(shape), x.slice(last, 1, 1).reshape(shape))


@complex_rule("aten.complex")
def complex_(call: Call, re: Value, im: Value) -> Pair:
    return Pair(re.expand(call.type.shape), im.expand(call.type.shape))


@complex_rule("aten.polar")
def polar(call: Call, size: Value, angle: Value) -> Pair:
    size, angle = size.expand(call.type.shape), angle.expand(call.type.shape)
    return Pair(size * angle.unary(prims.CosOp.make), size * angle.unary(prims.SinOp.make))


# Comparisons and logic


@complex_pointwise("aten.eq.Tensor", "aten.eq.Scalar")
def eq(a: Pair, b: Any) -> Value:
    return a.equals(_like(a, b))


@complex_pointwise("aten.ne.Tensor", "aten.ne.Scalar")
def ne(a: Pair, b: Any) -> Value:
    return ~a.equals(_like(a, b))


@complex_pointwise("aten.isnan")
def isnan(a: Pair) -> Value:
    return a.is_nan()


@complex_pointwise("aten.isinf")
def isinf(a: Pair) -> Value:
    return a.re.isinf() | a.im.isinf()


@complex_pointwise("aten.isfinite")
def isfinite(a: Pair) -> Value:
    return (a.re.abs() < math.inf) & (a.im.abs() < math.inf)


@complex_pointwise("aten.logical_not")
def logical_not(a: Pair) -> Value:
    return a.is_zero()


@complex_pointwise("aten.logical_and")
def logical_and(a: Pair, b: Pair) -> Value:
    return ~a.is_zero() & ~b.is_zero()


@complex_pointwise("aten.logical_or")
def logical_or(a: Pair, b: Pair) -> Value:
    return ~a.is_zero() | ~b.is_zero()


@complex_pointwise("aten.logical_xor")
def logical_xor(a: Pair, b: Pair) -> Value:
    return a.is_zero() ^ b.is_zero()


# Conversions and numbers


@complex_rule("aten._to_copy", "torch_prims.convert_element_type")
def to_copy(call: Call, x: Any, *rest: Any) -> Any:
    """Between dtypes, on one device; the imaginary part is dropped where the result is real."""
    t = call.type
    if is_complex(t.dtype):
        return with_real(x, PARTS[t.dtype])
    return (x.re.ne(0.0) | x.im.ne(0.0)) if t.dtype == "i1" else x.re


@complex_rule("aten.copy")
def copy(call: Call, x: Any, source: Any, non_blocking: bool) -> Any:
    t = call.type
    if not is_complex(t.dtype):
        return source.re.expand(t.shape)
    return with_real(source, PARTS[t.dtype]).expand(t.shape)


@complex_rule("aten.ones", "aten.ones_like", "aten.new_ones")
def ones(call: Call, *rest: Any) -> Any:
    """Real ones too, like a complex tensor."""
    return call.full(1) if call.type.dtype not in PARTS else number(call, 1.0, PARTS[call.type.dtype])


@complex_rule("aten.eye", "aten.eye.m")
def eye(call: Call, *rest: Any) -> Pair:
    t = call.type.with_(dtype="i64")
    return with_real(call.b.iota(0, t).eq(call.b.iota(1, t)), PARTS[call.type.dtype])


@complex_rule("aten.nan_to_num")
def nan_to_num(call: Call, x: Pair, *rest: Any) -> Any:
    largest = LARGEST[x.re.dtype]
    return Pair(finite(x.re, largest, *rest), finite(x.im, largest, *rest))
