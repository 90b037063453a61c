"""log_softmax of training steps: the backward gets two numbers a row, and results are eager's."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from lamella.frontend.partition import Choice


def loss(x: Tensor, w: Tensor, t: Tensor) -> Tensor:
    return F.cross_entropy((x @ w).float(), t, ignore_index=3)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_gradients_are_eagers(dtype: torch.dtype, choices: list[Choice]) -> None:
    torch.manual_seed(0)
    x, w = (torch.randn(*s).to(dtype).requires_grad_() for s in ((40, 32), (32, 500)))
    t = torch.randint(0, 500, (40,))
    t[5] = 3
    fast = torch.compile(loss, backend="lamella", options={"cache": False})
    ours, wanted = (torch.autograd.grad(f(x, w, t), (x, w)) for f in (fast, loss))
    torch.testing.assert_close(ours, wanted)
    (choice,) = choices
    names = [str(n.target) for n in (*choice.saved, *choice.recomputed)]
    assert dtype == torch.float64 or "aten.amax.default" in names
    assert not any("_log_softmax" in name for name in names)


def test_eager_numerics_keep_the_operator(choices: list[Choice]) -> None:
    x, w = (torch.randn(*s, requires_grad=True) for s in ((40, 32), (32, 500)))
    fast = torch.compile(loss, backend="lamella", options={"cache": False, "numerics": "eager"})
    torch.autograd.grad(fast(x, w, torch.randint(0, 500, (40,))), (x, w))
    (choice,) = choices
    assert "aten.amax.default" not in [str(n.target) for n in (*choice.saved, *choice.recomputed)]


@pytest.mark.parametrize("values", [(1e4, 1e4 - 1), (float("-inf"), 2.0), (float("nan"), 1.0), (float("inf"), 0.0)])
def test_values_at_the_edge(values: tuple[float, float]) -> None:
    """As exact as eager's for large logits; infinities and NaN as there."""

    def program(x: Tensor) -> Tensor:
        return F.log_softmax(x, -1)

    torch._dynamo.reset()
    x = torch.tensor([[*values, 0.5], [0.0, *values]], requires_grad=True)
    fast = torch.compile(program, backend="lamella", options={"cache": False})
    found: list[tuple[Tensor, Tensor]] = []
    for f in (fast, program):
        y = f(x)
        found.append((y.detach(), *torch.autograd.grad(y, x, torch.ones_like(y) * 0.5)))
    torch.testing.assert_close(found[0], found[1], equal_nan=True)


def test_no_rows_and_symbolic_sizes() -> None:
    torch._dynamo.reset()
    fast = torch.compile(lambda x: F.log_softmax(x, 0).sum(), backend="lamella", options={"cache": False}, dynamic=True)
    for shape in ((0, 3), (4, 3), (7, 5), (2, 0)):
        x = torch.randn(shape, requires_grad=True)
        y, z = fast(x), F.log_softmax(x, 0).sum()
        torch.testing.assert_close(y, z)
        torch.testing.assert_close(torch.autograd.grad(y, x), torch.autograd.grad(z, x))
