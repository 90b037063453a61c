"""What the ops of `prims` share: their attributes, their text, and the checks of their verifiers.

Text: `prims.name %operands {attribute = value, …} : types`. One type stands for all operands and
results that have it; otherwise `T1, T2 -> T3`, where a single type on the left stands for all operands.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple, NoReturn, Self, TypeAlias, cast

import sympy
from xdsl.dialects.builtin import StringAttr, UnitAttr
from xdsl.ir import Attribute, Data, SSAValue
from xdsl.irdl import IRDLOperation, irdl_attr_definition, traits_def
from xdsl.parser import AttrParser, Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from . import expr
from .expr import Dim
from .tensor import TensorType, raw_angle, split_commas

Number: TypeAlias = "bool | int | float | sympy.Expr"


@irdl_attr_definition
class Exprs(Data[tuple[Dim, ...]]):
    """A list of integers or symbolic expressions: `[0, s0 - 1]`."""

    name = "prims.exprs"
    _table: ClassVar[dict[tuple[Dim, ...], Exprs]] = {}

    @staticmethod
    def get(values: Sequence[Any]) -> Exprs:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The one attribute with these values; constants become ints."""
        key = tuple(v if type(v) is int else expr.normal(v) for v in values)
        attribute = Exprs._table.get(key)
        if attribute is None:
            attribute = Exprs._table[key] = Exprs(key)
        return attribute

    @staticmethod
    def read(source: str) -> Exprs:
        """The attribute with that text. Raises ValueError."""
        if not (source.startswith("[") and source.endswith("]")):
            raise ValueError(f"expected a list in brackets, got {source!r}")
        return Exprs.get([expr.parse(e) for e in split_commas(source[1:-1])])

    @property
    def text(self) -> str:
        return f"[{', '.join(map(expr.text, self.data))}]"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[Dim, ...]:
        return _parse_angle(parser, cls.read).data

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{self.text}>")


class ScalarPayload(NamedTuple):
    """Compared by text: as numbers, `1 == 1.0 == True`, `0.0 == -0.0` and `nan != nan`."""

    text: str
    value: Number

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ScalarPayload) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)


def _scalar_text(value: Number) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        text = repr(value)
        return text.replace("e", ".0e") if "e" in text and "." not in text else text
    return expr.text(value)


_INTEGER = re.compile(r"-?\d+")
_FLOAT = re.compile(r"-?\d+\.\d*(?:e[+-]?\d+)?")
_WORDS: dict[str, Number] = {"true": True, "false": False, "inf": math.inf, "-inf": -math.inf, "nan": math.nan}


@irdl_attr_definition
class Scalar(Data[ScalarPayload]):
    """A number of a known kind: `true`, `3`, `1.0e-05`, `-inf`, or a symbolic expression `2*s0`."""

    name = "prims.scalar"
    _table: ClassVar[dict[str, Scalar]] = {}

    @staticmethod
    def get(value: Number) -> Scalar:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The one attribute with that value; sympy integers become ints."""
        if isinstance(value, sympy.Integer):
            value = int(value)
        text = _scalar_text(value)
        attribute = Scalar._table.get(text)
        if attribute is None:
            attribute = Scalar._table[text] = Scalar(ScalarPayload(text, value))
        return attribute

    @staticmethod
    def read(source: str) -> Scalar:
        """The attribute with that text. Raises ValueError."""
        known = Scalar._table.get(source)
        if known is not None:
            return known
        if source in _WORDS:
            return Scalar.get(_WORDS[source])
        if _INTEGER.fullmatch(source):
            return Scalar.get(int(source))
        return Scalar.get(float(source) if _FLOAT.fullmatch(source) else expr.parse(source))

    @property
    def value(self) -> Number:
        return self.data.value

    @property
    def text(self) -> str:
        return self.data.text

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> ScalarPayload:
        return _parse_angle(parser, cls.read).data

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{self.text}>")


def _parse_angle(parser: AttrParser, read: Callable[[str], Any]) -> Any:
    start = parser.pos
    source = raw_angle(parser)
    try:
        return read(source.strip())
    except ValueError as e:
        parser.raise_error(str(e), start, start + len(source) + 2)


def _read_word(source: str) -> StringAttr:
    if not source.isidentifier():
        raise ValueError(f"expected a word, got {source!r}")
    return StringAttr(source)


def _read_string(source: str) -> StringAttr:
    value = json.loads(source)
    if not isinstance(value, str):
        raise ValueError(f"expected a string in quotes, got {source}")
    return StringAttr(value)


class Field(NamedTuple):
    """How an attribute is written inside `{…}`."""

    read: Callable[[str], Attribute]
    write: Callable[[Any], str]


EXPRS = Field(Exprs.read, lambda a: a.text)
SCALAR = Field(Scalar.read, lambda a: a.text)
WORD = Field(_read_word, lambda a: a.data)
STRING = Field(_read_string, lambda a: json.dumps(a.data))

FLAG = UnitAttr()


def word(value: str) -> StringAttr:
    """The interned attribute of a keyword such as a reduction's kind."""
    attribute = _words.get(value)
    if attribute is None:
        attribute = _words[value] = StringAttr(value)
    return attribute


_words: dict[str, StringAttr] = {}


def _split_attributes(source: str) -> list[str]:
    """The entries of `a = [1, 2], b = "x, y"`: split at commas outside of brackets and quotes."""
    parts: list[str] = []
    depth, start, quoted, i = 0, 0, False, 0
    while i < len(source):
        c = source[i]
        if quoted:
            i += c == "\\"
            quoted = c != '"'
        elif c == '"':
            quoted = True
        elif c in "([{":
            depth += 1
        elif c in ")]}":
            depth -= 1
        elif c == "," and depth == 0:
            parts.append(source[start:i])
            start = i + 1
        i += 1
    parts.append(source[start:])
    return [p.strip() for p in parts if p.strip()]


def _raw_braces(parser: Parser) -> str:
    """Consume `{…}`, at which the parser stands, and return what is inside."""
    content = parser._parser_state.lexer.input.content  # pyright: ignore[reportPrivateUsage]
    start = parser.pos
    depth, quoted, i = 0, False, start
    while i < len(content):
        c = content[i]
        if quoted:
            i += c == "\\"
            quoted = c != '"'
        elif c == '"':
            quoted = True
        elif c == "{":
            depth += 1
        elif c == "}":
            depth -= 1
            if depth == 0:
                parser._resume_from(i + 1)  # pyright: ignore[reportPrivateUsage]
                return content[start + 1 : i]
        i += 1
    parser.raise_error("unterminated '{'")


class PrimsOp(IRDLOperation):
    """A pure function of tensors. Subclasses say in `FIELDS` how each of their attributes is written."""

    FIELDS: ClassVar[dict[str, Field]] = {}
    OPTIONAL: ClassVar[tuple[str, ...]] = ()
    """Attributes that may be absent; one that has no entry there is a flag."""

    traits = traits_def(Pure())

    def exprs(self, name: str) -> tuple[Dim, ...]:
        """The value of a list attribute."""
        attribute = self.properties[name]
        assert isinstance(attribute, Exprs)
        return attribute.data

    def ints(self, name: str) -> tuple[int, ...]:
        """The value of a list attribute that holds no symbols (the verifier says so)."""
        return cast("tuple[int, ...]", self.exprs(name))

    def integer(self, name: str) -> int:
        """The value of an attribute that is one integer, such as a dim."""
        attribute = self.properties[name]
        assert isinstance(attribute, Scalar)
        return cast(int, attribute.value)

    def word(self, name: str) -> str:
        """The value of a keyword or string attribute."""
        attribute = self.properties[name]
        assert isinstance(attribute, StringAttr)
        return attribute.data

    # Text

    def print_operands(self, printer: Printer) -> None:
        if self._operands:
            printer.print_string(" ")
            printer.print_list(self._operands, printer.print_ssa_value)

    @classmethod
    def parse_operands(cls, parser: Parser) -> list[UnresolvedOperand]:
        parse = parser.parse_unresolved_operand
        return (
            parser.parse_optional_undelimited_comma_separated_list(parser.parse_optional_unresolved_operand, parse)
            or []
        )

    def print(self, printer: Printer) -> None:
        self.print_operands(printer)
        properties = self.properties
        parts = [f"{name} = {f.write(properties[name])}" for name, f in self.FIELDS.items() if name in properties]
        parts += [name for name in self.OPTIONAL if name in properties and name not in self.FIELDS]
        if parts:
            printer.print_string(f" {{{', '.join(parts)}}}")
        printer.print_op_attributes(self.attributes, print_keyword=True)
        printer.print_string(" : ")
        operands = [v.type for v in self._operands]
        results = [r.type for r in self.results]
        if operands and all(t == operands[0] for t in operands):
            operands = operands[:1]
        if operands and operands != results:
            printer.print_list(operands, printer.print_attribute)
            printer.print_string(" -> ")
        printer.print_list(results, printer.print_attribute)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        start = parser.pos
        unresolved = cls.parse_operands(parser)
        properties = cls._parse_properties(parser)
        extra = parser.parse_optional_attr_dict_with_keyword()
        parser.parse_punctuation(":")
        types = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
        results = types
        if parser.parse_optional_punctuation("->") is not None:
            results = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
        if len(types) == 1:
            types = types * len(unresolved)
        elif unresolved and len(types) != len(unresolved):
            parser.raise_error(f"expected 1 or {len(unresolved)} operand types, got {len(types)}", start, parser.pos)
        operands = [parser.resolve_operand(o, t) for o, t in zip(unresolved, types, strict=False)]
        return cls.create(
            operands=operands, result_types=results, properties=properties, attributes=extra.data if extra else {}
        )

    @classmethod
    def _parse_properties(cls, parser: Parser) -> dict[str, Attribute]:
        properties: dict[str, Attribute] = {}
        start = parser.pos
        content = parser._parser_state.lexer.input.content  # pyright: ignore[reportPrivateUsage]
        source = _raw_braces(parser) if content[start] == "{" else ""
        for entry in _split_attributes(source):
            name, equals, value = (part.strip() for part in entry.partition("="))
            f = cls.FIELDS.get(name)
            try:
                if f is not None and equals:
                    properties[name] = f.read(value)
                elif f is None and not equals and name in cls.OPTIONAL:
                    properties[name] = FLAG
                else:
                    known = ", ".join(
                        [*(f"{k} = …" for k in cls.FIELDS), *(k for k in cls.OPTIONAL if k not in cls.FIELDS)]
                    )
                    raise ValueError(f"unexpected {entry!r}; {cls.name} has {known or 'no attributes'}")
            except ValueError as e:
                parser.raise_error(f"malformed attributes of {cls.name}: {e}", start, start + len(source) + 2)
        for name in cls.FIELDS:
            if name not in properties and name not in cls.OPTIONAL:
                parser.raise_error(f"{cls.name} needs the attribute '{name}'", start, start + 1)
        return properties

    # Verification

    def reject(self, message: str) -> NoReturn:
        raise VerifyException(message)

    def tensor(self, value: SSAValue) -> TensorType:
        """The type of an operand or result. Raises VerifyException where it is not a tensor."""
        if not isinstance(value.type, TensorType):
            self.reject(f"expected a tensor, got {value.type}")
        return value.type

    def expect_shape(self, what: str, t: TensorType, shape: Sequence[Dim]) -> None:
        if t.shape != tuple(shape):
            self.reject(f"expected {what} of shape {shape_text(shape)}, got {shape_text(t.shape)}")

    def expect_dtype(self, what: str, t: TensorType, dtype: str) -> None:
        if t.dtype != dtype:
            self.reject(f"expected {what} of dtype {dtype}, got {t.dtype}")

    def expect_dims(self, name: str, rank: int) -> tuple[int, ...]:
        """The attribute `name` as distinct dims of a tensor of that rank."""
        dims = self.exprs(name)
        for d in dims:
            if not isinstance(d, int) or not 0 <= d < rank:
                self.reject(f"expected '{name}' within 0..{rank - 1}, got {shape_text(dims)}")
        if len(set(dims)) != len(dims):
            self.reject(f"expected distinct '{name}', got {shape_text(dims)}")
        return cast("tuple[int, ...]", dims)

    def expect_length(self, name: str, length: int) -> tuple[Dim, ...]:
        values = self.exprs(name)
        if len(values) != length:
            self.reject(f"expected {length} entries in '{name}', got {len(values)}")
        return values


def shape_text(shape: Sequence[Dim]) -> str:
    return f"[{', '.join(map(expr.text, shape))}]"
