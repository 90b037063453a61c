"""Whole training steps with recorded graphs, on the CPU: layers compiled each on its own, whatever a program does with
gradients and results. What is recorded gives NaN until it is replayed.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._inductor import cudagraph_trees

from lamella.frontend import backend, cuda_graphs
from lamella.frontend.cuda_arguments import Arguments
from lamella.frontend.cuda_graphs import GraphedCall
from lamella.frontend.cuda_steps import left
from lamella.frontend.donated import parameters

from .recorder import Recorder


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    """Records graphs of the CPU as those of a GPU are."""
    fake = Recorder()
    fake.sharing.patience = 3  # all are made again once, and once more later

    def plan(kind: str, graph: Any, imported: Any, asked: bool | None, absent: Collection[int] = ()) -> Arguments:
        stay = {i - sum(a < i for a in absent) for i in parameters(graph, kind)}
        return Arguments.of(imported.module, {"cuda:0"}, kind, asked=asked is True, parameters=stay)

    def graphed(run: Any, arguments: Arguments, *_: Any) -> GraphedCall:
        return GraphedCall(run, replace(arguments, uploads=()), launches=100)

    monkeypatch.setattr(backend, "recording_plan", plan)
    monkeypatch.setattr(cuda_graphs, "graphed", graphed)
    monkeypatch.setattr(cuda_graphs, "recorder_of", lambda _: fake)
    torch._dynamo.reset()
    return fake


class Layer(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.first, self.norm, self.second = nn.Linear(size, size), nn.LayerNorm(size), nn.Linear(size, size)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.second(torch.sigmoid(self.norm(self.first(x))))


def step(layers: Sequence[Any], parameters: Sequence[Tensor], inputs: Sequence[Tensor], kind: str) -> list[Tensor]:
    """The results of a step; gradients are the parameters'."""

    def forward(x: Tensor) -> Tensor:
        for layer in layers:
            x = layer(x)
        return x

    def forget() -> None:
        for p in parameters:
            p.grad = None

    if kind not in ("forgets after forward", "accumulates"):
        forget()
    results = [forward(x) for x in (inputs if "two forwards" in kind else inputs[:1])]
    if kind == "forgets after forward":
        forget()
    for y in reversed(results) if kind == "two forwards, last first" else results:
        loss = y.square().mean()
        loss.backward(retain_graph=kind == "retains")
        if kind == "retains":
            loss.backward()
    if kind == "accumulates":
        results.append(forward(inputs[1]))
        results[1].square().mean().backward()
    return results


KINDS = [
    "forgets first",
    "forgets after forward",
    "accumulates",
    "two forwards",
    "two forwards, last first",
    "keeps",
    "retains",
]


class Program:
    """Layers that are compiled each on its own, and the same in eager."""

    def __init__(self, count: int, mode: Any, tied: bool = False) -> None:
        torch.manual_seed(0)
        self.model = nn.ModuleList(Layer(16) for _ in range(count))
        if tied:
            self.model[1] = self.model[0]
        self.eager = copy.deepcopy(self.model)
        self.layers = [torch.compile(layer, backend="lamella", mode=mode, dynamic=False) for layer in self.model]
        self.kept: list[tuple[Tensor, Tensor]] = []

    def step(self, inputs: Sequence[Tensor], kind: str) -> None:
        """Results, gradients and what the program has kept are eager's."""
        found = step(self.layers, list(self.model.parameters()), inputs, kind)
        wanted = step(list(self.eager), list(self.eager.parameters()), inputs, kind)
        torch.testing.assert_close(found, wanted)
        if kind == "keeps":
            self.kept.append((found[0].detach(), wanted[0].detach().clone()))
        for a, b in zip(self.model.parameters(), self.eager.parameters(), strict=True):
            torch.testing.assert_close(a.grad, b.grad, rtol=1e-4, atol=1e-5)
            with torch.no_grad():
                a -= 0.01 * a.grad  # type: ignore[operator]
                b.copy_(a)
        for a, b in self.kept:
            torch.testing.assert_close(a, b)


@pytest.mark.parametrize("lent", [cuda_graphs.LENT, 0])
@pytest.mark.parametrize("mode", ["reduce-overhead", None])
@pytest.mark.parametrize("kinds", [KINDS[:1], KINDS[1:2], KINDS], ids=["forgets first", "forgets later", "any"])
def test_steps(kinds: list[str], mode: Any, lent: int, recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    """All is eager's at every step; most calls are replayed."""
    monkeypatch.setattr(cuda_graphs, "LENT", lent)
    rng, program, same = random.Random(0), Program(3, mode), torch.randn(8, 16)
    for _ in range(28):
        inputs = [same if rng.random() < 0.3 else torch.randn(8, 16) for _ in range(2)]
        program.step(inputs, rng.choice(kinds))
    left()
    assert not any(keeper() for keeper in recorder.keepers)
    assert bool(recorder.spent) == bool(recorder.before) == (mode is not None)
    assert recorder.replayed > (100 if len(kinds) == 1 else 40) > recorder.recorded / 2


@pytest.mark.parametrize("seed", range(8))
def test_random_steps(seed: int, recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    """So it is where layers are tied, batches differ and steps are marked, whenever recordings are made again."""
    rng = random.Random(seed)
    monkeypatch.setattr(cuda_graphs, "LENT", rng.choice([0, cuda_graphs.LENT]))
    recorder.sharing.patience = rng.choice([2, 3, 5, 9])
    count = rng.randint(1, 4)
    program = Program(count, "reduce-overhead", tied=count > 1 and rng.random() < 0.4)
    marked = rng.random() < 0.4
    kinds = [k for k in rng.sample(KINDS, rng.randint(1, len(KINDS))) if not (marked and k == "keeps")] or KINDS[:1]
    rows, often = rng.choice([(8,), (8, 12)]), rng.choice([0.0, 0.3, 0.9])
    same = {n: torch.randn(n, 16) for n in rows}
    monkeypatch.setattr(cudagraph_trees.MarkStepBox, "mark_step_counter", 0)
    for _ in range(32):
        n = rng.choice(rows)
        if marked:
            torch.compiler.cudagraph_mark_step_begin()
        inputs = [same[n] if rng.random() < often else torch.randn(n, 16) for _ in range(2)]
        program.step(inputs, rng.choice(kinds))
        del program.kept[:-2]
    assert recorder.replayed
    assert recorder.spent or {*kinds} <= {"retains", "keeps"}
