"""Code that calls one graph, as one expression: what it does is what the code does."""

from __future__ import annotations

from types import FunctionType
from typing import Any

import pytest
import torch

import lamella
from lamella.frontend import fast_entry
from lamella.frontend.straight_code import straight


def graph(*given: Any) -> tuple[Any, ...]:
    return ("first", [*given], "third")


def made(text: str) -> tuple[FunctionType, Any]:
    """A function that calls `graph`, and what is made of its code."""
    scope: dict[str, Any] = {"graph": graph, "other": graph}
    exec(text, scope)
    function = scope["f"]
    return function, straight(function.__code__, {"graph": graph})


@pytest.mark.parametrize(
    "text, names",
    [
        ("def f(x, y): return graph(x, y)[0]", {}),
        ("def f(x, y): return graph(y, x)", {}),
        ("def f(x, y):\n r = graph(x, x)\n return r[1], r[0]", {}),
        ("def f(x, y):\n r = graph()\n x = y\n return [r[2], x], (y, None, 'text', 3), []", {}),
        ("def f(x, y):\n r = graph(x, 5)\n l = [r[0]]\n return l, y", {}),
        ("def f(x, z, /, *, y): return graph(x)[1], y, z", {"y": 3}),
        ("def f(*x, **y): return graph(x, y)[1], x", {"z": 3}),
        ("def f(x, *z, y, **k):\n r = graph(x, z, y, k)\n del x\n return r[1]", {"y": 3, "w": 4}),
    ],
)
def test_same_result(text: str, names: dict[str, int]) -> None:
    function, short = made(text)
    assert short is not None
    assert repr(short(1, 2, **names)) == repr(function(1, 2, **names))


def test_lists_are_new() -> None:
    """Each call's own, and one that is returned twice is one: that is left as it is."""
    _, short = made("def f(x):\n r = graph(x)\n return [r[0]]")
    assert short(1) == short(1) and short(1) is not short(1)
    _, short = made("def f(x):\n r = graph(x)\n l = [r[0]]\n return l, l")
    assert short is None


@pytest.mark.parametrize(
    "text",
    [
        "def f(x): return x",
        "def f(x): return other(x)",
        "def f(x): return graph(graph(x))",
        "def f(x):\n graph(x)\n return graph(x)",
        "def f(x): return graph(x)[x]",
        "def f(x): return graph(x)['name']",
        "def f(x): return graph(x.name)",
        "def f(x): return graph(x[0])",
        "def f(x): return graph(x=x)",
        "def f(x): return graph(*x)",
        "def f(x): return graph([x])",
        "def f(x): return graph(x) if x else None",
        "def f(x):\n for x in graph(x): pass\n return x",
        "def f(x):\n x.y = graph(x)\n return x",
        "def f(lamella_result):\n r = graph(1)\n return r[0], lamella_result",
    ],
)
def test_anything_else_is_left(text: str) -> None:
    assert made(text)[1] is None


def test_code_of_torch_dynamo(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a call returns, and what it may be called with, stay."""
    found: list[bool] = []

    def noted(*given: Any) -> Any:
        found.append((short := straight(*given)) is not None)
        return short

    monkeypatch.setattr(fast_entry, "straight", noted)
    x, y = torch.randn(4), torch.randn(4)

    @lamella.compile(fullgraph=True)
    def sums(x: torch.Tensor, /, y: torch.Tensor, *, scale: float = 2.0) -> Any:
        s = x + y
        return s, (s * scale, x, None), "sum"

    for given in ({"y": y}, {"y": y, "scale": 3.0}, {"y": y}):
        s, (scaled, same, none), text = sums(x, **given)
        assert same is x and none is None and text == "sum"
        torch.testing.assert_close(s, x + y)
        torch.testing.assert_close(scaled, (x + y) * given.get("scale", 2.0))
    assert found[0]
    with pytest.raises(TypeError, match="positional-only"):
        sums(x=x, y=y)
