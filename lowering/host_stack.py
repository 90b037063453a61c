"""Tensors of the host program that grow: what a loop has carried, one after another."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import i32, i64
from xdsl.ir import SSAValue

from ..dialects.flow import slice_type
from ..dialects.literal import Value
from ..dialects.tensor import TensorType
from .host_calls import finish_results

if TYPE_CHECKING:
    from .host_to_llvm import HostLowering


class Stack:
    """Slices of these types. There is room for twice as many when it is full, and in the end for those there are."""

    def __init__(self, host: HostLowering, types: Sequence[TensorType], begin: Sequence[Value]) -> None:
        """`begin` is there until something is appended."""
        self.host, self.types = host, types
        frame, b = host.frame, host.frame.b
        self.first, self.spare = frame.own(len(types)), frame.own(len(types))
        self.count, self.room = frame.words(1), frame.words(1)
        frame.store(b.constant(0, i64), self.count)
        frame.store(one := b.constant(1, i64), self.room)
        known = frame.known()
        for i, value in enumerate(begin):
            host.allocate(self._type(i, one), self.first + i)
            self._write(i, b.constant(0, i64), value)
        frame.forget(known)

    def append(self, values: Sequence[Value]) -> None:
        """One slice of each, where they were made."""
        frame, b = self.host.frame, self.host.frame.b
        count, room = frame.load(self.count, i64), frame.load(self.room, i64)

        def grow() -> Sequence[SSAValue]:
            self._move(count, twice := b.add(room, room))
            frame.store(twice, self.room)
            return ()

        b.when(b.icmp("eq", count, room), grow)
        for i, value in enumerate(values):
            self._write(i, count, value)
        frame.store(b.add(count, b.constant(1, i64)), self.count)

    def become(self, name: str, results: Sequence[SSAValue]) -> None:
        """The results are the slices, stacked."""
        frame, b = self.host.frame, self.host.frame.b
        count, room = frame.load(self.count, i64), frame.load(self.room, i64)

        def shrink() -> Sequence[SSAValue]:
            self._move(count, count)
            return ()

        b.when(b.icmp("ult", b.sub(count, b.constant(1, i64)), b.sub(room, b.constant(1, i64))), shrink)
        finish_results(self.host, name, results, self.first)

    def _type(self, i: int, n: SSAValue) -> TensorType:
        symbol, t = self.host.frame.symbol(), self.types[i]
        self.host.frame.env[symbol] = n
        return TensorType.get((symbol, *t.shape), t.dtype, None, t.device)

    def _move(self, count: SSAValue, room: SSAValue) -> None:
        """The first `count` slices to memory for `room`."""
        host, frame = self.host, self.host.frame
        known = frame.known()
        for i in range(len(self.types)):
            place, spare = frame.owned_at(self.first + i), frame.owned_at(self.spare + i)
            host.allocate(self._type(i, room), self.spare + i)
            slices = self._type(i, count)
            with self._part(place, frame.number(0), slices) as old, self._part(spare, frame.number(0), slices) as new:
                self._copy(new, old)
            frame.call("lamella_drop", place)
            frame.store(frame.load(spare), place)
            frame.store(frame.null, spare)
        frame.forget(known)

    def _write(self, i: int, at: SSAValue, value: Value) -> None:
        frame = self.host.frame
        known = frame.known()
        symbol: Any = frame.symbol()
        frame.env[symbol] = at
        t = self._type(i, at)
        place, offset = frame.owned_at(self.first + i), frame.number(symbol * t.strides[0])
        with self._part(place, offset, slice_type(t)) as part:
            self._copy(part, self.host.handle(value))
        frame.forget(known)

    @contextmanager
    def _part(self, place: SSAValue, offset: SSAValue, t: TensorType) -> Generator[SSAValue]:
        """A tensor of that type in the memory of another one, from an element of it on."""
        frame = self.host.frame
        part = frame.owned_at(frame.own())
        frame.checked("lamella_view", frame.load(place), offset, *self.host.layout(t), part)
        yield frame.load(part)
        frame.call("lamella_drop", part)

    def _copy(self, into: SSAValue, source: SSAValue) -> None:
        frame = self.host.frame
        frame.shim("aoti_torch_copy_", into, source, frame.b.constant(0, i32))
