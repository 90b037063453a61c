"""What loop ops say in symbols: dims with bounds, index vectors and index predicates, interned by their text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import sympy
from xdsl.ir import Data
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer

from . import expr
from .expr import Dim
from .tensor import raw_angle, split_commas

_TAKEN = re.compile(r"[suv]\d+")
"""Names of sizes and of index operands."""


def raw_brackets(parser: Parser | AttrParser) -> str:
    """Consume `[…]` as text, with balanced brackets inside; the text without the outer ones."""
    content = parser._parser_state.lexer.input.content  # pyright: ignore[reportPrivateUsage]
    start = parser._parser_state.current_token.span.start  # pyright: ignore[reportPrivateUsage]
    if content[start] != "[":
        parser.raise_error("expected '['")
    depth = 0
    for i in range(start, len(content)):
        c = content[i]
        if c in "[(":
            depth += 1
        elif c in "])":
            depth -= 1
            if depth == 0:
                parser._resume_from(i + 1)  # pyright: ignore[reportPrivateUsage]
                return content[start + 1 : i]
        elif c == "\n":
            break
    parser.raise_error("unterminated '['")


@dataclass(frozen=True)
class LoopDim:
    """`name` runs over lo <= name < hi."""

    name: str
    lo: Dim
    hi: Dim

    @property
    def symbol(self) -> sympy.Symbol:
        return expr.symbol(self.name)

    @property
    def extent(self) -> Dim:
        return expr.distance(self.lo, self.hi)

    def __str__(self) -> str:
        lo = "" if self.lo == 0 else f"{expr.text(self.lo)} : "
        return f"{self.name} = {lo}{expr.text(self.hi)}"


class _TextAttr(Data[Any]):
    """An attribute that is one bracketed list, keyed by its text."""

    _table: ClassVar[dict[str, Any]]

    @classmethod
    def _items(cls, source: str) -> Sequence[Any]:
        raise NotImplementedError

    @classmethod
    def intern(cls, text: str, items: Sequence[Any]) -> Self:
        a = cls._table.get(text)
        if a is None:
            a = cls._table[text] = cls(_Items(text, tuple(items)))
        return a

    @classmethod
    def parse_brackets(cls, parser: Parser | AttrParser) -> Self:
        """Parse `[…]` in an op's own syntax."""
        start = parser.pos
        source = raw_brackets(parser)
        try:
            return cls.from_text(source)
        except ValueError as e:
            parser.raise_error(str(e), start, start + len(source) + 2)

    @classmethod
    def from_text(cls, source: str) -> Self:
        a = cls._table.get(f"[{source}]")
        return cls.get(cls._items(source)) if a is None else a  # pyright: ignore

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Any:
        start = parser.pos
        source = raw_angle(parser)
        if not (source.startswith("[") and source.endswith("]")):
            parser.raise_error("expected a list in brackets", start, start + len(source) + 2)
        try:
            return cls.from_text(source[1:-1]).data
        except ValueError as e:
            parser.raise_error(str(e), start, start + len(source) + 2)

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{self.data.text}>")

    @property
    def text(self) -> str:
        """`[…]`, as it stands in an op's own syntax."""
        return self.data.text

    def __iter__(self) -> Any:
        return iter(self.data.items)

    def __len__(self) -> int:
        return len(self.data.items)

    def __getitem__(self, i: Any) -> Any:
        return self.data.items[i]


class _Items:
    """Interned payload: equality is identity."""

    __slots__ = ("items", "text")

    def __init__(self, text: str, items: tuple[Any, ...]) -> None:
        self.text, self.items = text, items

    def __repr__(self) -> str:
        return self.text


@irdl_attr_definition
class DimsAttr(_TextAttr):
    """`#loop.dims<[d0 = s0, d1 = 64*b : min(s1, 64*b + 64)]>`, outermost first."""

    name = "loop.dims"
    _table: ClassVar[dict[str, DimsAttr]] = {}

    @classmethod
    def get(  # pyright: ignore[reportIncompatibleMethodOverride]
        cls, dims: Iterable[LoopDim | tuple[str, Any] | tuple[str, Any, Any]]
    ) -> DimsAttr:
        """From LoopDims, (name, extent) or (name, lo, hi)."""
        items = [
            d if isinstance(d, LoopDim) else LoopDim(d[0], 0, expr.normal(d[1])) if len(d) == 2 else
            LoopDim(d[0], expr.normal(d[1]), expr.normal(d[2])) for d in dims
        ]  # fmt: skip
        return cls.intern(f"[{', '.join(map(str, items))}]", items)

    @classmethod
    def _items(cls, source: str) -> Sequence[LoopDim]:
        dims: list[LoopDim] = []
        for part in split_commas(source):
            name, eq, bounds = part.partition("=")
            name = name.strip()
            if not eq or not name.isidentifier():
                raise ValueError(f"expected 'name = extent' or 'name = lo : hi', got {part!r}")
            if _TAKEN.fullmatch(name):
                raise ValueError(f"a dim cannot be called {name}: that is a size or an index operand")
            lo, colon, hi = bounds.partition(":")
            low, high = (lo, hi) if colon else ("0", lo)
            dims.append(LoopDim(name, expr.parse_integer(low.strip()), expr.parse_integer(high.strip())))
        return dims

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(d.name for d in self.data.items)

    @property
    def extents(self) -> tuple[Dim, ...]:
        return tuple(d.extent for d in self.data.items)


@irdl_attr_definition
class IndexAttr(_TextAttr):
    """`#loop.index<[d0, 2*d1 + 1, v0]>`: one expression per dimension of the tensor."""

    name = "loop.index"
    _table: ClassVar[dict[str, IndexAttr]] = {}

    @classmethod
    def get(cls, index: Iterable[Any]) -> IndexAttr:  # pyright: ignore[reportIncompatibleMethodOverride]
        items = [expr.normal(e) for e in index]
        return cls.intern(f"[{', '.join(map(expr.text, items))}]", items)

    @classmethod
    def _items(cls, source: str) -> Sequence[Dim]:
        return [expr.parse_integer(e) for e in split_commas(source)]


@irdl_attr_definition
class PredAttr(_TextAttr):
    """`#loop.pred<[lt(d1, 32), ge(d0, 1)]>`: a conjunction of relations between index expressions; empty is true."""

    name = "loop.pred"
    _table: ClassVar[dict[str, PredAttr]] = {}

    @classmethod
    def get(cls, relations: Iterable[Any]) -> PredAttr:  # pyright: ignore[reportIncompatibleMethodOverride]
        items = [r for r in relations if r != sympy.true]
        return cls.intern(f"[{', '.join(map(expr.text, items))}]", items)

    @classmethod
    def _items(cls, source: str) -> Sequence[Any]:
        relations = [expr.parse(e) for e in split_commas(source)]
        for r in relations:
            if not isinstance(r, (sympy.Rel, sympy.logic.boolalg.BooleanAtom, sympy.logic.boolalg.BooleanFunction)):
                raise ValueError(f"expected a relation such as lt(d0, 4), got {expr.text(r)}")
        return relations
