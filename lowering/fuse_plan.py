"""From a group of nests to the outline of one kernel: grid, loops in order, and what is kept in buffers between them.

A group gives every dim of its nests an axis; nests iterate together along a shared axis. Grid axes are parallel in
every nest, and every nest reads the others at its own grid point, so that a grid point is computed by itself. Inside
it, nests run in phases: a reduction's result is there from the next phase on.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import TypeAlias

import sympy
from xdsl.ir import SSAValue

from ..dialects import expr
from ..dialects.expr import Dim
from ..dialects.loop import LoopDim, ScatterOp
from ..dialects.tensor import itemsize
from .fuse_cost import Machine
from .fuse_graph import Binding, Node, Read, tensor_type
from .fuse_scatter import update_order

Axis: TypeAlias = int


@dataclass(eq=False, slots=True)
class Group:
    """Nests that become one kernel. `axes` gives each nest the axes of its dims (parallel, then reduce)."""

    members: list[Node]
    axes: dict[Node, tuple[Axis, ...]]
    extents: dict[Axis, tuple[LoopDim, Node]]
    """Bounds of each axis, in the words of a member that has it."""
    grid: tuple[Axis, ...]
    turns: tuple[Axis, ...] = ()
    """Rows that a grid point takes one after the other, with all that is done to each."""

    def inner(self, n: Node) -> tuple[Axis, ...]:
        """Parallel axes of a member inside a grid point, or a row of one."""
        return tuple(a for a in self.axes[n][: len(n.dims)] if a not in self.grid and a not in self.turns)

    def reduced(self, n: Node) -> tuple[Axis, ...]:
        return tuple(a for a in self.axes[n][len(n.dims) :] if a not in self.turns)

    def adds_up(self, n: Node) -> bool:
        """Whether a member adds up what the rows of a grid point give."""
        return any(a in self.turns for a in self.axes[n][len(n.dims) :])

    def extent(self, a: Axis) -> Dim:
        return self.extents[a][0].extent


def single(n: Node) -> Group:
    """The group of one nest."""
    axes = tuple(range(len(n.domain)))
    if isinstance(n.op, ScatterOp):
        grid = update_order(n).grid
    else:
        grid = tuple(a for a, d in zip(axes, n.dims, strict=False) if d.name != n.scan)
    return Group([n], {n: axes}, {a: (d, n) for a, d in zip(axes, n.domain, strict=True)}, grid)


Signature: TypeAlias = tuple[frozenset[Axis], tuple[Axis, ...], tuple[Axis, ...]]


@dataclass(eq=False, slots=True)
class Loop:
    """Members that run together over `axes`; with `nested`, one's reduction over `nested` at each point of `axes`."""

    axes: tuple[Axis, ...]
    nested: tuple[Axis, ...]
    nodes: list[Node] = field(default_factory=list[Node])


@dataclass(eq=False, slots=True)
class Plan:
    """The outline of a kernel."""

    group: Group
    names: dict[Axis, str]
    loops: list[Loop]
    outs: list[SSAValue]
    scratch: list[SSAValue]
    """Values kept for later phases of the same grid point."""

    def symbol(self, a: Axis) -> sympy.Symbol:
        return expr.symbol(self.names[a])

    def binding(self, n: Node) -> Binding:
        """The dims of a member as the kernel's."""
        pairs = ((d.symbol, self.symbol(a)) for d, a in zip(n.domain, self.group.axes[n], strict=True))
        return {d: s for d, s in pairs if d is not s}

    def index(self, n: Node) -> tuple[Dim, ...]:
        """Where a member's value goes in its results, in the kernel's dims."""
        binding = self.binding(n)
        return tuple(expr.substitute(e, binding) for e in n.index)

    def dims(self, axes: tuple[Axis, ...]) -> tuple[LoopDim, ...]:
        """Loop dims of `axes`."""
        found: list[LoopDim] = []
        for a in axes:
            d, owner = self.group.extents[a]
            binding = self.binding(owner) if d.lo != 0 else {}
            found.append(LoopDim(self.names[a], expr.substitute(d.lo, binding), expr.substitute(d.hi, binding)))
        return tuple(found)


def identity(group: Group, reader: Node, read: Read, producer: Node) -> bool:
    """Whether a member reads another at its own point: along each axis of the producer, that axis."""
    single = {d.symbol for d in producer.dims if d.extent == 1}
    produced = dict(zip((d.symbol for d in producer.dims), group.axes[producer], strict=False))
    reading = dict(zip((d.symbol for d in reader.domain), group.axes[reader], strict=True))
    return all(
        p in single
        or (isinstance(p, sympy.Symbol) and isinstance(r, sympy.Symbol) and produced.get(p) == reading.get(r))
        for p, r in zip(producer.index, read.index, strict=True)
    )


def plan_kernel(group: Group, leaving: Collection[SSAValue], machine: Machine) -> Plan:
    """Phases, loops, buffers and names for a group whose results `leaving` are used outside."""
    producers = {r: n for n in group.members for r in n.results}
    uses = [(n, read, producers[read.source]) for n in group.members for read in n.reads if read.source in producers]
    buffered: set[Node] = set()
    while True:
        phases = _phases(group, uses, buffered)
        late = [
            a
            for a in group.members
            if a.pointwise and a not in buffered and group.inner(a)
            and any(p is a and not _together(group, phases, n, read, a) for n, read, p in uses)
            and _worth_keeping(group, a, producers, buffered, leaving, machine)
        ]  # fmt: skip
        if not late:
            break
        buffered.update(late)
    stored = {n for n in group.members if any(r in leaving for r in n.results)}
    read = {p for _, _, p in uses}
    stored |= {n for n in group.members if n.asserts and n not in read}
    loops = _loops(group, phases, buffered | stored)
    outs = [r for n in group.members for r in n.results if r in leaving]
    kept = {p for _, _, p in uses if p in buffered or (not p.pointwise and group.inner(p))}
    local = [r for n in group.members if n in kept for r in n.results if r not in leaving]
    scratch = [r for r in local if _fits(group, producers[r], machine.scratch)]
    outs += [r for r in local if r not in scratch]
    return Plan(group, _names(group), loops, outs, scratch)


def signature(group: Group, n: Node) -> Signature:
    """What two members must share to run in one loop."""
    inner, reduce = group.inner(n), group.reduced(n)
    if (inner and reduce) or n.scan is not None:
        # a loop scans along one dim
        along = tuple(a for a, d in zip(group.axes[n], n.dims, strict=False) if d.name == n.scan)
        return frozenset(), (*inner, *along), reduce
    # argmax gives a position in its own order of dims
    ordered = reduce if len(reduce) > 1 and any(k.startswith("arg") for k in n.combine) else ()
    return frozenset(inner + reduce), (), ordered


def _phases(group: Group, uses: list[tuple[Node, Read, Node]], buffered: set[Node]) -> dict[Node, int]:
    reads: dict[Node, list[tuple[Read, Node]]] = {}
    for n, read, p in uses:
        reads.setdefault(n, []).append((read, p))
    phases: dict[Node, int] = {}
    for n in group.members:
        phase = 0
        for read, p in reads.get(n, ()):
            forwarded = p.pointwise and (
                p not in buffered or (signature(group, n) == signature(group, p) and identity(group, n, read, p))
            )
            phase = max(phase, phases[p] + (not forwarded))
        phases[n] = phase
    return phases


def _together(group: Group, phases: dict[Node, int], n: Node, read: Read, p: Node) -> bool:
    """Whether `n` has the value of `p` at hand in its own loop."""
    return phases[n] == phases[p] and signature(group, n)[0] == signature(group, p)[0] and identity(group, n, read, p)


def _worth_keeping(
    group: Group,
    a: Node,
    producers: dict[SSAValue, Node],
    buffered: Collection[Node],
    leaving: Collection[SSAValue],
    machine: Machine,
) -> bool:
    """Whether reading `a` back from a buffer is cheaper than computing it again."""
    if any(r in leaving for r in a.results):
        return _cost_again(group, a, producers, buffered, 3) > 3
    return _cost_again(group, a, producers, buffered, 4) > 4 and _fits(group, a, machine.row)


def _cost_again(
    group: Group, a: Node, producers: dict[SSAValue, Node], buffered: Collection[Node], enough: float
) -> float:
    """What it costs to compute a point of `a` in another loop, with what it is made of there; where that is more than
    `enough`, anything that is: what is read twice is computed twice, so that a few steps back decide.
    """
    made = [producers.get(source) for source in dict.fromkeys(r.source for r in a.reads)]
    read = [p for p in made if p is None or group.inner(p)]  # the rest is at hand: it is the same for all of the row
    cost = a.cost + _LOAD * len(read)
    for p in read:
        if cost > enough:
            break
        if p is not None and p.pointwise and p not in buffered:
            cost += max(0, _cost_again(group, p, producers, buffered, enough - cost + _LOAD) - _LOAD)
    return cost


_LOAD = 2
"""What reading an element costs, in units of an add."""


def _fits(group: Group, n: Node, limit: int) -> bool:
    """Whether a grid point's part of the results has a known size of at most `limit` bytes."""
    size: Dim = sum(itemsize(tensor_type(r).dtype) for r in n.results)
    for a in group.inner(n):
        size = size * group.extent(a)  # pyright: ignore[reportOperatorIssue]
    return isinstance(size, int) and size <= limit


def _loops(group: Group, phases: dict[Node, int], stored: set[Node]) -> list[Loop]:
    loops: dict[tuple[int, Signature], Loop] = {}
    for n in group.members:
        if n.pointwise and n not in stored:
            continue
        key = (phases[n], signature(group, n))
        if key not in loops:
            inner, reduce = group.inner(n), group.reduced(n)
            loops[key] = Loop(inner, reduce) if inner else Loop(reduce, ())
        loops[key].nodes.append(n)
    return [loops[k] for k in sorted(loops, key=lambda k: k[0])]


def _names(group: Group) -> dict[Axis, str]:
    names = {a: f"d{i}" for i, a in enumerate((*group.grid, *group.turns))}
    parallel = [a for n in group.members for a in group.inner(n)]
    for a in dict.fromkeys(parallel):
        names.setdefault(a, f"d{len(names)}")
    reduced = dict.fromkeys(a for n in group.members for a in group.axes[n] if a not in names)
    return names | {a: f"r{i}" for i, a in enumerate(reduced)}
