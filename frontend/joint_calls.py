"""Calls that a pass over a joint graph puts in place of others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch._guards import detect_fake_mode
from torch.fx import Graph, Node


def calls_like(graph: Graph, node: Node) -> Callable[..., Node]:
    """`call(target, *args, **kwargs)`, which adds a call with its value, and with what is noted of `node` else."""

    def call(target: Any, *args: Any, **kwargs: Any) -> Node:
        made = graph.call_function(target, args, kwargs)
        made.meta = {k: v for k, v in node.meta.items() if k not in ("val", "tensor_meta")}
        values = [a.meta["val"] if isinstance(a, Node) else a for a in args]
        mode = detect_fake_mode(values)
        if mode is None:
            made.meta["val"] = target(*values, **kwargs)
        else:
            with mode:
                made.meta["val"] = target(*values, **kwargs)
        return made

    return call
