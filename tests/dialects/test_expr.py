"""Symbolic expressions: their text gives them back."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

import pytest
import sympy
from torch.utils._sympy.functions import FloorDiv, Mod

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


A, B, N = expr.symbol("s1"), expr.symbol("s2"), expr.symbol("n0")


@pytest.mark.parametrize(
    ("a", "b", "exact"),
    [
        *((A**2 * B, A, A * B), (A**2 * B, A * B, A), (3 * A * B + 2 * A, A, 3 * B + 2), (A * N, A, N)),
        *((A**2, A**2, 1), (A * B**2, B**3, None), (A * B + 1, A, None), (N**2 * A, N, None), (U**2, U, None)),
    ],
)
def test_quotients_by_factors(a: Any, b: Any, exact: Any) -> None:
    """A size is a divisor that is not 0; other integers may be."""
    found = expr.floordiv(a, b)
    assert found == (FloorDiv(a, b) if exact is None else exact)
    assert expr.dim(FloorDiv(a, b, evaluate=False)) == found


_SYMBOLS = [expr.symbol(name) for name in ("d0", "d1", "s0", "u0", "n1", "r0")]


def _sum(random: Random) -> Any:
    numbers = [1, 1, 2, 3, 4, 6, 8, 12, -1, -4, 16]
    terms = [random.choice(numbers) * s for s in random.sample(_SYMBOLS, random.randrange(1, 4))]
    return sympy.Add(*terms, random.choice([0, 0, 1, 2, 3, 8, -1, -4, 7]))


def _result(make: Callable[[], Any]) -> Any:
    try:
        return make()
    except Exception as error:
        return type(error)


@pytest.mark.parametrize("seed", range(8))
def test_quotients_and_remainders_of_sums_are_torchs(seed: int) -> None:
    random = Random(seed)
    a: Any = _sum(random)
    inner: Any = random.choice([FloorDiv, Mod])(_sum(random), random.choice([2, 3, 4, 8]))
    numbers = [1, 2, 3, 4, 6, 8, 12, 16]
    for base in (a, a + 4 * inner, inner, sympy.Integer(7), expr.symbol("z0"), 4 * expr.symbol("z0")):
        for b in (*map(sympy.Integer, numbers), _SYMBOLS[2]):
            for ours, theirs in ((expr.floordiv, FloorDiv), (expr.mod, Mod)):
                found, wanted = _result(partial(ours, base, b)), _result(partial(theirs, base, b))
                assert found == wanted
                if isinstance(wanted, sympy.Basic) and not isinstance(found, int):
                    assert found.args == wanted.args and expr.text(found) == expr.text(wanted)
    mapping = {_SYMBOLS[0]: random.choice([0, 5, _SYMBOLS[5], 4 * _SYMBOLS[5] + 3, _sum(random), inner])}
    mapping[_SYMBOLS[1]] = random.choice([0, _SYMBOLS[3], _SYMBOLS[5] * 8, _sum(random)])
    programs: list[Any] = [
        a + 7 * inner,
        sympy.Min(a, inner),
        expr.mod(a, 4) * expr.floordiv(3 * a + 1, 8),
        sympy.Lt(inner, a),
    ]
    for e in programs:
        wanted = _result(partial(e.xreplace, {s: sympy.sympify(v) for s, v in mapping.items()}))
        found = _result(partial(expr.substitute, e, mapping))
        assert found == wanted
        assert isinstance(wanted, type) or expr.text(found) == expr.text(wanted)
