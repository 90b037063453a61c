"""Max pooling of a joint graph on a GPU, whose backward gets places within windows, of 8 bits, not indices of 64.

Indices are four times the bytes of a result of 16 bits: a partition would rather have all windows gone through again.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import torch
from torch.fx import Graph, Node

from .joint_calls import calls_like

_aten: Any = torch.ops.aten
_POOLS = {
    _aten.max_pool2d_with_indices.default: _aten.max_pool2d_with_indices_backward.default,
    _aten.max_pool3d_with_indices.default: _aten.max_pool3d_with_indices_backward.default,
}


def narrow_indices(graph: Graph) -> None:
    """Rewrite those whose indices a backward alone reads, in place."""
    for node in list(graph.nodes):
        backward = _POOLS.get(node.target)
        indices = next((u for u in node.users if u.target is operator.getitem and u.args[1] == 1), None)
        if backward is None or indices is None or any(u.target is not backward for u in indices.users):
            continue
        if _is_on_gpu(indices.meta["val"]) and math.prod(_windows(node)[0]) < 128:
            _narrow(graph, node, indices)


def _is_on_gpu(indices: torch.Tensor) -> bool:
    return indices.device.type == "cuda"


def _windows(node: Node) -> tuple[list[int], list[int], list[int], list[int], bool]:
    """Sizes, strides, paddings, dilations by dims, and whether incomplete windows count."""
    n = 2 if node.target is _aten.max_pool2d_with_indices.default else 3
    kernel, stride, padding, dilation, ceil_mode = (*node.args[1:], *[None] * 5)[:5]

    def each(values: Any, otherwise: Any) -> list[int]:
        values = list(values or otherwise)
        return values * n if len(values) == 1 else values

    sizes = each(kernel, ())
    return sizes, each(stride, sizes), each(padding, (0,)), each(dilation, (1,)), bool(ceil_mode)


def _narrow(graph: Graph, node: Node, indices: Node) -> None:
    import torch._inductor.inductor_prims as inductor_prims  # which has torch's operators for that

    prims: Any = inductor_prims
    kernel, stride, padding, dilation, ceil_mode = _windows(node)
    x: Any = node.args[0]
    call = calls_like(graph, node)
    size = list(x.meta["val"].shape[-len(kernel) :])
    if not all(type(s) is int for s in size):
        return
    with graph.inserting_before(node.next):
        pool = call(prims._low_memory_max_pool_with_offsets, x, kernel, stride, padding, dilation, ceil_mode)
        values, offsets = (call(operator.getitem, pool, i) for i in (0, 1))
        target = prims._low_memory_max_pool_offsets_to_indices
        made = call(target, offsets, kernel, size, stride, padding, dilation)
    for old in list(node.users):
        old.replace_all_uses_with(made if old is indices else values)
    graph.eliminate_dead_code()
