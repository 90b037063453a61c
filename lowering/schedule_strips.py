"""Long sums of columns in strips of rows: what a page has of all columns is read before the next pages are.

for [d0 = 512*b0 : 512*b0 + 512] { %s = for [r0 = 4096] reduce [add] {…}; store f(%s), %y[d0] }

for [d0 = …] { store 0, %u[d0 - 512*b0]; store 0, %t[d0 - 512*b0] }
for [b1 = 16] {
  for [b2 = 64, d0 = …] {
    %s = for [r0 = 256*b1 + 4*b2 : 256*b1 + 4*b2 + 4] reduce [add] {…}; store %s, %t[d0 - 512*b0] combine add
  }
  for [d0 = …] { %v = load %t[d0 - 512*b0]; store %v, %u[d0 - 512*b0] combine add; store 0, %t[d0 - 512*b0] }
}
for [d0 = …] { %s = load %u[d0 - 512*b0]; store f(%s), %y[d0] }

A vector's worth of columns from first to last row reads a few lines of each page, over and over again. Four rows at a
time are read as they lie in memory.
"""

from __future__ import annotations

import sympy
from xdsl.dialects import arith
from xdsl.dialects.builtin import f32, f64
from xdsl.ir import Attribute, Block, Operation, SSAValue
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
from .contraction import contractions_of_loop
from .fuse_body import zero_of
from .fuse_cost import Hints, Machine
from .fuse_emit import drop_unused
from .fuse_turns import SUMMED
from .schedule_access import accesses
from .schedule_dims import blocked, bytes_of

ROWS = 8 * BLOCK
"""Rows of a strip: so few that their sums are as exact as a cascade's, and what is done after each costs little."""

MOST = 4 * BLOCK * BLOCK
"""Strips at most where there is nothing wider to add them up in."""

TOGETHER = 4
"""Rows that are added up before what was added up before: memory is read in long runs, of few rows at a time."""

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
    if {k.data for k in loop.reduce.data} != {"add"} or any(f"{r.type}" not in SUMMED for r in loop.res):
        return None
    if len(loop.dims) != 1 or loop.dims[0].lo != 0 or contractions_of_loop(loop, tuple(kernel.grid), True):
        return None
    extent = loop.dims[0].extent
    rows = hints.size(extent)
    read = hints.size(d.extent) * rows * max((bytes_of(a) for a in accesses(_inside(loop))), default=0)
    if rows < 2 * ROWS or read <= machine.l2:
        return None
    if any(r.type == f64 for r in loop.res) and not (isinstance(extent, int) and extent <= MOST * ROWS):
        return None
    whole = (n for n in range(ROWS, min(2 * ROWS, rows), TOGETHER) if isinstance(extent, int) and extent % n == 0)
    return loop, next(whole, ROWS)


def _inside(loop: ForOp) -> list[Operation]:
    return [o for o in body_ops(loop.body) if not isinstance(o, YieldOp)]


def _wide(type: Attribute) -> Attribute:
    """What sums of strips are added up in: there may be any number of strips."""
    return f64 if type == f32 else type


def make_strips(kernel: KernelOp, loop: ForOp, rows: int, width: int) -> None:
    """Write out the loops for the one over columns that is around a loop over rows."""
    block, location, around = kernel.body.block, loop.location, loop.parent_op()
    assert isinstance(around, ForOp)
    (d,) = around.dims
    at = IndexAttr.get([expr.normal(d.symbol - d.lo)])  # pyright: ignore[reportOperatorIssue]

    def scratch(type: Attribute) -> ScratchOp:
        return ScratchOp.create(result_types=[TensorType.get([width], f"{type}")], location=location)

    def columns(dims: list[LoopDim], ops: list[Operation]) -> ForOp:
        return ForOp.make(DimsAttr.get(dims), Block([*ops, YieldOp.create(location=location)]), location=location)

    def zero(type: Attribute, target: ScratchOp) -> list[Operation]:
        made = arith.ConstantOp.create(result_types=[type], properties={"value": zero_of(type)}, location=location)
        return [made, StoreOp.make(made.results[0], target.res, at, location=location)]

    sums = [(r, scratch(r.type), scratch(_wide(r.type))) for r in loop.res]
    begin, end = list[Operation](), list[Operation]()
    for r, strip, whole in sums:
        begin += [*zero(_wide(r.type), whole), *zero(r.type, strip)]
        read = LoadOp.make(strip.res, at, location=location)
        wide = [arith.ExtFOp(read.res, f64)] if r.type == f32 else []
        end += [
            read,
            *wide,
            StoreOp.make([read, *wide][-1].results[0], whole.res, at, combine="add", location=location),
        ]
        end += zero(r.type, strip)
    (counting, dim), step = blocked(loop.dims[0], "b1", rows), expr.symbol("b2")
    part = LoopDim(dim.name, expr.normal(dim.lo + TOGETHER * step), expr.after(dim.lo + TOGETHER * step, TOGETHER))
    if isinstance(dim.hi, sympy.Min):
        part = LoopDim(part.name, part.lo, sympy.Min(loop.dims[0].hi, part.hi))
    known: dict[SSAValue, SSAValue] = {}
    added: list[Operation] = [o.clone(known) for o in around.body.block.ops if o.is_before_in_block(loop)]
    summed = loop.clone(known)
    summed.properties["dims"] = DimsAttr.get([part])
    added.append(summed)
    for own, (r, strip, whole) in zip(summed.res, sums, strict=True):
        added.append(StoreOp.make(own, strip.res, at, combine="add", location=location))
        read = LoadOp.make(whole.res, at, location=location)
        narrow = [arith.TruncFOp(read.res, f32)] if r.type == f32 else []
        around.body.block.insert_ops_before([read, *narrow], loop)
        r.replace_all_uses_with([read, *narrow][-1].results[0])
    loop.detach()
    loop.erase()
    block.insert_ops_before([t for _, *both in sums for t in both], around)
    strips = columns(counting, [columns([LoopDim("b2", 0, -(-rows // TOGETHER)), d], added), columns([d], end)])
    block.insert_ops_before([columns([d], begin), strips], around)
    drop_unused(block)
