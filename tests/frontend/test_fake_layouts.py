"""Results have eager's strides of dims of size one or zero, too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch._subclasses import FakeTensorMode
from torch.nn import functional as F

import lamella
from lamella.frontend.fake_kernels import right_fakes

ODD = torch.arange(12.0).as_strided((3, 1, 4), (4, 7, 1))
TURNED = torch.arange(24.0).view(4, 3, 1, 2).transpose(0, 2)
APART = torch.arange(48.0).as_strided((4, 4), (3, 12))
EMPTY = torch.empty_strided((3, 0, 4), (1, 3, 3))
ROW = torch.arange(4.0).view(4, 1).T

CASES: Sequence[tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = [
    (torch.zeros_like, (ODD,)),
    (torch.zeros_like, (EMPTY,)),
    (torch.ones_like, (ROW,)),
    (lambda x: x + 1, (ODD,)),
    (lambda x: x + 1, (ROW,)),
    (lambda x: x + 1, (EMPTY,)),
    (lambda x: 1 - x, (TURNED,)),
    (lambda x, y: x * y, (EMPTY, torch.ones(1, 1, 4))),
    (lambda x, y: x * y, (ROW, torch.arange(3.0).view(3, 1, 1))),
    (lambda x, y: torch.where(x > 1, x, y), (TURNED, torch.tensor(2.0))),
    (F.gelu, (ODD,)),
    (F.hardtanh, (ODD,)),
    (lambda x: x.clamp(0, 1), (ODD,)),
    (lambda x: (x > 2).to(torch.float64), (ROW,)),
    (lambda: torch.ops.aten._to_copy(20, dtype=torch.float64), ()),
    (lambda x: x.flip(0), (ODD,)),
    (lambda x: x.sort(dim=0), (ODD,)),
    (lambda x: x.tril(), (TURNED,)),
    (lambda x: 2.0**x, (TURNED,)),
    (torch.ldexp, (TURNED, torch.ones(2))),
    (lambda x: x.masked_fill(x > 2, 0.0), (TURNED,)),
    (lambda x: (x + 1).unsqueeze(1), (ODD,)),
    (lambda x: x.index_fill(0, torch.zeros(1, dtype=torch.int64), 1.0), (APART,)),
    (lambda x: x.index_put((torch.zeros(1, dtype=torch.int64),), torch.ones(())), (ODD,)),
    (lambda x: x.index_add(0, torch.arange(4), x), (APART[:, :1],)),
    (lambda x: x.index_copy(0, torch.arange(4), x), (APART[:, :1],)),
    (lambda x: x.angle(), (APART.to(torch.complex64),)),
    (lambda x: F.layer_norm(x, (4,)), (torch.arange(24.0).as_strided((1, 2, 4), (3, 4, 1)),)),
    (lambda x: (x * 2, (x * 2).mT), (ODD,)),
    (lambda x: x.add_(1) * 2, (ODD,)),
    (lambda x, y: torch.div(x, y, rounding_mode="floor"), (torch.ones(4, 3), torch.ones(3, 4).T)),
    (lambda x, y: F.huber_loss(x, y, reduction="none"), (TURNED, TURNED.expand(1, 3, 4, 2) + 1)),
    (F.smooth_l1_loss, (torch.ones(4, 3), torch.zeros(4, 3))),
    (F.mse_loss, (torch.ones(1, 3), torch.zeros(1, 3))),
    (lambda x, y: F.smooth_l1_loss(x, y, reduction="none"), (TURNED, TURNED + 1)),
    (lambda g, x: torch.ops.aten.threshold_backward(g, x, 0.0), (torch.ones(3, 4), torch.ones(4, 3).T)),
    (lambda g, x: torch.ops.aten.leaky_relu_backward(g, x, 0.1, False), (torch.ones(3, 4), torch.ones(4, 3).T)),
    (lambda g, x: torch.ops.aten.native_dropout_backward(g, x > 0, 2.0), (ROW, torch.ones(1, 4))),
    (
        lambda g, x, y: torch.ops.aten.binary_cross_entropy_backward(g, x, y),
        (torch.tensor(1.0), torch.rand(4, 3).T, torch.rand(3, 4)),
    ),
]


def strides(results: Any) -> list[tuple[int, ...]]:
    return [t.stride() for t in ([results] if isinstance(results, torch.Tensor) else results)]


def copy(t: torch.Tensor) -> torch.Tensor:
    return torch.empty_strided(t.shape, t.stride(), dtype=t.dtype).copy_(t)


@pytest.mark.parametrize(("f", "args"), CASES)
def test_fake_tensors(f: Callable[..., Any], args: tuple[torch.Tensor, ...]) -> None:
    expected = f(*map(copy, args))
    mode = FakeTensorMode()
    given = [mode.from_tensor(copy(t)) for t in args]
    with right_fakes(), mode:
        found = f(*given)
    assert strides(found) == strides(expected)


@pytest.mark.parametrize("dynamic", [False, True])
def test_compiled(dynamic: bool) -> None:
    def f(odd: torch.Tensor, turned: torch.Tensor, empty: torch.Tensor, row: torch.Tensor) -> list[torch.Tensor]:
        sums = [x + 1 for x in (odd, turned, empty, row)]
        zeros = [torch.zeros_like(x) for x in (odd, turned, empty, row)]
        return [
            *sums,
            *zeros,
            F.gelu(odd),
            odd.flip(0),
            sums[0].unsqueeze(1),
            sums[1].mT,
            row * turned[..., :1],
            2.0**turned,
        ]

    args = ODD, TURNED, EMPTY, ROW
    expected = f(*args)
    found = torch.compile(f, backend="lamella", dynamic=dynamic)(*args)
    assert strides(found) == strides(expected)
    torch.testing.assert_close(found, expected)


def test_entry_without_frames() -> None:
    compiled = lamella.compile(lambda x: (x + 1, torch.zeros_like(x)), fullgraph=True)
    for _ in range(3):
        assert strides(compiled(ODD)) == [(4, 12, 1), (4, 7, 1)]


def test_other_sizes() -> None:
    compiled = torch.compile(lambda x: x + 1, backend="lamella", dynamic=True)
    for n in (3, 5, 8):
        x = torch.arange(4.0 * n).as_strided((n, 1, 4), (4, 7, 1))
        assert compiled(x).stride() == (x + 1).stride() == (4, 4 * n, 1)


@pytest.mark.parametrize("shape", [(1, -1), (-1, 1), (1, 1, -1, 1)])
def test_views_of_other_sizes(shape: tuple[int, ...]) -> None:
    """A dim of one element goes on from the dims after it, whatever its stride was."""
    compiled = torch.compile(lambda x: (x.view(shape), (x + 1).unflatten(1, shape)), backend="lamella", dynamic=True)
    for n in (8, 5):
        x = torch.arange(3.0 * n).as_strided((1, n), (3, 3))
        assert strides(compiled(x)) == strides((x.view(shape), (x + 1).unflatten(1, shape)))


def test_training() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return (x + 1).sin() * 2

    ours, theirs = (copy(ODD).requires_grad_() for _ in range(2))
    found, expected = torch.compile(f, backend="lamella")(ours), f(theirs)
    assert found.stride() == expected.stride()
    found.sum().backward()
    expected.sum().backward()
    torch.testing.assert_close(ours.grad, theirs.grad)


def test_exported() -> None:
    exported = torch.export.export(Plus(), (ODD,))
    assert "-> !sym.t<[3, 1, 4], f32, strides=[4, 12, 1]>" in str(lamella.capture(exported))


class Plus(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1
