"""Steps of optimizers over many parameters: compiled they are what they are in eager, and few launches."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn, optim

import lamella

pytestmark = pytest.mark.usefixtures("fresh")

SHAPES = [(40, 33), (33,), (16, 64), (64,), (), (0, 4), (3, 5, 7), (128, 128)]


class Lion(optim.Optimizer):
    """Written by a user: signs of a running mean (Chen et al., 2023)."""

    def __init__(self, params: Any, lr: float, betas: tuple[float, float], weight_decay: float) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        for group in self.param_groups:
            (a, b), lr = group["betas"], group["lr"]
            for p in group["params"]:
                mean = self.state[p].setdefault("mean", torch.zeros_like(p))
                p.mul_(1 - lr * group["weight_decay"])
                p.sub_(torch.sign(mean * a + p.grad * (1 - a)), alpha=lr)
                mean.mul_(b).add_(p.grad, alpha=1 - b)


CASES: dict[str, tuple[Callable[..., optim.Optimizer], dict[str, Any]]] = {
    "sgd": (optim.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
    "sgd foreach": (optim.SGD, {"lr": 0.1, "momentum": 0.9, "dampening": 0.1, "maximize": True, "foreach": True}),
    "adam": (optim.Adam, {"lr": 0.01, "amsgrad": True, "weight_decay": 0.1}),
    "adam foreach": (optim.Adam, {"lr": 0.01, "maximize": True, "foreach": True}),
    "adam tensor lr": (optim.Adam, {"lr": torch.tensor(0.01), "foreach": False}),
    "adamw": (optim.AdamW, {"lr": 0.01, "amsgrad": True, "maximize": True}),
    "adamw foreach": (optim.AdamW, {"lr": 0.01, "foreach": True}),
    "rmsprop": (optim.RMSprop, {"lr": 0.01, "centered": True, "momentum": 0.9, "weight_decay": 0.1}),
    "adagrad foreach": (optim.Adagrad, {"lr": 0.1, "lr_decay": 0.1, "weight_decay": 0.1, "foreach": True}),
    "lion": (Lion, {"lr": 0.01, "betas": (0.9, 0.99), "weight_decay": 0.1}),
}


@pytest.fixture(autouse=True)
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def parameters(dtypes: tuple[torch.dtype, ...]) -> list[nn.Parameter]:
    torch.manual_seed(0)
    return [nn.Parameter(torch.randn(s, dtype=dtypes[i % len(dtypes)])) for i, s in enumerate(SHAPES)]


def after_steps(
    make: Callable[..., optim.Optimizer],
    settings: dict[str, Any],
    compiled: bool,
    dtypes: tuple[torch.dtype, ...] = (torch.float32,),
) -> list[Any]:
    """Parameters and the optimizer's state after each of three steps; every dtype is rounded to where eager does."""
    params = parameters(dtypes)
    optimizer = make(params, **copy.deepcopy(settings))
    options = {"strict": True, "numerics": "eager"}
    step: Any = torch.compile(optimizer.step, backend="lamella", options=options) if compiled else optimizer.step
    seen: list[Any] = []
    for _ in range(3):
        for p in params:
            p.grad = torch.randn_like(p)
        step()
        states: list[dict[str, Tensor]] = [optimizer.state[p] for p in params]
        seen.append(copy.deepcopy(([p.detach() for p in params], [dict(sorted(s.items())) for s in states])))
    return seen


@pytest.mark.parametrize("name", CASES)
def test_steps(name: str) -> None:
    wanted, got = (after_steps(*CASES[name], compiled) for compiled in (False, True))
    torch.testing.assert_close(got, wanted)


def test_dtypes_together() -> None:
    """Parameters of several dtypes, in one list."""
    dtypes = (torch.float32, torch.float64, torch.bfloat16)
    settings = {"lr": 0.125, "momentum": 0.5}  # numbers that bf16 has
    wanted, got = (after_steps(optim.SGD, settings, compiled, dtypes) for compiled in (False, True))
    torch.testing.assert_close(got, wanted)


def test_a_rate_that_changes_does_not_compile_again() -> None:
    params = parameters((torch.float32,))
    optimizer = optim.Adam(params, lr=torch.tensor(0.1), foreach=False)
    schedule = optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    step: Any = torch.compile(optimizer.step, backend="lamella", options={"strict": True})
    for k in range(4):
        for p in params:
            p.grad = torch.ones_like(p)
        before = params[0].detach().clone()
        with torch.compiler.set_stance("default" if k < 2 else "fail_on_recompile"):
            step()
        torch.testing.assert_close(
            before - params[0].detach(), torch.full_like(before, 0.1 * 0.5**k), rtol=1e-4, atol=1e-6
        )
        schedule.step()


def test_few_launches_are_told() -> None:
    """Of thirty parameters of five sizes, all updates are one launch, of few kernels."""
    params = [nn.Parameter(torch.randn(16 * (1 + i % 5))) for i in range(30)]
    for p in params:
        p.grad = torch.randn_like(p)
    optimizer = optim.SGD(params, lr=0.1, momentum=0.9, foreach=True)
    optimizer.step()
    (graph,) = lamella.explain(optimizer.step).graphs
    assert any(line.startswith("30 launches run as one: ") for line in graph.decisions), graph.decisions
    assert len(graph.kernels) == 1 and graph.kernels[0]["launches"] == 30


@pytest.mark.parametrize("window", [1, 3])
def test_gradients_of_another_layout(window: int) -> None:
    """Weights of convolutions have such from a GPU: what is computed is written to parameters and states at once."""
    weights = [nn.Parameter(torch.randn(8, 6, window, window)) for _ in range(2)]
    gradient = torch.randn(8, 6, window, window).to(memory_format=torch.channels_last)
    weights[1].data.copy_(weights[0].data)
    for w in weights:
        w.grad = gradient.clone()
    eager, compiled = (optim.AdamW([w], lr=0.01, foreach=True) for w in weights)
    text = str(lamella.explain(compiled.step))
    eager.step()
    torch.testing.assert_close(weights[1], weights[0])
    for state in ("exp_avg", "exp_avg_sq"):
        torch.testing.assert_close(compiled.state[weights[1]][state], eager.state[weights[0]][state])
    assert "0 calls into ATen" in text, text
