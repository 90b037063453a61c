"""The tensors of a host program: of each where its data is, the at::Tensor, and who owns that. What is not there yet is
made where it is first asked for.
"""

from __future__ import annotations

from typing import Any, cast

from xdsl.dialects.builtin import i8, i64
from xdsl.ir import SSAValue

from ..dialects.llvm_ext import PTR
from ..dialects.tensor import SymType, TensorType, itemsize
from .host_arguments import DTYPE_CODES
from .host_devices import gpu_index
from .host_frame import Frame
from .storage import storage_bytes, strides_made


class Buffer:
    """What is known of one tensor: where its data is, the at::Tensor, and who owns that."""

    __slots__ = ("argument", "base", "data", "derived", "handle", "offset", "owned", "slot", "type")

    def __init__(self, type: TensorType):
        self.type = type
        self.data: SSAValue | None = None
        self.handle: SSAValue | None = None
        self.argument: int | None = None
        """Position among the arguments."""
        self.owned: int | None = None
        """Place among the frame's own tensors."""
        self.base: Buffer | None = None
        self.offset: Any = 0
        """Elements after the first of `base`, or bytes after the start of the arena."""
        self.slot: SSAValue | None = None
        """The place that holds the arena this lies in."""
        self.derived: list[int] = []
        """Places of tensors made of this one."""


class HostTensors:
    """What is known of the tensors of one program, and the code that makes them known."""

    objects: SSAValue
    """The caller's arguments."""

    def __init__(self, frame: Frame):
        self.frame = frame
        self.buffers: dict[SSAValue, Buffer] = {}

    def data(self, value: SSAValue) -> SSAValue:
        """The address of a tensor's first element."""
        return self._data(self.buffers[value])

    def _data(self, buffer: Buffer) -> SSAValue:
        if buffer.data is None:
            assert buffer.base is not None
            start = self._data(buffer.base)
            offset = self.frame.b.index_mul(self.frame.value(buffer.offset), itemsize(buffer.type.dtype))
            buffer.data = self.frame.b.gep(start, offset, i8)
        return buffer.data

    def handle(self, value: SSAValue) -> SSAValue:
        """The at::Tensor*; made here where there was only memory."""
        return self.buffer_handle(self.buffers[value])

    def buffer_handle(self, buffer: Buffer) -> SSAValue:
        """The same for what is known of a tensor."""
        if buffer.handle is None:
            frame = self.frame
            layout = self.layout(buffer.type)
            if buffer.slot is not None:
                buffer.owned = frame.own()
                place = frame.owned_at(buffer.owned)
                offset, dtype = frame.number(buffer.offset), frame.i32(DTYPE_CODES[buffer.type.dtype])
                frame.checked("lamella_slot", frame.load(buffer.slot), offset, *layout, dtype, place)
            else:
                assert buffer.base is not None
                base = self.buffer_handle(buffer.base)
                buffer.owned = frame.own()
                place = frame.owned_at(buffer.owned)
                self._root(buffer).derived.append(buffer.owned)
                frame.checked("lamella_view", base, frame.number(buffer.offset), *layout, place)
            buffer.handle = frame.load(place)
        return buffer.handle

    @staticmethod
    def _root(buffer: Buffer) -> Buffer:
        while buffer.base is not None:
            buffer = buffer.base
        return buffer

    def layout(self, type: TensorType) -> tuple[SSAValue, SSAValue, SSAValue]:
        """Rank, sizes and strides as a call takes them."""
        frame = self.frame
        return frame.b.constant(type.rank, i64), frame.array(type.shape), frame.array(strides_made(type))

    def object(self, value: SSAValue) -> SSAValue:
        """A new reference to a Python object for a tensor or scalar."""
        frame, b = self.frame, self.frame.b
        if isinstance(value.type, SymType):
            return self.scalar_object(value.type)
        buffer = self.buffers[value]
        if buffer.argument is None:
            return frame.get("lamella_object", self.buffer_handle(buffer))
        found = frame.load(b.gep(self.objects, buffer.argument, PTR))
        frame.call("Py_IncRef", found)
        return found

    def scalar_object(self, type: SymType) -> SSAValue:
        frame = self.frame
        if type.dtype == "f64":
            return frame.get("PyFloat_FromDouble", frame.float(type.expr))
        if type.dtype == "i1":
            return frame.get("PyBool_FromLong", frame.condition(type.expr))
        return frame.get("PyLong_FromLongLong", frame.number(type.expr))

    def make_tensor(self, value: SSAValue, beside: int = 0, over: int | None = None) -> None:
        """The value is a new tensor of torch's allocator, or over the argument `over`."""
        frame, type = self.frame, cast(TensorType, value.type)
        buffer = self.buffers[value] = Buffer(type)
        buffer.owned = frame.own()
        place, data = self.allocate(type, buffer.owned, beside, over)
        buffer.handle, buffer.data = frame.load(place), frame.load(data)

    def allocate(
        self, type: TensorType, owned: int, beside: int = 0, over: int | None = None
    ) -> tuple[SSAValue, SSAValue]:
        """The places of a new tensor and of the address of its data."""
        frame = self.frame
        place, data = frame.owned_at(owned), frame.words(1)
        dtype = frame.i32(DTYPE_CODES[type.dtype])
        if (gpu := gpu_index(type)) is None:
            size, others = frame.number(storage_bytes(type)), frame.b.constant(beside, i64)
            made = (*self.layout(type), dtype, size, others, place, data)
            if over is None:
                frame.checked("lamella_empty", *made)
            else:
                object = frame.load(frame.b.gep(self.objects, over, PTR))
                frame.checked("lamella_empty_over", object, *made)
        else:
            frame.checked("lamella_cuda_empty", *self.layout(type), dtype, frame.i32(gpu), place, data)
        return place, data
