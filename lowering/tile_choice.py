"""Tiles of one kernel: how many points a program has at hand at once, along which dims.

Lanes lie along the dim in which most bytes are neighbours in memory. A program without loops takes some thousand bytes;
a row that a program reduces is held whole while it fits the registers, so that it is read once; columns are reduced
side by side; where one buffer is the transpose of another, a tile has both dims.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import cast

from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, StringAttr, UnitAttr, i64
from xdsl.dialects.math import CosOp, PowFOp, SinOp, TanOp
from xdsl.ir import Operation, SSAValue

from ..dialects import expr
from ..dialects.loop import ForOp, KernelOp, LoadOp, LoopDim, ScanOp, body_ops
from ..dialects.tensor import TensorType, itemsize
from .fuse_cost import Hints
from .gpu_target import GpuTarget
from .schedule_access import Access, accesses, buffer_of, stride, type_of
from .tile_extent import at_most
from .tile_held import HELD, WASTE, Chunks, chunks
from .tile_rows import ROWS
from .tile_shape import KernelShape
from .tile_variants import VARIANTS, Variant
from .tt_forms import HELD as HELD_SIZES
from .tt_forms import MULTIPLE
from .tt_loops import STAGES, UNROLL

THREAD = 16
"""Bytes that a thread moves with one instruction."""

ROW = 16 << 10
"""Elements of a row that is held whole. Longer ones would leave no room for a second program, whose loads go on while
the first one waits.
"""

HELD_ROW = HELD
"""Elements of a row that is held in tiles."""

TURN = 2048
"""Elements of short rows that a program takes in one turn."""

UNROLLED = 2048
"""Elements of a tile, instead of which rows have several if it would have many lanes that are no points."""

CHUNK = 2048
"""Elements that a program has at hand of a longer one."""

AGAIN = 32 << 10
"""Elements that a program has at hand of a row that it goes through again, half as many where they are of two bytes:
the fewer programs there are at a time, the more of their rows are still in the L2 cache."""

AGAIN_EACH = 32
"""Of these, for a thread."""

COLUMNS = 512
"""Bytes of columns that a program reduces side by side."""

COLUMN_BYTES = 4 << 10
"""Bytes of these columns that it has at hand."""

COLUMN_POINTS = 1024
"""Points of these columns that it has at hand at least."""

COLUMN_LONELY = 4
"""Times as many where a processor has one such program, at most."""

COLUMN_NARROW = 16
"""Columns of a program at least."""

AHEAD = 16 << 10
"""Bytes of columns that it has asked for at most before it comes to them."""

TURNS = 3
"""Turns of its loop that these are for, at most."""

COLUMN_EACH = 32
"""Elements of columns for a thread, where it has registers for them."""

COLUMN_REGISTERS = 128
"""Registers of a thread for what it has read of columns and what it carries for each of their elements."""

FLAT = 2048
"""Elements of a tile that is gone through once, where they are of two bytes."""

GAPS = 128
"""Elements of a tile whose lanes read with gaps, times those for a thread."""

GAPS_EACH = 2
"""Elements of such a tile for a thread."""

WINDOWS = 512
"""Elements of a tile of windows whose lanes read with gaps."""

WINDOW_ROWS = 8
"""Rows of windows that are written out at most."""

WINDOW_LANES = 64
"""Elements of a tile of such rows."""

FLAT_EACH = 16
"""Of these, for a thread."""

WINDOW = 32
"""Points of a reduction that is a window."""

WINDOW_EACH = 4
"""Elements of a tile of windows for a thread, or as many as it reads at once."""

LONG = (SinOp, CosOp, TanOp, PowFOp)
"""Functions of a hundred instructions and more, a branch among them, which are written out for each element."""

LONG_EACH = 16
"""Calls of these for a thread: twice as many take Triton twice as long."""

SQUARE = 64
"""Rows and columns of a tile that is transposed."""

SMALL = 1024
"""Elements of a tile that several short rows make up."""


def tile_kernel(kernel: KernelOp, target: GpuTarget, hints: Hints, variant: Variant = VARIANTS["default"]) -> None:
    """Set `tile`, `warps` and `stages` of a kernel and `tile` of its loops."""
    Tiling(kernel, target, hints, variant).choose()


def power(n: int) -> int:
    """The least power of two that is at least `n`."""
    return 1 << max(n - 1, 0).bit_length()


class Tiling(KernelShape):
    """The choice for one kernel."""

    def __init__(
        self, kernel: KernelOp, target: GpuTarget, hints: Hints, variant: Variant = VARIANTS["default"]
    ) -> None:
        super().__init__(kernel, target, hints)
        self.variant = variant
        self._is_long = False
        self.is_window = False
        self.threads: int | None = None
        """Of a program, where they are chosen with its tiles."""
        self.registers: int | None = None
        """Of a thread at most, so that a processor has room for several programs."""
        self.held: dict[str, int] = {}
        """Sizes up to which rows are held whose length is a symbol."""

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
                for o in self.loops:
                    o.attributes[UNROLL] = UnitAttr()
                self.is_window = True
                elements, vector = self._flat(), self._best(self.grid, self.found)
                narrow = THREAD if vector is None else self._narrow(vector)
                each = max(WINDOW_EACH, THREAD // narrow)
                self._write(elements, 1 if ROWS in self.kernel.attributes else self._each(each))
            elif across and column is not None:
                self._write(self._columns(column), self._column_each(column))
                self._read_ahead()
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
        if self._has_gaps():
            windows = WINDOW_LANES if ROWS in self.kernel.attributes else WINDOWS
            budget = min(budget, windows if self.is_window else GAPS * GAPS_EACH)
        while budget > 256 and points < budget * 2 * self.target.processors:
            budget //= 2
        left = budget
        for d in (vector, *(d for d in reversed(self.grid) if d is not vector)):
            if left > 1 and d.name not in self.pinned:
                self.tiles[d.name] = self._snug(self._size(d), left)
                left //= self.tiles[d.name]
        return budget // left

    def _each(self, most: int) -> int:
        """Elements of a tile without order for a thread: few where lanes read with gaps, or each load of a thread would
        touch as many sectors as a warp has lanes. Windows share what they read.
        """
        return GAPS_EACH if self._has_gaps() and not self.is_window else most

    def _has_gaps(self) -> bool:
        vector = self._best(self.grid, self.found)
        if vector is None or self._transposed(vector) is not None:
            return False
        gaps = (a for a in self.found if isinstance(a, LoadOp) and stride(a, vector.symbol) not in (0, 1, None))
        return any(8 * self._bytes(a) >= self._most(vector) for a in gaps)

    def _snug(self, n: int, most: int) -> int:
        """A tile of at most `most` that covers `n` points without much waste."""
        if n <= 1:
            return 1
        sizes = [1 << k for k in range(most.bit_length()) if 1 << k <= power(n)]
        waste = {t: -(-n // t) * t for t in sizes}
        least = min(waste[t] for t in sizes if t >= min(16, sizes[-1]))
        return max(t for t in sizes if waste[t] <= 1.125 * least)

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

    def _rows(self, vector: LoopDim | None) -> int:
        """Tiles of a kernel whose loops run along memory."""
        elements = 1
        for chain in self._chains():
            elements = max(elements, self._row(chain, vector))
        if self.turns is not None:
            elements *= self._at_once(elements, 4 if vector is None else self._narrow(vector))
        elif elements < self._scaled(SMALL):
            elements *= self._several(self._scaled(SMALL) // elements)
        return elements

    def _at_once(self, elements: int, narrow: int) -> int:
        """How many rows of so many elements a program takes in one turn: no more than that its warps lie along a row,
        so that each thread adds up its own columns.
        """
        assert self.turns is not None
        last, each = self.turns.dims.data.items[-1], self._per_thread(elements, narrow)
        most = min(self._scaled(TURN) // elements, narrow * each // THREAD)
        rows = max(1, min(power(most + 1) // 2, power(self._size(last))))
        self.loop_tiles[self.turns] = {last.name: rows}
        return rows

    def _row(self, chain: list[tuple[ForOp, LoopDim]], vector: LoopDim | None) -> int:
        """Tiles of nested loops; how many points they have together."""
        sizes = {d.name: power(self._size(d)) for _, d in chain}
        symbols = {d.hi: d.name for _, d in chain if at_most(d) is None}
        known = not symbols or (len(self._outer()) > 1 and set(symbols) <= set(self.kernel.sizes))
        whole = math.prod(sizes.values())
        wasted = whole > WASTE * math.prod(self._size(d) for _, d in chain) and whole >= UNROLLED
        if (wasted or whole > ROW) and (held := self._chunks(vector)) is not None:
            for o, d in chain:
                self.loop_tiles[o][d.name] = held.tiles[[e for _, e in chain].index(d)]
                o.attributes[UNROLL] = UnitAttr()
            self.threads, self.registers = held.threads, 128
            return held.lanes
        if known and whole <= ROW:
            self.held |= {expr.text(hi): sizes[name] for hi, name in symbols.items()}
            return self._fill(chain, vector, whole)
        self._is_long = True
        if not self._read_again():
            return self._fill(chain, vector, self._scaled(CHUNK))
        self._hint_caches()
        self.registers = 64
        half = 2 if vector is not None and self._narrow(vector) < 4 else 1
        return self._fill(chain, vector, self._scaled(AGAIN // half // power(self._carried())))

    def _chunks(self, vector: LoopDim | None) -> Chunks | None:
        """How all rows are held, if they are alike and several loops read them."""
        chains = self._chains()
        loops = [[o for o, _ in chain] for chain in chains]
        if vector is None or len(self._outer()) < 2 or any(o is not loop[0] for loop in loops for o in loop):
            return None
        if (not self.kept and not self._again()) or any(isinstance(o, ScanOp) for o in body_ops(self.kernel.body)):
            return None
        found = {chunks([d for _, d in chain], self._narrow(vector), self._held_row()) for chain in chains}
        whole = all(len(self.kept & {d.name for _, d in chain}) in (0, len(chain)) for chain in chains)
        alike = len({tuple(d.extent for _, d in chain) for chain in chains}) == 1
        ends = all(chain[-1][1].name == vector.name or self._weight(chain[-1][1], self.found) for chain in chains)
        return found.pop() if whole and alike and ends and len(found) == 1 else None

    def _held_row(self) -> int:
        return HELD_ROW if self.variant.held == HELD else self.variant.held

    def _scaled(self, elements: int) -> int:
        return max(int(elements * self.variant.tile), 1)

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

    def _per_thread(self, elements: int, narrow: int) -> int:
        """Elements of a row's tile for a thread: as many bytes as are in flight well, or the most threads."""
        if self._is_long and self._read_again():
            return max(AGAIN_EACH // power(self._carried()), 4)
        return 16 if self._carried() > 1 else max(16, min(32, 64 // narrow))

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
        for least, narrowest in ((6, 64), (2, 32), (1, COLUMN_NARROW)):
            while self._programs() < least * self.target.processors and self.tiles[vector.name] > narrowest:
                self.tiles[vector.name] //= 2
        chains = self._chains()
        held = max(
            math.prod(power(self._size(d)) for d in {d.name: d for _, d in chain if d.name in self.kept}.values())
            for chain in chains
        )
        while held * self.tiles[vector.name] > ROW and self.tiles[vector.name] > 1:
            self.tiles[vector.name] //= 2
        points = max(COLUMN_BYTES // max(self._column_bytes(vector), 1), COLUMN_POINTS)
        points *= min(max(self.target.processors // self._programs(), 1), COLUMN_LONELY)
        budget = max(1, power(self._scaled(points) + 1) // 2 // self.tiles[vector.name])
        return self.tiles[vector.name] * max(self._fill(chain, None, budget) for chain in chains)

    def _column_each(self, vector: LoopDim) -> int:
        """Elements of a tile of columns for a thread."""
        each = 4 * COLUMN_REGISTERS // (self._column_bytes(vector) + 4 * self._carried())
        return max(min(COLUMN_EACH, power(each + 1) // 2), 4)

    def _column_bytes(self, vector: LoopDim) -> int:
        """Bytes that a loop reads at each point of columns, at most."""
        loads = ([a for a in body_ops(o.body) if isinstance(a, LoadOp)] for o in self.loops)
        columns = ([a for a in found if stride(a, vector.symbol) != 0] for found in loads)
        return max((sum(itemsize(type_of(a).dtype) for a in found) for found in columns), default=0)

    def _read_ahead(self) -> None:
        """Have loops over columns ask for what later turns read, unless that is where the kernel writes, or is told by
        what a turn reads.
        """
        written = {buffer_of(a) for a in self.found if not isinstance(a, LoadOp)}
        for chain in self._chains():
            o, tiles = chain[-1][0], dict(self.tiles)
            for loop, _ in chain:
                tiles |= self.loop_tiles[loop]
            found = accesses(o.body.block.ops)
            turn = sum(itemsize(type_of(a).dtype) * _points(a, tiles) for a in found)
            plain = all(isinstance(a, LoadOp) and not a.indices and buffer_of(a) not in written for a in found)
            if plain and turn <= AHEAD:
                o.attributes[STAGES] = IntegerAttr(1 + min(AHEAD // max(turn, 1), TURNS), i64)

    # The result

    def _write(self, elements: int, per_thread: int) -> None:
        """Set the attributes, for a tile of so many elements."""
        for name, numbers in ((HELD_SIZES, self.held), (MULTIPLE, self._multiples())):
            if numbers:
                self.kernel.attributes[name] = DictionaryAttr({k: IntegerAttr(n, i64) for k, n in numbers.items()})
        _set(self.kernel, self.tiles)
        for o, tiles in self.loop_tiles.items():
            _set(o, tiles)
        if calls := sum(isinstance(o, LONG) for o in body_ops(self.kernel.body)):
            per_thread = min(per_thread, max(LONG_EACH // calls, 4))
        least = 1 if elements < 1024 else 2 if self.loops else 4
        warps = min(max(elements // (32 * per_thread), least), 32) if self.threads is None else self.threads // 32
        warps = min(max(int(warps * self.variant.threads), 1), 32)
        self.kernel.attributes["warps"] = IntegerAttr(warps, i64)
        if self.registers is not None:
            self.kernel.attributes["registers"] = IntegerAttr(self.registers, i64)
        self.kernel.attributes["stages"] = IntegerAttr(3, i64)


def _points(a: Access, tiles: Mapping[str, int]) -> int:
    """Elements that an access touches at a time."""
    return math.prod(tiles.get(name, 1) for name in {s.name for e in a.index for s in expr.symbols(e)})


def _set(op: Operation, tiles: dict[str, int]) -> None:
    given = {name: IntegerAttr(n, i64) for name, n in tiles.items() if n > 1}
    if given:
        op.attributes["tile"] = DictionaryAttr(given)
