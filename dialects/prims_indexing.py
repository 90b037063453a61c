"""Indexed reads and writes of `prims`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, ClassVar, Self

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, opt_prop_def, prop_def, result_def, var_operand_def
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer

from . import expr
from .prims_base import EXPRS, STRING, WORD, Exprs, PrimsOp, word
from .tensor import TensorType

COMBINES = ("none", "add", "mul", "max", "min")
_NAME = re.compile(r"([di])(\d+)")


class IndexedOp(PrimsOp):
    """`%x[%i0, %i1] {index = […]}`: an element of x for each point of a domain.

    `index` has an expression per dim of x, over dims `d<k>` of the domain, index tensors `i<k>`, and sizes. Index
    tensors are i64 or i32, have the shape of the domain, and count from 0 (already wrapped). With `message`, an index
    outside of x raises what it says (raised.py); without, the rule that made the op knows that there is none.
    """

    FIELDS: ClassVar = {"index": EXPRS, "message": STRING}
    OPTIONAL: ClassVar[tuple[str, ...]] = ("message",)

    @property
    def index_tensors(self) -> Sequence[SSAValue]:
        raise NotImplementedError

    def verify_index(self, operand: TensorType, domain: TensorType) -> None:
        """Index expressions only name dims of the domain and index tensors of its shape."""
        for v in self.index_tensors:
            t = self.tensor(v)
            if t.dtype not in ("i32", "i64"):
                self.reject(f"expected i32 or i64 index tensors, got {t.dtype}")
            self.expect_shape("an index tensor", t, domain.shape)
        limits = {"d": domain.rank, "i": len(self.index_tensors)}
        for e in self.expect_length("index", operand.rank):
            for symbol in expr.symbols(e):
                named = _NAME.fullmatch(symbol.name)
                if named is not None and int(named[2]) >= limits[named[1]]:
                    self.reject(f"'{symbol.name}' in the index expression {expr.text(e)} names nothing")

    def print_brackets(self, printer: Printer) -> None:
        printer.print_string("[")
        printer.print_list(self.index_tensors, printer.print_ssa_value)
        printer.print_string("]")

    @classmethod
    def parse_operands(cls, parser: Parser) -> list[UnresolvedOperand]:
        operand = parser.parse_unresolved_operand()
        return [operand, *parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_unresolved_operand)]


@irdl_op_definition
class GatherOp(IndexedOp):
    """result[d0, …] = x[index[0], …, index[rank - 1]]."""

    name = "prims.gather"
    index = prop_def(Exprs)
    message = opt_prop_def(StringAttr)
    operand = operand_def(TensorType)
    indices = var_operand_def(TensorType)
    result = result_def(TensorType)

    @property
    def index_tensors(self) -> Sequence[SSAValue]:
        return self._operands[1:]

    def print_operands(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self._operands[0])
        self.print_brackets(printer)

    def verify_(self) -> None:
        operand, result = self.tensor(self._operands[0]), self.tensor(self.results[0])
        self.expect_dtype("a result", result, operand.dtype)
        self.verify_index(operand, result)

    @classmethod
    def make(
        cls,
        operand: SSAValue,
        indices: Sequence[SSAValue],
        index: Sequence[Any],
        result_type: TensorType,
        message: str | None = None,
    ) -> Self:
        properties = {"index": Exprs.get(index)} | ({} if message is None else {"message": StringAttr(message)})
        return cls.create(operands=(operand, *indices), result_types=(result_type,), properties=properties)


@irdl_op_definition
class SubviewOp(IndexedOp):
    """result[d0, …] = x[index[0], …, index[rank - 1]], in the memory of x: windows, diagonals."""

    name = "prims.subview"
    FIELDS: ClassVar = {"index": EXPRS}
    OPTIONAL: ClassVar[tuple[str, ...]] = ()
    index = prop_def(Exprs)
    operand = operand_def(TensorType)
    result = result_def(TensorType)

    @property
    def index_tensors(self) -> Sequence[SSAValue]:
        return ()

    @classmethod
    def parse_operands(cls, parser: Parser) -> list[UnresolvedOperand]:
        return [parser.parse_unresolved_operand()]

    def verify_(self) -> None:
        operand, result = self.tensor(self._operands[0]), self.tensor(self.results[0])
        self.expect_dtype("a result", result, operand.dtype)
        self.verify_index(operand, result)

    @classmethod
    def make(cls, operand: SSAValue, index: Sequence[Any], result_type: TensorType) -> Self:
        return cls.create(operands=(operand,), result_types=(result_type,), properties={"index": Exprs.get(index)})


@irdl_op_definition
class ScatterOp(IndexedOp):
    """x with x[index…] = source[d0, …] for every element of source.

    In row-major order: later ones win, or are combined with what is there. `combine`: none (replace), add, mul, max,
    min.
    """

    name = "prims.scatter"
    FIELDS: ClassVar = {"index": EXPRS, "combine": WORD, "message": STRING}
    index = prop_def(Exprs)
    combine = prop_def(StringAttr)
    message = opt_prop_def(StringAttr)
    operand = operand_def(TensorType)
    indices = var_operand_def(TensorType)
    source = operand_def(TensorType)
    result = result_def(TensorType)

    @property
    def index_tensors(self) -> Sequence[SSAValue]:
        return self._operands[1:-1]

    def print_operands(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self._operands[0])
        self.print_brackets(printer)
        printer.print_string(", ")
        printer.print_ssa_value(self._operands[-1])

    @classmethod
    def parse_operands(cls, parser: Parser) -> list[UnresolvedOperand]:
        operands = super().parse_operands(parser)
        parser.parse_punctuation(",")
        return [*operands, parser.parse_unresolved_operand()]

    def verify_(self) -> None:
        operand, source, result = (self.tensor(v) for v in (self._operands[0], self._operands[-1], self.results[0]))
        if self.combine.data not in COMBINES:
            self.reject(f"expected 'combine' to be one of {', '.join(COMBINES)}, got {self.combine.data}")
        for what, t in (("a result", result), ("a source", source)):
            self.expect_dtype(what, t, operand.dtype)
        self.expect_shape("a result", result, operand.shape)
        self.verify_index(operand, source)

    @classmethod
    def make(
        cls,
        operand: SSAValue,
        indices: Sequence[SSAValue],
        source: SSAValue,
        index: Sequence[Any],
        combine: str = "none",
        message: str | None = None,
        result_type: TensorType | None = None,
    ) -> Self:
        properties = {"index": Exprs.get(index), "combine": word(combine)}
        if message is not None:
            properties["message"] = StringAttr(message)
        return cls.create(
            operands=(operand, *indices, source), result_types=(result_type or operand.type,), properties=properties
        )
