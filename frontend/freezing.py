"""Which inputs of a graph are parameters and buffers, whose values a user can promise to keep (option `freezing`)."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import torch
from torch.fx import GraphModule

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp


def module_state(graph: GraphModule) -> set[int]:
    """The positions of the inputs of TorchDynamo's graph that are parameters or buffers of a module."""
    found: set[int] = set()
    for i, node in enumerate(n for n in graph.graph.nodes if n.op == "placeholder"):
        known = node.meta.get("tensor_dict") or {}
        if "_dynamo_static_input_type" in known or isinstance(node.meta.get("example_value"), torch.nn.Parameter):
            found.add(i)
    return found


def mark_frozen(module: ModuleOp, graph: GraphModule, inputs: Collection[int]) -> bool:
    """Mark the arguments of `@main` that are some inputs of TorchDynamo's graph; whether there are such."""
    from ..lowering.aten_frozen import FROZEN, mark_arguments

    placeholders = enumerate(n for n in graph.graph.nodes if n.op == "placeholder")
    abouts = {i: node.meta.get("desc") for i, node in placeholders}
    frozen = {i for i, a in abouts.items() if type(a).__name__ == "PlainAOTInput" and getattr(a, "idx", None) in inputs}
    mark_arguments(module, frozen, FROZEN)
    return bool(frozen)
