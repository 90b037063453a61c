"""The schedule of one kernel: which dims are looped over inside a grid point, which is the vector, and the grain."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import sympy
from xdsl.dialects.builtin import IntegerAttr, IntegerType, StringAttr, i64
from xdsl.ir import Attribute, Operation

from ..dialects import expr
from ..dialects.expr import Dim
from ..dialects.loop import (
    ALONG,
    DimsAttr,
    ForOp,
    IndexAttr,
    KernelOp,
    LoadOp,
    LoopDim,
    StoreOp,
    body_ops,
)
from .cascade import BLOCK as TERMS
from .fuse_cost import BYTES_PER_OP, Hints, Machine
from .fuse_graph import op_cost
from .kernel_split import SPLIT
from .schedule_access import Access, accesses, stride
from .schedule_apart import set_apart
from .schedule_attention import tile_attention
from .schedule_columns import LEAST as COLUMNS
from .schedule_columns import column_dim, columns
from .schedule_dims import best_dim, block_extent, blocked, bytes_of, move_into_loop, unit_weight
from .schedule_halves import compare_halves, convert_bytes
from .schedule_memory import memory
from .schedule_order import order_points
from .schedule_products import tile_product
from .schedule_segments import segment
from .schedule_sides import set_sides
from .schedule_tiles import crowded, gather_first, stage, tile_of
from .vectors import Vectors

OWN_CODE = frozenset({"transpose", "pack", "matrix"})
"""Loops with one of these have code of their own."""

BLOCK = 4096
"""Elements of a grid point, about: enough to make the bookkeeping of a point small."""

SHORT = 512
"""Elements of a loop that are not worth a grid point of their own."""

LONG = 32
"""Extents from which on rows and columns are exchanged in tiles."""

GRAIN = 64 << 10
"""Bytes of work, arithmetic included, below which another thread does not pay."""

PACKED = 32
"""Products of packed factors that take as long as one of factors that are read where they lie."""

OFTEN = 4
"""Points of a block that use what is gathered for it, at least."""


def schedule_kernel(kernel: KernelOp, vectors: Vectors, machine: Machine, hints: Hints) -> None:
    """Rewrite a kernel in place."""
    if tile_attention(kernel, vectors, machine, hints):
        for loop in [o for o in kernel.body.block.ops if isinstance(o, ForOp)]:
            _vectorize_free(loop, vectors, hints)
        set_grain(kernel)
        return
    loops = [o for o in body_ops(kernel.body) if isinstance(o, ForOp)]
    tiling = tile_product(kernel, vectors, machine, hints)
    column = tiling.column if tiling is not None else column_dim(kernel, hints) if loops else None
    if not loops:
        _flat(kernel, vectors.bits, machine, hints)
    elif column is not None and not (tiling is not None and tiling.placed):
        columns(kernel, column, machine, hints)
    segment(kernel)
    compare_halves(kernel)
    convert_bytes(kernel)
    far = sum(map(hints.bytes, kernel.body.block.args)) > machine.l2
    for loop in [o for o in kernel.body.block.ops if isinstance(o, ForOp) and OWN_CODE.isdisjoint(o.attributes)]:
        _vectorize(loop, vectors, hints, None if tiling is None else tiling.column, far)
        if tiling is not None and tiling.copies is not None:
            _unroll_sums(loop, tiling.copies, tiling.column is not None)
    if tiling is None:
        order_points(kernel, machine, hints)
        set_sides(kernel, hints)
    packs = vectors.blocks and not vectors.amx and any(SPLIT in o.attributes for o in kernel.body.block.ops)
    memory(kernel, machine, hints, tiling is not None, packs)
    if tiling is None:
        set_apart(kernel, vectors)
    set_grain(kernel)


# Kernels without loops


def _flat(kernel: KernelOp, bits: int, machine: Machine, hints: Hints) -> None:
    """Move dims of the grid into one loop, the vector dim innermost, and cut it into blocks where it is long."""
    grid = list(kernel.grid)
    found = accesses(kernel.body.block.ops)
    vector = best_dim(grid, found, hints)
    if vector is None:
        return
    across = _transposed(grid, found, vector, hints)
    if across is not None:
        d, access = across
        near = sum(map(hints.bytes, kernel.body.block.args)) <= machine.l3
        tile = tile_of(access, machine.runs > 0 and near and crowded(found, d))
        block, dim = blocked(vector, "b1", tile[1])
        outer, rows = blocked(d, "b0", tile[0])
        rest = [x for x in grid if x is not vector and x is not d]
        kernel.properties["grid"] = DimsAttr.get([*rest, *outer, *block])
        move_into_loop(kernel, [rows, dim])
        stage(kernel, rows, dim, tile, bits)
        return
    grid.remove(vector)
    inner = [vector]
    # sizes that are not known may be large when the kernel runs: those dims stay in the grid
    while grid and isinstance(n := expr.product(d.extent for d in (grid[-1], *inner)), int) and n <= BLOCK:
        inner.insert(0, grid.pop())
    size = expr.product(d.extent for d in inner)
    if not isinstance(vector.extent, int) or vector.extent > 2 * BLOCK:
        block, dim = blocked(vector, "b0", BLOCK)
        grid += block
        inner[-1] = dim
    elif grid and isinstance(size, int) and size <= SHORT:
        block, dim = blocked(grid.pop(), "b0", BLOCK // size)
        grid += block
        inner.insert(0, dim)
    kernel.properties["grid"] = DimsAttr.get(grid)
    move_into_loop(kernel, inner)
    if hints.points(tuple(inner[:-1])) >= OFTEN:
        gather_first(kernel, inner[-1])


def _transposed(
    grid: Sequence[LoopDim], found: Sequence[Access], vector: LoopDim, hints: Hints
) -> tuple[LoopDim, Access] | None:
    """Another dim along which something is contiguous that jumps along the vector dim, if both are long."""
    for d in grid:
        if d is vector or min(hints.size(d.extent), hints.size(vector.extent)) < LONG:
            continue
        for a in found:
            if stride(a, d.symbol) == 1 and stride(a, vector.symbol) not in (0, 1):
                return d, a
    return None


# Vectors


def _vectorize(loop: ForOp, vectors: Vectors, hints: Hints, column: LoopDim | None = None, far: bool = False) -> None:
    """Order the dims of a loop, and set its vector, lanes and unroll. `column` is the vector where that is decided;
    `far`: memory is waited for.
    """
    ops = list(body_ops(loop.body))
    found = accesses(ops)
    dims = list(loop.dims)
    vector = best_dim([d for d in dims if not _bounds_loops(d, ops)], found, hints)
    nested = [o for o in loop.body.block.ops if isinstance(o, ForOp)]
    inner = max((unit_weight(found, d) for o in nested for d in o.dims), default=None)
    decided = column is not None and vector is not None and column.name == vector.name
    across = inner and not decided and vector is not None and inner > unit_weight(found, vector)
    if vector is None or not _parallel_stores(found, vector) or across:
        for o in nested:
            _vectorize(o, vectors, hints, far=far)
        return
    ordered = any(k.data.startswith("arg") for k in loop.reduce.data) or _scans(ops)
    if not ordered:
        dims.remove(vector)
        dims.append(vector)
        loop.properties["dims"] = DimsAttr.get(dims)
    extent = block_extent(vector)
    if hints.size(extent) < 2:
        return
    lanes = max(1, vectors.bits // _width(ops, found))
    if isinstance(extent, int):
        while lanes > 4 and lanes >= 2 * extent:
            lanes //= 2
    loop.attributes["vector"] = StringAttr(vector.name)
    loop.attributes["lanes"] = IntegerAttr(lanes, i64)
    loop.attributes["unroll"] = IntegerAttr(_unroll(loop, ops, extent, lanes, vectors, far), i64)


def _vectorize_free(loop: ForOp, vectors: Vectors, hints: Hints) -> None:
    """Vectorize what has no vectors yet, of a loop and of those in it."""
    if not OWN_CODE.isdisjoint(loop.attributes):
        return
    inside = [o for o in (loop, *body_ops(loop.body)) if isinstance(o, ForOp)]
    if not any("vector" in o.attributes or not OWN_CODE.isdisjoint(o.attributes) for o in inside):
        _vectorize(loop, vectors, hints)
    elif "vector" not in loop.attributes:
        for o in [o for o in loop.body.block.ops if isinstance(o, ForOp)]:
            _vectorize_free(o, vectors, hints)


def _unroll_sums(loop: ForOp, copies: int, all: bool) -> None:
    """Set how many vectors the sums of a product have; `all`: also where the loop with the vector is around them."""
    for o in (loop, *body_ops(loop.body)):
        if isinstance(o, ForOp) and "vector" in o.attributes and (all or o.reduce.data):
            o.attributes["unroll"] = IntegerAttr(copies, i64)


def _unroll(loop: ForOp, ops: Sequence[Operation], extent: Dim, lanes: int, vectors: Vectors, far: bool) -> int:
    """Vectors side by side: chains of a reduction hide each other's latency; columns in the second cache are read in
    long runs, from memory so that all partial sums stay in registers, of which a few rows have no more than results;
    one row after the other is read as it lies, whatever is side by side.
    Where an element takes longer than a chain waits, as an exponential does, copies are only more code to compile.
    """
    cost = sum(op_cost(o) for o in ops)
    states = sum(len(o.results) for o in ops if isinstance(o, ForOp))
    if loop.reduce.data:
        return 4 if cost < 8 else 2 if cost <= 64 else 1
    if not states:
        return 2 if cost <= 40 else 1
    if cost > 24 or not isinstance(extent, int):
        return 4 if cost <= 24 else 2
    most = max(4, min(vectors.values // states, extent // lanes))
    rows = [block_extent(d) for o in ops if isinstance(o, ForOp) for d in o.dims]
    if cost <= 4 and all(n == 1 for n in rows):
        return 4
    if cost <= 4 and all(isinstance(n, int) and n <= TERMS for n in rows):
        return next((n for n in range(most, 4, -1) if extent // lanes % n == 0), 4)
    return most if cost <= 4 and not far else max(4, min(most, COLUMNS // lanes))


def _bounds_loops(d: LoopDim, ops: Iterable[Operation]) -> bool:
    """Whether loops inside are longer or shorter along `d`: lanes run through all loops together."""
    bounds = (b for o in ops if isinstance(o, ForOp) for inner in o.dims for b in (inner.lo, inner.hi))
    return any(d.symbol in expr.symbols(b) for b in bounds)


def _scans(ops: Iterable[Operation]) -> bool:
    return any(o.name in ALONG for o in ops)


def _parallel_stores(found: Sequence[Access], d: LoopDim) -> bool:
    """Whether points that differ in `d` write different elements: an index read from memory may name one twice."""
    stores = [a for a in found if isinstance(a, StoreOp) and (a.indices or a.combine is not None)]
    return all(any(d.symbol not in expr.symbols(expr.distance(d.symbol, e)) for e in a.index) for a in stores)


def _width(ops: Sequence[Operation], found: Sequence[Access]) -> int:
    """Bits of the elements that most of the work is done on, at least 8."""
    weights: dict[int, int] = {}
    for a in found:
        w = 8 * bytes_of(a)
        weights[w] = weights.get(w, 0) + 1
    for o in ops:
        if o.name.partition(".")[0] in ("arith", "math") and o.name != "arith.constant":
            for r in o.results:
                if (w := _scalar_bits(r.type)) > 1:
                    weights[w] = weights.get(w, 0) + max(1, op_cost(o))
    return max(weights, key=lambda w: (weights[w], w), default=32)


def _scalar_bits(t: Attribute) -> int:
    if isinstance(t, IntegerType):
        return t.width.data
    return 8 * getattr(t, "size", 4)


# Threads


def set_grain(kernel: KernelOp) -> None:
    """How many grid points a thread takes at least."""
    if not len(kernel.grid):
        return
    work = _in_first_block(_work(list(kernel.body.block.ops)), kernel)
    points = sympy.Max(1, expr.ceildiv(GRAIN, work)) if not isinstance(work, int) else max(1, -(-GRAIN // max(1, work)))
    grain: Attribute = IntegerAttr(points, i64) if isinstance(points, int) else IndexAttr.get([points])
    kernel.attributes["grain"] = grain


def _work(ops: Iterable[Operation]) -> Dim:
    """Bytes that a point moves, arithmetic included."""
    total: Any = 0
    own = 0.0
    for o in ops:
        if isinstance(o, ForOp):
            size: Any = 1
            for d in o.dims:
                size = size * block_extent(d)
            total = total + size * _work(o.body.block.ops)
        elif isinstance(o, (LoadOp, StoreOp)):
            own += bytes_of(o)
        else:
            own += op_cost(o) * BYTES_PER_OP
    return expr.normal(total + int(own + 0.5))


def whole_work(kernel: KernelOp) -> Dim:
    """Bytes that all points of a kernel move, arithmetic included; the last block of a dim counts for what it has."""

    def moved(ops: Iterable[Operation], grid: dict[sympy.Symbol, Dim], times: Any) -> Any:
        total: Any = 0
        own = 0.0
        for o in ops:
            if isinstance(o, ForOp):
                left, size = dict(grid), times
                for d in o.dims:
                    extent, block = _unblocked(d, left)
                    left.pop(block, None)  # pyright: ignore[reportArgumentType, reportCallIssue]
                    size = size * extent
                inside = moved(o.body.block.ops, left, size)
                total = total + (expr.floordiv(inside, PACKED) if "matrix" in o.attributes else inside)
            else:
                own += bytes_of(o) if isinstance(o, (LoadOp, StoreOp)) else op_cost(o) * BYTES_PER_OP
        return total + times * expr.product(grid.values()) * int(own + 0.5)

    total = moved(kernel.body.block.ops, {d.symbol: d.extent for d in kernel.grid}, 1)
    return _in_first_block(expr.normal(total), kernel)


def _in_first_block(work: Dim, kernel: KernelOp) -> Dim:
    """The work of a point where that is not the same for all: the last block may be a smaller one."""
    return expr.substitute(work, {d.symbol: 0 for d in kernel.grid})


def _unblocked(d: LoopDim, grid: dict[sympy.Symbol, Dim]) -> tuple[Dim, sympy.Symbol | None]:
    """How many points a dim has in all blocks, and the dim that counts these, where it is one of the grid."""
    counting = next((s for s in expr.symbols(d.lo) if s in grid), None)
    if counting is not None and isinstance(d.hi, sympy.Min):
        for bound in d.hi.args:
            if counting not in bound.free_symbols:
                return expr.normal(bound), counting
    return block_extent(d), None
