"""Kernels: fused nests with explicit loops over buffers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import sympy
from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, IntegerType, StringAttr, SymbolRefAttr
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import (
    IsolatedFromAbove,
    IsTerminator,
    NoTerminator,
    Pure,
    RecursiveMemoryEffect,
    SymbolOpInterface,
)
from xdsl.utils.exceptions import VerifyException

from . import expr
from .loop_attrs import DimsAttr, IndexAttr
from .loop_scalar import YieldOp
from .loop_schedule import check_schedule
from .loop_syntax import (
    COMBINE_RESULTS,
    check_extents,
    check_kinds,
    check_results,
    check_scope,
    kinds,
    kinds_text,
    parse_kinds,
    parse_types,
    print_region,
    print_types,
    terminator,
)
from .tensor import TensorType


@irdl_op_definition
class EndOp(IRDLOperation):
    """The end of a kernel's body."""

    name = "loop.end"
    traits = traits_def(IsTerminator(), Pure())
    assembly_format = "attr-dict"


@irdl_op_definition
class KernelOp(IRDLOperation):
    """`loop.kernel @name(%x: T) outs(%y: T) sizes [s0] grid [d0 = s0] {…}`: see docs/ARCHITECTURE.md.

    Attributes (discardable): `bytes`, `flops`, `ops`, and those of `loop_schedule`.
    """

    name = "loop.kernel"
    sym_name = prop_def(StringAttr)
    n_ins = prop_def(IntegerAttr[IntegerType])
    sizes = prop_def(IndexAttr)
    grid = prop_def(DimsAttr)
    body = region_def("single_block")
    traits = traits_def(IsolatedFromAbove(), SymbolOpInterface(), NoTerminator())

    @classmethod
    def make(
        cls,
        name: str,
        body: Block,
        n_ins: int,
        sizes: IndexAttr,
        grid: DimsAttr,
        *,
        attributes: dict[str, Attribute] | None = None,
        location: Any = None,
    ) -> KernelOp:
        props: dict[str, Attribute] = {
            "sym_name": StringAttr(name), "n_ins": IntegerAttr(n_ins, 64), "sizes": sizes, "grid": grid
        }  # fmt: skip
        return cls.create(properties=props, attributes=attributes or {}, regions=[Region(body)], location=location)

    @property
    def ins(self) -> Sequence[SSAValue]:
        return self.body.block.args[: self.n_ins.value.data]

    @property
    def outs(self) -> Sequence[SSAValue]:
        return self.body.block.args[self.n_ins.value.data :]

    def verify_(self) -> None:
        for a in self.body.block.args:
            if not isinstance(a.type, TensorType):
                raise VerifyException(f"kernel arguments are tensors, not {a.type}")
        if not all(isinstance(s, sympy.Symbol) for s in self.sizes):
            raise VerifyException(f"the sizes of a kernel are names, not {self.sizes.text}")
        sizes = {expr.text(s) for s in self.sizes}
        used = {s.name for a in self.body.block.args for d in (*a.type.shape, *a.type.strides) for s in expr.symbols(d)}  # pyright: ignore
        used |= {s.name for d in self.grid for s in expr.symbols(d.lo) | expr.symbols(d.hi)} - set(self.grid.names)
        if used - sizes:
            raise VerifyException(f"size {sorted(used - sizes)[0]} is not among the kernel's sizes {self.sizes.text}")
        terminator(self.body, EndOp, "loop.kernel")
        check_extents(self.grid, "loop.kernel", frozenset(), frozenset(sizes))
        check_scope(self.body, frozenset(self.grid.names), frozenset(sizes))
        check_schedule(self.attributes, self.grid.names)

    @classmethod
    def parse(cls, parser: Parser) -> KernelOp:
        name = parser.parse_symbol_name()
        ins = parser.parse_comma_separated_list(Parser.Delimiter.PAREN, parser.parse_argument)
        parser.parse_keyword("outs")
        outs = parser.parse_comma_separated_list(Parser.Delimiter.PAREN, parser.parse_argument)
        parser.parse_keyword("sizes")
        sizes = IndexAttr.parse_brackets(parser)
        parser.parse_keyword("grid")
        grid = DimsAttr.parse_brackets(parser)
        attributes = parser.parse_optional_attr_dict_with_keyword()
        body = parser.parse_region([*ins, *outs])
        return cls.create(
            properties={"sym_name": name, "n_ins": IntegerAttr(len(ins), 64), "sizes": sizes, "grid": grid},
            attributes=attributes.data if attributes else {},
            regions=[body],
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name.data)
        printer.print_string("(")
        printer.print_list(self.ins, lambda a: printer.print_block_argument(cast(Any, a)))
        printer.print_string(") outs(")
        printer.print_list(self.outs, lambda a: printer.print_block_argument(cast(Any, a)))
        printer.print_string(f") sizes {self.sizes.text} grid {self.grid.text}")
        if self.attributes:
            printer.print_op_attributes(self.attributes, print_keyword=True)
        print_region(printer, self.body)


@irdl_op_definition
class LaunchOp(IRDLOperation):
    """`%y = loop.launch @k(%x) sizes [s77] : (T) -> T`: run a kernel over its grid; results are its outs, fresh.

    Launches that follow one another with the same number as attribute `together` are run as one.
    """

    name = "loop.launch"
    args = var_operand_def(TensorType)
    kernel = prop_def(SymbolRefAttr)
    sizes = prop_def(IndexAttr)
    res = var_result_def(TensorType)
    traits = traits_def()

    @property
    def callee(self) -> str:
        return self.kernel.root_reference.data

    @property
    def together(self) -> int | None:
        """The number that it shares with the launches it is run with."""
        mark = self.attributes.get("together")
        return cast("IntegerAttr[IntegerType]", mark).value.data if isinstance(mark, IntegerAttr) else None

    @classmethod
    def parse(cls, parser: Parser) -> LaunchOp:
        kernel = parser.parse_symbol_name()
        args = parser.parse_comma_separated_list(Parser.Delimiter.PAREN, parser.parse_unresolved_operand)
        parser.parse_keyword("sizes")
        sizes = IndexAttr.parse_brackets(parser)
        attributes = parser.parse_optional_attr_dict_with_keyword()
        parser.parse_punctuation(":")
        start = parser.pos
        t = parser.parse_function_type()
        return cls.create(
            operands=parser.resolve_operands(args, t.inputs.data, start),
            result_types=t.outputs.data,
            properties={"kernel": SymbolRefAttr(kernel), "sizes": sizes},
            attributes=attributes.data if attributes else {},
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.callee)
        printer.print_string("(")
        printer.print_list(self.args, printer.print_ssa_value)
        printer.print_string(f") sizes {self.sizes.text}")
        if self.attributes:
            printer.print_op_attributes(self.attributes, print_keyword=True)
        printer.print_string(" : ")
        printer.print_function_type([a.type for a in self.args], [r.type for r in self.res])


@irdl_op_definition
class ForOp(IRDLOperation):
    """`loop.for [r0 = 1024] reduce [max] {…} : f32`: nested loops, last dim innermost; see docs/ARCHITECTURE.md.

    Attributes (discardable): those of `loop_schedule`.
    """

    name = "loop.for"
    dims = prop_def(DimsAttr)
    reduce = prop_def(ArrayAttr[StringAttr])
    body = region_def("single_block")
    res = var_result_def()
    traits = traits_def(RecursiveMemoryEffect(), NoTerminator())

    @classmethod
    def make(
        cls,
        dims: DimsAttr,
        body: Block,
        *,
        reduce: Sequence[str] = (),
        result_types: Sequence[Attribute] = (),
        attributes: dict[str, Attribute] | None = None,
        location: Any = None,
    ) -> ForOp:
        props: dict[str, Attribute] = {"dims": dims, "reduce": kinds(reduce)}
        return cls.create(
            result_types=result_types,
            properties=props,
            attributes=attributes or {},
            regions=[Region(body)],
            location=location,
        )

    def verify_(self) -> None:
        check_kinds(self.reduce, COMBINE_RESULTS)
        last = terminator(self.body, YieldOp, "loop.for")
        if len(last.values) != len(self.reduce):
            raise VerifyException(f"{len(self.reduce)} reduce kinds but {len(last.values)} values are yielded")
        check_results("loop.for", [k.data for k in self.reduce.data], last.values, self.res)
        check_schedule(self.attributes, self.dims.names)

    @classmethod
    def parse(cls, parser: Parser) -> ForOp:
        dims = DimsAttr.parse_brackets(parser)
        reduce = parse_kinds(parser) if parser.parse_optional_keyword("reduce") is not None else kinds(())
        attributes = parser.parse_optional_attr_dict_with_keyword()
        body = parser.parse_region()
        types = parse_types(parser)
        return cls.create(
            result_types=types,
            properties={"dims": dims, "reduce": reduce},
            attributes=attributes.data if attributes else {},
            regions=[body],
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.dims.text}")
        if self.reduce.data:
            printer.print_string(f" reduce {kinds_text(self.reduce)}")
        if self.attributes:
            printer.print_op_attributes(self.attributes, print_keyword=True)
        print_region(printer, self.body)
        print_types(printer, self.res)


@irdl_op_definition
class ScratchOp(IRDLOperation):
    """`loop.scratch : T`: an uninitialised buffer of this grid point; contiguous."""

    name = "loop.scratch"
    res = result_def(TensorType)
    traits = traits_def()
    assembly_format = "attr-dict `:` type($res)"
