"""Calls of compiled functions take the shortest way that does what the longer ones do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import lamella
from lamella.frontend.compiled import CompiledGraph


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch._dynamo.reset()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()


@pytest.fixture
def wrapped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[int]:
    """Counts the calls that AOTAutograd makes. No earlier process has left traces, whose functions need none."""
    monkeypatch.setenv("LAMELLA_CACHE_DIR", str(tmp_path))
    calls = [0]
    call: Any = CompiledGraph.__call__

    def counted(self: CompiledGraph, inputs: Any) -> Any:
        calls[0] += 1
        return call(self, inputs)

    monkeypatch.setattr(CompiledGraph, "__call__", counted)
    return calls


def mutate(x: torch.Tensor) -> torch.Tensor:
    x.mul_(2)
    return x + 1


def nested(xs: list[torch.Tensor]) -> torch.Tensor:
    return xs[0] * xs[1]


def plain(x: torch.Tensor) -> torch.Tensor:
    return x * 2 + 1


def with_constant(x: torch.Tensor) -> torch.Tensor:
    return x + torch.tensor([1.0, 2.0, 3.0])


def several(x: torch.Tensor) -> tuple[torch.Tensor, int, None, torch.Tensor]:
    return x * 2, x.shape[0] + 1, None, x.sum(0)


@pytest.mark.parametrize("f", [plain, with_constant, several], ids=lambda f: f.__name__)
def test_only_the_first_call_goes_through_aotautograd(f: Callable[..., Any], wrapped: list[int]) -> None:
    g = lamella.compile(f)
    for _ in range(3):
        x = torch.randn(4, 3)
        torch.testing.assert_close(g(x), f(x))
    assert wrapped[0] == 1


# TorchDynamo itself returns an argument that is a result as it is.
@pytest.mark.parametrize(
    ("f", "calls"),
    [(mutate, 1), (lambda x: x.view(-1), 3), (lambda x: (x, x + 1), 1)],
    ids=["mutate", "view", "same"],
)
def test_aliases_stay_aotautograds(f: Callable[..., Any], calls: int, wrapped: list[int]) -> None:
    g = lamella.compile(f)
    for _ in range(3):
        x = torch.randn(4, 3)
        y = x.clone()
        version = x._version
        got, expected = g(x), f(y)
        torch.testing.assert_close((got, x), (expected, y))
        assert x._version - version == y._version
        if isinstance(got, tuple):
            assert got[0] is x
        elif expected._base is not None:
            assert got._base is x
    assert wrapped[0] == calls


def test_gradients() -> None:
    g = lamella.compile(plain)
    x = torch.randn(4, 3, requires_grad=True)
    for _ in range(2):
        with torch.no_grad():
            assert not g(x).requires_grad
        g(x).sum().backward()
    torch.testing.assert_close(x.grad, torch.full_like(x, 4.0))


def test_lists_of_tensors() -> None:
    g = lamella.compile(nested)
    for _ in range(3):
        xs = [torch.randn(3), torch.randn(3)]
        torch.testing.assert_close(g(xs), nested(xs))


def test_autocast() -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (x @ y).relu()

    g = lamella.compile(f)
    x, y = torch.randn(4, 4), torch.randn(4, 4)
    for _ in range(3):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            got, expected = g(x, y), f(x, y)
        assert got.dtype == expected.dtype
        torch.testing.assert_close(got, expected)
        torch.testing.assert_close(g(x, y), f(x, y))


def test_read_from_the_cache(wrapped: list[int], tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAMELLA_CACHE_DIR", str(tmp_path))
    for _ in range(2):  # the second graph is AOTAutograd's own, read from disk
        torch._dynamo.reset()
        wrapped[0] = 0
        g = lamella.compile(plain, options={"traces": False})
        for _ in range(3):
            x = torch.randn(5)
            torch.testing.assert_close(g(x), plain(x))
        assert wrapped[0] == 1
