"""Images of a joint graph channels last.

A convolution of contiguous images reorders what it reads and what it makes into the layout that it computes in, and
back; its backward does so three times. What `aten-channels-last` mends within a graph is fixed where a forward saves
images for a backward, so that the layout of a training step is chosen here, before the two are parted: weights and
images get channels-last copies, torch's fake tensors say what follows from that, and what cannot follow is copied back.
"""

from __future__ import annotations

import operator
from contextlib import nullcontext
from typing import Any

import torch
from torch._guards import detect_fake_mode
from torch._ops import OpOverload
from torch._subclasses import FakeTensor
from torch.fx import Graph, Node
from torch.fx.node import map_arg

_aten: Any = torch.ops.aten

_FREE = """_native_batch_norm_legit_functional _native_batch_norm_legit_no_training _batch_norm_with_update_functional
    _batch_norm_no_update native_batch_norm_backward batch_norm_backward max_pool2d_with_indices
    max_pool2d_with_indices_backward avg_pool2d avg_pool2d_backward _adaptive_avg_pool2d _adaptive_avg_pool2d_backward
    upsample_nearest2d upsample_nearest2d_backward upsample_bilinear2d upsample_bilinear2d_backward native_dropout
    native_dropout_backward mean sum amax amin cat constant_pad_nd clone _to_copy detach"""
FREE = frozenset(_FREE.split())
"""Operators, beside those of single points, that are as good with channels-last images, or read any."""

_ON_GPU = frozenset({torch.float16, torch.bfloat16, torch.float32})
"""What tensor cores multiply, with channels last."""

PAYS = 2
"""How many bytes convolutions must have less to reorder for each that is copied: at 5 to 4, a step of one convolution,
nothing was won.
"""


def with_channels_last(graph: Graph) -> Graph:
    """The graph, or another one with the same inputs and results whose images are channels last where convolutions
    save more by that than copies cost. Sizes must be numbers.
    """
    images = [node for node in graph.nodes if _is_convolution(node)]
    sizes: list[Any] = [s for node in images for s in (*_value(node).shape, *_value(node.args[0]).shape)]
    if not images or not all(isinstance(s, int) for s in sizes):
        return graph
    relaid = _Relaid(graph)
    try:
        relaid.run()
    except Exception:  # an operator that torch cannot run on what it would be given
        return graph
    return relaid.graph if relaid.saved > PAYS * relaid.copied else graph


class _Relaid:
    """A graph made anew. `of` are its nodes, by those of the old one."""

    def __init__(self, graph: Graph) -> None:
        self.old = graph
        self.graph = Graph()
        self.of: dict[Node, Node] = {}
        self.copies: dict[tuple[Node, torch.memory_format], Node] = {}
        self.saved = 0
        """Bytes that convolutions need not reorder."""
        self.copied = 0
        """Bytes of images that are copied for that; weights and their gradients would be reordered in any case."""
        self.weights: set[Node] = set()

    def run(self) -> None:
        mode = detect_fake_mode([n.meta["val"] for n in self.old.nodes if isinstance(n.meta.get("val"), torch.Tensor)])
        assert mode is not None
        with mode:
            for node in self.old.nodes:
                self.of[node] = self._node(node)

    def _node(self, node: Node) -> Node:
        """The node in the new graph, of what is made in the layouts that it takes."""
        args: Any = node.args
        if _is_convolution(node):
            taken = {args[0]: self._image, args[1]: self._weight}
        elif _is_convolution_backward(node):
            taken = {args[0]: self._image, args[1]: self._image, args[2]: self._weight}
        else:
            taken = {} if _is_free(node) else dict.fromkeys(node.all_input_nodes, self._as_it_was)
        made = self.graph.node_copy(node, lambda n: taken[n](n) if n in taken else self.of[n])
        sources = zip(node.all_input_nodes, made.all_input_nodes, strict=False)
        if node.op != "call_function" or all(_same_layout(a, b) for a, b in sources):
            return made
        target: Any = node.target
        values: Any = map_arg((made.args, made.kwargs), lambda n: n.meta["val"])
        made.meta = {name: value for name, value in node.meta.items() if name != "tensor_meta"}
        made.meta["val"] = target(*values[0], **values[1])
        if _is_convolution(node):
            self.saved += _bytes(args[0]) + _bytes(node)
        elif _is_convolution_backward(node):
            self.saved += _bytes(args[0]) + (1 + args[10][0]) * _bytes(args[1])
            self.weights |= {user for user in node.users if user.args[1] == 1}
        return made

    def _image(self, node: Node) -> Node:
        return self._in_layout(node, torch.channels_last)

    def _weight(self, node: Node) -> Node:
        self.weights.add(node)
        _, channels, *window = _value(node).shape
        if channels == 1 or window == [1, 1]:  # both layouts are the same memory
            return self.of[node]
        return self._in_layout(node, torch.channels_last)

    def _as_it_was(self, node: Node) -> Node:
        made = self.of[node]
        if _same_layout(node, made):
            return made
        if not _value(node).is_contiguous():
            raise NotImplementedError
        return self._in_layout(node, torch.contiguous_format)

    def _in_layout(self, node: Node, layout: torch.memory_format) -> Node:
        made = self.of[node]
        if _value(made).is_contiguous(memory_format=layout):
            return made
        if (made, layout) not in self.copies:
            # what is returned as a copy alone is copied at once, and gone
            at_once = all(user.op == "output" for user in node.users)
            with self.graph.inserting_after(made) if at_once else nullcontext():
                copy = self.graph.call_function(_aten.clone.default, (made,), {"memory_format": layout})
            copy.meta = {k: v for k, v in node.meta.items() if k in ("stack_trace", "nn_module_stack", "seq_nr")}
            copy.meta["val"] = _value(made).clone(memory_format=layout)
            self.copies[made, layout] = copy
            if node not in self.weights:
                self.copied += _bytes(node)
        return self.copies[made, layout]


def _value(node: Any) -> torch.Tensor:
    return node.meta["val"]


def _bytes(node: Any) -> int:
    return _value(node).nbytes


def _same_layout(old: Node, new: Node) -> bool:
    before, after = old.meta.get("val"), new.meta.get("val")
    if isinstance(before, torch.Tensor) and isinstance(after, torch.Tensor):
        return before.stride() == after.stride()
    if isinstance(before, tuple | list) and isinstance(after, tuple | list):
        pairs = zip(before, after, strict=True)
        return all(a.stride() == b.stride() for a, b in pairs if isinstance(a, torch.Tensor))
    return True


def _is_image(node: Any) -> bool:
    value = node.meta.get("val") if isinstance(node, Node) else None
    return isinstance(value, FakeTensor) and value.dim() == 4 and (value.device.type == "cpu" or value.dtype in _ON_GPU)


def _is_convolution(node: Node) -> bool:
    """Whether it is one of images, and not a transposed one."""
    return node.target is _aten.convolution.default and _is_image(node.args[0]) and node.args[6] is False


def _is_convolution_backward(node: Node) -> bool:
    return node.target is _aten.convolution_backward.default and _is_image(node.args[1]) and node.args[7] is False


def _is_free(node: Node) -> bool:
    """Whether an operator may be given images in any layout."""
    target = node.target
    if not isinstance(target, OpOverload):
        return target is operator.getitem
    pointwise = torch.Tag.pointwise in target.tags
    return target.namespace == "aten" and (pointwise or target.overloadpacket.__name__ in FREE)
