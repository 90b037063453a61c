"""Sums of columns that a program has at hand while it takes rows in turn.

    for [d1 = 768] { store 0, %y[d0, d1] }
    for [d2 = 16*d0 : 16*d0 + 16] { …; for [d1 = 768] { …; store %v, %y[d0, d1] combine add } }

becomes, with a `loop.scratch` that is carried from turn to turn,

    %s = scratch; for [d1 = 768] { store 0, %s[d1] }
    for [d2 = 16*d0 : 16*d0 + 16] { …; for [d1 = 768] { …; store %v, %s[d1] combine add } }
    for [d1 = 768] { load %s[d1]; store …, %y[d0, d1] }
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import Block, SSAValue

from ..dialects import expr
from ..dialects.loop import DimsAttr, ForOp, IndexAttr, KernelOp, LoadOp, LoopDim, ScratchOp, StoreOp, YieldOp, body_ops
from ..dialects.tensor import TensorType
from .schedule_access import type_of

MOST = 16 << 10
"""Elements of all sums that a program has at hand."""


@dataclass(frozen=True)
class _Sum:
    """A buffer that one loop sets to a value, and others add to, along dims of a known size."""

    start: StoreOp
    updates: Sequence[StoreOp]
    dims: Sequence[LoopDim]


def turns_of(kernel: KernelOp) -> ForOp | None:
    """The loop whose points a program takes in turn, adding to what it has in scratch."""
    for o in kernel.body.block.ops:
        if isinstance(o, ForOp) and not o.reduce.data and any(_updates_scratch(x) for x in body_ops(o.body)):
            return o
    return None


def _updates_scratch(o: object) -> bool:
    return isinstance(o, StoreOp) and o.combine is not None and isinstance(o.target.owner, ScratchOp)


def hold_sums(kernel: KernelOp) -> None:
    """Have a program add up in scratch what it adds up in memory, turn by turn, if all of that fits."""
    grid = {d.symbol for d in kernel.grid}
    found = [s for out in kernel.outs if (s := _sum_of(kernel, out)) is not None]
    if not found or sum(_size(s) for s in found) > MOST:
        return
    first, last = kernel.body.block.first_op, kernel.body.block.last_op
    assert first is not None and last is not None
    for s in found:
        t, location = type_of(s.start), s.start.location
        index = [e for e in s.start.index if not (expr.symbols(e) <= grid)]
        scratch = ScratchOp.create(
            result_types=[TensorType.get([d.extent for d in s.dims], t.dtype)], location=location
        )
        load = LoadOp.make(scratch.res, IndexAttr.get(index), location=location)
        store = s.start.clone({s.start.value: load.res, s.start.target: s.start.target})
        end = [load, store]
        kernel.body.block.insert_op_before(scratch, first)
        if s.dims:
            body = Block([*end, YieldOp.create(location=location)])
            end = [ForOp.make(DimsAttr.get(s.dims), body, location=location)]
        kernel.body.block.insert_ops_before(end, last)
        for o in (s.start, *s.updates):
            own = [e for e in o.index if not (expr.symbols(e) <= grid)]
            o.operands[1] = scratch.res
            o.properties["index"] = IndexAttr.get(own)


def _sum_of(kernel: KernelOp, out: SSAValue) -> _Sum | None:
    """What a buffer is, if nothing is done with it but to start a sum and to add to it in turns."""
    uses = [use.operation for use in out.uses]
    updates = [o for o in uses if isinstance(o, StoreOp) and o.combine is not None]
    starts = [o for o in uses if isinstance(o, StoreOp) and o.combine is None]
    if len(starts) != 1 or not updates or len(uses) != 1 + len(updates):
        return None
    (start,) = starts
    around = start.parent_op()
    dims = list(around.dims) if isinstance(around, ForOp) else []
    if (isinstance(around, ForOp) and around.parent_op() is not kernel) or (not dims and around is not kernel):
        return None
    if any(not isinstance(d.hi, int) or d.lo != 0 for d in dims) or any(map(_is_bound, (start, *updates))):
        return None
    grid, own = {d.symbol for d in kernel.grid}, [d.symbol for d in dims]
    if [e for e in start.index if not (expr.symbols(e) <= grid)] != own:
        return None
    if not all(tuple(o.index) == tuple(start.index) and _in_turn(kernel, o, dims) for o in updates):
        return None
    return _Sum(start, updates, dims)


def _is_bound(o: StoreOp) -> bool:
    """Whether something else says where a store goes, or if."""
    return bool(o.indices) or o.mask is not None or o.ok is not None


def _in_turn(kernel: KernelOp, o: StoreOp, dims: Sequence[LoopDim]) -> bool:
    """Whether an update stands in loops along the dims of a sum alone, in a loop of the kernel, whose turns it does not
    tell apart.
    """
    around, inside = o.parent_op(), list[LoopDim]()
    while isinstance(around, ForOp) and around.parent_op() is not kernel:
        inside += around.dims
        around = around.parent_op()
    if not isinstance(around, ForOp) or around.reduce.data or sorted(inside, key=_name) != sorted(dims, key=_name):
        return False
    return not any(expr.symbols(e) & {d.symbol for d in around.dims} for e in o.index)


def _name(d: LoopDim) -> str:
    return d.name


def _size(s: _Sum) -> int:
    size = expr.product(d.extent for d in s.dims)
    return size if isinstance(size, int) else MOST + 1
