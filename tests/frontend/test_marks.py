"""Results that are marked as conjugates or negatives of what lies in memory, as eager's are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x.unflatten(1, (-1, 1)).conj(),
        lambda x: x.unflatten(1, (-1, 1)).conj().imag,
        lambda x: x.unflatten(1, (-1, 1)).conj()[1:].real,
    ],
)
def test_marks_of_views_by_symbolic_sizes(f: Callable[..., Any]) -> None:
    x = torch.randn(4, 6, dtype=torch.complex64)
    found, expected = torch.compile(f, backend="lamella", dynamic=True)(x), f(x)
    assert torch.equal(found, expected) and found.is_conj() == expected.is_conj()
    assert found.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()


@pytest.mark.parametrize("dynamic", [False, True])
def test_the_real_part_of_a_conjugate_lies_in_it(dynamic: bool) -> None:
    def f(x: Tensor) -> tuple[Tensor, Tensor]:
        y = x * 2
        return y.conj().real, y  # torch takes the mark off by a second conjugate

    compiled = torch.compile(f, backend="lamella", dynamic=dynamic)
    part, whole = compiled(torch.randn(4, 6, dtype=torch.complex64))
    assert part.untyped_storage().data_ptr() == whole.untyped_storage().data_ptr()
    assert torch.equal(part, whole.real)


def _hermitian(x: Tensor) -> tuple[Tensor, ...]:
    return torch.linalg.solve(x, x).mH, torch.linalg.qr(x).Q.mH, *torch.svd(x)


def _of_conjugates(x: Tensor) -> tuple[Tensor, ...]:
    base, turned, other = x.clone(), x.exp().mH, x.clone().conj()
    other[0] = 1.0
    return base, base.conj().mul_(2), turned.mul_(x), other, other[1:].t(), torch.add(x, x, out=x.clone().conj())


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize(
    "f",
    [
        _hermitian,
        _of_conjugates,
        lambda x: (x.exp().conj().imag.mul_(2),),
        lambda x: (x.clone().mT.conj().imag.add_(1)[1:],),
        lambda x: (torch.ops.aten._neg_view(x.exp()).mul_(2), x.sin().conj()),
    ],
)
def test_marks_of_what_is_written_are_eagers(f: Callable[..., Any]) -> None:
    angles = torch.arange(16.0).square().reshape(4, 4)
    x = torch.complex(angles.cos(), angles.sin())
    expected, found = f(x), torch.compile(f, backend="lamella")(x)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    for a, e in zip(found, expected, strict=True):
        assert (a.is_conj(), a.is_neg(), a.stride()) == (e.is_conj(), e.is_neg(), e.stride())
    found[0].zero_()
    expected[0].zero_()
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def _written_conjugate(x: Tensor) -> tuple[Tensor, ...]:
    base = x * 2
    return base.conj().mul_(2), base


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(
    "f",
    [
        lambda x: ((x * 2).conj(), (x * 2).conj().imag, (x * 3)[1:].conj(), x.exp().mH, x.exp().conj().imag),
        lambda x: (x.clone().mT.conj().imag.add_(1)[1:],),
        lambda x: (torch.ops.aten._neg_view(x.real * 2), (x.detach() * 2).conj()),
        lambda x: (x.conj(), (x.sin().mH @ x).mH),
        _written_conjugate,
    ],
)
def test_marks_of_results_with_derivatives(f: Callable[..., Any], dynamic: bool) -> None:
    """Each is the one in its memory: what the backward needs is not written with it."""
    angles = torch.arange(16.0).square().reshape(4, 4)
    given = torch.complex(angles.cos(), angles.sin())

    def derivative(f: Callable[..., Any]) -> tuple[list[Any], Tensor]:
        results = f(x := given.clone().requires_grad_())
        lies = [(t.is_conj(), t.is_neg(), t.stride(), t.detach().clone()) for t in results]
        loss = sum((t * torch.arange(t.numel()).view(t.shape)).abs().square().sum() for t in results if t.requires_grad)
        for t in results:
            if t.grad_fn is not None and not t._is_view():  # eager's are, and would be noticed
                t.detach().zero_()
        return lies, torch.autograd.grad(loss, x)[0]

    expected, found = derivative(f), derivative(torch.compile(f, backend="lamella", dynamic=dynamic))
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
