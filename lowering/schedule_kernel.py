"""The schedule of one kernel: which dims are looped over inside a grid point, which is the vector, and the grain."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import sympy
from xdsl.dialects.builtin import IntegerAttr, IntegerType, StringAttr, UnitAttr, i64
from xdsl.ir import Attribute, Block, Operation, SSAValue

from ..dialects import expr
from ..dialects.expr import Dim
from ..dialects.loop import (
    DimsAttr,
    EndOp,
    ForOp,
    IndexAttr,
    KernelOp,
    LoadOp,
    LoopDim,
    ScratchOp,
    StoreOp,
    YieldOp,
    body_ops,
    op_symbols,
)
from ..dialects.tensor import TensorType, itemsize
from .fuse_cost import BYTES_PER_OP, Hints, Machine
from .fuse_graph import op_cost
from .schedule_access import Access, accesses, buffer_of, stride, type_of
from .schedule_segments import segment
from .schedule_tiles import stage

BLOCK = 4096
"""Elements of a grid point, about: enough to make the bookkeeping of a point small."""

SHORT = 512
"""Elements of a loop that are not worth a grid point of their own."""

COLUMNS = 64
"""Columns of a grid point of a kernel that reduces or updates along the outer dim of its inputs."""

TILE = (32, 64)
"""Rows and columns of a grid point where one buffer is transposed to another: lines jumped between stay in L1."""

GRAIN = 64 << 10
"""Bytes of work, arithmetic included, below which another thread does not pay."""

PREFETCH = 4096
"""Bytes ahead at which streams are prefetched."""


def schedule_kernel(kernel: KernelOp, bits: int, machine: Machine, hints: Hints) -> None:
    """Rewrite a kernel in place."""
    loops = [o for o in body_ops(kernel.body) if isinstance(o, ForOp)]
    if not loops:
        _flat(kernel, bits, hints)
    elif (d := _column(kernel, hints)) is not None:
        _columns(kernel, d)
    segment(kernel)
    for loop in [o for o in kernel.body.block.ops if isinstance(o, ForOp)]:
        _vectorize(loop, bits, hints)
    _memory(kernel, machine, hints)
    set_grain(kernel)


# Which dim is the vector


def _bytes(a: Access) -> int:
    return itemsize(type_of(a).dtype)


def _unit_weight(found: Iterable[Access], d: LoopDim) -> int:
    """Bytes per point that are neighbours along `d`, less those that jump."""
    weight = 0
    for a in found:
        s = stride(a, d.symbol)
        if s != 0:
            weight += _bytes(a) if s == 1 else -_bytes(a)
    return weight


def _best(dims: Sequence[LoopDim], found: Sequence[Access], hints: Hints) -> LoopDim | None:
    """The dim along which most bytes are neighbours; the last among equals, short ones last."""
    ranked = [(_unit_weight(found, d), hints.size(_block_extent(d)) >= 8, i, d) for i, d in enumerate(dims)]
    return max(ranked, key=lambda r: r[:3])[3] if ranked else None


# Kernels without loops


def _flat(kernel: KernelOp, bits: int, hints: Hints) -> None:
    """Move dims of the grid into one loop, the vector dim innermost, and cut it into blocks where it is long."""
    grid = list(kernel.grid)
    found = accesses(kernel.body.block.ops)
    vector = _best(grid, found, hints)
    if vector is None:
        return
    across = _transposed(grid, found, vector, hints)
    if across is not None:
        block, dim = blocked(vector, "b1", TILE[1])
        outer, rows = blocked(across, "b0", TILE[0])
        rest = [d for d in grid if d is not vector and d is not across]
        kernel.properties["grid"] = DimsAttr.get([*rest, *outer, *block])
        _move_into_loop(kernel, [rows, dim])
        stage(kernel, rows, dim, TILE)
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
    _move_into_loop(kernel, inner)


def _transposed(grid: Sequence[LoopDim], found: Sequence[Access], vector: LoopDim, hints: Hints) -> LoopDim | None:
    """Another dim along which something is contiguous that jumps along the vector dim, if both are long."""
    for d in grid:
        if d is vector or min(hints.size(d.extent), hints.size(vector.extent)) < TILE[0]:
            continue
        if any(stride(a, d.symbol) == 1 and stride(a, vector.symbol) not in (0, 1) for a in found):
            return d
    return None


def blocked(d: LoopDim, name: str, size: int) -> tuple[list[LoopDim], LoopDim]:
    """`d` in blocks: the dim that counts them, none if there is one, and `d` within a block."""
    if isinstance(d.extent, int) and d.extent <= size:
        return [], d
    b = expr.symbol(name)
    end = b * size + size
    whole = isinstance(d.extent, int) and d.extent % size == 0
    hi = end if whole else sympy.Min(sympy.sympify(d.hi), end)
    return [LoopDim(name, 0, expr.ceildiv(d.extent, size))], LoopDim(d.name, b * size, hi)


def _move_into_loop(kernel: KernelOp, inner: list[LoopDim]) -> None:
    """Put the ops that change along `inner` into a loop over it, in order; the others stay before it."""
    block = kernel.body.block
    names = {d.name for d in inner}
    moving: set[SSAValue] = set()
    inside: list[Operation] = []
    for op in list(block.ops):
        if isinstance(op, (EndOp, ScratchOp)):
            continue
        symbols: set[str] = op_symbols(op)
        for nested in body_ops(op.regions[0]) if op.regions else ():
            symbols |= op_symbols(nested)
        used = [v for o in (op, *(body_ops(op.regions[0]) if op.regions else ())) for v in o.operands]
        if isinstance(op, (StoreOp, ForOp)) or symbols & names or any(v in moving for v in used):
            moving.update(op.results)
            inside.append(op)
    for op in inside:
        op.detach()
    end = block.last_op
    assert isinstance(end, EndOp)
    inside.append(YieldOp.create(location=end.location))
    loop = ForOp.make(DimsAttr.get(inner), Block(inside), location=kernel.location)
    block.insert_op_before(loop, end)


# Kernels that reduce along an outer dim


def _column(kernel: KernelOp, hints: Hints) -> LoopDim | None:
    """The last dim of the grid, where the loops inside jump through memory and it does not."""
    if not len(kernel.grid):
        return None
    inner = [a for o in kernel.body.block.ops if isinstance(o, ForOp) for a in accesses(body_ops(o.body))]
    d = _best(list(kernel.grid), inner, hints)
    if d is None or hints.size(d.extent) < 8:
        return None
    dims = [d for o in kernel.body.block.ops if isinstance(o, ForOp) for d in o.dims]
    best = max((_unit_weight(inner, d) for d in dims), default=0)
    return d if _unit_weight(inner, d) > max(best, 0) else None


def _columns(kernel: KernelOp, d: LoopDim) -> None:
    """Run blocks of neighbouring columns side by side: the whole body in a loop along `d`, as vectors."""
    block, dim = blocked(d, "b0", COLUMNS)
    grid = [x for g in kernel.grid for x in (block if g.name == d.name else [g])]
    kernel.properties["grid"] = DimsAttr.get(grid)
    for op in list(kernel.body.block.ops):
        if isinstance(op, ScratchOp):
            _widen_scratch(kernel, op, dim)
    _move_into_loop(kernel, [dim])


def _widen_scratch(kernel: KernelOp, op: ScratchOp, d: LoopDim) -> None:
    """A scratch buffer of one column becomes one of all columns of the block."""
    t = op.res.type
    assert isinstance(t, TensorType)
    offset = expr.normal(d.symbol - d.lo)  # pyright: ignore[reportOperatorIssue]
    for a in accesses(body_ops(kernel.body)):
        if buffer_of(a) is op.res:
            a.properties["index"] = IndexAttr.get([*a.index, offset])
    width = d.extent if isinstance(d.extent, int) else COLUMNS
    op.res._type = TensorType.get([*t.shape, width], t.dtype)  # pyright: ignore


# Vectors


def _vectorize(loop: ForOp, bits: int, hints: Hints) -> None:
    """Order the dims of a loop, and set its vector, lanes and unroll."""
    ops = list(body_ops(loop.body))
    found = accesses(ops)
    dims = list(loop.dims)
    vector = _best([d for d in dims if not _bounds_loops(d, ops)], found, hints)
    nested = [o for o in loop.body.block.ops if isinstance(o, ForOp)]
    inner = max((_unit_weight(found, d) for o in nested for d in o.dims), default=None)
    if vector is None or not _parallel_stores(found, vector) or (inner and inner > _unit_weight(found, vector)):
        for o in nested:
            _vectorize(o, bits, hints)
        return
    ordered = any(k.data.startswith("arg") for k in loop.reduce.data) or _scans(ops)
    if not ordered:
        dims.remove(vector)
        dims.append(vector)
        loop.properties["dims"] = DimsAttr.get(dims)
    extent = _block_extent(vector)
    if hints.size(extent) < 2:
        return
    lanes = max(1, bits // _width(ops, found))
    if isinstance(extent, int):
        while lanes > 4 and lanes >= 2 * extent:
            lanes //= 2
    cost = sum(op_cost(o) for o in ops)
    if loop.reduce.data or any(isinstance(o, ForOp) and o.reduce.data for o in ops):
        unroll = 4 if cost <= 24 else 2
    else:
        unroll = 2 if cost <= 40 else 1
    loop.attributes["vector"] = StringAttr(vector.name)
    loop.attributes["lanes"] = IntegerAttr(lanes, i64)
    loop.attributes["unroll"] = IntegerAttr(unroll, i64)


def _bounds_loops(d: LoopDim, ops: Iterable[Operation]) -> bool:
    """Whether loops inside are longer or shorter along `d`: lanes run through all loops together."""
    bounds = (b for o in ops if isinstance(o, ForOp) for inner in o.dims for b in (inner.lo, inner.hi))
    return any(d.symbol in expr.symbols(b) for b in bounds)


def _scans(ops: Iterable[Operation]) -> bool:
    return any(o.name == "loop.scan" for o in ops)


def _parallel_stores(found: Sequence[Access], d: LoopDim) -> bool:
    """Whether points that differ in `d` write different elements: an index read from memory may name one twice."""
    stores = [a for a in found if isinstance(a, StoreOp) and (a.indices or a.combine is not None)]
    return all(any(e == d.symbol for e in a.index) for a in stores)


def _width(ops: Sequence[Operation], found: Sequence[Access]) -> int:
    """Bits of the elements that most of the work is done on, at least 8."""
    weights: dict[int, int] = {}
    for a in found:
        w = 8 * _bytes(a)
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


# Memory and threads


def _memory(kernel: KernelOp, machine: Machine, hints: Hints) -> None:
    """Stream outputs of kernels that no cache holds, and fetch ahead what is read once and in order."""
    loops = [o for o in kernel.body.block.ops if isinstance(o, ForOp)]
    args = set(kernel.body.block.args)
    loaded = {buffer_of(a) for a in accesses(body_ops(kernel.body)) if isinstance(a, LoadOp)}
    total = sum(hints.bytes(v) for v in args)
    for loop in loops:
        vector = loop.attributes.get("vector")
        if not isinstance(vector, StringAttr) or total <= machine.l2:
            continue
        d = expr.symbol(vector.data)
        for a in accesses(body_ops(loop.body)):
            buffer = buffer_of(a)
            if buffer not in args or stride(a, d) != 1 or a.indices:
                continue
            if isinstance(a, StoreOp):
                if buffer not in loaded and a.combine is None and total > machine.l3 < 4 * hints.bytes(buffer):
                    a.attributes["nontemporal"] = UnitAttr()
            elif len(loops) == 1 and 2 * hints.bytes(buffer) > machine.l2:
                a.attributes["prefetch"] = IntegerAttr(PREFETCH, i64)


def set_grain(kernel: KernelOp) -> None:
    """How many grid points a thread takes at least."""
    if not len(kernel.grid):
        return
    work = _work(list(kernel.body.block.ops))
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
                size = size * _block_extent(d)
            total = total + size * _work(o.body.block.ops)
        elif isinstance(o, (LoadOp, StoreOp)):
            own += _bytes(o)
        else:
            own += op_cost(o) * BYTES_PER_OP
    return expr.normal(total + int(own + 0.5))


def _block_extent(d: LoopDim) -> Dim:
    """The extent of a dim, taking blocks and parts as whole."""
    if isinstance(d.hi, sympy.Min):
        for bound in d.hi.args:
            extent = expr.normal(bound - d.lo)  # pyright: ignore[reportOperatorIssue]
            if isinstance(extent, int):
                return extent
    return d.extent
