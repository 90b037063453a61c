"""Launches of kernels in the host program, by themselves and together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import cast

from xdsl.dialects.builtin import DenseArrayBase, LocationAttr, SymbolRefAttr, i32
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_op_definition,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import NoTerminator
from xdsl.utils.exceptions import VerifyException

from .loop_attrs import IndexAttr
from .tensor import TensorType


@irdl_op_definition
class LaunchOp(IRDLOperation):
    """`host.launch @k(%x) outs(%y) sizes [s0] : T, U`: run a kernel on buffers. Types in order of the operands.

    Raises what the kernel's loop.assert that failed says.
    """

    name = "host.launch"
    ins = var_operand_def(TensorType)
    outs = var_operand_def(TensorType)
    kernel = prop_def(SymbolRefAttr)
    sizes = prop_def(IndexAttr)
    traits = traits_def()
    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    @staticmethod
    def make(
        kernel: str,
        ins: Sequence[SSAValue],
        outs: Sequence[SSAValue],
        sizes: IndexAttr,
        *,
        attributes: dict[str, Attribute] | None = None,
        location: LocationAttr | None = None,
    ) -> LaunchOp:
        """A launch of `@kernel`; `sizes` has an expression for each of the kernel's."""
        properties: dict[str, Attribute] = {
            "kernel": SymbolRefAttr(kernel),
            "sizes": sizes,
            "operandSegmentSizes": DenseArrayBase.from_list(i32, [len(ins), len(outs)]),
        }
        return LaunchOp.create(
            operands=[*ins, *outs], properties=properties, attributes=attributes or {}, location=location
        )

    @property
    def callee(self) -> str:
        return self.kernel.root_reference.data

    @classmethod
    def parse(cls, parser: Parser) -> LaunchOp:
        kernel = parser.parse_symbol_name()
        ins = parser.parse_comma_separated_list(Parser.Delimiter.PAREN, parser.parse_unresolved_operand)
        parser.parse_keyword("outs")
        outs = parser.parse_comma_separated_list(Parser.Delimiter.PAREN, parser.parse_unresolved_operand)
        parser.parse_keyword("sizes")
        sizes = IndexAttr.parse_brackets(parser)
        attributes = parser.parse_optional_attr_dict_with_keyword()
        start = parser.pos
        types: list[Attribute] = []
        if ins or outs:
            parser.parse_punctuation(":")
            types = parser.parse_comma_separated_list(Parser.Delimiter.NONE, parser.parse_type)
        operands = parser.resolve_operands([*ins, *outs], types, start)
        return cls.make(
            kernel.data,
            operands[: len(ins)],
            operands[len(ins) :],
            sizes,
            attributes=dict(attributes.data) if attributes else None,
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.callee)
        for before, values in (("(", self.ins), (" outs(", self.outs)):
            printer.print_string(before)
            printer.print_list(values, printer.print_ssa_value)
            printer.print_string(")")
        printer.print_string(f" sizes {self.sizes.text}")
        if self.attributes:
            printer.print_op_attributes(self.attributes, print_keyword=True)
        if self.operands:
            printer.print_string(" : ")
            printer.print_list(self.operands, lambda v: printer.print_attribute(v.type))


@irdl_op_definition
class TogetherOp(IRDLOperation):
    """`host.together {launches}`: kernels that need nothing of each other, run as one.

    No launch writes what another reads or writes; which point of which kernel runs first is open. Each launch reads as
    it does by itself.
    """

    name = "host.together"
    body = region_def("single_block")
    traits = traits_def(NoTerminator())

    @staticmethod
    def make(launches: Sequence[LaunchOp], *, location: LocationAttr | None = None) -> TogetherOp:
        """All of `launches`, which are in no block."""
        return TogetherOp.create(regions=[Region(Block(launches))], location=location)

    @property
    def launches(self) -> Sequence[LaunchOp]:
        return cast("Sequence[LaunchOp]", tuple(self.body.block.ops))

    def verify_(self) -> None:
        if self.body.block.args:
            raise VerifyException("takes no arguments")
        for op in self.body.block.ops:
            if not isinstance(op, LaunchOp):
                raise VerifyException(f"holds launches only, not {op.name}")

    @classmethod
    def parse(cls, parser: Parser) -> TogetherOp:
        return cls.create(regions=[parser.parse_region()])

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_region(self.body, print_entry_block_args=False, print_empty_block=False)


def launches(ops: Iterable[Operation]) -> Iterator[LaunchOp]:
    """The launches among the ops of a program, in order."""
    for op in ops:
        if isinstance(op, LaunchOp):
            yield op
        elif isinstance(op, TogetherOp):
            yield from op.launches
