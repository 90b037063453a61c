"""Scalar ops of kernel bodies (`arith`, `math`, `loop.fn`) on tiles: one row an op.

f16 and bf16 are computed in f32 and rounded. i1 is i1 in registers, and i8 in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, cast

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import Float64Type, IntegerAttr, IntegerType, f32, i32
from xdsl.ir import Attribute, Operation, SSAValue

from ..dialects import tt
from ..dialects.errors import describe_location
from ..dialects.tensor import HALF_TYPES
from ..dialects.tt_types import element_of
from . import tt_math, tt_rounded
from .llvm_properties import KernelError
from .numbers import by_squaring
from .tt_builder import FLOAT_PREDICATES, INTEGER_PREDICATES, TtBuilder

Values = Sequence[SSAValue]
Row = Callable[[TtBuilder, Operation, Values], SSAValue]


def emit(b: TtBuilder, op: Operation, operands: Values, first: Mapping[str, Row] = {}) -> SSAValue:
    """The value of `op` for these operands, by its row in `first` if there is one. Raises KernelError for an op without
    a row.
    """
    row = first.get(op.name) or ROWS.get(op.name)
    if row is None:
        raise KernelError(f"no code for {op.name} ({describe_location(op.location)})")
    if isinstance(half := op.results[0].type, HALF_TYPES) and (op.name in _FLOAT_OPS or _has_wide(b, op, operands)):
        wide = row(b, op, [widened(b, v) for v in operands])
        value = narrowed(b, wide, half)
        if op.name in _EXACT:
            b.remember((_WIDE, value), wide)
        return value
    if op.name == "arith.cmpf":
        operands = [widened(b, v) for v in operands]
    return row(b, op, operands)


_WIDE = "wide"
_EXACT = frozenset(
    ("arith.maximumf", "arith.minimumf", "arith.maxnumf", "arith.minnumf", "arith.negf", "math.absf", "arith.select")
)
"""Ops on half floats whose result in f32 is one already: it is used where it is widened again."""


def _has_wide(b: TtBuilder, op: Operation, operands: Values) -> bool:
    """Whether `op` selects what is known in f32."""
    return op.name == "arith.select" and any(b.recall((_WIDE, v)) is not None for v in operands)


def widened(b: TtBuilder, v: SSAValue) -> SSAValue:
    """A value for arithmetic: half floats as f32."""
    if not isinstance(element_of(v.type), HALF_TYPES):
        return v
    return b.recall((_WIDE, v)) or b.cast(arith.ExtFOp, v, f32)


def narrowed(b: TtBuilder, v: SSAValue, type: Attribute) -> SSAValue:
    """The inverse of `widened`, rounded."""
    return b.cast(arith.TruncFOp, v, type) if isinstance(type, HALF_TYPES) else v


def same(b: TtBuilder, value: float | int, like: SSAValue) -> SSAValue:
    """A constant of the element type of `like`."""
    return b.constant(value, element_of(like.type))


# ------------------------------------------------------------------------------------------------------- plain ops


def _int(cls: type[Operation]) -> Row:
    return lambda b, op, v: b.integer(cls, *v)


def _float(cls: type[Operation]) -> Row:
    return lambda b, op, v: b.float(cls, *v)


def _math(name: str) -> Row:
    return lambda b, op, v: tt_math.MATH[name](b, *v)


def _function(b: TtBuilder, op: Operation, v: Values) -> SSAValue:
    name = cast(Any, op.properties["fn"]).data
    if name not in tt_math.MATH:
        raise KernelError(f"no code for loop.fn {name} ({describe_location(op.location)})")
    return tt_math.MATH[name](b, *v)


def _predicate(op: Operation) -> int:
    return cast("IntegerAttr[IntegerType]", op.properties["predicate"]).value.data


def _constant(b: TtBuilder, op: Operation, v: Values) -> SSAValue:
    return b.literal(cast(Any, op.properties["value"]))


# ------------------------------------------------------------------------------------------------- integer division


def _divide(b: TtBuilder, op: Operation, v: Values, signed: bool) -> SSAValue:
    """Towards zero. The divisor 0, for which no result is right, must not make LLVM think that it cannot be."""
    y = b.select(b.compare("eq", v[1], same(b, 0, v[1])), same(b, 1, v[1]), v[1])
    return b.integer(arith.DivSIOp if signed else arith.DivUIOp, v[0], y)


def _remainder(b: TtBuilder, op: Operation, v: Values, signed: bool) -> SSAValue:
    y = b.select(b.compare("eq", v[1], same(b, 0, v[1])), same(b, 1, v[1]), v[1])
    return b.integer(arith.RemSIOp if signed else arith.RemUIOp, v[0], y)


def _round_towards(b: TtBuilder, op: Operation, v: Values, up: bool) -> SSAValue:
    """The quotient rounded down (or up): moved by one where the division left a rest and the signs differ (agree)."""
    x, y = v
    quotient, rest = _divide(b, op, v, True), _remainder(b, op, v, True)
    zero = same(b, 0, x)
    signs = b.compare("sge" if up else "slt", b.integer(arith.XOrIOp, x, y), zero)
    moved = b.integer(arith.AndIOp, signs, b.compare("ne", rest, zero))
    return b.select(moved, b.integer(arith.AddiOp, quotient, same(b, 1 if up else -1, x)), quotient)


def _ceil_unsigned(b: TtBuilder, op: Operation, v: Values) -> SSAValue:
    quotient, rest = _divide(b, op, v, False), _remainder(b, op, v, False)
    more = b.integer(arith.AddiOp, quotient, same(b, 1, quotient))
    return b.select(b.compare("ne", rest, same(b, 0, rest)), more, quotient)


# ------------------------------------------------------------------------------------------------------ conversions


def _extend(b: TtBuilder, op: Operation, v: Values) -> SSAValue:
    value = widened(b, v[0])
    return b.cast(arith.ExtFOp, value, op.results[0].type)


def _truncate(b: TtBuilder, op: Operation, v: Values) -> SSAValue:
    result, value = op.results[0].type, v[0]
    if isinstance(result, HALF_TYPES) and isinstance(element_of(value.type), Float64Type):
        # torch converts double to half types through float too
        value = b.cast(arith.TruncFOp, value, f32)
    return b.cast(arith.TruncFOp, value, result)


def _to_integer(b: TtBuilder, op: Operation, v: Values, signed: bool) -> SSAValue:
    """Towards zero; narrow types keep the low bits."""
    value, type = widened(b, v[0]), op.results[0].type
    assert isinstance(type, IntegerType)
    width = type.width.data
    wide = IntegerType(max(width, 32 if signed else 64))
    cls = arith.FPToUIOp if not signed and width == 64 else arith.FPToSIOp
    return b.resize(b.cast(cls, value, wide), type)


def _from_integer(b: TtBuilder, op: Operation, v: Values, signed: bool) -> SSAValue:
    value, type = v[0], op.results[0].type
    own = element_of(value.type)
    assert isinstance(own, IntegerType)
    if own.width.data < 32:
        value, signed = b.resize(value, i32, signed), True
    cls = arith.SIToFPOp if signed else arith.UIToFPOp
    if isinstance(type, HALF_TYPES):
        return narrowed(b, b.cast(cls, value, f32), type)
    return b.cast(cls, value, type)


def _resize(signed: bool) -> Row:
    return lambda b, op, v: b.resize(v[0], cast(IntegerType, op.results[0].type), signed)


# ------------------------------------------------------------------------------------------------------------ powers


def _known(v: SSAValue) -> int | None:
    """The number that an operand of the loop level is."""
    value = v.owner.properties["value"] if isinstance(v.owner, arith.ConstantOp) else None
    return value.value.data if isinstance(value, IntegerAttr) else None


def _float_to_integer_power(b: TtBuilder, op: Operation, v: Values) -> SSAValue:
    known = _known(op.operands[1])
    if known is None or abs(known) > 64:
        return tt_math.libdevice(b, "pow", v[0], b.cast(arith.SIToFPOp, v[1], element_of(v[0].type)))
    power = by_squaring(partial(b.float, arith.MulfOp), v[0], abs(known), same(b, 1.0, v[0]))
    return power if known >= 0 else tt_math.divide(b, same(b, 1.0, power), power)


def _integer_power(b: TtBuilder, op: Operation, v: Values) -> SSAValue:
    """x**n by squaring, wrapping; negative n gives 1, -1 or 0."""
    x, n = v
    multiply = partial(b.integer, arith.MuliOp)
    known, one, zero = _known(op.operands[1]), same(b, 1, x), same(b, 0, x)
    if known is not None and known >= 0:
        return by_squaring(multiply, x, known, one)
    result, power = one, x
    width = cast(IntegerType, element_of(x.type)).width.data
    for bit in range(width - 1):
        odd = b.compare("ne", b.integer(arith.AndIOp, n, same(b, 1 << bit, n)), zero)
        result = b.select(odd, multiply(result, power), result)
        power = multiply(power, power)
    parity = b.compare("ne", b.integer(arith.AndIOp, n, one), zero)
    minus = b.select(b.compare("eq", x, same(b, -1, x)), b.select(parity, same(b, -1, x), one), zero)
    inverse = b.select(b.compare("eq", x, one), one, minus)
    return b.select(b.compare("slt", n, zero), inverse, result)


_CALLED = (
    *("acos", "acosh", "asin", "asinh", "atan2", "atan", "atanh", "cbrt", "ceil", "copysign", "cos", "cosh", "erf"),
    *("exp2", "expm1", "exp", "floor", "fma", "log10", "log1p", "log2", "log", "roundeven", "round", "rsqrt", "sin"),
    *("sinh", "sqrt", "tan", "tanh", "trunc"),
)

_FLOAT: dict[str, Row] = {
    "arith.addf": _float(arith.AddfOp),
    "arith.subf": lambda b, op, v: tt_math.subtract(b, *v),
    "arith.mulf": _float(arith.MulfOp),
    "arith.divf": lambda b, op, v: tt_math.divide(b, *v),
    "arith.negf": lambda b, op, v: tt_math.negate(b, *v),
    "arith.maximumf": _float(arith.MaximumfOp),
    "arith.minimumf": _float(arith.MinimumfOp),
    "arith.maxnumf": _float(arith.MaxnumfOp),
    "arith.minnumf": _float(arith.MinnumfOp),
    "math.absf": _math("fabs"),
    "math.powf": _math("pow"),
    **{f"math.{name}": _math(name) for name in _CALLED},
    "loop.fn": _function,
}
_FLOAT_OPS = frozenset(_FLOAT)

ROWS: dict[str, Row] = {
    **_FLOAT,
    "arith.constant": _constant,
    "arith.addi": _int(arith.AddiOp),
    "arith.subi": _int(arith.SubiOp),
    "arith.muli": _int(arith.MuliOp),
    "arith.andi": _int(arith.AndIOp),
    "arith.ori": _int(arith.OrIOp),
    "arith.xori": _int(arith.XOrIOp),
    "arith.divsi": partial(_divide, signed=True),
    "arith.divui": partial(_divide, signed=False),
    "arith.remsi": partial(_remainder, signed=True),
    "arith.remui": partial(_remainder, signed=False),
    "arith.floordivsi": partial(_round_towards, up=False),
    "arith.ceildivsi": partial(_round_towards, up=True),
    "arith.ceildivui": _ceil_unsigned,
    "arith.maxsi": _int(arith.MaxSIOp),
    "arith.minsi": _int(arith.MinSIOp),
    "arith.maxui": _int(arith.MaxUIOp),
    "arith.minui": _int(arith.MinUIOp),
    "arith.shli": _int(arith.ShLIOp),
    "arith.shrsi": _int(arith.ShRSIOp),
    "arith.shrui": _int(arith.ShRUIOp),
    "arith.cmpi": lambda b, op, v: b.compare(INTEGER_PREDICATES[_predicate(op)], *v),
    "arith.cmpf": lambda b, op, v: b.compare(FLOAT_PREDICATES[_predicate(op)], *v),
    "arith.select": lambda b, op, v: b.select(*v),
    "arith.extf": _extend,
    "arith.truncf": _truncate,
    "arith.fptosi": partial(_to_integer, signed=True),
    "arith.fptoui": partial(_to_integer, signed=False),
    "arith.sitofp": partial(_from_integer, signed=True),
    "arith.uitofp": partial(_from_integer, signed=False),
    "arith.extsi": _resize(True),
    "arith.extui": _resize(False),
    "arith.trunci": _resize(True),
    "arith.bitcast": lambda b, op, v: b.cast(tt.BitcastOp, v[0], op.results[0].type),
    "math.absi": lambda b, op, v: b.integer(arith.MaxSIOp, v[0], b.integer(arith.SubiOp, same(b, 0, v[0]), v[0])),
    "math.fpowi": _float_to_integer_power,
    "math.ipowi": _integer_power,
}


def _sum(b: TtBuilder, op: Operation, v: Values) -> SSAValue:
    """What an erf or tanh became already, where 1 is added to it."""
    made = tt_rounded.grown(op)
    return b.float(arith.AddfOp, *v) if made is None else v[list(op.operands).index(made.results[0])]


def _to_grow(plain: Callable[..., SSAValue], grown: Callable[..., SSAValue]) -> Row:
    return lambda b, op, v: (grown if tt_rounded.is_grown(op) else plain)(b, *v)


ROUNDED: dict[str, Row] = {
    "arith.addf": _sum,
    "arith.divf": lambda b, op, v: tt_rounded.divide(b, *v),
    "math.exp": lambda b, op, v: tt_rounded.exp(b, *v),
    "math.erf": _to_grow(tt_rounded.erf, tt_rounded.one_and_erf),
    "math.tanh": _to_grow(tt_rounded.tanh, tt_rounded.one_and_tanh),
    "math.rsqrt": lambda b, op, v: b.float(math.RsqrtOp, *v),
}
"""Ops of f32 that may be a few units off."""

SOFTMAX: dict[str, Row] = {
    "arith.divf": lambda b, op, v: tt_rounded.share(b, *v),
    "arith.subf": lambda b, op, v: tt_rounded.power(b, *v),
    "math.exp": lambda b, op, v: tt_rounded.exp2_of_sum(b, *v),
}
"""Those of a softmax."""
