"""Dims of a kernel's loops: along which memory is contiguous, blocks of one, and ops moved into a loop over some."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import sympy
from xdsl.ir import Block, Operation, SSAValue

from ..dialects import expr
from ..dialects.expr import Dim
from ..dialects.loop import DimsAttr, EndOp, ForOp, KernelOp, LoopDim, ScratchOp, StoreOp, YieldOp, body_ops, op_symbols
from ..dialects.tensor import itemsize
from .fuse_cost import Hints
from .schedule_access import Access, stride, type_of

SCATTER = 3
"""How much dearer a jump is where elements are written: what is read across can be exchanged in tiles."""


def bytes_of(a: Access) -> int:
    """Bytes of the element that an access moves."""
    return itemsize(type_of(a).dtype)


def unit_weight(found: Iterable[Access], d: LoopDim) -> int:
    """Bytes per point that are neighbours along `d`, less those that jump."""
    units, jumps = _moves(found, d)
    return units - jumps


def best_dim(dims: Sequence[LoopDim], found: Sequence[Access], hints: Hints) -> LoopDim | None:
    """The dim along which the fewest bytes jump, then most are neighbours; the last among equals, short ones last.

    What does not move along a dim costs as little as neighbours do: a row of factors is no reason to walk over columns.
    """
    ranked: list[tuple[int, int, bool, int, LoopDim]] = []
    for i, d in enumerate(dims):
        units, jumps = _moves(found, d)
        ranked.append((-jumps, units, hints.size(block_extent(d)) >= 8, i, d))
    return max(ranked, key=lambda r: r[:4])[4] if ranked else None


def _moves(found: Iterable[Access], d: LoopDim) -> tuple[int, int]:
    """Bytes per point that are neighbours along `d`, and that jump."""
    units = jumps = 0
    for a in found:
        s = stride(a, d.symbol)
        if s == 1:
            units += bytes_of(a)
        elif s != 0:
            jumps += bytes_of(a) * (SCATTER if isinstance(a, StoreOp) else 1)
    return units, jumps


def block_extent(d: LoopDim) -> Dim:
    """The extent of a dim, taking blocks and parts as whole."""
    if isinstance(d.hi, sympy.Min):
        for bound in d.hi.args:
            extent = expr.normal(bound - d.lo)  # pyright: ignore[reportOperatorIssue]
            if isinstance(extent, int):
                return extent
    return d.extent


def blocked(d: LoopDim, name: str, size: int) -> tuple[list[LoopDim], LoopDim]:
    """`d` in blocks: the dim that counts them, none if there is one, and `d` within a block."""
    if isinstance(d.extent, int) and d.extent <= size:
        return [], d
    b = expr.symbol(name)
    start = b * size if d.lo == 0 else expr.normal(d.lo + b * size)  # pyright: ignore[reportOperatorIssue]
    end = expr.after(start, size)
    whole = isinstance(d.extent, int) and d.extent % size == 0
    hi = end if whole else sympy.Min(sympy.sympify(d.hi), end)
    return [LoopDim(name, 0, expr.ceildiv(d.extent, size))], LoopDim(d.name, start, hi)


def move_into_loop(kernel: KernelOp, inner: list[LoopDim]) -> None:
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
