"""Shared by the tests of the whole: ATen modules of the zoo's models with the inputs they are called with."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from xdsl.dialects.builtin import ModuleOp

from lamella.codegen.interpreter import run_module
from lamella.dialects.text import print_module
from lamella.frontend.backend import Backend
from lamella.lowering.options import Options
from lamella.tools import zoo


@dataclass
class Graph:
    """One ATen graph: its text, and for each call the inputs of `@main` and what the interpreter made of them."""

    text: str
    inputs: list[list[Any]] = field(default_factory=list)
    outputs: list[list[Any]] = field(default_factory=list)


@dataclass
class Compilation:
    graph: Callable[[list[Any]], list[Any]]
    kernels: list[Any] = field(default_factory=list)
    calls: list[Any] = field(default_factory=list)
    decisions: list[Any] = field(default_factory=list)
    times: dict[str, float] = field(default_factory=dict)


def copies(values: list[Any]) -> list[Any]:
    """Tensors with the same values, sizes and strides."""
    return [v.detach().clone(memory_format=torch.preserve_format) if isinstance(v, torch.Tensor) else v for v in values]


@functools.cache
def graphs_of(name: str, dynamic: bool) -> tuple[Graph, ...]:
    """The graphs of a tiny zoo model; a dynamic one is called at two sizes, neither graph is compiled."""
    found: list[Graph] = []

    def compile_module(module: ModuleOp, _options: Options) -> Any:
        graph = Graph(print_module(module, locations=True))
        found.append(graph)
        kept = module.clone()

        def call(inputs: list[Any]) -> list[Any]:
            graph.inputs.append(copies(inputs))
            graph.outputs.append(list(run_module(kept, inputs)))
            return graph.outputs[-1]

        return Compilation(call)

    torch._dynamo.reset()
    case = zoo.load(name)
    compiled = torch.compile(case.model, backend=Backend(Options(), compile_module), dynamic=dynamic)
    with torch.no_grad():
        for k in range(2 if dynamic else 1):
            compiled(**case.inputs(k))
    torch._dynamo.reset()
    return tuple(found)


@pytest.fixture
def fresh() -> Any:
    """Nothing compiled before or after, and one seed."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()


@pytest.fixture
def model_graphs() -> Callable[[str, bool], tuple[Graph, ...]]:
    """`model_graphs(name, dynamic)` as `graphs_of`, kept for the session."""
    return graphs_of
