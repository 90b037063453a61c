"""Ordering the values of a loop."""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import StringAttr
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, prop_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from .expr import Dim
from .loop_attrs import IndexAttr
from .tensor import TensorType


@irdl_op_definition
class SortOp(IRDLOperation):
    """`loop.sort %v into %s along r0 first [8] : !sym.t<[136], i64>`: the least values of a loop, in order.

    When the enclosing loop.for, which is over r0 alone and in no other, has ended, elements 0 to 7 of %s are the 8
    least of the i32 or i64 %v along r0, in ascending order; what the rest of %s holds is not defined. How many elements
    %s has is how much room there is: `lowering.sorting`.
    """

    name = "loop.sort"
    value = operand_def()
    target = operand_def(TensorType)
    dim = prop_def(StringAttr)
    first = prop_def(IndexAttr)
    traits = traits_def()

    @property
    def count(self) -> Dim:
        return self.first[0]

    def verify_(self) -> None:
        t = self.target.type
        assert isinstance(t, TensorType)
        if t.rank != 1 or not t.is_contiguous or t.dtype not in ("i32", "i64"):
            raise VerifyException(f"loop.sort takes a row of i32 or i64, not {t.data.text}")
        if self.value.type != t.element:
            raise VerifyException(f"loop.sort of {self.value.type} into {t.data.text}")
        if len(self.first) != 1:
            raise VerifyException("loop.sort takes one number in brackets")
        loop = self.parent_op()
        dims: Any = None if loop is None else loop.properties.get("dims")
        outer = None if loop is None else loop.parent_op()
        if dims is None or tuple(dims.names) != (self.dim.data,) or outer is None or outer.name != "loop.kernel":
            raise VerifyException(f"loop.sort stands in a loop over {self.dim.data} alone that is in no other")

    @classmethod
    def parse(cls, parser: Parser) -> SortOp:
        value = parser.parse_unresolved_operand()
        parser.parse_keyword("into")
        target = parser.parse_unresolved_operand()
        parser.parse_keyword("along")
        dim = parser.parse_identifier()
        parser.parse_keyword("first")
        first = IndexAttr.parse_brackets(parser)
        parser.parse_punctuation(":")
        t = parser.parse_type()
        if not isinstance(t, TensorType):
            parser.raise_error(f"expected a tensor type, got {t}")
        return cls.create(
            operands=[parser.resolve_operand(value, t.element), parser.resolve_operand(target, t)],
            properties={"dim": StringAttr(dim), "first": first},
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.value)
        printer.print_string(" into ")
        printer.print_ssa_value(self.target)
        printer.print_string(f" along {self.dim.data} first {self.first.text} : ")
        printer.print_attribute(self.target.type)
