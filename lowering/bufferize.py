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
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.passes import ModulePass

from ..dialects import expr, host
from ..dialects.aten import AtenOp, lookup
from ..dialects.errors import LamellaError
from ..dialects.expr import Dim
from ..dialects.flow import FlowOp, YieldOp
from ..dialects.hints import size_hints
from ..dialects.loop import KernelOp, LaunchOp, ViewOp
from ..dialects.loop_attrs import IndexAttr
from ..dialects.tensor import SymType, TensorType
from .arena_plan import Request
from .buffer_lifetimes import Lifetimes, Memory
from .in_place import may_overwrite, whole, without_copies
from .lent_memory import LARGE, Lender, Loans, lend
from .storage import storage_bytes

OUT_VARIANTS: dict[str, str] = {
    "aten.mm": "aten.mm.out",
    "aten.addmm": "aten.addmm.out",
    "aten.bmm": "aten.bmm.out",
    "aten.baddbmm": "aten.baddbmm.out",
    "aten.randint.low": "aten.randint.low_out",
}
"""Operators that write into memory they are given. Their result is contiguous, as eager's is."""


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
            new = host.FuncOp.make(
                function.sym_name.data,
                function.function_type,
                program.run(),
                arg_attrs=function.arg_attrs,
                attributes=dict(function.attributes),
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
        self.outer = outer
        self.kernels = kernels
        self.made: list[KernelOp] = [] if outer is None else outer.made
        """Variants of kernels."""
        self.replaced: set[str] = set() if outer is None else outer.replaced
        """Kernels that some launch has a variant of."""
        self.hints = hints
        self.lifetimes = Lifetimes(old)
        self.block = Block(arg_types=[a.type for a in old.args])
        self.values: dict[SSAValue, SSAValue] = {}
        self.slots: dict[Memory, Any] = {}
        self.arenas: dict[str, SSAValue] = {}
        """By device."""
        self.lenders: dict[Memory, Memory] = {}
        """For a slot's memory, the result that it lies in; in the arena without one."""
        self.named: set[SSAValue] = set()
        """Arguments with a name: variables and parameters of the program, which are there after the call too."""
        self.lent: dict[Memory, SSAValue] = {}
        """The memory of such a result, once its tensor is made."""
        self.written: dict[SSAValue, SSAValue] = {}
        """Results of launches that are written into an argument."""
        self.over: dict[SSAValue, int] = {}
        """Results of launches that are written over an operand, with its number."""
        self.allowed: dict[tuple[str, int, int], bool] = {}
        """Whether a kernel may write a result over an operand, by their numbers."""
        self.as_they_are: set[str] = set()
        """Variants that would be no shorter than their kernels."""
        self.done: set[Operation] = set()
        """Copies that are not needed for that reason."""
        zeros = dict.fromkeys(("slots", "in place", "lent", "tensors", "mutated", "arena bytes"), 0)
        self.counts = zeros if outer is None else outer.counts
        self.early: frozenset[Any] = self._early_symbols()
        """Symbols that are known before anything of the body has run: those of the arguments."""

    def run(self) -> Block:
        for a, b in zip(self.old.args, self.block.args, strict=True):
            b.name_hint, b.location = a.name_hint, a.location
            self.values[a] = b
        if isinstance(self.around, func.FuncOp):
            self._checks(self.around)
            self._find_mutations()
        self._plan()
        drops = self._drops()
        for position, step in enumerate(self.lifetimes.steps):
            if len(step) == 1:
                self._op(step[0])
            else:
                self._together(cast("list[LaunchOp]", step))
            if dead := drops.get(position):
                self._add(host.DropOp.create(operands=[self.values[v] for v in dead], location=step[-1].location))
        return self.block

    def _add(self, op: Operation) -> Operation:
        self.block.add_op(op)
        return op

    def _bind(self, old: SSAValue, new: SSAValue) -> None:
        self.values[old] = new
        new.name_hint = old.name_hint

    def _checks(self, function: func.FuncOp) -> None:
        attributes = function.arg_attrs.data if function.arg_attrs is not None else ()
        for i, a in enumerate(self.block.args):
            name = attributes[i].data.get("lamella.name") if i < len(attributes) else None
            label = name if isinstance(name, StringAttr) else StringAttr(a.name_hint or f"argument {i}")
            if isinstance(name, StringAttr):
                self.named.add(self.old.args[i])
            self._add(host.CheckOp.create(operands=[a], properties={"label": label}, location=function.location))

    # ---------------------------------------------------------------------------------------------------------- memory

    def _plan(self) -> None:
        """Finds the memory that may lie in the arena, and where."""
        planned: dict[str, list[Memory]] = {}
        for memory in self.lifetimes.memories:
            if self._may_share(memory):
                planned.setdefault(_device(memory.value), []).append(memory)
        for device, memories in planned.items():
            self._plan_arena(device, memories)

    def _plan_arena(self, device: str, planned: list[Memory]) -> None:
        chains = self._chains(planned)
        requests = [Request(c[0].first, c[-1].last, _size(c[0])) for c in chains]
        loans = self._loans(device, chains, requests)
        found = loans.arena
        for i, (chain, offset) in enumerate(zip(chains, found.offsets, strict=True)):
            if i not in loans.places:
                self.slots |= dict.fromkeys(chain, offset)
        if len(loans.places) == len(chains):
            return
        properties: dict[str, Attribute] = {"bytes": IndexAttr.get([found.size])}
        if device != "cpu":
            properties["device"] = StringAttr(device)
        arena = self._add(
            host.ArenaOp.create(properties=properties, result_types=[host.ARENA], location=self.around.location)
        )
        self.arenas[device] = arena.results[0]
        self.counts["arena bytes"] += found.size if isinstance(found.size, int) else 0

    def _loans(self, device: str, chains: list[list[Memory]], requests: list[Request]) -> Loans:
        """Where the chains lie; those in results are noted as such."""
        results = [m for m in self.lifetimes.memories if self._may_lend(m) and _device(m.value) == device]
        last = {chain[-1]: i for i, chain in enumerate(chains)}
        lenders: list[Lender] = []
        operands: list[int] = []
        for m in results:
            before, operand = self._overwrites(m, set(last))
            lenders.append(Lender(m.first, cast(int, _size(m)), None if before is None else last[before]))
            operands.append(operand)
        here = [m for m in self.lifetimes.memories if _device(m.value) == device and m not in results]
        planned = {m for chain in chains for m in chain}
        end = len(self.lifetimes.steps) - 1
        others = [
            Request(0, end, _size(m)) if m.value in self.named
            else Request(m.first, end if m.returned else m.last, _size(m))
            for m in here if m not in planned
        ]  # fmt: skip
        loans = lend(requests, lenders, others, end + 1, self.hints)
        for i, (k, offset) in loans.places.items():
            self.slots |= {m: offset for m in chains[i]}
            self.lenders |= {m: results[k] for m in chains[i]}
            if lenders[k].over == i:
                self.over[results[k].value] = operands[k]
                self.counts["in place"] += 1
        self.counts["lent"] += len(loans.places)
        return loans

    def _may_lend(self, memory: Memory) -> bool:
        """Whether it is a result whose tensor can be made before anything has run."""
        op = memory.value.owner
        if self.outer is not None or not memory.returned or memory.kept or memory.value in self.written:
            return False
        if not (isinstance(op, LaunchOp) or (isinstance(op, Operation) and _out_variant(op))):
            return False
        size = _size(memory)
        return isinstance(size, int) and size >= LARGE

    def _chains(self, planned: list[Memory]) -> list[list[Memory]]:
        """The memories in groups that follow one another in the same place, each made by a kernel that overwrites the
        last.
        """
        chain_of: dict[Memory, list[Memory]] = {}
        chains: list[list[Memory]] = []
        may = set(planned)
        for memory in planned:
            before, operand = self._overwrites(memory, may)
            if before is not None and chain_of[before][-1] is before:
                chain = chain_of[before]
                self.over[memory.value] = operand
                self.counts["in place"] += 1
            else:
                chain = []
                chains.append(chain)
            chain.append(memory)
            chain_of[memory] = chain
        return chains

    def _overwrites(self, memory: Memory, planned: set[Memory]) -> tuple[Memory | None, int]:
        """The memory of an input that this result of a launch may take over, and the number of the input.

        The input dies there, and the kernel allows it.
        """
        op = memory.value.owner
        if not isinstance(op, LaunchOp):
            return None, 0
        out = list(op.res).index(cast(Any, memory.value))
        size = storage_bytes(cast(TensorType, memory.value.type))
        for i, operand in enumerate(op.args):
            before = self.lifetimes.own(whole(operand))
            if before is None or before not in planned or before.last != memory.first:
                continue
            if before.used_by_others(memory.first, op):
                continue
            if storage_bytes(cast(TensorType, before.value.type)) == size and self._may_overwrite(op, i, out, before):
                return before, i
        return None, 0

    def _may_overwrite(self, op: LaunchOp, operand: int, out: int, memory: Memory) -> bool:
        """Whether the launch reads `memory` through that operand only, and may write the result over it."""
        others = (v for i, v in enumerate(op.args) if i != operand)
        if any(memory in self.lifetimes.of.get(v, ()) for v in others):
            return False
        key = (op.callee, operand, out)
        if key not in self.allowed:
            self.allowed[key] = may_overwrite(self.kernels[op.callee], operand, out)
        return self.allowed[key]

    def _find_mutations(self) -> None:
        """Launches that can write straight into the argument that their result is copied to."""
        copies: dict[Memory, list[tuple[int, AtenOp]]] = {}
        for position, (op, *_) in enumerate(self.lifetimes.steps):
            if isinstance(op, AtenOp) and op.name == "aten.copy_":
                for memory in self.lifetimes.of.get(op.args()[0], ()):
                    copies.setdefault(memory, []).append((position, op))
        for target, found in copies.items():
            if len(found) == 1 and target.first < 0:
                self._find_mutation(target, *found[0])

    def _find_mutation(self, target: Memory, position: int, copy: AtenOp) -> None:
        destination, source = copy.args()[:2]
        result = whole(source) if isinstance(source, SSAValue) else source
        memory = self.lifetimes.own(result) if isinstance(result, SSAValue) else None
        if memory is None or memory.returned or memory.kept or destination is not target.value:
            return
        op = memory.value.owner
        if not isinstance(op, LaunchOp) or source.type != destination.type:
            return
        same = result.type == destination.type
        if not same and not (result.type.is_contiguous and destination.type.is_contiguous):  # pyright: ignore
            return
        if any(memory.first < use < position for use, _ in target.uses) or target.used_by_others(memory.first, op):
            return
        out = list(op.res).index(cast(Any, result))
        reads = [i for i, v in enumerate(op.args) if target in self.lifetimes.of.get(v, ())]
        for i in reads:
            if whole(op.args[i]) is not target.value or not self._may_overwrite(op, i, out, target):
                return
        if result in self.written:
            return
        if reads:
            self.over[result] = reads[0]
        self.written[result] = destination
        target.last = max(target.last, memory.last)
        self.done.add(copy)
        self.counts["mutated"] += 1

    def _early_symbols(self) -> frozenset[Any]:
        found: set[Any] = set() if self.outer is None else set(self.outer.early)
        for a in self.old.args:
            if isinstance(a.type, TensorType):
                for d in (*a.type.shape, *a.type.strides):
                    found |= expr.symbols(d)
            elif isinstance(a.type, SymType):
                found |= expr.symbols(a.type.expr)
        return frozenset(found)

    def _may_share(self, memory: Memory) -> bool:
        op = memory.value.owner
        if memory.returned or memory.kept or memory.value in self.written or not isinstance(op, Operation):
            return False
        if not (isinstance(op, LaunchOp) or _out_variant(op)):
            return False
        return expr.symbols(storage_bytes(cast(TensorType, memory.value.type))) <= self.early

    def _buffer(self, result: SSAValue, op: Operation) -> SSAValue:
        """Memory for a result that is written by `op`."""
        memory = self.lifetimes.own(result)
        assert memory is not None
        if (target := self.written.get(result)) is not None:
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
        if memory in self.slots:
            new = host.SlotOp.create(
                operands=[self._arena_of(memory)],
                properties={"offset": IndexAttr.get([self.slots[memory]])},
                result_types=[result.type],
                location=op.location,
            )
            self.counts["slots"] += 1
        else:
            new = host.EmptyOp.create(result_types=[result.type], location=op.location)
            self.counts["tensors"] += 1
        self._add(new)
        self._bind(result, new.results[0])
        return new.results[0]

    def _arena_of(self, memory: Memory) -> SSAValue:
        """The arena that the memory lies in, or the result; its tensor is made for the first of those in it."""
        lender = self.lenders.get(memory)
        if lender is None:
            return self.arenas[_device(memory.value)]
        if lender not in self.lent:
            place = cast(Operation, lender.value.owner).location
            tensor = host.EmptyOp.create(result_types=[lender.value.type], location=place)
            self._add(tensor)
            self.counts["tensors"] += 1
            self._bind(lender.value, tensor.results[0])
            lending = host.LendOp.create(operands=[tensor.results[0]], result_types=[host.ARENA], location=place)
            self.lent[lender] = self._add(lending).results[0]
        return self.lent[lender]

    def _drops(self) -> dict[int, list[SSAValue]]:
        """After which op nothing of a tensor is needed. What lies in the arena goes with the arena."""
        drops: dict[int, list[SSAValue]] = {}
        end = len(self.lifetimes.steps) - 2  # the last op before the return; releasing there is what the exit does
        for memory in self.lifetimes.memories:
            lies_here = memory in self.slots or memory.value in self.written
            if self.outer is not None and memory.first < 0:
                continue  # whoever gave it drops it
            if not memory.returned and not lies_here and 0 <= memory.last < end:
                drops.setdefault(memory.last, []).extend(dict.fromkeys([memory.value, *memory.aliases]))
        return {position: list(dict.fromkeys(values)) for position, values in drops.items()}

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
            if result in self.over:
                callee = self._in_place(callee, self.over[result], out)
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
        if op in self.done:
            self.values[op.results[0]] = self.values[op.args()[0]]
            return
        variant = _out_variant(op)
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


def _out_variant(op: Operation) -> type[AtenOp] | None:
    """The overload of this call that writes into memory it is given; None where there is none, or the layout
    differs.
    """
    name = OUT_VARIANTS.get(op.name)
    if name is None:
        return None
    type = op.results[0].type
    fits = isinstance(type, TensorType) and type.is_contiguous and type.device.startswith(("cpu", "cuda"))
    return lookup(name) if fits else None


def _size(memory: Memory) -> Dim:
    return storage_bytes(cast(TensorType, memory.value.type))


def _device(value: SSAValue) -> str:
    return cast(TensorType, value.type).device
