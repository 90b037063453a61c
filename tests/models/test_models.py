"""Whole models through torch.compile: right at every size with one compilation, in f32, bf16 and f16.

The rule for accuracy: the error against a float64 run is at most 1.5 times eager's own.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._dynamo.testing import CompileCounterWithBackend

from lamella.tools import zoo

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}


def cast(tree: Any, dtype: torch.dtype) -> Any:
    """The floating-point tensors of a tree in another dtype."""
    return torch.utils._pytree.tree_map(
        lambda t: t.to(dtype) if isinstance(t, Tensor) and t.is_floating_point() else t, tree
    )


def rmse(a: Tensor, b: Tensor) -> float:
    return (a.double() - b.double()).square().mean().sqrt().item()


def assert_accurate(case: zoo.Case, compiled: Any, eager: Any, inputs: dict[str, Any], dtype: torch.dtype) -> None:
    """Lamella's outputs have eager's shapes, strides and dtypes, and at most 1.5 times its error."""
    exact = copy.deepcopy(case.model).double()
    want = case.outputs(exact(**cast(inputs, torch.float64)))
    base = case.outputs(eager(**cast(inputs, dtype)))
    got = case.outputs(compiled(**cast(inputs, dtype)))
    assert len(got) == len(base)
    for g, b, w in zip(got, base, want, strict=True):
        assert g.shape == b.shape and g.dtype == b.dtype and g.stride() == b.stride()
        scale = w.abs().max().item()
        assert rmse(g, w) <= 1.5 * rmse(b, w) + 1e-7 * scale


@pytest.fixture(autouse=True)
def fresh() -> Any:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.parametrize("dtype", ["f32", "bf16", pytest.param("f16", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", zoo.NAMES)
def test_one_compilation_for_three_sizes(name: str, dtype: str) -> None:
    case = zoo.load(name)
    model = copy.deepcopy(case.model).to(DTYPES[dtype])
    counter = CompileCounterWithBackend("lamella")
    compiled = torch.compile(model, backend=counter, dynamic=True)
    with torch.no_grad():
        frames = []
        for k in range(3):
            assert_accurate(case, compiled, model, case.inputs(k), DTYPES[dtype])
            frames.append(counter.frame_count)
    assert frames[0] == frames[1] == frames[2], f"recompiled for another size: {frames}"


@pytest.mark.parametrize("name", zoo.NAMES)
def test_static_shapes(name: str) -> None:
    case = zoo.load(name)
    compiled = torch.compile(case.model, backend="lamella", dynamic=False)
    with torch.no_grad():
        assert_accurate(case, compiled, case.model, case.inputs(0), torch.float32)


def test_resnet_channels_last() -> None:
    case = zoo.load("resnet50")
    model = copy.deepcopy(case.model).to(memory_format=torch.channels_last)
    x = case.inputs(0)["x"].contiguous(memory_format=torch.channels_last)
    compiled = torch.compile(model, backend="lamella")
    with torch.no_grad():
        assert_accurate(case, compiled, model, {"x": x}, torch.float32)
