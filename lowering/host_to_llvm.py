"""host to llvm: the host program becomes a CPython function `(self, arguments, their number) -> tuple of outputs`, of
kind METH_FASTCALL. Of a call with one list the arguments are what is in the list, which is emptied.

In: `host.func @main` and the kernels it launches as `llvm.func`. Out: `llvm.*` only. `self` is a tuple of Python
objects; the module attribute `lamella.objects` says of what (see codegen/runtime.py), `lamella.arguments` what the
arguments must be. The common work is in functions of codegen/runtime_support.py. The GIL is held, but while
something long runs (host_gil).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from xdsl.context import Context
from xdsl.dialects import llvm
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntegerAttr, ModuleOp, StringAttr, i8, i32, i64
from xdsl.ir import Attribute, Operation, OpResult, SSAValue
from xdsl.passes import ModulePass

from ..dialects import host
from ..dialects.aten import AtenOp
from ..dialects.errors import LamellaVerifyError
from ..dialects.expr import Dim
from ..dialects.flow import all_ops
from ..dialects.llvm_ext import PTR
from ..dialects.loop import KernelOp
from ..dialects.tensor import TensorType
from . import host_flow
from .beside import RECYCLED
from .host_arguments import ArgumentTable
from .host_calls import lower_call
from .host_devices import GpuKernels, Gpus, may_be_elsewhere
from .host_frame import Frame, HostError
from .host_gil import released
from .host_profile import recorded
from .host_tensors import Buffer, HostTensors
from .host_together import Together
from .memory_plan import passed
from .storage import storage_bytes


@dataclass(frozen=True)
class HostToLlvm(ModulePass):
    """The host program as a native function that Python calls.

    Assumes that kernels are `llvm.func`s with the buffers, then the sizes, as arguments. Their result is an i32: 0,
    or k + 1 to raise what the k-th message of their attribute `lamella.messages` says, or -1 for MemoryError.
    """

    name = "host-to-llvm"
    check: bool = True
    """Compare the caller's arguments with their types (where the program says host.check)."""
    deterministic: bool = False
    """Calls into torch give the same bits for any number of threads."""
    profile: bool = False
    """torch.profiler is told of each launch and call."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for kernel in [o for o in op.ops if isinstance(o, KernelOp)]:
            raise LamellaVerifyError(kernel, "is not a function yet: kernel-to-llvm goes before host-to-llvm")
        for program in [o for o in op.ops if isinstance(o, host.FuncOp)]:
            frame = Frame(cast(Any, program.location), _list(op, "lamella.objects"), _tables(op))
            HostLowering(program, frame, self, _messages(op), GpuKernels(op)).replace(op)


def _list(module: ModuleOp, name: str) -> Sequence[Attribute]:
    """The elements of an attribute of the module; none where it is missing."""
    return cast(ArrayAttr[Attribute], module.attributes.get(name, ArrayAttr([]))).data


def _tables(module: ModuleOp) -> int:
    """How many names `table_0`, `table_1`, … are taken."""
    names = [o.sym_name.data for o in module.ops if isinstance(o, llvm.GlobalOp)]
    return 1 + max((int(name[6:]) for name in names if re.fullmatch(r"table_\d+", name)), default=-1)


def _messages(module: ModuleOp) -> dict[str, ArrayAttr[StringAttr]]:
    """What each kernel's asserts say."""
    functions = [f for f in module.ops if isinstance(f, llvm.FuncOp)]
    return {f.sym_name.data: cast(Any, f.attributes[_MESSAGES]) for f in functions if _MESSAGES in f.attributes}


_MESSAGES = "lamella.messages"


class HostLowering(HostTensors):
    """One host program being rewritten; `ROWS` maps its ops to methods."""

    def __init__(
        self,
        program: host.FuncOp,
        frame: Frame,
        asked: HostToLlvm,
        messages: Mapping[str, ArrayAttr[StringAttr]],
        kernels: GpuKernels,
    ):
        self.program = program
        self.messages = messages
        self.check, self.deterministic, self.profile = asked.check, asked.deterministic, asked.profile
        super().__init__(frame)
        self.arenas: dict[SSAValue, tuple[SSAValue, SSAValue]] = {}
        self.grad: SSAValue | None = None
        self.arena_slots: list[SSAValue] = []
        self.gpus = Gpus(self.frame, kernels, all_ops(program.body.block))
        self.together = Together(self.frame, program.body.block)

    # ------------------------------------------------------------------------------------------------------ the whole

    def replace(self, module: ModuleOp) -> None:
        """Puts the function and what it needs in place of the program."""
        program, frame = self.program, self.frame
        self._enter()
        for op in program.body.block.ops:
            frame.b.location = op.location
            self.lower(op)
        frame.b.location = program.location
        self._leave_after_error()
        main = frame.finish(program.sym_name.data)
        block = module.body.block
        defined = {o.sym_name.data for o in block.ops if isinstance(o, llvm.FuncOp | llvm.GlobalOp)}
        declarations = [d for d in frame.declarations() if cast(Any, d).sym_name.data not in defined]
        block.insert_ops_before([*declarations, main], program)
        program.detach()
        program.erase()
        module.attributes["lamella.objects"] = ArrayAttr(frame.objects_)
        if program.sym_name.data == "main" or "lamella.arguments" not in module.attributes:
            module.attributes["lamella.arguments"] = ArrayAttr(self._arguments())
        if self.gpus.used:
            module.attributes["lamella.kernels"] = ArrayAttr(self.gpus.table(_list(module, "lamella.kernels")))

    def _arguments(self) -> list[Attribute]:
        """Name and type of each argument, in turn."""
        names: dict[SSAValue, str] = {}
        for op in self.program.body.block.ops:
            if isinstance(op, host.CheckOp):
                names[op.value] = op.label.data
        found: list[Attribute] = []
        for i, a in enumerate(self.program.body.block.args):
            found += [StringAttr(names.get(a) or a.name_hint or f"argument {i}"), a.type]
        return found

    def lower(self, op: Operation) -> None:
        """Write one op of the program."""
        row = ROWS.get(type(op)) or host_flow.ROWS.get(type(op))
        if row is not None:
            row(self, op)
        elif isinstance(op, AtenOp):
            self._call(op)
        else:
            raise HostError(f"{op.name} cannot stand in a host program")

    def _enter(self) -> None:
        frame, b = self.frame, self.frame.b
        block = self.program.body.block
        args = block.args
        checks = {op.value for op in block.ops if isinstance(op, host.CheckOp)} if self.check else set()
        table = ArgumentTable([a.type for a in args], [a in checks for a in args], list(map(may_be_elsewhere, args)))
        self.n = b.constant(len(args), i64)
        self.objects, handles = frame.words(len(args)), frame.words(len(args))
        data = self.together.enter(len(args))
        values = frame.words(table.count)
        given = (frame.self_, frame.given, frame.given_count, frame.table(table.words), self.n)
        found = (self.objects, handles, data, values, frame.owned, frame.owned_count)
        code = frame.get("lamella_enter", *given, *found)
        refused = b.block()
        frame.otherwise(b.icmp("eq", code, b.constant(0, i32)), refused)
        with b.scope(refused, branch=True):
            b.ret(frame.null)
        for op in all_ops(block):
            if isinstance(op, host.ArenaOp) and op.device is None:
                place = frame.words(1)
                frame.store(frame.null, place)
                self.arenas[op.res] = (place, place)
                self.arena_slots.append(place)
        if any(isinstance(op, AtenOp) for op in all_ops(block)):
            self.grad = frame.get("lamella_grad_off")
        self.gpus.enter()
        for i, a in enumerate(args):
            if isinstance(a.type, TensorType):
                buffer = self.buffers[a] = Buffer(a.type)
                buffer.argument = i
                buffer.data = b.gep(data, i, PTR)
                buffer.handle = b.gep(handles, i, PTR)
        for buffer in self.buffers.values():
            # loaded here, where every later use is dominated
            assert buffer.data is not None and buffer.handle is not None
            buffer.data, buffer.handle = frame.load(buffer.data), frame.load(buffer.handle)
        for given, expected in table.bind(frame, values):
            wrong = b.block()
            frame.otherwise(b.icmp("eq", given, expected), wrong)
            with frame.aside(wrong):
                frame.call("lamella_disagree", frame.self_, self.objects, self.n)
        if not any(isinstance(op, host.ArenaOp) and op.device is None for op in block.ops):
            self._make_room(0)

    def _release(self) -> None:
        frame = self.frame
        frame.call("lamella_leave", self.objects, self.n, frame.owned, frame.owned_count)
        for place in self.arena_slots:
            frame.call("lamella_arena_done", place)
        self.gpus.leave()
        if self.grad is not None:
            frame.call("lamella_grad_restore", self.grad)

    def _leave_after_error(self) -> None:
        self.frame.b.continue_in(self.frame.fail)
        self._release()
        self.frame.b.ret(self.frame.null)

    # ------------------------------------------------------------------------------------------------------- the rows

    def _nothing(self, op: Operation) -> None:
        """Said by the type (host.size), or done on entry (host.check)."""

    def _arena(self, op: host.ArenaOp) -> None:
        frame = self.frame
        if op.device is not None:
            type = TensorType.get([op.bytes[0]], "u8", None, op.device.data)
            place, data = self.allocate(type, frame.own())
            self.arenas[op.res] = (place, frame.load(data))
            return
        if op.parent is self.program.body.block:
            self._make_room(op.bytes[0])
        place, _ = self.arenas[op.res]
        data = frame.words(1)
        frame.checked("lamella_arena", frame.number(op.bytes[0]), place, data)
        self.arenas[op.res] = (place, frame.load(data))

    def _make_room(self, arena: Dim) -> None:
        """What is kept to be recycled goes where the program, with its arena, takes too much beside it."""
        beside = self.program.attributes.get(host.BESIDE)
        known = beside.value.data if isinstance(beside, IntegerAttr) else 0
        given = self._given_for_the_call()
        if known or given or _is_large(arena) or any(_is_recycled(op) for op in self.program.body.block.ops):
            frame, b = self.frame, self.frame.b
            others: SSAValue = b.constant(0, i64)
            for buffer, bytes in given:
                assert buffer.data is not None
                others = b.add(others, frame.get("lamella_not_recycled", buffer.data, frame.number(bytes)))
            frame.call("lamella_begin", b.constant(known, i64), others, frame.number(arena))

    def _given_for_the_call(self) -> list[tuple[Buffer, Dim]]:
        """Large arguments that are there for the call, as gradients are: what the program holds at its beginning counts
        those of its own graphs that are recycled, and of others nobody has told.
        """
        found: list[tuple[Buffer, Dim]] = []
        for value in passed(self.program.body.block):
            type = cast(TensorType, value.type)
            bytes = storage_bytes(type)
            if type.device == "cpu" and _is_large(bytes) and self.frame.knows(bytes):
                found.append((self.buffers[value], bytes))
        return found

    def _lend(self, op: host.LendOp) -> None:
        buffer = self.buffers[op.source]
        assert buffer.owned is not None
        self.arenas[op.res] = (self.frame.owned_at(buffer.owned), self.data(op.source))

    def _slot(self, op: host.SlotOp) -> None:
        frame = self.frame
        buffer = self.buffers[op.res] = Buffer(op.res.type)
        place, data = self.arenas[op.arena]
        buffer.slot, buffer.offset = place, op.offset[0]
        buffer.data = frame.b.gep(data, frame.value(buffer.offset), i8)

    def _empty(self, op: host.EmptyOp) -> None:
        over = None if op.over is None else self.buffers[op.over].argument
        self.make_tensor(op.res, op.beside.value.data if op.beside else 0, over)

    def _view(self, op: host.ViewOp) -> None:
        buffer = self.buffers[op.res] = Buffer(op.res.type)
        buffer.base, buffer.offset = self.buffers[op.source], op.offset[0]

    def _launch(self, op: host.LaunchOp) -> None:
        frame, b = self.frame, self.frame.b
        if op.callee in self.gpus.kernels:
            self.gpus.launch(op, [self.data(v) for v in op.operands])  # which the GPU itself tells of
            return
        operands = [self.data(v) for v in op.operands] + [frame.number(e) for e in op.sizes]
        with recorded(frame, op.callee, self.profile), released(frame, op.operand_types):
            code = b.call(op.callee, operands, i32)
        assert code is not None
        self._succeed(code, op.callee)

    def _together(self, op: host.TogetherOp) -> None:
        self.gpus.together([launch for launch in op.launches if launch.callee in self.gpus.kernels], self.data)
        launches = [launch for launch in op.launches if launch.callee not in self.gpus.kernels]
        if launches:
            with recorded(self.frame, " + ".join(launch.callee for launch in launches), self.profile):
                code = self.together.launch(launches, self.data)
            self._succeed(code, "")

    def _succeed(self, code: SSAValue, callee: str) -> None:
        """Go on where a kernel gave 0, else raise what it says."""
        frame = self.frame
        messages = self.messages.get(callee) or ArrayAttr[StringAttr]([])
        spec = DictionaryAttr({"messages": messages})

        def tell(given: Sequence[SSAValue]) -> None:
            frame.call("lamella_assert", frame.self_, frame.object_index(spec), *given)

        frame.or_leave(code, (code,), spec, tell)

    def _drop(self, op: host.DropOp) -> None:
        frame, b = self.frame, self.frame.b
        for value in op.values:
            if value in self.arenas:
                continue  # given back on the way out, after the tensors that lie in it
            buffer = self.buffers.get(value)
            if buffer is None:
                continue
            for place in (*buffer.derived, *([buffer.owned] if buffer.owned is not None else [])):
                frame.call("lamella_drop", frame.owned_at(place))
            if buffer.argument is not None:
                frame.call("lamella_drop_object", b.gep(self.objects, buffer.argument, PTR))
        if op.beside is not None:
            frame.call("lamella_room", b.constant(op.beside.value.data, i64), b.constant(0, i64))

    def _return(self, op: host.ReturnOp) -> None:
        frame, b = self.frame, self.frame.b
        values = list(op.values)
        results = frame.words(len(values))
        for value in values:
            if value in self.buffers and self.buffers[value].argument is None:
                self.handle(value)
        first: dict[Buffer, SSAValue] = {}
        seen = set[SSAValue]()
        for i, value in enumerate(values):
            at, buffer = b.gep(results, i, PTR), self.buffers.get(value)
            if buffer in first:
                frame.call("Py_IncRef", again := frame.load(first[buffer]))
                frame.store(again, at)
                continue
            memory = _memory(value)
            made = isinstance(memory, OpResult) and memory not in seen
            seen.add(memory)
            frame.store(self._returned(value, made and _is_view(value)), at)
            if buffer is not None:
                first[buffer] = at
        tuple_ = frame.get("lamella_tuple", results, b.constant(len(values), i64))
        self._release()
        b.ret(tuple_)

    def _returned(self, value: SSAValue, view: bool) -> SSAValue:
        """As a Python object; of a `view` of what is made here and not returned before, a tensor that is none."""
        buffer = self.buffers.get(value)
        if buffer is None or buffer.argument is not None:
            return self.object(value)
        assert buffer.owned is not None
        return self.frame.get("lamella_detached" if view else "lamella_wrap", self.frame.owned_at(buffer.owned))

    def _call(self, op: AtenOp) -> None:
        lower_call(self, op)


def _is_large(bytes: Dim) -> bool:
    return not isinstance(bytes, int) or bytes >= RECYCLED


def _is_recycled(op: Operation) -> bool:
    """Whether it makes a result that the pool may keep."""
    return isinstance(op, host.EmptyOp) and op.res.type.device == "cpu" and _is_large(storage_bytes(op.res.type))


def _is_view(value: SSAValue) -> bool:
    return isinstance(value.owner, AtenOp) and value.owner.schema.is_view


def _memory(value: SSAValue) -> SSAValue:
    """What a value is seen through views of."""
    while _is_view(value) or isinstance(value.owner, host.ViewOp):
        value = cast(Operation, value.owner).operands[0]
    return value


ROWS: dict[type[Operation], Callable[[HostLowering, Any], None]] = {
    host.CheckOp: HostLowering._nothing,
    host.SizeOp: HostLowering._nothing,
    host.ArenaOp: HostLowering._arena,
    host.LendOp: HostLowering._lend,
    host.SlotOp: HostLowering._slot,
    host.EmptyOp: HostLowering._empty,
    host.ViewOp: HostLowering._view,
    host.LaunchOp: HostLowering._launch,
    host.TogetherOp: HostLowering._together,
    host.DropOp: HostLowering._drop,
    host.ReturnOp: HostLowering._return,
}
