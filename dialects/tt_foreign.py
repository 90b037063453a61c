"""Ops of other dialects that stand in Triton's text, and that xDSL lacks or cannot read."""

from __future__ import annotations

from xdsl.dialects.builtin import I32, DenseArrayBase, LocationAttr, i1
from xdsl.ir import Dialect, SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, prop_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer

from .tt_types import i32_array


@irdl_op_definition
class AssumeOp(IRDLOperation):
    """`cond` is true: what the compiler may rely on. `tl.assume` makes it."""

    name = "llvm.intr.assume"
    cond = operand_def(i1)
    op_bundle_sizes = prop_def(DenseArrayBase[I32])
    traits = traits_def()

    @classmethod
    def make(cls, cond: SSAValue, location: LocationAttr | None = None) -> AssumeOp:
        return cls.create(operands=[cond], properties={"op_bundle_sizes": i32_array()}, location=location)

    @classmethod
    def parse(cls, parser: Parser) -> AssumeOp:
        cond = parser.parse_unresolved_operand()
        parser.parse_punctuation(":")
        return cls.make(parser.resolve_operand(cond, parser.parse_type()))

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.cond)
        printer.print_string(" : ")
        printer.print_attribute(self.cond.type)


@irdl_op_definition
class BarrierOp(IRDLOperation):
    """Waits for all threads of the program. `tl.debug_barrier` makes it."""

    name = "gpu.barrier"
    traits = traits_def()
    assembly_format = "attr-dict"

    @classmethod
    def make(cls, location: LocationAttr | None = None) -> BarrierOp:
        return cls.create(location=location)


GPU = Dialect("gpu", [BarrierOp], [])
