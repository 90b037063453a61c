"""Literals: the arguments of an ATen call that are not tensors, as Python values with holes where operands stand.

A literal is None, a bool, int, float, complex or string, a symbolic expression (`2*s0`, `eq(s0, 1)`), `HOLE`, or a
tuple of literals. Its text is exact: `true`, `1`, `1.0`, `-0.0`, `inf`, `nan`, `complex(1.0, -0.0)`, `"cpu"`, `[?,
16*s1, none]`. Literals are interned by that text, so that 1, 1.0 and True stay apart, and -0.0 and 0.0, and a nan
equals itself.
"""

from __future__ import annotations

import math
import re
from typing import Any, ClassVar, Final, NoReturn, TypeAlias

import sympy
from xdsl.ir import Data
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.parser.core import Parser, UnresolvedOperand
from xdsl.printer import Printer

from . import expr

Value: TypeAlias = Any
"""None | bool | int | float | complex | str | sympy expression or relation | HOLE | tuple of values."""


class Hole:
    """The type of `HOLE`."""

    def __repr__(self) -> str:
        return "?"

    def __reduce__(self) -> str:
        return "HOLE"


HOLE: Final = Hole()
"""Stands in a literal where an operand of the op belongs."""

MAX_DEPTH = 50
"""Lists within lists in one literal."""

_WORDS: dict[str, Value] = {
    "none": None,
    "true": True,
    "false": False,
    "inf": math.inf,
    "-inf": -math.inf,
    "nan": math.nan,
}
_INTEGER = re.compile(r"-?\d+")
_FLOAT = re.compile(r"-?\d+(\.\d*)?([eE][+-]?\d+)?")
_COMPLEX = re.compile(r"complex\(([^,()]+),([^,()]+)\)")
_SIMPLE = re.compile(r"[-+\w.*]+(?=[ \t]*[,\])>])", re.ASCII)
_DELIMITER = re.compile(r"[()\[\],>\n]")


def text(value: Value) -> str:
    """The exact text of a literal value. Raises TypeError for what no literal can hold."""
    kind = type(value)
    if kind is int:
        return str(value)
    if kind is tuple:
        return "[" + ", ".join(map(text, value)) + "]"
    if value is HOLE:
        return "?"
    if value is None:
        return "none"
    if kind is bool:
        return "true" if value else "false"
    if kind is float:
        return repr(value)
    if kind is str:
        return '"' + "".join(map(_escape, value)) + '"'
    if kind is complex:
        return f"complex({value.real!r}, {value.imag!r})"
    if isinstance(value, sympy.Basic):
        return expr.text(value)
    raise TypeError(f"a literal cannot hold a {kind.__name__}")


def _escape(c: str) -> str:
    if c in '\\"':
        return "\\" + c
    return c if c.isprintable() else "".join(f"\\{byte:02X}" for byte in c.encode())


class Payload:
    """A literal value with its text; interned, so equality is identity."""

    __slots__ = ("holes", "text", "value")

    def __init__(self, value: Value, text: str) -> None:
        self.value = value
        self.text = text
        self.holes = holes(value)

    def __repr__(self) -> str:
        return self.text


def holes(value: Value) -> int:
    """How many operands a literal value takes."""
    if value is HOLE:
        return 1
    return sum(map(holes, value)) if type(value) is tuple else 0


@irdl_attr_definition
class Literal(Data[Payload]):
    """`#aten.lit<[?, 16, none]>`: one argument of an ATen call."""

    name = "aten.lit"
    _table: ClassVar[dict[str, Literal]] = {}

    @classmethod
    def get(cls, attr: Value) -> Literal:
        """The one literal of that value. Raises TypeError for what no literal can hold."""
        key = text(attr)
        literal = cls._table.get(key)
        if literal is None:
            literal = cls._table[key] = Literal(Payload(attr, key))
        return literal

    @property
    def value(self) -> Value:
        return self.data.value

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Payload:
        with parser.in_angle_brackets():
            return cls.get(parse_value(parser)).data

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{self.data.text}>")


def parse_value(parser: AttrParser, operands: list[UnresolvedOperand] | None = None, words: bool = False) -> Value:
    """Parse a literal value. `%x` is a hole whose operand is appended to `operands` (where that is given); with `words`
    a bare word (`bf16`, `channels_last`) is a string.
    """
    return _parse_value(parser, operands, words, 0)


def _parse_value(parser: AttrParser, operands: list[UnresolvedOperand] | None, words: bool, depth: int) -> Value:
    if parser.parse_optional_punctuation("[") is not None:
        if depth >= MAX_DEPTH:
            parser.raise_error("literal nested too deeply")
        items: list[Value] = []
        if parser.parse_optional_punctuation("]") is None:
            items.append(_parse_value(parser, operands, words, depth + 1))
            while parser.parse_optional_punctuation("]") is None:
                parser.parse_punctuation(",")
                items.append(_parse_value(parser, operands, words, depth + 1))
        return tuple(items)
    if operands is not None and isinstance(parser, Parser):
        operand = parser.parse_optional_unresolved_operand()
        if operand is not None:
            operands.append(operand)
            return HOLE
    if parser.parse_optional_punctuation("?") is not None:
        return HOLE
    string = parser.parse_optional_str_literal()
    return _parse_scalar(parser, words) if string is None else string


def _parse_scalar(parser: AttrParser, words: bool) -> Value:
    """A number, word or symbolic expression, read from the source text: sympy's text is not made of MLIR's tokens."""
    content = parser._parser_state.lexer.input.content  # pyright: ignore[reportPrivateUsage]
    start = parser._parser_state.current_token.span.start  # pyright: ignore[reportPrivateUsage]
    match = _SIMPLE.match(content, start)
    end = match.end() if match else _expression_end(content, start)
    source = content[start:end].rstrip()
    if not source:
        parser.raise_error("expected a literal, a symbolic expression or an SSA value")

    def fail(message: str) -> NoReturn:
        parser.raise_error(message, start, start + len(source))

    try:
        value = parse_scalar(source, words)
    except ValueError as error:
        fail(str(error))
    parser._resume_from(end)  # pyright: ignore[reportPrivateUsage]
    return value


def _expression_end(content: str, start: int) -> int:
    """Offset of the `,`, `]`, `)`, `>` or line end that closes the expression at `start`."""
    depth = 0
    for match in _DELIMITER.finditer(content, start):
        if match[0] == "(":
            depth += 1
        elif match[0] in ">\n" or depth == 0:
            return match.start()
        elif match[0] == ")":
            depth -= 1
    return len(content)


def parse_scalar(source: str, words: bool = False) -> Value:
    """The number, word or symbolic expression with that text. Raises ValueError."""
    if source in _WORDS:
        return _WORDS[source]
    if len(source) > 5000:
        raise ValueError("literal too long")
    if _INTEGER.fullmatch(source):
        return int(source) if len(source) <= 1000 else _refuse("number too long")
    if _FLOAT.fullmatch(source):
        value = float(source)
        return value if math.isfinite(value) else _refuse("float literal out of range; write inf")
    if words and source.isidentifier():
        return source
    if match := _COMPLEX.fullmatch(source):
        return complex(float(match[1]), float(match[2]))
    return expr.normal(expr.parse(source))


def _refuse(message: str) -> NoReturn:
    raise ValueError(message)
