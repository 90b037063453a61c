"""Common subexpressions of AOTAutograd's joint graph, in place.

torch's own `fx_graph_cse` imports all of TorchInductor, which takes longer than all else that compiles a small graph.
"""

from __future__ import annotations

import operator
from collections.abc import Hashable
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Graph, Node
from torch.multiprocessing.reductions import StorageWeakRef


class _Unknown(Exception):
    """An argument that cannot be compared."""


def eliminate_common_subexpressions(graph: Graph) -> None:
    """Let each value be computed once between two mutations.

    What is random, brings a size that data decide, or is memory that the graph returns stays: the caller may write to
    one of two results.
    """
    returned = {s for n in graph.output_node().all_input_nodes if (s := _storage(n)) is not None}
    known: dict[Hashable, Node] = {}
    for node in graph.nodes:
        if node.op != "call_function":
            continue
        if not _is_functional(node):
            known.clear()
            continue
        if _is_unique(node) or _storage(node) in returned:
            continue
        try:
            key = (node.target, _key(node.args), _key(node.kwargs), node.meta.get("recompute"))
            first = known.setdefault(key, node)
        except (_Unknown, TypeError):  # not comparable, or without a hash
            continue
        if first is not node:
            node.replace_all_uses_with(first)
            graph.erase_node(node)


def _is_functional(node: Node) -> bool:
    """Whether a node only computes a value from its arguments."""
    target = node.target
    if isinstance(target, OpOverload):
        return not target._schema.is_mutable
    return target is operator.getitem or isinstance(node.meta.get("val"), (torch.SymInt, torch.SymFloat, torch.SymBool))


def _is_unique(node: Node) -> bool:
    """Whether the same arguments may give something else the next time."""
    target = node.target
    random = isinstance(target, OpOverload) and torch.Tag.nondeterministic_seeded in target.tags
    return random or bool(node.meta.get("unbacked_bindings"))


def _storage(node: Node) -> StorageWeakRef | None:
    """The memory that a node's value has or shares."""
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor):
        return None
    try:
        return StorageWeakRef(value.untyped_storage())
    except NotImplementedError:  # tensors that have none
        return None


def _key(value: Any) -> Hashable:
    """Equal for equal arguments of equal types. Raises _Unknown."""
    match value:
        case Node():
            return value
        case list() | tuple():
            return (type(value), *map(_key, value))
        case dict():
            return (dict, *((name, _key(v)) for name, v in value.items()))
        case slice():
            return (slice, _key(value.start), _key(value.stop), _key(value.step))
        case float() | complex():
            return (type(value), repr(value))  # 0.0 is -0.0, and NaN is not itself
        case torch.SymInt() | torch.SymFloat() | torch.SymBool():
            return (type(value), value.node.expr)
        case torch.Tensor():
            raise _Unknown
        case _:
            return (type(value), value)
