"""Machine code and the callable around it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from ..lowering.gpu_target import GpuTarget
    from ..lowering.target import CpuTarget
    from .runtime import NativeGraph


def native(module: ModuleOp, target: CpuTarget, gpu: GpuTarget | None = None) -> NativeGraph:
    """Machine code and the callable around it, for a module of llvm ops and, for `gpu`, Triton's functions."""
    from . import jit
    from .read_metadata import metadata
    from .runtime import NativeGraph

    if gpu is None:
        return NativeGraph(jit.compile_module(module, target), metadata(module))
    from .cuda_target import capability_of
    from .triton_module import compile_kernels_of

    kernels = compile_kernels_of(module, partial(capability_of, gpu))  # by other processes, while LLVM is at work
    code = jit.compile_module(module, target)
    return NativeGraph(code, metadata(module, kernels()))
