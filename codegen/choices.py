"""What can be done in several ways is done as measurements say, made now or remembered."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..lowering.pipeline import pipeline, run_passes
from .native import native

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from ..lowering.gpu_target import GpuTarget
    from ..lowering.options import Options
    from ..lowering.target import CpuTarget
    from .runtime import NativeGraph


@dataclass(frozen=True)
class Ways:
    """Compiles what is to be timed on a GPU."""

    options: Options
    target: CpuTarget
    gpu: GpuTarget

    def lower(self, module: ModuleOp, *, products: str, candidate: int) -> None:
        options = replace(self.options, products=products)
        run_passes(module, pipeline(options, self.target, self.gpu, candidate), verify=options.verify)

    def tile(self, module: ModuleOp, *, variant: str) -> None:
        """From kernels that have no tiles yet."""
        passes = pipeline(self.options, self.target, self.gpu, variant=variant)
        run_passes(module, passes[passes.index("loop-tile") :], verify=self.options.verify)

    def native(self, module: ModuleOp) -> NativeGraph:
        return native(module, self.target, self.gpu)


def remember_kernels(module: ModuleOp, options: Options, target: CpuTarget, gpu: GpuTarget) -> None:
    """What measurements say of the tiles of kernels with loops; `autotune` makes those that lack."""
    from .cache import default_cache
    from .cuda_target import has_gpu
    from .tune_gpu import progress
    from .tune_kernels import tune_kernels

    ways, cache = Ways(options, target, gpu), default_cache()
    if not (options.autotune and has_gpu()):
        tune_kernels(module, gpu, ways, cache, measure=False)
        return
    with progress() as tell:
        tune_kernels(module, gpu, ways, cache, tell=tell)


def remember_products(module: ModuleOp, options: Options, target: CpuTarget, gpu: GpuTarget | None) -> None:
    """What measurements say of the products of a module becomes its attributes; `autotune` makes those that lack."""
    from .cache import default_cache

    if gpu is None:
        from .measure_products import recall

        if not options.autotune:
            recall(module, target, default_cache())
            return

        def build(program: ModuleOp, products: str) -> NativeGraph:
            run_passes(program, pipeline(replace(options, products=products), target), verify=options.verify)
            return native(program, target)

        from .tune_gpu import progress

        with progress() as tell:
            recall(module, target, default_cache(), build, tell)
        return
    from .cuda_target import has_gpu
    from .tune_gpu import progress
    from .tune_products import tune

    ways, cache = Ways(options, target, gpu), default_cache()
    if not (options.autotune and has_gpu()):
        tune(module, gpu, ways, cache, measure=False)
        return
    with progress() as tell:
        tune(module, gpu, ways, cache, tell=tell)
