"""Machine code and the callable around it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from ..lowering.gpu_target import GpuTarget
    from ..lowering.target import CpuTarget
    from .llvm_ahead import Ahead
    from .runtime import NativeGraph
    from .triton_module import Kernels


def machines(target: CpuTarget, gpu: GpuTarget | None) -> list[str]:
    """What code depends on beside the program, for keys of the cache."""
    if gpu is None:
        return [target.key]
    from .cuda_target import code_key

    return [target.key, code_key(gpu)]


def started(module: ModuleOp, gpu: GpuTarget) -> Kernels:
    """Has other processes compile the kernels of a module with Triton's functions."""
    from .cuda_target import capability_of
    from .triton_module import compile_kernels_of

    return compile_kernels_of(module, partial(capability_of, gpu))


def native(
    module: ModuleOp,
    target: CpuTarget,
    gpu: GpuTarget | None = None,
    kernels: Kernels | None = None,
    ahead: Ahead | None = None,
) -> NativeGraph:
    """Machine code and the callable around it, for a module of llvm ops and, for `gpu`, Triton's functions, of which
    `kernels` is what is `started`; `ahead` has what LLVM has been given of the module before.
    """
    from .llvm_ahead import Ahead
    from .read_metadata import metadata
    from .runtime import NativeGraph

    with ahead or Ahead(target) as code:
        if gpu is None:
            return NativeGraph(code.finish(module), metadata(module))
        from .triton_module import take_kernels

        kernels = kernels or started(module, gpu)  # while LLVM is at work
        take_kernels(module)
        made = code.finish(module)
        return NativeGraph(made, metadata(module, kernels()))
