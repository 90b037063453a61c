"""Symbolic integers: sympy expressions with one exact text, shared by every level.

Names say what symbols stand for (`symbol_kinds`): `s0` is a size, `u0` an integer of data, others are dims of loops.
The text has no `<`, `>`, `%` or `//`, so that it can stand inside an attribute;
`parse(text(e)) == e`.
Parsing, printing and substitution are memoised: expressions repeat thousands of times in a module.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from typing import Any, TypeAlias

import sympy
from sympy.printing.str import StrPrinter

from .quotients import divided, quotient, remainder, replaced
from .symbol_kinds import Kind, symbol_kind

Expr: TypeAlias = sympy.Expr
Dim: TypeAlias = "int | sympy.Expr"


class ExprSyntaxError(ValueError):
    """A malformed symbolic expression; the message names the offending token."""


@cache
def symbol(name: str) -> sympy.Symbol:
    """The one symbol of that name, with what is true of its kind."""
    match symbol_kind(name):
        case Kind.SIZE:
            return sympy.Symbol(name, integer=True, positive=True)
        case Kind.NUMBER | Kind.DATA:
            return sympy.Symbol(name, integer=True)
        case Kind.FLOAT:
            return sympy.Symbol(name, real=True)
        case _:
            return sympy.Symbol(name, integer=True, nonnegative=True)


class _Printer(StrPrinter):
    """sympy's printer, with torch's integer functions in call form."""

    printmethod = "_lamella_text"  # torch's functions bring a `_sympystr` that prints `//`

    def _call(self, name: str, args: Any) -> str:
        return f"{name}({', '.join(self._print(a) for a in args)})"

    def _print_FloorDiv(self, e: Any) -> str:
        return self._call("floordiv", e.args)

    def _print_Mod(self, e: Any) -> str:
        return self._call("mod", e.args)

    _print_PythonMod = _print_Mod

    def _print_Max(self, e: Any) -> str:
        return self._call("max", sorted(e.args, key=sympy.default_sort_key))

    def _print_Min(self, e: Any) -> str:
        return self._call("min", sorted(e.args, key=sympy.default_sort_key))

    def _print_Abs(self, expr: Any) -> str:
        return self._call("abs", expr.args)

    def _print_ModularIndexing(self, e: Any) -> str:
        return self._call("modular_indexing", e.args)

    def _print_Relational(self, expr: Any) -> str:
        return self._call(_RELATION_NAMES[type(expr)], (expr.lhs, expr.rhs))

    def _print_And(self, expr: Any) -> str:
        return self._call("and", sorted(expr.args, key=sympy.default_sort_key))

    def _print_Or(self, expr: Any) -> str:
        return self._call("or", sorted(expr.args, key=sympy.default_sort_key))

    def _print_Not(self, expr: Any) -> str:
        return self._call("not", expr.args)

    def _print_Float(self, expr: Any) -> str:
        # sympy prints 15 digits, which do not give the number back
        digits = repr(float(expr))
        return digits if "." in digits else digits.replace("e", ".0e")

    def _print_Piecewise(self, expr: Any) -> str:
        # value, condition, …; the condition of the last value is left out where it always holds
        parts = [part for pair in expr.args for part in pair]
        return self._call("piecewise", parts[:-1] if parts[-1] is sympy.true else parts)

    def _print_Function(self, expr: Any) -> str:
        return self._call(type(expr).__name__, expr.args)


_RELATION_NAMES: dict[Any, str] = {
    sympy.Eq: "eq",
    sympy.Ne: "ne",
    sympy.Lt: "lt",
    sympy.Le: "le",
    sympy.Gt: "gt",
    sympy.Ge: "ge",
}
_printer = _Printer({"order": None})
_text_cache: dict[Any, str] = {}


def text(e: Dim | sympy.Basic) -> str:
    """The exact text of an expression, e.g. `2*s0 + floordiv(d1, 16)`."""
    if isinstance(e, int):
        return str(e)
    t = _text_cache.get(e)
    if t is None:
        t = _text_cache[e] = _printer.doprint(e)
    return t


@lru_cache(maxsize=1)
def _functions() -> dict[str, Callable[..., Any]]:
    import torch.utils._sympy.functions as f

    names: dict[str, Callable[..., Any]] = {
        n: getattr(f, n)
        for n in dir(f)
        if isinstance(getattr(f, n), type) and issubclass(getattr(f, n), sympy.Function) and not n.startswith("_")
    }
    own: dict[str, Callable[..., Any]] = {
        "floordiv": floordiv,
        "mod": mod,
        "modular_indexing": f.ModularIndexing,
        "abs": sympy.Abs,
        "max": sympy.Max,
        "min": sympy.Min,
        "and": sympy.And,
        "or": sympy.Or,
        "not": sympy.Not,
        "piecewise": _piecewise,
    }
    return names | own | {name: relation for relation, name in _RELATION_NAMES.items()}


def _piecewise(*parts: Any) -> Any:
    """The first value whose condition holds, of value, condition, …; a value without one is the last."""
    return sympy.Piecewise(*zip(parts[::2], [*parts[1::2], *[sympy.true] * (len(parts) % 2)], strict=True))


_TOKEN = re.compile(r"\s*(?:(\d+\.\d*(?:[eE][+-]?\d+)?)|(\d+)|([A-Za-z_]\w*)|(\*\*|[-+*/(),]))")
_MAX_DEPTH = 100


class _Parser:
    """Recursive descent over `+ - * / **`, calls and parentheses."""

    def __init__(self, source: str) -> None:
        self.source, self.tokens, self.next, self.depth = source, [], 0, 0
        self.tokens: list[Any]
        position, stripped = 0, source.rstrip()
        while position < len(stripped):
            m = _TOKEN.match(stripped, position)
            if m is None:
                raise ExprSyntaxError(f"bad symbolic expression {source!r} at offset {position}")
            real, number, name, punctuation = m.groups()
            if number is not None and len(number) > 40:
                raise ExprSyntaxError(f"number too long in {source[:60]!r}")
            number = sympy.Float(float(real)) if real else sympy.Integer(number) if number else None
            self.tokens.append(name or punctuation if number is None else number)
            position = m.end()

    def peek(self) -> Any:
        return self.tokens[self.next] if self.next < len(self.tokens) else None

    def take(self) -> Any:
        token = self.peek()
        self.next += 1
        return token

    def parse(self) -> Any:
        e = self.sum()
        if self.peek() is not None:
            raise ExprSyntaxError(f"unexpected {self.peek()!s} in symbolic expression {self.source!r}")
        return e

    def sum(self) -> Any:
        # All terms and all factors at once: sympy would multiply out a number times a sum in between.
        terms = [self.product()]
        while self.peek() in ("+", "-"):
            sign = self.take()
            term = self.product()
            terms.append(term if sign == "+" else sympy.Mul(-1, term))
        return terms[0] if len(terms) == 1 else sympy.Add(*terms)

    def product(self) -> Any:
        factors = self.factor()
        while self.peek() in ("*", "/"):
            divides = self.take() == "/"
            *signs, last = self.factor()
            factors += [*signs, 1 / sympy.sympify(last) if divides else last]
        return factors[0] if len(factors) == 1 else sympy.Mul(*factors)

    def factor(self) -> list[Any]:
        """A power, after a factor -1 for each minus before it."""
        signs: list[Any] = []
        while self.peek() == "-":
            self.take()
            signs.append(-1)
        base = self.atom()
        if self.peek() != "**":
            return [*signs, base]
        self.take()
        return [*signs, sympy.sympify(base) ** sympy.Mul(*self.factor())]

    def atom(self) -> Any:
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise ExprSyntaxError(f"symbolic expression nested too deeply: {self.source[:60]!r}")
        token = self.take()
        if isinstance(token, sympy.Number):
            e: Any = token
        elif token == "(":
            e = self.sum()
            self.expect(")")
        elif isinstance(token, str) and (token[0].isalpha() or token[0] == "_"):
            e = self.call(token) if self.peek() == "(" else symbol(token)
        else:
            raise ExprSyntaxError(
                f"unexpected {'end' if token is None else token!s} in symbolic expression {self.source!r}"
            )
        self.depth -= 1
        return e

    def call(self, name: str) -> Any:
        self.take()
        args = [self.sum()]
        while self.peek() == ",":
            self.take()
            args.append(self.sum())
        self.expect(")")
        function = _functions().get(name)
        if function is None:
            raise ExprSyntaxError(f"unknown function {name!r} in symbolic expression {self.source!r}")
        try:
            return function(*args)
        except (TypeError, ValueError, ZeroDivisionError, AssertionError) as e:
            raise ExprSyntaxError(f"{name} in symbolic expression {self.source!r}: {e}") from e

    def expect(self, token: str) -> None:
        if self.take() != token:
            raise ExprSyntaxError(f"expected {token!r} in symbolic expression {self.source!r}")


_parse_cache: dict[str, Any] = {}


def parse(source: str) -> Any:
    """The expression (or relation) with that text. Raises ExprSyntaxError."""
    e = _parse_cache.get(source)
    if e is None:
        e = _parse_cache[source] = _Parser(source).parse()
    return e


def parse_integer(source: str) -> Dim:
    """As `parse`, of an integer whose numbers fit 64 bits. Raises ExprSyntaxError."""
    e = normal(parse(source))
    if not isinstance(e, int) and e.is_integer is not True and not all(n.is_integer for n in e.atoms(sympy.Number)):
        raise ExprSyntaxError(f"{source} is no integer")
    if any(not -(1 << 63) <= n < 1 << 63 for n in ([e] if isinstance(e, int) else e.atoms(sympy.Number))):
        raise ExprSyntaxError(f"{source} has a number beyond 64 bits")
    return e


@cache
def _from_torch(e: sympy.Basic, numbers: frozenset[sympy.Symbol] = frozenset()) -> Any:
    symbols = [s for s in e.free_symbols if isinstance(s, sympy.Symbol)]
    e = divided(e.xreplace({s: symbol(number_name(s.name) if s in numbers else s.name) for s in symbols}))
    return e.replace(lambda a: isinstance(a, sympy.Abs) and a.is_integer, lambda a: sympy.Max(a.args[0], -a.args[0]))


def dim(value: Any) -> Dim:
    """A size or index from an int, torch.SymInt, or sympy expression (torch's own symbols become ours)."""
    if isinstance(value, int):
        return int(value)
    if isinstance(value, sympy.Basic):
        e = _from_torch(value)
    elif hasattr(value, "node"):
        e, shape_env = value.node.expr, value.node.shape_env
        numbers = [s for s in e.free_symbols if s.is_positive is None and symbol_kind(s.name) is Kind.SIZE]
        e = _from_torch(e, frozenset(s for s in numbers if shape_env.bound_sympy(s).lower < 1))
    else:
        raise TypeError(f"not a symbolic integer: {type(value).__name__}")
    return int(e) if isinstance(e, sympy.Integer) else e


def number_name(name: str) -> str:
    """How torch's symbol `s<n>` is named where torch has not assumed that it is positive, as it has of sizes."""
    return f"n{name[1:]}"


def normal(e: Any) -> Dim:
    """The expression, as an int where it is constant."""
    return int(e) if isinstance(e, (int, sympy.Integer)) else e


def after(start: Dim, count: int) -> Dim:
    """`start + count`. Where there is nothing to add up it is made as it is: sympy's own sum loads its polyhedra and
    tensors when it first adds, which takes longer than all passes over a small kernel.
    """
    if count and isinstance(start, (sympy.Symbol, sympy.Mul)):
        return sympy.Add(count, start, evaluate=False)
    return normal(start + count)


def distance(start: Dim, end: Dim) -> Dim:
    """`end - start`, seen without a sum where `end` is after it or the same."""
    if start == 0:
        return end
    if start == end:
        return 0
    if isinstance(end, sympy.Add) and len(end.args) == 2 and end.args[1] == start:
        return normal(end.args[0])
    return normal(end - start)  # pyright: ignore[reportOperatorIssue]


def floordiv(a: Dim, b: Dim) -> Dim:
    """floor(a / b), Python's `//`."""
    return a // b if isinstance(a, int) and isinstance(b, int) else normal(quotient(a, b))


def mod(a: Dim, b: Dim) -> Dim:
    """a - b * floor(a / b); operands non-negative."""
    return a % b if isinstance(a, int) and isinstance(b, int) else normal(remainder(a, b))


def ceildiv(a: Dim, b: Dim) -> Dim:
    """ceil(a / b) of non-negative numbers."""
    return floordiv(a + b - 1, b)


def product(dims: Any) -> Dim:
    """The product of sizes; 1 if there are none."""
    n: Any = 1
    for d in dims:
        n = n * d
    return normal(n)


def substitute(e: Any, mapping: Mapping[sympy.Symbol, Any]) -> Any:
    """`e` with symbols replaced at once; FloorDiv and Mod are simplified again."""
    if isinstance(e, int) or not mapping:
        return e
    if isinstance(e, sympy.Symbol):
        return mapping.get(e, e)
    free = e.free_symbols
    pairs = tuple((s, v) for s, v in mapping.items() if s in free)
    return normal(replaced(e, pairs)) if pairs else e


def symbols(e: Any) -> frozenset[sympy.Symbol]:
    """The symbols an expression depends on."""
    return frozenset() if isinstance(e, int) else frozenset(e.free_symbols)


def evaluate(e: Any, values: Mapping[str, int | float]) -> Any:
    """The number (or truth value) an expression has for given symbol values, by name."""
    if isinstance(e, (int, bool)):
        return e
    known = {s: values[s.name] for s in e.free_symbols if s.name in values}
    r = e.xreplace({s: sympy.Float(v) if isinstance(v, float) else sympy.Integer(v) for s, v in known.items()})
    if isinstance(r, sympy.logic.boolalg.BooleanAtom):
        return bool(r)
    if not r.is_number:
        raise KeyError(f"no value for {sorted(s.name for s in r.free_symbols)} in {text(e)}")
    return int(r) if r.is_integer and not isinstance(r, sympy.Float) else float(r)
