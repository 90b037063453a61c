"""The host program: everything around kernels, in order of execution, on mutable buffers.

A value is a buffer (`!sym.t<...>`, its type says sizes, strides and dtype) or a symbolic scalar (`!sym.int<...>`).
Arguments are the caller's tensors. Ops of `aten` stand between these; the `.out` overloads write into a buffer of
ours.

```
host.func @main(%x: !sym.t<[s0, 16], f32>) -> !sym.t<[s0, 16], f32> {
  host.check %x "x" : !sym.t<[s0, 16], f32>
  %a = host.arena [64*s0]
  %t = host.slot %a [0] : !sym.t<[s0, 16], f32>
  host.launch @exp(%x) outs(%t) sizes [s0] : !sym.t<[s0, 16], f32>, !sym.t<[s0, 16], f32>
  %y = host.empty : !sym.t<[s0, 16], f32>
  host.launch @neg(%t) outs(%y) sizes [s0] : !sym.t<[s0, 16], f32>, !sym.t<[s0, 16], f32>
  host.drop %a : !host.arena
  host.return %y : !sym.t<[s0, 16], f32>
}
```
"""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FunctionType,
    IntegerAttr,
    LocationAttr,
    StringAttr,
)
from xdsl.dialects.utils import parse_func_op_like, print_func_op_like
from xdsl.ir import Attribute, Block, BlockArgument, Dialect, Operation, ParametrizedAttribute, Region, TypeAttribute
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsolatedFromAbove, IsTerminator, NoMemoryEffect, SymbolOpInterface
from xdsl.utils.exceptions import VerifyException

from .expr import Dim
from .host_launch import LaunchOp as LaunchOp
from .host_launch import TogetherOp as TogetherOp
from .host_launch import launches as launches
from .loop_attrs import IndexAttr
from .tensor import SymType, TensorType


@irdl_attr_definition
class ArenaType(ParametrizedAttribute, TypeAttribute):
    """One block of memory that holds all planned buffers of a call."""

    name = "host.arena"


ARENA = ArenaType()

BESIDE = "lamella.beside"
"""The attribute of a function that says the same of it, until it makes the first."""


def _one(index: IndexAttr, what: str) -> Dim:
    """The only expression of a bracketed list."""
    if len(index) != 1:
        raise VerifyException(f"{what} is one expression in brackets, got {index.text}")
    return index[0]


@irdl_op_definition
class FuncOp(IRDLOperation):
    """`host.func @main(%x: T, ...) -> (T, ...) {...}`: one block, the program of a call.

    Argument attributes are those of the function it was made of (`lamella.name`, `lamella.mutated`,
    `lamella.constant`).
    """

    name = "host.func"
    sym_name = prop_def(StringAttr)
    function_type = prop_def(FunctionType)
    arg_attrs = opt_prop_def(ArrayAttr[DictionaryAttr])
    body = region_def("single_block")
    traits = traits_def(IsolatedFromAbove(), SymbolOpInterface())

    @staticmethod
    def make(
        name: str,
        type: FunctionType,
        body: Block,
        *,
        arg_attrs: ArrayAttr[DictionaryAttr] | None = None,
        attributes: dict[str, Attribute] | None = None,
        location: LocationAttr | None = None,
    ) -> FuncOp:
        """The function of that name and type around `body`."""
        properties: dict[str, Attribute] = {"sym_name": StringAttr(name), "function_type": type}
        if arg_attrs is not None:
            properties["arg_attrs"] = arg_attrs
        return FuncOp.create(
            properties=properties, attributes=attributes or {}, regions=[Region(body)], location=location
        )

    def verify_(self) -> None:
        block = self.body.block
        if tuple(a.type for a in block.args) != self.function_type.inputs.data:
            raise VerifyException("the block's arguments are not those of the function type")
        last = block.last_op
        if not isinstance(last, ReturnOp):
            raise VerifyException("the body of host.func must end with host.return")
        if tuple(v.type for v in last.values) != self.function_type.outputs.data:
            raise VerifyException(
                f"host.return gives ({', '.join(str(v.type) for v in last.values)}), "
                f"the function type says ({', '.join(map(str, self.function_type.outputs.data))})"
            )

    @classmethod
    def parse(cls, parser: Parser) -> FuncOp:
        name, inputs, outputs, region, attributes, arg_attrs, _ = parse_func_op_like(
            parser, reserved_attr_names=("sym_name", "function_type")
        )
        op = cls.create(
            properties={"sym_name": StringAttr(name), "function_type": FunctionType.from_lists(inputs, outputs)},
            attributes=attributes.data if attributes else {},
            regions=[region],
        )
        if arg_attrs is not None:
            op.properties["arg_attrs"] = arg_attrs
        return op

    def print(self, printer: Printer) -> None:
        print_func_op_like(
            printer,
            self.sym_name,
            self.function_type,
            self.body,
            self.attributes,
            arg_attrs=self.arg_attrs,
            reserved_attr_names=("sym_name", "function_type", "arg_attrs"),
        )


@irdl_op_definition
class CheckOp(IRDLOperation):
    """`host.check %x "x" : T`: the caller's argument must be what T claims.

    Raises TypeError (not a tensor, dtype, device, layout, rank) or ValueError (sizes, strides) with the name. Strides
    of dims of size 1, and of empty tensors, are not looked at.
    """

    name = "host.check"
    value = operand_def()
    label = prop_def(StringAttr)
    traits = traits_def()
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$value $label attr-dict `:` type($value)"


@irdl_op_definition
class ArenaOp(IRDLOperation):
    """`%a = host.arena [bytes]`: memory for this call alone, 64-byte aligned; given back by host.drop.

    `host.arena [bytes] "cuda:0"` is memory of that device.
    """

    name = "host.arena"
    bytes = prop_def(IndexAttr)
    device = opt_prop_def(StringAttr)
    res = result_def(ArenaType)
    traits = traits_def()

    def verify_(self) -> None:
        _one(self.bytes, "bytes")

    @classmethod
    def parse(cls, parser: Parser) -> ArenaOp:
        properties: dict[str, Attribute] = {"bytes": IndexAttr.parse_brackets(parser)}
        if (device := parser.parse_optional_str_literal()) is not None:
            properties["device"] = StringAttr(device)
        return cls.create(properties=properties, result_types=[ARENA])

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.bytes.text}")
        if self.device is not None:
            printer.print_string(f' "{self.device.data}"')


@irdl_op_definition
class LendOp(IRDLOperation):
    """`%a = host.lend %y : T`: the memory of a tensor that is not written yet, for buffers that die before it is."""

    name = "host.lend"
    source = operand_def(TensorType)
    res = result_def(ArenaType)
    traits = traits_def()

    @classmethod
    def parse(cls, parser: Parser) -> LendOp:
        source = parser.parse_unresolved_operand()
        parser.parse_punctuation(":")
        return cls.create(operands=[parser.resolve_operand(source, parser.parse_type())], result_types=[ARENA])

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.source)
        printer.print_string(" : ")
        printer.print_attribute(self.source.type)


@irdl_op_definition
class SlotOp(IRDLOperation):
    """`%b = host.slot %a [offset] : T`: a buffer at a byte offset (a multiple of 64); others may share the bytes."""

    name = "host.slot"
    arena = operand_def(ArenaType)
    offset = prop_def(IndexAttr)
    res = result_def(TensorType)
    traits = traits_def(NoMemoryEffect())

    def verify_(self) -> None:
        offset = _one(self.offset, "offset")
        if isinstance(offset, int) and (offset < 0 or offset % 64):
            raise VerifyException(f"offset {offset} is not a multiple of 64")

    @classmethod
    def parse(cls, parser: Parser) -> SlotOp:
        arena = parser.resolve_operand(parser.parse_unresolved_operand(), ARENA)
        offset = IndexAttr.parse_brackets(parser)
        parser.parse_punctuation(":")
        return cls.create(operands=[arena], properties={"offset": offset}, result_types=[parser.parse_type()])

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.arena)
        printer.print_string(f" {self.offset.text} : ")
        printer.print_attribute(self.res.type)


@irdl_op_definition
class EmptyOp(IRDLOperation):
    """`%o = host.empty : T`: a fresh tensor of torch's allocator, owned by the program until dropped or returned.

    `%o = host.empty over (%x : T) : U`: the same, or, where nobody but the program holds the argument x and its memory,
    a tensor over that: x is not to be read once o is written.

    `beside`: the most bytes that the program holds beside arenas and outputs that are recycled, until it makes the next
    of these.
    """

    name = "host.empty"
    over = opt_operand_def(TensorType)
    beside = opt_prop_def(IntegerAttr)
    res = result_def(TensorType)
    traits = traits_def()
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "(`over` `(` $over^ `:` type($over) `)`)? attr-dict `:` type($res)"

    def verify_(self) -> None:
        if self.over is not None and not isinstance(self.over, BlockArgument):
            raise VerifyException("lies over an argument, not over what the program has made")


@irdl_op_definition
class ViewOp(IRDLOperation):
    """`%v = host.view %x [offset] : T -> U`: the storage of x, from `offset` elements after x's first, as U says."""

    name = "host.view"
    source = operand_def(TensorType)
    offset = prop_def(IndexAttr)
    res = result_def(TensorType)
    traits = traits_def(NoMemoryEffect())

    def verify_(self) -> None:
        _one(self.offset, "offset")
        source, res = cast(TensorType, self.source.type), self.res.type
        if source.dtype != res.dtype or source.device != res.device:
            raise VerifyException(f"a view keeps dtype and device: {source.data.text} -> {res.data.text}")

    @classmethod
    def parse(cls, parser: Parser) -> ViewOp:
        source = parser.parse_unresolved_operand()
        offset = IndexAttr.parse_brackets(parser)
        parser.parse_punctuation(":")
        operand = parser.resolve_operand(source, parser.parse_type())
        parser.parse_punctuation("->")
        return cls.create(operands=[operand], properties={"offset": offset}, result_types=[parser.parse_type()])

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.source)
        printer.print_string(f" {self.offset.text} : ")
        printer.print_attribute(self.source.type)
        printer.print_string(" -> ")
        printer.print_attribute(self.res.type)


@irdl_op_definition
class SizeOp(IRDLOperation):
    """`%n = host.size : !sym.int<2*s0>`: the value of the type's expression."""

    name = "host.size"
    res = result_def(SymType)
    traits = traits_def(NoMemoryEffect())
    assembly_format = "attr-dict `:` type($res)"


@irdl_op_definition
class DropOp(IRDLOperation):
    """`host.drop %o : T`: the last use is past; releases what the program holds of it (a tensor, an argument, the
    arena).

    `beside`: as that of `host.empty`, where an output goes that is recycled, and its memory is not to be kept.
    """

    name = "host.drop"
    values = var_operand_def()
    beside = opt_prop_def(IntegerAttr)
    traits = traits_def()
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$values attr-dict `:` type($values)"


@irdl_op_definition
class ReturnOp(IRDLOperation):
    """The outputs, in order. A view or an argument is returned as an alias."""

    name = "host.return"
    values = var_operand_def()
    traits = traits_def(IsTerminator())
    assembly_format = "attr-dict ($values^ `:` type($values))?"


_OPS: tuple[type[Operation], ...] = (
    *(FuncOp, CheckOp, ArenaOp, LendOp, SlotOp, EmptyOp, ViewOp, SizeOp, LaunchOp, TogetherOp, DropOp, ReturnOp),
)
HOST = Dialect("host", [*_OPS], [ArenaType])
