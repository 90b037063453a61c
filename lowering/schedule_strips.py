"""Long sums of columns in strips of rows: what a page has of all columns is read before the next pages are.

for [d0 = 512*b0 : 512*b0 + 512] { %s = for [r0 = 4096] reduce [add] {…}; store f(%s), %y[d0] }

for [d0 = …] { store 0, %u[d0 - 512*b0] }
for [b1 = 16, d0 = …] { %s = for [r0 = 256*b1 : 256*b1 + 256] reduce [add] {…}; store %s, %u[d0 - 512*b0] combine add }
for [d0 = …] { %s = load %u[d0 - 512*b0]; store f(%s), %y[d0] }

A vector's worth of columns from first to last row reads a few lines of each page, over and over again. Machines that
read long runs faster than many short ones add up few rows at a time (`runs`, 4 here), as they lie in memory, and strips
in f64:

for [b1 = 32] {
  for [b2 = 32, d0 = …] {
    %s = for [r0 = 128*b1 + 4*b2 : 128*b1 + 4*b2 + 4] reduce [add] {…}; store %s, %t[d0 - 512*b0] combine add
  }
  for [d0 = …] { %v = load %t[d0 - 512*b0]; store %v, %u[d0 - 512*b0] combine add; store 0, %t[d0 - 512*b0] }
}
"""

from __future__ import annotations

from dataclasses import dataclass

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
from .cascade import ADDED, BLOCK
from .contraction import contractions_of_loop
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


@dataclass(frozen=True)
class Strips:
    """How the only loop of a kernel is made in strips of so many rows; `runs` of them are added up at a time, all of a
    strip where it is 0.
    """

    loop: ForOp
    rows: int
    runs: int


def strips_of(kernel: KernelOp, d: LoopDim, hints: Hints, machine: Machine) -> Strips | None:
    """Where sums of columns along `d` are made in strips."""
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
    if len(loop.dims) != 1 or contractions_of_loop(loop, tuple(kernel.grid), True):
        return None
    extent = loop.dims[0].extent
    rows = hints.size(extent)
    parts = hints.points(tuple(g for g in kernel.grid if g.symbol in expr.symbols(loop.dims[0].lo)))
    size = max((bytes_of(a) for a in accesses(_inside(loop))), default=0)
    read = hints.size(d.extent) * rows * parts * size
    runs = machine.runs if machine.far(read, size) else 0
    if not runs and any(map(op_cost, _inside(loop))):  # memory is waited for less
        return None
    strip = ADDED * runs or max(LEAST, -(-rows // (2 * BLOCK * BLOCK)) * BLOCK)
    if rows < 2 * strip or strip > MOST or read <= machine.l2:
        return None
    # Any number of strips is added up in f64 alone.
    wide = runs and all(r.type != f64 for r in loop.res)
    if not wide and not (isinstance(extent, int) and extent <= MOST * strip):
        return None
    likely = range(strip, min(2 * strip, rows), max(1, runs)) if isinstance(extent, int) else ()
    return Strips(loop, next((n for n in likely if extent % n == 0), strip), runs)


def _inside(loop: ForOp) -> list[Operation]:
    return [o for o in body_ops(loop.body) if not isinstance(o, YieldOp)]


def make_strips(kernel: KernelOp, strips: Strips, width: int) -> None:
    """Write out the loops for the one over columns that is around a loop over rows."""
    loop, rows, runs = strips.loop, strips.rows, strips.runs
    block, location, around = kernel.body.block, loop.location, loop.parent_op()
    assert isinstance(around, ForOp)
    (d,) = around.dims
    at = IndexAttr.get([expr.normal(d.symbol - d.lo)])  # pyright: ignore[reportOperatorIssue]

    def scratch(type: Attribute) -> ScratchOp:
        return ScratchOp.create(result_types=[TensorType.get([width], f"{type}")], location=location)

    def columns(dims: list[LoopDim], ops: list[Operation]) -> ForOp:
        return ForOp.make(DimsAttr.get(dims), Block([*ops, YieldOp.create(location=location)]), location=location)

    def zero(target: ScratchOp, type: Attribute) -> list[Operation]:
        made = arith.ConstantOp.create(result_types=[type], properties={"value": zero_of(type)}, location=location)
        return [made, StoreOp.make(made.results[0], target.res, at, location=location)]

    def add(value: SSAValue, target: ScratchOp) -> Operation:
        return StoreOp.make(value, target.res, at, combine="add", location=location)

    counting, dim = blocked(loop.dims[0], "b1", rows)
    inner = [*counting, d]
    if runs:
        step = LoopDim("b2", 0, -(-rows // runs))
        first = expr.normal(dim.lo + runs * step.symbol)
        last = expr.after(first, runs)
        dim = LoopDim(dim.name, first, sympy.Min(loop.dims[0].hi, last) if isinstance(dim.hi, sympy.Min) else last)
        inner = [step, d]
    known: dict[SSAValue, SSAValue] = {}
    added: list[Operation] = [o.clone(known) for o in around.body.block.ops if o.is_before_in_block(loop)]
    summed = loop.clone(known)
    summed.properties["dims"] = DimsAttr.get([dim])
    added.append(summed)
    begin, end, kept = list[Operation](), list[Operation](), list[ScratchOp]()
    for r, own in zip(loop.res, summed.res, strict=True):
        wide = f64 if runs and r.type == f32 else r.type
        whole = strip = scratch(wide)
        begin += zero(whole, wide)
        if runs:
            strip = scratch(r.type)
            begin += zero(strip, r.type)
            end.append(read := LoadOp.make(strip.res, at, location=location))
            extended = [arith.ExtFOp(read.res, f64)] if wide != r.type else []
            end += [*extended, add(extended[0].result if extended else read.res, whole), *zero(strip, r.type)]
        kept += [whole, strip] if runs else [whole]
        added.append(add(own, strip))
        result = LoadOp.make(whole.res, at, location=location)
        narrow = [arith.TruncFOp(result.res, f32)] if wide != r.type else []
        around.body.block.insert_ops_before([result, *narrow], loop)
        r.replace_all_uses_with(narrow[0].result if narrow else result.res)
    loop.detach()
    loop.erase()
    summing = columns(inner, added)
    if runs:
        summing = columns(counting, [summing, columns([d], end)])
    block.insert_ops_before([*kept, columns([d], begin), summing], around)
    drop_unused(block)
