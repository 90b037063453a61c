"""Floats that a program is called with: the second value makes a symbol of them, and no other compiles again."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch._dynamo.utils import counters

foreach: Any = torch  # its foreach functions are not declared

PROGRAMS: dict[str, Callable[[Tensor, float], Any]] = {
    "product": lambda x, s: x * s,
    "product of integers": lambda x, s: x.long() * s,
    "product of halves": lambda x, s: x.bfloat16() * s,
    "difference": lambda x, s: s - x,
    "scaled sum": lambda x, s: torch.add(x, x, alpha=-s),
    "quotient": lambda x, s: s / x,
    "power": lambda x, s: x.abs() ** s,
    "exponential": lambda x, s: s**x,
    "comparison": lambda x, s: x > s,
    "branch": lambda x, s: x * 2 if s > 0.1 else x * 3,
    "clamp": lambda x, s: x.clamp(-s, s),
    "addcmul": lambda x, s: torch.addcmul(x, x, x, value=s),
    "addmm": lambda x, s: torch.addmm(x, x, x, alpha=s, beta=1 - s),
    "lerp": lambda x, s: torch.lerp(x, x * 2, s),
    "bias correction": lambda x, s: x * (1 - s**3) / math.sqrt(1 - s**2),
    "full": lambda x, s: torch.full((3,), s) + x.sum(),
    "new_full": lambda x, s: x.new_full((3,), s),
    "where": lambda x, s: torch.where(x > 0, s, x),
    "where of two": lambda x, s: torch.where(x > 0, s, -s),
    "masked_fill": lambda x, s: x.masked_fill(x > 0, s),
    "index_fill": lambda x, s: x.index_fill(0, torch.tensor([1]), s),
    "index_add": lambda x, s: x.index_add(0, torch.tensor([1]), x[:1], alpha=s),
    "scatter": lambda x, s: x.scatter(0, torch.tensor([[1, 2]]), s),
    "remainder of a number": lambda x, s: torch.remainder(s, x),
    "rsub": lambda x, s: torch.rsub(x, s, alpha=2),
    "remainder": lambda x, s: torch.remainder(x, s),
    "fmod": lambda x, s: torch.fmod(x, s),
    "floor": lambda x, s: torch.div(x, s, rounding_mode="floor"),
    "copysign": lambda x, s: torch.copysign(x, s),
    "elu": lambda x, s: F.elu(x, s),
    "celu": lambda x, s: F.celu(x, s),
    "leaky": lambda x, s: F.leaky_relu(x, s),
    "softplus": lambda x, s: F.softplus(x, s, 20 * s),
    "softshrink": lambda x, s: F.hardshrink(x, s),
    "hardtanh": lambda x, s: F.hardtanh(x, -s, s),
    "threshold": lambda x, s: F.threshold(x, s, -s),
    "norm": lambda x, s: torch.linalg.vector_norm(x, 1 + s),
    "linspace": lambda x, s: torch.linspace(0, s, 5),
    "arange": lambda x, s: torch.arange(0, s, s / 4.5),
    "isin": lambda x, s: torch.isin(x, s),
    "xlogy": lambda x, s: torch.xlogy(s, x.abs()),
    "foreach": lambda x, s: foreach._foreach_add([x, x * 2], [x, x], alpha=s),
    "foreach with a number each": lambda x, s: foreach._foreach_addcdiv([x, x], [x, x], [x + 9, x + 9], [s, -s]),
    "a result": lambda x, s: (x * 2, s * 2),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.usefixtures("fresh")
def test_a_float_is_a_symbol(name: str) -> None:
    counters.clear()
    f = PROGRAMS[name]
    compiled = torch.compile(f, backend="lamella", options={"cache": False})
    x = torch.randn(4, 4)
    for s in (0.25, 0.37, 0.61, 0.83):
        torch.testing.assert_close(compiled(x, s), f(x, s))
    assert counters["stats"]["unique_graphs"] == 2


COMPLEX: dict[str, Callable[[Tensor, float], Any]] = {
    "product": lambda x, s: x * s,
    "quotients": lambda x, s: (s / x, x / s),
    "scaled sums": lambda x, s: (torch.add(x, x.real, alpha=s), torch.rsub(x, x, alpha=s), x.clone().sub_(s)),
    "powers": lambda x, s: (x**s, s**x, x ** x.shape[0]),
    "products added": lambda x, s: (torch.addcmul(x, x, x, value=s), torch.addcdiv(x, x, x, value=s)),
    "lerp": lambda x, s: torch.lerp(x, x * 2, s),
    "full": lambda x, s: (torch.full((3,), s, dtype=x.dtype), x.new_full((3,), s), torch.full_like(x, s)),
    "where": lambda x, s: (torch.where(x.real > 0, s, x), x.masked_fill(x.real > 0, s), x == s),
    "indices": lambda x, s: (x.index_fill(0, torch.tensor([1]), s), x.index_add(0, torch.tensor([1]), x[:1], alpha=s)),
    "scatter": lambda x, s: (
        x.scatter(0, torch.tensor([[1, 2]]), s),
        x.scatter(0, torch.tensor([[1, 2]]), s, reduce="add"),
    ),
    "matrices": lambda x, s: torch.addmm(x, x, x, alpha=s, beta=1 - s),
    "reduced": lambda x, s: (torch.linalg.vector_norm(x, 1 + s), torch.nan_to_num(x, nan=s), x.sum() * x.shape[0]),
}
"""What a float does to complex tensors; a size is a number too."""


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", COMPLEX)
@pytest.mark.usefixtures("fresh")
def test_a_float_beside_complex_tensors(name: str, dynamic: bool | None) -> None:
    f = COMPLEX[name]
    compiled = torch.compile(f, backend="lamella", dynamic=dynamic, options={"cache": False})
    for n, s in enumerate((0.25, 0.37, 0.61)):
        x = torch.randn(4 + n * bool(dynamic), 4 + n * bool(dynamic), dtype=torch.complex64)
        torch.testing.assert_close(compiled(x, s), f(x, s))


@pytest.mark.usefixtures("fresh")
def test_a_float_that_torch_takes_for_a_constant() -> None:
    """AOTAutograd finds the graph of another value in its cache: it compares what TorchDynamo traced, where the float
    is a symbol, and sizes.
    """
    compiled = torch.compile(lambda xs, p: foreach._foreach_norm(xs, p), backend="lamella")
    xs = [torch.randn(4, 4), torch.randn(7)]
    for p in (2.0, 1.0, 0.5, 3.0, 0.0, 1.5):
        torch.testing.assert_close(compiled(xs, p), foreach._foreach_norm(xs, p))


@pytest.mark.usefixtures("fresh")
def test_values_that_are_not_finite() -> None:
    compiled = torch.compile(lambda x, s: (x * s, torch.add(x, x, alpha=s)), backend="lamella")
    x = torch.tensor([0.0, 1.0, -2.0])
    for s in (1.5, 2.5, math.inf, math.nan, -math.inf, -0.0, 3.5):
        torch.testing.assert_close(compiled(x, s), (x * s, torch.add(x, x, alpha=s)), equal_nan=True)
        assert torch.equal(torch.signbit(compiled(x, s)[0]), torch.signbit(x * s)) or math.isnan(s)


@pytest.mark.parametrize("number", [float, torch.tensor], ids=["float", "tensor"])
@pytest.mark.usefixtures("fresh")
def test_gradients_of_what_halves_are_multiplied_by(number: Callable[[float], Any]) -> None:
    """Eager rounds the gradient of x.bfloat16() * s to bf16 before it makes f32 of it, which is 0.002 off; so it is in
    "eager" numerics. Else nothing is rounded that is f32 in the end.
    """
    x, g = torch.randn(64, 64), torch.randn(64, 64)
    f = lambda x, s: x.bfloat16() * s  # noqa: E731

    def gradient(run: Callable[..., Tensor], s: Any) -> Tensor:
        mine = x.clone().requires_grad_()
        run(mine, s).backward(g.bfloat16())
        assert mine.grad is not None
        return mine.grad

    exact = torch.compile(f, backend="lamella", options={"cache": False})
    alike = torch.compile(lambda x, s: f(x, s), backend="lamella", options={"cache": False, "numerics": "eager"})
    for value in (0.25, 0.37, 1 / 3):
        s = number(value)
        torch.testing.assert_close(gradient(exact, s).double(), g.bfloat16().double() * float(s), rtol=1e-6, atol=0)
        assert torch.equal(gradient(alike, s), gradient(f, s))
        torch.testing.assert_close(gradient(f, s), gradient(exact, s), rtol=2**-8, atol=0)
