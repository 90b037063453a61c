"""Tiles of one kernel: how many points a program has at hand at once, along which dims.

Lanes lie along the dim in which most bytes are neighbours in memory. A program without loops takes some thousand bytes;
a row that a program reduces is held whole while it fits the registers, so that it is read once; columns are reduced
side by side; where one buffer is the transpose of another, a tile has both dims.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import cast

from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, StringAttr, i64
from xdsl.ir import Operation, SSAValue

from ..dialects import expr
from ..dialects.loop import ForOp, KernelOp, LoadOp, LoopDim, ScanOp, ScratchOp, body_ops
from ..dialects.tensor import TensorType, itemsize
from .fuse_cost import Hints
from .gpu_target import GpuTarget
from .schedule_access import Access, accesses, buffer_of, stride, type_of
from .tile_extent import at_most
from .tile_phases import ordered_dims
from .tt_forms import HELD, MULTIPLE

THREAD = 16
"""Bytes that a thread moves with one instruction."""

ROW = 16 << 10
"""Elements of a row that is held whole. Longer ones would leave no room for a second program, whose loads go on while
the first one waits.
"""

CHUNK = 2048
"""Elements that a program has at hand of a longer one."""

AGAIN = 16 << 10
"""Elements that a program has at hand of a row that it goes through again, half as many where they are of two bytes:
the fewer programs there are at a time, the more of their rows are still in the L2 cache."""

AGAIN_EACH = 32
"""Of these, for a thread."""

COLUMNS = 512
"""Bytes of columns that a program reduces side by side."""

BLOCK = 4096
"""Elements of these columns that it has at hand."""

COLUMN_EACH = 32
"""Of these, for a thread."""

FLAT = 2048
"""Elements of a tile that is gone through once, where they are of two bytes."""

GAPS = 128
"""Elements of a tile whose lanes read with gaps."""

FLAT_EACH = 16
"""Of these, for a thread."""

WINDOW = 32
"""Points of a reduction that is a window."""

WINDOW_EACH = 4
"""Elements of a tile of windows for a thread."""

SQUARE = 64
"""Rows and columns of a tile that is transposed."""

SMALL = 1024
"""Elements of a tile that several short rows make up."""


def tile_kernel(kernel: KernelOp, target: GpuTarget, hints: Hints) -> None:
    """Set `tile`, `warps` and `stages` of a kernel and `tile` of its loops."""
    Tiling(kernel, target, hints).choose()


_STATE = {"argmax": 2, "argmin": 2, "welford": 3}
"""Values that reductions carry for each lane; one where nothing is said."""


def power(n: int) -> int:
    """The least power of two that is at least `n`."""
    return 1 << max(n - 1, 0).bit_length()


class Tiling:
    """The choice for one kernel."""

    def __init__(self, kernel: KernelOp, target: GpuTarget, hints: Hints) -> None:
        self.kernel, self.target, self.hints = kernel, target, hints
        self.grid = list(kernel.grid)
        self.loops = [o for o in body_ops(kernel.body) if isinstance(o, ForOp)]
        self.found = accesses(body_ops(kernel.body))
        self.tiles: dict[str, int] = {d.name: 1 for d in self.grid}
        self.loop_tiles: dict[ForOp, dict[str, int]] = {o: {} for o in self.loops}
        self.pinned = {s.name for o in self.loops for d in o.dims for s in expr.symbols(d.lo) | expr.symbols(d.hi)}
        self.pinned |= ordered_dims(kernel)
        self._is_long = False
        self.held: dict[str, int] = {}
        """Sizes up to which rows are held whose length is a symbol."""
        self.kept = {
            s.name
            for a in self.found
            if isinstance(buffer_of(a).owner, ScratchOp)
            for e in a.index
            for s in expr.symbols(e)
        }

    def choose(self) -> None:
        if not self.loops:
            elements = self._flat()
            self._write(elements, self._each(FLAT_EACH))
        else:
            inside = [a for o in self._outer() for a in accesses(body_ops(o.body))]
            column = self._best(self.grid, inside)
            rows = [d for o in self.loops for d in o.dims]
            best = self._best(rows, inside)
            across = column is not None and self._weight(column, inside) > (
                0 if best is None else self._weight(best, inside)
            )
            if self._windowed() and (across or self._overlaps()):
                elements = self._flat()
                self._write(elements, self._each(WINDOW_EACH))
            elif across and column is not None:
                self._write(self._columns(column), COLUMN_EACH)
            else:
                elements, narrow = self._rows(best), 4 if best is None else self._narrow(best)
                self._write(elements, self._per_thread(elements, narrow))

    def _windowed(self) -> bool:
        """Whether loops are over a few neighbours of each point, which a program goes through one by one."""
        points = [math.prod(at_most(d) or WINDOW + 1 for _, d in chain) for chain in self._chains()]
        return (
            max(points) <= WINDOW
            and not self.kept
            and not any(isinstance(o, ScanOp) for o in body_ops(self.kernel.body))
        )

    def _overlaps(self) -> bool:
        """Whether some load is at a place that both a dim of the grid and one of a loop move."""
        grid, loops = ({d.symbol for d in dims} for dims in (self.grid, [d for o in self.loops for d in o.dims]))
        return any(expr.symbols(e) & grid and expr.symbols(e) & loops for a in self.found for e in a.index)

    def _outer(self) -> list[ForOp]:
        return [o for o in self.kernel.body.block.ops if isinstance(o, ForOp)]

    def _size(self, d: LoopDim) -> int:
        most = at_most(d)
        return most if most is not None else self.hints.size(d.extent)

    def _programs(self) -> int:
        n = 1
        for d in self.grid:
            n *= -(-self._size(d) // self.tiles[d.name])
        return n

    # Which dim lanes lie along

    def _weight(self, d: LoopDim, found: Iterable[Access]) -> int:
        """Bytes that are neighbours along `d`."""
        return sum(self._bytes(a) for a in found if stride(a, d.symbol) == 1)

    def _bytes(self, a: Access) -> int:
        """Bytes of the elements that an access touches, each once."""
        moving = {s.name for e in a.index for s in expr.symbols(e)}
        points = itemsize(type_of(a).dtype)
        for d in (*self.grid, *(d for o in self.loops for d in o.dims)):
            points *= self._size(d) if d.name in moving or a.indices else 1
        return points

    def _best(self, dims: Sequence[LoopDim], found: Sequence[Access]) -> LoopDim | None:
        free = [d for d in dims if d.name not in self.pinned]
        ranked = [(self._weight(d, found), self._size(d) >= 8, i, d) for i, d in enumerate(free)]
        return max(ranked, key=lambda r: (r[1] and r[0], r[0], r[2]))[3] if ranked else None

    # Kernels without loops

    def _flat(self) -> int:
        """Tiles of a kernel that only maps elements to elements; how many points a tile has."""
        vector = self._best(self.grid, self.found)
        if vector is None:
            return 1
        across = self._transposed(vector)
        if across is not None:
            for d in (vector, across):
                self.tiles[d.name] = min(SQUARE, power(self._size(d)))
            while self._programs() < 2 * self.target.processors and self.tiles[across.name] > 16:
                self.tiles[across.name] //= 2
            return self.tiles[vector.name] * self.tiles[across.name]
        narrow = self._narrow(vector)
        points = 1
        for d in self.grid:
            points *= self._size(d)
        budget = FLAT * 2 // max(narrow, 2)
        if self._each(FLAT) == 1:
            budget = min(budget, GAPS)
        while budget > 256 and points < budget * 2 * self.target.processors:
            budget //= 2
        left = budget
        for d in (vector, *(d for d in reversed(self.grid) if d is not vector)):
            if left > 1 and d.name not in self.pinned:
                self.tiles[d.name] = self._snug(self._size(d), left)
                left //= self.tiles[d.name]
        return budget // left

    def _each(self, most: int) -> int:
        """Elements of a tile without order for a thread: one where lanes read with gaps, or each load of a thread would
        touch as many sectors as a warp has lanes.
        """
        vector = self._best(self.grid, self.found)
        if vector is None or self._transposed(vector) is not None:
            return most
        gaps = (a for a in self.found if isinstance(a, LoadOp) and stride(a, vector.symbol) not in (0, 1, None))
        return 1 if any(8 * self._bytes(a) >= self._most(vector) for a in gaps) else most

    def _most(self, vector: LoopDim) -> int:
        """Bytes of the largest access along `vector`."""
        return max((self._bytes(a) for a in self.found if stride(a, vector.symbol) == 1), default=0)

    def _narrow(self, vector: LoopDim) -> int:
        """Bytes of the smallest elements that are read or written along `vector` in numbers."""
        found = [a for a in self.found if stride(a, vector.symbol) == 1]
        most = self._most(vector)
        return min((itemsize(type_of(a).dtype) for a in found if 8 * self._bytes(a) >= most), default=4)

    def _snug(self, n: int, most: int) -> int:
        """A tile of at most `most` that covers `n` points without much waste."""
        if n <= 1:
            return 1
        sizes = [1 << k for k in range(most.bit_length()) if 1 << k <= power(n)]
        waste = {t: -(-n // t) * t for t in sizes}
        least = min(waste[t] for t in sizes if t >= min(16, sizes[-1]))
        return max(t for t in sizes if waste[t] <= 1.125 * least)

    def _transposed(self, vector: LoopDim) -> LoopDim | None:
        """Another dim along which something is contiguous that jumps along the vector dim, if both are long."""
        for d in self.grid:
            if d is vector or d.name in self.pinned or min(self._size(d), self._size(vector)) < 16:
                continue
            jumps = (a for a in self.found if stride(a, d.symbol) == 1)
            if any(stride(a, vector.symbol) not in (0, 1) for a in jumps):
                return d
        return None

    def _multiples(self) -> dict[str, int]:
        """Sizes by which rows are apart, or else one that a tile ends at, if they seem to be multiples of THREAD: then
        threads read several elements at a time.
        """
        buffers = [cast(TensorType, a.type) for a in self.kernel.body.block.args]
        apart = {s for t in buffers for n in t.strides for s in expr.symbols(n)}
        ends = {s for d in (*self.grid, *(d for o in self.loops for d in o.dims)) for s in expr.symbols(d.extent)}
        names = [s for s in self.kernel.sizes if s in (apart or ends) and self.hints.size(s) % THREAD == 0]
        return {s.name: THREAD for s in (names if apart else names[-1:])}

    # Rows

    def _chains(self) -> list[list[tuple[ForOp, LoopDim]]]:
        """The dims of nested loops, from the outermost in."""
        chains: list[list[tuple[ForOp, LoopDim]]] = []

        def visit(o: ForOp, before: list[tuple[ForOp, LoopDim]]) -> None:
            chain = [*before, *((o, d) for d in o.dims)]
            nested = [i for i in o.body.block.ops if isinstance(i, ForOp)]
            for i in nested:
                visit(i, chain)
            if not nested:
                chains.append(chain)

        for o in self._outer():
            visit(o, [])
        return chains

    def _rows(self, vector: LoopDim | None) -> int:
        """Tiles of a kernel whose loops run along memory."""
        elements = 1
        for chain in self._chains():
            elements = max(elements, self._row(chain, vector))
        if elements < SMALL:
            elements *= self._several(SMALL // elements)
        return elements

    def _row(self, chain: list[tuple[ForOp, LoopDim]], vector: LoopDim | None) -> int:
        """Tiles of nested loops; how many points they have together."""
        sizes = {d.name: power(self._size(d)) for _, d in chain}
        symbols = {d.hi: d.name for _, d in chain if at_most(d) is None}
        known = not symbols or (len(self._outer()) > 1 and set(symbols) <= set(self.kernel.sizes))
        whole = math.prod(sizes.values())
        if known and whole <= ROW:
            self.held |= {expr.text(hi): sizes[name] for hi, name in symbols.items()}
            return self._fill(chain, vector, whole)
        self._is_long = True
        if not self._read_again():
            return self._fill(chain, vector, CHUNK)
        self._hint_caches()
        half = 2 if vector is not None and self._narrow(vector) < 4 else 1
        return self._fill(chain, vector, AGAIN // half // power(self._carried()))

    def _hint_caches(self) -> None:
        """Rows that are read again are to stay in the L2 cache until they are read last; what is written need not."""
        last: dict[SSAValue, LoadOp] = {}
        found = [a for o in self._outer() for a in accesses(body_ops(o.body))]
        for a in found:
            if isinstance(a, LoadOp):
                last[buffer_of(a)] = a
        for a in found:
            if isinstance(a, LoadOp):
                a.attributes["evict"] = StringAttr("first" if last[buffer_of(a)] is a else "last")
            elif a.combine is None:
                a.attributes["evict"] = StringAttr("first")

    def _carried(self) -> int:
        """Values that a loop carries for each lane, at most."""
        return max((sum(_STATE.get(k.data, 1) for k in o.reduce.data) for o in self.loops), default=1)

    def _per_thread(self, elements: int, narrow: int) -> int:
        """Elements of a row's tile for a thread: as many bytes as are in flight well, or the most threads."""
        if self._is_long and self._read_again():
            return max(AGAIN_EACH // power(self._carried()), 4)
        return 16 if self._carried() > 1 else max(16, min(32, 64 // narrow))

    def _read_again(self) -> int:
        """How many buffers that are not small several loops read."""
        times: dict[SSAValue, int] = {}
        for o in self._outer():
            for buffer in {buffer_of(a) for a in accesses(body_ops(o.body)) if isinstance(a, LoadOp)}:
                times[buffer] = times.get(buffer, 0) + (self.hints.bytes(buffer) > self.target.l2 // 4)
        return sum(n > 1 for n in times.values())

    def _fill(self, chain: list[tuple[ForOp, LoopDim]], vector: LoopDim | None, budget: int) -> int:
        """Tiles of nested loops with `budget` points, from the dim that is `vector` or scanned, or the last, outwards.

        Dims of values that are kept are whole.
        """
        scanned = {s.dim.data for o, _ in chain for s in o.body.block.ops if isinstance(s, ScanOp)}
        first = scanned or {vector.name if vector is not None else ""}
        elements = 1
        for o, d in sorted(reversed(chain), key=lambda x: (x[1].name not in self.kept, x[1].name not in first)):
            if d.name in self.pinned:
                continue
            size = power(self._size(d))
            tile = size if d.name in self.kept else min(size, max(1, budget // elements))
            self.loop_tiles[o][d.name] = tile
            elements *= tile
        return elements

    def _several(self, most: int) -> int:
        """How many grid points a program takes, along the last dims of the grid."""
        count = 1
        for d in reversed(self.grid):
            if d.name in self.pinned or self._size(d) == 1:
                continue
            while 2 * count <= most and self.tiles[d.name] < power(self._size(d)):
                self.tiles[d.name] *= 2
                if self._programs() < 2 * self.target.processors:
                    self.tiles[d.name] //= 2
                    return count
                count *= 2
        return count

    # Columns

    def _columns(self, vector: LoopDim) -> int:
        """Tiles of a kernel that reduces along the outer dims of what it reads."""
        tile = min(COLUMNS // self._narrow(vector), power(self._size(vector)))
        self.tiles[vector.name] = max(tile, 1)
        while self._programs() < 2 * self.target.processors and self.tiles[vector.name] > 32:
            self.tiles[vector.name] //= 2
        chains = self._chains()
        held = max(
            math.prod(power(self._size(d)) for d in {d.name: d for _, d in chain if d.name in self.kept}.values())
            for chain in chains
        )
        while held * self.tiles[vector.name] > ROW and self.tiles[vector.name] > 1:
            self.tiles[vector.name] //= 2
        budget = max(1, BLOCK // self.tiles[vector.name])
        return self.tiles[vector.name] * max(self._fill(chain, None, budget) for chain in chains)

    # The result

    def _write(self, elements: int, per_thread: int) -> None:
        """Set the attributes, for a tile of so many elements."""
        for name, numbers in ((HELD, self.held), (MULTIPLE, self._multiples())):
            if numbers:
                self.kernel.attributes[name] = DictionaryAttr({k: IntegerAttr(n, i64) for k, n in numbers.items()})
        _set(self.kernel, self.tiles)
        for o, tiles in self.loop_tiles.items():
            _set(o, tiles)
        least = 1 if elements < 1024 else 2 if self.loops else 4
        warps = min(max(elements // (32 * per_thread), least), 32)
        self.kernel.attributes["warps"] = IntegerAttr(warps, i64)
        self.kernel.attributes["stages"] = IntegerAttr(3, i64)


def _set(op: Operation, tiles: dict[str, int]) -> None:
    given = {name: IntegerAttr(n, i64) for name, n in tiles.items() if n > 1}
    if given:
        op.attributes["tile"] = DictionaryAttr(given)
