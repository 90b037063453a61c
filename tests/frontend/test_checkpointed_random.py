"""Random operators under `torch.utils.checkpoint`: the backward gets the numbers of the forward again, and both are
compiled as a whole.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import lamella

pytestmark = pytest.mark.usefixtures("compiled")


def regions(f: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return lambda *args: checkpoint(f, *args, use_reentrant=False)  # pyright: ignore


OPERATORS: dict[str, Callable[[Tensor], Tensor]] = {
    "dropout": lambda x: F.dropout(x.sin(), 0.5).exp(),
    "rand_like": lambda x: (x * torch.rand_like(x)).exp(),
    "randn": lambda x: (x * torch.randn(x.shape)).exp(),
    "bernoulli": lambda x: (x * torch.bernoulli(x.detach().abs().clamp(0, 1))).exp(),
    "randint": lambda x: (x * torch.randint(0, 5, x.shape)).exp(),
    "exponential": lambda x: (x * torch.empty_like(x).exponential_()).exp(),
    "multinomial": lambda x: (x * torch.multinomial(torch.ones(x.shape[0], 7), x.shape[1], replacement=True)).exp(),
    "twice": lambda x: F.dropout(F.dropout(x.sin(), 0.5).cos(), 0.3).exp(),
    "rrelu": lambda x: F.rrelu(x, training=True).exp(),
}


def given(f: Callable[[Tensor], Tensor], x: Tensor, seed: int, **options: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Result, gradient, and the next number of the generator."""
    torch.manual_seed(seed)
    out = f(x)
    between = torch.rand(1)
    (gradient,) = torch.autograd.grad(out.sum(), x)
    return out, gradient, torch.cat([between, torch.rand(1)])


@pytest.mark.parametrize("name", OPERATORS)
def test_eagers_numbers_are_drawn_again(name: str) -> None:
    f = regions(OPERATORS[name])
    g = lamella.compile(f, fullgraph=True, options={"random": "eager"})
    x = torch.rand(8, 40, requires_grad=True)
    for seed in (0, 1):
        for ours, theirs in zip(given(g, x, seed), given(f, x, seed), strict=True):
            torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("name", OPERATORS)
def test_the_backward_is_that_of_the_forward(name: str) -> None:
    g = lamella.compile(regions(OPERATORS[name]), fullgraph=True)
    x = (-torch.rand(8, 40) - 0.1).requires_grad_()
    out, gradient, after = given(g, x, 0)
    again, _, after_again = given(g, x, 0)
    other, *_ = given(g, x, 1)
    assert torch.equal(out, again) and torch.equal(after, after_again) and not torch.equal(out, other)
    if name in ("dropout", "twice"):
        kept = (out != 1) & ((out.log() * 0.7 - 1).abs() > 1e-5)  # the first one drops: cos(0) / 0.7
        assert 30 < kept.sum() < 300
        assert torch.equal(kept, gradient != 0)
    else:  # exp(c x): the gradient says what c was
        torch.testing.assert_close(gradient, out * out.log() / x)


def test_a_layer_under_checkpointing_draws_one_seed_per_dropout_and_saves_no_mask() -> None:
    layer = nn.Sequential(nn.Linear(16, 32), nn.Dropout(0.5), nn.Tanh(), nn.Linear(32, 16), nn.Dropout(0.5))
    told = str(lamella.explain(regions(layer), torch.randn(4, 16, requires_grad=True)))
    assert "runs eagerly" not in told
    assert told.count("aten.randint.low x1") == 1  # both at once, in the forward
    assert "aten.native_dropout" not in told.partition("saved for backward")[2].partition("computed again")[0]


def test_attention_without_dropout_needs_no_seed() -> None:
    def attend(q: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, q, q).sin()

    q = torch.randn(1, 2, 32, 16, requires_grad=True)
    ours = lamella.compile(regions(attend), fullgraph=True)(q)
    torch.testing.assert_close(torch.autograd.grad(ours.sum(), q), torch.autograd.grad(attend(q).sum(), q))


def test_sizes_are_symbols() -> None:
    g = lamella.compile(regions(OPERATORS["dropout"]), fullgraph=True, dynamic=True)
    for n in (3, 8, 100):
        x = (torch.rand(n, 40) + 0.1).requires_grad_()
        out, gradient, _ = given(g, x, n)
        assert torch.equal(out != 1, gradient != 0)
