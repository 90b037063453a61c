"""Results with derivatives that are returned beside the same without: in one memory, each lying as eager's does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import lamella


def _merged(x: Tensor) -> Any:
    z = (x * 2).flatten(0, 1)
    return z, z.detach()


def _transposed(x: Tensor) -> Any:
    z = (x * 2).t()
    return z, z.detach()


def _detached_first(x: Tensor) -> Any:
    z = (x * 2)[1:].t()
    return z.detach(), z, z[1:].detach(), z[1:]


def _beside_the_base(x: Tensor) -> Any:
    y = x * 2
    z = y.t()
    return y, z, z.detach(), y.detach()


def _parts(x: Tensor) -> Any:
    a, b = (x * 2)[1:].split([2, x.shape[0] - 3])
    return a, b, a.detach(), b.detach()


def _written_when_detached(x: Tensor) -> Any:
    d = (x * 2).t().detach()
    d.mul_(x)
    return d.flatten(), d.t(), d, d.detach()


def _product(x: Tensor) -> Any:
    """A product of three dims by two is a view, by sizes that torch 2.13 loses where it notes views."""
    y = torch.matmul(x.expand(2, *x.shape), torch.ones(x.shape[1], 3))
    return y, y.transpose(1, 2), y[1], y.detach(), y[0].detach()


def _of_a_product(x: Tensor) -> Any:
    y = torch.matmul(x.expand(2, *x.shape), torch.ones(x.shape[1], 3))
    return y[0], y.transpose(1, 2)


PROGRAMS = [
    _product,
    _of_a_product,
    _merged,
    _transposed,
    _detached_first,
    _beside_the_base,
    _parts,
    _written_when_detached,
]


def _lies(results: tuple[Tensor, ...]) -> list[Any]:
    """How each result lies, and the first one in the same memory."""
    memory = [t.untyped_storage().data_ptr() for t in results]
    return [
        (t.shape, t.stride(), t.storage_offset(), memory.index(m), t.requires_grad)
        for t, m in zip(results, memory, strict=True)
    ]


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("f", PROGRAMS)
def test_detached_results(f: Callable[[Tensor], Any], dynamic: bool) -> None:
    compiled = lamella.compile(f, dynamic=dynamic)
    for n in (4, 6) if dynamic else (4,):
        x = torch.randn(n, n, requires_grad=True)
        ours, eager = compiled(x), f(x)
        assert _lies(ours) == _lies(eager)
        grads: list[Tensor] = []
        for results in (ours, eager):
            total = sum((i * t).sin().sum() for i, t in enumerate(results, 1) if t.requires_grad)
            grads += torch.autograd.grad(total, x)  # pyright: ignore[reportArgumentType]
            results[-1].data[-1].mul_(3)  # autograd refuses what several views are written through
        torch.testing.assert_close(ours, eager)
        torch.testing.assert_close(*grads)
