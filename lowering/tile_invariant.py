"""Tiles under which what is computed of a row does not depend on how many rows there are (option `batch_invariant`).

The order in which lanes of a program add up a row follows from its tile, so that is chosen by the length of the row
alone: a program has one, of buffers counts what it reads of them, and its warps are always as many. Products have one
tile for their types. Kernels that only map elements to elements are tiled as always.
"""

from __future__ import annotations

import math

from xdsl.dialects.builtin import IntegerAttr, UnitAttr, i64

from ..dialects import expr
from ..dialects.loop import KernelOp, LoopDim
from ..dialects.tensor import itemsize
from .fuse_cost import Hints
from .gpu_target import GpuTarget
from .schedule_access import Access, type_of
from .tile_choice import Tiling, tile_kernel
from .tile_contraction import tile_contraction
from .tt_forms import UNALIGNED

ALIGNMENT = 16
"""Bytes that a thread reads at once at most."""

ROWS = 4096
"""Points that a dim of the grid counts as."""

WARPS = 8
"""Of a program that has a row, whatever else it computes."""


def tile_invariant(kernel: KernelOp, target: GpuTarget, hints: Hints, *, tf32: bool = False) -> None:
    """Set the attributes of any kernel."""
    if tile_contraction(kernel, target, hints, tf32=tf32, invariant=True):
        return
    tiling = _Tiling(kernel, target, hints)
    if tiling.reduces_rows():
        tiling.choose()
    else:
        tile_kernel(kernel, target, hints)


class _Tiling(Tiling):
    """The choice for a kernel with loops."""

    def reduces_rows(self) -> bool:
        return bool(self.loops) and not self._windowed()

    def _size(self, d: LoopDim) -> int:
        return ROWS if d in self.grid else super()._size(d)

    def _programs(self) -> int:
        return ROWS

    def _bytes(self, a: Access) -> int:
        return itemsize(type_of(a).dtype) * math.prod(map(self._size, self._along(a)))

    def _read_again(self) -> int:
        return 0  # what else a kernel computes of a row does not matter

    def _chunks(self, vector: LoopDim | None) -> None:
        return None

    def _several(self, most: int) -> int:
        return 1

    def _multiples(self) -> dict[str, int]:
        rows = {s.name for d in self.grid for s in expr.symbols(d.extent)}
        return {name: n for name, n in super()._multiples().items() if name not in rows}

    def _along(self, a: Access) -> list[LoopDim]:
        """The dims of a row that move an access."""
        moving = {s.name for e in a.index for s in expr.symbols(e)}
        row = {d.name: d for o in self.loops for d in o.dims}
        return [d for name, d in row.items() if name in moving or a.indices]

    def _begins_anywhere(self, a: Access) -> bool:
        """Whether rows after the first one may begin anywhere; a thread would read more of the first at a time."""
        row = self._along(a)
        size = math.prod((d.extent for d in row), start=itemsize(type_of(a).dtype))
        return bool(row) and (not isinstance(size, int) or size % ALIGNMENT != 0)

    def _write(self, elements: int, per_thread: int) -> None:
        super()._write(elements, per_thread)
        if any(map(self._begins_anywhere, self.found)):
            self.kernel.attributes[UNALIGNED] = UnitAttr()
        self.kernel.attributes["warps"] = IntegerAttr(WARPS, i64)
