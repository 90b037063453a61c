"""Windows that share rows: several rows of results are written out in one program, which loads what they share once.

grid [d0 = 56, d1 = 56]: max over r0, r1 of %x[2*d0 + r0, 2*d1 + r1]        becomes, with two rows,
grid [d0 = 28, d1 = 56]: max of %x[4*d0 + r0, …] to %y[2*d0, d1]; max of %x[4*d0 + 2 + r0, …] to %y[2*d0 + 1, d1]
"""

from __future__ import annotations

from math import prod

import sympy
from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import Operation, SSAValue
from xdsl.traits import Pure

from ..dialects import expr
from ..dialects.expr import Dim
from ..dialects.loop import DimsAttr, ForOp, KernelOp, LoadOp, LoopDim, StoreOp, YieldOp, body_ops
from .index_simplify import facts
from .index_split import substitute_op

ROWS = "rows"
"""The attribute of such a kernel: how many."""

POINTS = 128
"""Points of the windows of all rows at most."""

_KINDS = ("max", "min")
"""Of reductions that need no registers but for what is read: sums were slower so."""

LEAST = 2048
"""Results for a processor, of each of the rows, at least."""


def write_rows(kernel: KernelOp, most: int, largest: int, processors: int) -> None:
    """Write out up to `most` rows of a kernel whose windows have at most `largest` points, and which has work enough
    for a GPU's processors.
    """
    d = _shared(kernel)
    if d is None or not isinstance(d.extent, int):
        return
    loops = [o for o in kernel.body.block.ops if isinstance(o, ForOp)]
    window = max(prod(n.extent for n in o.dims) for o in loops)  # pyright: ignore
    points = prod(n.extent for n in kernel.grid)  # pyright: ignore
    if window > largest:
        return
    most = min(most, POINTS // window, points // max(LEAST * processors, 1))
    rows = next((n for n in range(most, 1, -1) if d.extent % n == 0), None)
    if rows is None:
        return
    known = facts(tuple(kernel.grid))
    block = kernel.body.block
    *ops, last = block.ops
    stores: list[Operation] = []
    for k in range(rows):
        values: dict[SSAValue, SSAValue] = {}
        copies = [substitute_op(op, {d.symbol: rows * d.symbol + k}, known, values) for op in ops]
        stores += [o for o in copies if isinstance(o, StoreOp)]
        block.insert_ops_before([o for o in copies if not isinstance(o, StoreOp)], last)
    block.insert_ops_before(stores, last)  # a load behind a store would wait for what is stored
    for op in reversed(ops):
        op.detach()
        op.erase()
    fewer = [LoopDim(n.name, 0, d.extent // rows) if n is d else n for n in kernel.grid]
    kernel.properties["grid"] = DimsAttr.get(fewer)
    kernel.attributes[ROWS] = IntegerAttr(rows, i64)


def _shared(kernel: KernelOp) -> LoopDim | None:
    """The dim of the grid along which windows share rows, if there is nothing else in the kernel."""
    loops = {o for o in kernel.body.block.ops if isinstance(o, ForOp)}
    sizes = [n for o in (kernel, *loops) for n in (kernel.grid if o is kernel else o.dims)]  # pyright: ignore
    if any(k.data not in _KINDS for o in loops for k in o.reduce.data):
        return None
    if not loops or not all(isinstance(n.extent, int) and n.lo == 0 for n in sizes):
        return None
    if not all(_is_plain(o) for o in body_ops(kernel.body) if o not in loops and o is not kernel.body.block.last_op):
        return None
    window = {n.symbol: n.extent for o in loops for n in o.dims}
    found: list[LoopDim] = []
    for a in body_ops(kernel.body):
        if isinstance(a, LoadOp) and a.parent_op() in loops:
            for e in a.index[:-1]:
                for d in kernel.grid:
                    step, rows = _step(e, d.symbol), [n for s, n in window.items() if _step(e, s) == 1]
                    if isinstance(step, int) and rows and 0 < step < rows[0]:
                        found.append(d)
    return found[0] if found and all(d is found[0] for d in found) else None


def _is_plain(op: Operation) -> bool:
    if isinstance(op, StoreOp):
        return op.combine is None and not op.indices
    return isinstance(op, (LoadOp, YieldOp)) or (op.has_trait(Pure) and not op.regions)


def _step(e: Dim, d: sympy.Symbol) -> Dim | None:
    """By how much an index grows with a dim."""
    return expr.normal(sympy.diff(e, d)) if isinstance(e, sympy.Basic) and not e.has(sympy.Function) else None
