"""Patterns of the user's: where they match, what takes their place, and what cannot be one."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

import lamella
from lamella.frontend.patterns import PatternError
from lamella.lowering.registered_patterns import REGISTERED, key


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("LAMELLA_STRICT", "1")
    torch._dynamo.reset()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()
    assert not REGISTERED


def gelu(x: Tensor) -> Tensor:
    return 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))


def norm(x: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    mean = x.mean(-1, keepdim=True)
    centered = x - mean
    scale = torch.rsqrt((centered * centered).mean(-1, keepdim=True) + eps)
    return centered * scale * weight, mean


def other(x: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """Nothing that anyone would take for the norm."""
    return (x + weight) * eps, x.sum(-1, keepdim=True)


def test_sizes_are_symbols_and_explain_tells_the_places() -> None:
    def f(x: Tensor, y: Tensor) -> Tensor:
        return gelu(x) + gelu(y * 2).sum() + gelu(x[0])

    with lamella.register_pattern(gelu, torch.nn.functional.gelu, [torch.randn(4, 5)]) as pattern:
        assert "@pattern.gelu.search" in str(pattern) and "aten.gelu" in str(pattern)
        x, y = torch.randn(3, 7), torch.randn(1, 9)
        text = str(lamella.explain(f, x, y))
        # y has a size of 1, which the example had not; x[0] has another rank
        assert f"pattern gelu: 2 x ({__file__}:" in text
        torch.testing.assert_close(lamella.compile(f)(x, y), f(x, y))
    assert "pattern gelu" not in str(lamella.explain(f, x, y))


def test_numbers_that_are_arguments_stand_for_any_number() -> None:
    def f(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
        return norm(x.sin(), w, 3.0)

    def wanted(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
        return other(x.sin(), w, 3.0)

    x, w = torch.randn(2, 5, 8), torch.randn(8)
    with lamella.register_pattern(norm, other, [torch.randn(3, 4, 6), torch.randn(6), 0.123]):
        torch.testing.assert_close(lamella.compile(f)(x, w), wanted(x, w))
        torch._dynamo.reset()
        torch.testing.assert_close(lamella.compile(f, dynamic=True)(x, w), wanted(x, w))
    torch._dynamo.reset()
    torch.testing.assert_close(lamella.compile(f)(x, w), f(x, w))


def test_a_number_that_is_no_argument_is_the_same_everywhere() -> None:
    def scaled(x: Tensor) -> Tensor:
        return x.sin() * 2.5

    with lamella.register_pattern(scaled, lambda x: x + 1, [torch.randn(3)]):
        x = torch.randn(4)
        f = lamella.compile(lambda x: ((y := x.sin()) * 2.5, y))
        torch.testing.assert_close(f(x), (x.sin() * 2.5, x.sin()))  # the sine is used elsewhere
        g = lamella.compile(lambda x: (x.sin() * 2.5, x.cos().sin() * 2.0))
        torch.testing.assert_close(g(x), (x + 1, x.cos().sin() * 2.0))


def test_a_replacement_that_returns_its_argument_is_a_copy() -> None:
    with lamella.register_pattern(lambda x: x.sin().cos(), lambda x: x, [torch.randn(3)], name="identity"):
        f = lamella.compile(lambda x: x.sin().cos())
        x = torch.randn(4)
        y = f(x)
        assert torch.equal(y, x) and y.data_ptr() != x.data_ptr()


def test_strides_of_the_program_stay() -> None:
    with lamella.register_pattern(lambda x: x.sin() * 2, lambda x: (x.t() + 1).t(), [torch.randn(3, 4)], name="t"):
        x = torch.randn(5, 6)
        y = lamella.compile(lambda x: x.sin() * 2)(x)
        assert torch.equal(y, x + 1) and y.stride() == (6, 1)
        torch._dynamo.reset()
        z = lamella.compile(lambda x: x.sin() * 2)(x.t())
        assert torch.equal(z, x.t() + 1) and z.stride() == (1, 6)


def test_a_write_in_between_keeps_the_program() -> None:
    def f(x: Tensor, y: Tensor) -> Tensor:
        a = x.sin()
        x.copy_(y)
        return a * 2.5 + x

    with lamella.register_pattern(lambda x: x.sin() * 2.5, lambda x: x, [torch.randn(3)], name="sine"):
        x, y = torch.randn(3), torch.randn(3)
        before = x.clone()
        torch.testing.assert_close(lamella.compile(f)(x, y), before + y)  # of the value that x had
        assert torch.equal(x, y)


def test_the_first_that_is_registered_is_first_and_all_are_in_the_key() -> None:
    assert key() == ""
    one = lamella.register_pattern(lambda x: x.sin() * 2.5, lambda x: x + 1, [torch.randn(3)], name="a")
    first = key()
    two = lamella.register_pattern(lambda x: x.sin() * 2.5, lambda x: x + 2, [torch.randn(3)], name="a")
    assert two.name == "a_2" and first != key() != ""
    x = torch.randn(4)

    def f(x: Tensor) -> Tensor:
        return x.sin() * 2.5

    for handle, wanted in ((one, x + 1), (two, x + 2), (None, f(x))):
        torch._dynamo.reset()
        torch.testing.assert_close(lamella.compile(f)(x), wanted)
        if handle is not None:
            handle.unregister()
    one.unregister()


@pytest.mark.parametrize(
    ("search", "replace", "examples", "message"),
    [
        (lambda x: torch.rand_like(x) * x, torch.sin, [torch.ones(3)], "draws random numbers"),
        (lambda x: x.sin_() * 2, torch.sin, [torch.ones(3)], "writes to its operands"),
        (lambda x: x, torch.sin, [torch.ones(3)], "computes nothing"),
        (lambda x: (x.sin(), x), lambda x: (x, x), [torch.ones(3)], "returns one of its arguments"),
        (lambda x, y: x.sin(), lambda x, y: x, [torch.ones(3), torch.ones(3)], "does not use argument #1"),
        (lambda x, e: x.sin(), lambda x, e: x, [torch.ones(3), 0.5], "does not use argument #1, 0.5,"),
        (lambda x, a, b: x * a + b, lambda x, a, b: x, [torch.ones(3), 0.5, 0.5], "two examples are 0.5"),
        (lambda x: x.sin(), lambda x: (x, x), [torch.ones(3)], "has 1 results, the replacement 2"),
        (lambda x: x.sin(), lambda x: x.double(), [torch.ones(3)], "that of the replacement"),
        (lambda x, s: x.sin(), lambda x, s: x, [torch.ones(3), "a"], "example #1 is a str"),
        (lambda x: x.sin(), lambda x: x, torch.ones(3), "expected a list of examples, got Tensor"),
        (lambda x: x.sin(), lambda x, y: x, [torch.ones(3)], "the replacement cannot be called with the 1 examples"),
        (3, lambda x: x, [torch.ones(3)], "the pattern is a int, not a function"),
        (lambda x: x + CONSTANT, lambda x: x, [torch.ones(3)], "holds a tensor"),
    ],
)
def test_what_cannot_be_a_pattern(search: Any, replace: Callable[..., Any], examples: Any, message: str) -> None:
    with pytest.raises(PatternError, match=message):
        lamella.register_pattern(search, replace, examples)


CONSTANT = torch.tensor([1.0, 2.0, 3.0])
