"""The two products of a kernel of attention on matrix units (AMX): where these take them, and their loops.

    for [d2 = K, r0] pack { store load %k[d2, r0], %p[…] }
    for [d1 in block, d2 = K] matrix { %s = for [r0] reduce [add] { load %q[d1, r0] * load %p[…] }; store %s, %t[…] }

As in `schedule_matrix`: the shared factor is packed in pairs along the sum, the other one is read where it lies.
"""

from __future__ import annotations

from typing import cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import StringAttr, UnitAttr, bf16, f32
from xdsl.ir import Block, Operation, SSAValue

from ..dialects import expr
from ..dialects.loop import DimsAttr, ForOp, IndexAttr, LoadOp, LoopDim, StoreOp, YieldOp
from .attention_factors import Factors, over
from .fuse_cost import Hints
from .schedule_access import stride
from .schedule_blocks import copied, within
from .schedule_dims import best_dim
from .schedule_matrix import LEAST, SIDE

ROWS = 256
"""Rows of a block at most: as many as make the packing of keys and values little."""


def takes(p: Factors, row: LoopDim) -> bool:
    """Whether matrix units take a product."""
    sides = (p.columns.extent, p.reduced.extent)
    if not all(isinstance(n, int) and n >= SIDE and n % SIDE == 0 for n in sides) or cast(int, row.extent) < LEAST:
        return False
    left, right = narrow(p.left), narrow(p.right)
    if left is None or right is None or not isinstance(left.owner, LoadOp):
        return False
    load = left.owner
    if len(load.operands) > 1 or load.mask is not None:
        return False
    return stride(load, p.reduced.symbol) == 1 and isinstance(stride(load, row.symbol), int)


def narrow(v: SSAValue) -> SSAValue | None:
    """The bf16 that a factor is widened from."""
    owner = v.owner
    return owner.input if isinstance(owner, arith.ExtFOp) and owner.input.type == bf16 else None


def height(rows: int, most: int) -> int:
    """How many rows a block has: all blocks are of the same height."""
    return next(n for n in range(min(rows, most), 0, -1) if rows % n == 0)


def loops(
    p: Factors, row: LoopDim, columns: LoopDim, reduced: LoopDim, packed: SSAValue, sums: SSAValue
) -> list[Operation]:
    """Pack the right factor, and add up products for a block of rows."""
    at, r = p.inner.location, reduced
    n = within(columns)
    place = IndexAttr.get(
        [expr.floordiv(n, 16), expr.floordiv(r.symbol, 2), expr.mod(n, 16), expr.mod(r.symbol, 2)]
    )  # fmt: skip
    right, left = narrow(p.right), narrow(p.left)
    assert right is not None and left is not None
    ops = copied(right, {}, p.inner.body.block)
    loads = [o for o in ops if isinstance(o, LoadOp)]
    along = best_dim([columns, r], loads, Hints({})) is r
    pack = over([columns, r], [*ops, StoreOp.make(ops[-1].results[0], packed, place, location=at)], p.inner)
    pack.attributes["pack"] = StringAttr(r.name if along else columns.name)
    x = copied(left, {}, p.inner.body.block)
    w = LoadOp.make(packed, place, location=at)
    wide = [arith.ExtFOp(x[-1].results[0], f32), arith.ExtFOp(w.res, f32)]
    product = arith.MulfOp(wide[0].result, wide[1].result)
    body = Block([*x, wide[0], w, wide[1], product, YieldOp.create(operands=[product.result], location=at)])
    inner = ForOp.make(DimsAttr.get([r]), body, reduce=["add"], result_types=[f32], location=at)
    index = IndexAttr.get([within(row), columns.symbol])
    matrix = over([row, columns], [inner, StoreOp.make(inner.results[0], sums, index, location=at)], p.inner)
    matrix.attributes["matrix"] = UnitAttr()
    return [pack, matrix]
