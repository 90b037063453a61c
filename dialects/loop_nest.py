"""Loop ops over tensor values: nests, scatters and views."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import sympy
from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.ir import Attribute, Block, Region
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import (
    NoTerminator,
    Pure,
    RecursiveMemoryEffect,
)
from xdsl.utils.exceptions import VerifyException

from . import expr
from .loop_attrs import DimsAttr, IndexAttr
from .loop_scalar import YieldAtOp, YieldOp
from .loop_syntax import (
    COMBINE_RESULTS,
    SCAN_KINDS,
    SORT,
    STORE_KINDS,
    check_extents,
    check_kinds,
    check_results,
    check_scope,
    check_symbols,
    check_values,
    kinds,
    kinds_text,
    parse_kinds,
    parse_types,
    print_region,
    print_types,
    terminator,
)
from .tensor import TensorType, elements_spanned


@irdl_op_definition
class NestOp(IRDLOperation):
    """result[d…] = body(d…), or the combination of body(d…, r…) over all r…; or its inclusive scan along one d.

    `dims` and `reduce` give the domain. Without `out` there is one dim per dimension of a result; `out` (index
    expressions over `dims`, one per dimension of the results, a bijection onto their shape) says where a point's
    value goes otherwise.
    A reduction over an empty domain gives the kind's identity. With `scan` and a reduce dim, which go with the kind
    "sort", the points of the scan's dim are the places in the ascending order of body(…, r0), which does not have it.
    """

    name = "loop.nest"
    dims = prop_def(DimsAttr)
    reduce = prop_def(DimsAttr)
    combine = prop_def(ArrayAttr[StringAttr])
    scan = opt_prop_def(StringAttr)
    out = opt_prop_def(IndexAttr)
    body = region_def("single_block")
    res = var_result_def(TensorType)
    traits = traits_def(RecursiveMemoryEffect(), NoTerminator())

    @classmethod
    def make(
        cls,
        dims: DimsAttr,
        body: Block,
        result_types: Sequence[TensorType],
        *,
        reduce: DimsAttr | None = None,
        combine: Sequence[str] = (),
        scan: str | None = None,
        out: IndexAttr | None = None,
        location: Any = None,
        attributes: dict[str, Attribute] | None = None,
    ) -> NestOp:
        props: dict[str, Attribute] = {"dims": dims, "reduce": reduce or DimsAttr.get(()), "combine": kinds(combine)}
        if scan is not None:
            props["scan"] = StringAttr(scan)
        if out is not None:
            props["out"] = out
        return cls.create(
            result_types=result_types,
            properties=props,
            attributes=attributes or {},
            regions=[Region(body)],
            location=location,
        )

    def verify_(self) -> None:
        domain = DimsAttr.get((*self.dims, *self.reduce))
        check_extents(domain, "loop.nest", frozenset(), None)
        combine = [k.data for k in self.combine.data]
        if self.scan is not None:
            sorts = combine == [SORT]
            if not sorts:
                check_kinds(self.combine, SCAN_KINDS)
            if self.scan.data not in self.dims.names or len(self.reduce) != sorts:
                raise VerifyException(
                    "a scan runs along one of dims, and has a reduce dim where it sorts and only there"
                )
        else:
            check_kinds(self.combine, COMBINE_RESULTS)
            if bool(combine) != bool(len(self.reduce)):
                raise VerifyException("reduce dims and combine kinds go together")
        last = terminator(self.body, YieldOp, "loop.nest")
        if combine and len(last.values) != len(combine):
            raise VerifyException(f"{len(combine)} combine kinds but {len(last.values)} values are yielded")
        check_results("loop.nest", [] if self.scan is not None else combine, last.values, self.res)
        for r in self.res:
            t = r.type
            if self.out is None and tuple(d.extent for d in self.dims) != t.shape:
                raise VerifyException(f"result {t.data.text} does not have the shape of the dims {self.dims.text}")
            if self.out is not None and len(self.out) != t.rank:
                raise VerifyException(f"out {self.out.text} has not one expression per dimension of {t.data.text}")
        for e in self.out or ():
            check_symbols("out", e, frozenset(self.dims.names), None)
        check_scope(self.body, frozenset(domain.names), None)
        check_values("loop.nest", self.body)

    @classmethod
    def parse(cls, parser: Parser) -> NestOp:
        dims = DimsAttr.parse_brackets(parser)
        props: dict[str, Attribute] = {"dims": dims, "reduce": DimsAttr.get(()), "combine": kinds(())}
        if parser.parse_optional_keyword("out") is not None:
            props["out"] = IndexAttr.parse_brackets(parser)
        if parser.parse_optional_keyword("reduce") is not None:
            props["reduce"] = DimsAttr.parse_brackets(parser)
        if parser.parse_optional_keyword("scan") is not None:
            props["scan"] = StringAttr(parser.parse_identifier())
        if parser.parse_optional_keyword("combine") is not None:
            props["combine"] = parse_kinds(parser)
        attributes = parser.parse_optional_attr_dict_with_keyword()
        body = parser.parse_region()
        types = parse_types(parser)
        return cls.create(
            result_types=types, properties=props, attributes=attributes.data if attributes else {}, regions=[body]
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.dims.text}")
        if self.out is not None:
            printer.print_string(f" out {self.out.text}")
        if len(self.reduce):
            printer.print_string(f" reduce {self.reduce.text}")
        if self.scan is not None:
            printer.print_string(f" scan {self.scan.data}")
        if self.combine.data:
            printer.print_string(f" combine {kinds_text(self.combine)}")
        if self.attributes:
            printer.print_op_attributes(self.attributes, print_keyword=True)
        print_region(printer, self.body)
        print_types(printer, self.res)


@irdl_op_definition
class ScatterOp(IRDLOperation):
    """base with updates: for each point of `dims`, in lexicographic order, base[index] = combine(base[index], value).

    The body ends with loop.yield_at. `combine` is one of STORE_KINDS, or "none" to overwrite.
    """

    name = "loop.scatter"
    base = operand_def(TensorType)
    dims = prop_def(DimsAttr)
    combine = prop_def(StringAttr)
    body = region_def("single_block")
    res = result_def(TensorType)
    traits = traits_def(RecursiveMemoryEffect(), NoTerminator())

    def verify_(self) -> None:
        if self.combine.data not in ("none", *STORE_KINDS):
            raise VerifyException(f"unknown combine kind {self.combine.data!r}; known: none, {', '.join(STORE_KINDS)}")
        last = terminator(self.body, YieldAtOp, "loop.scatter")
        base, res = cast(TensorType, self.base.type), self.res.type
        if base.shape != res.shape or base.dtype != res.dtype:
            raise VerifyException(f"base {base.data.text} and result {res.data.text} differ")
        if len(last.index) != base.rank:
            raise VerifyException(f"index {last.index.text} has not one expression per dimension of {base.data.text}")
        check_extents(self.dims, "loop.scatter", frozenset(), None)
        check_scope(self.body, frozenset(self.dims.names), None)
        check_values("loop.scatter", self.body)

    @classmethod
    def parse(cls, parser: Parser) -> ScatterOp:
        base = parser.parse_unresolved_operand()
        dims = DimsAttr.parse_brackets(parser)
        parser.parse_keyword("combine")
        combine = StringAttr(parser.parse_identifier())
        attributes = parser.parse_optional_attr_dict_with_keyword()
        body = parser.parse_region()
        parser.parse_punctuation(":")
        base_type = parser.parse_type()
        parser.parse_punctuation("->")
        res = parser.parse_type()
        return cls.create(
            operands=[parser.resolve_operand(base, base_type)],
            result_types=[res],
            properties={"dims": dims, "combine": combine},
            attributes=attributes.data if attributes else {},
            regions=[body],
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.base)
        printer.print_string(f" {self.dims.text} combine {self.combine.data}")
        if self.attributes:
            printer.print_op_attributes(self.attributes, print_keyword=True)
        print_region(printer, self.body)
        printer.print_string(" : ")
        printer.print_attribute(self.base.type)
        printer.print_string(" -> ")
        printer.print_attribute(self.res.type)


@irdl_op_definition
class ViewOp(IRDLOperation):
    """An alias of the operand's storage: element i… is `offset + sum(i * stride)` after the operand's first element."""

    name = "loop.view"
    source = operand_def(TensorType)
    offset = prop_def(IndexAttr)
    res = result_def(TensorType)
    traits = traits_def(Pure())

    @classmethod
    def parse(cls, parser: Parser) -> ViewOp:
        source = parser.parse_unresolved_operand()
        parser.parse_keyword("offset")
        offset = IndexAttr.parse_brackets(parser)
        parser.parse_punctuation(":")
        source_type = parser.parse_type()
        parser.parse_punctuation("->")
        res = parser.parse_type()
        return cls.create(
            operands=[parser.resolve_operand(source, source_type)], result_types=[res], properties={"offset": offset}
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.source)
        printer.print_string(f" offset {self.offset.text} : ")
        printer.print_attribute(self.source.type)
        printer.print_string(" -> ")
        printer.print_attribute(self.res.type)

    def verify_(self) -> None:
        if len(self.offset) != 1:
            raise VerifyException("offset is one expression in brackets")
        source, view = cast(TensorType, self.source.type), self.res.type
        left: Any = expr.normal(sympy.expand(elements_spanned(source) - self.offset[0] - elements_spanned(view)))
        if isinstance(left, int) and left < 0 and 0 not in view.shape:
            raise VerifyException(f"{view} at {self.offset.text} ends {-left} elements after {source}")
