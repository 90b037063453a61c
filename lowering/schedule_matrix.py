"""Products of bf16 for matrix units (AMX): blocks of rows and columns with packed factors and buffers of sums.

    grid [d0 = M, d1 = N]: %s = for [r0] reduce [add] { extf(load %x[d0, r0]) * extf(load %w[d1, r0]) }; store f(%s), %y

    grid [t1, t0]:                                              blocks of columns, of rows
      for [d1 block, r0] pack { store load %w[d1, r0], %p[…] }  the right factor as the unit reads it, pairs along r0
      for [d0 block, d1 block] matrix { %s = for [r0] reduce [add] {… %x … %p …}; store %s, %t[…] }
      for [d0 block, d1 block] { store f(load %t[…]), %y }      what follows, as vectors

What is computed to make a factor is computed when it is packed, once for each block of rows. The left factor is read
where it lies, if that is in one piece along r0, and else copied. All of it is ordinary loops: `pack` and `matrix` only
say that `kernel_matrix` has better code for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import StringAttr, UnitAttr, bf16, f32, i8
from xdsl.ir import Attribute, Block, Operation, SSAValue

from ..dialects import expr
from ..dialects.expr import Dim
from ..dialects.loop import ForOp, KernelOp, LoadOp, LoopDim, YieldOp
from .contraction import Contraction
from .fuse_cost import Hints, Machine
from .schedule_access import accesses, stride
from .schedule_blocks import Blocks, copied, within
from .schedule_dims import best_dim

SIDE = 32
"""Rows and columns that four tiles of sums have; points of the inner dim that a step takes."""

ROWS = 512
"""Rows of a block at most."""

LEAST = 5
"""Rows from which on the matrix unit is worth it."""

COLUMNS = (128, 96, 64, 32)
"""Columns of a block."""


def matrix_product(kernel: KernelOp, loop: ForOp, found: Contraction, machine: Machine, hints: Hints) -> bool:
    """Rewrite a kernel for a matrix unit, in place; False where its product is none for it."""
    if len(found.rows) != 1 or len(found.columns) != 1 or loop.results[0].type != f32:
        return False
    (rows,), (columns,), (r,) = found.rows, found.columns, found.reduce
    if not all(isinstance(d.extent, int) and d.lo == 0 for d in (rows, columns, r)):
        return False
    m, n, k = (cast(int, d.extent) for d in (rows, columns, r))
    left, right = _narrow(found.left), _narrow(found.right)
    block = rows_of_block(m, n, k)
    if left is None or right is None or block is None:
        return False
    width = _width(n, k, hints.points(found.batch) * (m // block), machine)
    _Rewrite(kernel, loop, found, block, width).run(left, right, k)
    return True


def rows_of_block(m: int, n: int, k: int) -> int | None:
    """How many rows a block has; None where the matrix unit is not for such sizes."""
    if m < LEAST or n < SIDE or k < SIDE or n % SIDE or k % SIDE:
        return None
    block = next(b for b in range(min(m, ROWS), 0, -1) if m % b == 0)
    return block if block >= min(m, SIDE) else None


def _width(n: int, k: int, others: int, machine: Machine) -> int:
    """Columns of a block: many, but so that half of the cache holds the packed factor and all threads have work."""
    fitting = [w for w in COLUMNS if n % w == 0 and 2 * w * k <= machine.l2 // 2 and n // w * others >= machine.threads]
    return next(iter(fitting), SIDE)


def _narrow(v: SSAValue) -> SSAValue | None:
    """What a factor is widened from, where bf16 holds all of it: bf16 itself, or bytes."""
    owner = v.owner
    if isinstance(owner, arith.ExtFOp) and owner.input.type == bf16:
        return owner.input
    exact = isinstance(owner, arith.SIToFPOp | arith.UIToFPOp) and owner.input.type == i8
    return v if exact else None


class _Rewrite(Blocks):
    """One kernel."""

    def __init__(self, kernel: KernelOp, loop: ForOp, found: Contraction, rows: int, columns: int) -> None:
        (d0,), (d1,) = found.rows, found.columns
        super().__init__(kernel, loop, found.batch, [(d0, rows), (d1, columns)])
        self.found, (self.rows, self.columns) = found, self.dims
        self.height, self.width = rows, columns

    def run(self, left: SSAValue, right: SSAValue, k: int) -> None:
        """Replace the body of the kernel."""
        (r,) = self.found.reduce
        packed = self.scratch([self.width // 16, k // 2, 16, 2], "bf16")
        n = within(self.columns)
        place = [expr.floordiv(n, 16), expr.floordiv(r.symbol, 2), expr.mod(n, 16), expr.mod(r.symbol, 2)]
        pack = self._fill([self.columns, r], right, packed, place)
        pack.attributes["pack"] = StringAttr(r.name if _lies_along(pack, self.columns, r) else self.columns.name)
        if not _is_direct(left, self.rows, r):
            copy = self.scratch([self.height, k], "bf16")
            self._fill([self.rows, r], left, copy, [within(self.rows), r.symbol])
            x: list[Operation] = [self.load(copy, [within(self.rows), r.symbol])]
        else:
            x = copied(left, {})
        sums = self.scratch([self.height, self.width], "f32")
        self.ops.append(self._matrix(x, self.load(packed, place), sums))
        self.ops.append(self.rest(sums))
        self.replace()

    def _fill(self, dims: list[LoopDim], value: SSAValue, target: SSAValue, index: Sequence[Dim]) -> ForOp:
        """The loop that computes a factor and keeps it in bf16."""
        ops = copied(value, {})
        kept = ops[-1].results[0]
        if kept.type != bf16:
            ops.append(_op(arith.TruncFOp, [kept], bf16, self.loop))
            kept = ops[-1].results[0]
        loop = self.over(dims, [*ops, self.keep(kept, target, index)])
        self.ops.append(loop)
        return loop

    def _matrix(self, x: list[Operation], w: LoadOp, sums: SSAValue) -> ForOp:
        """The loop over rows and columns of the block that adds up products."""
        at = self.loop.location
        wide = [_op(arith.ExtFOp, v.results, f32, self.loop) for v in (x[-1], w)]
        product = _op(arith.MulfOp, [v.results[0] for v in wide], f32, self.loop)
        body = Block([*x, wide[0], w, wide[1], product, YieldOp.create(operands=product.results, location=at)])
        inner = ForOp.make(self.loop.dims, body, reduce=["add"], result_types=[f32], location=at)
        loop = self.over(self.dims, [inner, self.keep(inner.results[0], sums, self.place)])
        loop.attributes["matrix"] = UnitAttr()
        return loop


def _op(cls: type[Operation], operands: Sequence[SSAValue], t: Attribute, at: Operation) -> Operation:
    properties: dict[str, Any] = {} if cls is arith.TruncFOp else {"fastmath": arith.FastMathFlagsAttr("none")}
    if cls is arith.ExtFOp:
        properties = {}
    return cls.create(operands=operands, result_types=[t], properties=properties, location=at.location)


def _lies_along(loop: ForOp, columns: LoopDim, r: LoopDim) -> bool:
    """Whether what a loop reads are neighbours along r."""
    loads = [a for a in accesses(loop.body.block.ops) if isinstance(a, LoadOp)]
    return best_dim([columns, r], loads, Hints({})) is r


def _is_direct(v: SSAValue, rows: LoopDim, r: LoopDim) -> bool:
    """Whether tiles of a factor may be read where it lies: along r in one piece, rows at a fixed distance."""
    load = v.owner
    if not isinstance(load, LoadOp) or len(load.operands) > 1 or load.mask is not None:
        return False
    return stride(load, r.symbol) == 1 and isinstance(stride(load, rows.symbol), int)
