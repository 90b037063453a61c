"""Matrix products of the tt dialect, and its other ops that mix elements of a tensor."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import I32, IntegerAttr, IntegerType, LocationAttr, TensorType, UnitAttr, i1, i32
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    AnyAttr,
    AttrSizedOperandSegments,
    IRDLOperation,
    ParsePropInAttrDict,
    VarConstraint,
    base,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from .tt_enums import PRECISION, SCALED_TYPE
from .tt_syntax import parse_operands, parse_type_after
from .tt_types import bool_attr, element_of, i32_array, i32_attr, mask_of, shape_of, tensor, with_element

_TENSOR = base(TensorType)


_F8 = ("f8E4M3FN", "f8E5M2")
SUMS: dict[str, tuple[str, ...]] = {
    "f64": ("f64",),
    "f32": ("f32", "f64"),
    "f16": ("f16", "f32"),
    "bf16": ("f32",),
    **dict.fromkeys(_F8, ("f16", "f32")),
    "i8": ("i32",),
    "i32": ("i32",),
    "i64": ("i64",),
}
"""Element type of the operands to those of the sums."""


@irdl_op_definition
class DotOp(IRDLOperation):
    """d = a @ b + c, batched over a leading dim of rank 3.

    `inputPrecision` is for f32 operands: tf32 and its refinements use tensor cores, ieee does not. `maxNumImpreciseAcc`
    is for f8 operands: how many products may be added up before the sum is moved to f32.
    """

    name = "tt.dot"
    T: ClassVar = VarConstraint("T", AnyAttr())
    a = operand_def(_TENSOR)
    b = operand_def(_TENSOR)
    c = operand_def(T)
    inputPrecision = opt_prop_def(IntegerAttr[I32])
    maxNumImpreciseAcc = opt_prop_def(IntegerAttr[I32])
    d = result_def(T)
    traits = traits_def(Pure())

    @classmethod
    def make(
        cls,
        a: SSAValue,
        b: SSAValue,
        c: SSAValue,
        precision: str = "ieee",
        *,
        max_imprecise: int = 0,
        location: LocationAttr | None = None,
    ) -> DotOp:
        properties = {"inputPrecision": PRECISION[precision], "maxNumImpreciseAcc": i32_attr(max_imprecise)}
        return cls.create(operands=[a, b, c], result_types=[c.type], properties=properties, location=location)

    def verify_(self) -> None:
        check_product(self.a.type, self.b.type, self.c.type)
        a, b, c = (str(element_of(v.type)) for v in (self.a, self.b, self.c))
        if a != b and not (a in _F8 and b in _F8):
            raise VerifyException(f"there is no dot of {a} with {b}")
        if c not in SUMS.get(a, ()):
            raise VerifyException(f"there is no dot of {a} that adds up in {c}")
        if self.inputPrecision is not None:
            PRECISION.of(self.inputPrecision)

    @classmethod
    def parse(cls, parser: Parser) -> DotOp:
        operands = [parser.parse_unresolved_operand()]
        for _ in range(2):
            parser.parse_punctuation(",")
            operands.append(parser.parse_unresolved_operand())
        properties: dict[str, Attribute] = {"inputPrecision": PRECISION["ieee"], "maxNumImpreciseAcc": i32_attr(0)}
        if parser.parse_optional_punctuation(",") is not None:
            parser.parse_keyword("inputPrecision")
            parser.parse_punctuation("=")
            properties["inputPrecision"] = PRECISION.parse(parser)
        attributes = parser.parse_optional_attr_dict()
        if (most := attributes.pop("maxNumImpreciseAcc", None)) is not None:
            properties["maxNumImpreciseAcc"] = most
        types = [parse_type_after(parser, punctuation) for punctuation in (":", "*", "->")]
        values = [parser.resolve_operand(v, t) for v, t in zip(operands, types, strict=True)]
        return cls.create(operands=values, result_types=types[2:], properties=properties, attributes=attributes)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_list(self.operands, printer.print_ssa_value)
        if self.inputPrecision is not None and self.inputPrecision != PRECISION["ieee"]:
            printer.print_string(f", inputPrecision = {PRECISION.of(self.inputPrecision)}")
        most = self.maxNumImpreciseAcc
        shown = {"maxNumImpreciseAcc": most} if most is not None and most.value.data else {}
        printer.print_op_attributes({**shown, **self.attributes})
        printer.print_string(" : ")
        printer.print_attribute(self.a.type)
        printer.print_string(" * ")
        printer.print_attribute(self.b.type)
        printer.print_string(" -> ")
        printer.print_attribute(self.d.type)


def check_product(a: Attribute, b: Attribute, c: Attribute) -> None:
    """The shapes [B,] M, K and [B,] K, N and [B,] M, N."""
    x, y, z = shape_of(a), shape_of(b), shape_of(c)
    if len({len(x), len(y), len(z)}) != 1 or len(x) not in (2, 3):
        raise VerifyException(f"a dot takes three tensors of rank 2 or 3, not {a}, {b} and {c}")
    if x[-1] != y[-2] or z[-2:] != (x[-2], y[-1]) or len({x[:-2], y[:-2], z[:-2]}) != 1:
        raise VerifyException(f"{a} times {b} is no {c}")


@irdl_op_definition
class DotScaledOp(IRDLOperation):
    """d = (a scaled by a_scale) @ (b scaled by b_scale) + c: microscaling, a scale (e8m0, as i8) per 32 elements of K.

    e2m1 comes as two elements in an i8, along K, or along the other dim if `lhs_k_pack` or `rhs_k_pack` is false.
    """

    name = "tt.dot_scaled"
    T: ClassVar = VarConstraint("T", AnyAttr())
    a = operand_def(_TENSOR)
    b = operand_def(_TENSOR)
    c = operand_def(T)
    a_scale = opt_operand_def(_TENSOR)
    b_scale = opt_operand_def(_TENSOR)
    a_elem_type = prop_def(IntegerAttr[I32])
    b_elem_type = prop_def(IntegerAttr[I32])
    fastMath = prop_def(IntegerAttr.constr(i1))
    lhs_k_pack = opt_prop_def(IntegerAttr.constr(i1))
    rhs_k_pack = opt_prop_def(IntegerAttr.constr(i1))
    d = result_def(T)
    traits = traits_def(Pure())
    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    @classmethod
    def make(
        cls,
        a: SSAValue,
        b: SSAValue,
        c: SSAValue,
        a_scale: SSAValue | None,
        b_scale: SSAValue | None,
        types: tuple[str, str],
        *,
        fast_math: bool = False,
        k_pack: tuple[bool, bool] = (True, True),
        location: LocationAttr | None = None,
    ) -> DotScaledOp:
        return cls.create(
            operands=[v for v in (a, b, c, a_scale, b_scale) if v is not None],
            result_types=[c.type],
            properties={
                "a_elem_type": SCALED_TYPE[types[0]],
                "b_elem_type": SCALED_TYPE[types[1]],
                "fastMath": bool_attr(fast_math),
                "lhs_k_pack": bool_attr(k_pack[0]),
                "rhs_k_pack": bool_attr(k_pack[1]),
                "operandSegmentSizes": i32_array(1, 1, 1, int(a_scale is not None), int(b_scale is not None)),
            },
            location=location,
        )

    def verify_(self) -> None:
        for attribute in (self.a_elem_type, self.b_elem_type):
            SCALED_TYPE.of(attribute)

    @classmethod
    def parse(cls, parser: Parser) -> DotScaledOp:
        a = parser.parse_unresolved_operand()
        a_scale = parser.parse_unresolved_operand() if parser.parse_optional_keyword("scale") is not None else None
        parser.parse_punctuation(",")
        b = parser.parse_unresolved_operand()
        b_scale = parser.parse_unresolved_operand() if parser.parse_optional_keyword("scale") is not None else None
        parser.parse_punctuation(",")
        c = parser.parse_unresolved_operand()
        properties: dict[str, Attribute] = {"lhs_k_pack": bool_attr(True), "rhs_k_pack": bool_attr(True)}
        for keyword, name in (("lhs", "a_elem_type"), ("rhs", "b_elem_type")):
            parser.parse_keyword(keyword)
            parser.parse_punctuation("=")
            properties[name] = SCALED_TYPE.parse(parser)
        attributes = parser.parse_optional_attr_dict()
        for name in ("fastMath", "lhs_k_pack", "rhs_k_pack"):
            if name in attributes:
                properties[name] = attributes.pop(name)
        properties["operandSegmentSizes"] = i32_array(1, 1, 1, int(a_scale is not None), int(b_scale is not None))
        found = {"a": parse_type_after(parser, ":")}
        for key, scale, other in (("b", a_scale, "a_scale"), ("c", b_scale, "b_scale")):
            if scale is not None:
                found[other] = parse_type_after(parser, ",")
            found[key] = parse_type_after(parser, "*" if key == "b" else "->")
        operands = {"a": a, "b": b, "c": c, "a_scale": a_scale, "b_scale": b_scale}
        values = [parser.resolve_operand(v, found[key]) for key, v in operands.items() if v is not None]
        return cls.create(operands=values, result_types=[found["c"]], properties=properties, attributes=attributes)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        for value, scale in ((self.a, self.a_scale), (self.b, self.b_scale)):
            printer.print_ssa_value(value)
            if scale is not None:
                printer.print_string(" scale ")
                printer.print_ssa_value(scale)
            printer.print_string(", ")
        printer.print_ssa_value(self.c)
        printer.print_string(f" lhs = {SCALED_TYPE.of(self.a_elem_type)} rhs = {SCALED_TYPE.of(self.b_elem_type)}")
        shown: dict[str, Attribute] = {"fastMath": self.fastMath}
        for name in ("lhs_k_pack", "rhs_k_pack"):
            if (pack := self.properties.get(name)) is not None and pack != bool_attr(True):
                shown[name] = pack
        printer.print_op_attributes({**shown, **self.attributes})
        printer.print_string(" : ")
        for value, scale, after in ((self.a, self.a_scale, " * "), (self.b, self.b_scale, " -> ")):
            printer.print_attribute(value.type)
            if scale is not None:
                printer.print_string(", ")
                printer.print_attribute(scale.type)
            printer.print_string(after)
        printer.print_attribute(self.d.type)


@irdl_op_definition
class HistogramOp(IRDLOperation):
    """result[i] = how many elements of `src` (where `mask` is true) are i."""

    name = "tt.histogram"
    src = operand_def(_TENSOR)
    mask = opt_operand_def(TensorType.constr(i1))
    result = result_def(_TENSOR)
    traits = traits_def(Pure())

    @classmethod
    def parse(cls, parser: Parser) -> HistogramOp:
        operands = parse_operands(parser)
        attributes = parser.parse_optional_attr_dict()
        source = parse_type_after(parser, ":")
        values = [parser.resolve_operand(v, t) for v, t in zip(operands, (source, mask_of(source)), strict=False)]
        result = parse_type_after(parser, "->")
        return cls.create(operands=values, result_types=[result], attributes=attributes)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_list(self.operands, printer.print_ssa_value)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.src.type)
        printer.print_string(" -> ")
        printer.print_attribute(self.result.type)

    @classmethod
    def make(
        cls, src: SSAValue, bins: int, mask: SSAValue | None = None, location: LocationAttr | None = None
    ) -> HistogramOp:
        operands = [src] if mask is None else [src, mask]
        return cls.create(operands=operands, result_types=[tensor(i32, (bins,))], location=location)

    def verify_(self) -> None:
        for type in (self.src.type, self.result.type):
            if len(shape_of(type)) != 1 or element_of(type) != i32:
                raise VerifyException(f"a histogram is a tensor of rank 1 of i32 and so is its source, not {type}")


@irdl_op_definition
class GatherOp(IRDLOperation):
    """result[…, i, …] = src[…, indices[…, i, …], …] along `axis`."""

    name = "tt.gather"
    src = operand_def(_TENSOR)
    indices = operand_def(TensorType.constr(base(IntegerType)))
    axis = prop_def(IntegerAttr[I32])
    efficient_layout = opt_prop_def(UnitAttr)
    result = result_def(_TENSOR)
    traits = traits_def(Pure())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$src `[` $indices `]` attr-dict `:` functional-type(operands, results)"

    @classmethod
    def make(cls, src: SSAValue, indices: SSAValue, axis: int, location: LocationAttr | None = None) -> GatherOp:
        return cls.create(
            operands=[src, indices],
            result_types=[with_element(indices.type, element_of(src.type))],
            properties={"axis": i32_attr(axis)},
            location=location,
        )

    def verify_(self) -> None:
        source, indices, axis = shape_of(self.src.type), shape_of(self.indices.type), self.axis.value.data
        if len(source) != len(indices) or not 0 <= axis < len(source):
            raise VerifyException(f"indices {self.indices.type} along axis {axis} of {self.src.type}")
        if any(i > s for dim, (i, s) in enumerate(zip(indices, source, strict=True)) if dim != axis):
            raise VerifyException(f"indices {self.indices.type} are larger than {self.src.type} beside axis {axis}")
        if self.result.type != with_element(self.indices.type, element_of(self.src.type)):
            raise VerifyException(f"the result has the shape of {self.indices.type}, not {self.result.type}")
