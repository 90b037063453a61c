"""Ops of the tt dialect that work element by element, beside those of `arith` and `math`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import (
    I32,
    AnyFloat,
    IntegerAttr,
    IntegerType,
    LocationAttr,
    StringAttr,
    TensorType,
    container_of,
    f32,
    i1,
    i32,
    i64,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    AnyOf,
    IRDLOperation,
    ParsePropInAttrDict,
    VarConstraint,
    base,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from .tt_enums import PROPAGATE_NAN, ROUNDING
from .tt_libdevice import operand_of
from .tt_types import PtrType, bits_of, bool_attr, element_of, i32_attr, shape_of, with_element

FLOATS = container_of(AnyFloat)
F32S = container_of(f32)
INTEGERS = container_of(IntegerType)
POINTERS = base(PtrType) | TensorType.constr(base(PtrType))

_FROM_TO = "$src attr-dict `:` type($src) `->` type($result)"


def same_shapes(op: IRDLOperation) -> None:
    """Operands and results have one shape."""
    types = [*op.operand_types, *op.result_types]
    if len({shape_of(t) for t in types}) > 1:
        raise VerifyException(f"shapes differ: {', '.join(map(str, types))}")


class _CastOp(IRDLOperation):
    """An element in another type."""

    @classmethod
    def make(cls, src: SSAValue, element: Attribute, location: LocationAttr | None = None):
        """`src` with elements of type `element`."""
        return cls.create(operands=[src], result_types=[with_element(src.type, element)], location=location)


@irdl_op_definition
class IntToPtrOp(_CastOp):
    name = "tt.int_to_ptr"
    src = operand_def(container_of(i64))
    result = result_def(POINTERS)
    traits = traits_def(Pure())
    assembly_format = _FROM_TO

    def verify_(self) -> None:
        same_shapes(self)


@irdl_op_definition
class PtrToIntOp(_CastOp):
    name = "tt.ptr_to_int"
    src = operand_def(POINTERS)
    result = result_def(container_of(i64))
    traits = traits_def(Pure())
    assembly_format = _FROM_TO

    def verify_(self) -> None:
        same_shapes(self)


@irdl_op_definition
class BitcastOp(_CastOp):
    """The same bits as another type of as many; of pointers too."""

    name = "tt.bitcast"
    src = operand_def()
    result = result_def()
    traits = traits_def(Pure())
    assembly_format = _FROM_TO

    def verify_(self) -> None:
        same_shapes(self)
        source, result = element_of(self.src.type), element_of(self.result.type)
        if isinstance(source, PtrType) != isinstance(result, PtrType):
            raise VerifyException("pointers and numbers convert by tt.int_to_ptr and tt.ptr_to_int")
        if bits_of(source) != bits_of(result):
            raise VerifyException(f"{source} has {bits_of(source)} bits, {result} {bits_of(result)}")


_CONVERSIONS: dict[tuple[str, str], tuple[str, ...]] = {
    **{("f32", narrow): ("rtne", "rtz") for narrow in ("f16", "bf16")},
    **{(f8, wide): () for f8 in ("f8E4M3FN", "f8E5M2") for wide in ("f16", "bf16", "f32")},
    **{(wide, f8): ("rtne",) for f8 in ("f8E4M3FN", "f8E5M2") for wide in ("f16", "bf16", "f32")},
    ("f16", "f32"): (),
}
"""Types between which `tt.fp_to_fp` has code, and the rounding modes."""


@irdl_op_definition
class FpToFpOp(IRDLOperation):
    """Between float types, f8 among them; `rounding` is needed where bits are lost."""

    name = "tt.fp_to_fp"
    src = operand_def(FLOATS)
    rounding = opt_prop_def(IntegerAttr[I32])
    result = result_def(FLOATS)
    traits = traits_def(Pure())

    @classmethod
    def make(
        cls, src: SSAValue, element: Attribute, rounding: str | None = None, location: LocationAttr | None = None
    ) -> FpToFpOp:
        return cls.create(
            operands=[src],
            result_types=[with_element(src.type, element)],
            properties={} if rounding is None else {"rounding": ROUNDING[rounding]},
            location=location,
        )

    def verify_(self) -> None:
        same_shapes(self)
        if self.rounding is not None:
            ROUNDING.of(self.rounding)
        source, result = element_of(self.src.type), element_of(self.result.type)
        narrower = bits_of(result) < bits_of(source)
        if narrower and self.rounding is None:
            raise VerifyException(f"rounding is needed from {source} to {result}")
        modes = _CONVERSIONS.get((str(source), str(result)))
        if modes is None:
            raise VerifyException(f"there is no conversion from {source} to {result}; arith has extf and truncf")
        if narrower and self.rounding is not None and ROUNDING.of(self.rounding) not in modes:
            raise VerifyException(f"from {source} to {result} there is rounding {', '.join(modes)} only")

    @classmethod
    def parse(cls, parser: Parser) -> FpToFpOp:
        src = parser.parse_unresolved_operand()
        attributes = parser.parse_optional_attr_dict()
        properties: dict[str, Attribute] = {}
        if parser.parse_optional_punctuation(",") is not None:
            parser.parse_keyword("rounding")
            parser.parse_punctuation("=")
            properties["rounding"] = ROUNDING.parse(parser)
        parser.parse_punctuation(":")
        operand = parser.resolve_operand(src, parser.parse_type())
        parser.parse_punctuation("->")
        result = parser.parse_type()
        return cls.create(operands=[operand], result_types=[result], properties=properties, attributes=attributes)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.src)
        printer.print_op_attributes(self.attributes)
        if self.rounding is not None:
            printer.print_string(f", rounding = {ROUNDING.of(self.rounding)}")
        printer.print_string(" : ")
        printer.print_attribute(self.src.type)
        printer.print_string(" -> ")
        printer.print_attribute(self.result.type)


@irdl_op_definition
class ClampFOp(IRDLOperation):
    """min(max(x, min), max); NaN of x is kept with propagateNan = all, else it may become min."""

    name = "tt.clampf"
    T: ClassVar = VarConstraint("T", FLOATS)
    x = operand_def(T)
    min = operand_def(T)
    max = operand_def(T)
    propagateNan = prop_def(IntegerAttr[I32])
    result = result_def(T)
    traits = traits_def(Pure())

    @classmethod
    def make(
        cls, x: SSAValue, low: SSAValue, high: SSAValue, *, propagate_nan: bool, location: LocationAttr | None = None
    ) -> ClampFOp:
        properties = {"propagateNan": PROPAGATE_NAN["all" if propagate_nan else "none"]}
        return cls.create(operands=[x, low, high], result_types=[x.type], properties=properties, location=location)

    def verify_(self) -> None:
        PROPAGATE_NAN.of(self.propagateNan)

    @classmethod
    def parse(cls, parser: Parser) -> ClampFOp:
        operands = [parser.parse_unresolved_operand()]
        for _ in range(2):
            parser.parse_punctuation(",")
            operands.append(parser.parse_unresolved_operand())
        parser.parse_punctuation(",")
        parser.parse_keyword("propagateNan")
        parser.parse_punctuation("=")
        properties = {"propagateNan": PROPAGATE_NAN.parse(parser)}
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        type = parser.parse_type()
        values = [parser.resolve_operand(operand, type) for operand in operands]
        return cls.create(operands=values, result_types=[type], properties=properties, attributes=attributes)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_list(self.operands, printer.print_ssa_value)
        printer.print_string(f", propagateNan = {PROPAGATE_NAN.of(self.propagateNan)}")
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.result.type)


@irdl_op_definition
class PreciseSqrtOp(IRDLOperation):
    """sqrt(x) of f32, correctly rounded; `math.sqrt` is approximate."""

    name = "tt.precise_sqrt"
    T: ClassVar = VarConstraint("T", F32S)
    x = operand_def(T)
    result = result_def(T)
    traits = traits_def(Pure())
    assembly_format = "$x attr-dict `:` type($x)"

    @classmethod
    def make(cls, x: SSAValue, location: LocationAttr | None = None) -> PreciseSqrtOp:
        return cls.create(operands=[x], result_types=[x.type], location=location)


class _BinaryOp(IRDLOperation):
    @classmethod
    def make(cls, x: SSAValue, y: SSAValue, location: LocationAttr | None = None):
        return cls.create(operands=[x, y], result_types=[x.type], location=location)


@irdl_op_definition
class PreciseDivFOp(_BinaryOp):
    """x / y of f32, correctly rounded; `arith.divf` is approximate."""

    name = "tt.precise_divf"
    T: ClassVar = VarConstraint("T", F32S)
    x = operand_def(T)
    y = operand_def(T)
    result = result_def(T)
    traits = traits_def(Pure())
    assembly_format = "$x `,` $y attr-dict `:` type($x)"


@irdl_op_definition
class MulhiUIOp(_BinaryOp):
    """The upper half of the bits of x * y, both unsigned."""

    name = "tt.mulhiui"
    T: ClassVar = VarConstraint("T", container_of(AnyOf.get(i32, i64)))
    x = operand_def(T)
    y = operand_def(T)
    result = result_def(T)
    traits = traits_def(Pure())
    assembly_format = "$x `,` $y attr-dict `:` type($x)"


@irdl_op_definition
class ExternElementwiseOp(IRDLOperation):
    """A function of a bitcode library, by its name there: `__nv_tanhf` of libdevice, which Triton links by itself."""

    name = "tt.extern_elementwise"
    srcs = var_operand_def()
    libname = prop_def(StringAttr)
    libpath = prop_def(StringAttr)
    symbol = prop_def(StringAttr)
    pure = prop_def(IntegerAttr.constr(i1))
    result = result_def()
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "operands attr-dict `:` functional-type(operands, $result)"

    @classmethod
    def make(
        cls,
        symbol: str,
        srcs: Sequence[SSAValue],
        result: Attribute | None = None,
        *,
        pure: bool = True,
        location: LocationAttr | None = None,
    ) -> ExternElementwiseOp:
        """`symbol(srcs…)`, of the type of the first operand if `result` does not say another."""
        return cls.create(
            operands=srcs,
            result_types=[srcs[0].type if result is None else result],
            properties={
                "libname": _EMPTY,
                "libpath": _EMPTY,
                "symbol": StringAttr(symbol),
                "pure": bool_attr(pure),
            },
            location=location,
        )

    def verify_(self) -> None:
        same_shapes(self)
        symbol, wanted = self.symbol.data, operand_of(self.symbol.data)
        if wanted is not None and element_of(self.operand_types[0]) != wanted:
            raise VerifyException(f"{symbol} takes {wanted}, not {element_of(self.operand_types[0])}")


_EMPTY = StringAttr("")


@irdl_op_definition
class ElementwiseInlineAsmOp(IRDLOperation):
    """PTX on groups of `packed_element` elements; `$0` … are results, then operands, as `constraints` lists them."""

    name = "tt.elementwise_inline_asm"
    args = var_operand_def()
    asm_string = prop_def(StringAttr)
    constraints = prop_def(StringAttr)
    pure = prop_def(IntegerAttr.constr(i1))
    packed_element = prop_def(IntegerAttr[I32])
    result = var_result_def()
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$asm_string attr-dict ($args^ `:` type($args))? `->` type($result)"

    @classmethod
    def make(
        cls,
        asm: str,
        constraints: str,
        args: Sequence[SSAValue],
        results: Sequence[Attribute],
        *,
        pure: bool = True,
        packed_element: int = 1,
        location: LocationAttr | None = None,
    ) -> ElementwiseInlineAsmOp:
        return cls.create(
            operands=args,
            result_types=results,
            properties={
                "asm_string": StringAttr(asm),
                "constraints": StringAttr(constraints),
                "pure": bool_attr(pure),
                "packed_element": i32_attr(packed_element),
            },
            location=location,
        )

    def verify_(self) -> None:
        same_shapes(self)
