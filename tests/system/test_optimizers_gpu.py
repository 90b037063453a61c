"""Optimizers on a GPU that is not there: a rate that changes compiles nothing again, and the step is recorded."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn
from torch._dynamo.utils import counters

from lamella import driver
from lamella.codegen.cuda_interpreted import InterpretedGpu
from lamella.dialects.text import parse_module, print_module
from lamella.frontend.cuda_arguments import Arguments
from lamella.lowering.options import Options

from ..frontend.recorder import Graphed, Recorder

OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "AdamW": lambda p: torch.optim.AdamW(p, 0.01, foreach=True, weight_decay=0.1),
    "Adam, one by one": lambda p: torch.optim.Adam(p, 0.01, foreach=False, amsgrad=True),
    "SGD": lambda p: torch.optim.SGD(p, 0.01, momentum=0.9, nesterov=True, foreach=True),
    "RMSprop": lambda p: torch.optim.RMSprop(p, 0.01, momentum=0.5, foreach=True),
}


def on_gpu(text: str) -> str:
    """A program on the CPU as one on the first GPU, but for rates."""
    text = re.sub(r"(!sym\.t<\[[^\]]*\], \w+(?:, strides=\[[^\]]*\])?)>", r"\1, device=cuda:0>", text)
    return text.replace("!sym.t<[], f64, device=cuda:0>", "!sym.t<[], f64>")


@pytest.mark.parametrize("recorded", [False, True], ids=["called", "recorded"])
@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.usefixtures("fresh")
def test_rates_that_change(name: str, recorded: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    gpu, calls, compile_module = InterpretedGpu(), list[Graphed](), driver.compile_module

    def compile(module: Any, _: Any, **__: Any) -> Any:
        text = on_gpu(print_module(module))
        arguments = Arguments.of(parse_module(text), {"cuda:0"} | ({"cpu"} if "<[], f64>" in text else set[str]()))
        with gpu.used():
            made = compile_module(parse_module(text), Options(target="sm_90", cache=False))
            made.graph.function()  # type: ignore[union-attr]
        if not recorded:
            return made
        calls.append(call := Graphed(made.graph, arguments, launches=9))
        call.fake = Recorder()
        return replace(made, graph=call)

    monkeypatch.setattr(driver, "compile_module", compile)
    start = [torch.randn(5, 3), torch.randn(3)]
    params = [[nn.Parameter(t.clone()) for t in start] for _ in range(2)]
    optimizers = [OPTIMIZERS[name]([{"params": p[:1]}, {"params": p[1:], "lr": 0.02}]) for p in params]
    for group in optimizers[1].param_groups:
        if "capturable" in group:
            group["capturable"] = True  # as TorchDynamo has it on a GPU
    schedules = [torch.optim.lr_scheduler.CosineAnnealingLR(o, 9) for o in optimizers]
    counters.clear()
    compiled: Any = torch.compile(optimizers[1].step, backend=driver.lamella, options={"cache": False})
    steps = [optimizers[0].step, compiled]
    kept: list[Any] = []
    for _ in range(7):
        gradients = [torch.randn_like(t) for t in start]
        for ps, step, schedule in zip(params, steps, schedules, strict=True):
            for p, g in zip(ps, gradients, strict=True):
                if p.grad is None:
                    p.grad = g.clone()
                else:
                    p.grad.copy_(g)
            step()
            schedule.step()
        kept.append(gradients)
        torch.testing.assert_close(params[1], params[0], rtol=1e-5, atol=1e-6)
    assert counters["stats"]["unique_graphs"] <= 2  # the first step makes the state
    assert gpu.launches
    if recorded:
        assert calls[-1].fake.recorded == 1 and calls[-1].fake.replayed >= 4
        (recording,) = next(iter(calls[-1].sizes.values())).recordings
        assert len(recording.numbers) == 2
    else:
        assert gpu.uploaded >= 12


def test_short_vectors_are_few_launches(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel of one counts its step and has a loop over the vector."""
    gpu, compile_module = InterpretedGpu(), driver.compile_module

    def compile(module: Any, _: Any, **__: Any) -> Any:
        with gpu.used():
            made = compile_module(parse_module(on_gpu(print_module(module))), Options(target="sm_90", cache=False))
            made.graph.function()  # type: ignore[union-attr]
        return made

    monkeypatch.setattr(driver, "compile_module", compile)
    start = [torch.randn(64) for _ in range(16)]
    params = [[nn.Parameter(t.clone()) for t in start] for _ in range(2)]
    optimizers = [torch.optim.AdamW(p, 0.01, foreach=True) for p in params]
    optimizers[1].param_groups[0]["capturable"] = True
    step: Any = torch.compile(optimizers[1].step, backend=driver.lamella, options={"cache": False})
    for _ in range(3):
        for ps in zip(*params, strict=True):
            ps[0].grad = ps[1].grad = torch.randn(64)
        optimizers[0].step()
        gpu.launches.clear()
        step()
        torch.testing.assert_close(params[1], params[0], rtol=1e-5, atol=1e-6)
    assert len(gpu.launches) <= 4
