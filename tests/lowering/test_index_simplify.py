"""index_simplify keeps values: random expressions, ranges and predicates against evaluation at every point."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from lamella.dialects import expr
from lamella.dialects.loop import LoopDim
from lamella.lowering.index_simplify import Facts, facts

SIZES = {"s0": (1, 2, 3, 5), "s1": (1, 4)}
DIMS = facts([LoopDim("d0", 0, expr.parse("s0")), LoopDim("d1", 0, 6), LoopDim("d2", 0, expr.parse("s0*s1"))])


def points(known: Facts) -> list[dict[str, int]]:
    """Every point of the domain, for every choice of sizes."""
    found: list[dict[str, int]] = []
    for sizes in product(*SIZES.values()):
        values = dict(zip(SIZES, sizes, strict=True))
        ranges = [range(value(d.hi, values)) for d in known.dims.values()]
        found += [values | dict(zip((d.name for d in known.dims.values()), p, strict=True)) for p in product(*ranges)]
    return found


def value(e: Any, values: dict[str, int]) -> Any:
    """Evaluation by Python's own operators, independent of sympy's."""
    if isinstance(e, (int, sympy.Integer)):
        return int(e)
    if isinstance(e, sympy.Symbol):
        return values[e.name]
    args = [value(a, values) for a in e.args]
    match type(e).__name__:
        case "Add":
            return sum(args)
        case "Mul":
            result = 1
            for a in args:
                result *= a
            return result
        case "Pow":
            return args[0] ** args[1]
        case "FloorDiv":
            return args[0] // args[1]
        case "Mod":
            return args[0] % args[1]
        case "Max":
            return max(args)
        case "Min":
            return min(args)
        case "GreaterThan":
            return args[0] >= args[1]
        case "StrictGreaterThan":
            return args[0] > args[1]
        case "LessThan":
            return args[0] <= args[1]
        case "StrictLessThan":
            return args[0] < args[1]
        case "Equality":
            return args[0] == args[1]
        case "Unequality":
            return args[0] != args[1]
        case "BooleanTrue":
            return True
        case "BooleanFalse":
            return False
        case name:
            raise AssertionError(name)


LEAVES = st.sampled_from(["d0", "d1", "d2", "s0", "s1", "1", "2", "3", "6", "12", "s0*s1"])
DIVISORS = st.sampled_from(["2", "3", "4", "6", "s0", "s1", "s0*s1", "2*s1", "s0 + 1"])


def _grow(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.builds("({} + {})".format, inner, inner),
        st.builds("({} - {})".format, inner, st.sampled_from(["1", "2", "d1", "s0"])),
        st.builds("({} * {})".format, inner, st.sampled_from(["2", "3", "s0", "s1"])),
        st.builds("floordiv({}, {})".format, inner, DIVISORS),
        st.builds("mod({} + 100*s0*s1, {})".format, inner, DIVISORS),
        st.builds("min({}, {})".format, inner, inner),
        st.builds("max({}, {})".format, inner, inner),
    )


EXPRESSIONS = st.recursive(LEAVES, _grow, max_leaves=6)
RELATIONS = st.builds(
    "{}({}, {})".format, st.sampled_from(["lt", "le", "gt", "ge", "eq", "ne"]), EXPRESSIONS, EXPRESSIONS
)
POINTS = points(DIMS)


@settings(max_examples=150, deadline=None)
@given(EXPRESSIONS)
def test_simplify_keeps_the_value(text: str) -> None:
    e = expr.parse(text)
    simple = DIMS.simplify(e)
    for p in POINTS[::7]:
        assert value(simple, p) == value(e, p), (text, expr.text(simple), p)


@settings(max_examples=100, deadline=None)
@given(EXPRESSIONS)
def test_bounds_hold(text: str) -> None:
    e = expr.parse(text)
    low, high = DIMS.bounds(e)
    for p in POINTS[::7]:
        assert low is None or value(low, p) <= value(e, p)
        assert high is None or value(e, p) <= value(high, p)


@settings(max_examples=150, deadline=None)
@given(RELATIONS)
def test_relations_keep_their_truth(text: str) -> None:
    r = expr.parse(text)
    normal = DIMS.relation(r)
    for p in POINTS[::7]:
        assert value(normal, p) == value(r, p), (text, normal, p)


BOUNDS = st.builds(
    "{}({}, {})".format,
    st.sampled_from(["lt", "ge"]),
    st.sampled_from(["d0", "d1", "d0 + d1"]),
    st.sampled_from(["1", "2", "3", "5", "s0", "s0 + 1", "s1 + 2"]),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.one_of(BOUNDS, RELATIONS), max_size=5))
def test_conjunctions_keep_their_truth(texts: list[str]) -> None:
    relations = [expr.parse(t) for t in texts]
    left = DIMS.conjunction(relations)
    for p in POINTS[::7]:
        holds = left is not None and all(value(r, p) for r in left)
        assert holds == all(value(r, p) for r in relations), (texts, left, p)


@pytest.mark.parametrize(
    ("sources", "left"),
    [
        (["lt(d1, 7)", "lt(d1, 5)", "ge(d1, 1)", "ge(d1, 3)"], ["lt(d1, 5)", "ge(d1, 3)"]),
        (["lt(d0, s0 - 1)", "lt(d0, s0 - 2)"], ["lt(d0, s0 - 2)"]),
        (["lt(d0, 5)", "lt(d0, s1)", "lt(d0, 4)"], ["lt(d0, 4)", "lt(d0, s1)"]),
        (["ge(d1, 7)", "lt(d1, 7)"], None),
        (["lt(d2, 3)", "ge(d1, 7)", "ge(d2, 5)"], None),
        (["ge(d2, s1)", "lt(d2, s1 + 1)"], ["ge(d2, s1)", "lt(d2, s1 + 1)"]),
    ],
)
def test_of_bounds_on_one_side_the_closest_is_left(sources: list[str], left: list[str] | None) -> None:
    model = facts([LoopDim("d0", 0, expr.parse("s0")), LoopDim("d1", 0, 12), LoopDim("d2", 0, 64)])
    got = model.conjunction(map(expr.parse, sources))
    assert got == (None if left is None else tuple(map(expr.parse, left)))


MODEL = facts(
    [
        LoopDim("d0", 0, expr.parse("s0")),
        LoopDim("d1", 0, 12),
        LoopDim("d2", 0, 64),
        LoopDim("d3", 0, expr.parse("s1")),
        LoopDim("d4", 0, expr.parse("768*s0")),
        LoopDim("b", 0, expr.parse("floordiv(s1 + 63, 64)")),
        LoopDim("i", expr.parse("64*b"), expr.parse("min(s1, 64*b + 64)")),
    ]
)


@pytest.mark.parametrize(
    ("source", "simple"),
    [
        ("floordiv(64*d1 + d2, 64)", "d1"),
        ("mod(64*d1 + d2, 64)", "d2"),
        ("floordiv(64*d1 + d2, 128)", "floordiv(d1, 2)"),
        ("floordiv(s1*d0 + d3, s1)", "d0"),
        ("mod(s1*d0 + d3, s1)", "d3"),
        ("mod(d0*(s1 + 1) + d3, s1 + 1)", "d3"),
        ("768*floordiv(d4, 768) + 64*mod(floordiv(d4, 64), 12) + mod(d4, 64)", "d4"),
        ("12*floordiv(d4, 768) + mod(floordiv(d4, 64), 12)", "floordiv(d4, 64)"),
        ("48*floordiv(72*d0 + d4, 48) + 3*mod(24*d0 + floordiv(d4, 3), 16) + mod(d4, 3)", "72*d0 + d4"),
        ("2*s1*floordiv(8*d0 + d1, 2*s1) + 2*mod(4*d0 + floordiv(d1, 2), s1) + mod(d1, 2)", "8*d0 + d1"),
        ("floordiv(mod(d4, 768), 64)", "mod(floordiv(d4, 64), 12)"),
        ("floordiv(floordiv(d4, 64), 12)", "floordiv(d4, 768)"),
        ("mod(d1 - 3, 4)", "mod(d1 + 1, 4)"),
        ("floordiv(11 - d1, 4)", "floordiv(11 - d1, 4)"),
        ("max(d1, 0)", "d1"),
        ("min(d1 + s1, d1)", "d1"),
        ("lt(d0, s0)", "true"),
        ("ge(d1, 12)", "false"),
        ("ge(64*d1 + d2, 128)", "ge(d1, 2)"),
        ("lt(i, s1)", "true"),
        ("ge(d0 - 3, 0)", "ge(d0, 3)"),
        ("lt(3 - d1, 0)", "ge(d1, 4)"),
    ],
)
def test_what_models_need(source: str, simple: str) -> None:
    e = expr.parse(source)
    got = MODEL.relation(e) if isinstance(e, (sympy.Rel, sympy.logic.boolalg.BooleanAtom)) else MODEL.simplify(e)
    if isinstance(got, sympy.logic.boolalg.BooleanAtom):
        assert str(got).lower() == simple
    else:
        assert got == expr.parse(simple)
