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


KINDS = ["forgets first", "forgets after forward", "accumulates", "two forwards", "two forwards, last first", "keeps"]
KINDS += ["retains"]


@pytest.mark.parametrize("lent", [cuda_graphs.LENT, 0])
@pytest.mark.parametrize("mode", ["reduce-overhead", None])
@pytest.mark.parametrize("kinds", [KINDS[:1], KINDS[1:2], KINDS], ids=["forgets first", "forgets later", "any"])
def test_steps(kinds: list[str], mode: Any, lent: int, recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Results, gradients and what the program has kept are eager's at every step; most calls are replayed."""
    monkeypatch.setattr(cuda_graphs, "LENT", lent)
    torch.manual_seed(0)
    rng, model = random.Random(0), nn.ModuleList(Layer(16) for _ in range(3))
    eager, kept, same = copy.deepcopy(model), list[tuple[Tensor, Tensor]](), torch.randn(8, 16)
    options = {"backend": "lamella", "mode": mode, "dynamic": False}
    layers = [torch.compile(layer, **options) for layer in model]
    for _ in range(24):
        kind = rng.choice(kinds)
        inputs = [same if rng.random() < 0.3 else torch.randn(8, 16) for _ in range(2)]
        found = step(layers, list(model.parameters()), inputs, kind)
        wanted = step(list(eager), list(eager.parameters()), inputs, kind)
        if kind == "keeps":
            kept.append((found[0].detach(), wanted[0].detach().clone()))
        torch.testing.assert_close(found, wanted)
        for a, b in zip(model.parameters(), eager.parameters(), strict=True):
            torch.testing.assert_close(a.grad, b.grad, rtol=1e-4, atol=1e-6)
            with torch.no_grad():
                a -= 0.01 * a.grad  # type: ignore[operator]
                b.copy_(a)
        for a, b in kept:
            torch.testing.assert_close(a, b)
    left()
    assert not any(keeper() for keeper in recorder.keepers)
    assert bool(recorder.spent) == bool(recorder.before) == (mode is not None)
    assert recorder.replayed > (100 if len(kinds) == 1 else 40) > recorder.recorded / 2
