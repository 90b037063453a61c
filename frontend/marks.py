"""Results that are marked, as conjugates or negatives of what lies in memory.

A graph computes what they stand for; the mark is put on that. AOTAutograd's graphs are functional, and have in the
place of a marked tensor that was written what was written there, without a mark, and its base with one: in such a
place is a view of the conjugates or negatives of all that lies in that memory.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import torch
from torch._ops import OpOverload
from torch.fx import GraphModule, Node
from torch.utils._pytree import tree_leaves, tree_structure, tree_unflatten

from .torch_compat import OWN_RESULTS, forward_metadata, is_marked, is_plain_tensor

Steps: TypeAlias = list[tuple[OpOverload, tuple[Any, ...], int | None]]
"""Views: operator, arguments after the tensor, and which of several results."""
Marks: TypeAlias = Sequence[tuple[bool, bool] | None]
"""Whether results of a program are conjugates, and negatives; None where it is not known."""

_NEGATIVE = torch.ops.aten._neg_view.default
_MARKING: Mapping[OpOverload, OpOverload] = {
    torch.ops.aten._conj_physical.default: torch.ops.aten._conj.default,
    torch.ops.aten.neg.default: _NEGATIVE,
}
"""What computes the conjugates or negatives of all elements, and what marks a tensor so or takes the mark off."""


def marks_of_results(graph: GraphModule) -> Marks:
    """Those of TorchDynamo's graph, as eager has them."""
    results = tree_leaves(graph.graph.output_node().args[0])
    values = [n.meta.get("example_value") if isinstance(n, Node) else None for n in results]
    return [_marks(v) if isinstance(v, torch.Tensor) and is_plain_tensor(v) else None for v in values]


def _marks(value: torch.Tensor) -> tuple[bool, bool]:
    return value.is_conj(), value.is_neg()


def views_operand(node: Node) -> bool:
    return node.target is operator.getitem or getattr(node.target, "is_view", False)


def memory_of(node: Node) -> tuple[Node, Steps] | None:
    """What a result of a graph is a view of, and the views; None if a view has arguments by name."""
    steps: Steps = []
    while views_operand(node):
        part, call = None, node
        if node.target is operator.getitem:
            part, call = node.args[1], node.all_input_nodes[0]
        if not getattr(call.target, "is_view", False):
            break
        if call.kwargs:
            return None
        numbers = [a.meta["val"] if isinstance(a, Node) else a for a in tree_leaves(call.args[1:])]
        args = tree_unflatten(numbers, tree_structure(call.args[1:]))
        steps.insert(0, (call.target, args, part))  # pyright: ignore[reportArgumentType]
        node = call.all_input_nodes[0]
    return node, steps


def marked_results(
    graph: GraphModule, marks: Marks, known: Any, inference: bool
) -> dict[int, tuple[Node, Steps, torch.Tensor]]:
    """The outputs that are marked, or that lie in the memory of one that is, but those `known`: as views, of what the
    graph computes, and the (fake) tensors that they are. With derivatives, only results that AOTAutograd returns as
    they are.
    """
    outputs: Sequence[Any] = tree_leaves(graph.graph.output_node().args[0])
    lies = {i: found for i, n in enumerate(outputs) if _is_tensor(n) and (found := memory_of(n)) is not None}
    meta = forward_metadata()
    first = 0 if meta is None else len(meta.tokens) + len(meta.mutated_inp_runtime_indices)
    asked = {} if meta is None else {first + k: m for k, m in enumerate(marks) if m is not None}
    returned = {*lies} if inference else _returned(meta, first)
    marked: dict[int, tuple[Node, Steps, torch.Tensor]] = {}
    for i, (base, steps) in lies.items():
        value = outputs[i].meta["val"]
        if i in known or i not in returned or not steps or not is_marked(value) or base.op != "call_function":
            continue
        if inference or asked.get(i, _marks(value)) == _marks(value):  # else AOTAutograd makes views of it
            marked[i] = base, steps, value
    for base in dict.fromkeys(base for i, (base, _) in lies.items() if any(asked.get(i, ())) or i in marked):
        inside = [i for i, (other, _) in lies.items() if other is base]
        if base.op != "call_function" or any(i in known or i not in asked or i not in returned for i in inside):
            continue
        for compute, mark in _MARKING.items():
            seen = {i: mark(t) for i in inside if (t := outputs[i].meta["val"]).is_complex() or mark is _NEGATIVE}
            if all(i in seen and _marks(seen[i]) == asked[i] for i in inside):
                with graph.graph.inserting_after(base):
                    memory = graph.graph.call_function(compute, (base,))
                memory.meta = {**base.meta}
                marked |= {i: (memory, [*lies[i][1], (mark, (), None)], t) for i, t in seen.items()}
                break
    return marked


def _returned(meta: Any, first: int) -> set[int]:
    """The outputs of a forward that are results of the program, and not made anew as views of others."""
    infos = () if meta is None else meta.output_info
    return {i for i, info in enumerate(infos, first) if info.output_type in OWN_RESULTS}


def _is_tensor(node: Any) -> bool:
    value = node.meta.get("val") if isinstance(node, Node) else None
    return isinstance(value, torch.Tensor) and is_plain_tensor(value)
