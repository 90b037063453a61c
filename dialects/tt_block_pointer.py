"""Pointers to blocks of the tt dialect, as Triton's front end writes them; its first pass makes plain pointers of them.

%p = tt.make_tensor_ptr %x, [%m, %n], [%n, %one], [%i, %j] {order = array<i32: 1, 0>} : <tensor<32x32xf32>>
%q = tt.advance %p, [%i, %j] : <tensor<32x32xf32>>
"""

from __future__ import annotations

from xdsl.dialects.builtin import I32, DenseArrayBase, TensorType, i32, i64
from xdsl.ir import Attribute
from xdsl.irdl import (
    IRDLOperation,
    SameVariadicOperandSize,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from .tt_syntax import parse_indices, parse_short, print_indices
from .tt_types import PtrType, element_of, shape_of


@irdl_op_definition
class MakeTensorPtrOp(IRDLOperation):
    """Points to the block at `offsets` of the tensor of `shape` and `strides` at `base`; `order`: fastest dim first."""

    name = "tt.make_tensor_ptr"
    base = operand_def(PtrType)
    shape = var_operand_def(i64)
    strides = var_operand_def(i64)
    offsets = var_operand_def(i32)
    order = prop_def(DenseArrayBase[I32])
    result = result_def(PtrType)
    traits = traits_def(Pure())
    irdl_options = (SameVariadicOperandSize(),)

    def verify_(self) -> None:
        block, pointer = _block(self.result.type), self.base.type
        assert isinstance(pointer, PtrType)
        if not len(self.shape) == len(shape_of(block)) == len(self.order.get_values()):
            raise VerifyException(f"{len(self.shape)} sizes for a block of type {block}")
        if element_of(block) != pointer.pointee:
            raise VerifyException(f"a block of {element_of(block)} at a pointer to {pointer.pointee}")

    @classmethod
    def parse(cls, parser: Parser) -> MakeTensorPtrOp:
        base = parser.parse_unresolved_operand()
        numbers: list[tuple[UnresolvedOperand, Attribute]] = []
        for type in (i64, i64, i32):
            parser.parse_punctuation(",")
            numbers += [(v, type) for v in parse_indices(parser)]
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        result = parse_short(parser, PtrType)
        if not isinstance(result, PtrType) or not isinstance(result.pointee, TensorType):
            parser.raise_error(f"expected a pointer to a block, got {result}")
        pointer = PtrType(element_of(_block(result)))
        return cls.create(
            operands=[
                parser.resolve_operand(base, pointer),
                *(parser.resolve_operand(v, t) for v, t in numbers),
            ],
            result_types=[result],
            properties={"order": attributes.pop("order")} if "order" in attributes else {},
            attributes=attributes,
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.base)
        for values in (self.shape, self.strides, self.offsets):
            printer.print_string(", ")
            print_indices(printer, values)
        printer.print_op_attributes({"order": self.order, **self.attributes})
        printer.print_string(" : ")
        printer.print_attribute(self.result.type)


@irdl_op_definition
class AdvanceOp(IRDLOperation):
    """The block that lies `offsets` further on."""

    name = "tt.advance"
    ptr = operand_def(PtrType)
    offsets = var_operand_def(i32)
    result = result_def(PtrType)
    traits = traits_def(Pure())

    def verify_(self) -> None:
        if self.result.type != self.ptr.type:
            raise VerifyException(f"a pointer to {_block(self.ptr.type)} becomes one to {_block(self.result.type)}")
        if len(self.offsets) != len(shape_of(_block(self.ptr.type))):
            raise VerifyException(f"{len(self.offsets)} offsets for a block of type {_block(self.ptr.type)}")

    @classmethod
    def parse(cls, parser: Parser) -> AdvanceOp:
        ptr = parser.parse_unresolved_operand()
        parser.parse_punctuation(",")
        offsets = parse_indices(parser)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        type = parse_short(parser, PtrType)
        operands = [parser.resolve_operand(ptr, type), *(parser.resolve_operand(v, i32) for v in offsets)]
        return cls.create(operands=operands, result_types=[type], attributes=attributes)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.ptr)
        printer.print_string(", ")
        print_indices(printer, self.offsets)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.ptr.type)


def _block(type: Attribute) -> TensorType[Attribute]:
    """What such a pointer points to."""
    pointee = type.pointee if isinstance(type, PtrType) else None
    if not isinstance(pointee, TensorType):
        raise VerifyException(f"expected a pointer to a block, got {type}")
    return pointee
