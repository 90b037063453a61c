"""Control flow in the host program: branches and loops around the ops of the regions of `flow` ops.

A region's tensors lie in places of the frame, as all others do, and are released where the region ends; its arena is
given back there. What it yields is held by places outside of it, a new reference each, and is compared with the type
of the result as a call's results are. Handles, addresses and sizes that are computed in a region are unknown after it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects.builtin import DictionaryAttr, StringAttr, i8, i32, i64
from xdsl.ir import Operation, Region, SSAValue

from ..dialects.flow import FlowOp, IfOp, ScanOp, WhileOp, WhileStackOp, YieldOp, slice_type
from ..dialects.flow_op import type_of
from ..dialects.host import ArenaOp
from ..dialects.literal import Value
from ..dialects.tensor import SymType, TensorType
from .host_arguments import DTYPE_CODES
from .host_calls import bind_scalar, bind_sizes, finish_results
from .host_stack import Stack
from .host_tensors import Buffer

if TYPE_CHECKING:
    from .host_to_llvm import HostLowering


def lower_if(host: HostLowering, op: IfOp) -> None:
    """A branch to one of the regions."""
    condition, *args = op.args()
    held = Held(host, op.name, [r.type for r in op.results])

    def branch(region: Region) -> Callable[[], Sequence[SSAValue]]:
        def write() -> Sequence[SSAValue]:
            with _inside(host, region):
                for argument, value in zip(region.block.args, args, strict=True):
                    _bind(host, op, argument, value)
                held.keep(_run(host, region))
            return ()

        return write

    host.frame.b.when(_truth(host, condition), branch(op.then), branch(op.otherwise))
    held.become(op.results)


def lower_while(host: HostLowering, op: WhileOp) -> None:
    """A loop that looks at the condition first. One of no rounds gives copies, as torch's does."""
    frame, b = host.frame, host.frame.b
    args = op.args()
    n = len(op.results)
    types = [type_of(v) for v in op.carried()]
    now, following = (Held(host, op.name, types) for _ in range(2))
    now.keep(args[:n])
    stack = Stack(host, types, args[:n]) if isinstance(op, WhileStackOp) else None
    rounds = frame.words(1)
    frame.store(b.constant(0, i64), rounds)

    def bind(region: Region) -> None:
        for i, argument in enumerate(region.block.args):
            if i < n:
                now.bind(i, argument)
            else:
                _bind(host, op, argument, args[i])

    header, body, after = b.block(), b.block(), b.block()
    b.jump(header)
    with b.scope(header, branch=True):
        frame.checked("PyErr_CheckSignals")
        with _inside(host, op.test):
            bind(op.test)
            (condition,) = _run(host, op.test)
            again = _truth(host, condition)
        b.branch(again, body, (), after)
        with b.scope(body, branch=True):
            with _inside(host, op.body):
                bind(op.body)
                made = _run(host, op.body)
                following.keep(made)
                if stack is not None:
                    stack.append(made)
            now.take(following)
            frame.store(b.constant(1, i64), rounds)
            b.jump(header)
    b.continue_in(after)
    if stack is None:
        b.when(b.icmp("eq", frame.load(rounds, i64), b.constant(0, i64)), lambda: now.copied(following))
        now.become(op.results)
    else:
        stack.become(op.name, op.results)


def lower_scan(host: HostLowering, op: ScanOp) -> None:
    """A loop over slices; results that are stacked are written slice by slice."""
    frame, b = host.frame, host.frame.b
    n, over = op.counts
    args, results = op.args(), list(op.results)
    carried, xs, rest = args[:n], args[n : n + over], args[n + over :]
    now, following = (Held(host, op.name, [r.type for r in results[:n]]) for _ in range(2))
    now.keep(carried)
    for result in results[n:]:
        host.make_tensor(result)
    count = frame.number(cast(TensorType, xs[0].type).shape[0])
    index = frame.symbol()

    def slice_of(value: SSAValue) -> Buffer:
        """The slice of a tensor that this iteration is about."""
        type = cast(TensorType, value.type)
        part = Buffer(slice_type(type))
        part.base, part.offset = host.buffers[value], index * type.strides[0]
        return part

    header, body, after = b.block([i64]), b.block(), b.block()
    b.jump(header, [b.constant(0, i64)])
    with b.scope(header, branch=True):
        at = header.args[0]
        b.branch(b.icmp("slt", at, count), body, (), after)
        with b.scope(body, branch=True):
            frame.checked("PyErr_CheckSignals")
            with _inside(host, op.body):
                frame.env[index] = at
                given = op.body.block.args
                for i, argument in enumerate(given[:n]):
                    now.bind(i, argument)
                for argument, value in zip(given[n : n + over], xs, strict=True):
                    _bind_buffer(host, op, argument, slice_of(value))
                for argument, value in zip(given[n + over :], rest, strict=True):
                    _bind(host, op, argument, value)
                made = _run(host, op.body)
                following.keep(made[:n])
                for value, result in zip(made[n:], results[n:], strict=True):
                    into, source = host.buffer_handle(slice_of(result)), host.handle(value)
                    frame.shim("aoti_torch_copy_", into, source, b.constant(0, i32))
            now.take(following)
            b.jump(header, [b.add(at, b.constant(1, i64))])
    b.continue_in(after)
    now.become(results[:n])


ROWS: dict[type[Operation], Callable[[Any, Any], None]] = {
    IfOp: lower_if,
    WhileOp: lower_while,
    WhileStackOp: lower_while,
    ScanOp: lower_scan,
}


class Held:
    """Values that outlive the region that made them: tensors in places of the frame, numbers in words."""

    def __init__(self, host: HostLowering, name: str, types: Sequence[Any]) -> None:
        self.host, self.name, self.types = host, name, types
        self.first = host.frame.own(len(types))
        self.words = host.frame.words(len(types))

    def keep(self, values: Sequence[Value]) -> None:
        """Hold these; nothing is held yet."""
        frame, b = self.host.frame, self.host.frame.b
        for i, (value, type) in enumerate(zip(values, self.types, strict=True)):
            if isinstance(type, TensorType):
                handle = self.host.handle(value)
                frame.shim("aoti_torch_new_tensor_handle", handle, frame.owned_at(self.first + i), signature="ipp")
            elif isinstance(type, SymType):
                frame.store(_number(self.host, value, type), b.gep(self.words, i, i64))

    def take(self, other: Held) -> None:
        """Hold what `other` does, and nothing of before."""
        frame, b = self.host.frame, self.host.frame.b
        for i, type in enumerate(self.types):
            if isinstance(type, TensorType):
                mine, others = frame.owned_at(self.first + i), frame.owned_at(other.first + i)
                frame.call("lamella_drop", mine)
                frame.store(frame.load(others), mine)
                frame.store(frame.null, others)
            else:
                frame.store(frame.load(b.gep(other.words, i, i64), i64), b.gep(self.words, i, i64))

    def copied(self, free: Held) -> Sequence[SSAValue]:
        """Hold copies of the tensors; `free` holds nothing."""
        frame = self.host.frame
        for i, type in enumerate(self.types):
            if isinstance(type, TensorType):
                mine, copy = frame.owned_at(self.first + i), frame.owned_at(free.first + i)
                frame.shim("aoti_torch_clone", frame.load(mine), copy)
                frame.call("lamella_drop", mine)
                frame.store(frame.load(copy), mine)
                frame.store(frame.null, copy)
        return ()

    def bind(self, i: int, argument: SSAValue) -> None:
        """The argument of a region is the value with that number."""
        frame = self.host.frame
        if isinstance(type := argument.type, TensorType):
            self.host.buffers[argument] = _checked(self.host, self.name, type, self.first + i)
        elif isinstance(type, SymType):
            bind_scalar(self.host, type, frame.b.gep(self.words, i, i64))

    def become(self, results: Sequence[SSAValue]) -> None:
        """The results of the op are the values."""
        for i, result in enumerate(results):
            if isinstance(type := result.type, SymType):
                bind_scalar(self.host, type, self.host.frame.b.gep(self.words, i, i64))
        finish_results(self.host, self.name, results, self.first)


@contextmanager
def _inside(host: HostLowering, region: Region) -> Generator[None]:
    """Write the ops of a region: in the end what they hold is released, and what they know is forgotten."""
    frame = host.frame
    known = frame.known()
    buffers = dict(host.buffers)
    handles = [(buffer, buffer.handle, buffer.data) for buffer in set(host.buffers.values())]
    first = frame.places
    gpu = host.gpus.current
    yield
    host.gpus.use(gpu)
    for place in range(first, frame.places):
        frame.call("lamella_drop", frame.owned_at(place))
    for op in region.block.ops:
        if isinstance(op, ArenaOp) and op.device is None:
            frame.call("lamella_arena_done", host.arenas[op.res][0])
    frame.forget(known)
    host.buffers = buffers
    for buffer, handle, data in handles:
        buffer.handle, buffer.data = handle, data


def _run(host: HostLowering, region: Region) -> list[Value]:
    """Write the ops of a region; what it yields."""
    *ops, last = region.block.ops
    for op in ops:
        host.frame.b.location = op.location
        host.lower(op)
    return cast(YieldOp, last).args()


def _bind(host: HostLowering, op: FlowOp, argument: SSAValue, value: Value) -> None:
    """The argument of a region is a value from outside."""
    frame, type = host.frame, argument.type
    if isinstance(type, SymType):
        word = frame.words(1)
        frame.store(_number(host, value, type), word)
        bind_scalar(host, type, word)
    else:
        _bind_buffer(host, op, argument, host.buffers[value])


def _bind_buffer(host: HostLowering, op: FlowOp, argument: SSAValue, buffer: Buffer) -> None:
    """The same for a tensor, which is looked at where its type says something else."""
    frame, type = host.frame, cast(TensorType, argument.type)
    if buffer.type == type:
        host.buffers[argument] = buffer
        return
    place = frame.own()
    frame.shim("aoti_torch_new_tensor_handle", host.buffer_handle(buffer), frame.owned_at(place), signature="ipp")
    host.buffers[argument] = _checked(host, op.name, type, place)


def _checked(host: HostLowering, name: str, type: TensorType, place: int) -> Buffer:
    """The tensor in a place of the frame, once it is known to be what the type says."""
    frame = host.frame
    bind_sizes(host, type, frame.owned_at(place))
    buffer, data = Buffer(type), frame.words(1)
    index = frame.object_index(DictionaryAttr({"name": StringAttr(name)}))
    layout, dtype = host.layout(type), frame.i32(DTYPE_CODES[type.dtype])
    frame.checked("lamella_result", frame.self_, index, frame.owned_at(place), *layout, dtype, data)
    buffer.owned = place
    buffer.handle, buffer.data = frame.load(frame.owned_at(place)), frame.load(data)
    return buffer


def _number(host: HostLowering, value: Value, type: SymType) -> SSAValue:
    frame = host.frame
    if isinstance(value, SSAValue):
        value = cast(SymType, value.type).expr
    if type.dtype == "f64":
        return frame.float(value)
    return frame.condition(value) if type.dtype == "i1" else frame.number(value)


def _truth(host: HostLowering, value: Value) -> SSAValue:
    """The condition as an i1."""
    frame, b = host.frame, host.frame.b
    if isinstance(value, SSAValue) and isinstance(type := value.type, TensorType):
        if type.device == "cpu":
            read = b.load(host.data(value), i8, 1)
        else:
            frame.shim("aoti_torch_item_bool", host.handle(value), word := frame.words(1), signature="ipp")
            read = b.load(word, i8, 1)
        return b.icmp("ne", read, b.constant(0, i8))
    number = _number(host, value, SymType.get(0, "i1"))
    return b.icmp("ne", number, b.constant(0, i64))
