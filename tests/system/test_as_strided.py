"""`as_strided` sees the storage that eager's tensor lies in, from its beginning to its end: what is outside is an error,
also where the numbers that say so come with a later call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import lamella

Program = Callable[[Tensor, int], Tensor]

OWN: dict[str, Callable[[Tensor], Tensor]] = {
    "product": lambda x: x * 2,
    "copy": lambda x: x.clone(),
    "times one": lambda x: x * 1,
    "all of one part": lambda x: torch.cat([x, x[:0]]),
    "cut": lambda x: torch.nn.functional.pad(x, (-1, 0)),
    "no padding": lambda x: torch.nn.functional.pad(x, (0, 0)),
    "repeated": lambda x: x[:1].expand(5).contiguous(),
    "part that is copied": lambda x: torch.narrow_copy(x * 2, 0, 1, 4),
    "call": lambda x: x.cumsum(0),
    "part of a call": lambda x: x.cumsum(0)[1:],
    "part": lambda x: (x * 2)[1:4],
    "two views": lambda x: (x * 2)[1:].view(2, 2).t()[1],
    "real parts": lambda x: torch.complex(x, x * 3).real,
    "imaginary parts": lambda x: torch.complex(x, x * 3).imag,
    "bits": lambda x: (x * 2).view(torch.int32),
    "bits of a part": lambda x: (x * 2)[1:].view(torch.int32),
    "conjugates of a part": lambda x: torch.complex(x, x * 3)[2:].conj(),
    "argument": lambda x: x,
    "part of the argument": lambda x: x[1:3],
}
"""Of five elements that have others around them."""

SEEN: dict[str, Program] = {
    "offset": lambda y, n: y.as_strided((2, 2), (2, 1), n) * 3,
    "stride": lambda y, n: y.as_strided((2, 2), (n, 1), 1) * 3,
    "size": lambda y, n: y.as_strided((n, 2), (2, 1), 0) * 3,
    "copied": lambda y, n: torch.as_strided_copy(y, (2, 2), (2, 1), n),
    "scattered": lambda y, n: torch.as_strided_scatter(y, torch.ones_like(y.sum()).expand(2, 2), (2, 2), (2, 1), n),
    "itself": lambda y, n: y.as_strided((2, 2), (2, 1), n),
    "its own offset": lambda y, n: y.as_strided((n, 1), (2, 1)) + 1,
}

NUMBERS = (1, 0, 3, 2, 40, -2)


def check(f: Program, g: Callable[..., Any], x: Tensor, n: int) -> bool:
    """Whether it raises, as eager does."""
    try:
        expected = f(x, n)
    except RuntimeError:
        with pytest.raises(RuntimeError):
            g(x, n)
        return True
    found = g(x, n)
    assert found.stride() == expected.stride()
    torch.testing.assert_close(found, expected, rtol=0, atol=0)
    return False


OTHERWISE = [(own, seen) for own in ("product", "all of one part", "call", "part") for seen in SEEN if seen != "offset"]
"""torch's tracing refuses `as_strided_scatter` of a part beyond that."""


@pytest.mark.parametrize(
    ("own", "seen"), [*((own, "offset") for own in OWN), *(c for c in OTHERWISE if c != ("part", "scattered"))]
)
def test_what_is_outside_raises(own: str, seen: str) -> None:
    """The second number makes a graph that others take."""

    def f(x: Tensor, n: int) -> Tensor:
        return SEEN[seen](OWN[own](x), n)

    torch._dynamo.reset()
    compiled, x = lamella.compile(f), torch.arange(12.0)[2:7]
    raised = [check(f, compiled, x, n) for n in NUMBERS]
    assert True in raised and False in raised


@pytest.mark.parametrize("number", [1, 3, 40])
@pytest.mark.parametrize("own", ["product", "all of one part", "part", "call", "argument"])
def test_constants(own: str, number: int) -> None:
    def f(x: Tensor, n: int) -> Tensor:
        return OWN[own](x).as_strided((2, 2), (2, 1), number) * n

    torch._dynamo.reset()
    check(f, lamella.compile(f), torch.arange(12.0)[2:7], 3)


def test_the_message_is_eagers() -> None:
    def f(x: Tensor, n: int) -> Tensor:
        return (x * 2).as_strided((2, 2), (1, 1), n) * 2

    torch._dynamo.reset()
    compiled, x = lamella.compile(f, fullgraph=True, dynamic=True), torch.arange(12.0)
    assert torch.equal(compiled(x, 5), f(x, 5))
    with pytest.raises(RuntimeError, match=r"storage offset 40.* out of bounds for storage of size 48"):
        compiled(x, 40)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("own", ["product", "all of one part", "part", "part of a call"])
def test_gradients(own: str, dynamic: bool) -> None:
    def f(x: Tensor, n: int) -> Tensor:
        return (OWN[own](x).as_strided((2, 2), (2, 1), n) ** 2).sin()

    torch._dynamo.reset()
    compiled = lamella.compile(f, dynamic=dynamic)
    raised = 0
    for n in (1, 0, 3, 40):
        x = torch.arange(5.0, requires_grad=True)
        try:
            expected = torch.autograd.grad(f(x, n).sum(), x)
        except RuntimeError:
            raised += 1
            with pytest.raises(RuntimeError):
                compiled(x, n)
        else:
            torch.testing.assert_close(torch.autograd.grad(compiled(x, n).sum(), x), expected)
    assert raised


@pytest.mark.parametrize("own", ["product", "all of one part", "part", "cut", "part of a call"])
def test_writes(own: str) -> None:
    def f(x: Tensor, n: int) -> Tensor:
        y = OWN[own](x)
        y.as_strided((2,), (2,), n).mul_(y[0] + 1)
        return y

    torch._dynamo.reset()
    compiled, x = lamella.compile(f), torch.arange(12.0)[2:7]
    raised = [check(f, compiled, x, n) for n in NUMBERS]
    assert True in raised and False in raised


def test_what_surely_lies_within_is_no_call() -> None:
    """For any size."""

    def f(x: Tensor) -> Tensor:
        return (x * 2).as_strided((x.shape[0] - 1, 2), (1, 1)) * 3

    torch._dynamo.reset()
    x = torch.arange(9.0)
    torch._dynamo.mark_dynamic(x, 0)
    assert "0 calls into ATen" in str(lamella.explain(f, x))


@pytest.mark.parametrize("outside", [True, False])
def test_layers_that_repeat_themselves(outside: bool) -> None:
    """They are a function, where they look at no storage but that of their own."""

    def f(x: Tensor, w: Tensor) -> Tensor:
        first = torch.cat([x, x[:0]])
        for _ in range(4):
            y = (x @ w).relu().sin().cos().exp().neg().tanh().abs()
            seen = (first if outside else y.cumsum(0)).as_strided((1, 2), (1, 2), 1)
            x = y.mul(2).add(1).sigmoid().cos() + seen
        return x

    torch._dynamo.reset()
    memory = torch.randn(16)
    x, w = memory[3:7].view(2, 2), torch.randn(2, 2)
    torch.testing.assert_close(lamella.compile(f)(x, w), f(x, w))
