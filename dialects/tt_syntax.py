"""Pieces of Triton's assembly syntax that several ops share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from xdsl.dialects.builtin import IntegerAttr, IntegerType
from xdsl.ir import Attribute, SSAValue
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer

from .tt_enums import CACHE, EVICT, CachePolicyAttr, Words
from .tt_types import PtrType, TensorDescType, element_of

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


def parse_hints(parser: Parser) -> tuple[dict[str, Attribute], dict[str, Attribute]]:
    """The hints of a load or store as `cache` and `evict`, and the other attributes of the dictionary after them."""
    clauses = parse_clauses(parser, {"cacheModifier": CACHE, "evictionPolicy": EVICT})
    attributes = parser.parse_optional_attr_dict()
    policy = attributes.pop("cachePolicy", None)
    if isinstance(policy, CachePolicyAttr):
        return {"cache": policy.cache, "evict": policy.evict}, attributes
    cache = clauses.get("cacheModifier", CACHE["none"])
    return {"cache": cache, "evict": clauses.get("evictionPolicy", EVICT["evict_normal"])}, attributes


def print_hints(printer: Printer, properties: Mapping[str, Attribute]) -> None:
    """`cache` and `evict`, where they say anything."""
    for keyword, name, words in (("cacheModifier", "cache", CACHE), ("evictionPolicy", "evict", EVICT)):
        attribute = cast("IntegerAttr[IntegerType] | None", properties.get(name))
        if attribute is not None and attribute.value.data != 1:
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


def parse_pointers(parser: Parser) -> Attribute:
    """The type of a pointer, or of a tensor of pointers."""
    start = parser.pos
    type = parser.parse_type()
    if not isinstance(element_of(type), PtrType):
        parser.raise_error(f"expected a pointer or a tensor of pointers, got {type}", start, parser.pos)
    return type


def parse_short(parser: Parser, kind: type[PtrType] | type[TensorDescType]) -> Attribute:
    """A type in full, or only `<…>` where Triton knows which it is."""
    if (found := parser.parse_optional_type()) is not None:
        return found
    return kind.new(kind.parse_parameters(parser))
