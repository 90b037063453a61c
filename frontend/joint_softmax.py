"""log_softmax of a joint graph in parts, so that its backward gets the maxima and the sums instead of making them anew.

    y = log_softmax(x)   =   m = max(x); s = log(sum(exp(x - m))); y = (x - m) - s

As one operator it is saved as a whole, or computed again from x as a whole: with the parts, a partition saves two
numbers a row, and the backward of a loss over a vocabulary reads its logits once.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Graph, Node

from .joint_calls import calls_like

_aten: Any = torch.ops.aten
_HALVES = (torch.float16, torch.bfloat16)


def part_log_softmax(graph: Graph) -> None:
    """Rewrite those whose results a backward reads, in place. Rows must have a known number of elements, not 0."""
    for node in list(graph.nodes):
        if node.target is not _aten._log_softmax.default or not _is_read_backward(node):
            continue
        x, dim = node.args[0].meta.get("val"), node.args[1]
        if not isinstance(x, torch.Tensor) or x.dim() == 0 or type(size := x.shape[dim]) is not int or size == 0:
            continue
        _part(graph, node, dim)


def _is_read_backward(node: Node) -> bool:
    return any(
        user.target is _aten._log_softmax_backward_data.default
        or (user.target in (_aten.detach.default, _aten.alias.default) and _is_read_backward(user))
        for user in node.users
    )


def _part(graph: Graph, node: Node, dim: int) -> None:
    result = node.meta["val"]

    call = calls_like(graph, node)
    with graph.inserting_before(node):
        x: Any = node.args[0]
        if x.meta["val"].dtype in _HALVES:
            x = call(_aten._to_copy.default, x, dtype=torch.float32)
        shifted = call(_aten.sub.Tensor, x, call(_aten.amax.default, x, [dim], True))
        total = call(_aten.sum.dim_IntList, call(_aten.exp.default, shifted), [dim], True)
        y = call(_aten.sub.Tensor, shifted, call(_aten.log.default, total))
        if y.meta["val"].dtype != result.dtype:
            y = call(_aten._to_copy.default, y, dtype=result.dtype)
    if y.meta["val"].stride() == result.stride():
        node.replace_all_uses_with(y)
        graph.erase_node(node)
    else:
        graph.eliminate_dead_code()
