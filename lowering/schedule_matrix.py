"""Products of bf16 and of bytes in groups along the sum: blocks of rows and columns, packed factors, buffers of sums.

    grid [d0 = M, d1 = N]: %s = for [r0] reduce [add] { extf(load %x[d0, r0]) * extf(load %w[d1, r0]) }; store f(%s), %y

    grid [t1, t0]:                                              blocks of columns, of rows
      for [d1 block, r0] pack { store load %w[d1, r0], %p[…] }  the right factor as the unit reads it, pairs along r0
      for [d0 block, d1 block] matrix { %s = for [r0] reduce [add] {… %x … %p …}; store %s, %t[…] }
      for [d0 block, d1 block] { store f(load %t[…]), %y }      what follows, as vectors

What is computed to make a factor is computed when it is packed, once for each block of rows. The left factor is read
where it lies, if that is in one piece along r0, and else copied. All of it is ordinary loops: `pack` and `matrix` only
say that `kernel_matrix` has better code for them.

Matrix units (AMX) take pairs of bf16 and fours of bytes. Where there are none, bytes become pairs of 16 bits, whose
products vectors add up (`kernel_pairs`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import StringAttr, UnitAttr, bf16, f32, i8, i16, i32
from xdsl.ir import Attribute, Block, Operation, SSAValue

from ..dialects import expr
from ..dialects.expr import Dim
from ..dialects.loop import ForOp, KernelOp, LoadOp, LoopDim, YieldOp
from .contraction import Contraction
from .fuse_cost import Hints, Machine
from .schedule_access import accesses, stride
from .schedule_blocks import Blocks, copied, within
from .schedule_dims import best_dim
from .vectors import Vectors

SIDE = 32
"""Rows and columns that four tiles of sums have; points of the inner dim that a step takes."""

ROWS = 512
"""Rows of a block at most."""

LEAST = 5
"""Rows from which on the matrix unit is worth it."""

COLUMNS = (128, 96, 64, 32)
"""Columns of a block."""


@dataclass(frozen=True)
class Unit:
    """What adds up products of `group` elements along the sum at a time, for `lanes` columns side by side."""

    element: str
    group: int
    lanes: int
    sums: str

    @property
    def step(self) -> int:
        """Points of the inner dim in one row of a packed factor."""
        return self.group * self.lanes


HALVES = Unit("bf16", 2, 16, "f32")
BYTES = Unit("i8", 4, 16, "i32")


def pairs(lanes: int) -> Unit:
    """Pairs of 16 bits in vectors."""
    return Unit("i16", 2, lanes, "i32")


def matrix_product(
    kernel: KernelOp, loop: ForOp, found: Contraction, vectors: Vectors, machine: Machine, hints: Hints
) -> bool:
    """Rewrite a kernel for products in groups, in place; False where its product is none for them."""
    if not found.rows or len(found.columns) != 1 or len(found.reduce) != 1:
        return False
    # rows of several dims that are not one in memory: all but the last are as those of a batch
    found = replace(found, batch=(*found.batch, *found.rows[:-1]), rows=found.rows[-1:])
    (rows,), (columns,), (r,) = found.rows, found.columns, found.reduce
    if not all(isinstance(d.extent, int) and d.lo == 0 for d in (rows, columns, r)):
        return False
    m, n, k = (cast(int, d.extent) for d in (rows, columns, r))
    halves = loop.results[0].type == f32
    factor = narrow if halves else _byte
    left, right = factor(found.left), factor(found.right)
    unit = next((u for u in units(vectors) if u.sums == f"{loop.results[0].type}" and rows_of_block(m, n, k, u)), None)
    if left is None or right is None or unit is None:
        return False
    block = cast(int, rows_of_block(m, n, k, unit))
    width = _width(n, k, hints.points(found.batch) * (m // block), vectors.threads, machine)
    _Rewrite(kernel, loop, found, block, width, unit).run(left, right, k)
    return True


def units(vectors: Vectors) -> list[Unit]:
    """What a machine has, the best first."""
    return [*([HALVES, BYTES] if vectors.amx else []), *([pairs(vectors.bits // 32)] if vectors.pairs else [])]


def rows_of_block(m: int, n: int, k: int, unit: Unit = HALVES) -> int | None:
    """How many rows a block has; None where such sizes are not for a unit."""
    if m < LEAST or n < SIDE or k < SIDE or n % SIDE or k % unit.step:
        return None
    block = next(b for b in range(min(m, ROWS), 0, -1) if m % b == 0)
    return block if block >= min(m, SIDE) else None


def _width(n: int, k: int, others: int, threads: int, machine: Machine) -> int:
    """Columns of a block: many, but so that half of the cache holds the packed factor and all threads have work."""
    fitting = [w for w in COLUMNS if n % w == 0 and 2 * w * k <= machine.l2 // 2 and n // w * others >= threads]
    return next(iter(fitting), SIDE)


def narrow(v: SSAValue) -> SSAValue | None:
    """What a factor is widened from, where bf16 holds all of it: bf16 itself, or bytes."""
    owner = v.owner
    if isinstance(owner, arith.ExtFOp) and owner.input.type == bf16:
        return owner.input
    exact = isinstance(owner, arith.SIToFPOp | arith.UIToFPOp) and owner.input.type == i8
    return v if exact else None


def _byte(v: SSAValue) -> SSAValue | None:
    """A factor that is widened from bytes."""
    owner = v.owner
    return v if isinstance(owner, arith.ExtSIOp | arith.ExtUIOp) and owner.input.type == i8 and v.type == i32 else None


class _Rewrite(Blocks):
    """One kernel."""

    def __init__(self, kernel: KernelOp, loop: ForOp, found: Contraction, rows: int, columns: int, unit: Unit) -> None:
        self.unit = unit
        (d0,), (d1,) = found.rows, found.columns
        super().__init__(kernel, loop, found.batch, [(d0, rows), (d1, columns)])
        self.found, (self.rows, self.columns) = found, self.dims
        self.height, self.width = rows, columns

    def run(self, left: SSAValue, right: SSAValue, k: int) -> None:
        """Replace the body of the kernel."""
        (r,) = self.found.reduce
        lanes, group, element = self.unit.lanes, self.unit.group, self.unit.element
        packed = self.scratch([self.width // lanes, k // group, lanes, group], element)
        n = within(self.columns)
        place = [expr.floordiv(n, lanes), expr.floordiv(r.symbol, group), expr.mod(n, lanes), expr.mod(r.symbol, group)]
        pack = self._fill([self.columns, r], right, packed, place)
        pack.attributes["pack"] = StringAttr(r.name if _lies_along(pack, self.columns, r) else self.columns.name)
        direct = self._element(left)
        if direct is None or not _is_direct(direct, self.rows, r):
            copy = self.scratch([self.height, k], element)
            self._fill([self.rows, r], left, copy, [within(self.rows), r.symbol])
            x: list[Operation] = [self.load(copy, [within(self.rows), r.symbol])]
        else:
            x = copied(direct, {})
        sums = self.scratch([self.height, self.width], self.unit.sums)
        self.ops.append(self._matrix(x, self.load(packed, place), sums, (left, right)))
        self.ops.append(self.rest(sums))
        self.replace()

    def _element(self, factor: SSAValue) -> SSAValue | None:
        """The value that a factor is widened from, where that is an element of the unit; else None."""
        if self.unit is HALVES:
            return factor if factor.type == bf16 else None
        return cast(Operation, factor.owner).operands[0] if self.unit is BYTES else None

    def _fill(self, dims: list[LoopDim], value: SSAValue, target: SSAValue, index: Sequence[Dim]) -> ForOp:
        """The loop that computes a factor and keeps it as elements of the unit."""
        narrow = self._element(value)
        if narrow is None and self.unit.element == "i16":
            wide = cast(Operation, value.owner)
            ops = copied(wide.operands[0], {})
            ops.append(_op(type(wide), [ops[-1].results[0]], i16, self.loop))
        else:
            ops = copied(value if narrow is None else narrow, {})
            if narrow is None:
                ops.append(_op(arith.TruncFOp, [ops[-1].results[0]], bf16, self.loop))
        loop = self.over(dims, [*ops, self.keep(ops[-1].results[0], target, index)])
        self.ops.append(loop)
        return loop

    def _matrix(self, x: list[Operation], w: LoadOp, sums: SSAValue, factors: tuple[SSAValue, SSAValue]) -> ForOp:
        """The loop over rows and columns of the block that adds up products."""
        at = self.loop.location
        if self.unit.sums == "f32":
            t, times, widen = f32, arith.MulfOp, [arith.ExtFOp] * 2
        else:
            whole = self.unit.element == "i16"  # pairs have the sign of what they hold
            t, times = i32, arith.MuliOp
            widen = [arith.ExtSIOp if whole else type(cast(Operation, v.owner)) for v in factors]
        wide = [_op(c, v.results, t, self.loop) for c, v in zip(widen, (x[-1], w), strict=True)]
        product = _op(times, [v.results[0] for v in wide], t, self.loop)
        body = Block([*x, wide[0], w, wide[1], product, YieldOp.create(operands=product.results, location=at)])
        inner = ForOp.make(self.loop.dims, body, reduce=["add"], result_types=[t], location=at)
        loop = self.over(self.dims, [inner, self.keep(inner.results[0], sums, self.place)])
        loop.attributes["matrix"] = UnitAttr()
        return loop


def _op(cls: type[Operation], operands: Sequence[SSAValue], t: Attribute, at: Operation) -> Operation:
    properties: dict[str, Any] = {}
    if cls is arith.MulfOp:
        properties = {"fastmath": arith.FastMathFlagsAttr("none")}
    elif cls is arith.MuliOp:
        properties = {"overflowFlags": arith.IntegerOverflowAttr("none")}
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
