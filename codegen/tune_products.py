"""Products of matrices timed on the GPU: the library with kernels around it against kernels of ours, with each tile.

What is found is kept on disk, by the text of the program that was measured, the GPU and the versions of compiler and
Triton, and given to passes as attributes of a module: `lamella.products` says which products become kernels,
`lamella.tiles` with which tiles.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

from xdsl.dialects.builtin import DictionaryAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp

from ..dialects.hints import size_hints
from ..dialects.tensor import TensorType
from ..dialects.text import print_module
from ..lowering.aten_choose_products import MEASURED, products_in
from ..lowering.fuse_cost import Hints
from ..lowering.gpu_target import GpuTarget
from ..lowering.loop_tile import TILES
from ..lowering.product_part import part_of
from ..lowering.products import Product
from ..lowering.promotion import opmath
from ..lowering.tile_contraction import TILED
from .cache import Cache, cache_key, compiler_version
from .cuda_target import code_key
from .tune_gpu import Tell, Way, compile_ways, note, times_of

CANDIDATES = 6
"""Tiles that are tried for each product."""

DEFAULT = "default"
"""The tile of a kernel that is tiled like any other."""

FORMAT = "product 1"
"""Changes with Result, and with what is measured."""

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

    def __str__(self) -> str:
        times = {"ATen": self.library, **self.tiles}
        return ", ".join(f"{way} {us:.1f} us" for way, us in sorted(times.items(), key=lambda item: item[1]))

    @property
    def choice(self) -> str:
        """`generated 10.1 us, ATen 12.3 us`: the one that is to be taken first."""
        if not self.tiles:
            return f"ATen {self.library:.1f} us"
        ours = self.tiles[self.best]
        times = [f"generated {ours:.1f} us", f"ATen {self.library:.1f} us"]
        return ", ".join(times if ours * GAIN <= self.library else times[::-1])


def tune(
    module: ModuleOp,
    gpu: GpuTarget,
    compiler: Compiler,
    cache: Cache,
    *,
    measure: bool = True,
    tell: Tell | None = None,
) -> dict[str, Result]:
    """Look up the products of an aten module on GPUs, measure those that are not known if `measure`, and set the
    module's attributes; what is known of each kind of product. `tell(what, done, of)` hears of the progress.
    """
    machine = (compiler_version(), code_key(gpu), FORMAT)
    any_key = cache_key("products", *machine)
    if not measure and cache.get("product", any_key) is None:
        return {}  # nothing has ever been measured here
    hints = Hints(size_hints(module))
    found: dict[str, Result] = {}
    missing: dict[str, tuple[str, ModuleOp]] = {}
    for p in products_in(module):
        kind = p.kind(hints.size)
        if kind in found or kind in missing or not is_candidate(p) or (part := part_of(p)) is None:
            continue
        key = cache_key(print_module(part), *machine)
        if (data := cache.get("product", key)) is not None:
            found[kind] = pickle.loads(data)
        elif measure:
            missing[kind] = key, part
    ways = {kind: _ways(part, compiler) for kind, (_, part) in missing.items()}
    if ways:
        compile_ways([way for several in ways.values() for way in several], gpu, cache, tell)
    for i, (kind, several) in enumerate(ways.items()):
        key, part = missing[kind]
        result = _measured(part, several, compiler)
        if result is not None:
            found[kind] = result
            cache.put("product", key, pickle.dumps(result))
            cache.put("product", any_key, b"some")
        if tell:
            tell("products measured", i + 1, len(ways))
    _note(module, found)
    return found


def _measured(part: ModuleOp, ways: Sequence[Way], compiler: Compiler) -> Result | None:
    """Times of the ways that work; None where the library's does not."""
    (main,) = [o for o in part.ops if isinstance(o, FuncOp)]
    times = times_of([cast(TensorType, a.type) for a in main.body.block.args], ways, compiler.native)
    kind = next((way.kind for way in ways if way.kind), "")
    library = times.pop("", None)
    return None if library is None else Result(library, kind, times)


def is_candidate(p: Product) -> bool:
    """Whether a product can be worth a kernel: on a GPU, of known sizes, and not of matrices of f32, for which tensor
    cores are not as exact as the library, or not allowed.
    """
    half = opmath(p.dtype) != p.dtype
    return p.device.startswith("cuda") and p.is_static and (half or (p.dtype == "f32" and p.m == 1))


def _note(module: ModuleOp, found: dict[str, Result]) -> None:
    if not found:
        return
    module.attributes[MEASURED] = DictionaryAttr({k: StringAttr(r.choice) for k, r in found.items()})
    tiles = {r.kind: StringAttr(r.best) for r in found.values() if r.kind and r.best != DEFAULT}
    if tiles:
        module.attributes[TILES] = DictionaryAttr(tiles)
    note(module, [f"{kind}: {r}" for kind, r in found.items()])


def _ways(part: ModuleOp, compiler: Compiler) -> list[Way]:
    """The library's way first, then ours, each with another tile."""
    called = part.clone()
    compiler.lower(called, products="none", candidate=0)
    ways = [Way("", "", called)]
    for i in range(CANDIDATES):
        copy = part.clone()
        compiler.lower(copy, products="all", candidate=i)
        kind, tile = tiled(copy) or ("", DEFAULT)
        if tile in {way.tile for way in ways}:
            break
        ways.append(Way(kind, tile, copy))
    return ways


def tiled(module: ModuleOp) -> tuple[str, str] | None:
    """The kind and the tile of the product among the kernels of a module."""
    for op in module.ops:
        found = op.attributes.get(TILED)
        if isinstance(found, DictionaryAttr):
            kind, tile = (cast(StringAttr, found.data[name]).data for name in ("kind", "tile"))
            return kind, tile
    return None
