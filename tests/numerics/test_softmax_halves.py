"""A softmax that is rounded to 16 bits is eager's but for one rounding, and no further from the truth, whatever a row has."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import lamella

INF, NAN = float("inf"), float("nan")
ROWS = {
    "plain": [0.0, 1.0, -2.5, 3.0],
    "equal": [-7.0, -7.0, -7.0, -7.0],
    "masked": [1.0, -INF, 0.5, -INF],
    "all masked": [-INF, -INF, -INF, -INF],
    "inf": [1.0, INF, 0.0, 2.0],
    "NaN": [1.0, NAN, 0.0, 2.0],
    "other NaN": [1.0, -NAN, -INF, 2.0],
    "far": [100.0, -30.0, 3.0, 99.0],
    "below": [-200.0, -203.5, -300.0, -201.0],
    "large": [2.0**29, 2.0**29 - 2.0**21, 0.0, 2.0**28],
    "larger": [2.0**30, 2.0**30, -(2.0**30), 2.0**29],
    "largest": [3.3e38, 3.3e38, -3.3e38, 3.2e38],
    "least": [-3.3e38, -3.3e38, -3.2e38, -3.3e38],
    "fill": [3.0, -3.3895e38, 2.0, -1e9],
}


def rows(kind: list[float], n: int, dtype: torch.dtype) -> Tensor:
    """Rows that begin and end with these numbers, between such as are no larger than the least finite one."""
    least = min((v for v in kind if abs(v) < 1e30), default=kind[0])
    middle = torch.full((3, n - 4), least) - torch.rand(3, n - 4, generator=torch.Generator().manual_seed(0)) * 8
    ends = torch.tensor([kind] * 3)
    return torch.cat([ends[:, :2], middle, ends[:, 2:]], 1).to(dtype)


PROGRAMS: dict[str, Callable[[Tensor], Tensor]] = {
    "alone": lambda x: F.softmax(x, -1),
    "of products": lambda x: F.softmax(x.float() * 0.37, -1).to(x.dtype),
    "of columns": lambda x: F.softmax(x.t(), 0).t(),
}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("program", PROGRAMS)
def test_rows(program: str, dtype: torch.dtype) -> None:
    f = PROGRAMS[program]
    for n in (64, 1000):
        x = torch.cat([rows(kind, n, dtype) for kind in ROWS.values()])
        torch._dynamo.reset()
        got, expected = lamella.compile(f, fullgraph=True)(x), f(x)
        assert torch.equal(got.isnan(), expected.isnan())
        assert torch.equal(got == 1, expected == 1)
        real = ~expected.isnan()
        bits = [v[real].view(torch.int16).int() for v in (got, expected)]
        assert int((bits[0] - bits[1]).abs().max()) <= 1


def nan_rows(dtype: torch.dtype) -> Tensor:
    """Numbers of one sign, of both and infinities, with a NaN of either sign somewhere, in all places or nowhere."""
    quiet = 0x7FC0 if dtype == torch.bfloat16 else 0x7E00
    found: list[Tensor] = []
    for n in (96, 71):
        numbers = torch.rand(n, generator=torch.Generator().manual_seed(0)) + 0.1
        for base in (numbers, -numbers, numbers - 0.6, torch.full((n,), -INF), torch.full((n,), INF)):
            for bits in (quiet, quiet - 0x8000):  # without and with a sign
                for where in (slice(0), slice(0, 1), slice(37, 38), slice(n - 1, n), slice(1, n), slice(n)):
                    row = torch.full((96,), -INF).to(dtype)
                    row[:n] = base.to(dtype)
                    row[:n].view(torch.int16)[where] = bits
                    found.append(row)
    return torch.stack(found)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("program", PROGRAMS)
def test_nan_of_either_sign(program: str, dtype: torch.dtype) -> None:
    """Also where the largest of a row is asked for beside the softmax."""
    f = PROGRAMS[program]

    def both(x: Tensor) -> tuple[Tensor, Tensor]:
        return f(x), x.amax(-1)

    x = nan_rows(dtype)
    torch._dynamo.reset()
    got = (lamella.compile(f, fullgraph=True)(x), *lamella.compile(both, fullgraph=True)(x))
    expected = (f(x), *both(x))
    for a, e in zip(got, expected, strict=True):
        assert torch.equal(a.isnan(), e.isnan())
        torch.testing.assert_close(a, e, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_is_no_further_from_the_truth(dtype: torch.dtype) -> None:
    x = (torch.randn(64, 1024, generator=torch.Generator().manual_seed(0)) * 3).to(dtype)
    torch._dynamo.reset()
    got, expected, exact = (
        lamella.compile(F.softmax, fullgraph=True)(x, -1),
        F.softmax(x, -1),
        F.softmax(x.double(), -1),
    )
    errors = [float(((v.double() - exact) / exact).square().mean().sqrt()) for v in (got, expected)]
    assert errors[0] <= 1.02 * errors[1]
