"""loop-tile: kernels of CUDA tensors to kernels whose attributes say how programs of a GPU share the work.

Before: kernels as fusion made them. After: `tile` on the kernel and on each `loop.for`, powers of two: points of a dim
that a program has at hand at once (as many as the dim has: no loop; 1 in the grid: a program has one point), `warps`
and `stages` of a program. What must be complete before anything else may go on is a launch of its own: after
`bufferize`, a kernel that copies a tensor and then updates it becomes two. What is computed does not change.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, ModuleOp, StringAttr, UnitAttr
from xdsl.passes import ModulePass

from ..dialects.host import LaunchOp as HostLaunchOp
from ..dialects.loop import KernelOp, LaunchOp
from . import tile_choice
from .fuse_cost import Hints
from .gpu_target import GpuTarget
from .host_devices import on_gpu
from .schedule_access import collapse
from .tile_attention import tile_attention
from .tile_choice import ROW, tile_kernel
from .tile_contraction import TILED, tile_contraction
from .tile_invariant import tile_invariant
from .tile_online import one_pass
from .tile_order import order_programs
from .tile_phases import DETERMINISTIC, split_phases
from .tile_rows import write_rows
from .tile_spill import spill
from .tile_turns import hold_sums
from .tile_variants import VARIANTS, kind_of

TILES = "lamella.tiles"
"""The module attribute: kind of contraction to tile, as `Tile.parse` reads it."""


@dataclass(frozen=True)
class LoopTile(ModulePass):
    """Choose tiles, warps and stages for kernels of CUDA tensors. `target` is a name of `GpuTarget.from_name`.

    The module's attribute `lamella.tiles` has what measurements say of kinds of contractions and of other kernels.
    `tf32`: products of f32 matrices need not be exacter than with tf32. `candidate`: of the tiles that contractions may
    have, the one of that number, the model's choice being 0.
    """

    name = "loop-tile"

    target: str = "sm_90"
    tf32: bool = False
    candidate: int = 0
    variant: str = "default"
    """Of `tile_variants`, how other kernels with loops are tiled."""
    deterministic: bool = False
    """Sums of floats keep their order where data or windows say where they go: no atomic updates."""
    invariant: bool = False
    """What is computed of a row, and in which order, does not depend on how many rows there are."""
    statistics: dict[str, int] = field(default_factory=dict[str, int], init=False, compare=False)

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        hints = op.attributes.get("lamella.hints")
        values: dict[str, int] = {}
        if isinstance(hints, DictionaryAttr):
            values = {k: v.value.data for k, v in hints.data.items() if isinstance(v, IntegerAttr)}
        tiles = op.attributes.get(TILES)
        measured: dict[str, str] = {}
        if isinstance(tiles, DictionaryAttr):
            measured = {k: v.data for k, v in tiles.data.items() if isinstance(v, StringAttr)}
        target, whole = GpuTarget.from_name(self.target), Hints(values)
        kernels = {k.sym_name.data: k for k in op.ops if isinstance(k, KernelOp) and on_gpu(k)}
        launches: dict[str, list[Any]] = {name: [] for name in kernels}
        for launch in op.walk():
            if isinstance(launch, (LaunchOp, HostLaunchOp)) and launch.callee in launches:
                launches[launch.callee].append(launch)
        for name, kernel in kernels.items():
            # the first launch tells what the kernel's own symbols are like
            sizes = [s.name for s in kernel.sizes]
            first = launches[name][0].sizes if launches[name] else []
            known = Hints(dict(zip(sizes, map(whole.size, first), strict=False))) if first else whole
            if self.deterministic:
                kernel.attributes[DETERMINISTIC] = UnitAttr()
            kind = kind_of(kernel) if measured or self.variant != "default" else ""
            chosen = measured.get(kind, self.variant) if kind else "default"
            variant = VARIANTS.get(chosen, VARIANTS["default"])
            hold_sums(kernel)
            parts = split_phases(kernel, launches[name])
            for part in parts:
                if tile_attention(part, target, known, self.candidate, measured, tf32=self.tf32):
                    continue
                if len(parts) == 1:
                    spill(part, launches[name])
                collapse(part, known)
                held = tile_choice.HELD_ROW if chosen == "default" else variant.held
                one_pass(part, ROW, ROW if self.invariant else held)
                if self.invariant:
                    tile_invariant(part, target, known, tf32=self.tf32)
                elif not tile_contraction(
                    part, target, known, tf32=self.tf32, candidate=self.candidate, measured=measured
                ):
                    write_rows(part, tile_choice.WINDOW_ROWS, tile_choice.WINDOW, target.processors)
                    tile_kernel(part, target, known, variant)
                    if chosen != "default":
                        told = {"kind": StringAttr(kind), "tile": StringAttr(chosen)}
                        part.attributes[TILED] = DictionaryAttr(told)
        placed = {k.sym_name.data: k for k in op.ops if isinstance(k, KernelOp) and on_gpu(k)}
        self.statistics["backwards"] = order_programs(op, placed, target, whole)
        self.statistics["kernels"] = len(kernels)
