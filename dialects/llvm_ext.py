"""What xDSL's `llvm` dialect lacks for CPU kernels, under MLIR's own names.

`LLVM_EXT` is a drop-in for xDSL's `LLVM`: the same dialect, with the ops below added, and with those it has only for
scalars replaced by forms for vectors too. Load it instead of `LLVM`.

Vectors are the builtin `vector<16xf32>`, of bf16 too. A splat is an `llvm.mlir.constant` of a vector type and a scalar
value: `llvm.mlir.constant(0x7F800000 : f32) : vector<16xf32>`.

Intrinsics are `llvm.call_intrinsic "llvm.fma"(...)`: the overload suffix may be left out, LLVM adds it. The masked
memory intrinsics changed signature in LLVM 22, so those have ops of their own.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import ClassVar, cast

from xdsl.dialects import llvm
from xdsl.dialects.builtin import (
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    SignlessIntegerConstraint,
    VectorType,
    i1,
    i64,
)
from xdsl.dialects.llvm import FastMathAttr, GenericCastOp
from xdsl.dialects.utils import FastMathFlag
from xdsl.ir import Attribute, Block, Dialect, Operation, SSAValue
from xdsl.irdl import (
    AnyAttr,
    IRDLOperation,
    ParsePropInAttrDict,
    VarConstraint,
    base,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    successor_def,
    traits_def,
    var_successor_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsTerminator, Pure
from xdsl.utils.exceptions import VerifyException

from .llvm_memory import (
    ATOMIC_BINARY,
    AtomicRMWOp,
    GatherOp,
    GEPOp,
    LoadOp,
    MaskedLoadOp,
    MaskedStoreOp,
    ScatterOp,
    StoreOp,
)
from .llvm_types import BOOLS, FLOATS, INTEGERS, POINTERS, PTR, element_of, segments, vector_of, width_of
from .tt_foreign import AssumeOp

__all__ = [
    "ATOMIC_BINARY",
    "LLVM_EXT",
    "PTR",
    "AtomicRMWOp",
    "ConstantOp",
    "ExtractElementOp",
    "FCmpOp",
    "FPToSIOp",
    "FPToUIOp",
    "FreezeOp",
    "GEPOp",
    "GatherOp",
    "ICmpOp",
    "LoadOp",
    "MaskedLoadOp",
    "MaskedStoreOp",
    "PoisonOp",
    "ScatterOp",
    "SelectOp",
    "StoreOp",
    "SwitchOp",
    "UIToFPOp",
    "ZeroOp",
    "element_of",
    "segments",
    "vector_of",
    "width_of",
]


@cache
def _predicate(
    flags: type[llvm.ICmpPredicateFlag] | type[llvm.FCmpPredicateFlag], name: str
) -> IntegerAttr[IntegerType]:
    return IntegerAttr(flags(name).to_int(), i64)


@cache
def _fast_math(flags: FastMathAttr | FastMathFlag | None) -> FastMathAttr:
    if isinstance(flags, FastMathAttr):
        return flags
    return FastMathAttr(None if flags is None else [flags])


# ------------------------------------------------------------------------------------------------------ constants


@irdl_op_definition
class ConstantOp(IRDLOperation):
    """A literal. A vector type with a scalar value is a splat; `dense<...>` gives each lane."""

    name = "llvm.mlir.constant"
    result = result_def(AnyAttr())
    value = prop_def(base(IntegerAttr) | base(FloatAttr) | base(DenseIntOrFPElementsAttr))

    traits = traits_def(Pure())

    def __init__(self, value: Attribute, value_type: Attribute):
        super().__init__(properties={"value": value}, result_types=[value_type])

    def verify_(self) -> None:
        value, type = self.value, self.result.type
        if isinstance(value, DenseIntOrFPElementsAttr):
            if value.type != type:
                raise VerifyException(f"llvm.mlir.constant: value of type {value.type} for a result of type {type}")
        elif value.type != element_of(type) and not (isinstance(value, IntegerAttr) and value.type == i64):
            raise VerifyException(f"llvm.mlir.constant: value of type {value.type} for a result of type {type}")

    @classmethod
    def parse(cls, parser: Parser) -> "ConstantOp":
        parser.parse_characters("(")
        value = llvm.ConstantOp.parse_value(parser)
        parser.parse_characters(")")
        parser.parse_characters(":")
        return cls(value, parser.parse_type())

    def print(self, printer: Printer) -> None:
        with printer.in_parens():
            if isinstance(self.value, IntegerAttr) and self.result.type == i64:
                cast("IntegerAttr[IntegerType]", self.value).print_without_type(printer)
            else:
                printer.print_attribute(self.value)
        printer.print_string(" : ")
        printer.print_attribute(self.result.type)


@irdl_op_definition
class PoisonOp(IRDLOperation):
    """A value that may not be observed."""

    name = "llvm.mlir.poison"
    res = result_def(AnyAttr())
    traits = traits_def(Pure())
    assembly_format = "attr-dict `:` type($res)"

    def __init__(self, result_type: Attribute):
        super().__init__(result_types=[result_type])


@irdl_op_definition
class ZeroOp(IRDLOperation):
    """Null pointer, or zero of any type."""

    name = "llvm.mlir.zero"
    res = result_def(AnyAttr())
    traits = traits_def(Pure())
    assembly_format = "attr-dict `:` type($res)"

    def __init__(self, result_type: Attribute = PTR):
        super().__init__(result_types=[result_type])


@irdl_op_definition
class FreezeOp(IRDLOperation):
    """`val`, with poison made some fixed value."""

    name = "llvm.freeze"
    T: ClassVar = VarConstraint("T", AnyAttr())
    val = operand_def(T)
    res = result_def(T)
    traits = traits_def(Pure())
    assembly_format = "$val attr-dict `:` type($val)"

    def __init__(self, val: SSAValue):
        super().__init__(operands=[val], result_types=[val.type])


# ---------------------------------------------------------------------------------------------- compares and select


@irdl_op_definition
class ICmpOp(IRDLOperation):
    """Integer or pointer compare, lane by lane; predicate eq, ne, slt, sle, sgt, sge, ult, ule, ugt, uge."""

    name = "llvm.icmp"
    T: ClassVar = VarConstraint("T", INTEGERS | POINTERS)
    lhs = operand_def(T)
    rhs = operand_def(T)
    res = result_def(BOOLS)
    predicate = prop_def(IntegerAttr.constr(base(IntegerType)))
    traits = traits_def(Pure())

    def __init__(self, lhs: SSAValue, rhs: SSAValue, predicate: "str | IntegerAttr[IntegerType]"):
        if isinstance(predicate, str):
            predicate = _predicate(llvm.ICmpPredicateFlag, predicate)
        result = vector_of(i1, width_of(lhs.type))
        super().__init__(operands=[lhs, rhs], result_types=[result], properties={"predicate": predicate})

    def print(self, printer: Printer) -> None:
        _print_compare(self, llvm.ICmpPredicateFlag.from_int(self.predicate.value.data), printer)

    @classmethod
    def parse(cls, parser: Parser) -> "ICmpOp":
        predicate, lhs, rhs, _ = _parse_compare(parser)
        return cls(lhs, rhs, predicate)


@irdl_op_definition
class FCmpOp(IRDLOperation):
    """Float compare, lane by lane; the predicates with `u` are true for NaN, those with `o` are false."""

    name = "llvm.fcmp"
    T: ClassVar = VarConstraint("T", FLOATS)
    lhs = operand_def(T)
    rhs = operand_def(T)
    res = result_def(BOOLS)
    predicate = prop_def(IntegerAttr.constr(base(IntegerType)))
    fastmathFlags = prop_def(FastMathAttr, default_value=FastMathAttr(None))
    traits = traits_def(Pure())

    def __init__(
        self,
        lhs: SSAValue,
        rhs: SSAValue,
        predicate: "str | IntegerAttr[IntegerType]",
        fast_math: FastMathAttr | FastMathFlag | None = None,
    ):
        if isinstance(predicate, str):
            predicate = _predicate(llvm.FCmpPredicateFlag, predicate)
        super().__init__(
            operands=[lhs, rhs],
            result_types=[vector_of(i1, width_of(lhs.type))],
            properties={"predicate": predicate, "fastmathFlags": _fast_math(fast_math)},
        )

    def print(self, printer: Printer) -> None:
        _print_compare(self, llvm.FCmpPredicateFlag.from_int(self.predicate.value.data), printer)

    @classmethod
    def parse(cls, parser: Parser) -> "FCmpOp":
        predicate, lhs, rhs, attributes = _parse_compare(parser)
        flags = attributes.get("fastmathFlags")
        return cls(lhs, rhs, predicate, flags if isinstance(flags, FastMathAttr) else None)


def _print_compare(op: ICmpOp | FCmpOp, predicate: str, printer: Printer) -> None:
    printer.print_string(f' "{predicate}" ')
    printer.print_list(op.operands, printer.print_ssa_value)
    flags = op.properties.get("fastmathFlags")
    printer.print_op_attributes({} if flags in (None, FastMathAttr(None)) else {"fastmathFlags": flags})
    printer.print_string(" : ")
    printer.print_attribute(op.operands[0].type)


def _parse_compare(parser: Parser) -> tuple[str, SSAValue, SSAValue, Mapping[str, Attribute]]:
    predicate = parser.parse_str_literal()
    lhs = parser.parse_unresolved_operand()
    parser.parse_characters(",")
    rhs = parser.parse_unresolved_operand()
    attributes = parser.parse_optional_attr_dict()
    parser.parse_characters(":")
    type = parser.parse_type()
    return predicate, parser.resolve_operand(lhs, type), parser.resolve_operand(rhs, type), attributes


@irdl_op_definition
class SelectOp(IRDLOperation):
    """`cond ? lhs : rhs`, lane by lane when the condition is a vector."""

    name = "llvm.select"
    T: ClassVar = VarConstraint("T", AnyAttr())
    cond = operand_def(BOOLS)
    lhs = operand_def(T)
    rhs = operand_def(T)
    res = result_def(T)
    fastmathFlags = prop_def(FastMathAttr, default_value=FastMathAttr(None))
    traits = traits_def(Pure())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$cond `,` $lhs `,` $rhs attr-dict `:` type($cond) `,` type($lhs)"

    def __init__(self, cond: SSAValue, lhs: SSAValue, rhs: SSAValue):
        super().__init__(operands=[cond, lhs, rhs], result_types=[lhs.type])

    def verify_(self) -> None:
        if isinstance(self.cond.type, VectorType) and width_of(self.cond.type) != width_of(self.lhs.type):
            raise VerifyException(f"llvm.select: condition {self.cond.type} for values of type {self.lhs.type}")


# ------------------------------------------------------------------------------------------------- casts and lanes


@irdl_op_definition
class UIToFPOp(GenericCastOp):
    name = "llvm.uitofp"


@irdl_op_definition
class FPToSIOp(GenericCastOp):
    """Poison where the value does not fit; `llvm.fptosi.sat` is the total form."""

    name = "llvm.fptosi"


@irdl_op_definition
class FPToUIOp(GenericCastOp):
    """Poison where the value does not fit; `llvm.fptoui.sat` is the total form."""

    name = "llvm.fptoui"


@irdl_op_definition
class ExtractElementOp(IRDLOperation):
    """One lane of a vector."""

    name = "llvm.extractelement"
    T: ClassVar = VarConstraint("T", AnyAttr())
    vector = operand_def(VectorType.constr(T))
    position = operand_def(SignlessIntegerConstraint)
    res = result_def(T)
    traits = traits_def(Pure())
    assembly_format = "$vector `[` $position `:` type($position) `]` attr-dict `:` type($vector)"

    def __init__(self, vector: SSAValue, position: SSAValue):
        super().__init__(operands=[vector, position], result_types=[element_of(vector.type)])


# ----------------------------------------------------------------------------------------------------- control flow


@irdl_op_definition
class SwitchOp(IRDLOperation):
    """Jumps to `cases[i]` where `value == case_values[i]`, else to `default`; the targets take no arguments."""

    name = "llvm.switch"
    value = operand_def(SignlessIntegerConstraint)
    case_values = prop_def(DenseArrayBase.constr(base(IntegerType)))
    default = successor_def()
    cases = var_successor_def()
    traits = traits_def(IsTerminator())

    def __init__(self, value: SSAValue, default: Block, case_values: Sequence[int], cases: Sequence[Block]):
        super().__init__(
            operands=[value],
            successors=[default, cases],
            properties={"case_values": DenseArrayBase.from_list(i64, case_values)},
        )

    def verify_(self) -> None:
        if len(self.cases) != len(self.case_values):
            raise VerifyException(f"llvm.switch: {len(self.case_values)} values for {len(self.cases)} targets")
        if any(block.args for block in self.successors):
            raise VerifyException("llvm.switch: a target takes arguments")

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.value)
        printer.print_string(" : ")
        printer.print_attribute(self.value.type)
        printer.print_string(", ")
        printer.print_block_name(self.default)
        printer.print_string(" [")
        for i, (value, block) in enumerate(zip(self.case_values.iter_values(), self.cases, strict=True)):
            printer.print_string(f"{', ' if i else ''}{value}: ")
            printer.print_block_name(block)
        printer.print_string("]")

    @classmethod
    def parse(cls, parser: Parser) -> "SwitchOp":
        value = parser.parse_unresolved_operand()
        parser.parse_punctuation(":")
        type = parser.parse_type()
        parser.parse_punctuation(",")
        default = parser.parse_successor()

        def case() -> tuple[int, Block]:
            number = parser.parse_integer()
            parser.parse_punctuation(":")
            return number, parser.parse_successor()

        cases = parser.parse_comma_separated_list(Parser.Delimiter.SQUARE, case)
        return cls(parser.resolve_operand(value, type), default, [n for n, _ in cases], [b for _, b in cases])


_OPS: tuple[type[Operation], ...] = (
    *(AtomicRMWOp, ConstantOp, ExtractElementOp, FCmpOp, FPToSIOp, FPToUIOp, FreezeOp, GEPOp, GatherOp, ICmpOp, LoadOp),
    *(MaskedLoadOp, MaskedStoreOp, PoisonOp, ScatterOp, SelectOp, StoreOp, SwitchOp, UIToFPOp, ZeroOp, AssumeOp),
)
_OURS = {op.name for op in _OPS}

LLVM_EXT = Dialect(
    "llvm", [*(op for op in llvm.LLVM.operations if op.name not in _OURS), *_OPS], [*llvm.LLVM.attributes]
)
"""xDSL's `llvm` dialect with the ops of this file."""
