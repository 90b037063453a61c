"""Programs timed on the GPU in several ways, all compiled side by side, in recordings of several calls each."""

from __future__ import annotations

import logging
import statistics
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr

from ..dialects.tensor import TORCH_DTYPES, TensorType
from ..lowering.gpu_target import GpuTarget
from .cache import Cache
from .errors import CodegenError
from .triton_compile import compile_kernels
from .triton_module import kernel_sources

log = logging.getLogger("lamella")

RUNS, ROUNDS = 10, 5
"""Calls in one recording, and how often it is replayed."""

CACHES = 128 << 20
"""Bytes of arguments that the L2 cache does not hold."""

DECISIONS = "lamella.decisions"
"""The module attribute of what is told to users."""


Native = Callable[[ModuleOp], Callable[[list[Any]], Any]]
"""What makes a callable of a lowered program."""


@dataclass(frozen=True)
class Way:
    """A program that is to be measured, lowered; `kind` and `tile` of what is tried in it, empty where nothing is."""

    kind: str
    tile: str
    module: ModuleOp


Tell = Callable[[str, int, int], None]


@contextmanager
def progress() -> Generator[Tell]:
    """A bar on a terminal for each thing that is told."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bars:
        tasks: dict[str, Any] = {}

        def tell(what: str, done: int, of: int) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(what, total=of)
            bars.update(tasks[what], completed=done)

        yield tell


def note(module: ModuleOp, told: Sequence[str]) -> None:
    """Add to what is told to users of a module."""
    before = module.attributes.get(DECISIONS)
    kept = list(before.data) if isinstance(before, ArrayAttr) else []
    module.attributes[DECISIONS] = ArrayAttr([*kept, *map(StringAttr, told)])


def compile_ways(ways: Sequence[Way], gpu: GpuTarget, cache: Cache, tell: Tell | None) -> None:
    """Have the kernels of all ways compiled side by side. One that Triton does not compile is found out when it is to
    run.
    """
    sources = [s for way in ways for s in kernel_sources(way.module)]
    with suppress(CodegenError):
        compile_kernels(
            sources, gpu.sm, cache=cache, progress=lambda done, of, _: tell and tell("kernels compiled", done, of)
        )


def times_of(types: Sequence[TensorType], ways: Sequence[Way], native: Native) -> dict[str, float]:
    """Microseconds of the ways that work, by their tiles; none where there is no memory for their arguments."""
    times: dict[str, float] = {}
    try:
        sets = _arguments(types)
        for way in ways:
            with suppress(CodegenError):
                times[way.tile] = microseconds(native(way.module), sets)
    except RuntimeError as error:  # there is no memory for it, or what is launched does not fit
        log.info("a program is not measured: %s", error)
        return {}
    return times


def _arguments(types: Sequence[TensorType]) -> list[list[Any]]:
    """Arguments, as often as it takes for the L2 cache to be of no use."""
    import torch

    def make(t: TensorType) -> Any:
        dtype = getattr(torch, TORCH_DTYPES[t.dtype])
        x = torch.empty_strided([int(n) for n in t.shape], [int(n) for n in t.strides], dtype=dtype, device=t.device)
        if not x.is_floating_point() or x.element_size() == 1:
            return x.zero_()
        return x.normal_(generator=torch.Generator(x.device))  # the program's own is left as it is

    first = [make(t) for t in types]
    size = sum(x.nbytes for x in first)
    return [first, *([x.clone() for x in first] for _ in range(min(RUNS - 1, CACHES // max(size, 1))))]


def microseconds(graph: Callable[[list[Any]], Any], sets: Sequence[list[Any]]) -> float:
    """Of one call, from recordings of several; the median."""
    import torch

    graph(list(sets[0]))
    torch.cuda.synchronize()
    recording = torch.cuda.CUDAGraph()
    with torch.cuda.graph(recording):
        for i in range(RUNS):
            graph(list(sets[i % len(sets)]))
    times: list[float] = []
    for _ in range(ROUNDS + 1):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        recording.replay()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) * 1e3 / RUNS)
    return statistics.median(times[1:])
