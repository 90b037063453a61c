"""Branches and loops whose values have other strides along dims of size one are compiled, as before these were told."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._higher_order_ops import scan, while_loop

import lamella


@pytest.fixture(autouse=True)
def nothing_runs_eagerly(strict: None, caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    yield
    assert not [r for r in caplog.get_records("call") if r.name == "lamella" and r.levelno >= logging.WARNING]


def _row(x: Tensor) -> Tensor:
    """Its dims of size one are slower than what comes before them."""
    return x.view(1, -1).permute(1, 0).unflatten(0, (-1, 1))


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(
    ("prepare", "branches"),
    [
        (lambda x: x[::2][:1], (lambda a: a.clone(), lambda a: a.sin() * 2)),
        (lambda x: x[::2][:1], (lambda a: a.clone(), lambda a: a.sin().clone())),
        (_row, (lambda a: a.sin() + 1, lambda a: a * 2)),
        (lambda x: x.view(1, 1, -1).ceil().permute(1, 2, 0), (lambda a: a.sin() + 1, lambda a: a * 2)),
    ],
)
def test_branches(prepare: Callable[[Tensor], Tensor], branches: tuple[Any, Any], dynamic: bool) -> None:
    def f(x: Tensor) -> Tensor:
        return torch.cond(x.sum() > 0, *branches, (prepare(x),)) * 1

    g = lamella.compile(f, fullgraph=True, dynamic=dynamic)
    for x in (torch.rand(5), -torch.rand(5), torch.rand(7), -torch.rand(7)):
        torch.testing.assert_close(g(x), f(x))
        x.requires_grad_()
        torch.testing.assert_close(torch.autograd.grad(g(x).sum(), x), torch.autograd.grad(f(x).sum(), x))


def test_results_of_branches_lie_as_both_do() -> None:
    def f(x: Tensor) -> Tensor:
        return torch.cond(x.sum() > 0, lambda a: a.clone(), lambda a: a.clone().clone(), (x[::2][:1],)).clone()

    x = torch.rand(5)
    assert lamella.compile(f, fullgraph=True)(x).stride() == f(x).stride() == (2,)


def _looped(x: Tensor) -> Any:
    def body(i: Tensor, a: Tensor) -> tuple[Tensor, Tensor]:
        return i + 1, a.sin()

    return while_loop(lambda i, a: i < 3, body, (torch.zeros((), dtype=torch.int64), x[::2][:1].clone()))[1]


def _scanned(x: Tensor) -> Any:
    return scan(lambda c, y: (c.sin(), c + y), x[::2][:1].clone(), torch.ones(3, 1))[0]


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("f", [_looped, _scanned])
def test_what_loops_carry(f: Callable[[Tensor], Any], dynamic: bool) -> None:
    """torch itself refuses it in eager, where it knows the strides."""
    x = torch.rand(5)
    found = lamella.compile(f, fullgraph=True, dynamic=dynamic)(x)
    torch.testing.assert_close(found, x[:1].sin().sin().sin())


def test_what_a_loop_carries_of_symbolic_strides() -> None:
    """TorchDynamo compares them too."""

    def f(x: Tensor) -> Tensor:
        zero = torch.zeros((), dtype=torch.int64)
        return while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a.sin() * 2), (zero, x.clone()))[1]

    x = torch.rand(19).as_strided((1, 1), (19, 19))
    assert torch.equal(lamella.compile(f, fullgraph=True, dynamic=True)(x), f(torch.full((1, 1), x.item())))


def test_strides_along_other_dims_are_compared() -> None:
    def f(x: Tensor) -> Tensor:
        return torch.cond(x.sum() > 0, lambda a: a.clone(), lambda a: a.t().contiguous().t(), (x,)) * 1

    x = torch.rand(3, 3)
    with pytest.raises(torch._dynamo.exc.TorchDynamoException, match="order of strides"):
        lamella.compile(f, fullgraph=True)(x)
