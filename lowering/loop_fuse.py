"""loop (nests) to loop (kernels): which nests become one kernel, and the launches that run them.

Before: `loop.nest`, `loop.scatter`, `loop.view`, ATen calls. After: `loop.kernel` symbols and `loop.launch`; everything
else is left as it is. Kernels are canonical, so that equal ones are one symbol however often they are launched.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    IntegerAttr,
    LocationAttr,
    ModuleOp,
    StringAttr,
    SymbolRefAttr,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass

from ..dialects.flow import CallOp, bodies
from ..dialects.loop import IndexAttr, KernelOp, LaunchOp, NestOp, ScatterOp
from ..dialects.text import print_module
from .decisions import decide_counted
from .fuse_absorb import absorb
from .fuse_attention import attentions
from .fuse_cost import Hints, Machine
from .fuse_emit import KernelEmitter
from .fuse_graph import Node, body_key, make_node
from .fuse_groups import Cluster, Grouper
from .fuse_narrow import narrow_positions, read_narrow
from .fuse_order import Order, in_order
from .fuse_plan import Group, plan_kernel
from .fuse_split import split_reductions
from .kernel_cost import annotate
from .kernel_names import kernel_name, origins
from .origins import fused_location
from .stages import Stages


@dataclass(frozen=True)
class LoopFuse(Machine, ModulePass):
    """Fuse nests into kernels and launch them. The machine that it is done for is the options."""

    name = "loop-fuse"

    statistics: dict[str, int] = field(default_factory=dict[str, int], init=False, compare=False)

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        hints = op.attributes.get("lamella.hints")
        known: dict[str, int] = {}
        if isinstance(hints, DictionaryAttr):
            known = {k: v.value.data for k, v in hints.data.items() if isinstance(v, IntegerAttr)}
        kernels = _Kernels(sum(isinstance(o, KernelOp) for o in op.ops))
        calls = Counter(o.callee.root_reference.data for o in op.walk() if isinstance(o, CallOp))
        told: Counter[str] = Counter()
        for region in bodies(op):
            body = _Body(region.block, self, Hints(known))
            grouper = body.group()
            launched = body.rebuild(in_order(grouper.at), kernels)
            times = calls.get(_function(region), 1)
            told.update({line: n * times for line, n in grouper.decisions.lines(launched).items()})
        first = op.body.block.first_op
        kernels.locate()
        if kernels.ops and first is not None:
            op.body.block.insert_ops_before(kernels.ops, first)
        decide_counted(op, told)
        self.statistics["kernels"] = len(kernels.ops)


def _function(region: Region) -> str:
    """The name of the function that a body is of, or in."""
    op = region.parent_op()
    while op is not None and not isinstance(op, FuncOp):
        op = op.parent_op()
    return op.sym_name.data if op is not None else ""


@dataclass(eq=False, slots=True)
class _Known:
    """A kernel, with the tensors that it takes and gives as positions in the list of those of its group."""

    op: KernelOp
    ins: list[int]
    outs: list[int]
    sizes: IndexAttr


class _Kernels:
    """The kernels made so far: by what their groups are made of, and by their text."""

    def __init__(self, number: int) -> None:
        """`number` is that of the first."""
        self.number = number
        self.ops: list[KernelOp] = []
        self.known: dict[Any, _Known] = {}
        self._by_text: dict[str, KernelOp] = {}
        self.places: dict[KernelOp, list[LocationAttr]] = {}
        """The locations of all that a kernel is launched for."""

    def intern(self, kernel: KernelOp, stem: str) -> KernelOp:
        """The kernel with this text, which is named `stem` and a number where it is new."""
        text = print_module(kernel, generic=True)  # needs no formats of ops: reading one takes longer than a kernel
        known = self._by_text.get(text)
        if known is None:
            kernel.sym_name = StringAttr(f"{stem}_{self.number + len(self.ops)}")
            self.ops.append(kernel)
            self._by_text[text] = kernel
            return kernel
        return known

    def locate(self) -> None:
        """Each kernel is of the lines of all its launches."""
        for kernel, places in self.places.items():
            kernel.location = fused_location(dict.fromkeys(places))


class _Body:
    """Fusion of one body."""

    def __init__(self, block: Block, machine: Machine, hints: Hints) -> None:
        self.block, self.machine, self.hints = block, machine, hints
        self.ops = split_reductions(list(self.block.ops), machine, hints)
        self.nodes, self.stages = _nodes(self.ops)
        ops = narrow_positions(self.ops, self.nodes, hints)
        if len(ops) > len(self.ops):
            self.ops = ops
            self.nodes, self.stages = _nodes(ops)
        if (ops := read_narrow(self.ops, self.nodes, self.stages)) is not None:
            self.ops = ops
            self.nodes, self.stages = _nodes(ops)
        self.order = Order(self.ops)
        self.absorbed = absorb(list(self.nodes.values()), self.order.mutations, hints, self.stages, machine)
        self.real = [n for n in self.nodes.values() if not n.absorbed]
        self.readers: dict[SSAValue, set[Node]] = {r.source: set[Node]() for n in self.real for r in n.reads}
        for n in self.real:
            for r in n.reads:
                self.readers[r.source].add(n)

    def group(self) -> Grouper:
        """Decide which nests go together."""
        attention = attentions(self.real, self.readers, self.machine)
        grouper = Grouper(self.machine, self.hints, self.readers, attention, self.stages)
        position: dict[SSAValue, int] = {r: i for i, o in enumerate(self.ops) for r in o.results}
        real: dict[Operation, Node] = {n.op: n for n in self.real}
        deps = self.order.op_deps(real)
        for i, o in enumerate(self.ops):
            if (n := real.get(o)) is not None:
                grouper.add_node(n, self.order.after(n, self.absorbed))
            elif i in deps:
                grouper.add_op(i, deps[i] | {position[v] for v in o.operands if v in position}, o.results)
        return grouper

    def rebuild(self, clusters: list[Cluster], kernels: _Kernels) -> dict[Node, LaunchOp]:
        """Replace nests by launches of their groups' kernels; the launch of each."""
        before = list(self.block.ops)
        for o in before:
            o.detach()
        renamed: dict[SSAValue, SSAValue] = {}
        launched: dict[Node, LaunchOp] = {}
        for cluster in clusters:
            if cluster.group is not None:
                launch = self._launch(cluster.group, kernels, renamed)
                launched.update((n, launch) for n in cluster.group.members)
                self.block.add_op(launch)
                continue
            o = self.ops[cluster.bits.bit_length() - 1]
            if any(v in renamed for v in o.operands):
                o.operands = [renamed.get(v, v) for v in o.operands]
            self.block.add_op(o)
        for o in reversed(list(dict.fromkeys((*before, *self.ops)))):
            if o.parent is None:
                o.erase(safe_erase=False)
        return launched

    def _launch(self, group: Group, kernels: _Kernels, renamed: dict[SSAValue, SSAValue]) -> LaunchOp:
        members = set(group.members)
        leaving = {r for n in members for r in n.results if n.escapes or not self.readers.get(r, members) <= members}
        nodes = self._with_absorbed(group)
        tensors, key = _group_key(group, nodes, leaving)
        location = fused_location(n.op.location for n in nodes)
        known = kernels.known.get(key)
        if known is None:
            known = kernels.known[key] = self._make(group, nodes, leaving, tensors, kernels)
        kernels.places.setdefault(known.op, []).append(location)
        values = list(tensors)
        outs = [values[i] for i in known.outs]
        launch = LaunchOp.create(
            operands=[renamed.get(values[i], values[i]) for i in known.ins],
            result_types=[v.type for v in outs],
            properties={"kernel": SymbolRefAttr(known.op.sym_name), "sizes": known.sizes},
            location=location,
        )
        for old, new in zip(outs, launch.results, strict=True):
            new.name_hint = old.name_hint
            renamed[old] = new
        return launch

    def _make(
        self,
        group: Group,
        nodes: list[Node],
        leaving: set[SSAValue],
        tensors: Mapping[SSAValue, int],
        kernels: _Kernels,
    ) -> _Known:
        """Emit the kernel of a group."""
        location = fused_location(n.op.location for n in nodes)
        emitted = KernelEmitter(plan_kernel(group, leaving, self.machine), self.absorbed, location).emit("kernel", {})
        names = list(dict.fromkeys(o for n in nodes for o in origins(n.op)))
        emitted.op.attributes["ops"] = ArrayAttr(StringAttr(o) for o in names)
        annotate(emitted.op)
        kernel = kernels.intern(emitted.op, kernel_name(names, len(nodes) > 1))
        ins, outs = [tensors[v] for v in emitted.ins], [tensors[v] for v in emitted.outs]
        return _Known(kernel, ins, outs, IndexAttr.get(emitted.sizes))

    def _with_absorbed(self, group: Group) -> list[Node]:
        """The members of a group and what they absorbed, in order."""
        found: dict[Node, None] = {}
        stack = list(group.members)
        while stack:
            n = stack.pop()
            if n not in found:
                found[n] = None
                stack.extend(a for v in n.tensors if (a := self.absorbed.get(v)) is not None)
        return sorted(found, key=lambda n: n.number)


def _group_key(group: Group, nodes: list[Node], leaving: set[SSAValue]) -> tuple[dict[SSAValue, int], Any]:
    """The tensors of a group, numbered, and what makes its kernel: equal for the same layer of another block."""
    tensors: dict[SSAValue, int] = {}
    axes: dict[int, int] = {}
    parts: list[Any] = []
    for n in nodes:
        parts.append(body_key(n.op))
        for v in (*n.tensors, *n.results):
            if v not in tensors:
                tensors[v] = len(tensors)
                parts.append(v.type)
            parts.append(tensors[v])
            parts.append(v in leaving)
        mine = group.axes.get(n)
        parts.append(None if mine is None else tuple(axes.setdefault(a, len(axes)) for a in mine))
        parts.append(tuple(origins(n.op)))
    parts.append(tuple(axes[a] for a in group.grid))
    parts.append(tuple(axes[a] for a in group.turns))
    return tensors, tuple(parts)


def _nodes(ops: list[Operation]) -> tuple[dict[Operation, Node], Stages]:
    """The nests that are needed, and the stages of all ops."""
    nodes: dict[Operation, Node] = {n.op: n for n in _live(ops)}
    return nodes, Stages(ops, lambda op: nodes[op].tensors if op in nodes else op.operands)


def _live(ops: list[Operation]) -> list[Node]:
    """Nodes for the nests that something uses, in order; `escapes` is set where that is no nest, and where an update is
    made for what it asserts only.
    """
    nodes: list[Node] = []
    by_result: dict[SSAValue, Node] = {}
    for i, o in enumerate(ops):
        if isinstance(o, (NestOp, ScatterOp)):
            n = make_node(o, i)
            nodes.append(n)
            by_result.update((r, n) for r in o.results)
        else:
            for v in o.operands:
                if v in by_result:
                    by_result[v].escapes = True
    used: set[Node] = set()
    for n in reversed(nodes):
        if n.escapes or n.asserts or n in used:
            n.escapes |= isinstance(n.op, ScatterOp) and n not in used
            used.add(n)
            used.update(by_result[v] for v in n.tensors if v in by_result)
    return [n for n in nodes if n in used]
