"""Tiles of contractions: sums of products of two factors, which tensor cores take a tile at a time.

A program has a tile of rows and columns of the result and goes through the sum in steps. Candidates come from a table,
ordered by a model of time: arithmetic, what programs read from the L2 cache, how long they wait for it, and what comes
from memory, of which the longest counts. Rows are the dims of the grid that one factor alone has, columns those of the
other; dims that both have, or that there is no room for, have one point for each program.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntegerAttr, StringAttr, UnitAttr, i64
from xdsl.ir import Operation, SSAValue

from ..dialects.loop import DimsAttr, ForOp, KernelOp, LoadOp, LoopDim, ScanOp, StoreOp, body_ops
from ..dialects.tensor import itemsize
from .contraction import contractions_of_loop
from .fuse_cost import Hints
from .gpu_target import GpuTarget
from .products import FACTORS
from .schedule_access import accesses, stride, type_of
from .tile_extent import at_most
from .tile_phases import updates
from .tt_contraction import DESCRIPTORS, DOT, PAIRS, SPLIT, factors, is_of_bytes, stored_matrix, symbols_of

_SUMS = {("bf16", "f32"), ("f16", "f32"), ("f32", "f32"), ("f64", "f64"), ("i8", "i32"),
         ("f8E4M3FN", "f32"), ("f8E5M2", "f32")}  # fmt: skip
"""Element types of factors and sums that there is a `tt.dot` for."""

TILED = "lamella.tiled"
"""The attribute of a kernel, and of its function, that names the kind of product and its tile."""

LEAST = 16
"""Rows, columns and steps of a tile at least."""

GROUP = 8
"""Tiles along rows whose programs follow each other, so that they share columns in the L2 cache."""


@dataclass(frozen=True)
class Tile:
    """Rows, columns and depth of a tile, and the warps and stages of a program."""

    rows: int
    columns: int
    depth: int
    warps: int
    stages: int
    descriptors: bool = False
    """Whether the tensor memory accelerator copies the factors."""

    def __str__(self) -> str:
        """`128x256x64 w8 s3 tma`."""
        copied = " tma" if self.descriptors else ""
        return f"{self.rows}x{self.columns}x{self.depth} w{self.warps} s{self.stages}{copied}"

    @staticmethod
    def parse(text: str) -> Tile:
        """The inverse of `str`. Raises ValueError."""
        size, warps, stages, *copied = text.split()
        rows, columns, depth = map(int, size.split("x"))
        return Tile(rows, columns, depth, int(warps[1:]), int(stages[1:]), copied == ["tma"])


@dataclass(frozen=True)
class Product:
    """The loop of a kernel that multiplies matrices, and which dims have tiles."""

    loop: ForOp
    rows: LoopDim
    columns: LoopDim
    depth: LoopDim
    count: int
    """How many sums there are, with the same rows and columns."""
    element: str
    bits: int
    """Of the largest element of a factor in memory."""
    described: bool
    """Whether the tensor memory accelerator can copy a factor."""
    of_bytes: bool
    """Whether a factor of each sum is made of integers that bf16 has."""

    @staticmethod
    def of(kernel: KernelOp, hints: Hints) -> Product | None:
        """The product of a kernel, if it is one that tensor cores or a `tt.dot` can take."""
        loops = [o for o in body_ops(kernel.body) if isinstance(o, (ForOp, ScanOp))]
        if len(loops) != 1 or not isinstance(loop := loops[0], ForOp) or updates(kernel):
            return None
        found = contractions_of_loop(loop, tuple(kernel.grid))
        if len({(c.rows, c.columns) for c in found}) != 1 or any(d.lo != 0 for d in kernel.grid):
            return None
        pairs = factors(loop)
        types = {(str(x.type), str(r.type)) for (x, _), r in zip(pairs, loop.res, strict=True)}
        if not types <= _SUMS or not all(_is_plain(v) for pair in pairs for v in pair):
            return None
        rows, columns = (max(dims, key=lambda d: hints.size(d.extent)) for dims in (found[0].rows, found[0].columns))
        loads = [a for a in accesses(body_ops(loop.body)) if isinstance(a, LoadOp)]

        def neighbours(d: LoopDim) -> tuple[bool, int, int]:
            size = hints.size(d.extent)
            return size >= LEAST, sum(itemsize(type_of(a).dtype) for a in loads if stride(a, d.symbol) == 1), size

        depth = max(loop.dims, key=neighbours)
        described = any(
            stored_matrix(v, d.symbol, depth.symbol) is not None
            for pair in pairs
            for v in pair
            for d in (rows, columns)
        )
        bits = max(8 * itemsize(type_of(a).dtype) for a in loads)
        of_bytes = all(any(map(is_of_bytes, pair)) for pair in pairs)
        return Product(loop, rows, columns, depth, len(pairs), str(pairs[0][0].type), bits, described, of_bytes)

    def kind(self, kernel: KernelOp, hints: Hints) -> str:
        """What a measurement of tiles is remembered by: types, sizes, and how much is computed beside how many sums."""
        sizes = [hints.size(d.extent) for d in (self.rows, self.columns, self.depth)]
        others = math.prod(hints.size(d.extent) for d in kernel.grid) // max(sizes[0] * sizes[1], 1)
        return f"{self.element} {others}x{'x'.join(map(str, sizes))} {self.count}+{len(kernel.body.block.ops)}"


def _is_plain(v: SSAValue) -> bool:
    """Whether a factor is made of what a program may compute again: nothing that loops give or stores change."""
    op = v.owner
    if not isinstance(op, Operation):
        return False
    if op.regions or (isinstance(op, LoadOp) and any(isinstance(u.operation, StoreOp) for u in op.source.uses)):
        return False
    return all(map(_is_plain, op.operands[1:] if isinstance(op, LoadOp) else op.operands))


def _ops_of(v: SSAValue) -> int:
    """Operations that make an element of a factor."""
    op = v.owner
    if not isinstance(op, Operation) or isinstance(op, LoadOp):
        return 0
    return _OPS.get(op.name, 1) + sum(map(_ops_of, op.operands))


def tile_contraction(
    kernel: KernelOp,
    target: GpuTarget,
    hints: Hints,
    *,
    tf32: bool = False,
    candidate: int = 0,
    measured: Mapping[str, str] = {},
    invariant: bool = False,
) -> bool:
    """Set the attributes of a kernel that is a contraction: its candidate of that number, but for kinds of which a
    measurement says which tile is best. `invariant`: the tile that products of these types have, whatever their sizes.
    """
    found = Product.of(kernel, hints)
    if found is None:
        return not invariant and _tile_row(kernel, hints, candidate, measured)
    precision = "ieee"
    if found.element == "f32" and target.sm >= 80:
        precision = PAIRS if tf32 and is_product(kernel) else SPLIT if found.of_bytes else "ieee"
    model = Model(kernel, found, target, hints, precision)
    choices = model.invariant() if invariant else model.candidates(candidate + 1)
    kind = found.kind(kernel, hints)
    best = None if invariant else measured.get(kind)
    if best is not None and model.fits(Tile.parse(best)):
        tile = Tile.parse(best)
    elif choices:
        tile = choices[-1]
    else:
        return False
    rest = [d for d in kernel.grid if d not in (found.rows, found.columns)]
    kernel.properties["grid"] = DimsAttr.get([*rest, found.rows, found.columns])
    _write(kernel, {found.rows.name: tile.rows, found.columns.name: tile.columns}, tile, kind)
    kernel.attributes["group"] = IntegerAttr(GROUP, i64)
    found.loop.attributes |= {"tile": _numbers({found.depth.name: tile.depth}), DOT: StringAttr(precision)}
    if tile.descriptors:
        found.loop.attributes[DESCRIPTORS] = UnitAttr()
    return True


ROW_TILES = ((1, 1024, 1), (1, 2048, 2), (2, 2048, 4), (4, 1024, 4))
"""Columns, elements of the sum, and warps of programs that multiply one row with a matrix."""

LONG_ROW = 8 << 10
"""Elements from which on the first of these is faster than how others are tiled."""


def _tile_row(kernel: KernelOp, hints: Hints, candidate: int, measured: Mapping[str, str]) -> bool:
    """The same for the product of a row: an ordinary reduction. One that is not long is by itself tiled like others."""
    loops = [o for o in body_ops(kernel.body) if isinstance(o, (ForOp, ScanOp))]
    if len(loops) != 1 or not isinstance(loop := loops[0], ForOp) or updates(kernel) or not kernel.grid:
        return False
    pairs = factors(loop)
    grid = {d.name for d in kernel.grid}
    if len(pairs) != 1 or sum(not symbols_of(v) & grid for v in pairs[0]) != 1 or len(loop.dims) != 1:
        return False
    (depth,) = loop.dims
    column = max(kernel.grid, key=lambda d: hints.size(d.extent))
    matrix = [a for a in accesses(body_ops(loop.body)) if stride(a, column.symbol) != 0]
    if column.lo != 0 or depth.lo != 0 or any(stride(a, depth.symbol) != 1 for a in matrix):
        return False
    size = hints.size(depth.extent)
    ops = len(kernel.body.block.ops)
    kind = f"row {hints.size(column.extent)}x{size} {type_of(matrix[0]).dtype} {ops}" if matrix else ""
    fitting: list[Tile | None] = [Tile(1, n, k, w, 3) for n, k, w in ROW_TILES if k <= 2 * size]
    fitting.insert(0 if size <= LONG_ROW else 1, None)
    tile = Tile.parse(measured[kind]) if kind in measured else fitting[candidate] if candidate < len(fitting) else None
    if tile is None:
        return False
    rest = [d for d in kernel.grid if d is not column]
    kernel.properties["grid"] = DimsAttr.get([*rest, column])
    _write(kernel, {column.name: tile.columns}, tile, kind)
    loop.attributes["tile"] = _numbers({depth.name: tile.depth})
    return True


def _write(kernel: KernelOp, tiles: dict[str, int], tile: Tile, kind: str) -> None:
    kernel.attributes |= {
        "tile": _numbers(tiles),
        "warps": IntegerAttr(tile.warps, i64),
        "stages": IntegerAttr(tile.stages, i64),
        TILED: DictionaryAttr({"kind": StringAttr(kind), "tile": StringAttr(str(tile))}),
    }


def is_product(kernel: KernelOp) -> bool:
    """Whether an operator that multiplies matrices is in the kernel: torch's setting for tf32 is about these."""
    ops = kernel.attributes.get("ops")
    return isinstance(ops, ArrayAttr) and any(isinstance(o, StringAttr) and o.data in FACTORS for o in ops)


def _numbers(tiles: dict[str, int]) -> DictionaryAttr:
    return DictionaryAttr({name: IntegerAttr(n, i64) for name, n in tiles.items()})


# Candidates

_TENSOR_CORES = (
    *((128, 256, 8, 3), (256, 128, 8, 3), (128, 128, 8, 4), (128, 128, 8, 3), (128, 128, 4, 3)),
    *((64, 256, 4, 3), (128, 64, 4, 4), (64, 128, 4, 4), (128, 64, 4, 3), (64, 128, 4, 3), (64, 64, 4, 5)),
    *((64, 32, 4, 5), (64, 16, 4, 5), (128, 32, 4, 4), (128, 16, 4, 4)),
    *((16, 16, 1, 6), (16, 16, 2, 6), (16, 32, 2, 5), (16, 32, 4, 5), (16, 64, 4, 5), (16, 128, 4, 4)),
    *((32, 16, 2, 5), (32, 32, 2, 5), (32, 64, 4, 5), (32, 128, 4, 4)),
)
"""Rows, columns, warps and stages; the depth is what 128 bytes hold, or two or four times that in small tiles."""

_INVARIANT = ((64, 128, 4, 4), (64, 64, 4, 4), (64, 32, 4, 4), (64, 32, 4, 2), (32, 32, 4, 2), (16, 16, 4, 2))
"""Those of which the first with room in a program is taken for any number of rows: the order of a sum may be another
with another instruction, which follows from the tile.
"""

_SMALL = 64 * 64
"""Elements of such a tile at most."""

_VECTORS = (
    *((128, 128, 8, 2), (128, 64, 8, 2), (64, 128, 8, 2), (64, 64, 4, 2), (32, 64, 4, 2), (64, 32, 4, 2)),
    *((16, 64, 4, 3), (64, 16, 4, 3), (16, 32, 2, 3), (32, 16, 2, 3)),
)
"""The same without tensor cores, where the depth is 16 elements."""

REGISTERS = 128
"""Sums that a thread holds at most."""

OWN_REGISTERS = 60
"""That it has for other things."""

OWN_SHARED = 4096
"""Shared memory of a program beside its tiles."""

# Measured on an H200, in microseconds
EDGE_US = 1.7
"""Until a program has its first tiles, and from its last one on."""

SHOWN = 0.5
"""The part of it that another program on the same processor does not hide; of several others, divided by them."""

DESCRIBE_US = 1.1
"""For a program to make tensor descriptors; with them steps are shorter."""
DESCRIBED = 0.96

LATENCY_US, LATENCY_US_PER_BYTE = 0.75, 1.6e-5
"""Until a tile that is asked for is there."""

SHARE = 0.7
"""What products reach of the arithmetic that there is."""

LANE_OPS_PER_US = 128 * 1700
"""Operations that a processor makes beside products."""

_OPS = {"math.erf": 15, "math.tanh": 10, "math.exp": 6, "arith.divf": 8, "arith.sitofp": 6, "arith.uitofp": 6}
"""That an operation of the loop level takes, where it is not 1."""

WARP_GROUP_ROWS = 64
"""Rows that the tensor cores of Hopper take at once."""


class Model:
    """How long one contraction takes with a tile."""

    def __init__(self, kernel: KernelOp, found: Product, target: GpuTarget, hints: Hints, precision: str) -> None:
        self.found, self.target = found, target
        flops = target.flops(found.element, precision)
        self.is_vector = flops <= target.vector_flops
        self.flops = SHARE * flops / target.processors
        self.sizes = [hints.size(d.extent) for d in (found.rows, found.columns, found.depth)]
        self.known = [at_most(d) for d in (found.rows, found.columns)]
        others = [d for d in kernel.grid if d not in (found.rows, found.columns)]
        self.matrices = math.prod(hints.size(d.extent) for d in others)
        self.turns = math.prod(hints.size(d.extent) for d in found.loop.dims if d is not found.depth)
        self.memory = sum(hints.bytes(v) for v in kernel.body.block.args) / target.bandwidth
        self.ops = sum(_OPS.get(o.name, 1) for o in kernel.body.block.ops)
        pairs = factors(found.loop)
        inside = {found.rows.name: 0, found.columns.name: 0}
        for v in {v for pair in pairs for v in pair}:
            for name in inside:
                inside[name] += _ops_of(v) if name in symbols_of(v) else 0
        self.made = tuple(inside.values())

    def table(self) -> Iterator[Tile]:
        """All tiles that there are for the type of the factors."""
        if self.is_vector:
            yield from (Tile(m, n, LEAST, w, s) for m, n, w, s in _VECTORS)
            return
        depth = max(LEAST, 1024 // self.found.bits)
        for m, n, w, s in _TENSOR_CORES:
            yield Tile(m, n, depth, w, s)
            if self.found.described and self.target.sm >= 90 and m * n > _SMALL:
                yield Tile(m, n, depth, w, s, descriptors=True)
            for times, fewer in ((2, 1), (4, 2)):
                if m * n <= _SMALL and self.sizes[2] >= 2 * times * depth and s - fewer > 2:
                    yield Tile(m, n, times * depth, w, s - fewer)

    def step(self, t: Tile) -> float:
        """Bytes of the tiles of one step."""
        return (t.rows + self.found.count * t.columns) * t.depth * self.found.bits / 8

    def sums(self, t: Tile) -> float:
        """That a thread holds."""
        return t.rows * t.columns * self.found.count / (32 * t.warps)

    def has_room(self, t: Tile) -> bool:
        """Whether a program has the registers and the shared memory for it."""
        return self.sums(t) <= REGISTERS and t.stages * self.step(t) <= self.target.shared - OWN_SHARED

    def fits(self, t: Tile) -> bool:
        """Whether a program has room for it, and most of it is not beyond the end."""
        sizes = (t.rows, t.columns)
        if any(n is not None and size > max(LEAST, 2 * n - 1) for n, size in zip(self.known, sizes, strict=True)):
            return False
        if not self.is_vector and self.target.sm == 90 and t.rows < WARP_GROUP_ROWS <= self.sizes[0]:
            return False
        return self.has_room(t)

    def invariant(self) -> list[Tile]:
        """The tile of all products of these types, if there is one."""
        depth = LEAST if self.is_vector else max(LEAST, 1024 // self.found.bits)
        tiles = (Tile(m, n, depth, w, s) for m, n, w, s in _INVARIANT)
        return list(filter(self.has_room, tiles))[:1]

    def time(self, t: Tile) -> float:
        """Microseconds. Programs that a processor has at the same time hide each other's first and last steps."""
        (m, n, k), target = self.sizes, self.target
        tiles = -(-m // t.rows) * -(-n // t.columns) * self.matrices
        threads = 32 * t.warps
        room = target.shared - OWN_SHARED
        registers = threads * (self.sums(t) + OWN_REGISTERS)
        together = max(1, int(min(room / (t.stages * self.step(t)), target.threads / threads, 65536 / registers)))
        each = max(1, -(-tiles // target.processors))
        side_by_side = min(together, each)
        flops = 2.0 * t.rows * t.columns * t.depth * self.found.count
        steps = -(-k // t.depth) * self.turns
        busy = max(flops / self.flops, self.step(t) * target.processors / target.l2_bandwidth)
        busy *= DESCRIBED if t.descriptors else 1
        latency = LATENCY_US + LATENCY_US_PER_BYTE * self.step(t)
        # what makes a factor is not done meanwhile; few warps do not use all lanes
        made = (t.rows * self.made[0] + t.columns * self.made[1]) * t.depth / LANE_OPS_PER_US
        alone = made * max(1.0, 4 / t.warps)
        turns = -(-each // side_by_side)
        waiting = turns * (latency / max(t.stages - 1, 1) + alone)
        product = steps * max(each * (busy + made), waiting)
        after = self.ops * t.rows * t.columns / LANE_OPS_PER_US
        described = each * DESCRIBE_US if t.descriptors else 0.0
        if side_by_side == 1:
            product += (each - 1) * EDGE_US + each * after
        elif not self.is_vector:
            product += (each - 1) * EDGE_US * SHOWN / (side_by_side - 1)
        return max(self.memory, product + after, each * after) + EDGE_US + described

    def candidates(self, most: int = 8) -> list[Tile]:
        """Tiles that fit, the one that is taken for the fastest first. Of equals, those that ask for most at a time,
        where memory is what takes the time or there are few rows; else those that ask for most tiles.
        """
        bound = 1.1 * (self.memory + EDGE_US)

        def rank(t: Tile) -> tuple[float, int]:
            time = round(self.time(t), 1)
            return time, -t.depth if time <= bound or self.sizes[0] <= LEAST else -t.stages

        return sorted(filter(self.fits, self.table()), key=rank)[:most]
