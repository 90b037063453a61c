"""Second derivatives of compiled functions: eager's, or an error that says why there are none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.autograd import functional
from torch.utils.checkpoint import checkpoint

import lamella

pytestmark = pytest.mark.usefixtures("fresh")


def wave(x: Tensor) -> Tensor:
    return x.sin() * x * x


def total(x: Tensor) -> Tensor:
    """Its backward needs one tensor that its forward makes, and no argument."""
    return wave(x).sum()


FUNCTIONAL: dict[str, Callable[[Callable[[Tensor], Tensor], Tensor], Any]] = {
    "hessian": lambda f, x: functional.hessian(lambda x: f(x).sum(), x),
    "hessian of all at once": lambda f, x: functional.hessian(lambda x: f(x).sum(), x, vectorize=True),
    "jacobian": lambda f, x: functional.jacobian(f, x, create_graph=True),
    "jvp": lambda f, x: functional.jvp(f, x, x.cos()),
    "vjp": lambda f, x: functional.vjp(f, x, f(x).detach().cos(), create_graph=True),
    "hvp": lambda f, x: functional.hvp(lambda x: f(x).sum(), x, x.cos()),
    "vhp": lambda f, x: functional.vhp(lambda x: f(x).sum(), x, x.cos()),
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", FUNCTIONAL)
@pytest.mark.parametrize("f", [wave, total])
def test_functional(f: Callable[[Tensor], Tensor], name: str, dynamic: bool) -> None:
    x = torch.randn(4)
    found, expected = FUNCTIONAL[name](lamella.compile(f, dynamic=dynamic, fullgraph=True), x), FUNCTIONAL[name](f, x)
    torch.testing.assert_close(found, expected)


def derivatives(f: Callable[[Tensor], Any], x: Tensor, order: int) -> list[Tensor]:
    """The first `order` derivatives of a sum of all results."""
    x = x.clone().requires_grad_()
    results = f(x)
    y = torch.stack([r.sum() for r in (results if isinstance(results, tuple) else (results,))]).sum()
    found: list[Tensor] = []
    for _ in range(order):
        found += torch.autograd.grad(y, x, create_graph=True)
        y = found[-1].square().sum()
    return found


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Tensor:
        (x,) = ctx.saved_tensors
        return 3 * x**2 * grad_outputs[0]


PROGRAMS: dict[str, Callable[[Tensor], Any]] = {
    "one result": wave,
    "several": lambda x: (x.sin(), x.exp().detach(), x * x),
    "views of what is made": lambda x: (lambda y: (y.view(2, 2), y[1:], y * x))(x.sin() * x),
    "a view of what is returned": lambda x: (lambda y: (y, y.view(2, 2)))(x.sin() * x),
    "views of an argument": lambda x: (x.view(2, 2), x.sin(), x),
    "a checkpoint": lambda x: checkpoint(wave, x.exp(), use_reentrant=False),
    "in place on what is made": lambda x: x.sin().mul_(x).add_(x.exp()),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_three_derivatives(name: str) -> None:
    x = torch.randn(4)
    found = derivatives(lamella.compile(PROGRAMS[name], fullgraph=True), x, 3)
    torch.testing.assert_close(found, derivatives(PROGRAMS[name], x, 3))


def test_a_penalty_of_gradients() -> None:
    """A training step whose loss has a gradient in it, with a graph break before the last layer, under autocast."""
    torch.manual_seed(0)
    x = torch.randn(8, 4)

    class Critic(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second, self.last = nn.Linear(4, 16), nn.Linear(16, 16), nn.Linear(16, 1)

        def forward(self, x: Tensor) -> Tensor:
            h = torch.tanh(self.first(x))
            torch._dynamo.graph_break()
            return self.last(torch.nn.functional.silu(self.second(h)))

    model = Critic()

    def step(f: Callable[[Tensor], Tensor], autocast: bool) -> list[Tensor]:
        y = x.clone().requires_grad_()
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            score = f(y)
        (slope,) = torch.autograd.grad(score.float().sum(), y, create_graph=True)
        loss = score.float().mean() + (slope.norm(dim=1) - 1).square().mean()
        return [*torch.autograd.grad(loss, [*model.parameters()])]

    for autocast in (False, True):
        rtol, atol = (0.05, 0.02) if autocast else (1e-5, 1e-6)
        torch.testing.assert_close(step(lamella.compile(model), autocast), step(model, autocast), rtol=rtol, atol=atol)


def test_a_gradient_of_other_arguments() -> None:
    def f(x: Tensor, y: Tensor, n: int) -> Tensor:
        return (x * y.exp() * n).sin()

    def second(f: Callable[..., Tensor]) -> list[Any]:
        tangent = torch.randn(3, generator=torch.Generator().manual_seed(1)).requires_grad_()
        (a,) = torch.autograd.grad(f(x, y, 5), x, tangent, create_graph=True)
        return [*torch.autograd.grad(a.sum(), (x, y, tangent))]

    x, y = torch.randn(3, requires_grad=True), torch.randn(3, requires_grad=True)
    torch.testing.assert_close(second(lamella.compile(f, dynamic=True)), second(f))


class Writes(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))
        self.calls: Tensor

    def forward(self, x: Tensor) -> Tensor:
        self.calls.add_(1)
        return total(x)


LOST: dict[str, tuple[Callable[[], Callable[[Tensor], Tensor]], str]] = {
    "random numbers": (lambda: lambda x: (wave(x) * torch.rand_like(x)).sum(), "it draws random numbers"),
    "a branch": (
        lambda: lambda x: torch.cond(x.sum() > 0, wave, torch.exp, (x,)).sum(),
        "eager has none of torch.cond",
    ),
    "a function of the user's": (
        lambda: lambda x: Cube.apply(wave(x)).sum(),
        "eager has none of a .*Function in a graph",
    ),
    "writes": (lambda: Writes(), "it writes its arguments"),
}


@pytest.mark.parametrize("name", LOST)
def test_what_is_lost_is_an_error(name: str) -> None:
    """And not a derivative of zero."""
    make, reason = LOST[name]
    with pytest.raises(RuntimeError, match=f"double backward of a compiled function: {reason}.*torch.func"):
        functional.hessian(lamella.compile(make()), torch.randn(4))


def exponential(x: Tensor) -> Tensor:
    """Its backward needs its result alone."""
    return x.exp()


def test_an_argument_that_was_written_since() -> None:
    x = torch.randn(4, requires_grad=True)
    y = lamella.compile(exponential)(x)
    with torch.no_grad():
        x.add_(1)
    (gradient,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="an argument was written since"):
        torch.autograd.grad(gradient.sum(), x)


def test_an_argument_that_is_gone() -> None:
    """Nothing keeps it for a second derivative, and what it was made of is reached by the error."""
    x = torch.randn(4, requires_grad=True)
    y = lamella.compile(exponential)(x * 2)
    (gradient,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="an argument is gone"):
        torch.autograd.grad(gradient.sum(), x, allow_unused=True)
