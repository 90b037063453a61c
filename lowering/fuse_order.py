"""What must stay in order in a function besides uses: ops that change operands, and those that may not be pure."""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Mapping

from xdsl.ir import Operation, SSAValue
from xdsl.traits import Pure

from ..dialects.aliasing import written
from ..dialects.aten import AtenOp
from ..dialects.flow import CallOp, FlowOp, all_ops
from ..dialects.loop import NestOp, ScatterOp, ViewOp
from ..dialects.symbol_kinds import FOUND, symbol_kind
from ..dialects.verify_program import size_names
from .fuse_graph import Node
from .fuse_groups import Cluster


class Order:
    """The order that the ops of a function must keep."""

    def __init__(self, ops: list[Operation]) -> None:
        self.ops = ops
        self._alias: dict[SSAValue, SSAValue] = {}
        self._chained = [i for i, o in enumerate(ops) if _is_impure(o)]
        self._given = _given(ops)
        self.mutations: dict[SSAValue, list[int]] = {}
        """Values whose storage is written to, with the positions of the ops that do."""
        changed: dict[SSAValue, list[int]] = {}
        for o in ops:
            if isinstance(o, ViewOp) or (isinstance(o, AtenOp) and o.schema.is_view and o.operands):
                root = self.root(o.operands[0])
                self._alias.update((r, root) for r in o.results)
        for i in self._chained:
            for v in written(ops[i]):
                changed.setdefault(self.root(v), []).append(i)
        if changed:
            for v in {v for o in ops for v in (*o.operands, *o.results)} | _loaded(ops):
                if (root := self.root(v)) in changed:
                    self.mutations[v] = changed[root]

    def root(self, v: SSAValue) -> SSAValue:
        """The value whose storage `v` shares."""
        return self._alias.get(v, v)

    def after(self, n: Node, absorbed: Mapping[SSAValue, Node]) -> list[int]:
        """The ops that a nest must follow because they change what it reads: the last of each, which follow others; and
        those that read from data the sizes in it and in what it absorbed.
        """
        writes = [i for r in n.reads if (i := self._last_write(r.source, n.number)) is not None]
        sizes: set[int] = set()
        inside = [n] if self._given else []
        for part in inside:  # which grows
            sizes |= self._sizes(part.op)
            inside += {p for v in part.tensors if (p := absorbed.get(v)) is not None}.difference(inside)
        return [*writes, *sizes]

    def _sizes(self, o: Operation) -> set[int]:
        """The ops that give the sizes that an op needs, which no operand may tell."""
        if not self._given:
            return set()
        given = {self._given[s] for s in _size_names(o) if s in self._given}
        return {i for i in given if self.ops[i] is not o}

    def _last_write(self, v: SSAValue, before: int) -> int | None:
        writes = self.mutations.get(v)
        at = bisect_left(writes, before) if writes else 0
        return writes[at - 1] if writes and at else None

    def op_deps(self, nodes: Mapping[Operation, Node]) -> dict[int, set[int]]:
        """For each op outside of fusion, by position, those that it must follow besides those that make its operands.

        `nodes` are the nests that are computed by themselves. Ops that may not be pure follow one another; one that
        writes follows what has used the same storage since the last write to it.
        """
        deps: dict[int, set[int]] = {}
        users: dict[SSAValue, list[int]] = {}
        last: int | None = None
        for i, o in enumerate(self.ops):
            fused = isinstance(o, (NestOp, ScatterOp))
            if not fused:
                writes = (self._last_write(v, i) for v in o.operands)
                deps[i] = {w for w in writes if w is not None} | self._sizes(o)
                if _is_impure(o):
                    if last is not None:
                        deps[i].add(last)
                    last = i
                    for v in written(o):
                        deps[i].update(users.pop(self.root(v), ()))
            if self.mutations and (not fused or o in nodes):
                used = (r.source for r in nodes[o].reads) if fused else o.operands
                for v in used:
                    if v in self.mutations:
                        users.setdefault(self.root(v), []).append(i)
        return deps


def in_order(clusters: Mapping[int, Cluster]) -> list[Cluster]:
    """Clusters so that each follows what it needs, else as their last ops stood: one that joins ops from far apart
    stands before the first that needs it, so that no other comes earlier than it must.
    """
    needed = {c: {clusters[d] for d in c.deps} - {c} for c in dict.fromkeys(clusters.values())}
    users: dict[Cluster, list[Cluster]] = {c: [] for c in needed}
    for c, before in needed.items():
        for d in before:
            users[d].append(c)
    at = _places(needed, users)
    waiting = {c: len(before) for c, before in needed.items()}
    heap = [(at[c], c.bits.bit_length(), c) for c, n in waiting.items() if n == 0]
    heapq.heapify(heap)
    ordered: list[Cluster] = []
    while heap:
        _, _, c = heapq.heappop(heap)
        ordered.append(c)
        for u in users[c]:
            waiting[u] -= 1
            if waiting[u] == 0:
                heapq.heappush(heap, (at[u], u.bits.bit_length(), u))
    assert len(ordered) == len(waiting), "fusion made a cycle"
    return ordered


def _places(needed: Mapping[Cluster, set[Cluster]], users: Mapping[Cluster, list[Cluster]]) -> dict[Cluster, int]:
    """The position of the last op of each cluster, or of the first cluster that needs it, directly or not."""
    at = {c: c.bits.bit_length() for c in needed}
    left = {c: len(after) for c, after in users.items()}
    last = [c for c, n in left.items() if n == 0]
    while last:
        c = last.pop()
        for d in needed[c]:
            at[d] = min(at[d], at[c])
            left[d] -= 1
            if left[d] == 0:
                last.append(d)
    return at


def _given(ops: list[Operation]) -> dict[str, int]:
    """The sizes that are read from data, each with the position of the op that does."""
    found: dict[str, int] = {}
    if not any(symbol_kind(s) in FOUND for o in ops for r in o.results for s in size_names(r.type)):
        return found
    seen: set[str] = set()
    for i, o in enumerate(ops):
        seen.update(s for a in (*o.operand_types, *o.properties.values()) for s in size_names(a))
        made = {s for r in o.results for s in size_names(r.type)} - seen
        seen |= made
        if not isinstance(o, (NestOp, ScatterOp, ViewOp)):
            found |= dict.fromkeys(made, i)
    return found


def _size_names(o: Operation) -> set[str]:
    """The sizes in an op and in its regions."""
    attributes = (*o.properties.values(), *(r.type for r in o.results))
    inner = (i for region in o.regions for block in region.blocks for i in block.ops)
    return {s for a in attributes for s in size_names(a)}.union(*map(_size_names, inner))


def _is_impure(o: Operation) -> bool:
    """Whether an op writes to its operands, or has a state of its own such as the random generator's, or may have."""
    if isinstance(o, CallOp):
        return True
    if isinstance(o, FlowOp):
        return any(_is_impure(inner) for region in o.regions for inner in all_ops(region.block))
    return isinstance(o, AtenOp) and not o.has_trait(Pure) and not o.schema.is_view


def _loaded(ops: list[Operation]) -> set[SSAValue]:
    return {v for o in ops if isinstance(o, (NestOp, ScatterOp)) for inner in o.body.block.ops for v in inner.operands}
