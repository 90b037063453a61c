"""Attention in blocks of rows: two products as tiles, and between them rows of scores that a cache holds.

    grid [d0, d1 = Q]:
      for [d2 = K] { %s = for [r0] reduce [add] { load %q[d0, d1, r0] * load %k[d0, d2, r0] }; store %s, %t[d2] }
      %m = for [d2] reduce [max] {…}  %l = for [d2] reduce [add] {…; store exp(…), %p[d2]}
      for [d3] { %o = for [d2] reduce [add] { load %p[d2] * load %v[d0, d2, d3] }; store %o, %u[d3] }
      …

    grid [d0, t0]:                                                    blocks of rows
      for [c0 of 64 keys] {
        for [d2 in 64, r0] transpose 16 { store load %k[…], %w[…] }   a strip of the right factor, columns as neighbours
        for [c1 of 6 rows, d2 in 64] { %0, … = for [r0] reduce [add, …] {…}; store %0, %t[6*c1, d2]; … }
      }
      for [d1 in block] { %m = …; store %m, %x[d1]; %l = … }          row by row
      for [c0, c1 …] { … %p … %v … }
      for [d1 in block] { … }

The last tile of rows is a whole one, though some of its rows were there already.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

import sympy
from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, StringAttr, f32, i64
from xdsl.ir import Block, Operation, SSAValue

from ..dialects import expr
from ..dialects.expr import Dim
from ..dialects.loop import (
    DimsAttr,
    EndOp,
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
from . import attention_matrix
from .attention_factors import Factors, factors_of, halves_of, is_plain, is_whole, lies_along, over
from .attention_limit import limit_of
from .attention_rows import blocks_of_rows, divide_later, keep_weights, share_buffers
from .fuse_cost import Hints, Machine
from .fuse_emit import drop_unused
from .index_simplify import facts
from .schedule_access import accesses, buffer_of, stride
from .schedule_blocks import clone, copied, within
from .schedule_dims import blocked
from .schedule_written import Tile
from .vectors import Vectors

ROWS = 192
"""Rows of a block at most."""

LIMITED = 64
"""The same where rows look at some of the keys only."""

MOST = 12
"""Rows of a tile at most."""

PART, MIN_PART = 32 << 10, 64
"""Bytes of the right factor that stay in the first cache while all rows meet them; points of the sum at least."""


def tile_attention(kernel: KernelOp, vectors: Vectors, machine: Machine, hints: Hints) -> bool:
    """Rewrite a kernel that is attention, in place, for matrix units where there are any; False where it is none, or
    not of sizes that are known.
    """
    loops = [o for o in kernel.body.block.ops if isinstance(o, ForOp)]
    nested = [o for o in loops if any(isinstance(i, ForOp) for i in o.body.block.ops)]
    if len(nested) != 2:
        return False
    for row in reversed(tuple(kernel.grid)):
        products = [factors_of(o, row) for o in nested]
        if row.extent == 1 or not is_whole(row) or None in products:
            continue
        if products[0].columns == products[1].reduced:  # pyright: ignore[reportOptionalMemberAccess]
            _Rewrite(kernel, row, cast("list[Factors]", products), vectors, machine, hints).run()
            return True
    return False


class _Rewrite:
    """One kernel."""

    def __init__(
        self,
        kernel: KernelOp,
        row: LoopDim,
        products: list[Factors],
        vectors: Vectors,
        machine: Machine,
        hints: Hints,
    ) -> None:
        self.kernel, self.products, self.lanes = kernel, products, vectors.bits // 32
        self.sums, self.vectors = vectors.sums, vectors.copies
        self.divisor = divide_later(kernel, products[1])
        keep_weights(kernel, products[1])
        share_buffers(kernel)
        self.keys = products[0].columns
        outer = [p.outer for p in products]
        loops = [o for o in kernel.body.block.ops if isinstance(o, ForOp) and o not in outer]
        over_keys = [o for o in loops if any(d.name == self.keys.name for d in o.dims)]
        self.rows = rows = cast(int, row.extent)
        limited = limit_of(over_keys, self.keys, row, LoopDim(row.name, 0, 1)) != self.keys.extent
        self.matrix = vectors.amx and machine.parts and all(attention_matrix.takes(p, row) for p in products)
        most = attention_matrix.ROWS if self.matrix else ROWS
        self.height = -(-rows // blocks_of_rows(kernel, row, machine, hints, min(most, LIMITED) if limited else most))
        if self.matrix:
            self.height = attention_matrix.height(rows, self.height)
        blocks, self.row = blocked(row, "t0", self.height)
        self.least = rows - (-(-rows // self.height) - 1) * self.height
        """Rows of the last block."""
        self.end = limit_of(over_keys, self.keys, row, self.row)
        """The first key that no row of the block looks at."""
        self.others = [d for d in kernel.grid if d.name != row.name]
        self.grid = [*self.others, *blocks]
        self.ops: list[Operation] = []
        self.left: tuple[SSAValue, IndexAttr] | None = None
        """Where rows of a left factor of halves are in f32: each is multiplied by all columns."""
        self.kept: dict[SSAValue, SSAValue] = {}
        """Results of a row's reductions, and where those of all rows of the block are."""

    def run(self) -> None:
        """Replace the body of the kernel."""
        block = self.kernel.body.block
        for op in block.ops:
            if isinstance(op, ScratchOp):
                self._widen(op)
                self.ops.append(op)
        outer = [p.outer for p in self.products]
        rows: list[Operation] = []
        for op in block.ops:
            if op in outer:
                self._rows(rows)
                self._tiles(self.products[outer.index(cast(ForOp, op))])
                rows = []
            elif op.regions or isinstance(op, StoreOp) or op.name == "loop.assert":
                rows.append(op)
        self._rows(rows)
        for op in reversed(list(block.ops)):
            op.detach()
            if op not in self.ops:
                op.erase(safe_erase=False)
        block.add_ops([*self.ops, EndOp.create(location=self.kernel.location)])
        drop_unused(block)
        self.kernel.properties["grid"] = DimsAttr.get(self.grid)

    def _widen(self, op: ScratchOp) -> None:
        """A buffer of one row becomes one of all rows of the block."""
        t = op.res.type
        at = within(self.row)
        for a in accesses(body_ops(self.kernel.body)):
            if buffer_of(a) is op.res:
                a.properties["index"] = IndexAttr.get([at, *a.index])
        op.res._type = TensorType.get([self.height, *t.shape], t.dtype)  # pyright: ignore

    def _scratch(self, shape: Sequence[Dim], dtype: str, ops: list[Operation] | None = None) -> SSAValue:
        """A buffer among `ops`, or for the whole kernel: one in a loop is another one for each of its points."""
        op = ScratchOp.create(result_types=[TensorType.get(shape, dtype)], location=self.kernel.location)
        (self.ops if ops is None else ops).append(op)
        return op.res

    # What is outside of the loops

    def _needed(self, ops: Iterable[Operation], values: dict[SSAValue, SSAValue]) -> list[Operation]:
        """Copies of the ops beside loops that `ops` need; reductions of rows are read back."""
        block, made = self.kernel.body.block, list[Operation]()

        def need(v: SSAValue) -> None:
            owner = v.owner
            if v in values or not isinstance(owner, Operation) or owner.parent is not block:
                return
            if isinstance(owner, ScratchOp):
                return
            if v in self.kept:
                load = LoadOp.make(self.kept[v], IndexAttr.get([within(self.row)]), location=owner.location)
                values[v] = load.res
                made.append(load)
                return
            for o in owner.operands:
                need(o)
            made.append(clone(owner, values))

        ops = list(ops)
        if self.divisor is not None and self.products[1].outer in ops:
            need(self.divisor)
        for op in ops:
            for v in (*op.operands, *(v for r in op.regions for o in body_ops(r) for v in o.operands)):
                need(v)
        return made

    def _rows(self, rows: Sequence[Operation]) -> None:
        """A loop over the rows of the block, which does what is done row by row."""
        values: dict[SSAValue, SSAValue] = {}
        made: list[Operation] = []
        for op in rows:
            made += self._needed([op], values)
            made.append(op.clone(values))
            if isinstance(made[-1], ForOp):
                made[-1].properties["dims"] = DimsAttr.get(self._limited(d) for d in made[-1].dims)
            for old, new in zip(op.results, made[-1].results, strict=True):
                values[old] = new
                if old is self.divisor or any(self._is_later(use.operation, rows) for use in old.uses):
                    self.kept[old] = self._scratch([self.height], f"{old.type}")
                    at = IndexAttr.get([within(self.row)])
                    made.append(StoreOp.make(new, self.kept[old], at, location=op.location))
        if made:
            self.ops.append(over([self.row], made, self.kernel))

    def _in_parts(self, d: LoopDim, name: str, size: int) -> tuple[list[LoopDim], LoopDim]:
        """A dim in blocks, with bounds of which one is a number where not all rows look at all keys."""
        n = self.keys.extent if d.name == self.keys.name else d.extent
        assert isinstance(n, int)
        if n <= size:
            return [], d
        counting, dim = blocked(d, name, size)
        if d.name == self.keys.name:
            counting = [LoopDim(name, 0, sympy.Min(-(-n // size), expr.ceildiv(self.end, size)))]
        return counting, dim

    def _limited(self, d: LoopDim) -> LoopDim:
        return LoopDim(d.name, 0, self.end) if d.name == self.keys.name else d

    def _is_later(self, op: Operation, rows: Sequence[Operation]) -> bool:
        """Whether an op is needed outside of these rows' loop: what is no loop may be needed anywhere."""
        while op.parent is not self.kernel.body.block:
            op = cast(Operation, op.parent_op())
        return op not in rows

    # Products

    def _tiles(self, p: Factors) -> None:
        """The loops over strips of columns, parts of the sum and tiles of rows of a product."""
        if self.matrix:
            self._on_matrix_units(p)
            return
        n = cast(int, p.columns.extent)
        vectors = max(1, n // self.lanes)
        sides = range(1, self.vectors + 1)
        copies = max(c for c in sides if c == 1 or vectors % c == 0 or vectors > 2 * self.vectors)
        ops = copied(p.right, {})
        (r,) = p.inner.dims
        self.left = None
        if p is self.products[0] and (halves := halves_of(p.left)):
            made, self.left = self._compact(p, halves, self.row, r, self.height)
            self.ops += made
        across = not lies_along(ops, p.columns, r)
        if across:
            size = max(MIN_PART, PART // (4 * n) // 16 * 16)
            parts, r = self._in_parts(self._limited(r), "c2", size)
            strips, columns = list[LoopDim](), p.columns
            lies = is_plain(ops, columns) and stride(cast(LoadOp, ops[0]), r.symbol) == n
            kept = None if lies else self._compact(p, ops, r, columns, min(size, cast(int, p.reduced.extent)))
        else:
            parts, r = [], self._limited(r)
            strips, columns = blocked(p.columns, "c0", copies * self.lanes)
            kept = self._strip(p, ops, columns, r, copies * self.lanes)
            if p.columns.name == self.keys.name:
                strips = self._in_parts(self._limited(p.columns), "c0", copies * self.lanes)[0]
        before, place = kept or ([], None)
        if not parts:
            loop = self._tile(p, columns, r, place, copies, None)
            body = [*before, loop]
            self.ops += [over(strips, body, self.kernel)] if strips else body
            return
        # rows that two tiles have are added to once: what there was, and what is there, have places of their own
        sums = self._scratch([2, self.height, n], "f32")

        def at(part: Dim) -> IndexAttr:
            return IndexAttr.get([expr.mod(part, 2), within(self.row), columns.symbol])

        zero = arith.ConstantOp(FloatAttr(0.0, f32))
        fill = [zero, StoreOp.make(zero.result, sums, at(0), location=p.outer.location)]
        (part,) = parts
        following = expr.normal(part.symbol + 1)
        loop = self._tile(p, columns, r, place, copies, (sums, at(part.symbol), at(following)))
        self.ops += [over([self.row, columns], fill, self.kernel), over(parts, [*before, loop], self.kernel)]
        self._rest(p, columns, LoadOp.make(sums, at(part.extent), location=p.outer.location))

    def _on_matrix_units(self, p: Factors) -> None:
        columns, r = self._limited(p.columns), self._limited(p.reduced)
        n, k = (cast(int, d.extent) for d in (p.columns, p.reduced))
        packed = self._scratch([n // 16, k // 2, 16, 2], "bf16")
        at = IndexAttr.get([within(self.row), columns.symbol])
        match list(p.outer.body.block.ops):
            case [_, StoreOp() as store, YieldOp()] if store.index == at and p is self.products[0]:
                self.ops += attention_matrix.loops(p, self.row, columns, r, packed, store.target)
                return
            case _:
                sums = self._scratch([self.height, n], "f32")
        self.ops += attention_matrix.loops(p, self.row, columns, r, packed, sums)
        self._rest(p, columns, LoadOp.make(sums, at, location=p.outer.location))

    def _rest(self, p: Factors, columns: LoopDim, total: LoadOp) -> None:
        """What is done with the sums of a product, point by point."""
        values: dict[SSAValue, SSAValue] = {}
        rest = [*self._needed([p.outer], values), total, *self._with_sum(p, total.res, values)]
        self.ops.append(over([self.row, columns], rest, self.kernel))

    def _tile(
        self,
        p: Factors,
        columns: LoopDim,
        r: LoopDim,
        place: tuple[SSAValue, IndexAttr] | None,
        copies: int,
        sums: tuple[SSAValue, IndexAttr, IndexAttr] | None,
    ) -> ForOp:
        """The loop over tiles of rows. `place`: where the right factor is kept, `sums`: what is added to, and where
        the sum goes.
        """
        height = min(self.sums // copies, MOST, self.least)
        start = expr.symbol("c1") * height
        whole = self.height % height == 0 and self.least % height == 0
        first: Any = start if whole else sympy.Min(start, expr.normal(self.row.extent - height))  # pyright: ignore
        count: Any = -(-self.height // height)
        if self.least < self.height:
            # of the blocks, only the last one may be shorter
            left = expr.normal(self.rows - self.row.lo)  # pyright: ignore[reportOperatorIssue]
            count = sympy.Min(count, expr.ceildiv(left, height))
        points: list[dict[sympy.Symbol, Dim]] = [
            {self.row.symbol: expr.normal(self.row.lo + first + i)} for i in range(height)  # pyright: ignore
        ]  # fmt: skip
        tile = Tile(points, facts((*self.grid, columns, r)))
        values: dict[SSAValue, SSAValue] = {}
        body = self._needed([p.outer], values)
        inside: list[Operation] = []
        if self.left is not None:
            inside.append(load := LoadOp.make(*self.left, location=p.inner.location))
            values[p.left] = load.res
        if place is not None:
            load = LoadOp.make(*place, location=p.inner.location)
            values[p.right] = load.res
            inside.append(load)
        inside += [clone(o, values) for o in p.inner.body.block.ops if not any(r in values for r in o.results)]
        inner = Block(inside)
        drop_unused(inner)
        at = p.inner.location
        body.append(
            ForOp.make(DimsAttr.get([r]), inner, reduce=["add"], result_types=list(p.inner.result_types), location=at)
        )
        if sums is None:
            body += self._with_sum(p, body[-1].results[0], values)
        else:
            buffer, source, target = sums
            before = LoadOp.make(buffer, source, location=at)
            total = arith.AddfOp(before.res, body[-1].results[0])
            body += [before, total, StoreOp.make(total.result, buffer, target, location=at)]
        tile.ops(body)
        vector = over([columns], tile.made, self.kernel)
        vector.attributes["vector"] = StringAttr(columns.name)
        vector.attributes["lanes"] = IntegerAttr(self.lanes, i64)
        vector.attributes["unroll"] = IntegerAttr(copies, i64)
        return over([LoopDim("c1", 0, count)], [vector], self.kernel)

    def _with_sum(self, p: Factors, total: SSAValue, values: dict[SSAValue, SSAValue]) -> list[Operation]:
        """What follows the inner loop of a product."""
        ops: list[Operation] = []
        if p is self.products[1] and self.divisor is not None:
            quotient = arith.DivfOp(total, values[self.divisor])
            ops.append(quotient)
            total = quotient.result
        values[p.inner.results[0]] = total
        return [*ops, *(clone(o, values) for o in list(p.outer.body.block.ops)[:-1] if o is not p.inner)]

    def _strip(
        self, p: Factors, ops: list[Operation], columns: LoopDim, r: LoopDim, width: int
    ) -> tuple[list[Operation], tuple[SSAValue, IndexAttr]]:
        """The ops that keep a strip of columns of the right factor with these as neighbours, and where that is."""
        k = cast(int, p.reduced.extent)
        made: list[Operation] = []
        kept = self._scratch([-(-k // self.lanes) * self.lanes, width], "f32", made)
        at = IndexAttr.get([r.symbol, within(columns)])
        if not is_plain(ops, r):
            rows = self._scratch([width, k], "f32", made)
            place = IndexAttr.get([within(columns), r.symbol])
            ops.append(StoreOp.make(ops[-1].results[0], rows, place, location=p.inner.location))
            made.append(over([columns, r], ops, self.kernel))
            ops = [LoadOp.make(rows, place, location=p.inner.location)]
        ops.append(StoreOp.make(ops[-1].results[0], kept, at, location=p.inner.location))
        fill = over([columns, r], ops, self.kernel)
        fill.attributes["transpose"] = IntegerAttr(self.lanes, i64)
        return [*made, fill], (kept, at)

    def _compact(
        self, p: Factors, ops: list[Operation], outer: LoopDim, inner: LoopDim, points: int
    ) -> tuple[list[Operation], tuple[SSAValue, IndexAttr]]:
        """The ops that keep so many points of a factor in one piece, and where its elements are."""
        made: list[Operation] = []
        kept = self._scratch([points, cast(int, inner.extent)], "f32", made)
        at = IndexAttr.get([within(outer), inner.symbol])
        ops.append(StoreOp.make(ops[-1].results[0], kept, at, location=p.inner.location))
        return [*made, over([outer, inner], ops, self.kernel)], (kept, at)
