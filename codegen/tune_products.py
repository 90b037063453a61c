"""Products of matrices timed on the GPU: the library with kernels around it against kernels of ours, with each tile.

What is found is kept on disk, by the text of the program that was measured, the GPU and the versions of compiler and
Triton, and given to passes as attributes of a module: `lamella.products` says which products become kernels,
`lamella.tiles` with which tiles.
"""

from __future__ import annotations

import pickle
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

from xdsl.dialects.builtin import DictionaryAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp

from ..dialects.hints import size_hints
from ..dialects.tensor import TORCH_DTYPES, TensorType
from ..dialects.text import print_module
from ..lowering.aten_choose_products import MEASURED, products_in
from ..lowering.fuse_cost import Hints
from ..lowering.gpu_target import GpuTarget
from ..lowering.loop_tile import TILES
from ..lowering.product_part import part_of
from ..lowering.tile_contraction import TILED
from .cache import Cache, cache_key, compiler_version
from .cuda_target import code_key
from .triton_compile import KernelSource, compile_kernels
from .triton_module import kernel_sources

CANDIDATES = 6
"""Tiles that are tried for each product."""

RUNS, ROUNDS = 10, 5
"""Calls in one recording, and how often it is replayed."""

CACHES = 128 << 20
"""Bytes of arguments that the L2 cache does not hold."""

DEFAULT = "default"
"""The tile of a kernel that is tiled like any other."""

GAIN = 1.03
"""How much faster than the library a kernel must be."""


class Compiler(Protocol):
    """What the driver lends: passes down to Triton's functions, and from there to a callable."""

    def lower(self, module: ModuleOp, *, products: str, candidate: int) -> None: ...

    def native(self, module: ModuleOp) -> Callable[[list[Any]], Any]: ...


@dataclass(frozen=True)
class Result:
    """Microseconds of a call: with the library, and with each tile of the kernel of the given kind."""

    library: float
    kind: str
    tiles: dict[str, float]

    @property
    def best(self) -> str:
        return min(self.tiles, key=lambda t: self.tiles[t], default="")

    @property
    def choice(self) -> str:
        """`generated 10.1 us, ATen 12.3 us`: the one that is to be taken first."""
        if not self.tiles:
            return f"ATen {self.library:.1f} us"
        ours = self.tiles[self.best]
        times = [f"generated {ours:.1f} us", f"ATen {self.library:.1f} us"]
        return ", ".join(times if ours * GAIN <= self.library else times[::-1])


@dataclass
class _Part:
    """A program that is to be measured, lowered in each way: the library's first."""

    key: str
    kinds: set[str]
    types: list[TensorType]
    ways: list[tuple[str, str, ModuleOp]]


def tune(
    module: ModuleOp,
    gpu: GpuTarget,
    compiler: Compiler,
    cache: Cache,
    tell: Callable[[str, int, int], None] = lambda what, done, of: None,
) -> dict[str, Result]:
    """Measure the products of an aten module on GPUs that have not been measured before, and set its attributes; what
    is known of each kind of product. `tell(what, done, of)` hears of the progress.
    """
    hints = Hints(size_hints(module))
    found: dict[str, Result] = {}
    missing: dict[str, _Part] = {}
    for p in products_in(module):
        part = part_of(p) if p.device.startswith("cuda") and p.is_static else None
        if part is None:
            continue
        key = cache_key(print_module(part), compiler_version(), code_key(gpu), "product")
        kind = p.kind(hints.size)
        data = cache.get("product", key)
        if data is not None:
            found[kind] = pickle.loads(data)
        elif key in missing:
            missing[key].kinds.add(kind)
        elif kind not in found:
            missing[key] = _lowered(part, key, kind, compiler)
    parts = list(missing.values())
    sources = [s for part in parts for _, _, m in part.ways for s in kernel_sources(m)]
    if parts:
        _compile(sources, gpu, cache, lambda done, of, name: tell("kernels of products compiled", done, of))
    for i, part in enumerate(parts):
        result = _measured(part, compiler)
        cache.put("product", part.key, pickle.dumps(result))
        found |= dict.fromkeys(part.kinds, result)
        tell("products measured", i + 1, len(parts))
    if found:
        module.attributes[MEASURED] = DictionaryAttr({k: StringAttr(r.choice) for k, r in found.items()})
        tiles = {r.kind: StringAttr(r.best) for r in found.values() if r.tiles and r.best != DEFAULT}
        module.attributes[TILES] = DictionaryAttr(tiles)
    return found


def _lowered(part: ModuleOp, key: str, kind: str, compiler: Compiler) -> _Part:
    (main,) = [o for o in part.ops if isinstance(o, FuncOp)]
    types: Any = [a.type for a in main.body.block.args]
    called = part.clone()
    compiler.lower(called, products="none", candidate=0)
    ways = [("", "", called)]
    for i in range(CANDIDATES):
        copy = part.clone()
        compiler.lower(copy, products="all", candidate=i)
        product, tile = tiled(copy) or ("", DEFAULT)
        if (product, tile) in [way[:2] for way in ways]:
            break
        ways.append((product, tile, copy))
    return _Part(key, {kind}, types, ways)


def tiled(module: ModuleOp) -> tuple[str, str] | None:
    """The kind and the tile of the product among the kernels of a module."""
    for op in module.ops:
        found = op.attributes.get(TILED)
        if isinstance(found, DictionaryAttr):
            kind, tile = (cast(StringAttr, found.data[name]).data for name in ("kind", "tile"))
            return kind, tile
    return None


def _compile(sources: Sequence[KernelSource], gpu: GpuTarget, cache: Cache, progress: Any) -> None:
    compile_kernels(sources, gpu.sm, cache=cache, progress=progress)


def _measured(part: _Part, compiler: Compiler) -> Result:
    sets = _arguments(part.types)
    times: dict[tuple[str, str], float] = {}
    for kind, tile, module in part.ways:
        times[kind, tile] = microseconds(compiler.native(module), sets)
    library = times.pop(("", ""))
    kind = next((kind for kind, _ in times if kind), "")
    return Result(library, kind, {tile: us for (_, tile), us in times.items()})


def _arguments(types: Sequence[TensorType]) -> list[list[Any]]:
    """Arguments, as often as it takes for the L2 cache to be of no use."""
    import torch

    def make(t: TensorType) -> Any:
        dtype = getattr(torch, TORCH_DTYPES[t.dtype])
        x = torch.empty_strided([int(n) for n in t.shape], [int(n) for n in t.strides], dtype=dtype, device=t.device)
        return x.normal_() if x.is_floating_point() and x.element_size() > 1 else x.zero_()

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
