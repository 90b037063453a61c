"""Numbers of Python's `random`, which TorchDynamo's graphs take as tensors of another dtype than they were traced with.

A float of `random.uniform` is traced as a tensor of torch's default dtype, and each call passes one of f64. Here it is
f64 for what was traced to f64, and converted for all else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch._dynamo.source import RandomValueSource
from torch.fx import GraphModule, Node


def with_numbers_as_passed(graph: GraphModule, inputs: Sequence[Any]) -> Sequence[Any]:
    """The example inputs with random floats in the dtype that calls pass; `graph` is changed in place where there are
    any.
    """
    given = list(inputs)
    placeholders = graph.graph.find_nodes(op="placeholder")
    for i, node in enumerate(placeholders):
        value = given[i]
        if not _is_random(node) or not isinstance(value, torch.Tensor) or not value.is_floating_point():
            continue
        given[i] = value.double()
        users = [u for u in node.users if _dtype(u) is not torch.float64]
        if value.dtype is torch.float64 or not users:
            continue
        with graph.graph.inserting_after(placeholders[-1]):
            converted = graph.graph.call_method("to", (node, value.dtype))
        for user in users:
            user.replace_input_with(node, converted)
        graph.recompile()
    return given


def _is_random(node: Node) -> bool:
    return isinstance(getattr(node.meta.get("grapharg"), "source", None), RandomValueSource)


def _dtype(node: Node) -> torch.dtype | None:
    fake = node.meta.get("example_value")
    return fake.dtype if isinstance(fake, torch.Tensor) else None
