"""Optimizers, compiled alone and with the step around them: parameters are eager's, no rate compiles anything again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.utils import counters
from torch.optim import lr_scheduler as schedules

from .test_training import GPT, Compile, batches, check, state

pytestmark = pytest.mark.usefixtures("fresh")

foreach: Any = torch  # its foreach functions are not declared


class Lion(torch.optim.Optimizer):
    """Chen et al. 2023 (arXiv 2302.06675), written with foreach operations as users do."""

    def __init__(self, params: Any, lr: Any, betas: tuple[float, float] = (0.9, 0.99), decay: float = 0.1) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "decay": decay})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        for group in self.param_groups:
            params = [p for p in group["params"] if p.grad is not None]
            gradients = [p.grad for p in params]
            for p in params:
                if "mean" not in self.state[p]:
                    self.state[p]["mean"] = torch.zeros_like(p)
            means = [self.state[p]["mean"] for p in params]
            first, second = group["betas"]
            foreach._foreach_mul_(params, 1 - group["lr"] * group["decay"])
            updates = foreach._foreach_lerp(means, gradients, 1 - first)
            foreach._foreach_sign_(updates)
            foreach._foreach_mul_(updates, group["lr"])
            foreach._foreach_sub_(params, updates)
            foreach._foreach_lerp_(means, gradients, 1 - second)


OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "SGD": lambda p, lr: torch.optim.SGD(p, lr, weight_decay=0.01),
    "momentum": lambda p, lr: torch.optim.SGD(p, lr, momentum=0.9, dampening=0.1),
    "Nesterov": lambda p, lr: torch.optim.SGD(p, lr, momentum=0.9, nesterov=True, foreach=True),
    "Adam": lambda p, lr: torch.optim.Adam(p, lr, weight_decay=0.01),
    "AMSGrad": lambda p, lr: torch.optim.Adam(p, lr, amsgrad=True),
    "AdamW": lambda p, lr: torch.optim.AdamW(p, lr, eps=1e-4),
    "fused AdamW": lambda p, lr: torch.optim.AdamW(p, lr, fused=True),
    "Adagrad": lambda p, lr: torch.optim.Adagrad(p, lr, lr_decay=0.01),
    "RMSprop": lambda p, lr: torch.optim.RMSprop(p, lr, momentum=0.5, centered=True, foreach=True),
    "Lion": Lion,
}


def optimized(compile: Compile, make: Callable[..., torch.optim.Optimizer], lr: Any) -> Any:
    """Parameters after steps under a schedule that changes the rate at each, and the rates."""
    model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.LayerNorm(8), nn.Linear(8, 3))
    optimizer = make(model.parameters(), lr)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.05, 8, cycle_momentum=False)
    step = compile(optimizer.step)
    seen: list[Any] = []
    for _ in range(6):
        optimizer.zero_grad()
        model(torch.randn(5, 6)).square().mean().backward()
        step()
        schedule.step()
        seen.append([*(p.detach().clone() for p in model.parameters()), float(optimizer.param_groups[0]["lr"])])
    return seen


@pytest.mark.parametrize("kind", ["tensor", "float"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers_under_a_schedule(name: str, kind: str) -> None:
    """A new rate is no reason to compile again, as a tensor or as a float. Where the first step makes the state, the
    second is another program.
    """
    counters.clear()
    rate = 0.01
    check(lambda compile: optimized(compile, OPTIMIZERS[name], torch.tensor(rate) if kind == "tensor" else rate))
    assert counters["stats"]["unique_graphs"] <= 2, counters["recompiles"]


SCHEDULES: dict[str, Callable[[torch.optim.Optimizer], Any]] = {
    "cosine": lambda o: schedules.CosineAnnealingLR(o, 8),
    "warm up from nothing": lambda o: schedules.LambdaLR(o, lambda k: k / 8),
    "one cycle, momentum too": lambda o: schedules.OneCycleLR(o, [0.05, 0.02], 8),
    "plateau": lambda o: schedules.ReduceLROnPlateau(o, patience=0),
}


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("make", [torch.optim.AdamW, torch.optim.NAdam, torch.optim.RMSprop])
def test_the_second_rate_does_not_compile_again(make: Any, name: str) -> None:
    """Of any group, from the first step on."""
    if make is torch.optim.RMSprop:
        make = lambda groups, lr: torch.optim.RMSprop(groups, lr, momentum=0.5)  # noqa: E731

    def program(compile: Compile) -> Any:
        model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
        optimizer = make([{"params": model[0].parameters()}, {"params": model[2].parameters(), "lr": 0.02}], 0.01)
        schedule, step = SCHEDULES[name](optimizer), compile(optimizer.step)
        seen: list[Any] = []
        for k in range(5):
            optimizer.zero_grad()
            model(torch.randn(5, 6)).square().mean().backward()
            with torch.compiler.set_stance("fail_on_recompile" if k else "default"):
                step()
            schedule.step(*([1.0] if name == "plateau" else []))
            seen.append(([p.detach().clone() for p in model.parameters()], schedule.get_last_lr()))
        assert seen[0][1] != seen[-1][1]
        return seen

    check(program)


def test_step_with_forward_and_backward_in_one_call() -> None:
    """`backward` and the optimizer inside what is compiled: graph breaks, and eager's numbers."""

    def program(compile: Compile) -> Any:
        model = GPT()
        optimizer = torch.optim.AdamW(model.parameters(), lr=torch.tensor(0.01), eps=1e-3)

        @compile
        def step(batch: Tensor) -> Tensor:
            optimizer.zero_grad()
            loss = model(batch)
            loss.backward()
            optimizer.step()
            return loss.detach()

        return [(step(batch), state(model)) for batch in batches(3)]

    check(program, rtol=1e-4, atol=1e-4)
