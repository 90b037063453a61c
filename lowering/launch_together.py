"""loop (scheduled kernels) to itself: launches that need nothing of each other are brought together and marked, so that
they cost one fork of the threads and not one each.

Before: `loop.launch` in the order of the program. After: launches that stand side by side with the same `together` are
run as one (`bufferize` makes a `host.together` of them). A launch moves up only, past what it needs nothing of; what
memory it takes longer for that is bounded, by `keep` and by what the program holds at its peak.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, cast

import sympy
from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.passes import ModulePass

from ..dialects import expr
from ..dialects.aten import AtenOp
from ..dialects.hints import size_hints
from ..dialects.loop import AssertOp, ForOp, KernelOp, LaunchOp, LoadOp, ScratchOp, StoreOp, ViewOp, body_ops
from ..dialects.tensor import SymType, TensorType
from .beside import held
from .buffer_lifetimes import Lifetimes, Memory
from .decisions import decide
from .fuse_cost import Hints
from .host_devices import on_gpu
from .memory_plan import donated
from .schedule_kernel import whole_work

MOST = 512
"""Launches of a group at most: the caller's stack holds the arguments of all of them."""

SUMMED = 16 << 20
"""Bytes that a kernel of a group on a GPU reduces at most: these are sums of parts, whose launches take longer than
what they read.
"""

TRIED = 16
"""Groups that a launch is tried with, the earliest first."""


@dataclass(frozen=True)
class LaunchTogether(ModulePass):
    """Bring launches together that need nothing of each other.

    `keep`: bytes of results that are there earlier than in the program, at any time; as many at most as a sixteenth of
    what the program holds at its peak (of `keep`, if that is more), and no more than that where it holds as much. What
    the program returns or writes into its arguments counts only where a call into ATen is passed.
    """

    name = "launch-together"

    keep: int = 2 << 20
    statistics: dict[str, int] = field(default_factory=dict[str, int], init=False, compare=False)

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        hints = Hints(size_hints(op))
        kernels = {k.sym_name.data: k for k in op.ops if isinstance(k, KernelOp)}
        fit = {name: _kind(k) for name, k in kernels.items()}
        groups: list[list[LaunchOp]] = []
        for launch in [o for o in op.walk() if isinstance(o, LaunchOp)]:
            launch.attributes.pop("together", None)  # of a module that has been here before
        for function in [f for f in op.ops if isinstance(f, FuncOp) and f.body.blocks]:
            schedule = _Schedule(function.body.block, fit, hints, self.keep)
            schedule.place()
            for group in schedule.rebuild(cache(lambda name: _point(kernels[name], hints))):
                for launch in group:
                    launch.attributes["together"] = IntegerAttr(len(groups), i64)
                groups.append(group)
        if groups:
            decide(op, _told(groups))
        self.statistics.update(groups=len(groups), launches=sum(map(len, groups)))


def _kind(kernel: KernelOp) -> str | None:
    """Of what kind the groups are that a kernel may be one of: a GPU runs launches of one kernel as one, if what it
    computes follows from points or from few elements that it adds up, and so stays one launch. None where it may not:
    what it finds wrong is told by a launch of its own.
    """
    ops = list(body_ops(kernel.body))
    if any(isinstance(o, AssertOp) for o in ops):
        return None
    if not on_gpu(kernel):
        return "cpu"
    jumps = any(isinstance(o, (LoadOp, StoreOp)) and o.indices for o in ops)
    adds_up = any(isinstance(o, StoreOp) and o.combine for o in ops) or not all(map(_is_small, ops))
    return None if jumps or adds_up or any(isinstance(o, ScratchOp) for o in ops) else kernel.sym_name.data


def _point(kernel: KernelOp, hints: Hints) -> float:
    """The work of one point; on a GPU all are alike."""
    if on_gpu(kernel):
        return 0
    return hints.size(whole_work(kernel)) / max(hints.points(tuple(kernel.grid)), 1)


def _is_small(o: Operation) -> bool:
    """Whether an op is no loop that reduces more than `SUMMED` bytes: by one tensor, so that it is no product."""
    if not isinstance(o, ForOp) or not o.results:
        return True
    loads = [x for x in o.body.block.ops if isinstance(x, LoadOp)]
    size = expr.product(x for a in loads for x in cast(TensorType, a.source.type).shape)
    return len(loads) == 1 and isinstance(size, int) and size * 4 <= SUMMED


def _told(groups: Sequence[Sequence[LaunchOp]]) -> list[str]:
    """A line for each group."""
    lines: list[str] = []
    for group in groups:
        names = Counter(launch.callee for launch in group)
        kernels = ", ".join(f"@{name}" + (f" x{n}" if n > 1 else "") for name, n in names.items())
        lines.append(f"{len(group)} launches run as one: {kernels}")
    return [f"{line} (x{n})" if n > 1 else line for line, n in Counter(lines).items()]


@dataclass(eq=False, slots=True)
class _Item:
    """What has one place in the new order: an op, or launches that run as one; then views of what they make."""

    ops: list[Operation]
    open: bool = False
    """Whether launches may join."""
    callees: set[str] = field(default_factory=set[str])
    views: list[Operation] = field(default_factory=list[Operation])


class _Schedule:
    """The order of one block."""

    def __init__(self, block: Block, fit: Mapping[str, str | None], hints: Hints, keep: int) -> None:
        self.block, self.fit, self.hints = block, fit, hints
        self.lifetimes = Lifetimes(block)
        self.ops: list[Operation] = list(block.ops)
        self.alive = held(self.lifetimes, donated(block), hints)
        """Bytes at each of them, in the program's order."""
        peak = max(self.alive, default=0)
        self.keep = min(keep, max(keep, peak) // 16)
        self.most = peak + keep // 16
        self.known = frozenset(s for a in block.args for s in _symbols(a))
        self.before: list[Operation] = []
        """Views of arguments."""
        self.items: list[_Item] = []
        self.kept: list[int] = []
        """For each item, the bytes of results that are there by then, and would not be in the program's order."""
        self.held: list[int] = []
        """For each item, the bytes that the program's order holds there."""
        self.at: dict[SSAValue, int] = {}
        """The item that makes a value."""
        self.bound: dict[Any, int] = {}
        """The item that gives a size which no argument does, or the last that checks it."""
        self.written: dict[Memory, int] = {}
        """The last item that writes to a memory."""
        self.groups: dict[str, list[int]] = {}
        """Items that launches may join, in order, by their kind."""
        self.called = -1
        """The last item that is a call."""

    def place(self) -> None:
        """Give every op its item."""
        for position, op in enumerate(self.ops):
            if isinstance(op, ViewOp):
                used = _symbols(op.res) | expr.symbols(op.offset[0])
                at = max(self.at.get(op.source, -1), *(self.bound.get(s, -1) for s in used), -1)
                (self.items[at].views if at >= 0 else self.before).append(op)
                self.at[op.res] = at
                continue
            if isinstance(op, LaunchOp) and self._may_join(op):
                at = self._item_of(op)
            else:
                at = self._append(_Item([op]))
                if not isinstance(op, LaunchOp):
                    self._note_call(op, at)
            self.held[at] = max(self.held[at], self.alive[position])
            self.at.update((r, at) for r in op.results)
            for symbol in {s for r in op.results for s in _symbols(r)} - self.known:
                self.bound.setdefault(symbol, at)
            if isinstance(op, AtenOp) and not op.results:  # an assertion: what it finds wrong is not read before
                self.bound.update((s, at) for v in op.args() for s in _asked(v) - self.known)

    def rebuild(self, point: Callable[[str], float]) -> list[list[LaunchOp]]:
        """Put the ops in their new order; the groups of several launches, those first whose points take longest:
        threads take one piece after the other, and are done at about the same time if the last ones are small.
        """
        for op in self.ops:
            op.detach()
        self.block.add_ops(self.before)
        for item in self.items:
            if item.open and len(item.ops) > 1:
                item.ops.sort(key=lambda o: -point(cast(LaunchOp, o).callee))
            self.block.add_ops([*item.ops, *item.views])
        return [cast("list[LaunchOp]", item.ops) for item in self.items if item.open and len(item.ops) > 1]

    def _append(self, item: _Item) -> int:
        self.items.append(item)
        self.kept.append(0)
        self.held.append(0)
        return len(self.items) - 1

    def _note_call(self, op: Operation, at: int) -> None:
        if not self._ends_in_argument(op):
            self.called = at
        if isinstance(op, AtenOp) and op.schema.mutates:
            for a, value in zip(op.schema.args, op.args(), strict=True):
                for v in (value if isinstance(value, tuple) else (value,)) if a.mutated else ():
                    self.written.update((m, at) for m in self.lifetimes.of.get(cast(Any, v), ()))

    def _ends_in_argument(self, op: Operation) -> bool:
        """Whether an op is the copy of a result into an argument, which is made where it is computed."""
        return isinstance(op, AtenOp) and op.name == "aten.copy_" and isinstance(op.args()[0], BlockArgument)

    # Groups

    def _may_join(self, op: LaunchOp) -> bool:
        """Whether a launch may be in a group: its sizes are known before anything has run."""
        used = {s for e in op.sizes for s in expr.symbols(e)} | {s for r in op.res for s in _symbols(r)}
        return self.fit.get(op.callee) is not None and used <= self.known

    def _item_of(self, op: LaunchOp) -> int:
        ready = max((self.at.get(v, -1) for v in op.args), default=-1)
        for v in op.args if self.written else ():
            ready = max(ready, *(self.written.get(m, -1) for m in self.lifetimes.of.get(v, ())), -1)
        groups = self.groups.setdefault(str(self.fit[op.callee]), [])
        first = bisect_right(groups, ready)
        free: int | None = None
        for at in groups[first : first + TRIED]:
            item = self.items[at]
            more = self._kept(op, at)
            if len(item.ops) >= MOST or (more and not self._admits(more, at)):
                continue
            free = at if free is None else free
            if op.callee in item.callees:
                free = at
                break
        if free is None:
            free = self._append(_Item([], open=True))
            groups.append(free)
        elif more := self._kept(op, free):
            self.kept[free:] = [kept + more for kept in self.kept[free:]]
        item = self.items[free]
        item.ops.append(op)
        item.callees.add(op.callee)
        return free

    def _admits(self, more: int, at: int) -> bool:
        """Whether as many bytes more may be there from an item on."""
        there = zip(self.kept[at:], self.held[at:], strict=True)
        return all(kept + more <= min(self.keep, self.most - held) for kept, held in there)

    def _kept(self, op: LaunchOp, at: int) -> int:
        """Bytes that a launch makes earlier if it goes there."""
        return sum(self.hints.bytes(r) for r in op.res if self.called > at or not self._leaves(r))

    def _leaves(self, value: SSAValue) -> bool:
        """Whether a result goes to the caller, by being returned or written into an argument."""
        users = [use.operation for use in value.uses]
        return any(isinstance(u, ReturnOp) or self._ends_in_argument(u) for u in users)


def _asked(argument: Any) -> frozenset[Any]:
    """The symbols of a number that an op is given."""
    if isinstance(argument, SSAValue):
        return _symbols(argument)
    return frozenset(expr.symbols(argument)) if isinstance(argument, sympy.Basic) else frozenset()


def _symbols(value: SSAValue) -> frozenset[Any]:
    """The symbols in the sizes of a tensor, or of a number."""
    t = value.type
    if isinstance(t, TensorType):
        return frozenset(s for d in (*t.shape, *t.strides) for s in expr.symbols(d))
    return frozenset(expr.symbols(t.expr)) if isinstance(t, SymType) else frozenset()
