"""The Triton functions of a module as sources for Triton's compiler."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from xdsl.dialects.builtin import IntegerAttr, ModuleOp, StringAttr

from ..dialects.tt import FuncOp
from ..dialects.tt_text import OURS, kernel_text
from ..dialects.tt_versions import OLDEST, TritonVersion, version_of
from ..lowering.host_devices import GRID
from ..lowering.kernel_to_tt import ANYWHERE
from .cuda_driver import compiler
from .triton_compile import CompiledKernel, KernelSource, begin_kernels, processors, triton_version
from .triton_workers import WORKERS

Kernels = Callable[[], dict[str, CompiledKernel]]


def kernel_sources(module: ModuleOp, version: TritonVersion = OLDEST) -> list[KernelSource]:
    """A source for each kernel of `module`, in order, in the words of one version of Triton."""
    return [source for _, source in _sources(module, version)]


def _sources(module: ModuleOp, version: TritonVersion) -> list[tuple[FuncOp, KernelSource]]:
    functions = [op for op in module.ops if isinstance(op, FuncOp)]
    others = {name: f for f in functions if isinstance(name := f.attributes.get(ANYWHERE), StringAttr)}
    return [(f, _source(f, others.get(f.sym_name), version)) for f in functions if GRID in f.attributes]


def _source(kernel: FuncOp, anywhere: FuncOp | None, version: TritonVersion) -> KernelSource:
    given = {name: kernel.attributes.get(OURS + name) for name in ("warps", "stages", "registers")}
    settings: dict[str, Any] = {n: a.value.data for n, a in given.items() if isinstance(a, IntegerAttr)}
    other = "" if anywhere is None else kernel_text(anywhere, version)
    return KernelSource(kernel.sym_name.data, kernel_text(kernel, version), anywhere=other, **settings)


def expect_kernels(ops: int) -> None:
    """Kernels of so many operators are to be compiled soon: processes for that start meanwhile, and load Triton."""
    if triton_version() is not None and compiler() is begin_kernels:
        WORKERS.start(min(processors(), _MOST_AHEAD, 2 + ops // _OPS_OF_A_PROCESS))


_MOST_AHEAD = 12
_OPS_OF_A_PROCESS = 32
"""Processes that are started before it is known how many kernels there are."""


def compile_kernels_of(module: ModuleOp, capability: Callable[[int], int]) -> Kernels:
    """Starts to compile each kernel of `module` for the compute capability of its GPU. What is given waits for that,
    and gives the code by symbol.
    """
    version = triton_version()
    by_sm: dict[int, list[KernelSource]] = {}
    for op, source in _sources(module, version_of(version) if version else OLDEST):
        by_sm.setdefault(capability(device_of(op)), []).append(source)
    if not by_sm:
        return dict
    begun = [(sources, compiler()(sources, sm)) for sm, sources in by_sm.items()]
    pool = ThreadPoolExecutor(len(begun), thread_name_prefix="lamella-triton")
    futures = [(sources, pool.submit(finish)) for sources, finish in begun]
    pool.shutdown(wait=False)
    return lambda: {s.name: k for sources, f in futures for s, k in zip(sources, f.result(), strict=True)}


def take_kernels(module: ModuleOp) -> None:
    """Takes the kernels out of `module`."""
    for op in [op for op in module.ops if isinstance(op, FuncOp)]:
        op.detach()
        op.erase()


def device_of(kernel: FuncOp) -> int:
    """The GPU that a kernel runs on."""
    index = kernel.attributes.get(OURS + "device")
    return index.value.data if isinstance(index, IntegerAttr) else 0
