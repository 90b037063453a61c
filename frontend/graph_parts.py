"""What an FX graph of ATen calls is made of: arguments, what it holds, calls, the output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch._ops import HigherOrderOperator
from torch.fx import GraphModule, Node


class UnsupportedGraph(Exception):
    """A graph that this level cannot express. The message names the node and the reason; the caller runs it eagerly."""


class UnsupportedWhole(UnsupportedGraph):
    """Not in pieces either: what one piece gives is not what another expects."""


@dataclass
class Parts:
    """The nodes of a graph."""

    placeholders: list[Node]
    held: dict[Node, Any]
    """What the graph holds: tensors, and graphs that calls take."""
    calls: list[Node]
    output: Node


def parts_of(graph: GraphModule) -> Parts:
    """The nodes of `graph` by what they are. Raises UnsupportedGraph for what no graph of ATen has."""
    parts = Parts([], {}, [], graph.graph.output_node())
    for node in graph.graph.nodes:
        match node.op:
            case "placeholder":
                parts.placeholders.append(node)
            case "get_attr":
                value: Any = graph
                for part in str(node.target).split("."):
                    value = getattr(value, part, None)
                parts.held[node] = value
            case "call_function":
                parts.calls.append(node)
            case "output":
                pass
            case _:
                raise UnsupportedGraph(f"node {node.name}: {node.op} {node.target}")
    return parts


def held_constants(graph: GraphModule) -> dict[Node, torch.Tensor]:
    """The tensors that `graph` and the graphs in it hold, by their nodes. Raises UnsupportedGraph for what it holds
    beside these.
    """
    found, opaque = held_by(graph)
    for node, value in opaque.items():
        kind = type(value).__name__
        raise UnsupportedGraph(f"node {node.name}: constant {node.target} is a {kind}, not a tensor")
    return found


def held_by(graph: GraphModule) -> tuple[dict[Node, torch.Tensor], dict[Node, Any]]:
    """The tensors that `graph` and the graphs in it hold, by their nodes, and what no level has a type for, as the
    meshes of DTensors that it gives back.
    """
    found: dict[Node, torch.Tensor] = {}
    opaque: dict[Node, Any] = {}
    for node, value in parts_of(graph).held.items():
        if isinstance(value, GraphModule):
            inner = held_by(value)
            found |= inner[0]
            opaque |= inner[1]
        elif isinstance(value, torch.Tensor):
            node.meta.setdefault("val", value)
            found[node] = value
        elif not all(isinstance(user.target, HigherOrderOperator) for user in node.users):
            opaque[node] = value
    return found, opaque
