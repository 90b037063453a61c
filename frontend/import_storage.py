"""Views of memory, `as_strided` and what is made of it, of what was computed: by the tensor whose memory it is."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import sympy
import torch
from torch.fx import Node

from .aliases import SCATTERS, expression
from .graph_parts import UnsupportedWhole
from .marks import views_operand

if TYPE_CHECKING:
    from .import_fx import Bound, Importer

aten = torch.ops.aten
OF_STORAGE = frozenset(
    {aten.as_strided.default, aten.as_strided_copy.default, aten.as_strided_scatter.default, aten.as_strided_.default}
)


def of_storage(importer: Importer, node: Node, args: list[Bound]) -> None:
    """Name what the operand is a view of, which has the same memory, in place of the operand, which rewriting may put
    elsewhere; the offset counts from its first element.

    Raises UnsupportedWhole where a part of an argument was written: nothing guards where that lies in its memory, of
    which ATen's scatters copy all.
    """
    source = node.args[0]
    assert isinstance(source, Node)
    root = _root(source)
    if root.op != "call_function":
        return
    _check_seen_otherwise(root)
    offset = args[-1]
    args[0], args[-1] = importer.resolve(root), _offset(source) if offset is None else offset
    if root.target in SCATTERS:
        args[-1] = _inside(root, args[-3], args[-2], args[-1])


def _check_seen_otherwise(root: Node) -> None:
    """Of what is seen as another dtype, or as its conjugate, a value is made, which must be all that memory holds."""
    memory = root
    while (source := _source(memory)) is not None:
        memory = source
    if memory is root:
        return
    seen, whole = root.meta["val"], memory.meta["val"]
    inside = expression(seen.storage_offset()) != 0 or _bytes(seen) != _bytes(whole)
    if inside or memory.op != "call_function":
        raise UnsupportedWhole(f"node {root.name}: as_strided sees what is around it")


def _bytes(t: torch.Tensor) -> Any:
    """How many bytes of memory an expression says that it spans."""
    span = sum((expression(n) - 1) * expression(s) for n, s in zip(t.shape, t.stride(), strict=True))
    return sympy.expand((span + 1) * t.itemsize)


def _root(node: Node) -> Node:
    while (viewed := _viewed(node)) is not None:
        node = viewed
    return node


def _viewed(node: Node) -> Node | None:
    """What it is a view of, if it counts elements as that does, and is a view here too."""
    source = _source(node)
    if source is None or node.target in (aten._conj.default, aten._neg_view.default):
        return None
    a, b = node.meta.get("val"), source.meta.get("val")
    same = isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor) and a.dtype == b.dtype
    return source if same else None


def _source(node: Node) -> Node | None:
    """What it is a view of."""
    if not views_operand(node):
        return None
    source = node.all_input_nodes[0]
    if node.target is not operator.getitem:
        return source
    return source.all_input_nodes[0] if views_operand(source) else None  # one of several views


def _offset(node: Node) -> Any:
    """Where it begins in memory; what is traced for a scatter begins elsewhere than what ATen makes."""
    if node.target in SCATTERS:
        operand = node.args[0]
        assert isinstance(operand, Node)
        if _root(operand).op != "call_function":
            raise UnsupportedWhole(
                f"node {node.name}: what is around the argument that it writes is seen by as_strided"
            )
        return _offset(operand)
    own = expression(node.meta["val"].storage_offset())
    root = _root(node)
    return own if root is node else own - expression(root.meta["val"].storage_offset()) + _offset(root)


def _inside(scattered: Node, size: Any, stride: Any, offset: Any) -> int:
    """The offset from the first element of what a scatter made, in which all lies."""
    memory, begin = scattered.meta["val"], _offset(scattered)
    numbers = [*memory.shape, *memory.stride(), begin, *size, *stride, offset]
    if not all(type(n) is int for n in numbers):
        raise UnsupportedWhole(f"node {scattered.name}: as_strided of it, of sizes that are symbolic")
    begin = offset - begin
    end = begin + sum((n - 1) * s for n, s in zip(size, stride, strict=True))
    span = sum((n - 1) * s for n, s in zip(memory.shape, memory.stride(), strict=True))
    if 0 not in size and (begin < 0 or end > span or span + 1 != memory.numel()):
        raise UnsupportedWhole(f"node {scattered.name}: as_strided reaches beyond it")
    return begin
