"""A parser on top of xDSL's: one regular expression per token, locations complete, errors with a place and a hint.

Everything that leans on xDSL's private members to read text is here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from functools import lru_cache, partial
from math import prod
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import (
    AnyFloat,
    ArrayAttr,
    ComplexType,
    DenseArrayBase,
    FileLineColLoc,
    FusedLoc,
    IndexType,
    IntAttr,
    IntegerType,
    LocationAttr,
    ModuleOp,
    NoneAttr,
    StringAttr,
)
from xdsl.ir import Attribute, Operation, Region, SSAValue, TypeAttribute
from xdsl.parser import Parser
from xdsl.parser.attribute_parser import AttrParser
from xdsl.parser.core import UnresolvedOperand
from xdsl.parser.generic_parser import ParserState
from xdsl.utils.exceptions import ParseError
from xdsl.utils.lexer import Input, Span, Token
from xdsl.utils.mlir_lexer import (
    KIND_BY_PUNCTUATION_SPELLING,
    MLIRLexer,
    MLIRToken,
    PunctuationSpelling,
    StringLiteral,
)
from xdsl.utils.mlir_lexer import MLIRTokenKind as Kind

from .tensor import SHARED_TYPES
from .verify import MAX_NESTING

MAX_LITERAL = 1000
"""Characters of one number. Python refuses to convert far longer ones, and takes quadratic time up to there."""

MAX_INTEGER_BITS = (1 << 24) - 1
"""Widest integer type, as in MLIR."""

MAX_DENSE_ELEMENTS = 1 << 24
"""Elements of a `dense<…>` literal; a splat takes memory for each."""

# The possessive `*+` matters: without it, blanks before a token that is left to the slow path are split in 2^n ways.
_TOKEN = re.compile(
    r"""(?:\s+|//[^\n]*)*+(?:
 (?P<percent>%(?:[0-9]+|[A-Za-z$._-][\w$.-]*))
|(?P<bare>[A-Za-z_][\w$.]*)
|(?P<arrow>->)
|(?P<metadata>\{-\#|\#-\})
|(?P<punctuation>[,:()<>{}\[\]=+/*?|-])
|(?P<type>!(?:[0-9]+|[A-Za-z$._-][\w$.-]*))
|(?P<hash>\#(?:[0-9]+|[A-Za-z$._-][\w$.-]*))
|(?P<caret>\^(?:[0-9]+|[A-Za-z$._-][\w$.-]*))
|(?P<at>@[A-Za-z_][\w$.]*)
|(?P<number>[0-9](?![xX][0-9a-fA-F])[0-9]*(?:\.[0-9]*(?:[eE][+-]?[0-9]+)?)?)
|(?P<string>"[^"\\\n\v\f]*")
)""",
    re.VERBOSE | re.ASCII,
)
_KIND = {
    "percent": Kind.PERCENT_IDENT,
    "bare": Kind.BARE_IDENT,
    "arrow": Kind.ARROW,
    "type": Kind.EXCLAMATION_IDENT,
    "hash": Kind.HASH_IDENT,
    "caret": Kind.CARET_IDENT,
    "at": Kind.AT_IDENT,
}
_INTEGER_TYPE = re.compile(r"[su]?i([0-9]{8,})")
_FILE_LOCATION = re.compile(r'"([^"\\\n\v\f]*)":([0-9]{1,9}):([0-9]{1,9})(?![0-9])')
_ALIAS_DEFINITION = re.compile(r"^[ \t]*(#[A-Za-z$._-][\w$.-]*)[ \t]*=", re.MULTILINE | re.ASCII)


class FastLexer(MLIRLexer):
    """One match per token; strings with escapes, hexadecimal numbers and errors are left to xDSL's lexer."""

    # xDSL's own expression takes time exponential in the length of a string that is not closed.
    _unescaped_characters_regex = re.compile(r'"(?:[^"\\\n\v\f]++|\\(?:["nt\\]|[0-9A-Fa-f]{2}))*+"')

    def lex(self) -> MLIRToken:
        match = _TOKEN.match(self.input.content, self.pos)
        if match is None:
            return self._lex_slowly()
        group = match.lastgroup or ""
        start, end = match.span(group)
        self.pos = end
        if group == "string":
            return Token(Kind.STRING_LIT, StringLiteral(start, end, self.input))
        text = match[group]
        if group in ("punctuation", "metadata"):
            kind = KIND_BY_PUNCTUATION_SPELLING[text]
        elif group == "number":
            kind = Kind.FLOAT_LIT if "." in text else Kind.INTEGER_LIT
        else:
            kind = _KIND[group]
        span = Span(start, end, self.input)
        if end - start >= 8:
            _guard(group, text, span)
        return Token(kind, span)

    def _lex_slowly(self) -> MLIRToken:
        token = super().lex()
        if token.kind is Kind.INTEGER_LIT:
            _guard("number", token.text, token.span)
        elif token.kind is Kind.BYTES_LIT and _is_utf8(StringLiteral.from_span(token.span)):
            # xDSL prints text beyond ASCII as escaped bytes; read it back as the text it was.
            return Token(Kind.STRING_LIT, token.span)
        return token


def _is_utf8(literal: StringLiteral | None) -> bool:
    if literal is None:
        return False
    try:
        literal.bytes_contents.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _guard(group: str, text: str, span: Span) -> None:
    """Refuse what Python would choke on: numbers of a thousand digits, integer types of millions of bits."""
    if group == "bare":
        wide = _INTEGER_TYPE.fullmatch(text)
        if wide is not None and (len(wide[1]) > 9 or int(wide[1]) > MAX_INTEGER_BITS):
            raise ParseError(span, f"integer types have at most {MAX_INTEGER_BITS} bits")
    elif len(text) > MAX_LITERAL and (group == "number" or text[1:].isdecimal()):
        raise ParseError(span, f"number of {len(text)} characters; at most {MAX_LITERAL} are allowed")
    if group == "number" and "." in text and float(text) == float("inf"):
        raise ParseError(span, "float literal out of range; write infinity as its bits, such as 0x7F800000 : f32")


class _SharedScope(dict[str, tuple[SSAValue, ...]]):
    """The values by name, shared by all regions: xDSL copies them for each, in time quadratic over a module.

    No name shadows another, so `FastParser` can remove at the end of a region what the region defined.
    """

    def copy(self) -> dict[str, tuple[SSAValue, ...]]:
        return self


class FastParser(Parser):
    """Parses a module, and remembers in `positions` the offset in the text at which each op starts."""

    class _TensorLiteralElement(AttrParser._TensorLiteralElement):  # pyright: ignore[reportPrivateUsage]
        def to_type(self, parser: AttrParser, type: AnyFloat | IntegerType | IndexType | ComplexType):
            # xDSL reads the bit pattern of a float, which it prints for inf and nan, as an integer.
            if isinstance(type, AnyFloat) and "x" in self.span.text:
                return _float_from_bits(parser, self.span, type)
            return super().to_type(parser, type)

    def __init__(self, context: Context, text: str, name: str) -> None:
        super().__init__(context, "", name)
        self._parser_state = ParserState(FastLexer(Input(text, name)))
        self.positions: dict[Operation, int] = {}
        self.ssa_values = _SharedScope()
        self._defined: list[str] = []
        self._first_use: dict[str, Span] = {}
        self._depth = 0
        self._alias_offsets: dict[str, int] | None = None
        self._resolving: set[str] = set()

    def parse_module(self, allow_implicit_module: bool = True) -> ModuleOp:
        """The module in the text, or the ops of the text put into one. Raises `ParseError`."""
        ops: list[Operation] = []
        while self._current_token.kind is not Kind.EOF:
            match self._current_token.kind:
                case Kind.HASH_IDENT | Kind.EXCLAMATION_IDENT:
                    self._parse_alias_def()
                case Kind.FILE_METADATA_BEGIN:
                    self._parse_file_metadata_dictionary()
                case _:
                    op = self.parse_optional_operation()
                    if op is None:
                        self.raise_error("expected an operation")
                    ops.append(op)
        if not ops:
            self.raise_error("no operation here: expected a module")
        for name in self.forward_ssa_references:
            self.raise_error(f"value %{name} is used but never defined", self._first_use[name])
        if len(ops) == 1 and isinstance(ops[0], ModuleOp):
            return ops[0]
        return ModuleOp(ops)

    def parse_operation(self) -> Operation:
        start = self._current_token.span.start
        op = super().parse_operation()
        self.positions[op] = start
        return op

    def parse_optional_region(self, arguments: Iterable[Parser.Argument] | None = None) -> Region | None:
        if self._current_token.kind is not Kind.L_BRACE:
            return None
        if self._depth >= MAX_NESTING:
            self.raise_error(f"regions are nested deeper than {MAX_NESTING}")
        self._depth += 1
        outside = len(self._defined)
        region = super().parse_optional_region(arguments)
        for name in self._defined[outside:]:
            del self.ssa_values[name]
        del self._defined[outside:]
        self._depth -= 1
        return region

    def _register_ssa_definition(self, name: str, values: Sequence[SSAValue], span: Span) -> None:
        super()._register_ssa_definition(name, values, span)
        self._defined.append(name)

    # The two ways in which every syntax asks for a token, without the checks and properties xDSL has on the way.

    def parse_optional_punctuation(self, punctuation: PunctuationSpelling) -> PunctuationSpelling | None:
        state = self._parser_state
        if state.current_token.kind is not KIND_BY_PUNCTUATION_SPELLING[punctuation]:
            return None
        state.current_token = state.lexer.lex()
        return punctuation

    def _parse_optional_token(self, expected_kind: Kind) -> MLIRToken | None:
        state = self._parser_state
        token = state.current_token
        if token.kind is not expected_kind:
            return None
        state.current_token = state.lexer.lex()
        return token

    def parse_argument(self, *, expect_type: bool = True) -> Any:
        # Only xDSL's functions read the location of their arguments; here it is read for every syntax with typed ones.
        argument = super().parse_argument(expect_type=expect_type)
        if isinstance(argument, Parser.Argument):
            argument.location = self.parse_optional_location()
        return argument

    def resolve_operand(self, operand: UnresolvedOperand, type: Attribute) -> SSAValue:
        if operand.operand_name not in self.ssa_values:
            self._first_use.setdefault(operand.operand_name, operand.span)
        return super().resolve_operand(operand, type)

    def _get_op_by_name(self, name: str) -> type[Operation]:
        op = self.ctx.get_optional_op(name, dialect_stack=self._parser_state.dialect_stack)
        if op is None:
            hint = self._hint(name, [op.name for op in self.ctx.loaded_ops])
            self.raise_error(f"unknown operation '{name}'{hint}", self._name_span(name))
        return op

    def _parse_dialect_type_or_attribute_body(
        self, attr_name: str, is_type: bool, is_opaque: bool, starting_opaque_pos: int | None
    ):
        lookup = self.ctx.get_optional_type if is_type else self.ctx.get_optional_attr
        if "." in attr_name and lookup(attr_name) is None:
            kind, loaded = ("type", self.ctx.loaded_types) if is_type else ("attribute", self.ctx.loaded_attrs)
            hint = self._hint(attr_name, [known.name for known in loaded])
            self.raise_error(f"unknown {kind} '{attr_name}'{hint}", self._name_span(attr_name))
        return super()._parse_dialect_type_or_attribute_body(attr_name, is_type, is_opaque, starting_opaque_pos)

    def _name_span(self, name: str) -> Span:
        """Where `name`, just consumed, stands: before the current token."""
        content = self.lexer.input.content
        start = content.rfind(name, 0, self._current_token.span.start)
        return Span(start, start + len(name), self.lexer.input) if start >= 0 else self._current_token.span

    def _hint(self, name: str, known: list[str]) -> str:
        namespace, dot, _ = name.partition(".")
        dialects = sorted(self.ctx.registered_dialect_names)
        if dot and namespace not in dialects:
            near = get_close_matches(namespace, dialects, 1)
            return f"; dialect '{near[0]}' exists" if near else f"; the dialects are {', '.join(dialects)}"
        near = get_close_matches(name, known, 3)
        if namespace == "aten" and dot:
            from .aten import similar  # needs torch

            near = similar(name)
        return f"; did you mean {' or '.join(near)}?" if near else ""

    def _parse_optional_integer_or_float_type(self) -> TypeAttribute | None:
        if (
            self._current_token.kind is Kind.BARE_IDENT
            and (shared := SHARED_TYPES.get(self._current_token.text)) is not None
        ):
            self._consume_token()
            return shared
        return super()._parse_optional_integer_or_float_type()

    def _parse_dense_literal_type(self):
        type = super()._parse_dense_literal_type()
        if prod(size for size in type.get_shape() if size >= 0) > MAX_DENSE_ELEMENTS:
            self.raise_error(f"dense literals have at most {MAX_DENSE_ELEMENTS} elements")
        return type

    def _parse_builtin_densearray_attr(self) -> DenseArrayBase | None:
        start = self.pos
        self.parse_punctuation("<")
        type = self.parse_optional_type()
        if not isinstance(type, AnyFloat) or self.parse_optional_punctuation(":") is None:
            self._resume_from(start)
            return super()._parse_builtin_densearray_attr()
        values = self.parse_comma_separated_list(self.Delimiter.NONE, partial(self._parse_float_element, type))
        self.parse_punctuation(">")
        return DenseArrayBase.from_list(type, values)

    def _parse_float_element(self, type: AnyFloat) -> float:
        # xDSL prints inf and nan, and what needs more digits than it likes, as bits, but does not read them here.
        if self._current_token.kind is Kind.INTEGER_LIT and "x" in self._current_token.text:
            return _float_from_bits(self, self._consume_token().span, type)
        return float(self.parse_number())

    # Locations: what xDSL lacks is the metadata of fused locations, and aliases that are defined after their use, which
    # is where MLIR prints them.

    def _parse_location(self) -> LocationAttr:
        match self._current_token.kind, self._current_token.text:
            case Kind.STRING_LIT, _ if (match := _FILE_LOCATION.match(self.lexer.input.content, self.pos)) is not None:
                self._resume_from(match.end())
                return _file_location(match[1], int(match[2]), int(match[3]))
            case Kind.HASH_IDENT, alias:
                self._define_alias(alias)
            case Kind.BARE_IDENT, "fused":
                return self._parse_fused_location()
            case _:
                pass
        return super()._parse_location()

    def _parse_fused_location(self) -> FusedLoc:
        self.parse_keyword("fused")
        metadata: Attribute = NoneAttr()
        if self.parse_optional_punctuation("<") is not None:
            metadata = self.parse_attribute()
            self.parse_punctuation(">")
        parts = self.parse_comma_separated_list(self.Delimiter.SQUARE, self._parse_location)
        return FusedLoc(ArrayAttr[Attribute](parts), metadata)

    def _define_alias(self, name: str) -> None:
        """Define the location alias `name`, which the current token uses, if its definition comes later in the text."""
        if name in self.attribute_aliases:
            return
        if self._alias_offsets is None:
            content = self.lexer.input.content
            self._alias_offsets = {match[1]: match.start(1) for match in _ALIAS_DEFINITION.finditer(content)}
        offset = self._alias_offsets.get(name)
        if offset is None:
            self.raise_error(f"location alias {name} is never defined")
        if name in self._resolving:
            self.raise_error(f"location alias {name} is defined by itself")
        self._resolving.add(name)
        back = self._current_token.span.start
        self._resume_from(offset)
        self._consume_token()
        self.parse_punctuation("=")
        self.attribute_aliases[name] = self.parse_attribute()
        self._resume_from(back)

    def _parse_alias_def(self) -> None:
        name = self._current_token.text
        if name not in self._resolving:
            super()._parse_alias_def()
            return
        self._resolving.remove(name)
        self._consume_token()
        self.parse_punctuation("=")
        self.parse_attribute()


@lru_cache(maxsize=1 << 14)
def _file_location(file: str, line: int, column: int) -> FileLineColLoc:
    return FileLineColLoc(StringAttr(file), IntAttr(line), IntAttr(column))


def _float_from_bits(parser: AttrParser, span: Span, type: AnyFloat) -> float:
    """The float whose bits, most significant first, are the hexadecimal literal at `span`."""
    digits = span.text[2:]
    if span.text[:2] not in ("0x", "0X") or len(digits) != 2 * type.size:
        parser.raise_error(f"the bits of {type} are 0x and {2 * type.size} hexadecimal digits", span)
    return type.unpack(bytes.fromhex(digits)[::-1], 1)[0]
