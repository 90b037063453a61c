"""One of the two products of a kernel of attention: the loops, and the factor that all rows share.

for [d2 = K] { %s = for [r0] reduce [add] { load %q[d1, r0] * load %k[d2, r0] }; … }        rows d1: %k is shared
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.dialects import arith
from xdsl.ir import Block, Operation, SSAValue

from ..dialects.loop import DimsAttr, ForOp, LoadOp, LoopDim, StoreOp, YieldOp
from .contraction import moving
from .fuse_cost import Hints
from .schedule_access import stride
from .schedule_blocks import copied
from .schedule_dims import best_dim


@dataclass(frozen=True)
class Factors:
    """One of the two loops: `outer` goes over the columns, `inner` is the sum. `right` is the factor without rows."""

    outer: ForOp
    inner: ForOp
    right: SSAValue

    @property
    def left(self) -> SSAValue:
        """The factor of which each row has its own."""
        (product,) = cast(YieldOp, self.inner.body.block.last_op).values
        lhs, rhs = product.owner.operands  # pyright: ignore
        return rhs if lhs is self.right else lhs

    @property
    def columns(self) -> LoopDim:
        return self.outer.dims[0]

    @property
    def reduced(self) -> LoopDim:
        return self.inner.dims[0]


def factors_of(outer: ForOp, row: LoopDim) -> Factors | None:
    """The product of matrices that a loop is, of which one factor does not change with `row`."""
    inner, *others = [o for o in outer.body.block.ops if isinstance(o, ForOp)]
    if others or outer.reduce.data or len(outer.dims) != 1 or len(inner.dims) != 1:
        return None
    if [k.data for k in inner.reduce.data] != ["add"] or not is_whole(outer.dims[0]) or not is_whole(inner.dims[0]):
        return None
    if any(o.regions or isinstance(o, StoreOp) for o in inner.body.block.ops):
        return None
    (value,) = cast(YieldOp, inner.body.block.last_op).values
    if not isinstance(value.owner, arith.MulfOp) or f"{value.type}" != "f32":
        return None
    names = frozenset((row.name, outer.dims[0].name, inner.dims[0].name))
    for right, left in ((value.owner.rhs, value.owner.lhs), (value.owner.lhs, value.owner.rhs)):
        x, y = (moving(v, names, {}) for v in (left, right))
        if y == names - {row.name} and row.name in x:
            return Factors(outer, inner, right)
    return None


def is_whole(d: LoopDim) -> bool:
    return d.lo == 0 and isinstance(d.extent, int) and d.extent > 0


def lies_along(ops: Sequence[Operation], columns: LoopDim, r: LoopDim) -> bool:
    """Whether what a factor is made of are neighbours along the dim of the sum."""
    return best_dim([columns, r], [o for o in ops if isinstance(o, LoadOp)], Hints({})) is r


def is_plain(ops: Sequence[Operation], d: LoopDim) -> bool:
    """Whether a factor is only read, and lies along `d`."""
    (first, *others) = ops
    if others or not isinstance(first, LoadOp) or len(first.operands) > 1 or first.mask is not None:
        return False
    return stride(first, d.symbol) == 1


def halves_of(factor: SSAValue) -> list[Operation]:
    """Copies of the ops that read a factor and make f32 of it; none where it is anything else."""
    load = factor.owner.input.owner if isinstance(factor.owner, arith.ExtFOp) else None
    if not isinstance(load, LoadOp) or len(load.operands) > 1 or load.mask is not None:
        return []
    return [] if isinstance(load.source.owner, Operation) else copied(factor, {})


def over(dims: Sequence[LoopDim], ops: Sequence[Operation], at: Operation) -> ForOp:
    """A loop over dims."""
    return ForOp.make(DimsAttr.get(dims), Block([*ops, YieldOp.create(location=at.location)]), location=at.location)
