"""Symbolic expressions: their text gives them back."""

from __future__ import annotations

from typing import Any

import pytest
import sympy

from lamella.dialects import expr
from lamella.dialects.symbol_kinds import SIGNED, Kind, symbol_kind

S, U = expr.symbol("s0"), expr.symbol("u0")

EXPRESSIONS: list[Any] = [
    sympy.Max(U, 3) - sympy.Min(S, U),
    expr.floordiv(S + 63, 64) * expr.mod(S, 4),
    U + 5 * sympy.Piecewise((1, sympy.Eq(U, -2) & (U < 0)), (0, True)) + 2,
    sympy.Piecewise((S, U > 3), (U, U < 0)),
]


@pytest.mark.parametrize("e", EXPRESSIONS, ids=expr.text)
def test_text_gives_the_expression_back(e: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expr, "_parse_cache", {})
    assert expr.parse(expr.text(e)) == e


def test_values_that_are_floats() -> None:
    rate = expr.symbol("zf0")
    assert expr.evaluate(2 * rate, {"zf0": 0.25}) == 0.5
    assert type(expr.evaluate(2 * rate, {"zf0": 1.0})) is float


@pytest.mark.parametrize("start", [0, 7, S, expr.symbol("d0"), 8 * expr.symbol("b0"), S * 4 + 1, sympy.Min(S, U)])
@pytest.mark.parametrize("count", [0, 1, 4096])
def test_sums_that_are_made_as_they_are_are_sympys(start: Any, count: int) -> None:
    end = expr.after(start, count)
    assert end == start + count and (sympy.sympify(end).args == sympy.sympify(start + count).args)
    assert expr.text(end) == expr.text(start + count)
    assert expr.distance(start, end) == count and isinstance(expr.distance(start, end), int)
    assert expr.distance(0, end) == end
    assert expr.distance(start, sympy.Min(end, U)) == sympy.Min(end, U) - start


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *(("s77", Kind.SIZE), ("n0", Kind.NUMBER), ("u1", Kind.DATA), ("z0", Kind.FLOAT), ("zf3", Kind.FLOAT)),
        *(("zuf3", Kind.FLOAT), ("v0", Kind.INDEX), ("d0", Kind.DIM), ("z", Kind.DIM), ("step0", Kind.DIM)),
    ],
)
def test_names_say_what_symbols_stand_for(name: str, kind: Kind) -> None:
    symbol = expr.symbol(name)
    assert symbol_kind(name) is kind
    assert symbol.is_integer is (None if kind is Kind.FLOAT else True)
    assert symbol.is_nonnegative is (None if kind in SIGNED | {Kind.FLOAT} else True)
