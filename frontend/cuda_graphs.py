"""Compiled graphs recorded as CUDA graphs and replayed: one call of the driver in place of one per kernel.

The first call with given sizes runs as it is, the second is recorded, and later ones are replayed. Inputs that are
where they were in the call before are read there; others are copied to where the recording reads them, and one that
moves later is such from then on. Outputs are copied out, so that nothing of a recording reaches the caller, and all
recordings of a device share one pool of memory.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Protocol

import torch
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from ..dialects import expr
from ..dialects.aten import AtenOp
from ..dialects.tensor import SymType, TensorType
from ..lowering.origins import Call

log = logging.getLogger("lamella")
_torch: Any = torch

MOST = 16
"""Recordings of one graph, for as many combinations of sizes."""

_WAITING = frozenset(
    {"aten._local_scalar_dense", "aten.item", "aten.is_nonzero", "aten.equal", "aten.nonzero", "aten.masked_select"}
    | {"aten.repeat_interleave.Tensor", "aten.bincount", "aten.histc", "aten._linalg_check_errors"}
)
"""Operators that wait for the GPU, to read what it has computed."""

Run = Callable[[list[Any]], Sequence[Any]]


class Unrecordable(Exception):
    """Why a graph cannot be recorded."""


class Recorder(Protocol):
    """Records what `run` launches on one GPU."""

    def record(self, run: Callable[[], Sequence[Any]]) -> tuple[Callable[[], None], Sequence[Any]]:
        """A function that does it again, and the results, which are written anew each time. Raises RuntimeError."""
        ...

    def ready(self) -> bool:
        """Whether a call may be replayed on the stream that is current; earlier ones are waited for if need be."""
        ...


class CudaRecorder:
    """The recorder of one GPU."""

    def __init__(self, device: int) -> None:
        self.device = device
        self.pool = torch.cuda.graph_pool_handle()
        self.side = torch.cuda.Stream(device)
        self.last: int | None = None
        """The stream of the last replay."""

    def record(self, run: Callable[[], Sequence[Any]]) -> tuple[Callable[[], None], Sequence[Any]]:
        graph = torch.cuda.CUDAGraph()
        with (
            torch.cuda.device(self.device),
            torch.cuda.graph(graph, pool=self.pool, stream=self.side, capture_error_mode="thread_local"),
        ):
            results = run()
        return graph.replay, results

    def ready(self) -> bool:
        if torch.cuda.is_current_stream_capturing():
            return False
        stream = torch._C._cuda_getCurrentRawStream(self.device)
        if stream != self.last:
            if self.last is not None:
                torch.cuda.synchronize(self.device)
            self.last = stream
        return True


@cache
def recorder_of(device: int) -> CudaRecorder:
    """The one recorder of a GPU: recordings of all graphs share its memory."""
    return CudaRecorder(device)


_lock = threading.Lock()
"""Held while a replay and its copies are put into the stream: recordings share memory."""


@dataclass
class Recording:
    """One recorded call."""

    replay: Callable[[], None]
    results: Sequence[torch.Tensor]
    fixed: dict[int, int]
    """Inputs that are read where they are, with their addresses."""
    buffers: dict[int, torch.Tensor]
    """What the others are copied to."""

    def moved(self, inputs: Sequence[Any]) -> list[int]:
        """Inputs that are not where they were."""
        return [i for i, address in self.fixed.items() if inputs[i].data_ptr() != address]

    def run(self, inputs: Sequence[Any]) -> tuple[torch.Tensor, ...]:
        if self.buffers:
            _torch._foreach_copy_(list(self.buffers.values()), [inputs[i] for i in self.buffers])
        self.replay()
        return tuple(t.clone() for t in self.results)


@dataclass
class _Sizes:
    """What is known of the calls with some sizes."""

    addresses: dict[int, int] = field(default_factory=dict[int, int])
    """Of the tensors of the last call."""
    copied: set[int] = field(default_factory=set[int])
    recording: Recording | None = None
    reason: str = ""
    """Why there is none."""


class GraphedCall:
    """`run`, a compiled graph on one GPU, recorded and replayed; picklable without the recordings.

    `varying` are the inputs whose sizes (or values, for numbers) may differ between calls, `written` those that the
    graph writes.
    """

    def __init__(self, run: Run, device: int, varying: Sequence[int], written: Sequence[int]) -> None:
        self.graph = run
        self.device = device
        self.varying = tuple(varying)
        self.written = frozenset(written)
        self.sizes: dict[Hashable, _Sizes] = {}

    def __getstate__(self) -> tuple[Any, ...]:
        return self.graph, self.device, self.varying, self.written

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.__init__(*state)

    def __call__(self, inputs: list[Any]) -> Sequence[Any]:
        known = self._known(inputs)
        if known is not None and not known.reason:
            with _lock, torch.no_grad():
                recording = self._recording(known, inputs)
                results = None if recording is None else recording.run(inputs)
            if results is not None:
                inputs.clear()
                return results
        return self.graph(inputs)

    def _recording(self, known: _Sizes, inputs: Sequence[Any]) -> Recording | None:
        """The recording to replay, made now if it is time; None where the call runs as it is."""
        recorder = self.recorder()
        if not recorder.ready():
            return None
        if known.recording is not None:
            if not (moved := known.recording.moved(inputs)):
                return known.recording
            known.copied.update(moved)
            known.recording = None
        elif not known.addresses:
            known.addresses = _addresses(inputs)
            return None
        try:
            known.recording = self._record(recorder, known, inputs)
        except (Unrecordable, RuntimeError) as error:
            known.reason = str(error).partition("\n")[0]
            log.info("a graph is not recorded as a CUDA graph: %s", known.reason)
        return known.recording

    def recorder(self) -> Recorder:
        return recorder_of(self.device)

    def _known(self, inputs: Sequence[Any]) -> _Sizes | None:
        values = (inputs[i] for i in self.varying)
        key = tuple((v.shape, v.stride()) if isinstance(v, torch.Tensor) else v for v in values)
        found = self.sizes.get(key)
        if found is None and len(self.sizes) < MOST:
            found = self.sizes[key] = _Sizes()
        return found

    def _record(self, recorder: Recorder, known: _Sizes, inputs: Sequence[Any]) -> Recording:
        addresses = _addresses(inputs)
        fixed = {i: a for i, a in addresses.items() if known.addresses.get(i) == a and i not in known.copied}
        if copied := self.written - fixed.keys():
            raise Unrecordable(f"input {min(copied)}, which it writes, is another tensor each time")
        moving = {i: inputs[i] for i in addresses if i not in fixed}
        with torch.inference_mode(False):
            buffers = {
                i: torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device=t.device) for i, t in moving.items()
            }
        for i, buffer in buffers.items():
            buffer.copy_(inputs[i])  # an error where elements share memory
        given = [buffers.get(i, value) for i, value in enumerate(inputs)]
        replay, results = recorder.record(lambda: self.graph(list(given)))
        _check_results(results, given)
        return Recording(replay, results, fixed, buffers)


def _addresses(inputs: Sequence[Any]) -> dict[int, int]:
    return {i: v.data_ptr() for i, v in enumerate(inputs) if isinstance(v, torch.Tensor)}


def _check_results(results: Sequence[Any], given: Sequence[Any]) -> None:
    """That copies can stand for the results: tensors of their own."""
    known = {_storage(v) for v in given if isinstance(v, torch.Tensor) and v.numel()}
    for t in results:
        if not isinstance(t, torch.Tensor):
            raise Unrecordable("a result is a number")
        if not t.numel():
            continue
        if _storage(t) in known:
            raise Unrecordable("a result shares memory with an input or another result")
        known.add(_storage(t))
        if t.clone().stride() != t.stride():
            raise Unrecordable("a result has gaps between its elements")


def _storage(t: torch.Tensor) -> int:
    return t.untyped_storage().data_ptr()


@dataclass(frozen=True)
class Arguments:
    """What a recording must know of a module's arguments: see GraphedCall."""

    device: int
    varying: tuple[int, ...]
    written: tuple[int, ...]

    @staticmethod
    def of(module: ModuleOp, devices: Collection[str]) -> Arguments:
        """Those of a module with tensors on `devices`. Raises Unrecordable."""
        device = next(iter(devices), "cpu")
        if len(devices) != 1 or not device.startswith("cuda"):
            raise Unrecordable("it has tensors of the CPU or of several GPUs")
        (function,) = (op for op in module.ops if isinstance(op, FuncOp))
        if drawing := [op.name for op in function.body.block.ops if _is_random(op)]:
            raise Unrecordable(f"{drawing[0]} draws from torch's generator, which a replay would not")
        attributes = function.arg_attrs.data if function.arg_attrs is not None else ()
        written = (i for i, a in enumerate(attributes) if "lamella.mutated" in a.data)
        varying = (i for i, a in enumerate(function.body.block.args) if _varies(a.type))
        return Arguments(int(device.partition(":")[2] or 0), tuple(varying), tuple(written))


def graphed(run: Run, arguments: Arguments, calls: Iterable[Call]) -> GraphedCall:
    """`run`, which makes `calls`, to be recorded. Raises Unrecordable where one of them cannot be."""
    for call in calls:
        if call.name in _WAITING or "unique" in call.name or not call.name.startswith("aten."):
            raise Unrecordable(f"{call.name} may wait for the GPU, at {call.line}")
    return GraphedCall(run, arguments.device, arguments.varying, arguments.written)


def _is_random(op: Operation) -> bool:
    """Whether an operator draws random numbers; attention without dropout draws none."""
    if not isinstance(op, AtenOp) or torch.Tag.nondeterministic_seeded not in op.overload.tags:
        return False
    return not any(a.name == "dropout_p" and op.arg("dropout_p") == 0 for a in op.schema.args)


def _varies(type: Any) -> bool:
    if isinstance(type, SymType):
        return True
    return isinstance(type, TensorType) and any(expr.symbols(d) for d in (*type.shape, *type.strides))
