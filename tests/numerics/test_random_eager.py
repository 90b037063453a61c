"""With `random="eager"`: eager's numbers, and torch's generator where eager leaves it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

P = torch.rand(4, 6, generator=torch.Generator().manual_seed(0))
X = torch.randn(5, 7, generator=torch.Generator().manual_seed(0))
F = torch.nn.functional

DRAWS: dict[str, Callable[[], Any]] = {
    "rand": lambda: torch.rand(3, 4),
    "randn": lambda: torch.randn(33),
    "randint": lambda: torch.randint(3, 50, (9,)),
    "randperm": lambda: torch.randperm(17),
    "bernoulli": lambda: torch.bernoulli(P),
    "multinomial": lambda: (torch.multinomial(P, 3), torch.multinomial(P, 9, True)),
    "normal": lambda: (torch.normal(X, 0.5), torch.normal(X, X.abs())),
    "exponential": lambda: X.clone().exponential_(1.5),
    "cauchy": lambda: X.clone().cauchy_(),
    "log_normal": lambda: X.clone().log_normal_(),
    "geometric": lambda: X.clone().geometric_(0.3),
    "uniform": lambda: X.clone().uniform_(-1, 2),
    "random": lambda: torch.empty(5, dtype=torch.int64).random_(),
    "dropout": lambda: F.dropout(X, 0.3),
    "alpha_dropout": lambda: F.alpha_dropout(X, 0.4),
    "rrelu": lambda: F.rrelu(X, training=True),
    "one after the other": lambda: (torch.rand(3) + torch.randn(3), torch.randperm(5)),
}


@pytest.mark.parametrize("name", DRAWS)
def test_eagers_numbers(name: str) -> None:
    f = DRAWS[name]
    torch.compiler.reset()
    compiled = torch.compile(f, backend="lamella", options={"random": "eager", "strict": True})
    found: list[Any] = []
    for g in (f, compiled):
        torch.manual_seed(5)
        found.append((g(), g(), torch.get_rng_state()))
    (a, b, state), (c, d, after) = found
    for want, got in ((a, c), (b, d)):
        for w, t in zip(*(v if isinstance(v, tuple) else (v,) for v in (want, got)), strict=True):
            torch.testing.assert_close(t, w, rtol=0, atol=0)
    assert torch.equal(state, after)
