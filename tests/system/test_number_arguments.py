"""Numbers that are arguments: integers of any sign, where sizes are positive, and floats that are none."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import lamella

Program = Callable[[Tensor, Any], Any]

PROGRAMS: dict[str, Program] = {
    "abs": lambda x, n: x * abs(n),
    "max": lambda x, n: x * max(n, 0),
    "min": lambda x, n: x * min(n, 3),
    "quotient": lambda x, n: x * (n // 3) + n % 3,
    "divisor": lambda x, n: x * (7 // n) + 7 % n,
    "roll": lambda x, n: x.roll(n),
    "roll of rows": lambda x, n: x.view(2, 2).roll((n, 1 - n), (0, 1)),
    "power": lambda x, n: x.double() ** n,
    "clamp": lambda x, n: x.clamp(n, 9),
    "where": lambda x, n: torch.where(x > n, x, n),
    "diagonal": lambda x, n: torch.diag_embed(x, n),
    "tril": lambda x, n: torch.tril(x.view(2, 2), n),
    "slice": lambda x, n: x[n:],
    "new_full": lambda x, n: x.new_full((3,), n),
    "correction": lambda x, n: x.double().var(0, correction=n),
}


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch._dynamo.reset()
    yield


@pytest.mark.parametrize("numbers", [(7, 5, -5, -17, 2), (7, -5, 3, -17, 1), (-1, -9, 4, 1)])
@pytest.mark.parametrize("name", PROGRAMS)
def test_numbers_of_any_sign(name: str, numbers: tuple[int, ...]) -> None:
    """The second number makes a graph that the others take, where torch assumes nothing of it."""
    f, x = PROGRAMS[name], torch.arange(1, 5)
    compiled = lamella.compile(f, fullgraph=True)
    for n in numbers:
        torch.testing.assert_close(compiled(x, n), f(x, n), rtol=0, atol=0)


@pytest.mark.parametrize("f", [torch.floor_divide, torch.remainder, torch.fmod])
def test_a_divisor_that_becomes_zero(f: Callable[[Tensor, int], Tensor]) -> None:
    x = torch.arange(1, 5)
    compiled = lamella.compile(lambda x, n: f(x, n), fullgraph=True)
    for n in (7, -5, 3):
        assert torch.equal(compiled(x, n), f(x, n))
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        compiled(x, 0)


WRONG_LATER: dict[str, tuple[Program, tuple[float, ...]]] = {
    "celu": (lambda x, a: F.celu(x.double(), a), (2.5, 0.7, 0.0, -1.5)),
    "smooth_l1_loss": (lambda x, beta: F.smooth_l1_loss(x.double(), 2.0 * x, beta=beta), (2.5, 0.7, -1.5)),
    "sides that are cut": (lambda x, n: F.pad(x.view(2, 2), (n, -n)), (1, 2, -2, -1, 3, -3, 9)),
    "a dim": (lambda x, n: x.view(2, 2).double().softmax(n), (1, -2, 2, -3)),
    "a dim of logarithms": (lambda x, n: x.view(2, 2).double().log_softmax(n), (0, 3)),
    "dilation": (lambda x, n: F.conv1d(x.view(1, 1, 4).double(), x.new_ones(1, 1, 2).double(), dilation=n), (2, 3, 0)),
    "integers to a power": (lambda x, n: x**n, (2, 3, 5, -1, -2)),
}


_AS_DYNAMO_SAYS = pytest.mark.xfail(
    torch.__version__ < "2.13",
    strict=True,
    reason="an IndexError while torch 2.11 traces is an error of TorchDynamo's, whatever the backend",
)


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=_AS_DYNAMO_SAYS if n == "a dim of logarithms" else ()) for n in WRONG_LATER]
)
def test_what_is_wrong_at_a_later_call_raises(name: str, dynamic: bool | None) -> None:
    """As eager does, of whatever a graph was made for before."""
    (f, numbers), x = WRONG_LATER[name], torch.arange(1, 5)
    compiled = lamella.compile(lambda x, n: f(x, n), dynamic=dynamic)
    raised = 0
    for n in numbers:
        try:
            want = f(x, n)
        except (RuntimeError, IndexError) as theirs:
            raised += 1
            with pytest.raises(type(theirs)):
                compiled(x, n)
        else:
            torch.testing.assert_close(compiled(x, n), want)
    assert raised


@pytest.mark.parametrize("number", [lambda n: n * 2**62 % 7, lambda n: (n << 60) % 11, lambda n: n**20 % 7])
def test_numbers_of_more_than_64_bits(number: Callable[[int], int]) -> None:
    """Python's have as many as they need."""
    compiled, x = lamella.compile(lambda x, n: x + number(n), dynamic=True), torch.arange(3.0)
    for n in (276, 5, 1001):
        assert torch.equal(compiled(x, n), x + number(n))


def test_roll_by_sizes() -> None:
    """That of the first call says nothing of others."""

    def f(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        n, m = x.shape
        return x.roll(y.shape[0], 0), x.roll((n // 2, -(m // 2)), (0, 1)), x.roll((n - 6, -3), (0, 1))

    compiled = lamella.compile(f, fullgraph=True, dynamic=True)
    for n, m, k in ((8, 6, 3), (5, 4, 9), (9, 8, 10), (3, 2, 2)):
        x, y = torch.arange(n * m).view(n, m), torch.zeros(k)
        assert all(map(torch.equal, compiled(x, y), f(x, y)))


OF_FLOATS: dict[str, Program] = {
    "abs": lambda x, a: x * abs(a) + abs(a - 2),
    "elu": F.elu,
    "celu": F.celu,
    "std": lambda x, a: x.std(0, correction=a),
    "softmax": lambda x, a: (x * a).softmax(0),
    "logsumexp": lambda x, a: (x * a).logsumexp(0),
    "attention": lambda x, a: F.scaled_dot_product_attention(*[x.view(1, 1, 3, 2)] * 3, scale=a),
}


@pytest.mark.parametrize("name", OF_FLOATS)
def test_floats(name: str) -> None:
    f, x = OF_FLOATS[name], torch.tensor([0.0, -2.0, 3.0, -0.25, 0.7, 1.0])
    compiled = lamella.compile(lambda x, a: f(x, a), fullgraph=True)
    numbers = (2.5, 0.7, -1.5, math.inf, 1e30, *([] if name == "attention" else [math.nan]))  # eager's is 0 there
    for a in numbers:
        torch.testing.assert_close(compiled(x, a), f(x, a), equal_nan=True, msg=lambda text, a=a: f"{a}: {text}")
