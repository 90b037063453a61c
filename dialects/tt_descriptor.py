"""Tensor descriptors of the tt dialect: blocks moved by the tensor memory accelerator of Hopper and later."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import I32, IntegerAttr, LocationAttr, TensorType, i32, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    SameVariadicOperandSize,
    base,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, Pure
from xdsl.utils.exceptions import VerifyException

from .tt_enums import CACHE, DESCRIPTOR_REDUCE, EVICT, PADDING
from .tt_syntax import parse_hints, parse_indices, parse_short, parse_type_after, print_hints, print_indices
from .tt_types import PtrType, TensorDescType, element_of, shape_of, tensor

_TENSOR = base(TensorType)
_DESC = base(TensorDescType)
_I32S = TensorType.constr(base(I32))


@irdl_op_definition
class MakeTensorDescriptorOp(IRDLOperation):
    """Describes the tensor of `shape` and `strides` (in elements, the last is 1) at `base`; blocks are the type's.

    What lies outside of `shape` reads as zero, or as NaN with `padding = 2`, and is not written. The address and all
    strides but the last must be multiples of 16 bytes.
    """

    name = "tt.make_tensor_descriptor"
    base = operand_def(PtrType)
    shape = var_operand_def(i32)
    strides = var_operand_def(i64)
    padding = opt_prop_def(IntegerAttr[I32])
    result = result_def(_DESC)
    traits = traits_def(Pure())
    irdl_options = (SameVariadicOperandSize(),)

    @classmethod
    def make(
        cls,
        base: SSAValue,
        shape: Sequence[SSAValue],
        strides: Sequence[SSAValue],
        block: Sequence[int],
        *,
        padding: str = "zero",
        location: LocationAttr | None = None,
    ) -> MakeTensorDescriptorOp:
        pointer = base.type
        assert isinstance(pointer, PtrType)
        return cls.create(
            operands=[base, *shape, *strides],
            result_types=[TensorDescType(TensorType(pointer.pointee, block))],
            properties={"padding": PADDING[padding]},
            location=location,
        )

    def verify_(self) -> None:
        block, pointer = _block(self.result.type), self.base.type
        assert isinstance(pointer, PtrType)
        if len(self.shape) != len(block.get_shape()):
            raise VerifyException(f"{len(self.shape)} sizes for a block of type {block}")
        if block.element_type != pointer.pointee:
            raise VerifyException(f"a block of {block.element_type} at a pointer to {pointer.pointee}")
        if self.padding is not None:
            PADDING.of(self.padding)

    @classmethod
    def parse(cls, parser: Parser) -> MakeTensorDescriptorOp:
        base = parser.parse_unresolved_operand()
        parser.parse_punctuation(",")
        shape = parse_indices(parser)
        parser.parse_punctuation(",")
        strides = parse_indices(parser)
        attributes = parser.parse_optional_attr_dict()
        padding = attributes.pop("padding", PADDING["zero"])
        parser.parse_punctuation(":")
        pointer = parse_short(parser, PtrType)
        parser.parse_punctuation(",")
        result = parse_short(parser, TensorDescType)
        return cls.create(
            operands=[
                parser.resolve_operand(base, pointer),
                *(parser.resolve_operand(v, i32) for v in shape),
                *(parser.resolve_operand(v, i64) for v in strides),
            ],
            result_types=[result],
            properties={"padding": padding},
            attributes=attributes,
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.base)
        for values in (self.shape, self.strides):
            printer.print_string(", ")
            print_indices(printer, values)
        shown = {} if self.padding in (None, PADDING["zero"]) else {"padding": self.padding}
        printer.print_op_attributes({**shown, **self.attributes})
        printer.print_string(" : ")
        printer.print_attribute(self.base.type)
        printer.print_string(", ")
        printer.print_attribute(self.result.type)


@irdl_op_definition
class DescriptorLoadOp(IRDLOperation):
    """The block of `desc` whose first element is at `indices`."""

    name = "tt.descriptor_load"
    desc = operand_def(_DESC)
    indices = var_operand_def(i32)
    cache = opt_prop_def(IntegerAttr[I32])
    evict = opt_prop_def(IntegerAttr[I32])
    result = result_def(_TENSOR)
    traits = traits_def(MemoryReadEffect())

    @classmethod
    def make(
        cls,
        desc: SSAValue,
        indices: Sequence[SSAValue],
        shape: Sequence[int] | None = None,
        *,
        cache: str = "none",
        evict: str = "evict_normal",
        location: LocationAttr | None = None,
    ) -> DescriptorLoadOp:
        """The block; in `shape`, if that drops dims of size 1."""
        block = _block(desc.type)
        return cls.create(
            operands=[desc, *indices],
            result_types=[block if shape is None else tensor(block.element_type, tuple(shape))],
            properties={"cache": CACHE[cache], "evict": EVICT[evict]},
            location=location,
        )

    def verify_(self) -> None:
        _check_block(self.desc.type, self.indices, self.result.type)

    @classmethod
    def parse(cls, parser: Parser) -> DescriptorLoadOp:
        desc = parser.parse_unresolved_operand()
        indices = parse_indices(parser)
        hints, attributes = parse_hints(parser)
        type = parse_type_after(parser, ":")
        result = parse_type_after(parser, "->")
        return cls.create(
            operands=[parser.resolve_operand(desc, type), *(parser.resolve_operand(v, i32) for v in indices)],
            result_types=[result],
            properties=hints,
            attributes=attributes,
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.desc)
        print_indices(printer, self.indices)
        print_hints(printer, self.properties)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.desc.type)
        printer.print_string(" -> ")
        printer.print_attribute(self.result.type)


class _DescriptorWriteOp(IRDLOperation):
    """Writes a block; what lies outside of the tensor is not written."""

    desc = operand_def(_DESC)
    src = operand_def(_TENSOR)
    indices = var_operand_def(i32)

    def verify_(self) -> None:
        _check_block(self.desc.type, self.indices, self.src.type)

    @classmethod
    def _parse(cls, parser: Parser, properties: dict[str, Attribute]):
        desc = parser.parse_unresolved_operand()
        indices = parse_indices(parser)
        parser.parse_punctuation(",")
        src = parser.parse_unresolved_operand()
        attributes = parser.parse_optional_attr_dict()
        type = parse_type_after(parser, ":")
        value = parser.resolve_operand(src, parse_type_after(parser, ","))
        return cls.create(
            operands=[parser.resolve_operand(desc, type), value, *(parser.resolve_operand(v, i32) for v in indices)],
            properties=properties,
            attributes=attributes,
        )

    def _print(self, printer: Printer) -> None:
        printer.print_ssa_value(self.desc)
        print_indices(printer, self.indices)
        printer.print_string(", ")
        printer.print_ssa_value(self.src)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.desc.type)
        printer.print_string(", ")
        printer.print_attribute(self.src.type)


@irdl_op_definition
class DescriptorStoreOp(_DescriptorWriteOp):
    """Writes `src` to the block of `desc` whose first element is at `indices`."""

    name = "tt.descriptor_store"
    traits = traits_def(MemoryWriteEffect())

    @classmethod
    def make(
        cls, desc: SSAValue, indices: Sequence[SSAValue], src: SSAValue, location: LocationAttr | None = None
    ) -> DescriptorStoreOp:
        return cls.create(operands=[desc, src, *indices], location=location)

    @classmethod
    def parse(cls, parser: Parser) -> DescriptorStoreOp:
        return cls._parse(parser, {})

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        self._print(printer)


@irdl_op_definition
class DescriptorReduceOp(_DescriptorWriteOp):
    """Combines `src` with the block of `desc` whose first element is at `indices`, element by element, atomically."""

    name = "tt.descriptor_reduce"
    kind = prop_def(IntegerAttr[I32])
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    @classmethod
    def make(
        cls,
        kind: str,
        desc: SSAValue,
        indices: Sequence[SSAValue],
        src: SSAValue,
        location: LocationAttr | None = None,
    ) -> DescriptorReduceOp:
        properties = {"kind": DESCRIPTOR_REDUCE[kind]}
        return cls.create(operands=[desc, src, *indices], properties=properties, location=location)

    def verify_(self) -> None:
        DESCRIPTOR_REDUCE.of(self.kind)
        super().verify_()

    @classmethod
    def parse(cls, parser: Parser) -> DescriptorReduceOp:
        kind = DESCRIPTOR_REDUCE.parse(parser)
        parser.parse_punctuation(",")
        return cls._parse(parser, {"kind": kind})

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {DESCRIPTOR_REDUCE.of(self.kind)}, ")
        self._print(printer)


@irdl_op_definition
class DescriptorGatherOp(IRDLOperation):
    """Rows `x_offsets` of the tensor, from column `y_offset` on; a block of `desc` is one row. From sm_100 on."""

    name = "tt.descriptor_gather"
    desc = operand_def(_DESC)
    x_offsets = operand_def(_I32S)
    y_offset = operand_def(i32)
    result = result_def(_TENSOR)
    traits = traits_def(MemoryReadEffect())
    assembly_format = "$desc `[` $x_offsets `,` $y_offset `]` attr-dict `:` functional-type(operands, results)"

    @classmethod
    def make(
        cls, desc: SSAValue, x_offsets: SSAValue, y_offset: SSAValue, location: LocationAttr | None = None
    ) -> DescriptorGatherOp:
        block = _block(desc.type)
        result = tensor(block.element_type, (*shape_of(x_offsets.type), block.get_shape()[-1]))
        return cls.create(operands=[desc, x_offsets, y_offset], result_types=[result], location=location)

    def verify_(self) -> None:
        _check_rows(self.desc.type, self.x_offsets.type, self.result.type)


@irdl_op_definition
class DescriptorScatterOp(IRDLOperation):
    """Writes rows of `src` to rows `x_offsets` of the tensor, from column `y_offset` on."""

    name = "tt.descriptor_scatter"
    desc = operand_def(_DESC)
    x_offsets = operand_def(_I32S)
    y_offset = operand_def(i32)
    src = operand_def(_TENSOR)
    traits = traits_def(MemoryWriteEffect())
    assembly_format = "$desc `[` $x_offsets `,` $y_offset `]` `,` $src attr-dict `:` type(operands)"

    @classmethod
    def make(
        cls,
        desc: SSAValue,
        x_offsets: SSAValue,
        y_offset: SSAValue,
        src: SSAValue,
        location: LocationAttr | None = None,
    ) -> DescriptorScatterOp:
        return cls.create(operands=[desc, x_offsets, y_offset, src], location=location)

    def verify_(self) -> None:
        _check_rows(self.desc.type, self.x_offsets.type, self.src.type)


def _block(type: Attribute) -> TensorType[Attribute]:
    assert isinstance(type, TensorDescType)
    return type.block


def _check_block(desc: Attribute, indices: Sequence[SSAValue], value: Attribute) -> None:
    block = _block(desc)
    if len(indices) != len(block.get_shape()):
        raise VerifyException(f"{len(indices)} indices into blocks of type {block}")
    squeezed = [[size for size in shape_of(t) if size != 1] for t in (block, value)]
    if squeezed[0] != squeezed[1] or element_of(value) != block.element_type:
        raise VerifyException(f"a {value} is no block of type {block}")


def _check_rows(desc: Attribute, offsets: Attribute, value: Attribute) -> None:
    block = _block(desc)
    shape = block.get_shape()
    if len(shape) != 2 or shape[0] != 1:
        raise VerifyException(f"gathered blocks are one row, not {block}")
    if shape_of(offsets)[0] < 8:
        raise VerifyException(f"at least 8 rows are gathered at a time, not {shape_of(offsets)[0]}")
    if value != tensor(block.element_type, (*shape_of(offsets), shape[1])):
        raise VerifyException(f"rows {offsets} of {block} are no {value}")
