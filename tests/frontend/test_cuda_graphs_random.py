"""Random programs of several graphs that are recorded: what each gives is used by others, more than once or not at all,
results and gradients are kept for a while, and derivatives are taken in parts, again, or not at all.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._inductor import cudagraph_trees

from lamella.frontend import cuda_graphs

from .recorder import Recorder
from .test_cuda_graphs_steps import recorder as recorder

ROWS, SIZE = 8, 16
WAYS = ["one", "each", "again", "in part", "none", "adds up", "forgets late"]
"""How derivatives are taken."""


class Node(nn.Module):
    """A graph of two arguments and two results; of some kinds it gives an argument on, or a part of one."""

    def __init__(self, kind: int) -> None:
        super().__init__()
        self.kind, self.a, self.b = kind, nn.Linear(SIZE, SIZE), nn.Linear(SIZE, SIZE)

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        match self.kind:
            case 0:
                return torch.sigmoid(self.a(x)) * y, x + y
            case 1:
                h = torch.tanh(self.a(x) + self.b(y))
                return h, h[:, :8].sum(-1, keepdim=True) + y
            case 2:
                return self.b(torch.relu(self.a(x))) + x, y
            case 3:
                return torch.softmax(self.a(y), -1), (x * y).detach() + x
            case _:
                return x.t().contiguous().t() * self.a(y), self.b(x).exp().clamp(max=5.0)


class Step:
    """What one step does, in eager and with recorded graphs."""

    def __init__(self, rng: random.Random, way: str, inputs: Sequence[Tensor], gradients: bool) -> None:
        self.way, self.inputs, self.gradients = way, inputs, gradients
        self.order = rng.sample(range(8), 8)

    def run(self, nodes: Sequence[Any], parameters: Sequence[Any], wires: Sequence[tuple[int, int]]) -> list[Any]:
        """Results, derivatives that are asked for, and gradients of inputs and parameters."""

        def forget() -> None:
            for p in parameters:
                p.grad = None

        if self.way not in ("adds up", "forgets late"):
            forget()
        inputs = [x.clone().requires_grad_(self.gradients) for x in self.inputs]
        values = [*inputs]
        with torch.set_grad_enabled(self.way != "none"):
            for node, (i, j) in zip(nodes, wires, strict=True):
                values += node(values[i], values[j])
        if self.way == "forgets late":
            forget()
        parts = self._differentiate([v.square().mean() for v in values[2:] if v.requires_grad], parameters)
        return [*values[2:], *parts, *(x.grad for x in inputs), *(p.grad for p in parameters)]

    def _differentiate(self, losses: list[Tensor], parameters: Sequence[Any]) -> list[Any]:
        if not losses:
            return []
        total, found = torch.stack(losses).sum(), list[Any]()
        match self.way:
            case "each":
                for i in self.order:
                    if i < len(losses):
                        losses[i].backward(retain_graph=True)
                return found
            case "again":
                total.backward(retain_graph=True)
            case "in part":
                some = parameters[: len(parameters) // 2]
                found += torch.autograd.grad(total, some, retain_graph=True, allow_unused=True)
            case _:
                pass
        total.backward()
        return found


def same(a: Tensor | None, b: Tensor | None) -> None:
    """Gradients of what is not used are zeros or none."""
    if a is None or b is None:
        assert all(t is None or not t.any() for t in (a, b))
    else:
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("asked", [True, False], ids=["asked", "default"])
@pytest.mark.parametrize("seed", range(8))
def test_random_programs(seed: int, asked: bool, recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    """By default results may be kept whatever the program says of its steps."""
    rng = random.Random(seed)
    monkeypatch.setattr(cuda_graphs, "KEPT", rng.choice([0, 16, 200]))  # all, some or few share memory
    monkeypatch.setattr(cuda_graphs, "LENT", rng.choice([0, cuda_graphs.LENT]))
    monkeypatch.setattr(cudagraph_trees.MarkStepBox, "mark_step_counter", 0)
    recorder.sharing.patience = rng.choice([2, 3, 5, 9])
    torch.manual_seed(seed)
    count = rng.randint(2, 4)
    model = nn.ModuleList(Node(rng.randrange(5)) for _ in range(count))
    eager = copy.deepcopy(model)
    mode = "reduce-overhead" if asked else None
    compiled = [torch.compile(m, backend="lamella", mode=mode, dynamic=False) for m in model]
    wires = [(rng.randrange(2 + 2 * i), rng.randrange(2 + 2 * i)) for i in range(count)]
    marked, gradients = rng.random() < 0.4, rng.random() < 0.5
    ways, stay = rng.sample(WAYS, rng.randint(1, 4)), [torch.randn(ROWS, SIZE) for _ in range(2)]
    kept: list[tuple[Tensor, Tensor]] = []
    for _ in range(30 if asked else 60):
        if marked:
            torch.compiler.cudagraph_mark_step_begin()
        inputs = stay if rng.random() < 0.5 else [torch.randn(ROWS, SIZE) for _ in range(2)]
        step = Step(rng, rng.choice(ways), inputs, gradients)
        found = step.run(compiled, [*model.parameters()], wires)
        wanted = step.run([*eager], [*eager.parameters()], wires)
        for a, b in zip(found, wanted, strict=True):
            same(a, b)
        with torch.no_grad():
            for p, q in zip(model.parameters(), eager.parameters(), strict=True):
                if p.grad is not None and step.way != "adds up":
                    p -= 0.01 * p.grad
                q.copy_(p)
        if not (marked and asked) and rng.random() < 0.2:
            i = rng.randrange(2 * count)
            kept = [*kept[-2:], (found[i].detach(), wanted[i].detach().clone())]
        for a, b in kept:
            same(a, b)
        del found, wanted
    assert recorder.replayed > 30
