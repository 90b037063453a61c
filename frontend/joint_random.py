"""Random operators that a backward computes again: what their numbers follow from is saved, not they.

Those that kernels make (`lowering/decompositions_random.py`) follow from a seed, in both halves. Others are ATen's: the
forward saves the state of the generator before it calls them, and the backward calls them from that state.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._guards import detect_fake_mode
from torch._ops import OpOverload
from torch.fx import Graph, GraphModule, Node

from ..dialects.aten import op_name

# `dialects.seeded` is imported where there are such operators: to register its own, torch looks through all modules.

_LEAST, _MOST = -(1 << 63), (1 << 63) - 1


def with_seeds(graph: Graph, again: set[Node], eagers: bool) -> bool:
    """Give the random ones of the nodes `again` a seed or a state; with `eagers`, which draws eager's numbers, a state.

    Whether others are left, that draw numbers too.
    """
    left = False
    for node in [n for n in graph.nodes if n in again and _draws(n)]:
        from ..dialects import seeded

        try:
            if _given(node).get("generator") is None:
                _give_seed(graph, node, seeded.seeded(node.target), eagers)
                continue
        except ValueError:
            pass
        left = True
    return left


def _give_seed(graph: Graph, node: Node, target: Any, eagers: bool) -> None:
    from ..lowering.aten_to_prims import RULES

    device = _device(node)
    with graph.inserting_before(node):
        if eagers or op_name(target) not in RULES:
            source = graph.call_function(torch.ops.seeded.state.default, (), {"device": device})
        else:
            settings: Any = {"dtype": torch.int64, "device": device}
            source = graph.call_function(torch.ops.aten.randint.low, (_LEAST, _MOST, []), settings)
    mode: Any = detect_fake_mode([node.meta["val"]])
    source.meta = {k: v for k, v in node.meta.items() if k not in ("val", "tensor_meta", "recompute", "ac_graph_id")}
    with mode:
        source.meta["val"] = source.target(*source.args, **source.kwargs)  # pyright: ignore
    node.target, node.args = target, (source, *node.args)


def without_states(forward: GraphModule) -> None:
    """Have a forward call random operators as they are where their state has just been read."""
    for node in forward.graph.nodes:
        if not isinstance(node.target, OpOverload) or node.target.namespace != "seeded" or not node.args:
            continue
        source, *args = node.args
        if isinstance(source, Node) and source.target is torch.ops.seeded.state.default:
            from ..dialects import seeded

            node.target, node.args = seeded.original(node.target), tuple(args)
    forward.recompile()


def _draws(node: Node) -> bool:
    """Whether a node draws random numbers; attention without dropout, and dropout that is off, draw none."""
    target = node.target
    if not isinstance(target, OpOverload) or torch.Tag.nondeterministic_seeded not in target.tags:
        return False
    given = _given(node)
    return given.get("dropout_p", 1) != 0 and given.get("train", True) is not False


def _given(node: Node) -> dict[str, Any]:
    """The arguments of a call that are given, by name."""
    names = (a.name for a in node.target._schema.arguments)  # pyright: ignore
    return {**dict(zip(names, node.args, strict=False)), **node.kwargs}


def _device(node: Node) -> torch.device:
    value: Any = node.meta["val"]
    return next(v for v in (value if isinstance(value, (tuple, list)) else [value])).device
