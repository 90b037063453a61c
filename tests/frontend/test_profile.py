"""Kernels and calls in torch.profiler (option `profile`): by name, as often as they run, and nothing else changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import lamella

CPU = [torch.profiler.ProfilerActivity.CPU]


def events(run: Callable[[], Any]) -> Counter[str]:
    with torch.profiler.profile(activities=CPU) as profile:
        run()
    return Counter(event.name for event in profile.events())


def network(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    y = torch.mm(x, w)
    return y.softmax(-1), y.sum(0)


ARGUMENTS = torch.randn(64, 96), torch.randn(96, 80)


def names(function: Callable[..., Any], *args: Any, **options: Any) -> set[str]:
    """What `explain` calls the kernels."""
    graphs = lamella.explain(function, *args, options=options).graphs
    return {kernel["name"] for graph in graphs for kernel in graph.kernels}


def test_kernels_have_the_names_that_explain_tells() -> None:
    """Those that run together are one event."""
    run = lamella.compile(network, options={"profile": True, "products": "all"})
    run(*ARGUMENTS)
    found = events(lambda: [run(*ARGUMENTS) for _ in range(3)])
    kernels = names(network, *ARGUMENTS, products="all")
    launches = {event: set(event.split(" + ")) for event in found if kernels & set(event.split(" + "))}
    assert set[str]().union(*launches.values()) == kernels
    assert {found[event] for event in launches} == {3}


def test_calls_of_the_shim() -> None:
    run = lamella.compile(network, options={"profile": True, "products": "none"})
    run(*ARGUMENTS)
    assert events(lambda: run(*ARGUMENTS))["aten::mm.out"] == 1


def test_without_the_option() -> None:
    """There is not an event more, and code with it is not taken from the cache for code without."""

    def softmaxes(profile: bool) -> int:
        torch.compiler.reset()
        run = lamella.compile(network, options={"profile": profile, "products": "all"})
        run(*ARGUMENTS)
        return sum("softmax" in name for name in events(lambda: run(*ARGUMENTS)))

    assert softmaxes(True) and not softmaxes(False)


def test_a_training_step() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.LayerNorm(128), nn.Linear(128, 8))
    x = torch.randn(32, 64)

    def gradients(**options: Any) -> list[Tensor]:
        torch.compiler.reset()
        run = lamella.compile(model, options=options)
        run(x).square().sum().backward()
        made: list[Tensor] = []

        def step() -> None:
            model.zero_grad()
            run(x).square().sum().backward()
            made.extend(p.grad.clone() for p in model.parameters() if p.grad is not None)

        found = events(step)
        assert any("layer_norm" in name and "backward" in name for name in found) == bool(options)
        return made

    assert all(map(torch.equal, gradients(profile=True), gradients()))


def test_errors_leave_no_event_open() -> None:
    """An event that had not ended would have all that follow inside of it."""
    run = lamella.compile(lambda x, i: (x[i] * 2).exp(), options={"profile": True})
    x = torch.randn(10, 4)
    run(x, torch.tensor([1, 2]))

    def both() -> None:
        with pytest.raises(IndexError):
            run(x, torch.tensor([1, 20]))
        torch.mm(x, x.T)

    with torch.profiler.profile(activities=CPU) as profile:
        both()
    (product,) = [event for event in profile.events() if event.name == "aten::mm"]
    assert product.cpu_parent is None
