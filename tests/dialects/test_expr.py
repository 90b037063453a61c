"""Symbolic expressions: their text gives them back."""

from __future__ import annotations

from typing import Any

import pytest
import sympy

from lamella.dialects import expr

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
