"""Loop ops in scalar bodies: memory access at symbolic indices, and what arith and math lack."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from xdsl.dialects.builtin import StringAttr, UnitAttr, i1, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import (
    IsTerminator,
    NoMemoryEffect,
    Pure,
)
from xdsl.utils.exceptions import VerifyException

from .loop_attrs import IndexAttr, PredAttr
from .loop_schedule import check_schedule
from .loop_syntax import SCAN_KINDS, STORE_KINDS, check_kinds, kinds, parse_operands, print_operands
from .tensor import TensorType


@irdl_op_definition
class YieldOp(IRDLOperation):
    """The values of one point: elements of a nest's results, or contributions to its reductions."""

    name = "loop.yield"
    values = var_operand_def()
    traits = traits_def(IsTerminator(), Pure())
    assembly_format = "attr-dict ($values^ `:` type($values))?"


@irdl_op_definition
class YieldAtOp(IRDLOperation):
    """`loop.yield_at %v[v0, d1](%i) : T`: the update of one point of a loop.scatter."""

    name = "loop.yield_at"
    value = operand_def()
    indices = var_operand_def(i64)
    index = prop_def(IndexAttr)
    traits = traits_def(IsTerminator(), Pure())

    @classmethod
    def parse(cls, parser: Parser) -> YieldAtOp:
        v = parser.parse_unresolved_operand()
        index = IndexAttr.parse_brackets(parser)
        indices = parse_operands(parser)
        parser.parse_punctuation(":")
        value = parser.resolve_operand(v, parser.parse_type())
        return cls.create(operands=[value, *indices], properties={"index": index})

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.value)
        printer.print_string(self.index.text)
        print_operands(printer, self.indices)
        printer.print_string(" : ")
        printer.print_attribute(self.value.type)


def _parse_access(parser: Parser) -> tuple[IndexAttr, list[SSAValue], PredAttr | None, SSAValue | None]:
    """`[d0, v0](%i) mask [lt(d1, 32)] if %ok`: index, its operands, mask and condition."""
    index = IndexAttr.parse_brackets(parser)
    indices = parse_operands(parser)
    mask = PredAttr.parse_brackets(parser) if parser.parse_optional_keyword("mask") is not None else None
    ok = None
    if parser.parse_optional_keyword("if") is not None:
        ok = parser.resolve_operand(parser.parse_unresolved_operand(), i1)
    return index, indices, mask, ok


def _print_access(printer: Printer, op: LoadOp | StoreOp) -> None:
    printer.print_string(op.index.text)
    print_operands(printer, op.indices)
    if op.mask is not None:
        printer.print_string(f" mask {op.mask.text}")
    if op.ok is not None:
        printer.print_string(" if ")
        printer.print_ssa_value(op.ok)


@irdl_op_definition
class LoadOp(IRDLOperation):
    """`loop.load %x[d0, v0](%i) mask [lt(d1, 32)] if %ok other 0.0 : T` -> one element, as T's scalar type.

    Index expressions are over dims, sizes and v0, v1, … (the i64 operands in parentheses). Where `mask` or `%ok` is
    false the result is `other` (default 0) and no memory is touched.
    """

    name = "loop.load"
    source = operand_def(TensorType)
    indices = var_operand_def(i64)
    ok = opt_operand_def(i1)
    index = prop_def(IndexAttr)
    mask = opt_prop_def(PredAttr)
    other = opt_prop_def(Attribute)
    res = result_def()
    traits = traits_def(NoMemoryEffect())
    irdl_options = (AttrSizedOperandSegments(as_property=True), ParsePropInAttrDict())

    @classmethod
    def make(
        cls,
        source: SSAValue,
        index: IndexAttr,
        indices: Sequence[SSAValue] = (),
        *,
        mask: PredAttr | None = None,
        ok: SSAValue | None = None,
        other: Attribute | None = None,
        location: Any = None,
    ) -> LoadOp:
        from xdsl.dialects.builtin import DenseArrayBase, i32

        props: dict[str, Attribute] = {
            "index": index,
            "operandSegmentSizes": DenseArrayBase.from_list(i32, [1, len(indices), int(ok is not None)]),
        }
        if mask is not None and len(mask):
            props["mask"] = mask
        if other is not None:
            props["other"] = other
        return cls.create(
            operands=[source, *indices] if ok is None else [source, *indices, ok],
            result_types=[cast(TensorType, source.type).element],
            properties=props,
            location=location,
        )

    def verify_(self) -> None:
        t = cast(TensorType, self.source.type)
        if len(self.index) != t.rank:
            raise VerifyException(f"index {self.index.text} has not one expression per dimension of {t.data.text}")
        if self.res.type != t.element:
            raise VerifyException(f"a load of {t.data.text} gives {t.element}, not {self.res.type}")
        if self.other is not None and getattr(self.other, "type", None) != t.element:
            raise VerifyException(f"other must be a {t.element}")
        check_schedule(self.attributes)

    @classmethod
    def parse(cls, parser: Parser) -> LoadOp:
        source = parser.parse_unresolved_operand()
        index, indices, mask, ok = _parse_access(parser)
        other = parser.parse_attribute() if parser.parse_optional_keyword("other") is not None else None
        attributes = parser.parse_optional_attr_dict_with_keyword()
        parser.parse_punctuation(":")
        start = parser.pos
        t = parser.parse_type()
        if not isinstance(t, TensorType):
            parser.raise_error("loop.load reads a tensor (!sym.t<…>)", start, parser.pos)
        op = cls.make(parser.resolve_operand(source, t), index, indices, mask=mask, ok=ok, other=other)
        if attributes:
            op.attributes.update(attributes.data)
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.source)
        _print_access(printer, self)
        if self.other is not None:
            printer.print_string(" other ")
            printer.print_attribute(self.other)
        if self.attributes:
            printer.print_op_attributes(self.attributes, print_keyword=True)
        printer.print_string(" : ")
        printer.print_attribute(self.source.type)


@irdl_op_definition
class StoreOp(IRDLOperation):
    """`loop.store %v, %y[d0, v0](%i) mask […] if %ok combine add : T`, in kernels; `combine` updates what is there."""

    name = "loop.store"
    value = operand_def()
    target = operand_def(TensorType)
    indices = var_operand_def(i64)
    ok = opt_operand_def(i1)
    index = prop_def(IndexAttr)
    mask = opt_prop_def(PredAttr)
    combine = opt_prop_def(StringAttr)
    atomic = opt_prop_def(UnitAttr)
    traits = traits_def()
    irdl_options = (AttrSizedOperandSegments(as_property=True), ParsePropInAttrDict())

    @classmethod
    def make(
        cls,
        value: SSAValue,
        target: SSAValue,
        index: IndexAttr,
        indices: Sequence[SSAValue] = (),
        *,
        mask: PredAttr | None = None,
        ok: SSAValue | None = None,
        combine: str | None = None,
        atomic: bool = False,
        location: Any = None,
    ) -> StoreOp:
        from xdsl.dialects.builtin import DenseArrayBase, i32

        props: dict[str, Attribute] = {
            "index": index,
            "operandSegmentSizes": DenseArrayBase.from_list(i32, [1, 1, len(indices), int(ok is not None)]),
        }
        if mask is not None and len(mask):
            props["mask"] = mask
        if combine is not None:
            props["combine"] = StringAttr(combine)
        if atomic:
            props["atomic"] = UnitAttr()
        operands = [value, target, *indices] if ok is None else [value, target, *indices, ok]
        return cls.create(operands=operands, properties=props, location=location)

    def verify_(self) -> None:
        t = cast(TensorType, self.target.type)
        if len(self.index) != t.rank:
            raise VerifyException(f"index {self.index.text} has not one expression per dimension of {t.data.text}")
        if self.value.type != t.element:
            raise VerifyException(f"a store into {t.data.text} takes {t.element}, not {self.value.type}")
        if self.combine is not None and self.combine.data not in STORE_KINDS:
            raise VerifyException(f"unknown combine kind {self.combine.data!r}; known: {', '.join(STORE_KINDS)}")
        check_schedule(self.attributes)

    @classmethod
    def parse(cls, parser: Parser) -> StoreOp:
        value = parser.parse_unresolved_operand()
        parser.parse_punctuation(",")
        target = parser.parse_unresolved_operand()
        index, indices, mask, ok = _parse_access(parser)
        combine = parser.parse_identifier() if parser.parse_optional_keyword("combine") is not None else None
        atomic = parser.parse_optional_keyword("atomic") is not None
        attributes = parser.parse_optional_attr_dict_with_keyword()
        parser.parse_punctuation(":")
        start = parser.pos
        t = parser.parse_type()
        if not isinstance(t, TensorType):
            parser.raise_error("loop.store writes a tensor (!sym.t<…>)", start, parser.pos)
        op = cls.make(
            parser.resolve_operand(value, t.element),
            parser.resolve_operand(target, t),
            index,
            indices,
            mask=mask,
            ok=ok,
            combine=combine,
            atomic=atomic,
        )
        if attributes:
            op.attributes.update(attributes.data)
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.value)
        printer.print_string(", ")
        printer.print_ssa_value(self.target)
        _print_access(printer, self)
        if self.combine is not None:
            printer.print_string(f" combine {self.combine.data}")
        if self.atomic is not None:
            printer.print_string(" atomic")
        if self.attributes:
            printer.print_op_attributes(self.attributes, print_keyword=True)
        printer.print_string(" : ")
        printer.print_attribute(self.target.type)


@irdl_op_definition
class IndexOp(IRDLOperation):
    """`loop.index [2*d0 + 1] : i64`: an index expression as a scalar."""

    name = "loop.index"
    value = prop_def(IndexAttr)
    res = result_def(i64)
    traits = traits_def(Pure())

    @classmethod
    def make(cls, value: Any, location: Any = None) -> IndexOp:
        return cls.create(result_types=[i64], properties={"value": IndexAttr.get([value])}, location=location)

    @classmethod
    def parse(cls, parser: Parser) -> IndexOp:
        value = IndexAttr.parse_brackets(parser)
        return cls.create(result_types=[i64], properties={"value": value})

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.value.text}")

    def verify_(self) -> None:
        if len(self.value) != 1:
            raise VerifyException("loop.index takes one expression in brackets")


@irdl_op_definition
class PredOp(IRDLOperation):
    """`loop.pred [lt(d1, 32), ge(d0, 1)]`: whether all relations hold at this point, as i1."""

    name = "loop.pred"
    value = prop_def(PredAttr)
    res = result_def(i1)
    traits = traits_def(Pure())

    @classmethod
    def make(cls, value: PredAttr, location: Any = None) -> PredOp:
        return cls.create(result_types=[i1], properties={"value": value}, location=location)

    @classmethod
    def parse(cls, parser: Parser) -> PredOp:
        return cls.make(PredAttr.parse_brackets(parser))

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.value.text}")


# scalar functions that arith and math lack; operands and result of one type, floats except for philox
FUNCTIONS: dict[str, int] = {
    "erfc": 1, "erfinv": 1, "lgamma": 1, "digamma": 1, "nextafter": 2, "fmod": 2, "i0": 1, "i0e": 1, "i1": 1, "i1e": 1,
    "ndtri": 1, "log_ndtr": 1, "erfcx": 1, "j0": 1, "j1": 1, "y0": 1, "y1": 1, "igamma": 2, "igammac": 2, "zeta": 2,
    "polygamma": 2, "philox": 2, "philox32": 2, "hermite_h": 2, "hermite_he": 2, "laguerre": 2, "legendre": 2,
}  # fmt: skip


@irdl_op_definition
class FnOp(IRDLOperation):
    """`loop.fn erfinv(%x) : f32`: a function from FUNCTIONS."""

    name = "loop.fn"
    args = var_operand_def()
    fn = prop_def(StringAttr)
    res = result_def()
    traits = traits_def(Pure())

    def verify_(self) -> None:
        if FUNCTIONS.get(self.fn.data) != len(self.args):
            raise VerifyException(f"no function {self.fn.data!r} of {len(self.args)} operands")

    @classmethod
    def parse(cls, parser: Parser) -> FnOp:
        fn = parser.parse_identifier()
        args = parser.parse_comma_separated_list(Parser.Delimiter.PAREN, parser.parse_unresolved_operand)
        parser.parse_punctuation(":")
        t = parser.parse_type()
        return cls.create(
            operands=[parser.resolve_operand(a, t) for a in args], result_types=[t], properties={"fn": StringAttr(fn)}
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.fn.data}")
        printer.print_string("(")
        printer.print_list(self.args, printer.print_ssa_value)
        printer.print_string(") : ")
        printer.print_attribute(self.res.type)


@irdl_op_definition
class AssertOp(IRDLOperation):
    """`loop.assert %ok, "message"`: the graph raises what it says (raised.py) if this is false at any point."""

    name = "loop.assert"
    ok = operand_def(i1)
    message = prop_def(StringAttr)
    traits = traits_def()
    assembly_format = "$ok `,` $message attr-dict"


@irdl_op_definition
class ScanOp(IRDLOperation):
    """`loop.scan add %v along d1 : f32`: the inclusive running value along a dim of the enclosing loop.for."""

    name = "loop.scan"
    value = operand_def()
    kind = prop_def(StringAttr)
    dim = prop_def(StringAttr)
    res = result_def()
    traits = traits_def()

    def verify_(self) -> None:
        check_kinds(kinds([self.kind.data]), SCAN_KINDS)
        if self.res.type != self.value.type:
            raise VerifyException(f"loop.scan of {self.value.type} gives {self.res.type}")

    @classmethod
    def parse(cls, parser: Parser) -> ScanOp:
        kind = parser.parse_identifier()
        v = parser.parse_unresolved_operand()
        parser.parse_keyword("along")
        dim = parser.parse_identifier()
        parser.parse_punctuation(":")
        t = parser.parse_type()
        return cls.create(
            operands=[parser.resolve_operand(v, t)],
            result_types=[t],
            properties={"kind": StringAttr(kind), "dim": StringAttr(dim)},
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.kind.data} ")
        printer.print_ssa_value(self.value)
        printer.print_string(f" along {self.dim.data} : ")
        printer.print_attribute(self.res.type)
