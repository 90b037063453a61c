"""A row with a NaN is NaN where it is in eager, though what is only taken from all numbers of a softmax's row, their
largest, is found without a search for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import lamella

INF, NAN = float("inf"), float("nan")


def rows(dtype: torch.dtype, n: int) -> Tensor:
    """Numbers of one sign, of both, large ones and infinities; with a NaN, of either sign, here and there."""
    numbers = torch.rand(n, generator=torch.Generator().manual_seed(0), dtype=torch.float64) + 0.1
    found: list[Tensor] = []
    for base in (numbers, -numbers, numbers - 0.6, numbers * 1e30, torch.full((n,), -INF), torch.full((n,), INF)):
        for value in (NAN, -NAN, INF, -INF):
            for where in (slice(0), slice(0, 1), slice(37, 38), slice(n - 1, n), slice(1, n), slice(n)):
                row = base.to(dtype)
                row[where] = value
                found.append(row)
    return torch.stack(found)


def parts(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    weights = torch.exp(x - x.amax(-1, True))
    return weights, weights.sum(-1), weights / weights.sum(-1, True)


PROGRAMS: dict[str, Callable[[Tensor], Any]] = {
    "softmax": lambda x: F.softmax(x, -1),
    "log_softmax": lambda x: F.log_softmax(x, -1),
    "of columns": lambda x: F.softmax(x.t(), 0),
    "log_softmax of columns": lambda x: F.log_softmax(x.t(), 0),
    "and the largest": lambda x: (F.softmax(x, -1), x.amax(-1)),
    "logsumexp": lambda x: torch.logsumexp(x, -1),
    "written out": lambda x: torch.exp(x - x.amax(-1, True)) / torch.exp(x - x.amax(-1, True)).sum(-1, True),
    "its parts": parts,
    "a loss": lambda x: F.cross_entropy(x, torch.arange(len(x)) % x.shape[1], reduction="none"),
    "masked": lambda x: F.softmax(x.masked_fill(x < 0, -INF), -1) @ torch.ones(x.shape[1], 3, dtype=x.dtype),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("program", PROGRAMS)
def test_rows_with_nan(program: str, dtype: torch.dtype) -> None:
    f = PROGRAMS[program]
    for n in (96, 71):
        x = rows(dtype, n)
        torch._dynamo.reset()
        got, expected = lamella.compile(f, fullgraph=True)(x), f(x)
        for a, e in zip(*((v if isinstance(v, tuple) else (v,)) for v in (got, expected)), strict=True):
            assert torch.equal(a.isnan(), e.isnan())
            torch.testing.assert_close(a, e, equal_nan=True)
