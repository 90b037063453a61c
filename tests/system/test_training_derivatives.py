"""Backwards as graphs of their own, derivatives of derivatives, and transforms of functions."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch._dynamo import compiled_autograd
from torch._dynamo.utils import counters
from torch.autograd import forward_ad

from .test_training import Compile, check, lamella, state

pytestmark = pytest.mark.usefixtures("fresh")


def test_compiled_autograd_with_hooks() -> None:
    """The backward as one graph: a hook that scales a gradient, one after accumulation, one on a module."""
    calls: list[str] = []

    def triple(parameter: Tensor) -> None:
        assert parameter.grad is not None
        parameter.grad.mul_(3)

    def program(compile: Compile) -> Any:
        model = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 3))
        first: Any = model[0]
        first.weight.register_hook(lambda g: g * 2)
        first.bias.register_post_accumulate_grad_hook(triple)
        model[2].register_full_backward_hook(lambda m, given, made: calls.append("backward"))
        forward = compile(model)
        seen: list[Any] = []
        for _ in range(3):
            model.zero_grad()
            x = torch.randn(5, 6)
            if compile is lamella:
                with compiled_autograd._enable(lamella):
                    forward(x).square().sum().backward()
            else:
                forward(x).square().sum().backward()
            seen.append(state(model))
        return seen

    counters.clear()
    check(program)
    assert counters["compiled_autograd"]["captures"] == 1
    assert calls == ["backward"] * 6


def test_a_gradient_penalty_inside_what_is_compiled() -> None:
    """The inner gradient by torch.func, where AOTAutograd sees both."""

    def program(compile: Compile) -> Any:
        w = torch.randn(4, 4, requires_grad=True)

        @compile
        def f(x: Tensor) -> Tensor:
            return torch.func.grad(lambda x: (x @ w).sin().sum())(x).square().sum()

        return torch.autograd.grad(f(torch.randn(3, 4)), w)

    check(program)


def energy(x: Tensor) -> Tensor:
    return (x.sin() * x.flip(0)).sum() + torch.logsumexp(x, 0)


def field(x: Tensor) -> Tensor:
    return torch.softmax(x * x.roll(1), 0)


TRANSFORMS: dict[str, Callable[[Tensor], Any]] = {
    "grad": lambda x: torch.func.grad(energy)(x[0]),
    "vmap of grad": lambda x: torch.func.vmap(torch.func.grad_and_value(energy))(x),
    "jacrev": lambda x: torch.func.jacrev(field)(x[0]),
    "jacfwd": lambda x: torch.func.jacfwd(field)(x[0]),
    "hessian": lambda x: torch.func.hessian(energy)(x[0]),
    "jvp": lambda x: torch.func.jvp(field, (x[0],), (x[1],)),
    "vjp": lambda x: torch.func.vjp(field, x[0])[1](x[1]),
    "grad of grad": lambda x: torch.func.grad(lambda y: torch.func.grad(energy)(y).square().sum())(x[0]),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_function_transforms(name: str) -> None:
    def program(compile: Compile) -> Any:
        return compile(TRANSFORMS[name])(torch.randn(3, 5, dtype=torch.float64))

    check(program)


def test_gradients_per_sample() -> None:
    def program(compile: Compile) -> Any:
        model, x, y = nn.Linear(5, 3), torch.randn(4, 5), torch.randint(3, (4,))
        parameters = {n: p.detach() for n, p in model.named_parameters()}

        def loss(parameters: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
            return F.cross_entropy(torch.func.functional_call(model, parameters, (x[None],)), y[None])

        return compile(torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0)))(parameters, x, y)

    check(program)


def test_a_backward_inside_what_is_compiled_breaks_the_graph_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TorchDynamo is on when that backward is compiled and stored, and traces nothing of the compiler."""
    for variable in ("TORCHINDUCTOR_CACHE_DIR", "LAMELLA_CACHE_DIR"):
        monkeypatch.setenv(variable, str(tmp_path))
    w = torch.randn(3, requires_grad=True)

    def step(x: Tensor) -> None:
        (x * w).sin().sum().backward()

    found: list[set[str]] = []
    stored: list[int] = []
    for compiled in (*(torch.compile(step, backend=b) for b in ("aot_eager", "lamella")), lamella(step)):
        torch._dynamo.reset()
        counters.clear()
        compiled(torch.randn(3))
        found.append(set(counters["graph_break"]))
        stored.append(counters["aot_autograd"]["autograd_cache_saved"])
    assert len(found[0]) == 1
    assert found == [found[0]] * 3
    assert stored == [0, 1, 0]


def test_many_gradients_at_once() -> None:
    """A backward in torch's own vmap; the tangent of the second result is none, and what is saved may be written."""

    def program(compile: Compile) -> Any:
        w = torch.randn(4, 4, requires_grad=True)

        @compile
        def f(x: Tensor) -> tuple[Tensor, Tensor]:
            y = (x @ w).exp()
            return y * torch.softmax(y, 0), x.cos()

        x = torch.randn(4, requires_grad=True)
        y, z = f(x)
        several = torch.autograd.grad(y, (x, w), torch.eye(4)[1:], is_grads_batched=True, retain_graph=True)
        both = torch.autograd.grad((y, z), x, (torch.eye(4), torch.ones(4, 4)), is_grads_batched=True)
        jacobian = torch.autograd.functional.jacobian(lambda x: f(x)[0], torch.randn(4), vectorize=True)
        return several, both, jacobian

    check(program)


def test_many_gradients_in_a_thread_of_its_own() -> None:
    """As torch computes derivatives on a GPU: that thread does not know of a vmap."""
    f = torch.compile(lambda x: x.sin() * x, backend="lamella")
    x = torch.randn(4, requires_grad=True)
    rows = torch.eye(4)

    class Apart(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, y: Tensor) -> Tensor:
            return y.clone()

        @staticmethod
        def backward(ctx: Any, *gradients: Tensor) -> Any:
            found: list[Any] = []

            def run() -> None:
                (y,) = torch.autograd.grad(f(x), x, gradients)
                found.append(y)

            thread = threading.Thread(target=run)
            thread.start()
            thread.join()
            return found[0]

    found = torch.autograd.grad(Apart.apply(x), x, rows, is_grads_batched=True)[0]
    torch.testing.assert_close(found, torch.diag(x.cos() * x + x.sin()).detach())


def test_derivatives_in_forward_mode() -> None:
    """They go through what is compiled, whether that has been called without them or not."""

    def program(compile: Compile) -> Any:
        f, x, direction = compile(lambda x: x.sin() * x), torch.randn(3), torch.randn(3)
        seen = [f(x)]
        for _ in range(2):
            with forward_ad.dual_level():
                seen += forward_ad.unpack_dual(f(forward_ad.make_dual(x, direction)))
            seen.append(f(x))
        return seen

    check(program)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_classes_after_the_first_that_is_none(reduction: str) -> None:
    """torch's own decomposition of this loss counts them as class 0, and has a dim more for one row."""

    def program(compile: Compile) -> Any:
        seen: list[Any] = []
        for target in (
            torch.tensor([[3, 0, -1, 1], [0, -1, 1, 2], [2, 3, 1, 0]]),
            torch.tensor([1, -1, 0, 0]),
            torch.tensor(0),
        ):
            x = torch.randn(target.shape, requires_grad=True)
            loss = compile(nn.MultiLabelMarginLoss(reduction=reduction))(x, target)
            loss.sum().backward()
            seen += [loss, x.grad]
        return seen

    check(program)
