"""Which nests become one kernel: groups grow in program order, each nest joining where that saves most.

A merge is legal when no path leaves the group and comes back, and when the nests share parallel axes along which each
reads the others at its own point. It is done when a kernel of the two takes less time than two kernels.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from xdsl.ir import SSAValue

from ..dialects.loop import ScatterOp
from .fuse_attention import Attentions, is_kernel
from .fuse_axes import named
from .fuse_cost import LINE, WRITE, Hints, Machine, shown
from .fuse_decisions import Decisions
from .fuse_graph import Node, tensor_type
from .fuse_merge import merge_groups
from .fuse_plan import Axis, Group, single
from .stages import Stages

MAX_BUFFERS = 56
"""Buffers of a kernel at most."""

MAX_SIZE = 800
"""Ops of the bodies of a kernel at most."""

LOOSE = 8
"""Nests that need nothing of each other, with loops of their own, share at least this part of their work."""

SIBLINGS = 2
"""Of the groups that read a tensor, so many of the last are tried."""


@dataclass(eq=False, slots=True)
class Cluster:
    """A group or an op outside of fusion, in the graph of what depends on what. Sets of ops are bit masks."""

    bits: int
    deps: set[int]
    """Positions of the ops that it uses directly."""
    ancestors: int
    group: Group | None
    work: float = 0.0
    """Bytes moved, arithmetic included."""
    size: int = 0
    sources: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])
    """Tensors read from outside, with the bytes that are moved."""


class Grouper:
    """Grows groups; `add` takes the ops of a function in order."""

    def __init__(
        self,
        machine: Machine,
        hints: Hints,
        readers: Mapping[SSAValue, set[Node]],
        attention: Attentions,
        stages: Stages,
    ) -> None:
        self.machine, self.hints, self.readers, self.attention = machine, hints, readers, attention
        self.stages = stages
        self.at: dict[int, Cluster] = {}
        self._clusters: dict[Cluster, None] = {}
        """Those that `at` has, in the order of their last ops."""
        self.decisions = Decisions()
        self._recent: dict[SSAValue, list[Node]] = {}
        self._position: dict[SSAValue, int] = {}
        self._node: dict[SSAValue, Node] = {}
        self._cluster: dict[Node, Cluster] = {}

    # The graph

    def add_op(self, position: int, deps: Iterable[int], results: Iterable[SSAValue]) -> None:
        """An op that is not fused."""
        c = self.at[position] = Cluster(1 << position, set(deps), self._closure(deps), None)
        self._clusters[c] = None
        self._position.update((r, position) for r in results)

    def add_node(self, n: Node, after: Iterable[int]) -> None:
        """A nest, which joins the groups that it gains most with. `after` are ops that it must follow besides."""
        deps = {self._position[r.source] for r in n.reads if r.source in self._position} | set(after)
        c = Cluster(1 << n.number, deps, self._closure(deps), single(n), size=n.size)
        for r in n.reads:
            c.sources[r.source] = max(c.sources.get(r.source, 0), self.hints.traffic(n, r))
        written = sum(self.hints.bytes(r) for r in n.results)
        points = self.hints.points(n.runs)
        c.work = sum(c.sources.values()) + WRITE * written + points * n.cost * self.machine.op
        self.at[n.number] = self._cluster[n] = c
        self._clusters[c] = None
        for r in n.results:
            self._position[r], self._node[r] = n.number, n
        if not isinstance(n.op, ScatterOp):
            self._grow(n)
        for r in {r.source for r in n.reads}:
            recent = self._recent.setdefault(r, [])
            recent.append(n)
            del recent[:-SIBLINGS]

    def _closure(self, deps: Iterable[int]) -> int:
        bits = 0
        for d in deps:
            c = self.at[d]
            bits |= c.bits | c.ancestors
        return bits

    def _cyclic(self, a: Cluster, b: Cluster) -> bool:
        """Whether a path runs from one to the other through a third."""
        for start, end in ((a, b), (b, a)):
            for d in end.deps:
                c = self.at[d]
                if c is not start and c is not end and c.ancestors & start.bits:
                    return True
        return False

    # Growth

    def _grow(self, n: Node) -> None:
        tried: set[Cluster] = set()
        while True:
            mine = self._cluster[n]
            best: tuple[float, float, Cluster, Group] | None = None
            for other in self._candidates(n, mine):
                if other in tried:
                    continue
                merged = self._merge(other, mine)
                if isinstance(merged, str):
                    tried.add(other)
                    self.decisions.kept_apart(n, _first(other), merged)
                elif best is None or merged[0] > best[0]:
                    best = (*merged[:2], other, merged[2])
            if best is None:
                return
            self._join(best[2], mine, best[3], best[1], n)
            tried.discard(best[2])

    def _candidates(self, n: Node, mine: Cluster) -> Iterable[Cluster]:
        found: dict[Cluster, None] = {}
        for r in n.reads:
            p = self._node.get(r.source)
            for other in (*((p,) if p is not None else ()), *self._recent.get(r.source, ())):
                c = self._cluster[other]
                if c is not mine and c.group is not None and not isinstance(other.op, ScatterOp):
                    found[c] = None
        return found

    def _merge(self, a: Cluster, b: Cluster) -> tuple[float, float, Group] | str:
        """Microseconds and bytes that merging saves, and the merged group; why not where it is illegal or of no use."""
        assert a.group is not None and b.group is not None
        if a.size + b.size > MAX_SIZE:
            return f"{a.size + b.size} ops are too many for one kernel"
        if self._cyclic(a, b):
            return "something between them needs one and is needed by the other"
        if self._delays(a.group, b.group) or self._delays(b.group, a.group):
            return "what is wider would be held until after a call"
        sources = len(a.sources.keys() | b.sources.keys())
        sources += sum(len(n.results) for g in (a.group, b.group) for n in g.members if n.escapes)
        if sources > MAX_BUFFERS:
            return f"{sources} buffers are too many for one kernel"
        merged = merge_groups(a.group, b.group)
        if merged is None:
            return "no loops fit both"
        if not _keeps_products(merged, self.attention):
            return "beside a product of matrices stands only what is computed at its own points"
        if any(n.sorts and len(merged.inner(n)) > 1 for n in merged.members):
            return "a point of the grid orders one row"
        if any(self.attention.get(n) == self.attention.get(m, ()) for n in a.group.members for m in b.group.members):
            return math.inf, self._saved(a, b, merged), merged
        if any(self._is_scattered(g, merged) for g in (a.group, b.group)):
            return "a point of the grid would keep one element of each of too many lines of memory"
        if self._starves(a.group, b.group, merged):
            return "together they have too little work for all threads"
        saved = self._saved(a, b, merged)
        if self._loose(a, b, merged) and saved * LOOSE < min(a.work, b.work):
            return f"they share {shown(saved)} and no loop: run as one they cost no more"
        time = self.machine.time
        apart = time(a.work, self._points(a.group)) + time(b.work, self._points(b.group))
        together = time(a.work + b.work - saved, self._points(merged))
        if together >= apart:
            return f"{together:.3g} us together, {apart:.3g} us apart"
        return apart - together, saved, merged

    def _delays(self, a: Group, b: Group) -> bool:
        """Whether a member of `a` that is to be early would wait for a call with `b`."""
        early = [self.stages.made[n.results[0]] for n in a.members if n.early]
        return bool(early) and max(self.stages.made[r] for n in b.members for r in n.results) > min(early)

    def _starves(self, a: Group, b: Group, merged: Group) -> bool:
        """Whether sizes larger than those seen now would leave threads without work that a group had for them."""
        for g in (a, b):
            for n in g.members:
                before, after = ({x for x in h.inner(n) if not isinstance(h.extent(x), int)} for h in (g, merged))
                if len(after) <= len(before):
                    continue
                # one loop of a size that is not known is a row, two are most of the tensor
                known = all(isinstance(merged.extent(x), int) for x in merged.grid)
                if len(after) > 1 or (known and self._points(merged) < self.machine.threads):
                    return True
        return False

    def _is_scattered(self, before: Group, merged: Group) -> bool:
        """Whether a member's own loops would not run along its memory any more, as those over the places of an image
        whose channels lie side by side, and neighbours in the grid are too long to run together.
        """
        for n in before.members:
            inner = merged.inner(n)
            if len(inner) <= len(before.inner(n)) or not n.results:
                continue
            along, names = tensor_type(n.results[0]).strides, named(merged, n)
            beside = {names[e] for e, s in zip(n.index, along, strict=True) if s == 1 and e in names}
            beside = {x for x in beside if merged.extent(x) != 1}
            if beside and beside.isdisjoint(inner) and LINE * self._size(merged, inner) > self.machine.l1:
                return True
        return False

    def _loose(self, a: Cluster, b: Cluster, merged: Group) -> bool:
        """Whether neither needs the other, and together they have no grid where one had its own."""
        assert a.group is not None and b.group is not None
        if len(merged.grid) or not (len(a.group.grid) or len(b.group.grid)):
            return False
        return not any(r in y.sources for x, y in ((a, b), (b, a)) for n in self._members(x) for r in n.results)

    @staticmethod
    def _members(c: Cluster) -> list[Node]:
        assert c.group is not None
        return c.group.members

    def _size(self, g: Group, axes: Iterable[Axis]) -> int:
        n = 1
        for a in axes:
            n *= self.hints.size(g.extent(a))
        return n

    def _points(self, g: Group) -> int:
        return self._size(g, g.grid)

    def _saved(self, a: Cluster, b: Cluster, merged: Group) -> float:
        assert a.group is not None and b.group is not None
        if self._row(merged) > self.machine.l2 // 2:
            return 0.0
        saved = float(sum(min(t, b.sources[s]) for s, t in a.sources.items() if s in b.sources))
        inside = set(merged.members)
        for x, y in ((a, b), (b, a)):
            assert x.group is not None
            for n in x.group.members:
                for r in n.results:
                    if r in y.sources:
                        saved += y.sources[r]
                        if not n.escapes and self.readers[r] <= inside:
                            saved += WRITE * self.hints.bytes(r)
        return saved

    def _row(self, g: Group) -> int:
        """Bytes that a grid point of the group comes back to: what is read in several loops."""
        total = 0
        seen: set[SSAValue] = set()
        for n in g.members:
            inner = self._size(g, (*g.inner(n), *g.reduced(n)))
            for r in n.reads:
                if r.source not in seen and inner > 1:
                    seen.add(r.source)
                    total += min(inner * 4, self.hints.bytes(r.source))
        return total

    def _join(self, a: Cluster, b: Cluster, merged: Group, saved: float, n: Node) -> None:
        assert a.group is not None
        self.decisions.joined(n, a.group.members, saved, a.work + b.work)
        bits = a.bits | b.bits
        c = Cluster(
            bits, a.deps | b.deps, (a.ancestors | b.ancestors) & ~bits, merged, a.work + b.work - saved, a.size + b.size
        )
        inside = {r for m in merged.members for r in m.results}
        for s in (*a.sources, *b.sources):
            if s not in inside:
                c.sources[s] = max(a.sources.get(s, 0), b.sources.get(s, 0))
        c.deps = {d for d in c.deps if not bits >> d & 1}
        for m in merged.members:
            self.at[m.number] = self._cluster[m] = c
        for old in (a, b):
            del self._clusters[old]
        below = c.ancestors | bits
        first = (bits & -bits).bit_length()
        for other in reversed(self._clusters):
            if other.bits.bit_length() < first:
                break
            if other.ancestors & bits:
                other.ancestors |= below
        self._clusters[c] = None


def _keeps_products(g: Group, attention: Attentions) -> bool:
    """Whether a product of matrices is alone but for pointwise nests over its own points, all of which are in the grid:
    tiles of the product then are tiles of all. The two products of attention are one kernel, with all between them.
    """
    members = next((attention[n] for n in g.members if n in attention), None)
    if members is not None:
        return is_kernel(g, members)
    products = [n for n in g.members if n.contraction]
    if not products:
        return True
    points = set(g.axes[products[0]][: len(products[0].dims)])
    others = [n for n in g.members if n is not products[0]]
    return set(g.grid) == points and all(n.pointwise and set(g.axes[n]) == points for n in others)


def _first(c: Cluster) -> Node:
    assert c.group is not None
    return c.group.members[0]
