"""Text and checks that the loop ops share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

from xdsl.dialects.builtin import ArrayAttr, StringAttr, i64
from xdsl.ir import Attribute, Operation, Region, SSAValue
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from . import expr
from .loop_attrs import DimsAttr, IndexAttr, PredAttr

# kind -> results for one yielded value
COMBINE_RESULTS: dict[str, int] = {
    "add": 1, "mul": 1, "max": 1, "min": 1, "and": 1, "or": 1, "argmax": 1, "argmin": 1, "welford": 2,
}  # fmt: skip
SCAN_KINDS = ("add", "mul", "max", "min", "logaddexp")
STORE_KINDS = ("add", "mul", "max", "min")


def kinds(names: Sequence[str]) -> ArrayAttr[StringAttr]:
    """The attribute for a list of combine kinds."""
    return ArrayAttr(StringAttr(n) for n in names)


def parse_kinds(p: Parser) -> ArrayAttr[StringAttr]:
    return kinds(p.parse_comma_separated_list(Parser.Delimiter.SQUARE, p.parse_identifier))


def kinds_text(a: ArrayAttr[StringAttr]) -> str:
    return f"[{', '.join(k.data for k in a.data)}]"


def parse_types(p: Parser) -> list[Attribute]:
    types: list[Attribute] = []
    if p.parse_optional_punctuation(":") is not None:
        types.append(p.parse_type())
        while p.parse_optional_punctuation(",") is not None:
            types.append(p.parse_type())
    return types


def print_types(p: Printer, values: Sequence[SSAValue]) -> None:
    if values:
        p.print_string(" : ")
        p.print_list(values, lambda v: p.print_attribute(v.type))


def print_region(p: Printer, r: Region) -> None:
    p.print_string(" ")
    p.print_region(r, print_entry_block_args=False, print_empty_block=False)


def parse_operands(p: Parser) -> list[SSAValue]:
    """`(%i, %j)`, i64 values bound to v0, v1, …; or nothing."""
    unresolved = p.parse_optional_comma_separated_list(Parser.Delimiter.PAREN, p.parse_unresolved_operand)
    return [p.resolve_operand(u, i64) for u in unresolved or ()]


def print_operands(p: Printer, values: Sequence[SSAValue]) -> None:
    if values:
        p.print_string("(")
        p.print_list(values, p.print_ssa_value)
        p.print_string(")")


def check_kinds(given: ArrayAttr[StringAttr], known: Any) -> None:
    for k in given.data:
        if k.data not in known:
            raise VerifyException(f"unknown combine kind {k.data!r}; known: {', '.join(known)}")


def body_ops(region: Region) -> Iterator[Operation]:
    """Every op below a region, in order."""
    for block in region.blocks:
        for op in block.ops:
            yield op
            for inner in op.regions:
                yield from body_ops(inner)


def op_symbols(op: Operation) -> set[str]:
    """Names of the symbols an op's own attributes use (v0, v1, … excluded)."""
    names: set[str] = set()
    for a in op.properties.values():
        if isinstance(a, (IndexAttr, PredAttr)):
            for e in a:
                names.update(s.name for s in expr.symbols(e))
        elif isinstance(a, DimsAttr):
            for d in a:
                names.update(s.name for s in expr.symbols(d.lo) | expr.symbols(d.hi))
    return {n for n in names if not (n[0] == "v" and n[1:].isdigit())}


def check_scope(region: Region, dims: frozenset[str], sizes: frozenset[str] | None) -> None:
    """Every symbol in the body is a dim in scope or a size; `sizes` None admits every s<n>, u<n>."""
    for block in region.blocks:
        for op in block.ops:
            inner = dims
            if op.name == "loop.for":
                names = frozenset(cast(Any, op).dims.names)
                inner = dims | names
                clash = dims & names
                if clash:
                    raise VerifyException(f"loop.for redefines dim {sorted(clash)[0]} of an enclosing loop")
            for n in op_symbols(op):
                known = n in inner or (n in sizes if sizes is not None else n[0] in "suz" and n[1:].isdigit())
                if not known:
                    raise VerifyException(f"{op.name}: symbol {n} is neither a dim in scope nor a size")
            for r in op.regions:
                check_scope(r, inner, sizes)


def terminator(region: Region, what: type[Operation], owner: str) -> Any:
    last = region.block.last_op
    if not isinstance(last, what):
        raise VerifyException(f"the body of {owner} must end with {what.name}")
    return last
