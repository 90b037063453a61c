"""Pieces of Triton's assembly syntax that several ops share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import IntegerAttr, IntegerType
from xdsl.ir import Attribute, SSAValue
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer

from .tt_enums import Words

Clauses = dict[str, IntegerAttr[IntegerType]]


def parse_operands(parser: Parser) -> list[UnresolvedOperand]:
    """`%a, %b, …`, at least one."""
    return parser.parse_comma_separated_list(Parser.Delimiter.NONE, parser.parse_unresolved_operand)


def parse_clauses(parser: Parser, known: Mapping[str, Words]) -> Clauses:
    """`cacheModifier = cg evictionPolicy = evict_last`, each or none, in any order."""
    found: Clauses = {}
    while (keyword := next((k for k in known if parser.parse_optional_keyword(k) is not None), None)) is not None:
        parser.parse_punctuation("=")
        found[keyword] = known[keyword].parse(parser)
    return found


def print_clauses(printer: Printer, clauses: Mapping[str, tuple[Words, IntegerAttr[IntegerType] | None, int]]) -> None:
    """What `parse_clauses` reads: by keyword the words, the value, and the value that is left out."""
    for keyword, (words, attribute, default) in clauses.items():
        if attribute is not None and attribute.value.data != default:
            printer.print_string(f" {keyword} = {words.of(attribute)}")


def parse_indices(parser: Parser) -> list[UnresolvedOperand]:
    """`[%i, %j]`."""
    return parser.parse_comma_separated_list(Parser.Delimiter.SQUARE, parser.parse_unresolved_operand)


def print_indices(printer: Printer, indices: Sequence[SSAValue]) -> None:
    """What `parse_indices` reads."""
    with printer.in_square_brackets():
        printer.print_list(indices, printer.print_ssa_value)


def parse_type_after(parser: Parser, punctuation: str) -> Attribute:
    """The type that stands behind `punctuation`."""
    parser.parse_characters(punctuation)
    return parser.parse_type()
