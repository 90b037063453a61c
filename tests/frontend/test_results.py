"""Results that share memory with one another, or have memory of their own, as eager's; and gradients that are marked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import lamella

pytestmark = pytest.mark.usefixtures("compiled")

FUNCTIONS: dict[str, Callable[[Tensor], tuple[Tensor, ...]]] = {
    "a complex number and its clone": lambda z: (lambda y: (y, y.clone()))(z * 2),
    "an argument and its clone": lambda z: (z, z.clone()),
    "a copy and its elements": lambda z: (lambda y: (y.contiguous(), y.reshape(-1)))(z.real.expand(3, -1).t()),
    "parts": lambda z: (lambda y: (y, y.real, y.imag))(z * 2),
    "parts without the whole": lambda z: (lambda y: (y.real, y.imag))(z * 2),
    "pairs": lambda z: (lambda y: (y, torch.view_as_complex(y.clone()), torch.view_as_complex(y)))(
        torch.view_as_real(z * 3).clone()
    ),
    "another dtype": lambda z: (lambda y: (y, y.view(torch.int32)[1:], y.clone().view(torch.int32)))(z.real * 2),
    "bytes": lambda z: (lambda y: (y.view(torch.int16), y.view(torch.int32), y.view(torch.uint8)))(z.real * 2),
    "conjugates": lambda z: (lambda y: (y, y.conj(), y.conj()[1:], y.conj().imag, y.clone().conj()))(z * 2),
    "conjugates without the whole": lambda z: (lambda y: (y.conj().split(1)[1], y.conj().imag, y.real))(z * 2),
    "strided": lambda z: (lambda y: (y, y.as_strided((2,), (1,)), y.clone().as_strided((2,), (1,))))(z.real * 2),
}


SIZED: dict[str, Callable[[Tensor], tuple[Tensor, ...]]] = {
    "as many elements by a guard": lambda x: (lambda y: (y.reshape(2, 2, 12), y))((x * 2).unsqueeze(2)),
    "as many elements by a guard, later": lambda x: (lambda y: (y.view(2, 24), y.unsqueeze(1), y))(x + 1),
    "filled, seen as a row": lambda x: (lambda y: (y.view(-1).fill_(x[0, 0, 0]), y))(x * 2),
    "strides of which no expression says that they are sizes": lambda x: (lambda y: (y.unflatten(3, (-1, 1)), y))(
        torch.nn.functional.pad(x[:1].unsqueeze(0), (0, -1)).transpose(0, 2)
    ),
    "parts of a row": lambda x: (lambda y: (y, y.chunk(2)[1]))((x[..., 1:] + 1).flatten()),
    "one number": lambda x: (lambda y: (y.unsqueeze(2), y))(torch.full_like(x, x.amax().item())),
}


@pytest.mark.parametrize("name", SIZED)
def test_memory_of_results_of_any_size(name: str) -> None:
    """Views whose sizes are symbols, and of what is made of one number: each element has a place of its own."""
    f = SIZED[name]
    x = torch.arange(96.0).reshape(3, 4, 8)[..., ::2]
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        found, expected = lamella.compile(f, dynamic=True, fullgraph=True)(x), f(x)
    assert shared((x, *found)) == shared((x, *expected))
    torch.testing.assert_close(found, expected)


def shared(tensors: tuple[Tensor, ...]) -> list[tuple[int, int]]:
    """For each tensor, the first one in whose memory it lies, and how far from its beginning."""
    first: dict[int, int] = {}
    found: list[tuple[int, int]] = []
    for i, t in enumerate(tensors):
        k = first.setdefault(t.untyped_storage().data_ptr(), i)
        found.append((k, t.data_ptr() - tensors[k].data_ptr()))
    return found


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("size", [5, 2])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_memory_of_results(name: str, size: int, dynamic: bool) -> None:
    f = FUNCTIONS[name]
    z = torch.randn(size, dtype=torch.complex64)
    found, expected = lamella.compile(f, dynamic=dynamic, fullgraph=True)(z), f(z)
    assert shared((z, *found)) == shared((z, *expected))
    assert name != "conjugates" or all(t._base is found[0] for t in found[1:4])
    assert [(t.is_conj(), t.is_neg()) for t in found] == [(t.is_conj(), t.is_neg()) for t in expected]
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_in_one_memory_count_their_writes_together(name: str, dynamic: bool) -> None:
    f = FUNCTIONS[name]
    z = torch.randn(4, dtype=torch.complex64)
    found = lamella.compile(f, dynamic=dynamic, fullgraph=True)(z.clone())
    expected = f(z.clone())
    for a, b in zip(found, expected, strict=True):
        a.add_(1)
        b.add_(1)
        assert [t._version for t in found] == [t._version for t in expected]
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("size", [1, 4])
def test_a_result_that_is_written_to_is_what_is_returned(size: int) -> None:
    def f(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        y = torch.empty(x.shape[::-1]).t()
        return torch.mul(x, 2, out=y), y, y[:1]

    first, second, part = torch.compile(f, backend="lamella")(torch.ones(size, 2))
    assert first is second is not part and part.data_ptr() == first.data_ptr()


def test_parts_of_a_complex_result_are_no_views_of_floats() -> None:
    """AOTAutograd takes no program that writes views of another dtype."""

    def f(z: Tensor) -> tuple[Tensor, ...]:
        y = z[torch.randperm(4)]
        return y.t(), y[1:]

    for part in lamella.compile(f, fullgraph=True)(torch.randn(4, 3, dtype=torch.complex64)):
        assert part._base is None or part._base.is_complex()


def test_what_aten_marks_is_computed_with() -> None:
    def f(lu: Tensor, pivots: Tensor, b: Tensor) -> tuple[Tensor, ...]:
        x = torch.linalg.lu_solve(lu, pivots, b, left=False)
        return x, x.conj(), x[1:], x.real, x * 2

    lu, pivots = torch.linalg.lu_factor(torch.randn(2, 3, 3, dtype=torch.complex64))
    args = lu, pivots, torch.randn(2, 1, 3, dtype=torch.complex64)
    expected = f(*args)
    assert expected[0].is_conj()
    for t, e in zip(lamella.compile(f, fullgraph=True)(*args), expected, strict=True):
        torch.testing.assert_close(t, e)
        assert t.stride() == e.stride()


@pytest.mark.parametrize("trains", [False, True])
def test_a_complex_result_that_is_written_with_derivatives(trains: bool) -> None:
    """It is no view of the floats that it is made of, which was made without derivatives."""
    x = torch.randn(4, dtype=torch.complex64, requires_grad=trains)
    w = torch.randn(4, requires_grad=True)

    def gradients(f: Callable[[Tensor], Tensor]) -> Any:
        y = f(x)
        y.mul_(w)
        y[1:].add_(w[1:])
        return torch.autograd.grad(y.abs().sum(), (w, x) if trains else w)

    def f(x: Tensor) -> Tensor:
        return x * 2j

    torch.testing.assert_close(gradients(lamella.compile(f, fullgraph=True)), gradients(f))


def squares(x: Tensor) -> Tensor:
    return (x * x).sum(1)


@pytest.mark.parametrize("step", [1, 2])
def test_a_gradient_that_is_a_conjugate(step: int) -> None:
    """It was traced as none."""
    x = torch.randn(4, 7, dtype=torch.complex64, requires_grad=True)
    f = lamella.compile(squares, fullgraph=True)
    for w in (torch.randn(4, dtype=torch.complex64), torch.randn(4 * step, dtype=torch.complex64)[::step].conj()):
        torch.testing.assert_close(torch.autograd.grad(f(x), x, w), torch.autograd.grad(squares(x), x, w))


@pytest.mark.parametrize("expanded", [False, True])
def test_a_gradient_that_was_traced_as_a_conjugate(expanded: bool) -> None:
    def f(x: Tensor) -> tuple[Tensor, Tensor]:
        return (x * 2).conj(), x.cumsum(0)

    x = torch.randn(3, 4, dtype=torch.complex64, requires_grad=True)
    g = lamella.compile(f, fullgraph=True)
    for marked in (True, False):
        w = torch.randn(1, 4, dtype=torch.complex64).expand(3, 4) if expanded else torch.randn(3, 4) * 1j
        w = w.conj() if marked else w
        torch.testing.assert_close(torch.autograd.grad(g(x)[0], x, w), torch.autograd.grad(f(x)[0], x, w))


def test_a_gradient_that_is_marked_as_negative() -> None:
    x, w = torch.randn(4, 7, requires_grad=True), torch.randn(4, dtype=torch.complex64)
    f = lamella.compile(squares, fullgraph=True)

    def gradient(g: Callable[[Tensor], Tensor]) -> Any:
        return torch.autograd.grad((torch.complex(torch.zeros(4), g(x)) * w).real.sum(), x)

    torch.testing.assert_close(gradient(f), gradient(squares))
    torch.testing.assert_close(
        torch.autograd.grad(f(x), x, w.conj().imag), torch.autograd.grad(squares(x), x, w.conj().imag)
    )


def test_a_conjugate_result_with_derivatives() -> None:
    """What runs eagerly in its backward gives the compiled part a conjugate."""

    def f(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return squares(x).conj(), y * 2

    given = [torch.randn(n, dtype=torch.complex64, requires_grad=True) for n in ((3, 7), (3,))]
    found, expected = (
        torch.autograd.grad(results := g(*given), given, [torch.ones_like(r) for r in results])
        for g in (lamella.compile(f), f)
    )
    torch.testing.assert_close(found, expected)


VIEWS: dict[str, Callable[[Tensor], Tensor]] = {
    "rows": lambda x: x.reshape(x.shape[0], -1),
    "one dim": lambda x: x.transpose(1, 2).select(1, x.shape[1] - 1),
    "a diagonal of what is expanded": lambda x: x.unsqueeze(0).expand(x.shape[1], -1, -1, -1).diagonal(0, 1, 2),
    "one of two halves": lambda x: x.chunk(2, 2)[1],
    "one of several": lambda x: x.split(x.shape[2] // 2, 2)[1].unbind(1)[1],
    "windows": lambda x: x.unfold(2, x.shape[1] - 2, 1),
}


@pytest.mark.parametrize("of_argument", [True, False])
@pytest.mark.parametrize("name", VIEWS)
def test_gradients_through_a_returned_view_of_what_is_expanded(name: str, of_argument: bool) -> None:
    """Of any size. The views are made anew by `as_strided` by torch, with TorchInductor too: its derivative takes means
    over elements that share memory.
    """

    def f(x: Tensor) -> tuple[Tensor, ...]:
        x = x if of_argument else (x[:1] * 2).expand(x.shape[0], -1, -1)
        v = VIEWS[name](x)
        return (v * 2, v) if of_argument else (v * 2, v, x[0])

    compiled = torch.compile(f, backend="lamella", dynamic=True, fullgraph=True)
    for n in (4, 6):
        x = torch.arange(1.0 * n * n).view(1, n, n).expand(3, n, n).requires_grad_()
        results, made = f(x), compiled(x)
        assert shared((x, *made)) == shared((x, *results))
        weights = [torch.arange(1.0 * r.numel()).view_as(r) for r in results]
        for w, r, m in zip(weights, results, made, strict=True):
            expected, found = (torch.autograd.grad((y * w).sum(), x, retain_graph=True) for y in (r, m))
            torch.testing.assert_close(found, expected)
