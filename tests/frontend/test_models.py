"""Real models, small: their graphs import, and the text of the modules computes what eager computes."""

from __future__ import annotations

import copy
import math
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn

from lamella.codegen.interpreter import run_module
from lamella.dialects.collection import without_collection
from lamella.frontend.capture import capture
from lamella.frontend.import_fx import import_graph
from lamella.tools import zoo

SLOW = {"bert", "llama", "t5", "vit", "whisper"}
"""What the models left (attention, convolutions and both kinds of normalization) have too."""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bert", "llama"])
def test_inference_at_three_sizes(name: str, recorder: Any) -> None:
    case = zoo.load(name)
    compiled = torch.compile(case.model, backend=recorder.backend, dynamic=True)
    with torch.no_grad():
        for k in range(3):
            want, got = case.outputs(case.model(**case.inputs(k))), case.outputs(compiled(**case.inputs(k)))
            for w, g in zip(want, got, strict=True):
                torch.testing.assert_close(g, w, rtol=1e-5, atol=1e-6)
                assert g.stride() == w.stride()
    assert len(recorder.texts) == 1 and not recorder.eager


def gradients(case: zoo.Case, model: nn.Module, run: Any, dtype: torch.dtype) -> list[torch.Tensor]:
    model.zero_grad()
    torch.manual_seed(0)
    inputs = {k: v.to(dtype) if v.is_floating_point() else v for k, v in case.inputs(0).items()}
    case.outputs((model if run is None else run)(**inputs))[0].square().mean().backward()
    return [p.grad.double() for p in model.parameters() if p.grad is not None]


def rms(values: list[float]) -> float:
    return math.sqrt(sum(v * v for v in values) / len(values))


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * (n in SLOW)) for n in zoo.NAMES])
def test_training(name: str, recorder: Any) -> None:
    case = zoo.load(name)
    model = case.model.train()
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    for key, value in vars(getattr(model, "config", model)).items():
        if "dropout" in key and isinstance(value, float):
            setattr(model.config, key, 0.0)
    for module in model.modules():
        if isinstance(getattr(module, "dropout", None), float):
            module.dropout = 0.0
    exact = gradients(case, copy.deepcopy(model).double(), None, torch.float64)

    def errors(model: nn.Module, run: Any = None) -> list[float]:
        got = gradients(case, model, run, torch.float32)
        return [float((g - e).norm() / e.norm().clamp_min(1e-12)) for g, e in zip(got, exact, strict=True)]

    # batch norm of a few points multiplies roundings: as exact as eager in one layout or the other, which differ by
    # four times in some gradients of resnet50
    plain, last = errors(model), errors(copy.deepcopy(model).to(memory_format=torch.channels_last))
    ours = errors(model, torch.compile(model, backend=recorder.backend))
    for mine, *eagers in zip(ours, plain, last, strict=True):
        assert mine <= 3 * max(eagers) + 1e-5
    assert rms(ours) <= 1.5 * rms(plain) + 1e-6
    assert len(recorder.texts) == 2 and not recorder.eager


@pytest.mark.parametrize("name", zoo.NAMES)
def test_capture(name: str) -> None:
    case = zoo.load(name)
    inputs = case.inputs(0)
    captured = capture(case.model, **inputs)
    values = captured.inputs(**inputs)
    got = captured.outputs(values, run_module(captured.module, values))
    with torch.no_grad():
        want = case.model(**inputs)
    for w, g in zip(case.outputs(want), case.outputs(got), strict=True):
        torch.testing.assert_close(g, w, rtol=1e-5, atol=1e-6)


def test_import_is_linear_in_the_nodes() -> None:
    """A node takes some 175 calls of functions, 25 us. Calls are counted: no clock tells the same on a machine that
    others share.
    """
    small, large = (_calls(partial(import_graph, _chain(n))) for n in (500, 1000))
    assert large <= 2.1 * small and large < 300 * 1000


def _chain(length: int) -> torch.fx.GraphModule:
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    x.meta["val"] = value = torch.empty(8, 16, device="meta").expand(8, 16)
    at = x
    for i in range(length):
        at = graph.call_function(torch.ops.aten.add.Tensor, (at, i), {"alpha": 2})
        at.meta = {"val": value, "stack_trace": f'  File "model.py", line {i}, in forward\n'}
    graph.output((at,))
    return torch.fx.GraphModule(nn.Module(), graph)


def _calls(f: Callable[[], object]) -> int:
    """How many functions a call of `f` calls, after a first one."""
    f()
    kinds: list[str] = []
    before = sys.getprofile()
    with without_collection():  # what others left behind may call functions when it goes
        sys.setprofile(lambda frame, kind, argument: kinds.append(kind))
        try:
            f()
        finally:
            sys.setprofile(before)
    return kinds.count("call") + kinds.count("c_call")
