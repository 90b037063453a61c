"""Long sums of columns in strips of rows: what a page has of all columns is read before the next pages are.

for [d0 = 512*b0 : 512*b0 + 512] { %s = for [r0 = 4096] reduce [add] {…}; store f(%s), %y[d0] }

for [d0 = …] { store 0, %t[d0 - 512*b0] }
for [b1 = 16, d0 = …] { %s = for [r0 = 256*b1 : 256*b1 + 256] reduce [add] {…}; store %s, %t[d0 - 512*b0] combine add }
for [d0 = …] { %s = load %t[d0 - 512*b0]; store f(%s), %y[d0] }

A vector's worth of columns from first to last row reads a few lines of each page, over and over again.
"""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.ir import Block, Operation, SSAValue
from xdsl.traits import Pure

from ..dialects import expr
from ..dialects.loop import (
    DimsAttr,
    ForOp,
    IndexAttr,
    KernelOp,
    LoadOp,
    LoopDim,
    ScratchOp,
    StoreOp,
    YieldOp,
    body_ops,
)
from ..dialects.tensor import TensorType
from .cascade import BLOCK
from .fuse_body import zero_of
from .fuse_cost import Hints, Machine
from .fuse_emit import drop_unused
from .fuse_graph import op_cost
from .fuse_turns import SUMMED
from .schedule_access import accesses
from .schedule_dims import blocked, bytes_of

LEAST, MOST = BLOCK * BLOCK, 4 * BLOCK * BLOCK
"""Rows of a strip: no sum has more terms than with blocks of blocks, nor a strip more pages than are kept in mind."""

COLUMNS = 4096
"""Columns of a grid point at most, whose sums are in the first cache."""


def strips_of(kernel: KernelOp, d: LoopDim, hints: Hints, machine: Machine) -> tuple[ForOp, int] | None:
    """The only loop of a kernel, and the rows of a strip, where sums of columns along `d` are made so."""
    ops = list(kernel.body.block.ops)
    loops = [o for o in ops if isinstance(o, ForOp)]
    if len(loops) != 1 or any(isinstance(o, ScratchOp) for o in ops):
        return None
    loop = loops[0]
    before = ops[: ops.index(loop)]
    if not all(isinstance(o, LoadOp) or o.has_trait(Pure) for o in (*before, *_inside(loop))):
        return None
    if any(map(op_cost, _inside(loop))):  # where there is more to compute, memory is waited for less
        return None
    if {k.data for k in loop.reduce.data} != {"add"} or any(f"{r.type}" not in SUMMED for r in loop.res):
        return None
    rows = loop.dims[0].extent
    if len(loop.dims) != 1 or loop.dims[0].lo != 0 or not isinstance(rows, int):
        return None
    strip = max(LEAST, -(-rows // (2 * BLOCK * BLOCK)) * BLOCK)
    read = hints.size(d.extent) * rows * max((bytes_of(a) for a in accesses(_inside(loop))), default=0)
    if 2 * strip > rows or strip > MOST or read <= machine.l2:
        return None
    return loop, next((n for n in range(strip, min(2 * strip, rows)) if rows % n == 0), strip)


def _inside(loop: ForOp) -> list[Operation]:
    return [o for o in body_ops(loop.body) if not isinstance(o, YieldOp)]


def make_strips(kernel: KernelOp, loop: ForOp, rows: int, width: int) -> None:
    """Write out the three loops for the one over columns that is around a loop over rows."""
    block, location, around = kernel.body.block, loop.location, loop.parent_op()
    assert isinstance(around, ForOp)
    (d,) = around.dims
    at = IndexAttr.get([expr.normal(d.symbol - d.lo)])  # pyright: ignore[reportOperatorIssue]
    sums = [ScratchOp.create(result_types=[TensorType.get([width], f"{r.type}")], location=location) for r in loop.res]
    begin: list[Operation] = []
    for s, r in zip(sums, loop.res, strict=True):
        value = {"value": zero_of(r.type)}
        zero = arith.ConstantOp.create(result_types=[r.type], properties=value, location=location)
        begin += [zero, StoreOp.make(zero.results[0], s.res, at, location=location)]
    counting, strip = blocked(loop.dims[0], "b1", rows)
    known: dict[SSAValue, SSAValue] = {}
    added: list[Operation] = [o.clone(known) for o in around.body.block.ops if o.is_before_in_block(loop)]
    part = loop.clone(known)
    part.properties["dims"] = DimsAttr.get([strip])
    added.append(part)
    added += [StoreOp.make(r, s.res, at, combine="add", location=location) for r, s in zip(part.res, sums, strict=True)]
    for r, s in zip(loop.res, sums, strict=True):
        read = LoadOp.make(s.res, at, location=location)
        around.body.block.insert_op_before(read, loop)
        r.replace_all_uses_with(read.res)
    loop.detach()
    loop.erase()
    block.insert_ops_before(sums, around)
    for dims, ops in (([d], begin), ([*counting, d], added)):
        body = Block([*ops, YieldOp.create(location=location)])
        block.insert_op_before(ForOp.make(DimsAttr.get(dims), body, location=location), around)
    drop_unused(block)
