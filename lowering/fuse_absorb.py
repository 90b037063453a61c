"""Which pointwise nests are computed where they are read, and never stored: substitution is right, and often free.

A nest that is read once per element costs nothing to absorb. Else its cost is counted again for every reader, against
one write and the reads of the stored result.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from xdsl.ir import Operation, SSAValue

from ..dialects import expr
from ..dialects.aten import AtenOp
from ..dialects.flow import TERMINATORS
from ..dialects.loop import ScatterOp, ViewOp
from ..dialects.tensor import itemsize
from .fuse_cost import WRITE, Hints, Machine
from .fuse_graph import Node, Read, tensor_type
from .fuse_index import invert, simplified
from .fuse_narrow import widens
from .stages import Stages

MAX_DEPTH = 64
"""Longest chain of absorbed nests: emission recurses along it."""

MAX_SIZE = 400
"""Ops of a body after absorption."""

INDEX_OPS = 4
"""Ops on indices alone that take no longer than reading back what they give."""

_WORTH, _WORTH_APART, _WORTH_PARTS = 0.6, 0.8, 0.9
"""Computing something for several readers must be this much cheaper than storing it: stored, it may fuse with them; the
second where they cannot be one kernel, and it would be written in any case; the third where sums in parts are between.
"""


def absorb(
    nodes: list[Node], mutations: Mapping[SSAValue, list[int]], hints: Hints, stages: Stages, machine: Machine
) -> dict[SSAValue, Node]:
    """Absorb what is worth it, in place; the results of absorbed nests. `mutations` says where values change."""
    return _Absorber(nodes, mutations, hints, stages, machine).run()


class _Absorber:
    def __init__(
        self, nodes: list[Node], mutations: Mapping[SSAValue, list[int]], hints: Hints, stages: Stages, machine: Machine
    ) -> None:
        self.nodes, self.mutations, self.hints, self.stages, self.machine = nodes, mutations, hints, stages, machine
        self.producer = {r: n for n in nodes for r in n.results}
        self.readers: dict[Node, dict[Node, None]] = {n: {} for n in nodes}
        self.level: dict[Node, int] = {}
        """How many reductions follow one another before a nest."""
        for n in nodes:
            self._add_reader(n, n.reads)
            sources = (p for v in n.tensors if (p := self.producer.get(v)) is not None)
            self.level[n] = max((self.level[p] + (not p.pointwise) for p in sources), default=0)

    def _add_reader(self, n: Node, reads: Iterable[Read]) -> None:
        for r in reads:
            p = self.producer.get(r.source)
            if p is not None:
                self.readers[p][n] = None

    def run(self) -> dict[SSAValue, Node]:
        # before what makes the narrow value is asked: that is what should be stored, if one of them is
        work = deque(sorted(self.nodes, key=lambda n: not widens(n)))
        waiting = set(self.nodes)
        absorbed: dict[SSAValue, Node] = {}
        while work:
            a = work.popleft()
            waiting.discard(a)
            if a.absorbed or not a.pointwise or a.escapes or not self._wanted(a):
                continue
            a.absorbed = True
            absorbed.update((r, a) for r in a.results)
            for n in self.readers[a]:
                self._substitute(a, n)
            again = [p for p in self._forget(a) if p not in waiting]
            work += again
            waiting.update(again)
        return absorbed

    def _forget(self, a: Node) -> Iterable[Node]:
        """Producers of an absorbed nest, which may have fewer readers now."""
        found = dict.fromkeys(p for r in a.reads if (p := self.producer.get(r.source)) is not None)
        for p in found:
            self.readers[p].pop(a, None)
        return found

    def _substitute(self, a: Node, n: Node) -> None:
        """Replace the reads of `a` in `n` by what `a` reads."""
        reads: dict[Read, None] = {}
        times, cost, points = 0, 0.0, max(1.0, self.hints.points(n.runs))
        for r in n.reads:
            if self.producer.get(r.source) is not a:
                reads[r] = None
                continue
            times += 1
            cost += min(1.0, _evaluations(n, r, self.hints, self.machine.reuse) / points) * a.cost
            binding = invert(a, r.index)
            assert binding is not None
            binding = {d: simplified(e, n.domain) for d, e in binding.items() if d is not e}
            reads.update((inner.at(binding, r.whole), None) for inner in a.reads)
        n.reads = list(reads)
        n.cost += cost
        n.size += times * a.size
        n.asserts |= a.asserts
        n.traps |= a.traps
        n.depth = max(n.depth, a.depth + 1)
        self._add_reader(n, a.reads)

    def _wanted(self, a: Node) -> bool:
        hints, readers = self.hints, self.readers[a]
        a.early = self._narrows(a, readers)
        if not readers or a.depth >= MAX_DEPTH or a.early:
            return False
        points = hints.points(a.dims)
        loads = sum({r.source: hints.traffic(a, r) for r in a.reads}.values())
        computed, stored_reads = 0.0, 0
        passes: set[Any] = set()
        """Sums of one loop read what they read once."""
        size = sum(itemsize(tensor_type(r).dtype) for r in a.results) * points
        for n in readers:
            if n.size + a.size > MAX_SIZE or self._changed_between(a, n):
                return False
            reads = [r for r in n.reads if self.producer.get(r.source) is a]
            if not all(self._possible(a, n, r) for r in reads):
                return False
            key = (self.level[n], n.dims, n.reduce, *{r.index: None for r in reads}) if n.reduce else n
            if key in passes:
                continue
            passes.add(key)
            computed += sum(_evaluations(n, r, hints, self.machine.reuse) for r in {r.index: r for r in reads}.values())
            stored_reads += size
        extra = computed <= 1.01 * points
        if (len(readers) == 1 and extra) or (not a.reads and a.cost <= INDEX_OPS):
            return True
        stored = WRITE * size + stored_reads + loads + points * a.cost * self.machine.op
        inlined = len(passes) * loads + computed * a.cost * self.machine.op
        if len(readers) == 1:
            return inlined <= stored
        return inlined <= self._worth(a, readers) * stored

    def _narrows(self, a: Node, readers: Iterable[Node]) -> bool:
        """Whether all readers come after calls that what `a` reads does not wait for, or are kernels of their own, and
        would find more bytes of that in memory than of `a`.
        """
        size = sum(map(self.hints.bytes, a.results))
        return any(
            self.hints.bytes(v) > size and all(self._is_later(n, v) for n in readers) and self._ends_with(v, a)
            for v in {r.source for r in a.reads}
        )

    def _is_later(self, n: Node, v: SSAValue) -> bool:
        """Whether a nest reads a value from memory, as a call or the end of a kernel is between: an update joins no
        reduction that it reads.
        """
        p = self.producer.get(v)
        updated = isinstance(n.op, ScatterOp) and p is not None and not p.pointwise
        return updated or self.stages.is_later(n.op, v)

    def _ends_with(self, v: SSAValue, a: Node) -> bool:
        """Whether nothing but `a` would hold a value of a nest or a call until a later stage than it is made in."""
        p = self.producer.get(v)
        if p is not None:
            others = [n.op for n in self.readers[p] if n is not a]
            return not p.escapes and not p.absorbed and not any(self.stages.is_later(o, v) for o in others)
        base = _base(v)
        if not isinstance(base.owner, AtenOp) or base.owner.schema.is_view:
            return False
        others = [o for o in _users(base) if o is not a.op]
        return not any(isinstance(o, TERMINATORS) or self.stages.is_later(o, base) for o in others)

    def _worth(self, a: Node, readers: Collection[Node]) -> float:
        """How much cheaper it must be to compute `a` for each reader, by whether a kernel of all is possible: not where
        sums in parts are there before another reader, unless rows are taken in turn, nor where sums go over different
        dims of `a`, as those of rows and of columns do.
        """
        in_turn = self.machine.strips and not self.machine.sums
        parts = not in_turn and any(d.lo != 0 for n in readers for d in n.reduce)
        if parts and len({self.level[n] for n in readers}) > 1:
            return _WORTH_PARTS
        common = frozenset(range(len(a.index)))
        for n in readers:
            outer = {d.symbol for d in n.dims}
            for r in n.reads:
                if self.producer.get(r.source) is not a:
                    continue
                kept = frozenset(i for i, e in enumerate(r.index) if outer & expr.symbols(e))
                if kept and not (common := common & kept):
                    return _WORTH_APART
        return _WORTH

    def _possible(self, a: Node, n: Node, r: Read) -> bool:
        """Whether computing `a` at the point of this read means the same."""
        if invert(a, r.index) is None:
            return False
        if a.traps and not r.whole:
            return False
        if not a.asserts:
            return True
        # every element is checked: each dim of the nest is a whole dim of the reader, or has one point
        extents = {d.symbol: d.extent for d in n.domain}
        moving = [e for e in r.index if e != 0]
        covered = [1 if e == 0 else extents.get(e) for e in r.index]  # pyright: ignore[reportArgumentType]
        return r.whole and len(set(moving)) == len(moving) and tuple(covered) == tensor_type(r.source).shape

    def _changed_between(self, a: Node, n: Node) -> bool:
        """Whether something that `a` reads is overwritten before `n` runs."""
        if not self.mutations:
            return False
        return any(a.number < at < n.number for r in a.reads for at in self.mutations.get(r.source, ()))


def _base(v: SSAValue) -> SSAValue:
    """What a view is one of."""
    while isinstance(v.owner, ViewOp):
        v = v.owner.source
    return v


def _users(v: SSAValue) -> Iterable[Operation]:
    """What reads a value or a view of it."""
    for use in v.uses:
        if isinstance(use.operation, ViewOp):
            yield from _users(use.operation.res)
        else:
            yield use.operation


def _evaluations(n: Node, r: Read, hints: Hints, reuse: int) -> float:
    """How often a read is evaluated: loops inside of those that its index moves with are left alone."""
    moving = frozenset(s for e in r.index for s in expr.symbols(e))
    domain = n.runs
    if n.contraction:
        others = hints.points(tuple(d for d in domain if d.symbol not in moving))
        return hints.points(domain) / max(1, min(others, reuse))
    while domain and r.whole and domain[-1].symbol not in moving:
        domain = domain[:-1]
    return hints.points(domain)
