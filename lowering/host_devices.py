"""GPUs in a host program: the one that is current, torch's stream of each, memory, and launches of kernels.

A kernel is a symbol `@name.kernel`, whose address is that of a record (codegen/cuda_runtime.py) made when the code is
loaded. Its arguments are in words of the frame, used by every launch: the driver has copied them when it returns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects.builtin import ArrayAttr, FunctionType, IntegerAttr, IntegerType, ModuleOp, StringAttr, i64
from xdsl.ir import Attribute, Operation, SSAValue

from ..dialects import expr, host
from ..dialects.aten import AtenOp
from ..dialects.errors import LamellaError
from ..dialects.llvm_ext import PTR
from ..dialects.loop import KernelOp
from ..dialects.loop_attrs import IndexAttr
from ..dialects.tensor import PACKED, TensorType

if TYPE_CHECKING:
    from .host_frame import Frame

GRID, SIZES = "lamella.grid", "lamella.sizes"
"""Attributes of a GPU's kernel: its number of programs along up to three axes, in terms of its sizes; and these."""

SEGMENTS = "lamella.segments"
"""The attribute of a function for several launches at once (tt_segments): how many."""

PLACES = "lamella.places"
"""The attribute of such a function that says where each buffer's address is (`Segments`)."""

SCRATCH_POINTERS = 2
"""Arguments that Triton adds to those of a kernel."""


@dataclass(frozen=True)
class Segments:
    """A function for several launches of a kernel (tt_segments).

    `places`: for each buffer of the kernel which of a launch's own addresses it is, or -1 - i for the common one i.
    """

    count: int
    places: tuple[int, ...]

    @property
    def own(self) -> int:
        return max(self.places) + 1

    @property
    def common(self) -> int:
        return -min(0, *self.places)

    def buffer(self, place: int) -> int:
        """The first buffer at a place."""
        return self.places.index(place)


def gpu_index(type: TensorType) -> int | None:
    """The number of the GPU that a tensor lies on, None for the CPU. LamellaError for another kind of device."""
    kind, _, index = type.device.partition(":")
    if kind in ("cpu", PACKED):
        return None
    if kind != "cuda":
        raise LamellaError(f"host programs use the CPU and NVIDIA GPUs, they cannot take {type.data.text}")
    return int(index or 0)


def may_be_elsewhere(argument: SSAValue) -> bool:
    """Whether an argument is the state of a random generator that only calls see: those of attention leave it on the
    CPU, though torch's tracing says that it is on the GPU.
    """
    t = argument.type
    if not isinstance(t, TensorType) or t.rank > 1 or t.dtype not in ("i64", "u64") or gpu_index(t) is None:
        return False
    return all(isinstance(use.operation, (AtenOp, *_UNTOUCHING)) for use in argument.uses)


_UNTOUCHING = (host.CheckOp, host.DropOp, host.ReturnOp)


def on_gpu(kernel: KernelOp) -> bool:
    """Whether a kernel is for a GPU: where its results are, or what it checks if it has none."""
    buffers = kernel.body.block.args
    return bool(buffers) and gpu_index(cast(TensorType, buffers[-1].type)) is not None


class GpuKernels:
    """The kernels of a module that run on GPUs."""

    def __init__(self, module: ModuleOp) -> None:
        self.grids: dict[str, tuple[IndexAttr, IndexAttr]] = {}
        self.bits: dict[str, tuple[int, ...]] = {}
        """Of each function, how many bits its numbers have, in order."""
        self.segments: dict[str, Segments] = {}
        """Those that have a function for several launches at once."""
        for op in module.ops:
            if GRID in op.attributes:
                name = cast(StringAttr, op.properties["sym_name"]).data
                types = cast(FunctionType, op.properties["function_type"]).inputs.data
                self.bits[name] = tuple(t.width.data for t in types if isinstance(t, IntegerType))
                if isinstance(several := op.attributes.get(SEGMENTS), IntegerAttr):
                    name = name.removesuffix("_together")
                    places = (cast("IntegerAttr[Any]", n) for n in cast(ArrayAttr[Any], op.attributes[PLACES]))
                    self.segments[name] = Segments(several.value.data, tuple(n.value.data for n in places))
                self.grids[name] = cast(Any, (op.attributes[GRID], op.attributes[SIZES]))

    def __contains__(self, name: str) -> bool:
        return name in self.grids

    def programs(self, launch: host.LaunchOp) -> list[Any]:
        """How many programs a launch has along x, y and z."""
        grid, names = self.grids[launch.callee]
        values = dict(zip(names, launch.sizes, strict=True))
        return [*(expr.substitute(e, values) for e in grid), 1, 1][:3]


class Gpus:
    """The GPUs that one host program launches kernels on."""

    def __init__(self, frame: Frame, kernels: GpuKernels, ops: Iterable[Operation]) -> None:
        self.frame = frame
        self.kernels = kernels
        launches = [op for op in host.launches(ops) if op.callee in kernels]
        self.devices = list(dict.fromkeys(launch_device(op) for op in launches))
        self.used: dict[str, tuple[int, int, tuple[int, ...]]] = {}
        """The functions, each with its GPU, the number of its buffers, and how many bits its numbers have."""
        self.places = SCRATCH_POINTERS
        """Arguments that a launch has at most."""
        for op in launches:
            name, several = self._function(op)
            buffers, numbers = len(op.operands), len(op.sizes)
            if several is not None:
                buffers = several.count * several.own + several.common
                numbers = several.count * (numbers + 1)
            self.used[name] = (launch_device(op), buffers, kernels.bits[name])
            self.places = max(self.places, buffers + numbers + SCRATCH_POINTERS)
        self.streams: dict[int, SSAValue] = {}
        self.current: int | None = None

    def enter(self) -> None:
        """Makes the first GPU current and asks torch for the streams. An error leaves with what has been made."""
        if not self.devices:
            return
        frame, b = self.frame, self.frame.b
        self.guard, self.values, self.arguments = frame.words(1), frame.words(self.places), frame.words(self.places)
        frame.store(frame.null, self.guard)
        for i in range(self.places):
            frame.store(b.gep(self.values, i, i64), b.gep(self.arguments, i, PTR))
        for device in reversed(self.devices):
            stream = frame.words(1)
            frame.checked("lamella_cuda_enter", frame.i32(device), self.guard, stream)
            self.streams[device] = frame.load(stream)
        self.current = self.devices[0]

    def leave(self) -> None:
        """Makes that GPU current that was."""
        if self.devices:
            self.frame.call("lamella_cuda_leave", self.guard)

    def use(self, device: int | None) -> None:
        """Makes that GPU current."""
        if device is not None and device != self.current:
            self.frame.checked("lamella_cuda_use", self.frame.i32(device), self.guard)
            self.current = device

    def _function(self, op: host.LaunchOp) -> tuple[str, Segments | None]:
        """The function that a launch takes, and how it takes several."""
        if isinstance(op.parent_op(), host.TogetherOp) and (found := self.kernels.segments.get(op.callee)):
            return f"{op.callee}_together", found
        return op.callee, None

    def launch(self, op: host.LaunchOp, data: Sequence[SSAValue]) -> None:
        """Launches the kernel on its buffers, which lie at `data`."""
        frame = self.frame
        programs = [frame.number(e) for e in self.kernels.programs(op)]
        self._launch(op.callee, launch_device(op), [*data, *map(frame.number, op.sizes)], programs)

    def together(self, launches: Sequence[host.LaunchOp], data: Callable[[SSAValue], SSAValue]) -> None:
        """Launches kernels that need nothing of each other: as many of one at once as its function takes."""
        by_name: dict[str, list[host.LaunchOp]] = {}
        for op in launches:
            by_name.setdefault(op.callee, []).append(op)
        for same in by_name.values():
            name, several = self._function(same[0])
            if several is None:
                for op in same:
                    self.launch(op, [data(v) for v in op.operands])
                continue
            for i in range(0, len(same), several.count):
                self._launch_segments(name, several, same[i : i + several.count], data)

    def _launch_segments(
        self,
        name: str,
        several: Segments,
        launches: Sequence[host.LaunchOp],
        data: Callable[[SSAValue], SSAValue],
    ) -> None:
        """At most as many launches at once. Those that are missing come after the last program."""
        frame, b, n = self.frame, self.frame.b, several.count
        total = b.constant(0, i64)
        first: list[SSAValue] = []
        for op in launches:
            first.append(total)
            total = b.add(total, frame.number(self.kernels.programs(op)[0]))
        filled = [*launches, *[launches[-1]] * (n - len(launches))]
        buffers = [data(op.operands[several.buffer(i)]) for op in filled for i in range(several.own)]
        buffers += [data(launches[0].operands[several.buffer(-1 - i)]) for i in range(several.common)]
        sizes = [frame.number(e) for op in filled for e in op.sizes]
        first += [total] * (n - len(launches))
        one = b.constant(1, i64)
        self._launch(name, launch_device(launches[0]), [*buffers, *sizes, *first], [total, one, one])

    def _launch(self, name: str, device: int, operands: Sequence[SSAValue], programs: Sequence[SSAValue]) -> None:
        frame, b = self.frame, self.frame.b
        self.use(device)
        for i, value in enumerate(operands):
            frame.store(value, b.gep(self.values, i, i64))
        kernel, count = frame.external(f"{name}.kernel"), b.constant(len(operands), i64)
        frame.checked("lamella_cuda_launch", kernel, self.streams[device], self.arguments, count, *programs)

    def table(self, earlier: Sequence[Attribute] = ()) -> list[Attribute]:
        """Of each function in turn, its name, its GPU, the number of its buffers, and the bits of its numbers; after
        those of programs that are written already.
        """
        found = list(earlier)
        for name, (device, buffers, bits) in self.used.items():
            if StringAttr(name) in earlier:
                continue
            numbers = ArrayAttr([IntegerAttr(n, i64) for n in bits])
            found += [StringAttr(name), IntegerAttr(device, i64), IntegerAttr(buffers, i64), numbers]
        return found


def launch_device(op: host.LaunchOp) -> int:
    """The GPU of a launch: that of what it writes."""
    device = gpu_index(cast(TensorType, op.outs[0].type))
    assert device is not None
    return device
