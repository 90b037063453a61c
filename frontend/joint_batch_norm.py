"""Batch norm of a joint graph in parts, so that its backward gets the statistics and makes the result anew from them.

    y, mean, rstd, … = batch_norm(x)   =   y = (x - mean) * (rstd * weight) + bias

As one operator it is computed again as a whole, for which x is summed up a second time, where a backward needs y, or
what follows of it, as the mask of a relu: with the parts that is one pass over x, which it reads anyway.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch.fx import Graph, Node

from .joint_calls import calls_like

_aten: Any = torch.ops.aten
_TRAINING = {_aten._native_batch_norm_legit_functional.default: 5, _aten._native_batch_norm_legit.no_stats: 3}
"""Where the argument `training` is."""
_TRAIN = 7
"""Where a backward's is."""


def part_batch_norm(graph: Graph) -> None:
    """Rewrite those in training that a backward of theirs reads, in place."""
    for node in list(graph.nodes):
        if node.target not in _TRAINING or node.args[_TRAINING[node.target]] is not True:
            continue
        results = {u.args[1]: u for u in node.users if u.target is operator.getitem}
        if len(results) == len(node.users) and {0, 1, 2} <= results.keys() and _is_read_backward(results[1]):
            _part(graph, node, results)


def drop_running_statistics(graph: Graph) -> None:
    """A backward in training reads none: what they are updated to is made where they stay, not kept for it."""
    for node in graph.find_nodes(op="call_function", target=_aten.native_batch_norm_backward.default):
        if node.args[_TRAIN] is True:
            node.args = (*node.args[:3], None, None, *node.args[5:])


def _is_read_backward(mean: Node) -> bool:
    """Whether a mean is, which a CPU rounds to 16 bits where x has as many: nothing is made from that."""
    exact = mean.meta["val"].dtype in (torch.float32, torch.float64)
    return exact and any(user.target is _aten.native_batch_norm_backward.default for user in mean.users)


def _part(graph: Graph, node: Node, results: dict[Any, Node]) -> None:
    x, weight, bias = node.args[:3]
    t, dtype = results[0].meta["val"], results[1].meta["val"].dtype
    call = calls_like(graph, node)

    def converted(value: Any) -> Node:
        return value if value.meta["val"].dtype == dtype else call(_aten._to_copy.default, value, dtype=dtype)

    def by_channel(value: Any) -> Node:
        return call(_aten.view.default, value, [-1, *[1] * (t.dim() - 2)])

    with graph.inserting_before(node.next):
        mean, rstd = (call(operator.getitem, node, i) for i in (1, 2))
        y = call(_aten.sub.Tensor, converted(x), by_channel(mean))
        y = call(
            _aten.mul.Tensor, y, by_channel(rstd if weight is None else call(_aten.mul.Tensor, rstd, converted(weight)))
        )
        if bias is not None:
            y = call(_aten.add.Tensor, y, by_channel(converted(bias)))
        if y.meta["val"].dtype != t.dtype:
            y = call(_aten._to_copy.default, y, dtype=t.dtype)
    if y.meta["val"].stride() == t.stride():
        for i, made in enumerate((y, mean, rstd)):
            results[i].replace_all_uses_with(made)
    graph.eliminate_dead_code()
