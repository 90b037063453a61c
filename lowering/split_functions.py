"""Functions that all products in parts of a module share: what packs a factor that is read as it lies in memory,
what multiplies tiles, and what adds up again sums that are wrong. A kernel that computes a factor has the code of the
first, and of the last, for itself.

```
@lamella.pack.{rows|columns}.{along|across}(from, step, count, inner, size, ahead, to)
@lamella.tiles(rows, columns, sums, pitch, first, size)
@lamella.again(sums, pitch, height, width, k, largest, left, its two steps, right, its two steps)
```
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from xdsl.dialects import llvm
from xdsl.dialects.builtin import UnitAttr, f32, i1, i16, i32, i64
from xdsl.ir import Attribute, SSAValue

from ..dialects.llvm_ext import PTR
from ..dialects.tensor import TensorType
from .address import lane_compare
from .kernel_matrix import BYTES, Tiles
from .kernel_transpose import transpose_block
from .llvm_builder import FunctionBuilder, Num, Shared, vector
from .llvm_properties import NO_FLAGS
from .memory_to_llvm import Element, Memory

INNER = 256
"""Points of the inner dim whose packed factors the L2 cache holds."""

PARTS = 3
STEP = 32
"""Points of the inner dim that a tile of a factor has."""

TILE = 512
"""Elements of a tile of a factor."""

LANES = 16

_ORDER = ((2, 0), (1, 0), (1, 1), (0, 1), (0, 2), (0, 0))
"""The parts that are multiplied, so that few are loaded twice."""

_LEAST, _INFINITE = 0x17800000, 0x7F800000
"""The bits of 2^-80 and of infinity."""

_LOST = 2.0**-98
"""Of the largest number of a block, the size of sums from which on what denormal parts lose is nothing."""

Read = Callable[[SSAValue | None, Num, Num], SSAValue]
"""A vector of a factor for a mask of its lanes, a point of its dim and one of the inner dim, along either."""


# -------------------------------------------------------------------------------------------------------------- packing


class Reading:
    """Vectors of a factor: `right` is the one of columns. `along_inner`: they lie along the inner dim. `whole` says of
    the dim and of the inner one that they end where a vector does.
    """

    name: str
    """Of functions that do it."""

    step: int
    """Points of the inner dim that are written at a time."""

    result: Attribute | None = None
    """The type of what `run` gives."""

    def __init__(self, b: FunctionBuilder, right: bool, along_inner: bool, whole: tuple[bool, bool], read: Read):
        self.b, self.right, self.along_inner, self.whole, self.read = b, right, along_inner, whole, read

    def run(self, start: SSAValue, lo: Num, hi: Num, first: Num, size: Num, k: Num) -> SSAValue | None:
        """Write `size` points of the inner dim from `first` on, of those of the dim from `lo` to `hi`. What lies behind
        its end, which is `k`, is zero.
        """
        raise NotImplementedError

    def vector(self, i: Num, o: Num, hi: Num, r: Num, k: Num) -> SSAValue:
        """The i-th vector along the inner dim, or along the other."""
        b = self.b
        whole_dim, whole_inner = self.whole
        keep: SSAValue | None = None
        mask: SSAValue | None = None
        if self.along_inner:
            o = b.index_add(o, i)
            if not whole_dim:
                o = b.index_min(o, b.index_sub(hi, 1))
            if not whole_inner:
                keep = mask = lane_compare(b, "lt", b.index_sub(k, r), LANES)
        else:
            r = b.index_add(r, i)
            if not whole_dim:
                mask = lane_compare(b, "lt", b.index_sub(hi, o), LANES)
            if not whole_inner:
                keep = b.icmp("slt", b.number(r), b.number(k))
                r = b.index_min(r, b.index_sub(k, 1))
        value = self.read(mask, o, r)
        return value if keep is None else b.select(keep, value, b.constant(0.0, vector(f32, LANES)))


class Packing(Reading):
    """Writes the tiles of a factor: of the right one they have pairs of rows of the inner dim."""

    name, step, result = "pack", STEP, i32

    def run(self, start: SSAValue, lo: Num, hi: Num, first: Num, size: Num, k: Num) -> SSAValue:
        """Write the tiles of `size` points of the inner dim from `first` on. What lies behind its end is zero. The
        result is the largest size of a number, as the bits of an f32.
        """
        b = self.b
        count = b.index_sub(hi, lo)

        def tile(o: Num, r: Num, largest: Sequence[SSAValue]) -> list[SSAValue]:
            place = b.gep(start, b.index_add(b.index_mul(o, INNER * PARTS), b.index_mul(r, TILE * PARTS // STEP)), i16)
            return self._tile(place, b.index_add(lo, o), hi, b.index_add(first, r), k, largest)

        none = [b.constant(0, vector(i16, STEP))]
        if self.along_inner:
            inner = partial(b.loop, 0, size, STEP)
            (found,) = b.loop(0, count, LANES, none, lambda o, c: inner(c, lambda r, c: tile(o, r, c)))
        else:
            inner = partial(b.loop, 0, count, LANES)
            (found,) = b.loop(0, size, STEP, none, lambda r, c: inner(c, lambda o, c: tile(o, r, c)))
        found = b.cast(llvm.ZExtOp, b.intrinsic("vector.reduce.umax", (found,), i16), i32)
        return b.binary(llvm.ShlOp, found, b.constant(16, i32))

    def _tile(self, place: SSAValue, o: Num, hi: Num, r: Num, k: Num, largest: Sequence[SSAValue]) -> list[SSAValue]:
        """The tiles of parts of 16 points of the dim and 32 of the inner one, row by row: a row of the left factor is
        one of the tile, two of the right one are pairs. The result is `largest` with these.
        """
        b = self.b

        def along_rows(i: Num, half: Num) -> SSAValue:
            return self.vector(i, o, hi, b.index_add(r, b.index_mul(half, LANES)), k)

        def read(i: Num, which: int) -> SSAValue:
            """One of the two vectors of a row of the tile."""
            if exchanged is not None:
                at = b.index_add(b.index_mul(i, STEP), which * LANES)
                return b.load(b.gep(exchanged, at, f32), vector(f32, LANES), 64)
            return (
                self.vector(b.index_add(b.index_mul(i, 2), which), o, hi, r, k) if self.right else along_rows(i, which)
            )

        exchanged = self._exchanged(along_rows) if self.along_inner == self.right else None
        words, shift = vector(i16, STEP), b.constant(16, vector(i32, LANES))

        def row(i: Num, largest: Sequence[SSAValue]) -> list[SSAValue]:
            found = largest[0]
            for p, (x, y) in enumerate(zip(*[_split(b, read(i, which)) for which in (0, 1)], strict=True)):
                if self.right:
                    both = b.binary(llvm.OrOp, b.binary(llvm.LShrOp, x, shift), y)
                else:
                    x, y = (b.pure(llvm.BitcastOp, (v,), words) for v in (x, y))
                    both = b.shuffle(x, y, range(1, 2 * STEP, 2))
                b.store(both, b.gep(place, b.index_add(p * TILE, b.index_mul(i, STEP)), i16), 2)
                if p == 0:
                    found = self._larger(found, b.pure(llvm.BitcastOp, (both,), words) if self.right else both)
            return [found]

        return b.loop(0, LANES, 1, largest, row)

    def _larger(self, found: SSAValue, numbers: SSAValue) -> SSAValue:
        """The largest sizes of bf16, without those of infinities and NaN."""
        b, t = self.b, found.type
        size = b.binary(llvm.AndOp, numbers, b.constant(0x7FFF, t))
        finite = b.icmp("ult", size, b.constant(_INFINITE >> 16, t))
        return b.intrinsic("umax", (found, b.select(finite, size, b.constant(0, t))), t)

    def _exchanged(self, read: Callable[[int, Num], SSAValue]) -> SSAValue:
        """Memory with the vectors of a tile's rows where these lie across: two blocks, exchanged."""
        b = self.b
        kept = b.alloca(4 * LANES * STEP)
        # the right factor has its rows one after the other, the left one has halves of them
        block, row = (LANES * LANES, LANES) if self.right else (LANES, STEP)

        def exchange(half: Num, _: Any) -> list[SSAValue]:
            start = b.gep(kept, b.index_mul(half, block), f32)
            for i, v in enumerate(transpose_block(b, [read(i, half) for i in range(LANES)])):
                b.store(v, b.gep(start, i * row, f32), 64)
            return []

        b.loop(0, 2, 1, [], exchange)
        return kept


def _split(b: FunctionBuilder, value: SSAValue) -> list[SSAValue]:
    """Three parts of f32, each in the high half of its 32 bits; the low halves are zero."""
    t, number = vector(i32, LANES), value.type
    high = b.constant(-0x10000, t)
    parts: list[SSAValue] = []
    for _ in range(PARTS - 1):
        near = b.add(b.pure(llvm.BitcastOp, (value,), t), b.constant(0x8000, t))
        parts.append(b.binary(llvm.AndOp, near, high))
        value = b.binary(llvm.FSubOp, value, b.pure(llvm.BitcastOp, (parts[-1],), number), NO_FLAGS)  # it is exact
    # denormals and what is no number have digits left
    return [*parts, b.binary(llvm.AndOp, b.pure(llvm.BitcastOp, (value,), t), high)]


def pack(
    shared: Shared,
    b: FunctionBuilder,
    kind: type[Reading],
    right: bool,
    along_inner: bool,
    operands: tuple[SSAValue, *tuple[Num, ...]],
) -> SSAValue | None:
    """Call the function that does it for a factor in memory: from where on, how many elements a step along the dim that
    its vectors do not lie along is, how many points of its dim there are, and of the inner one, how many of these are
    wanted, what is asked for so many bytes ahead, and where to. The result is that of `kind.run`.
    """

    def make(name: str) -> llvm.FuncOp:
        b = FunctionBuilder([PTR, *[i64] * 5, PTR])
        start, step, count, inner, size, ahead, to = b.arguments
        memory, element = Memory(b), Element.of(TensorType.get([1], "f32"))

        def read(mask: SSAValue | None, o: Num, r: Num) -> SSAValue:
            far, near = (o, r) if along_inner else (r, o)
            pointer = b.gep(start, b.index_add(b.index_mul(far, step), near), f32)
            # rows are often some pages apart, and so in the same few places of the first cache
            memory.fetch(pointer, ahead, LANES * element.size, 2 if along_inner else 1)
            return memory.load_lanes(element, pointer, 1, LANES, mask, None, False)

        return finish(b, name, kind(b, right, along_inner, (False, False), read).run(to, 0, count, 0, size, inner))

    name = f"lamella.{kind.name}.{'columns' if right else 'rows'}.{'along' if along_inner else 'across'}"
    return b.call(shared.use(name, make), [*map(b.number, operands)], kind.result)


def finish(b: FunctionBuilder, name: str, result: SSAValue | None = None) -> llvm.FuncOp:
    """The function, which all kernels of a module call."""
    b.ret(result)
    type = llvm.LLVMVoidType() if result is None else result.type
    # what can be named is compiled once, however many parts a module is compiled in
    return b.finish(name, type, "external", {"no_inline": UnitAttr()})


# ------------------------------------------------------------------------------------------------------------- products


def multiply(
    shared: Shared, b: FunctionBuilder, rows: SSAValue, columns: SSAValue, sums: SSAValue, *numbers: Num
) -> None:
    """Call the function that adds products over a part of the inner dim to four tiles of sums: of packed rows and
    columns; `numbers` are the bytes from a row of sums to the next, which part begins, at 0 with new sums, and its
    points.
    """

    def make(name: str) -> llvm.FuncOp:
        b = FunctionBuilder([*[PTR] * 3, *[i64] * 3])
        rows, columns, sums, pitch, first, size = b.arguments
        _multiply(b, Tiles(b), (rows, columns), sums, pitch, first, size)
        return finish(b, name)

    b.call(shared.use("lamella.tiles", make), [rows, columns, sums, *map(b.number, numbers)])


def _multiply(
    b: FunctionBuilder,
    tiles: Tiles,
    panels: tuple[SSAValue, SSAValue],
    sums: SSAValue,
    pitch: SSAValue,
    first: SSAValue,
    size: Num,
) -> None:
    far = INNER * LANES * PARTS
    below = b.gep(sums, b.index_mul(pitch, LANES // 4), i32)
    places = {(i, j): b.gep((sums, below)[i], j * LANES, i32) for i in (0, 1) for j in (0, 1)}

    def begin() -> list[SSAValue]:
        for i, j in places:
            tiles.zero(i, j)
        return []

    def go_on() -> list[SSAValue]:
        for (i, j), place in places.items():
            tiles.load_sums(i, j, place, pitch)
        return []

    b.when(b.icmp("eq", first, b.constant(0, i64)), begin, go_on)

    def step(r: Num, _: Any) -> list[SSAValue]:
        at = b.index_mul(r, TILE * PARTS // STEP)
        held: list[int | None] = [None, None]
        for parts in _ORDER:
            for side, p in enumerate(parts):
                if held[side] != p:
                    held[side] = p
                    for i in (0, 1):
                        place = b.gep(b.gep(panels[side], at, i16), i * far + p * TILE, i16)
                        tiles.load_factor(side, i, place, BYTES)
            for i, j in places:
                tiles.multiply("tdpbf16ps", i, j)
        return []

    b.loop(0, size, STEP, [], step)
    for (i, j), place in places.items():
        tiles.store_sums(i, j, place, pitch)


# -------------------------------------------------------------------------------------------- sums that are wrong


class Again:
    """Adds up again, by vectors, the sums of a block that are no numbers, or small. `factors(m, n, r, mask)` are
    vectors of both for columns from `n` on, `has_nan(m)` says it of a row of the left one, `whole` that columns end
    where a vector does; all from where the block begins.
    """

    def __init__(
        self,
        b: FunctionBuilder,
        factors: Callable[[Num, Num, Num, SSAValue | None], tuple[SSAValue, SSAValue]],
        has_nan: Callable[[Num], SSAValue],
        whole: bool,
    ) -> None:
        self.b, self.factors, self.has_nan, self.whole = b, factors, has_nan, whole

    def run(self, sums: SSAValue, pitch: Num, height: Num, width: Num, k: Num, largest: SSAValue) -> None:
        """`pitch` is in elements; `largest` is that of both factors, as the bits of an f32."""
        b = self.b
        lost = b.binary(llvm.FMulOp, b.pure(llvm.BitcastOp, (largest,), f32), b.constant(_LOST, f32), NO_FLAGS)
        least = b.intrinsic("umax", (b.pure(llvm.BitcastOp, (lost,), i32), b.constant(_LEAST, i32)), i32)
        self.least = b.splat(least, LANES)
        self.zeros = b.splat(b.icmp("ugt", least, b.constant(_LEAST, i32)), LANES)
        """Whether sums of zero may be of what has been lost."""

        def row(m: Num, _: Any) -> list[SSAValue]:
            return self._row(b.gep(sums, b.index_mul(m, pitch), f32), m, width, k)

        b.loop(0, height, 1, [], row)

    def _row(self, row: SSAValue, m: Num, width: Num, k: Num) -> list[SSAValue]:
        """Look at the sums of a row."""
        b = self.b
        none = b.constant(0, vector(i1, LANES))

        def look(n: Num, found: Sequence[SSAValue]) -> list[SSAValue]:
            return [b.binary(llvm.OrOp, found[0], self._is_wrong(b.load(b.gep(row, n, f32), vector(f32, LANES), 4)))]

        (found,) = b.loop(0, width, LANES, [none], look)

        def columns() -> list[SSAValue]:
            return b.loop(0, width, LANES, [], lambda n, _: self._again(row, m, n, width, k))

        def again() -> list[SSAValue]:
            # of a row with a NaN all sums are, and were
            number = b.binary(llvm.XOrOp, self.has_nan(m), b.constant(1, i1))
            return b.when(number, columns)

        b.when(b.intrinsic("vector.reduce.or", (found,), i1), again)
        return []

    def _is_wrong(self, sums: SSAValue) -> SSAValue:
        """Which sums are no numbers, or small."""
        b = self.b
        t = vector(i32, LANES)
        size = b.binary(llvm.AndOp, b.pure(llvm.BitcastOp, (sums,), t), b.constant(0x7FFFFFFF, t))
        outside = b.icmp("uge", b.sub(size, self.least), b.sub(b.constant(_INFINITE, t), self.least))
        counts = b.binary(llvm.OrOp, b.icmp("ne", size, b.constant(0, t)), self.zeros)
        return b.binary(llvm.AndOp, outside, counts)

    def _again(self, row: SSAValue, m: Num, n: Num, width: Num, k: Num) -> list[SSAValue]:
        """Add up the products of a vector of columns once more, where they are wrong."""
        b = self.b
        place = b.gep(row, n, f32)
        sums = b.load(place, vector(f32, LANES), 4)
        wrong = self._is_wrong(sums)
        mask = None
        if not self.whole:
            mask = lane_compare(b, "lt", b.index_sub(width, n), LANES)
            wrong = b.binary(llvm.AndOp, wrong, mask)

        def add(r: Num, carried: Sequence[SSAValue]) -> list[SSAValue]:
            return [b.intrinsic("fma", (*self.factors(m, n, r, mask), carried[0]), vector(f32, LANES))]

        def again() -> list[SSAValue]:
            return b.loop(0, k, 1, [b.constant(0.0, vector(f32, LANES))], add)

        (new,) = b.when(b.intrinsic("vector.reduce.or", (wrong,), i1), again, [sums])
        b.store(b.select(wrong, new, sums), place, 4)
        return []


def has_nan(b: FunctionBuilder, read: Callable[[SSAValue | None, Num], SSAValue], k: Num, whole: bool) -> SSAValue:
    """Whether a value of the `k` that `read` reads vectors of is NaN; `whole`: they end where a vector does."""

    def look(r: Num, found: Sequence[SSAValue]) -> list[SSAValue]:
        mask = None if whole else lane_compare(b, "lt", b.index_sub(k, r), LANES)
        value = read(mask, r)
        nan = b.fcmp("uno", value, value)
        return [b.binary(llvm.OrOp, found[0], nan if mask is None else b.binary(llvm.AndOp, nan, mask))]

    (found,) = b.loop(0, k, LANES, [b.constant(0, vector(i1, LANES))], look)
    return b.intrinsic("vector.reduce.or", (found,), i1)


def add_again(
    shared: Shared,
    b: FunctionBuilder,
    sums: SSAValue,
    numbers: Sequence[Num],
    largest: SSAValue,
    left: Sequence[Num],
    right: Sequence[Num],
) -> None:
    """Call the function that does it where both factors are in memory: `numbers` are the elements from a row of sums
    to the next, rows, columns and points of the inner dim; `largest` as in `Again.run`; of a factor where it begins,
    and its elements from a point of its dim to the next, and of the inner one.
    """

    def make(name: str) -> llvm.FuncOp:
        b = FunctionBuilder([PTR, *[i64] * 4, i32, *[PTR, i64, i64] * 2])
        sums, pitch, height, width, k, largest, x, x_m, x_r, w, w_n, w_r = b.arguments
        memory, element = Memory(b), Element.of(TensorType.get([1], "f32"))

        def at(start: SSAValue, *steps: tuple[Num, SSAValue]) -> SSAValue:
            for i, step in steps:
                start = b.gep(start, b.index_mul(i, step), f32)
            return start

        def lanes(start: SSAValue, step: SSAValue, mask: SSAValue | None) -> SSAValue:
            places = b.gep(start, b.mul(b.splat(step, LANES), b.iota(LANES)), f32)
            return memory.load_lanes(element, places, None, LANES, mask, None, False)

        def factors(m: Num, n: Num, r: Num, mask: SSAValue | None) -> tuple[SSAValue, SSAValue]:
            value = b.load(at(x, (m, x_m), (r, x_r)), f32, 4)
            return b.splat(value, LANES), lanes(at(w, (n, w_n), (r, w_r)), w_n, mask)

        def nan(m: Num) -> SSAValue:
            return has_nan(b, lambda mask, r: lanes(at(x, (m, x_m), (r, x_r)), x_r, mask), k, False)

        Again(b, factors, nan, False).run(sums, pitch, height, width, k, largest)
        return finish(b, name)

    b.call(shared.use("lamella.again", make), [*map(b.number, (sums, *numbers, largest, *left, *right))])
