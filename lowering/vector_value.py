"""Arithmetic on llvm-dialect values written with Python's operators: `(x * y + 1.0).select(...)` appends the ops.

Everything works on scalars and on vectors of any width, of f32, f64 and the integers of the same width.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Protocol, cast

from xdsl.dialects import llvm
from xdsl.dialects.builtin import (
    AnyFloat,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    StringAttr,
    f64,
    i32,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue

from ..dialects import llvm_ext
from ..dialects.llvm_ext import element_of, vector_of, width_of

Emit = Callable[[Operation], SSAValue]
"""Appends an op at the place where code is being written and gives its result."""


class MathTarget(Protocol):
    """What the math needs to know about the CPU."""

    @property
    def vector_bits(self) -> int: ...
    @property
    def has_fma(self) -> bool: ...
    @property
    def has_avx512(self) -> bool: ...
    @property
    def triple(self) -> str: ...


class Builder:
    """Where ops go, what the target has, and the constants made so far in this expression."""

    def __init__(self, emit: Emit, target: MathTarget):
        self.emit = emit
        self.target = target
        self._constants: dict[tuple[int, str], tuple[Attribute, Value]] = {}

    def value(self, ssa: SSAValue) -> Value:
        return Value(self, ssa)

    def constant(self, number: float | int, type: Attribute) -> Value:
        """`number` in every lane of `type`."""
        # By identity, as hashing a vector type costs more than a second constant; kept, so that its id stays its own.
        key = (id(type), repr(number))
        if (known := self._constants.get(key)) is None:
            attribute = _number(repr(number), element_of(type))
            op = llvm_ext.ConstantOp.create(properties={"value": attribute}, result_types=[type])
            known = self._constants[key] = type, Value(self, self.emit(op))
        return known[1]

    def table(self, numbers: Sequence[float], type: Attribute) -> Value:
        """One number for each lane of a vector of floats."""
        key = (id(type), repr(numbers))
        if (known := self._constants.get(key)) is None:
            attribute = DenseIntOrFPElementsAttr.from_list(cast(Any, type), list(numbers))
            op = llvm_ext.ConstantOp.create(properties={"value": attribute}, result_types=[type])
            known = self._constants[key] = type, Value(self, self.emit(op))
        return known[1]

    def intrinsic(self, name: str, *operands: Value | float | int, type: Attribute | None = None) -> Value:
        """A call of `llvm.name`; numbers become constants of the first operand's type."""
        first = operands[0]
        assert isinstance(first, Value)
        values = [first.like(v).ssa for v in operands]
        return self.raw_intrinsic(name, values, type or first.type)

    def raw_intrinsic(self, name: str, operands: Sequence[SSAValue], type: Attribute) -> Value:
        properties = {
            "intrin": _intrinsic_name(name),
            "operandSegmentSizes": llvm_ext.segments(len(operands), 0),
            "op_bundle_sizes": llvm_ext.segments(),
            "fastmathFlags": _NO_FLAGS,
        }
        op = llvm.CallIntrinsicOp.create(operands=operands, result_types=[type], properties=properties)
        return Value(self, self.emit(op))


@cache
def _number(text: str, element: Attribute) -> Attribute:
    if isinstance(element, IntegerType):
        return IntegerAttr(int(text), element)
    return FloatAttr(float(text), cast(AnyFloat, element))


@cache
def _intrinsic_name(name: str) -> StringAttr:
    return StringAttr(f"llvm.{name}")


_NO_FLAGS = llvm.FastMathAttr(None)
_FLOAT_PROPERTIES = {"fastmathFlags": _NO_FLAGS}
_INT_PROPERTIES = {"overflowFlags": IntegerAttr(0, i32)}


class Value:
    """An SSA value of a scalar or vector type. Operators follow the type: floats or (wrapping) integers."""

    __slots__ = ("b", "ssa")

    def __init__(self, builder: Builder, ssa: SSAValue):
        self.b = builder
        self.ssa = ssa

    @property
    def type(self) -> Attribute:
        return self.ssa.type

    @property
    def width(self) -> int:
        return width_of(self.type)

    @property
    def is_double(self) -> bool:
        return element_of(self.type) == f64

    @property
    def int_type(self) -> Attribute:
        """The integers of the same width and lanes."""
        return vector_of(i64 if self.is_double else i32, self.width)

    def like(self, other: Value | float | int) -> Value:
        return other if isinstance(other, Value) else self.b.constant(other, self.type)

    # ------------------------------------------------------------------------------------------------- arithmetic

    def _binary(self, op: type[Operation], other: Value | float | int, properties: Mapping[str, Attribute]) -> Value:
        operands = [self.ssa, self.like(other).ssa]
        new = op.create(operands=operands, result_types=[self.type], properties=properties)
        return Value(self.b, self.b.emit(new))

    def __add__(self, other: Value | float | int) -> Value:
        if self.is_float:
            return self._binary(llvm.FAddOp, other, _FLOAT_PROPERTIES)
        return self._binary(llvm.AddOp, other, _INT_PROPERTIES)

    def __sub__(self, other: Value | float | int) -> Value:
        if self.is_float:
            return self._binary(llvm.FSubOp, other, _FLOAT_PROPERTIES)
        return self._binary(llvm.SubOp, other, _INT_PROPERTIES)

    def __mul__(self, other: Value | float | int) -> Value:
        if self.is_float:
            return self._binary(llvm.FMulOp, other, _FLOAT_PROPERTIES)
        return self._binary(llvm.MulOp, other, _INT_PROPERTIES)

    def __truediv__(self, other: Value | float) -> Value:
        return self._binary(llvm.FDivOp, other, _FLOAT_PROPERTIES)

    def __rsub__(self, other: float | int) -> Value:
        return self.like(other) - self

    def __rtruediv__(self, other: float) -> Value:
        return self.like(other) / self

    __radd__ = __add__
    __rmul__ = __mul__

    def __neg__(self) -> Value:
        op = llvm.FNegOp.create(operands=[self.ssa], result_types=[self.type], properties=_FLOAT_PROPERTIES)
        return Value(self.b, self.b.emit(op))

    def __and__(self, other: Value | int) -> Value:
        return self._binary(llvm.AndOp, other, {})

    def __or__(self, other: Value | int) -> Value:
        return self._binary(llvm.OrOp, other, {})

    def __xor__(self, other: Value | int) -> Value:
        return self._binary(llvm.XOrOp, other, {})

    def __lshift__(self, other: int) -> Value:
        return self._binary(llvm.ShlOp, other, _INT_PROPERTIES)

    def __rshift__(self, other: int) -> Value:
        """Arithmetic shift."""
        return self._binary(llvm.AShrOp, other, {})

    @property
    def is_float(self) -> bool:
        return not isinstance(element_of(self.type), IntegerType)

    def fma(self, factor: Value | float, term: Value | float) -> Value:
        """`self * factor + term`, with one rounding where the target has the instruction, else with two."""
        if not self.b.target.has_fma:
            return self * factor + term
        return self.b.intrinsic("fma", self, factor, term)

    def poly(self, *coefficients: float) -> Value:
        """The polynomial in `self` by Horner's rule, highest power first."""
        result = self.b.constant(coefficients[0], self.type)
        for c in coefficients[1:]:
            result = result.fma(self, c)
        return result

    def abs(self) -> Value:
        return self.b.intrinsic("fabs", self)

    def sqrt(self) -> Value:
        return self.b.intrinsic("sqrt", self)

    def copysign(self, sign: Value | float) -> Value:
        return self.b.intrinsic("copysign", self, sign)

    # ---------------------------------------------------------------------------------------- compare and choose

    def compare(self, predicate: str, other: Value | float | int) -> Value:
        """An i1 per lane: LLVM's predicates (`olt`, `une`, `slt`, ...)."""
        right = self.like(other).ssa
        op = (llvm_ext.FCmpOp if self.is_float else llvm_ext.ICmpOp)(self.ssa, right, predicate)
        return Value(self.b, self.b.emit(op))

    def __lt__(self, other: Value | float | int) -> Value:
        return self.compare("olt" if self.is_float else "slt", other)

    def __gt__(self, other: Value | float | int) -> Value:
        return self.compare("ogt" if self.is_float else "sgt", other)

    def equals(self, other: Value | float | int) -> Value:
        return self.compare("oeq" if self.is_float else "eq", other)

    def select(self, then: Value, other: Value | float | int) -> Value:
        """`then` in the lanes where this i1 is set, else `other`."""
        operands = [self.ssa, then.ssa, then.like(other).ssa]
        op = llvm_ext.SelectOp.create(operands=operands, result_types=[then.type], properties=_FLOAT_PROPERTIES)
        return Value(self.b, self.b.emit(op))

    def at_most(self, bound: float) -> Value:
        """min(self, bound); NaN stays."""
        return (self > bound).select(self.like(bound), self)

    def at_least(self, bound: float) -> Value:
        """max(self, bound); NaN stays."""
        return (self < bound).select(self.like(bound), self)

    def picked(self, places: Value) -> Value:
        """Of 16 floats, for each of 16 lanes the one that the low four bits of its place name (AVX-512)."""
        return self.b.raw_intrinsic("x86.avx512.permvar.sf.512", [self.ssa, places.ssa], self.type)

    # -------------------------------------------------------------------------------------------------------- bits

    def bits(self) -> Value:
        """The same bits as integers."""
        return self._cast(llvm.BitcastOp, self.int_type)

    def as_float(self, type: Attribute) -> Value:
        """The same bits as floats."""
        return self._cast(llvm.BitcastOp, type)

    def to_float(self, type: Attribute) -> Value:
        """Signed integers converted to floats."""
        return self._cast(llvm.SIToFPOp, type)

    def extend(self) -> Value:
        """f32 to f64."""
        return self._cast(llvm.FPExtOp, vector_of(f64, self.width))

    def truncate(self, type: Attribute) -> Value:
        """f64 to `type`, rounded to nearest."""
        return self._cast(llvm.FPTruncOp, type)

    def _cast(self, op: type[Operation], type: Attribute) -> Value:
        return Value(self.b, self.b.emit(op.create(operands=[self.ssa], result_types=[type])))
