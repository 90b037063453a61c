"""loop (kernels) to host: every tensor gets memory, and the main function becomes a program on buffers.

In: `func.func @main` of `loop.launch`, `loop.view` and ATen calls. Out: `host.func @main`; kernels stay. A kernel's
result that leaves is a tensor (`host.empty`), any other lies in the arena. A call of an operator that can write its
result into memory given to it does so; other results of calls are tensors of their own, released after their last
use.

Assumes what AOTAutograd guarantees: an argument that is written shares no memory with another argument.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import IntegerAttr, LocationAttr, ModuleOp, StringAttr, i64
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.passes import ModulePass

from ..dialects import host
from ..dialects.aten import AtenOp
from ..dialects.errors import LamellaError
from ..dialects.expr import Dim
from ..dialects.flow import FlowOp, YieldOp
from ..dialects.hints import size_hints
from ..dialects.loop import KernelOp, LaunchOp, ViewOp
from ..dialects.loop_attrs import IndexAttr
from .arena_plan import estimate
from .beside import RECYCLED, rooms
from .buffer_lifetimes import Memory
from .in_place import without_copies
from .memory_plan import MemoryPlan, device_of, donated
from .out_variants import is_empty, out_variant
from .storage import storage_bytes


@dataclass(frozen=True)
class Bufferize(ModulePass):
    """Gives every tensor memory: outputs, one planned arena, and calls that write in place."""

    name = "bufferize"
    statistics: dict[str, int] = field(default_factory=dict[str, int], init=False, compare=False)

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        kernels = {o.sym_name.data: o for o in op.ops if isinstance(o, KernelOp)}
        hints = size_hints(op)
        for function in [o for o in op.ops if isinstance(o, func.FuncOp)]:
            program = _Rewrite(function.body.block, kernels, hints, function)
            body, attributes = program.run(), dict(function.attributes)
            if (beside := program.beside()) >= RECYCLED:
                attributes[host.BESIDE] = IntegerAttr(beside, i64)
            new = host.FuncOp.make(
                function.sym_name.data,
                function.function_type,
                body,
                arg_attrs=function.arg_attrs,
                attributes=attributes,
                location=function.location,
            )
            op.body.block.insert_ops_before([*program.made, new], function)
            function.detach()
            function.erase()
            for name, count in program.counts.items():
                self.statistics[name] = self.statistics.get(name, 0) + count
            _drop_unused(op, program.replaced)


def _drop_unused(module: ModuleOp, replaced: set[str]) -> None:
    """Drop the kernels that variants took the place of everywhere."""
    used = {o.callee for o in module.walk() if isinstance(o, (LaunchOp, host.LaunchOp))}
    for kernel in [o for o in module.ops if isinstance(o, KernelOp) and o.sym_name.data in replaced - used]:
        kernel.detach()
        kernel.erase()


def _names(function: func.FuncOp) -> dict[SSAValue, StringAttr]:
    """The arguments with a name: variables and parameters of the program, which are there after the call too."""
    given = function.arg_attrs.data if function.arg_attrs is not None else ()
    arguments = zip(function.body.block.args, given, strict=False)
    names = ((a, attributes.data.get("lamella.name")) for a, attributes in arguments)
    return {a: name for a, name in names if isinstance(name, StringAttr)}


class _Rewrite:
    """One body: that of a function, or, with `outer`, a region of control flow in it."""

    def __init__(
        self,
        old: Block,
        kernels: dict[str, KernelOp],
        hints: Mapping[str, int],
        around: Operation,
        outer: _Rewrite | None = None,
    ):
        self.old = old
        self.around = around
        self.kernels = kernels
        self.hints = hints
        self.names = _names(around) if isinstance(around, func.FuncOp) else {}
        self.made: list[KernelOp] = [] if outer is None else outer.made
        """Variants of kernels."""
        self.replaced: set[str] = set() if outer is None else outer.replaced
        """Kernels that some launch has a variant of."""
        self.as_they_are: set[str] = set()
        """Variants that would be no shorter than their kernels."""
        names = ("slots", "in place", "lent", "apart", "tensors", "mutated", "arena bytes")
        zeros: dict[str, int] = dict.fromkeys(names, 0)
        self.counts = zeros if outer is None else outer.counts
        above = None if outer is None else outer.plan
        self.plan = MemoryPlan(old, kernels, hints, set(self.names), donated(old), self.counts, above)
        self.block = Block(arg_types=[a.type for a in old.args])
        self.values: dict[SSAValue, SSAValue] = {}
        self.arenas: dict[str, SSAValue] = {}
        """By device."""
        self.lent: dict[Memory, SSAValue] = {}
        """The memory of a result that lends it, once its tensor is made."""
        self.step = 0
        self.large: list[tuple[int, host.EmptyOp]] = []
        """Tensors that are recycled, each with the step that it is made at."""
        self.dropped: list[tuple[int, host.DropOp]] = []
        """Drops, each with the step that it comes after."""

    def run(self) -> Block:
        for a, b in zip(self.old.args, self.block.args, strict=True):
            b.name_hint, b.location = a.name_hint, a.location
            self.values[a] = b
        if isinstance(self.around, func.FuncOp):
            self._checks(self.around)
        for device, size in self.plan.arenas.items():
            self._arena(device, size)
        drops = self.plan.drops()
        for position, step in enumerate(self.plan.lifetimes.steps):
            self.step = position
            if len(step) == 1:
                self._op(step[0])
            else:
                self._together(cast("list[LaunchOp]", step))
            if dead := drops.get(position):
                drop = host.DropOp.create(operands=[self.values[v] for v in dead], location=step[-1].location)
                self.dropped.append((position, drop))
                self._add(drop)
        return self.block

    def _add(self, op: Operation) -> Operation:
        self.block.add_op(op)
        return op

    def _bind(self, old: SSAValue, new: SSAValue) -> None:
        self.values[old] = new
        new.name_hint = old.name_hint

    def _checks(self, function: func.FuncOp) -> None:
        for i, (old, a) in enumerate(zip(self.old.args, self.block.args, strict=True)):
            label = self.names.get(old) or StringAttr(a.name_hint or f"argument {i}")
            self._add(host.CheckOp.create(operands=[a], properties={"label": label}, location=function.location))

    def _arena(self, device: str, size: Dim) -> None:
        properties: dict[str, Attribute] = {"bytes": IndexAttr.get([size])}
        if device != "cpu":
            properties["device"] = StringAttr(device)
        place = self.around.location
        arena = self._add(host.ArenaOp.create(properties=properties, result_types=[host.ARENA], location=place))
        self.arenas[device] = arena.results[0]

    def _buffer(self, result: SSAValue, op: Operation) -> SSAValue:
        """Memory for a result that is written by `op`."""
        memory = self.plan.lifetimes.own(result)
        assert memory is not None
        if (target := self.plan.written.get(result)) is not None:
            argument = self.values[target]
            if argument.type != result.type:
                offset = IndexAttr.get([0])
                argument = self._add(
                    host.ViewOp.create(
                        operands=[argument],
                        properties={"offset": offset},
                        result_types=[result.type],
                        location=op.location,
                    )
                ).results[0]
            self.values[result] = argument
            return argument
        if result in self.values:  # it has lent its memory
            return self.values[result]
        if memory in self.plan.slots:
            new = host.SlotOp.create(
                operands=[self._arena_of(memory)],
                properties={"offset": IndexAttr.get([self.plan.slots[memory]])},
                result_types=[result.type],
                location=op.location,
            )
            self.counts["slots"] += 1
        else:
            new = self._empty(result, op.location, self.plan.perhaps.get(result))
        self._add(new)
        self._bind(result, new.results[0])
        return new.results[0]

    def _empty(self, result: SSAValue, place: LocationAttr, over: SSAValue | None = None) -> host.EmptyOp:
        self.counts["tensors"] += 1
        operands = [] if over is None else [self.values[over]]
        made = host.EmptyOp.create(operands=operands, result_types=[result.type], location=place)
        if self._bytes(made) >= RECYCLED:
            self.large.append((self.step, made))
        return made

    def beside(self) -> int:
        """Tells the tensors that are recycled, and drops of them, what is held beside them from there on; what is held
        before the first.
        """
        gone = {v: (at, drop) for at, drop in self.dropped for v in drop.values}
        spans = [(at, gone[m.res][0] if m.res in gone else None, self._bytes(m)) for at, m in self.large]
        first, made, dropped = rooms(self.plan.beside, spans)
        told: list[tuple[host.EmptyOp | host.DropOp, int]] = [(m, made[k]) for k, (_, m) in enumerate(self.large)]
        told += [(gone[self.large[k][1].res][1], bytes) for k, bytes in dropped.items()]
        for op, bytes in told:
            if bytes >= RECYCLED:
                op.beside = IntegerAttr(bytes, i64)
        return first

    def _bytes(self, made: host.EmptyOp) -> int:
        return estimate(storage_bytes(made.res.type), self.hints)

    def _arena_of(self, memory: Memory) -> SSAValue:
        """The arena that the memory lies in, or the result; its tensor is made for the first of those in it."""
        lender = self.plan.lenders.get(memory)
        if lender is None:
            return self.arenas[device_of(memory.value)]
        if lender not in self.lent:
            place = cast(Operation, lender.value.owner).location
            tensor = self._add(self._empty(lender.value, place))
            self._bind(lender.value, tensor.results[0])
            lending = host.LendOp.create(operands=[tensor.results[0]], result_types=[host.ARENA], location=place)
            self.lent[lender] = self._add(lending).results[0]
        return self.lent[lender]

    # ------------------------------------------------------------------------------------------------------------- ops

    def _op(self, op: Operation) -> None:
        match op:
            case LaunchOp():
                self._add(self._launch(op))
            case ViewOp():
                view = host.ViewOp.create(
                    operands=[self.values[op.source]],
                    properties={"offset": op.offset},
                    result_types=[op.res.type],
                    location=op.location,
                )
                self._bind(op.res, self._add(view).results[0])
            case AtenOp():
                self._call(op)
            case FlowOp():
                self._flow(op)
            case YieldOp():
                self._add(op.clone(self.values)).location = op.location
            case func.ReturnOp():
                returned = [self.values[v] for v in op.operands]
                self._add(host.ReturnOp.create(operands=returned, location=op.location))
            case _:
                raise LamellaError(f"bufferize: {op.name} has no place in a host program")

    def _flow(self, op: FlowOp) -> None:
        for region in op.regions:
            new = _Rewrite(region.block, self.kernels, self.hints, op, self).run()
            region.detach_block(region.block)
            region.add_block(new)
        made = self._add(op.rebuilt([self.values[v] for v in op.operands]))
        for old, result in zip(op.results, made.results, strict=True):
            self._bind(old, result)

    def _together(self, ops: list[LaunchOp]) -> None:
        launches = [self._launch(op) for op in ops]
        self._add(host.TogetherOp.make(launches, location=ops[0].location))

    def _launch(self, op: LaunchOp) -> host.LaunchOp:
        """The launch on buffers, after what makes these."""
        if op.callee not in self.kernels:
            raise LamellaError(f"bufferize: there is no loop.kernel @{op.callee}")
        ins = [self.values[v] for v in op.args]
        outs = [self._buffer(r, op) for r in op.res]
        callee = op.callee
        for out, result in enumerate(op.res):
            if result in self.plan.over:
                callee = self._in_place(callee, self.plan.over[result], out)
        attributes = {k: v for k, v in op.attributes.items() if k != "together"}
        return host.LaunchOp.make(callee, ins, outs, op.sizes, attributes=attributes, location=op.location)

    def _in_place(self, callee: str, source: int, out: int) -> str:
        """The kernel to launch where the result lies over the operand: one that does not copy it to where it is."""
        name = f"{callee}_in_place_{source}_{out}"
        if name in self.as_they_are:
            return callee
        if name not in self.kernels:
            short = without_copies(self.kernels[callee], source, out, name)
            if short is None:
                self.as_they_are.add(name)
                return callee
            self.kernels[name] = short
            self.made.append(short)
        self.replaced.add(callee)
        return name

    def _call(self, op: AtenOp) -> None:
        if op in self.plan.needless:
            self.values[op.results[0]] = self.values[op.args()[0]]
            return
        if is_empty(op):
            self._buffer(op.results[0], op)
            return
        variant = out_variant(op)
        if variant is not None:
            out = self._buffer(op.results[0], op)
            # a variant has no arguments for what the result's type says: dtype, device, …
            given = {a.name: self._mapped(v) for a, v in zip(op.schema.args, op.args(), strict=True)}
            args = [given[a.name] for a in variant.schema.args[:-1]]
            self._add(variant.call([*args, out], [out.type], cast(Any, op.location)))
            return
        new = op.clone(self.values)
        new.location = op.location
        self._add(new)
        for old, result in zip(op.results, new.results, strict=True):
            self._bind(old, result)

    def _mapped(self, value: Any) -> Any:
        if isinstance(value, SSAValue):
            return self.values[value]
        return tuple(self._mapped(v) for v in value) if isinstance(value, tuple) else value
