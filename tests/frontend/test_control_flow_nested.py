"""Higher-order operators within one another: results and gradients are eager's, and nothing runs eagerly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._higher_order_ops import scan, while_loop
from torch._higher_order_ops.invoke_subgraph import mark_compile_region as _mark_compile_region
from torch._higher_order_ops.map import map as _map_slices
from torch.utils.checkpoint import checkpoint

import lamella

pytestmark = pytest.mark.usefixtures("compiled")
mark_compile_region: Any = _mark_compile_region
map_slices: Any = _map_slices


def repeated(x: Tensor, w: Tensor) -> Tensor:
    return while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, (a @ w).sin()), (torch.tensor(0), x))[1]


def scanned(x: Tensor, w: Tensor) -> Tensor:
    return scan(lambda carry, row: ((carry + row).sin(), carry * row), x[0].clone(), w)[1]


@mark_compile_region
def region_of_a_loop(x: Tensor, w: Tensor) -> Tensor:
    return repeated(x, w)


@mark_compile_region
def region_of_a_scan(x: Tensor, w: Tensor) -> Tensor:
    return scanned(x, w)


@mark_compile_region
def region_of_branches(x: Tensor, w: Tensor) -> Tensor:
    return torch.cond(x.sum() > 0, lambda a, b: a @ b, lambda a, b: a * b, (x, w))


@mark_compile_region
def region_that_writes(x: Tensor, w: Tensor) -> Tensor:
    y = x.clone()
    y.add_(w)
    y[0] *= 2
    return y


@mark_compile_region
def product(x: Tensor, w: Tensor) -> Tensor:
    return (x @ w).sin()


def twice(f: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda x, w: f(x, w) + f(x.sin(), w)


def branch_that_writes(x: Tensor, w: Tensor) -> Tensor:
    def written(a: Tensor) -> Tensor:
        b = a.clone()
        b.add_(1)
        b[0] = 3
        return b

    return torch.cond(x.sum() > 0, written, lambda a: a * 2, (x,)) @ w


def carried_numbers(x: Tensor, w: Tensor) -> Tensor:
    def body(i: Tensor, n: Tensor, a: Tensor) -> Any:
        return i + 1, n * 2 + i, (a @ w).sin() * 0.5 + a

    _, n, y = while_loop(lambda i, n, a: i < 4, body, (torch.tensor(0), torch.ones(3, dtype=torch.int64), x))
    return y * n.sum()


def loop_of_branches(x: Tensor, w: Tensor) -> Tensor:
    def body(i: Tensor, a: Tensor) -> Any:
        return i + 1, torch.cond(a.sum() > 0, lambda b: b.sin(), lambda b: b.cos() * 2, (a,))

    return while_loop(lambda i, a: i < 4, body, (torch.tensor(0), x))[1] * w


def branches_of_loops(x: Tensor, w: Tensor) -> Tensor:
    return torch.cond(x.sum() > 0, repeated, lambda a, b: a * b, (x, w))


def slices_of_branches(x: Tensor, w: Tensor) -> Tensor:
    def each(a: Tensor, b: Tensor) -> Tensor:
        return torch.cond(a.sum() > 0, lambda p: p.sin(), lambda p: p.cos(), (a @ b,))

    return map_slices(each, x, w)


def checkpointed(x: Tensor, w: Tensor) -> Tensor:
    def outer(a: Tensor, b: Tensor) -> Tensor:
        inner = checkpoint(lambda c, d: product(product(c, d), d), a, b, use_reentrant=False)
        assert isinstance(inner, Tensor)
        return inner.cos() @ b

    made = checkpoint(outer, x, w, use_reentrant=False)
    assert isinstance(made, Tensor)
    return made


PROGRAMS: list[Callable[[Tensor, Tensor], Tensor]] = [
    *(twice(f) for f in (region_of_a_loop, region_of_a_scan, region_of_branches, region_that_writes)),
    *(branch_that_writes, carried_numbers, loop_of_branches, branches_of_loops, slices_of_branches, checkpointed),
]


@pytest.mark.parametrize("i", range(len(PROGRAMS)))
def test_gradients(i: int) -> None:
    f = PROGRAMS[i]
    g = lamella.compile(f, fullgraph=True)
    for sign in (1, -1):
        x, w = (sign * torch.rand(4, 4, dtype=torch.float64) for _ in range(2))
        given = [x.requires_grad_(), w.requires_grad_()]
        ours, theirs = g(x, w), f(x, w)
        torch.testing.assert_close(ours, theirs)
        weights = torch.randn_like(theirs)
        found, wanted = (torch.autograd.grad(y, given, weights, allow_unused=True) for y in (ours, theirs))
        torch.testing.assert_close(found, wanted)


@mark_compile_region
def region_with_written_arguments(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    x.mul_(2)
    w.add_(x)
    return x * w, w.sum()


@pytest.mark.parametrize("views", [False, True])
def test_regions_that_write_to_arguments(views: bool) -> None:
    def f(x: Tensor, w: Tensor) -> Any:
        a, b = (x[1:], w[1:]) if views else (x, w * 2)
        return region_with_written_arguments(a, b), region_with_written_arguments(b, a)

    x, w = torch.randn(4, 4), torch.randn(4, 4)
    given, theirs = (x.clone(), w.clone()), f(x, w)
    torch.testing.assert_close(lamella.compile(f, fullgraph=True)(*given), theirs)
    torch.testing.assert_close(given, (x, w))
