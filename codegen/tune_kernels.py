"""Kernels with loops timed on the GPU, each alone, with several tiles: the fastest is remembered.

What is found is kept on disk by the text of the kernel, the GPU and the versions of compiler and Triton, and given to
`loop-tile` as the module's attribute `lamella.tiles`.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any, Protocol, cast

from xdsl.dialects.builtin import DictionaryAttr, FunctionType, ModuleOp, StringAttr
from xdsl.ir import Block

from ..dialects import host
from ..dialects.loop import IndexAttr, KernelOp
from ..dialects.tensor import TensorType
from ..lowering.gpu_target import GpuTarget
from ..lowering.host_devices import on_gpu
from ..lowering.loop_tile import TILES
from ..lowering.tile_variants import VARIANTS, kind_of
from .cache import Cache, cache_key, compiler_version
from .cuda_target import code_key
from .triton_compile import KernelSource
from .triton_module import kernel_sources
from .tune_gpu import Tell, Way, compile_ways, note, times_of

GAIN = 1.02
"""How much faster than the default another tile must be."""

FORMAT = "kernel 1"
"""Changes with what is measured and kept."""


class Compiler(Protocol):
    """What the driver lends: passes from kernels without tiles down, and from there to a callable."""

    def tile(self, module: ModuleOp, *, variant: str) -> None: ...

    def native(self, module: ModuleOp) -> Callable[[list[Any]], Any]: ...


def tune_kernels(
    module: ModuleOp,
    gpu: GpuTarget,
    compiler: Compiler,
    cache: Cache,
    *,
    measure: bool = True,
    tell: Tell | None = None,
) -> dict[str, dict[str, float]]:
    """Look up the kernels of a module on the GPU, measure those that are not known if `measure`, and set the module's
    attribute; microseconds by tile for each kind of kernel that is known.
    """
    machine = (compiler_version(), code_key(gpu), FORMAT)
    any_key = cache_key("kernels", *machine)
    if not measure and cache.get("tiles", any_key) is None:
        return {}  # nothing has ever been measured here
    kernels = [k for k in module.ops if isinstance(k, KernelOp) and on_gpu(k)]
    known: dict[str, dict[str, float]] = {}
    missing: dict[str, tuple[str, KernelOp]] = {}
    for kernel in kernels:
        kind = kind_of(kernel)
        if not kind or kind in known or kind in missing:
            continue
        key = cache_key(kind.split()[-1], *machine)
        if (data := cache.get("tiles", key)) is not None:
            known[kind] = pickle.loads(data)
        elif measure:
            missing[kind] = key, kernel
    ways = {kind: _ways(kernel, kind, compiler) for kind, (_, kernel) in missing.items()}
    ways = {kind: several for kind, several in ways.items() if len(several) > 1}
    if ways:
        compile_ways([way for several in ways.values() for way in several], gpu, cache, tell)
    for i, (kind, several) in enumerate(ways.items()):
        key, kernel = missing[kind]
        times = times_of(_inputs(kernel), several, compiler.native)
        if "default" in times:
            known[kind] = times
            cache.put("tiles", key, pickle.dumps(times))
            cache.put("tiles", any_key, b"some")
        if tell:
            tell("kernels measured", i + 1, len(ways))
    _write(module, known)
    return known


def best(times: dict[str, float]) -> str:
    """The fastest tile; the default where that is hardly slower."""
    fastest = min(times, key=lambda name: times[name])
    return fastest if times[fastest] * GAIN <= times["default"] else "default"


def _write(module: ModuleOp, known: dict[str, dict[str, float]]) -> None:
    chosen = {kind: name for kind, times in known.items() if (name := best(times)) != "default"}
    if chosen:
        before = module.attributes.get(TILES)
        others = dict(before.data) if isinstance(before, DictionaryAttr) else {}
        module.attributes[TILES] = DictionaryAttr(others | {k: StringAttr(v) for k, v in chosen.items()})
    if known:
        lines = [
            f"{kind}: {', '.join(f'{n} {t:.1f} us' for n, t in sorted(times.items(), key=lambda i: i[1]))}"
            for kind, times in known.items()
        ]
        note(module, lines)


def _inputs(kernel: KernelOp) -> list[TensorType]:
    return [cast(TensorType, a.type) for a in kernel.ins]


def program_of(kernel: KernelOp) -> ModuleOp:
    """A program that launches a kernel once, on its arguments and fresh results."""
    copy = kernel.clone()
    copy.attributes = {k: a for k, a in copy.attributes.items() if not k.startswith("lamella.")}
    block = Block(arg_types=_inputs(kernel))
    empties = [host.EmptyOp.create(result_types=[a.type]) for a in kernel.outs]
    outs = [o.res for o in empties]
    block.add_ops([*empties, host.LaunchOp.make(kernel.sym_name.data, list(block.args), outs, IndexAttr.get([]))])
    block.add_op(host.ReturnOp.create(operands=outs))
    type = FunctionType.from_lists(_inputs(kernel), [v.type for v in outs])
    return ModuleOp([copy, host.FuncOp.make("main", type, block)])


def _ways(kernel: KernelOp, kind: str, compiler: Compiler) -> list[Way]:
    """The kernel with each tile that makes a difference, the default first."""
    ways: list[Way] = []
    seen: set[tuple[KernelSource, ...]] = set()
    for name in VARIANTS:
        program = program_of(kernel)
        compiler.tile(program, variant=name)
        sources = tuple(kernel_sources(program))
        if sources not in seen:
            seen.add(sources)
            ways.append(Way(kind, name, program))
    return ways
