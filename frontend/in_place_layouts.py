"""What is computed in place stays where it lies: where a new tensor would lie otherwise, it is copied into the old one.

AOTAutograd writes `y.cumsum_(0)` as a new tensor in the place of y, which then has the strides of that one. In the
graph of TorchDynamo such a call becomes `y.copy_(y.clone().cumsum(0))`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses import FakeTensor
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from .fake_kernels import right_fakes
from .fake_strides import in_order, is_same, same_strides


def keep_layouts(graph: GraphModule) -> int:
    """Change the calls in place; how many are copied."""
    calls = [node for node in graph.graph.nodes if _is_in_place(node)]
    if not calls:
        return 0
    with right_fakes():
        changed = sum(map(_copied, calls))
    if changed:
        graph.recompile()
    return changed


def _is_in_place(node: Node) -> bool:
    """Whether it is a method in place of an intermediate that does not lie in order; arguments are written in the end
    anyway.
    """
    name = node.target
    if node.op != "call_method" or not isinstance(name, str) or not name.endswith("_") or name.endswith("__"):
        return False
    if name == "bernoulli_" or not hasattr(torch.Tensor, name[:-1]) or not node.args:  # no other random one has both
        return False
    x = node.args[0]
    value = x.meta.get("example_value") if isinstance(x, Node) and x.op != "placeholder" else None
    if not isinstance(value, FakeTensor) or value.layout is not torch.strided:
        return False
    return not all(map(is_same, value.stride(), in_order(value.shape)))


def _copied(node: Node) -> bool:
    method: Any = node.target
    args: Any = map_arg(node.args, lambda n: n.meta.get("example_value", n))
    named: Any = map_arg(node.kwargs, lambda n: n.meta.get("example_value", n))
    x, *others = args
    try:
        with x.fake_mode, torch.no_grad():
            made = getattr(torch.Tensor, method[:-1])(x, *others, **named)
    except Exception:  # tracing says what is wrong with it
        return False
    if not isinstance(made, torch.Tensor) or made.dtype != x.dtype or made.dim() != x.dim() or same_strides(made, x):
        return False
    if made.untyped_storage()._cdata == x.untyped_storage()._cdata:  # a view: only the tensor changes, as by `t_`
        return False
    graph = node.graph
    with graph.inserting_before(node):
        # what a derivative needs of it is not written over
        old = graph.call_method("clone", node.args[:1])
        old.meta = {**node.meta, "example_value": x}
        new = graph.call_method(method[:-1], (old, *node.args[1:]), node.kwargs)
        new.meta = {**node.meta, "example_value": made}
        copy = graph.call_method("copy_", (node.args[0], new))
        copy.meta = dict(node.meta)
    node.replace_all_uses_with(copy)
    graph.erase_node(node)
    return True
