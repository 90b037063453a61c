"""xDSL's `arith` with tensors where MLIR's has them: in compares, selects and casts, which xDSL has for scalars only.

xDSL's own classes are widened, once, when this module is imported. So an op has one class at every level, a table by
class serves the scalars of loop bodies and the tensors of kernels alike, and text of any level reads back. `math` takes
tensors as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from xdsl.dialects import arith
from xdsl.dialects.arith import Arith
from xdsl.dialects.builtin import AnyFloat, IntegerAttr, IntegerType, container_of, i1, i64
from xdsl.ir import Attribute, Dialect
from xdsl.irdl import (
    AnyAttr,
    AttrConstraint,
    IRDLOperation,
    OperandDef,
    ResultDef,
    VarConstraint,
    irdl_op_definition,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from .tt_types import bits_of, element_of, mask_of, shape_of

_INTEGERS = container_of(IntegerType)
_FLOATS = container_of(AnyFloat)
_BOOLS = container_of(i1)
_ANY = VarConstraint("T", AnyAttr())

_CASTS: dict[type[IRDLOperation], tuple[AttrConstraint, AttrConstraint, int]] = {
    arith.SIToFPOp: (_INTEGERS, _FLOATS, 0),
    arith.UIToFPOp: (_INTEGERS, _FLOATS, 0),
    arith.FPToSIOp: (_FLOATS, _INTEGERS, 0),
    arith.FPToUIOp: (_FLOATS, _INTEGERS, 0),
    arith.ExtSIOp: (_INTEGERS, _INTEGERS, 1),
    arith.ExtUIOp: (_INTEGERS, _INTEGERS, 1),
    arith.TruncIOp: (_INTEGERS, _INTEGERS, -1),
    arith.ExtFOp: (_FLOATS, _FLOATS, 1),
    arith.TruncFOp: (_FLOATS, _FLOATS, -1),
}
"""Cast to what it takes, what it gives, and whether that has more (1) or fewer (-1) bits."""


def _widen(
    op: type[IRDLOperation],
    operands: tuple[AttrConstraint, ...],
    result: AttrConstraint,
    check: Callable[[Any], None],
) -> None:
    """Let `op` take `operands` and give `result`, with `check` in place of its own verifier."""
    definition = op.get_irdl_definition()
    names = [name for name, _ in definition.operands]
    definition.operands[:] = [(name, OperandDef(c)) for name, c in zip(names, operands, strict=True)]
    definition.results[:] = [(name, ResultDef(result)) for name, _ in definition.results]

    def verify_(self: IRDLOperation) -> None:
        definition.verify(self)
        check(self)

    op.verify_ = verify_


def _check_cast(bits: int) -> Callable[[Any], None]:
    def check(op: Any) -> None:
        source, result = op.operands[0].type, op.results[0].type
        if shape_of(source) != shape_of(result):
            raise VerifyException(f"shapes differ: {source} to {result}")
        more = bits_of(element_of(result)) - bits_of(element_of(source))
        if bits and more * bits <= 0:
            raise VerifyException(f"{op.name} gives {'more' if bits > 0 else 'fewer'} bits, not {source} to {result}")

    return check


def _check_compare(op: arith.CmpiOp | arith.CmpfOp) -> None:
    if op.lhs.type != op.rhs.type:
        raise VerifyException(f"compares values of one type, not {op.lhs.type} and {op.rhs.type}")
    wanted = mask_of(op.lhs.type)
    if op.result.type != wanted:
        raise VerifyException(f"a compare of {op.lhs.type} gives {wanted}, not {op.result.type}")


def _check_select(op: arith.SelectOp) -> None:
    shape = shape_of(op.cond.type)
    if shape and shape != shape_of(op.lhs.type):
        raise VerifyException(f"a condition {op.cond.type} for values of type {op.lhs.type}")


def _parse_compare(op: type[arith.CmpiOp] | type[arith.CmpfOp], predicates: list[str]) -> Callable[..., IRDLOperation]:
    def parse(cls: type[IRDLOperation], parser: Parser) -> IRDLOperation:
        start = parser.pos
        predicate = parser.parse_identifier()
        if predicate not in predicates:
            parser.raise_error(f"unknown predicate '{predicate}'; known: {', '.join(predicates)}", start, parser.pos)
        parser.parse_punctuation(",")
        lhs = parser.parse_unresolved_operand()
        parser.parse_punctuation(",")
        rhs = parser.parse_unresolved_operand()
        properties: dict[str, Attribute] = {"predicate": predicate_attr(predicates.index(predicate))}
        if op is arith.CmpfOp:
            flags = parser.parse_optional_keyword("fastmath") is not None
            properties["fastmath"] = arith.FastMathFlagsAttr(
                arith.FastMathFlagsAttr.parse_parameter(parser) if flags else "none"
            )
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        type = parser.parse_type()
        return cls.create(
            operands=[parser.resolve_operand(lhs, type), parser.resolve_operand(rhs, type)],
            result_types=[mask_of(type)],
            properties=properties,
            attributes=attributes,
        )

    return parse


@cache
def predicate_attr(index: int) -> IntegerAttr[IntegerType]:
    """The predicate of a compare by its place in xDSL's list of them."""
    return IntegerAttr(index, i64)


def _parse_select(cls: type[IRDLOperation], parser: Parser) -> IRDLOperation:
    """`%c, %a, %b : f32`, or `%c, %a, %b : tensor<8xi1>, tensor<8xf32>`: the condition's type unless it is i1."""
    operands = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_unresolved_operand)
    if len(operands) != 3:
        parser.raise_error("arith.select takes a condition and two values")
    attributes = parser.parse_optional_attr_dict()
    parser.parse_punctuation(":")
    type, cond = parser.parse_type(), i1
    if parser.parse_optional_punctuation(",") is not None:
        type, cond = parser.parse_type(), type
    values = [parser.resolve_operand(v, t) for v, t in zip(operands, (cond, type, type), strict=True)]
    return cls.create(operands=values, result_types=[type], attributes=attributes)


def _print_select(self: arith.SelectOp, printer: Printer) -> None:
    printer.print_string(" ")
    printer.print_list(self.operands, printer.print_ssa_value)
    printer.print_op_attributes(self.attributes)
    printer.print_string(" : ")
    if self.cond.type != i1:
        printer.print_attribute(self.cond.type)
        printer.print_string(", ")
    printer.print_attribute(self.result.type)


def _syntax(op: Any, parse: Callable[..., IRDLOperation], print: Callable[..., None] | None = None) -> None:
    op.parse = classmethod(parse)
    if print is not None:
        op.print = print


for _op, (_source, _result, _bits) in _CASTS.items():
    _widen(_op, (_source,), _result, _check_cast(_bits))
for _op, _operand, _names in (
    (arith.CmpiOp, arith.signlessIntegerLike, arith.CMPI_COMPARISON_OPERATIONS),
    (arith.CmpfOp, arith.floatingPointLike, arith.CMPF_COMPARISON_OPERATIONS),
):
    _widen(_op, (_operand, _operand), _BOOLS, _check_compare)
    _syntax(_op, _parse_compare(_op, _names))
_widen(arith.SelectOp, (_BOOLS, _ANY, _ANY), _ANY, _check_select)
_syntax(arith.SelectOp, _parse_select, _print_select)


@irdl_op_definition
class RemfOp(arith.FloatingPointLikeBinaryOperation):
    """The remainder of lhs / rhs truncated, with the sign of lhs: C's fmod. xDSL lacks it."""

    name = "arith.remf"
    traits = traits_def(Pure())


ARITH = Dialect("arith", [*Arith.operations, RemfOp], [*Arith.attributes], Arith._interfaces)
"""xDSL's `arith` dialect, whose classes are widened."""
