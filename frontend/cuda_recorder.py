"""What records and replays on one GPU, and the memory in which it does.

Recordings share a pool of torch's allocator but for those that are to be alone. Streams, events and allocations are
torch's own: `torch.cuda.CUDAGraph` does the work.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any, Protocol

import torch

from .cuda_sharing import Parts, Sharing
from .cuda_steps import left

Run = Callable[[list[Any]], Sequence[Any]]

_torch: Any = torch
_c: Any = torch._C


class Recorder(Protocol):
    """Records what graphs launch on one GPU."""

    tell_next: Callable[[bool], None] | None
    """What the next call, of any graph, is to tell whether it finds the GPU idle."""

    def record(
        self, run: Run, inputs: list[Any], own: bool, asked: bool
    ) -> tuple[Callable[[], None], Sequence[Any], int]:
        """A function that does again what `run` does with these inputs, which it drops; the results, which are written
        anew each time, and with `own` by nothing else; and the bytes of memory that stay taken for it. Where nobody has
        `asked` for it, it has no workspaces of its own. Raises RuntimeError.
        """
        ...

    @property
    def keeper(self) -> Any:
        """What keeps the memory that recordings share, whatever is there."""
        ...

    @property
    def sharing(self) -> Sharing:
        """What shares memory."""
        ...

    def shared(self) -> Parts:
        """The memory that recordings share."""
        ...

    def renew(self) -> None:
        """Retires all that share memory: what is recorded from now on shares other memory."""
        ...

    def apart(self) -> AbstractContextManager[Any]:
        """Within it, what is allocated lies where nothing is that stays: calls before a recording leave much free
        memory, which would be split for what the program allocates meanwhile, as the state of its optimizer.
        """
        ...

    def tidy(self) -> None:
        """Gives back memory that is free: what is recorded has other memory than the calls before it."""
        ...

    @property
    def failures(self) -> int:
        """How many recordings failed. Those before the last of them are not to be replayed."""
        ...

    def ready(self) -> bool:
        """Whether a call may be recorded or replayed: not while the caller records."""
        ...

    def order(self) -> None:
        """Lets the stream that is current wait for what was replayed before."""
        ...

    def moment(self) -> Any:
        """When the GPU comes to what it is given next on the stream that is current."""
        ...

    def past(self, moment: Any) -> bool:
        """Whether the GPU has come to it."""
        ...

    def idle(self) -> bool:
        """Whether it has done all that it was given on the stream that is current."""
        ...

    def seconds(self, began: Any, ended: Any) -> float:
        """How long it was from one moment to another, both of which are past."""
        ...

    def roomy(self) -> bool:
        """Whether much of the GPU's memory is free: what a recording has stays taken."""
        ...

    def number(self, value: torch.Tensor) -> torch.Tensor:
        """Memory of the GPU with a number of the CPU."""
        ...

    def forbid(self, storage: Any, why: str) -> None:
        """Makes reading what lies in a storage an error."""
        ...

    def reads(self, t: torch.Tensor) -> bool:
        """Whether replays read a tensor: what lies in the CPU's memory is read when they are recorded."""
        ...


class CudaRecorder:
    """The recorder of one GPU."""

    def __init__(self, device: int) -> None:
        self.device = device
        self.side = torch.cuda.Stream(device)
        self.sharing = Sharing()
        self.last: int | None = None
        """The stream of the last replay."""
        self.tell_next: Callable[[bool], None] | None = None
        self.failures = 0
        self.workspaces: Any = None
        """The memory of those of cuBLAS that stay, once there are any."""
        self.before: Any = None
        """The memory of calls before they are recorded."""
        self._begin()

    def _begin(self) -> None:
        """Begins a pool."""
        self.pool = torch.cuda.graph_pool_handle()
        self.keeper = torch.cuda.CUDAGraph()
        """Of nothing: the pool is gone with the last graph that uses it."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._capture(self.keeper, tuple, self.pool)

    def record(
        self, run: Run, inputs: list[Any], own: bool, asked: bool
    ) -> tuple[Callable[[], None], Sequence[Any], int]:
        graph = torch.cuda.CUDAGraph()
        if not asked or self.workspaces is not None:
            self._make_workspaces()
        try:
            results, taken = self._capture(graph, lambda: run(inputs), None if own else self.pool)
        except BaseException:
            self._after_failure()
            raise
        return graph.replay, results, taken

    def _make_workspaces(self) -> None:
        """cuBLAS has a workspace for each thread and stream, which is allocated when it is first used. From now on
        recordings have it in memory where nothing else is. Before, each had one among its own, which is free for others
        then where they share it, and nothing else had it.

        Others drop all workspaces, as Inductor does when it records. This memory is then for the next one alone, as
        what is recorded uses it still: else tensors, or nothing, would lie there.
        """
        if not _has_pools():
            return
        with torch.cuda.device(self.device), torch.cuda.stream(self.side):
            if self.workspaces is None:
                self.workspaces = torch.cuda.MemPool()
            a = torch.zeros(16, 16, dtype=torch.bfloat16, device="cuda")
            with torch.cuda.use_mem_pool(self.workspaces, self.device):
                torch.mm(a, a)
                torch.addmm(a[0], a, a)  # cuBLASLt's

    def _capture(self, graph: Any, run: Callable[[], Sequence[Any]], pool: Any) -> tuple[Sequence[Any], int]:
        """`torch.cuda.graph` gives back all memory that is free, so that what comes after lies elsewhere than before:
        here that is done where little is left.
        """
        with torch.cuda.device(self.device):
            torch.cuda.synchronize()
            free, total = torch.cuda.mem_get_info(self.device)
            if 4 * free < total:
                torch.cuda.empty_cache()
            self._drop_workspaces()
            with torch.cuda.stream(self.side):
                graph.capture_begin(*(() if pool is None else (pool,)), capture_error_mode="thread_local")
                try:
                    before = torch.cuda.memory_reserved(self.device)
                    results = run()
                    taken = torch.cuda.memory_reserved(self.device) - before
                finally:
                    graph.capture_end()
            self._drop_workspaces()
        return results, taken

    def _drop_workspaces(self) -> None:
        if self.workspaces is None:
            _c._cuda_clearCublasWorkspaces()

    def _after_failure(self) -> None:
        """The generator believes that it is still recorded, and refuses to draw: a copy of its state does not. What has
        been recorded knows the old one.
        """
        self.failures += 1
        generator = torch.cuda.default_generators[self.device]
        generator.graphsafe_set_state(generator.clone_state())

    def shared(self) -> Parts:
        segments = (s for s in _torch.cuda.memory_snapshot() if tuple(s["segment_pool_id"]) == tuple(self.pool))
        return sorted((s["address"], s["address"] + s["total_size"]) for s in segments)

    def renew(self) -> None:
        self.sharing.retire()
        self._begin()

    def apart(self) -> AbstractContextManager[Any]:
        if not _has_pools():
            return nullcontext()
        if self.before is None:
            with torch.cuda.device(self.device):
                self.before = torch.cuda.MemPool()
        return torch.cuda.use_mem_pool(self.before, self.device)

    def tidy(self) -> None:
        self.before = None
        left()
        torch.cuda.empty_cache()

    def ready(self) -> bool:
        return not torch.cuda.is_current_stream_capturing()

    def order(self) -> None:
        stream = torch._C._cuda_getCurrentRawStream(self.device)
        if stream == self.last:
            return
        if self.last is not None:
            before = torch.cuda.Event()
            before.record(torch.cuda.ExternalStream(self.last, self.device))
            torch.cuda.current_stream(self.device).wait_event(before)
        self.last = stream

    def moment(self) -> Any:
        event = torch.cuda.Event(enable_timing=True)
        event.record(torch.cuda.current_stream(self.device))
        return event

    def past(self, moment: Any) -> bool:
        return moment.query()

    def idle(self) -> bool:
        return torch.cuda.current_stream(self.device).query()

    def seconds(self, began: Any, ended: Any) -> float:
        return began.elapsed_time(ended) / 1e3

    def roomy(self) -> bool:
        free, total = torch.cuda.mem_get_info(self.device)
        free += torch.cuda.memory_reserved(self.device) - torch.cuda.memory_allocated(self.device)
        return 4 * free >= total

    def number(self, value: torch.Tensor) -> torch.Tensor:
        return torch.full((), value.item(), dtype=value.dtype, device=torch.device("cuda", self.device))

    def forbid(self, storage: Any, why: str) -> None:
        _c._set_storage_data_ptr_access_error_msg(storage._cdata, why)

    def reads(self, t: torch.Tensor) -> bool:
        return t.is_cuda


def _has_pools() -> bool:
    """Whether torch's allocator has pools of memory: others have none."""
    return torch.cuda.get_allocator_backend() == "native"


@cache
def recorder_of(device: int) -> CudaRecorder:
    """The one recorder of a GPU: recordings share its memory but for those that are to be alone."""
    return CudaRecorder(device)
