"""Scalar ops of kernel bodies (`arith`, `math`, `loop.fn`) as llvm ops: one row an op, on scalars and vectors alike.

f16 and bf16 values are kept as their bits in i16; only conversions know them as numbers, and arithmetic on them is done
in f32 and rounded. Everything here is total: what eager leaves undefined gives some value and never traps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, cast

from xdsl.dialects import arith, llvm
from xdsl.dialects.builtin import (
    BFloat16Type,
    Float64Type,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    f32,
    f64,
    i1,
    i16,
)
from xdsl.ir import Attribute, Operation, SSAValue

from ..dialects import llvm_ext
from ..dialects.errors import describe_location
from ..dialects.tensor import HALF_TYPES
from . import softmax_rows
from .half_floats import from_f32, half_bits, pairs_to_bf16, to_f32
from .halves_apart import Apart
from .llvm_builder import FunctionBuilder, KernelError, bits_of, element_of, lanes_of
from .llvm_properties import NO_FLAGS
from .narrowed import ALL, OF_BF16, OF_F16, digits
from .numbers import by_squaring
from .scalar_division import ceil_unsigned, divide, divide_floats, remainder, round_towards
from .vector_math import MATH
from .vector_value import Builder as MathBuilder
from .vector_value import MathTarget, Value


def register_type(type: Attribute) -> Attribute:
    """The type a scalar of a body has in registers."""
    return i16 if isinstance(type, HALF_TYPES) else type


class ScalarCode:
    """Appends the code of scalar ops through a builder, for a target."""

    def __init__(self, b: FunctionBuilder, target: MathTarget):
        self.b = b
        self.target = target
        self._math = MathBuilder(b.place, target)
        self.apart = Apart(b, target)
        self.is_apart = False
        self.softmax: frozenset[Operation] = frozenset()
        self.totals: frozenset[SSAValue] = frozenset()
        """Divisors in whose reciprocals nothing is lost."""

    def emit(self, op: Operation, operands: list[SSAValue]) -> SSAValue:
        """The value of `op` for these operands, all scalars or all vectors. KernelError for an op without a row."""
        row = ROWS.get(op.name)
        if row is None:
            raise KernelError(f"no code for {op.name} ({describe_location(op.location)})")
        if op.name in _FLOAT_OPS and isinstance(op.results[0].type if op.results else None, HALF_TYPES):
            half = op.results[0].type
            wide = [self.widened(v, half) for v in operands]
            return self.narrowed(row(self, op, wide), half, op.name not in _EXACT)
        if op.name == "arith.cmpf" and isinstance(half := op.operands[0].type, HALF_TYPES):
            operands = [self.widened(v, half) for v in operands]
        return row(self, op, operands)

    def math(self, name: str, *operands: SSAValue) -> SSAValue:
        """A function from `vector_math.MATH`; scalars are repeated beside vectors."""
        lanes = max(operands, key=lambda x: x.type != element_of(x))
        operands = tuple(self.b.same_lanes(x, lanes)[0] for x in operands)
        return MATH[name](*(Value(self._math, v) for v in operands)).ssa

    def literal(self, attribute: Attribute) -> SSAValue:
        """An `IntegerAttr` or `FloatAttr` as a constant."""
        if isinstance(attribute, IntegerAttr):
            return self.b.constant(cast("IntegerAttr[IntegerType]", attribute).value.data, attribute.type)
        assert isinstance(attribute, FloatAttr)
        type, value = cast(Attribute, attribute.type), attribute.value.data
        if isinstance(type, HALF_TYPES):
            return self.b.constant(half_bits(value, type), i16)
        return self.b.constant(value, type)

    # ------------------------------------------------------------------------------------------------------- helpers

    def widened(self, value: SSAValue, type: Attribute) -> SSAValue:
        """A value of a body's type for arithmetic: half floats as f32."""
        known = self.apart.known.get(value)
        if known is not None:
            return known.number
        return to_f32(self.b, value, type, self.target) if isinstance(type, HALF_TYPES) else value

    def narrowed(self, value: SSAValue, type: Attribute, rounds: bool = True, ties: bool = True) -> SSAValue:
        """The inverse of `widened`, rounded if need be; what is half floats already stays."""
        if not isinstance(type, HALF_TYPES) or element_of(value) == i16:
            return value
        if self.is_apart and isinstance(type, BFloat16Type) and lanes_of(value) > 1:
            return self.apart.rounded(value, rounds, ties)
        return from_f32(self.b, value, type, self.target, rounds)

    def rounded(self, op: arith.TruncFOp, values: Sequence[SSAValue]) -> list[SSAValue] | None:
        """Copies of a value converted together, where that is faster."""
        if self.is_apart or op.input.type != f32 or not isinstance(op.result.type, BFloat16Type):
            return None
        return pairs_to_bf16(self.b, values, self.target)

    def same(self, value: float | int, like: SSAValue) -> SSAValue:
        """A constant of the type of `like`."""
        return self.b.constant(value, like.type)

    def is_nan(self, x: SSAValue) -> SSAValue:
        return self.b.fcmp("uno", x, x)

    def maximum(self, x: SSAValue, y: SSAValue, predicate: str = "ogt") -> SSAValue:
        """max (`olt`: min) of floats; NaN if either is. `x > y ? x : y` gives y where either is NaN."""
        return self.b.select(self.is_nan(x), x, self.b.select(self.b.fcmp(predicate, x, y), x, y))

    def maxnum(self, x: SSAValue, y: SSAValue, predicate: str = "ogt") -> SSAValue:
        """max (`olt`: min) of floats; the other one if one is NaN."""
        return self.b.select(self.is_nan(x), y, self.b.select(self.b.fcmp(predicate, y, x), y, x))

    def extreme(self, x: SSAValue, y: SSAValue, predicate: str) -> SSAValue:
        """max or min of integers."""
        return self.b.select(self.b.icmp(predicate, x, y), x, y)


Row = Callable[[ScalarCode, Operation, list[SSAValue]], SSAValue]


# ------------------------------------------------------------------------------------------------------- plain ops


def _int(cls: type[Operation]) -> Row:
    return lambda s, op, v: s.b.binary(cls, v[0], v[1])


def _math(name: str) -> Row:
    return lambda s, op, v: s.math(name, *v)


def _cast(cls: type[Operation]) -> Row:
    return lambda s, op, v: s.b.cast(cls, v[0], op.results[0].type)


def _intrinsic(name: str, *flags: int) -> Row:
    return lambda s, op, v: s.b.intrinsic(name, (*v, *(s.b.constant(f, i1) for f in flags)), v[0].type)


def _extreme(predicate: str) -> Row:
    return lambda s, op, v: s.extreme(v[0], v[1], predicate)


def _cmpi(s: ScalarCode, op: Operation, v: list[SSAValue]) -> SSAValue:
    names = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
    return s.b.icmp(names[_predicate(op)], *v)


def _cmpf(s: ScalarCode, op: Operation, v: list[SSAValue]) -> SSAValue:
    names = (
        *("false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord"),
        *("ueq", "ugt", "uge", "ult", "ule", "une", "uno", "true"),
    )
    return s.b.fcmp(names[_predicate(op)], *v)


def _predicate(op: Operation) -> int:
    return cast("IntegerAttr[IntegerType]", op.properties["predicate"]).value.data


def _select(s: ScalarCode, op: Operation, v: list[SSAValue]) -> SSAValue:
    return s.b.select(*v)


def _constant(s: ScalarCode, op: Operation, v: list[SSAValue]) -> SSAValue:
    return s.literal(op.properties["value"])


def _negate(s: ScalarCode, op: Operation, v: list[SSAValue]) -> SSAValue:
    return s.b.pure(llvm.FNegOp, v, v[0].type, s.b.float_flags)


def _division(build: Callable[..., SSAValue], signed: bool) -> Row:
    return lambda s, op, v: build(s, v[0], v[1], signed)


# ------------------------------------------------------------------------------------------------------ conversions


def _extend(s: ScalarCode, op: Operation, v: list[SSAValue]) -> SSAValue:
    source, result = op.operands[0].type, op.results[0].type
    value = s.widened(v[0], source)
    return s.b.cast(llvm.FPExtOp, value, f64) if isinstance(result, Float64Type) else value


def _truncate(s: ScalarCode, op: Operation, v: list[SSAValue]) -> SSAValue:
    result, value = op.results[0].type, v[0]
    if not isinstance(result, HALF_TYPES):
        return s.b.cast(llvm.FPTruncOp, value, result)
    if isinstance(op.operands[0].type, Float64Type):
        # Torch converts double to half types through float too.
        value = s.b.cast(llvm.FPTruncOp, value, f32)
    return s.narrowed(value, result, ties=op.operands[0].owner not in s.softmax)


_EXPONENTIALS = frozenset(("math.exp", "math.exp2", "math.expm1"))


def _subtract(s: ScalarCode, op: Operation, v: list[SSAValue]) -> SSAValue:
    """What is an exponent is not contracted: of a product that is large, less the largest of all, it would be how that
    was rounded, which may be any number. Nor is the difference of two products: it is 0 where they are equal.
    """
    if op in s.softmax:
        return softmax_rows.power(s, *v)
    products = all(isinstance(o.owner, arith.MulfOp) for o in op.operands)
    if products or any(use.operation.name in _EXPONENTIALS for use in op.results[0].uses):
        return s.b.binary(llvm.FSubOp, v[0], v[1], NO_FLAGS)
    return s.b.fsub(*v)


def _float_operand(s: ScalarCode, op: Operation, v: list[SSAValue]) -> SSAValue:
    return s.widened(v[0], op.operands[0].type)


def _to_integer(s: ScalarCode, op: Operation, v: list[SSAValue], signed: bool) -> SSAValue:
    """Towards zero. Out of range it is the least integer, as of x86's instruction; narrow types keep the low bits. Of
    u64, what is below 0 wraps around, and what is 2^63 or more is taken less that, as C++ compilers do on x86.
    """
    value, width = _float_operand(s, op, v), bits_of(op.results[0])
    wide = IntegerType(max(width, 32 if signed else 64))
    whole = s.b.cast(llvm_ext.FPToSIOp, value, wide)
    if not signed and width == 64:
        half = s.same(2.0**63, value)
        rest = s.b.cast(llvm_ext.FPToSIOp, s.b.fsub(value, half), wide)
        upper = s.b.add(rest, s.same(-(2**63), rest))
        whole = s.b.select(s.b.fcmp("oge", value, half), upper, whole)
    return s.b.resize(whole, IntegerType(width))


def _from_integer(s: ScalarCode, op: Operation, v: list[SSAValue], cls: type[Operation]) -> SSAValue:
    result = op.results[0].type
    if isinstance(result, HALF_TYPES):
        return s.narrowed(s.b.cast(cls, v[0], f32), result)
    return s.b.cast(cls, v[0], result)


def _bitcast(s: ScalarCode, op: Operation, v: list[SSAValue]) -> SSAValue:
    result = register_type(op.results[0].type)
    return v[0] if element_of(v[0]) == result else s.b.cast(llvm.BitcastOp, v[0], result)


# ------------------------------------------------------------------------------------------------------------ powers


def _float_to_integer_power(s: ScalarCode, op: Operation, v: list[SSAValue]) -> SSAValue:
    known = s.b.literal(v[1])
    if known is None or abs(known) > 64:
        return s.math("pow", v[0], s.b.cast(llvm.SIToFPOp, v[1], element_of(v[0])))
    power = by_squaring(partial(s.b.fmul), v[0], abs(known), s.same(1.0, v[0]))
    return power if known >= 0 else s.b.fdiv(s.same(1.0, power), power)


def _integer_power(s: ScalarCode, op: Operation, v: list[SSAValue]) -> SSAValue:
    """x**n by squaring, wrapping; negative n gives 1, -1 or 0."""
    b, (x, n) = s.b, s.b.same_lanes(*v)
    known, one, zero = b.literal(n), s.same(1, x), s.same(0, x)
    if known is not None and known >= 0:
        return by_squaring(b.mul, x, known, one)
    result, power = one, x
    for bit in range(bits_of(x) - 1):
        odd = b.icmp("ne", b.binary(llvm.AndOp, n, s.same(1 << bit, n)), s.same(0, n))
        result = b.select(odd, b.mul(result, power), result)
        power = b.mul(power, power)
    parity = b.icmp("ne", b.binary(llvm.AndOp, n, s.same(1, n)), s.same(0, n))
    minus = b.select(b.icmp("eq", x, s.same(-1, x)), b.select(parity, s.same(-1, x), one), zero)
    inverse = b.select(b.icmp("eq", x, one), one, minus)
    return b.select(b.icmp("slt", n, s.same(0, n)), inverse, result)


def _function(s: ScalarCode, op: Operation, v: list[SSAValue]) -> SSAValue:
    name = cast(Any, op.properties["fn"]).data
    if name not in MATH:
        raise KernelError(f"no code for loop.fn {name} ({describe_location(op.location)})")
    return s.math(name, *v)


def _exponential(s: ScalarCode, op: Operation, v: list[SSAValue]) -> SSAValue:
    """As exactly as is of use. Without contractions an element has the same bits in a vector and alone."""
    result = op.results[0]
    kept = digits(result) if result.type == f32 and s.b.float_flags is not NO_FLAGS else ALL
    function = "exp2" if op in s.softmax else "exp"
    return s.math({OF_BF16: f"{function}_bf16", OF_F16: f"{function}_f16"}.get(kept, function), *v)


def _half_away_from_zero(s: ScalarCode, op: Operation, v: list[SSAValue]) -> SSAValue:
    return s.b.intrinsic("round", v, v[0].type)


def _cube_root(s: ScalarCode, op: Operation, v: list[SSAValue]) -> SSAValue:
    size = s.b.intrinsic("fabs", v, v[0].type)
    root = s.math("pow", size, s.same(1.0 / 3.0, size))
    return s.b.intrinsic("copysign", (root, v[0]), root.type)


def _absolute(s: ScalarCode, op: Operation, v: list[SSAValue]) -> SSAValue:
    return s.b.intrinsic("abs", (v[0], s.b.constant(0, i1)), v[0].type)


def _fused(s: ScalarCode, op: Operation, v: list[SSAValue]) -> SSAValue:
    if not s.target.has_fma:
        return s.b.fadd(s.b.fmul(v[0], v[1]), v[2])
    lanes = max(v, key=lambda x: x.type != element_of(x))
    return s.b.intrinsic("fma", [s.b.same_lanes(x, lanes)[0] for x in v], lanes.type)


_CALLED = (
    *("acos", "acosh", "asin", "asinh", "atan2", "atan", "atanh", "ceil", "copysign", "cos", "cosh", "erf", "exp2"),
    *("expm1", "floor", "log10", "log1p", "log2", "log", "roundeven", "rsqrt", "sin", "sinh", "sqrt", "tan"),
    *("tanh", "trunc"),
)

_FLOAT: dict[str, Row] = {
    "arith.addf": lambda s, op, v: s.b.fadd(*v),
    "arith.subf": _subtract,
    "arith.mulf": lambda s, op, v: s.b.fmul(*v),
    "arith.divf": divide_floats,
    "arith.negf": _negate,
    "arith.maximumf": lambda s, op, v: s.maximum(*s.b.same_lanes(*v)),
    "arith.minimumf": lambda s, op, v: s.maximum(*s.b.same_lanes(*v), "olt"),
    "arith.maxnumf": lambda s, op, v: s.maxnum(*s.b.same_lanes(*v)),
    "arith.minnumf": lambda s, op, v: s.maxnum(*s.b.same_lanes(*v), "olt"),
    "math.absf": _intrinsic("fabs"),
    "math.fma": _fused,
    "math.powf": _math("pow"),
    "math.round": _half_away_from_zero,
    "math.cbrt": _cube_root,
    **{f"math.{name}": _math(name) for name in _CALLED},
    "math.exp": _exponential,
    "loop.fn": _function,
}
_FLOAT_OPS = frozenset(_FLOAT)
_EXACT = frozenset(f"arith.{name}" for name in ("maximumf", "minimumf", "maxnumf", "minnumf", "negf")) | {"math.absf"}
"""Ops whose result has no more digits than their operands."""

ROWS: dict[str, Row] = {
    **_FLOAT,
    "arith.constant": _constant,
    "arith.addi": lambda s, op, v: s.b.add(*v),
    "arith.subi": lambda s, op, v: s.b.sub(*v),
    "arith.muli": lambda s, op, v: s.b.mul(*v),
    "arith.andi": _int(llvm.AndOp),
    "arith.ori": _int(llvm.OrOp),
    "arith.xori": _int(llvm.XOrOp),
    "arith.divsi": _division(divide, True),
    "arith.divui": _division(divide, False),
    "arith.remsi": _division(remainder, True),
    "arith.remui": _division(remainder, False),
    "arith.floordivsi": partial(round_towards, up=False),
    "arith.ceildivsi": partial(round_towards, up=True),
    "arith.ceildivui": ceil_unsigned,
    "arith.maxsi": _extreme("sgt"),
    "arith.minsi": _extreme("slt"),
    "arith.maxui": _extreme("ugt"),
    "arith.minui": _extreme("ult"),
    "arith.shli": lambda s, op, v: s.b.shl(*v),
    "arith.shrsi": _int(llvm.AShrOp),
    "arith.shrui": _int(llvm.LShrOp),
    "arith.cmpi": _cmpi,
    "arith.cmpf": _cmpf,
    "arith.select": _select,
    "arith.extf": _extend,
    "arith.truncf": _truncate,
    "arith.fptosi": partial(_to_integer, signed=True),
    "arith.fptoui": partial(_to_integer, signed=False),
    "arith.sitofp": partial(_from_integer, cls=llvm.SIToFPOp),
    "arith.uitofp": partial(_from_integer, cls=llvm_ext.UIToFPOp),
    "arith.extsi": _cast(llvm.SExtOp),
    "arith.extui": _cast(llvm.ZExtOp),
    "arith.trunci": _cast(llvm.TruncOp),
    "arith.bitcast": _bitcast,
    "math.absi": _absolute,
    "math.ctpop": _intrinsic("ctpop"),
    "math.ctlz": _intrinsic("ctlz", 0),
    "math.cttz": _intrinsic("cttz", 0),
    "math.fpowi": _float_to_integer_power,
    "math.ipowi": _integer_power,
}
