"""Rewrites of single prims ops, by the op they apply to. Each is an equation: the right side is never more work.

A fold gets an op whose operands are canonical. It returns the value that replaces the op's result, or None. It may
make new ops with `f.add`. No equation holds only up to rounding, the sign of zero or NaN; those on `rounding` hold
where numerics is "fast".
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final, Protocol, TypeAlias, TypeVar, cast

import sympy
import torch
from xdsl.ir import Operation, SSAValue

from ..dialects import prims
from ..dialects.prims import Number, PrimsOp, Scalar
from ..dialects.tensor import TORCH_DTYPES, TensorType, is_float, is_integer, itemsize
from .numbers import number_as
from .prims_facts import IndexFacts


class Folder(Protocol):
    """What a fold can use."""

    eager: bool
    """Keep eager's rounding of intermediate f16 and bf16 results."""
    kept: set[SSAValue]
    """Values that are in memory in any case: what they were rounded from need not be there too."""
    facts: IndexFacts
    mutated: set[SSAValue]
    """Values that some op writes: what is made of them is made where it stands."""

    def add(self, op: PrimsOp) -> SSAValue:
        """Insert an op before the one that is folded, or find its equal; its result."""
        ...


Fold: TypeAlias = Callable[[Any, Folder], "SSAValue | None"]
Function = TypeVar("Function", bound=Callable[..., Any])

FOLDS: dict[type[PrimsOp], list[Fold]] = {}
"""Tried in order. Those of views are in `prims_folds_views`."""


def fold(*ops: type[PrimsOp]) -> Callable[[Function], Function]:
    def register(function: Function) -> Function:
        for op in ops:
            FOLDS.setdefault(op, []).append(function)
        return function

    return register


def type_of(v: SSAValue) -> TensorType:
    return cast(TensorType, v.type)


def constant(v: SSAValue) -> Number | None:
    """The number that every element is; None if that is not known."""
    owner = v.owner
    return owner.value.value if isinstance(owner, prims.FullOp) else None


def is_constant(v: SSAValue, value: float) -> bool:
    """Whether every element is that number; 0 and -0.0 are told apart for floats."""
    c = constant(v)
    if c is None or isinstance(c, sympy.Expr) or c != value:
        return False
    return c != 0 or not isinstance(c, float) or math.copysign(1.0, c) == math.copysign(1.0, value)


def full(f: Folder, value: Number, t: TensorType) -> SSAValue:
    return f.add(prims.FullOp.make(Scalar.get(value), t))


# Arithmetic of constants


def _rounded(value: Number, dtype: str) -> Number:
    """The number as an element of that dtype."""
    if isinstance(value, sympy.Expr) or not is_float(dtype):
        return number_as(value, dtype)
    return float(torch.tensor(float(value), dtype=getattr(torch, TORCH_DTYPES[dtype])).item())


def _maximum(a: Any, b: Any) -> Any:
    return a if a != a or a > b else b


def _minimum(a: Any, b: Any) -> Any:
    return a if a != a or a < b else b


def _divide(a: float, b: float) -> float:
    if b != 0:
        return a / b
    return math.nan if a == 0 or a != a else math.copysign(math.inf, a) * math.copysign(1.0, b)


# Exact in f64 and rounded once: for these, that is the same as computing in f32 or less.
ARITHMETIC: Final[dict[type[PrimsOp], Callable[..., Any]]] = {
    prims.AddOp: lambda a, b: a + b,
    prims.SubOp: lambda a, b: a - b,
    prims.MulOp: lambda a, b: a * b,
    prims.DivOp: _divide,
    prims.NegOp: lambda a: -a,
    prims.AbsOp: abs,
    prims.MaximumOp: _maximum,
    prims.MinimumOp: _minimum,
    prims.AndOp: lambda a, b: a & b,
    prims.OrOp: lambda a, b: a | b,
    prims.XorOp: lambda a, b: a ^ b,
    prims.EqOp: lambda a, b: a == b,
    prims.NeOp: lambda a, b: a != b,
    prims.LtOp: lambda a, b: a < b,
    prims.LeOp: lambda a, b: a <= b,
    prims.GtOp: lambda a, b: a > b,
    prims.GeOp: lambda a, b: a >= b,
}
SYMBOLIC: Final = (prims.AddOp, prims.SubOp, prims.MulOp, prims.NegOp)
"""Also of i64 that are expressions: sizes do not wrap around."""


@fold(*ARITHMETIC)
def fold_constants(op: PrimsOp, f: Folder) -> SSAValue | None:
    """op(full a, full b) = full op(a, b)."""
    numbers: list[Any] = []
    for v in op.operands:
        number = constant(v)
        if number is None:
            return None
        numbers.append(_rounded(number, type_of(v).dtype))
    t = type_of(op.results[0])
    if any(isinstance(n, sympy.Expr) for n in numbers) and not (isinstance(op, SYMBOLIC) and t.dtype == "i64"):
        return None
    value = ARITHMETIC[type(op)](*numbers)
    return full(f, _rounded(value, t.dtype) if t.dtype != "i1" else bool(value), t)


@fold(prims.ConvertOp)
def fold_converted_constant(op: prims.ConvertOp, f: Folder) -> SSAValue | None:
    """convert(full a) = full a, in the new dtype; NaN and infinity stay floats."""
    value, t = constant(op.operand), type_of(op.result)
    if value is None:
        return None
    value = _rounded(value, type_of(op.operand).dtype)
    if isinstance(value, sympy.Expr):
        return full(f, value, t) if type_of(op.operand).dtype == "i64" and is_float(t.dtype) else None
    if isinstance(value, float) and not is_float(t.dtype):
        if t.dtype != "i1" and not (math.isfinite(value) and abs(value) < 2.0 ** (8 * itemsize(t.dtype) - 1)):
            return None
        return full(f, bool(value) if t.dtype == "i1" else int(value), t)
    return full(f, _rounded(value, t.dtype), t)


# Neutral operands


@fold(prims.AddOp)
def fold_add(op: prims.AddOp, f: Folder) -> SSAValue | None:
    """x + -0.0 = x (x + 0.0 turns -0.0 into 0.0); n + 0 = n."""
    zero = -0.0 if is_float(type_of(op.result).dtype) else 0
    return op.lhs if is_constant(op.rhs, zero) else op.rhs if is_constant(op.lhs, zero) else None


PRODUCTS: Final = frozenset({"aten.mm", "aten.addmm", "prims.dot"})


@fold(prims.AddOp)
def fold_add_of_updates(op: prims.AddOp, f: Folder) -> SSAValue | None:
    """x + scatter(0, v, add) = scatter(x, v, add) for a product of matrices, whose sums have no order, nor its zeros a
    sign, where numerics is "fast": the gradient of a weight that is an embedding too.
    """
    dtype = type_of(op.result).dtype
    if f.mutated or f.eager or dtype not in ("f32", "f64"):
        return None
    for x, updates in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
        o = updates.owner
        if not isinstance(o, prims.ScatterOp) or o.combine.data != "add" or len(list(updates.uses)) != 1:
            continue
        product = x.owner.name in PRODUCTS if isinstance(x.owner, Operation) else False
        if product and constant(o.operand) == 0 and type_of(x).strides == type_of(updates).strides:
            message = None if o.message is None else o.message.data
            return f.add(prims.ScatterOp.make(x, o.index_tensors, o.source, o.index.data, "add", message))
    return None


@fold(prims.SubOp)
def fold_sub(op: prims.SubOp, f: Folder) -> SSAValue | None:
    """x - 0.0 = x."""
    return op.lhs if is_constant(op.rhs, 0) else None


@fold(prims.MulOp)
def fold_mul(op: prims.MulOp, f: Folder) -> SSAValue | None:
    """x * 1 = x; n * 0 = 0 of integers."""
    if is_constant(op.rhs, 1):
        return op.lhs
    if is_constant(op.lhs, 1):
        return op.rhs
    if is_integer(type_of(op.result).dtype):
        return op.lhs if is_constant(op.lhs, 0) else op.rhs if is_constant(op.rhs, 0) else None
    return None


@fold(prims.DivOp, prims.DivTruncOp, prims.DivFloorOp)
def fold_div(op: prims.DivOp, f: Folder) -> SSAValue | None:
    """x / 1 = x."""
    return op.lhs if is_constant(op.rhs, 1) else None


@fold(prims.DivTruncOp, prims.DivFloorOp, prims.RemOp)
def fold_message(op: prims.IntegerDivisionOp, f: Folder) -> SSAValue | None:
    """What is divided by a number other than 0 raises nothing."""
    divisor = constant(op.rhs)
    if op.message is None or divisor is None or sympy.sympify(divisor).is_zero is not False:
        return None
    if isinstance(divisor, sympy.Expr) and type_of(op.rhs).dtype != "i64":
        return None
    return f.add(type(op).make(op.lhs, op.rhs, type_of(op.result)))


@fold(prims.PowOp)
def fold_pow(op: prims.PowOp, f: Folder) -> SSAValue | None:
    """x^1 = x."""
    return op.lhs if is_constant(op.rhs, 1) else None


@fold(prims.NegOp, prims.NotOp)
def fold_involution(op: prims.NegOp | prims.NotOp, f: Folder) -> SSAValue | None:
    """-(-x) = x; not not x = x."""
    inner = op.operand.owner
    return inner.operand if isinstance(inner, type(op)) else None


@fold(prims.AndOp)
def fold_and(op: prims.AndOp, f: Folder) -> SSAValue | None:
    """x & x = x; x & true = x; x & false = false."""
    if op.lhs is op.rhs:
        return op.lhs
    for x, y in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
        if constant(y) is True:
            return x
        if constant(y) is False:
            return y
    return None


@fold(prims.OrOp)
def fold_or(op: prims.OrOp, f: Folder) -> SSAValue | None:
    """x | x = x; x | false = x; x | true = true."""
    if op.lhs is op.rhs:
        return op.lhs
    for x, y in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
        if constant(y) is False:
            return x
        if constant(y) is True:
            return y
    return None


@fold(prims.SelectOp)
def fold_select(op: prims.SelectOp, f: Folder) -> SSAValue | None:
    """c ? x : x = x; true ? x : y = x; false ? x : y = y."""
    condition = constant(op.condition)
    if op.on_true is op.on_false or condition is True:
        return op.on_true
    return op.on_false if condition is False else None


@fold(prims.CheckedOp)
def fold_checked(op: prims.CheckedOp, f: Folder) -> SSAValue | None:
    """x where true holds = x."""
    return op.operand if constant(op.condition) is True else None


@fold(prims.LtOp)
def fold_lt(op: prims.LtOp, f: Folder) -> SSAValue | None:
    """n < 0 = false for n that is never negative, such as an index."""
    if is_constant(op.rhs, 0) and is_integer(type_of(op.lhs).dtype) and f.facts.is_not_negative(op.lhs):
        return full(f, False, type_of(op.result))
    return None


# Conversion

MOVES: Final = (prims.BroadcastOp, prims.ReshapeOp, prims.TransposeOp, prims.SliceOp, prims.FlipOp)
"""Views each of whose elements is one of the operand's."""


@fold(prims.ConvertOp)
def fold_copy(op: prims.ConvertOp, f: Folder) -> SSAValue | None:
    """A copy is x; whoever needs it in memory of its own, or in that layout, copies where it leaves."""
    return op.operand if type_of(op.operand).dtype == type_of(op.result).dtype else None


@fold(prims.ConvertOp)
def fold_rounding(op: prims.ConvertOp, f: Folder) -> SSAValue | None:
    """convert(rounding(x)) = convert(x), also through views: only eager rounds there, and what is kept in memory."""
    if f.eager or op.operand in f.kept or _is_for_several(op.result):
        return None
    views: list[prims.ViewOp] = []
    source = op.operand.owner
    while isinstance(source, MOVES):
        views.append(source)
        source = source.operands[0].owner
    if not isinstance(source, prims.ConvertOp) or not _is_eagers(source):
        return None
    value = source.operand
    for view in reversed(views):
        t = type_of(view.results[0]).with_(dtype=type_of(value).dtype)
        value = f.add(type(view).create(operands=[value], result_types=[t], properties=view.properties))
    return _converted(f, value, op)


@fold(prims.ConvertOp)
def fold_choice(op: prims.ConvertOp, f: Folder) -> SSAValue | None:
    """convert(choice(rounding(x), y)) = choice(convert(x), convert(y)): x less its choice is 0 where that is x."""
    choice = op.operand.owner
    if f.eager or op.operand in f.kept or not isinstance(choice, prims.MaximumOp | prims.MinimumOp | prims.SelectOp):
        return None
    if not _is_exact(type_of(op.operand).dtype, type_of(op.result).dtype):
        return None
    first = isinstance(choice, prims.SelectOp)
    chosen = choice.operands[first:]
    if not any(isinstance(v.owner, prims.ConvertOp) and _is_eagers(v.owner) for v in chosen):
        return None
    wide = [f.add(prims.ConvertOp.make(v, type_of(v).with_(dtype=type_of(op.result).dtype))) for v in chosen]
    t = type_of(op.operand).with_(dtype=type_of(op.result).dtype)
    return f.add(type(choice).create(operands=[*choice.operands[:first], *wide], result_types=[t]))


@fold(prims.ConvertOp)
def fold_widening(op: prims.ConvertOp, f: Folder) -> SSAValue | None:
    """convert(convert(x)) = convert(x) where the inner one loses nothing."""
    inner = op.operand.owner
    if isinstance(inner, prims.ConvertOp) and _is_exact(type_of(inner.operand).dtype, type_of(inner.result).dtype):
        return _converted(f, inner.operand, op)
    return None


def _is_for_several(wide: SSAValue) -> bool:
    """Whether a value is summed up, and read again when sums are there, as in a backward of normalization: what it is
    made of is stored between, half as wide.
    """
    users = [use.operation for use in wide.uses]
    summed = [isinstance(user, prims.ReduceOp) and user.kind.data == "sum" for user in users]
    return any(summed) and not all(summed)


def _is_eagers(op: prims.ConvertOp) -> bool:
    """Whether only eager rounds there. What a reduction gives is stored if several kernels need it: half as wide."""
    return op.rounding is not None and not isinstance(op.operand.owner, prims.ReduceOp)


def _converted(f: Folder, value: SSAValue, op: prims.ConvertOp) -> SSAValue:
    """`value` in the dtype of the result of `op`."""
    if type_of(value).dtype == type_of(op.result).dtype:
        return value
    return f.add(prims.ConvertOp.make(value, type_of(op.result), rounding=op.rounding is not None))


_PRECISION: Final = {"f16": 11, "bf16": 8, "f32": 24, "f64": 53}


def _is_exact(source: str, target: str) -> bool:
    """Whether every number of one dtype is a number of the other."""
    if source == "i1":
        return True
    if is_float(source):
        return (source, target) in {("f16", "f32"), ("f16", "f64"), ("bf16", "f32"), ("bf16", "f64"), ("f32", "f64")}
    bits = 8 * itemsize(source) - (source[0] == "i")
    if is_float(target):
        return bits <= _PRECISION[target]
    if target == "i1" or (source[0] == "i" and target[0] == "u"):
        return False
    return bits <= 8 * itemsize(target) - (target[0] == "i")
