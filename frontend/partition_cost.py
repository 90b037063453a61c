"""What saving a value for the backward costs, and what computing it again does, in bytes of memory traffic."""

from __future__ import annotations

import enum
import math
import operator
from functools import cached_property
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Node
from torch.utils.flop_counter import flop_registry

from ..dialects.aten import op_name
from .joint_graph import JointGraph, hinted, symbol_like

FLOPS_PER_BYTE = 32
"""Arithmetic of matrix products that takes as long as moving one byte."""

BYTES_PER_ELEMENT = 0.5
"""Traffic that takes as long as computing one element of a fused operator."""

MATERIALIZED_TWICE = 2
"""A value that nothing in the forward writes costs a write and a read; one that is in memory anyway, a read."""


HELD = 2
"""What it costs more to hold a byte of a GPU's memory until the backward: traffic that is as dear."""

RELAID = 3
"""What it costs more, on a CPU, to hold a copy of an input in another layout, as convolutions take weights: it is made
again, which reads the input and writes and reads the copy.
"""

_CLONE: Any = torch.ops.aten.clone.default

_CONVERSION: Any = torch.ops.aten._to_copy.default
"""Of no arithmetic: what is loaded is of another dtype."""


class Kind(enum.Enum):
    """How an operator is carried out."""

    VIEW = "no code"
    FUSED = "part of a kernel"
    CALL = "a call into ATen"
    RANDOM = "random numbers"
    OTHER = "not an operator of tensors"


def size_in_bytes(node: Node) -> int:
    """Bytes of a node's tensors, with sizes as seen when tracing."""
    value = node.meta.get("val")
    parts = value if isinstance(value, (list, tuple)) else (value,)
    return sum(hinted(p.numel()) * p.dtype.itemsize for p in parts if isinstance(p, torch.Tensor))


def _elements(node: Node) -> int:
    value = node.meta.get("val")
    parts = value if isinstance(value, (list, tuple)) else (value,)
    return max((hinted(p.numel()) for p in parts if isinstance(p, torch.Tensor)), default=0)


class Costs:
    """The costs of one joint graph's nodes."""

    def __init__(self, joint: JointGraph) -> None:
        self.joint = joint
        self._kinds: dict[Node, Kind] = {}
        self._bytes: dict[Node, int] = {}

    def kind(self, node: Node) -> Kind:
        found = self._kinds.get(node)
        if found is None:
            found = self._kinds[node] = _kind(node)
        return found

    def size(self, node: Node) -> int:
        found = self._bytes.get(node)
        if found is None:
            found = self._bytes[node] = size_in_bytes(node)
        return found

    def save(self, node: Node) -> int | None:
        """The cost of saving a node's value; None where that is impossible or never pays."""
        value = node.meta.get("val")
        if symbol_like(node):
            return 1
        if not isinstance(value, torch.Tensor):
            return 0 if self.joint.is_opaque(node) else None
        if node.op == "call_function" and self.kind(node) is Kind.VIEW and not self.must_save(node):
            return None
        return int(self.size(node) * ((1 if self._in_memory(node) else MATERIALIZED_TWICE) + self._holding(node)))

    def _holding(self, node: Node) -> int:
        """What a byte of a value costs more as it is held until the backward."""
        if self.joint.on_gpu:
            return HELD if self._seen(node) not in self.held else 0
        return RELAID if node.target is _CLONE and self._is_given(node.all_input_nodes[0]) else 0

    def recompute(self, node: Node, allowed: frozenset[Node]) -> int | None:
        """The cost of computing a node again in the backward; None where it must not be. `allowed` nodes cost nothing:
        a budget has decided for them.
        """
        if node.op != "call_function" or symbol_like(node):
            return 0
        if self.must_save(node):
            return None
        if node in allowed or node.target is operator.getitem:
            return 0
        match self.kind(node):
            case Kind.VIEW | Kind.OTHER:
                return 0
            case Kind.RANDOM | Kind.CALL:
                return None
            case Kind.FUSED:
                if node in self.far:
                    return None
                cost = 0.0 if node.target is _CONVERSION else BYTES_PER_ELEMENT * _elements(node)
                if self._reduces(node):
                    cost += sum(map(self.size, node.all_input_nodes))
                if self._written_in_backward(node):
                    cost += MATERIALIZED_TWICE * self.size(node)
                return math.ceil(cost)

    def must_save(self, node: Node) -> bool:
        """Whether a node's value is to be saved: torch says so of all that one checkpointed region gives to the next.
        What is only seen in an input, as a weight that two of them share, is there.
        """
        return self.joint.must_save(node) and not self._is_given(node)

    def _is_given(self, node: Node) -> bool:
        return self._seen(node).op == "placeholder"

    def _seen(self, node: Node) -> Node:
        """What a view is one of; any other value is itself."""
        while node.op == "call_function" and self.kind(node) is Kind.VIEW and node.all_input_nodes:
            node = node.all_input_nodes[0]
        return node

    @cached_property
    def held(self) -> frozenset[Node]:
        """Values that are there during the backward whatever is saved: the program's inputs, and what it returns."""
        given = (node for node in self.joint.graph.nodes if node.op == "placeholder")
        return frozenset((*given, *map(self._seen, self.joint.returned)))

    def expense(self, node: Node) -> int:
        """What a budget pays for computing a node again."""
        moved = self.size(node) + sum(map(self.size, node.all_input_nodes))
        return moved + _flops(node) // FLOPS_PER_BYTE

    def may_be_allowed(self, node: Node) -> bool:
        """Whether a budget may have a node computed again."""
        if node.op != "call_function" or node.target is operator.getitem or self.must_save(node):
            return False
        return self.kind(node) is Kind.FUSED or (self.kind(node) is Kind.CALL and _is_pure(node))

    @cached_property
    def far(self) -> frozenset[Node]:
        """Fused nodes that read, beside newer values, one from before an operator that is a call: the kernel that
        computed them again would read all that lies between. A residual stream would be summed up anew for each layer.
        """
        stage: dict[Node, int] = {}
        found: set[Node] = set()
        for node in self.joint.graph.nodes:
            stages = [stage[s] for s in node.all_input_nodes if s in stage]
            mine = stage[node] = max(stages, default=0)
            if node.op != "call_function" or node not in self.joint.forward:
                continue
            kind = self.kind(node)
            if kind is Kind.CALL or (kind is Kind.RANDOM and not symbol_like(node)):
                stage[node] = mine + 1
            elif kind is Kind.FUSED and any(
                stage[s] < mine and self._made_by_kernel(s) and 4 * self.size(s) > self.size(node)
                for s in node.all_input_nodes
            ):
                found.add(node)
        return frozenset(found)

    def _made_by_kernel(self, node: Node) -> bool:
        while node.op == "call_function" and (self.kind(node) is Kind.VIEW or node.target is operator.getitem):
            source = node.all_input_nodes
            if not source:
                break
            node = source[0]
        return node.op == "call_function" and self.kind(node) is Kind.FUSED

    def _reduces(self, node: Node) -> bool:
        """Whether a fused operator needs more of its inputs than the point it makes."""
        value = node.meta.get("val")
        if isinstance(value, (list, tuple)):
            return True
        return any(4 * self.size(node) < self.size(s) for s in node.all_input_nodes)

    def _in_memory(self, node: Node) -> bool:
        """Whether the forward writes a value to memory anyway."""
        if node.op == "placeholder":
            return True
        if node.op == "call_function" and self.kind(node) in (Kind.CALL, Kind.RANDOM):
            return True
        return self._has_user(node, lambda u: u in self.joint.forward or u.op == "output")

    def _written_in_backward(self, node: Node) -> bool:
        """Whether the backward would have to write the value it computed again, as a call reads it."""
        return self._has_user(node, lambda u: u not in self.joint.forward and u.op != "output")

    def _has_user(self, node: Node, where: Any) -> bool:
        """Whether a call, or the end of the graph, reads a value or a view of it."""
        stack = [node]
        while stack:
            for user in stack.pop().users:
                if user.op == "output":
                    if where(user):
                        return True
                elif self.kind(user) is Kind.VIEW or user.target is operator.getitem:
                    stack.append(user)
                elif self.kind(user) is Kind.CALL and where(user):
                    return True
        return False


def _is_pure(node: Node) -> bool:
    return isinstance(node.target, OpOverload) and not node.target._schema.is_mutable


def _kind(node: Node) -> Kind:
    from ..lowering.aten_to_prims import RULES

    target = node.target
    if target is operator.getitem:
        source = node.args[0]
        return _kind(source) if isinstance(source, Node) else Kind.OTHER
    if not isinstance(target, OpOverload):
        return Kind.OTHER if symbol_like(node) else Kind.CALL
    if torch.Tag.nondeterministic_seeded in target.tags:
        return Kind.RANDOM
    name = op_name(target)
    entry = RULES.get(name)
    if entry is None or entry.costly:
        return Kind.CALL
    return Kind.VIEW if entry.alias else Kind.FUSED


def _flops(node: Node) -> int:
    """Arithmetic of matrix products, convolutions and attention, by torch's own formulas; 0 for other operators."""
    target = node.target
    formula = flop_registry.get(target.overloadpacket) if isinstance(target, OpOverload) else None
    if formula is None:
        return 0

    def shaped(value: Any) -> Any:
        if isinstance(value, Node):
            value = value.meta.get("val")
        if isinstance(value, torch.Tensor):
            return torch.empty([hinted(s) for s in value.shape], device="meta")
        if isinstance(value, (list, tuple)):
            return type(value)(shaped(v) for v in value)
        return hinted(value) if isinstance(value, torch.SymInt) else value

    keywords = {name: shaped(value) for name, value in node.kwargs.items()}
    try:
        return int(formula(*map(shaped, node.args), **keywords, out_val=shaped(node.meta.get("val"))))
    except (TypeError, ValueError, RuntimeError, AssertionError):  # a formula that does not know the overload
        return 0
