"""What is computed in place is converted to the dtype it is written to, or raises where eager refuses that."""

from __future__ import annotations

import itertools
import logging
from typing import Any

import pytest
import torch
from torch import Tensor

import lamella


def _imul(x: Tensor, y: Any) -> Tensor:
    x *= y
    return x


def _isub_of_a_part(x: Tensor, y: Any) -> Tensor:
    x[:1] -= y
    return x


METHODS = {
    "add": lambda x, y: x.add_(y),
    "add with a factor": lambda x, y: torch.Tensor.add_(x, y, alpha=2),
    "sub": lambda x, y: x.sub_(y),
    "mul": lambda x, y: x.mul_(y),
    "logit": lambda x, y: x.logit_(),
    "ldexp": lambda x, y: x.ldexp_(y),
    "imul": _imul,
    "isub of a part": _isub_of_a_part,
}
DTYPES = (torch.bool, torch.int32, torch.float32)
OTHERS = (2, 2.5, 1j, torch.tensor([1, 2]), torch.tensor([0.5, 2]))


@pytest.mark.parametrize("method", METHODS)
def test_results_in_place(method: str) -> None:
    f = METHODS[method]
    for dtype, other in itertools.product(DTYPES, OTHERS):
        if method == "ldexp" and not isinstance(other, Tensor):
            continue
        torch._dynamo.reset()
        x, y = torch.tensor([1, 0]).to(dtype), torch.tensor([1, 0]).to(dtype)
        try:
            eager = f(x, other)
        except RuntimeError:
            with pytest.raises(RuntimeError):
                lamella.compile(f)(y, other)
        else:
            torch.testing.assert_close(lamella.compile(f)(y, other), eager, equal_nan=True)


def test_sizes_that_are_changed_in_place_afterwards(caplog: pytest.LogCaptureFixture) -> None:
    def f(x: Tensor) -> Tensor:
        y = x / 3
        y.mul_(x)
        return y.t_()

    x = torch.arange(6).view(2, 3)
    torch.testing.assert_close(lamella.compile(f)(x), f(x))
    assert not [r for r in caplog.records if r.name == "lamella" and r.levelno >= logging.WARNING]


LAID_OUT = {
    "cumsum": lambda v, x: v.cumsum_(0),
    "cumprod of a view": lambda v, x: (v[1:].cumprod_(1), v)[1],
    "of a view in another order": lambda v, x: (v.mT.cumsum_(0), v.mT.tril_())[1],
    "tril": lambda v, x: v.tril_(),
    "masked_fill": lambda v, x: v.masked_fill_(x > 0, 2.0),
    "index_add": lambda v, x: v.index_add_(0, torch.tensor([1, 0]), x[:2]),
    "renorm": lambda v, x: v.renorm_(2, 0, 1.0),
    "what changes strides": lambda v, x: v.t_().add_(1),
    "what changes strides alone": lambda v, x: v.transpose_(0, 1),
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("case", LAID_OUT)
def test_intermediates_lie_as_before(case: str, dynamic: bool) -> None:
    """Also where a new tensor of the same operator would lie otherwise; with derivatives too."""
    torch._dynamo.reset()

    def program(x: Tensor) -> Tensor:
        return LAID_OUT[case](-x, x)

    compiled = torch.compile(program, backend="lamella", fullgraph=True, dynamic=dynamic)
    x = torch.randn(4, 4).t().requires_grad_()
    with torch.no_grad():
        assert compiled(x).stride() == program(x).stride()
        torch.testing.assert_close(compiled(x), program(x))
    weights = torch.randn(4, 4)
    ours, eagers = ((f(x) * weights).sum() for f in (compiled, program))
    torch.testing.assert_close(*(torch.autograd.grad(y, x)[0] for y in (ours, eagers)))
