"""One compiled module or optimizer in what programs do with it: modes that change, states that move, one process of DDP."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

pytestmark = pytest.mark.usefixtures("fresh")


def compiled(f: Any, **options: Any) -> Any:
    return torch.compile(f, backend="lamella", options={"strict": True, **options})


def network() -> nn.Sequential:
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4))


def same_state(found: nn.Module, wanted: nn.Module) -> None:
    for a, b in zip([*found.buffers(), *found.parameters()], [*wanted.buffers(), *wanted.parameters()], strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
        assert (a.grad is None) == (b.grad is None)
        if a.grad is not None:
            torch.testing.assert_close(a.grad, b.grad, rtol=1e-4, atol=1e-5)


def test_modes_of_one_module() -> None:
    """no_grad, inference_mode, autocast, and parameters that are frozen and not again."""
    eager = network()
    ours = copy.deepcopy(eager)
    run = compiled(ours)
    for _ in range(3):
        x = torch.randn(5, 8)
        with torch.no_grad():
            assert not run(x).requires_grad
        with torch.inference_mode():
            y = run(x)
            torch.testing.assert_close(y, eager(x))
            assert y.is_inference()
        y = run(x)
        assert y.requires_grad and not y.is_inference()
        for m, result in ((eager, eager(x)), (ours, y)):
            m.zero_grad()
            result.sum().backward()
        same_state(ours, eager)
        with torch.autocast("cpu", torch.bfloat16):
            y = run(x)
        assert y.dtype == torch.bfloat16
        ours.requires_grad_(False)
        assert not run(x).requires_grad
        ours.requires_grad_(True)


@pytest.mark.parametrize("momentum", [None, 0.0, 1.0])
def test_running_statistics(momentum: float | None) -> None:
    """None is the mean of all batches, whose number is a tensor; the last batch is smaller."""
    eager = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4, momentum=momentum), nn.ReLU())
    ours = copy.deepcopy(eager)
    run = compiled(ours)
    for n in (4, 4, 2):
        x = torch.randn(n, 3, 6, 6)
        for m, call in ((eager, eager), (ours, run)):
            m.train()
            m.zero_grad()
            call(x).square().mean().backward()
            m.eval()
        same_state(ours, eager)
        torch.testing.assert_close(run(x), eager(x))


@pytest.mark.parametrize("dynamic", [None, True])
def test_batch_norm_of_an_input_without_gradients(dynamic: bool | None) -> None:
    eager = nn.BatchNorm1d(5, track_running_stats=False)
    ours = copy.deepcopy(eager)
    run = torch.compile(ours, backend="lamella", options={"strict": True}, dynamic=dynamic)
    for n in (4, 3, 7):
        x = torch.randn(n, 5)
        eager(x).cos().sum().backward()
        run(x).cos().sum().backward()
        same_state(ours, eager)


OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "AMSGrad": lambda p: torch.optim.AdamW(p, 1e-2, amsgrad=True),
    "momentum": lambda p: torch.optim.SGD(p, 1e-2, momentum=0.9),
    "NAdam": lambda p: torch.optim.NAdam(p, 1e-2),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_state_that_moves_between_eager_and_compiled_steps(name: str) -> None:
    eager = network()
    ours = copy.deepcopy(eager)
    optimizers = [OPTIMIZERS[name](m.parameters()) for m in (eager, ours)]
    steps = [optimizers[0].step, compiled(optimizers[1].step)]

    def step_both() -> None:
        for p, q in zip(eager.parameters(), ours.parameters(), strict=True):
            p.grad = torch.randn_like(p)
            q.grad = p.grad.clone()
        for step in steps:
            step()
        same_state(ours, eager)

    for k in range(5):
        step_both()
        source, target = (k % 2, 1 - k % 2)
        torch.save(optimizers[source].state_dict(), file := io.BytesIO())
        optimizers[target].load_state_dict(torch.load(io.BytesIO(file.getvalue())))


def test_memory_budgets_are_monotone() -> None:
    """From 0 to 1 a forward holds ever more, and gradients are the same."""
    layers = [nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32), nn.Tanh()) for _ in range(3)]
    model, x, held = nn.Sequential(*layers), torch.randn(128, 32), list[int]()
    model(x).square().sum().backward()
    wanted = [p.grad for p in model.parameters()]
    own = {t.untyped_storage().data_ptr() for t in (x, *model.parameters())}
    for budget in (0.0, 0.25, 0.5, 0.75, 1.0):
        torch._dynamo.reset()
        model.zero_grad()
        saved: dict[int, int] = {}

        def note(t: Tensor, saved: dict[int, int] = saved) -> Tensor:
            saved[t.untyped_storage().data_ptr()] = t.untyped_storage().nbytes()
            return t

        with torch.autograd.graph.saved_tensors_hooks(note, lambda t: t):
            y = compiled(model, activation_memory_budget=budget)(x)
        held.append(sum(size for address, size in saved.items() if address not in own))
        y.square().sum().backward()
        torch.testing.assert_close([p.grad for p in model.parameters()], wanted, rtol=1e-4, atol=1e-3)
    assert held == sorted(held) and held[0] < held[-1]


@pytest.mark.parametrize("inside", [True, False])
def test_one_process_of_data_parallel(inside: bool, tmp_path: Path) -> None:
    """With a compiled module inside, and compiled itself, which cuts the graph at buckets."""
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/group", rank=0, world_size=1)
    try:
        eager = nn.Sequential(network(), nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 3))
        ours = copy.deepcopy(eager)
        wrapped: Any = DistributedDataParallel(eager)
        run: Any = DistributedDataParallel(compiled(ours)) if inside else compiled(DistributedDataParallel(ours))
        optimizers = [torch.optim.SGD(m.parameters(), 0.1) for m in (eager, ours)]
        for n in (5, 5, 2):
            x = torch.randn(n, 8)
            for call, optimizer in zip((wrapped, run), optimizers, strict=True):
                optimizer.zero_grad()
                with call.no_sync():
                    call(x).square().mean().backward()
                call(-x).square().mean().backward()
            same_state(ours, eager)
            for optimizer in optimizers:
                optimizer.step()
    finally:
        dist.destroy_process_group()
