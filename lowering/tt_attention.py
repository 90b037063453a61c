"""Attention at tiles, in one loop over keys: what is known of rows so far is scaled when a larger score comes.

    for tiles of keys {  x = scores(dot(q, k)),  n = max(m, max of x),  p = exp(x - n),  a = exp(m - n)
                         l = l a + sum of p,  o = o a + dot(p, v),  m = n  }
    (Milakov and Gimelshein, 2018; Dao et al., 2022)

Rows are the first axis; keys, then columns of the values are the second. Weights are multiplied in the 16-bit floats of
the values, before they are divided by their sum. Keys that no row of the tile sees are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeGuard, cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, f32, i32, i64
from xdsl.ir import Operation, SSAValue

from ..dialects import expr, tt
from ..dialects.loop import ForOp, KernelOp, LoadOp, LoopDim, ScratchOp, StoreOp, body_ops
from ..dialects.tensor import HALF_TYPES
from ..dialects.tt_types import element_of
from .address import multiple_of
from .attention_limit import is_lowest, seen_keys
from .attention_plan import EQUAL, Attention, Statistic
from .llvm_properties import KernelError
from .tt_contraction import ContractionLoop
from .tt_index import MOST, Index, Number, Place, known
from .tt_loops import tile_of
from .tt_reductions import Reduction, make, over
from .tt_rounded import exp2_of_sum
from .tt_scalar import ROUNDED, emit, same, widened

if TYPE_CHECKING:
    from .tt_access import Axis
    from .tt_body import KernelBody

ATTENTION = "attention"
"""The attribute of a kernel whose products are attention."""

LOG2_E = 1.4426950408889634


def _positive(v: SSAValue) -> float | None:
    """The positive number that a value is."""
    op = v.owner
    if not isinstance(op, arith.ConstantOp) or not isinstance(op.value, FloatAttr):
        return None
    n = op.value.value.data
    return n if 1e-30 < n < 1e30 else None


def _is_blind(v: SSAValue) -> bool:
    """Whether a score is -inf."""
    op = v.owner
    if not isinstance(op, arith.CmpfOp) or not is_lowest(op.rhs):
        return False
    return cast("IntegerAttr[Any]", op.predicate).value.data == EQUAL


class AttentionBody:
    """The body of one such kernel, its grid entered."""

    def __init__(self, body: KernelBody, kernel: KernelOp) -> None:
        plan = Attention.of(kernel)
        if plan is None or len(body.axes) != 1:
            raise KernelError("a kernel that is said to be attention is none")
        self.body, self.b, self.kernel, self.plan = body, body.b, kernel, plan
        if not plan.is_f32:
            # a score that is some units off changes its weight by as much as the score is large: less than its rounding
            body.rounded |= {o for loop in kernel.body.block.ops if self._over_keys(loop) for o in body_ops(loop.body)}
        (self.row,) = body.axes
        self.factor = 1.0
        """What scores in the loop are to be multiplied by."""
        self.reductions: list[tuple[Statistic, Reduction]] = []
        """How the other reductions of rows go."""
        for s in plan.others:
            type = f32 if isinstance(s.result.type, HALF_TYPES) else s.result.type
            self.reductions.append((s, make(self.b, s.kind, type, i64)))

    def run(self) -> None:
        """All ops of the kernel but the last."""
        body, plan = self.body, self.plan
        later: dict[Operation, None] = {}
        for op in list(self.kernel.body.block.ops)[:-1]:
            if op.regions or isinstance(op, StoreOp) or any(v.owner in later for v in op.operands):
                later[op] = None
            else:
                body.op(op)
        body.values |= self._keys()
        for op in later:
            if op is plan.last.outer:
                self._columns()
            elif not self._over_keys(op):
                body.op(op)

    def _over_keys(self, op: Operation) -> TypeGuard[ForOp]:
        return isinstance(op, ForOp) and op.dims == self.plan.first.outer.dims

    # The loop over keys

    def _keys(self) -> dict[SSAValue, SSAValue]:
        """What rows are reduced to; the sums of values among it, under the result of their product."""
        body, b, plan = self.body, self.b, self.plan
        keys, tile = plan.keys, tile_of(plan.first.outer, plan.keys)
        columns = tile_of(plan.last.outer, plan.last.columns)
        self._queries()
        rows, values = (self.row.size,), (self.row.size, columns)
        infinite, zero = b.constant(float("-inf"), f32), b.constant(0.0, f32)
        initial = [b.fit(infinite, rows), b.fit(zero, rows), b.fit(zero, values)]
        for _, r in self.reductions:
            initial += [b.fit(v, rows) for v in r.identity()]
        env = dict(body.env)
        place = env[plan.row.symbol]
        index = Index(b, env | {plan.row.symbol: Place(place.base)})
        start, end = 0, keys.extent
        # what else rows are reduced to does not change where nothing is seen: "all are -inf"
        if all(s.kind == "and" and _is_blind(s.value) for s in plan.others):
            block = LoopDim(plan.row.name, plan.row.symbol, expr.normal(plan.row.symbol + self.row.size))
            start, end = seen_keys(plan.scores, plan.source, keys, plan.row, block, tile)
        low, high = index.scalar(start), index.scalar(end)
        bounds = [index.ssa(n, i32) for n in (low, high, known(tile))]

        def step(i: SSAValue, state: Sequence[SSAValue]) -> list[SSAValue]:
            kept = dict(body.values)
            result = self._tile(Number(i, min(high.bound, MOST)), tile, state)
            body.values = kept
            del body.axes[1:]
            body.env = dict(env)
            return result

        most, total, sums, *rest = b.loop(bounds[0], bounds[1], bounds[2], initial, step)
        most = b.float(arith.MulfOp, most, b.constant(self.factor, f32)) if self.factor != 1 else most
        if not plan.safe:
            # where all scores are -inf, each differs from the largest by NaN
            blind = b.compare("oeq", most, same(b, float("-inf"), most))
            total = b.select(blind, same(b, float("nan"), total), total)
        found = {plan.most.result: most, plan.total.result: total}
        for s, r in self.reductions:
            (found[s.result],) = r.results(rest[: r.size])
            rest = rest[r.size :]
        found[plan.last.inner.res[0]] = sums
        return found

    def _queries(self) -> None:
        """The factor that stays: loaded before the loop, and at hand in it."""
        body, plan = self.body, self.plan
        axes = list(body.axes)
        body.axes.append(self.row)
        product = ContractionLoop(body, plan.first.inner)
        body.axes[:] = axes
        product.start = known(0)
        product.tile(plan.factors[0], (self.row, None), (self.row.size, product.tiles[product.depth.name]))

    def _tile(self, start: Number, tile: int, state: Sequence[SSAValue]) -> list[SSAValue]:
        body, b, plan, keys = self.body, self.b, self.plan, self.plan.keys
        before, total, sums, *rest = state
        end = None if multiple_of(keys.extent, tile) else Index(b, body.env).scalar(keys.hi)
        body.add_axis(keys, start, tile, end, tile)
        shape, valid = body.shape, body.axes[1].valid
        product = ContractionLoop(body, plan.first.inner)
        product.factors = [plan.factors[:2]]
        (score,) = product.run()
        if plan.scale != 1:
            score = b.float(arith.MulfOp, score, b.constant(plan.scale, f32))
        body.values[plan.first.inner.res[0]] = score
        x, self.factor = self._unscaled(plan.scores)
        x = b.fit(widened(b, x), shape)
        if valid is not None:
            x = b.fit(b.select(valid, x, b.constant(float("-inf"), f32)), shape)
        (top,) = over(b, [x], 1, lambda p, q: [b.float(arith.MaximumfOp, p[0], q[0])])
        most = b.float(arith.MaximumfOp, before, top)
        none = b.compare("oeq", most, same(b, float("-inf"), most))
        below = b.select(none, same(b, 0.0, most), most)
        p, scale = (exp2_of_sum(b, self._power(v, below)) for v in (x, before))
        (more,) = over(b, [p], 1, lambda p, q: [b.float(arith.AddfOp, p[0], q[0])])
        total = b.float(arith.AddfOp, b.float(arith.MulfOp, total, scale), more)
        after: list[SSAValue] = []
        for s, r in self.reductions:
            value = widened(b, self._value(s.value))
            new = [b.fit(v, shape) for v in r.state(value, lambda v=value: v)]
            if valid is not None:
                new = [b.fit(b.select(valid, v, n), shape) for v, n in zip(new, r.identity(), strict=True)]
            after += r.combine(rest[len(after) : len(after) + r.size], r.lanes(new))
        return [most, total, self._values(p, start, tile, b.float(arith.MulfOp, sums, scale)), *after]

    def _power(self, x: SSAValue, most: SSAValue) -> SSAValue:
        """(x - most) log2(e), in one step where nothing overflows: masks may hold the least number that there is."""
        b, n = self.b, self.factor * LOG2_E
        power = b.constant(n, f32)
        if n > 1 or self.plan.is_f32:
            return b.float(arith.MulfOp, b.float(arith.SubfOp, x, most), power)
        return b.float(arith.SubfOp, b.float(arith.MulfOp, x, power), b.float(arith.MulfOp, most, power))

    def _values(self, p: SSAValue, start: Number, tile: int, so_far: SSAValue) -> SSAValue:
        """The sums of values, with those of these keys."""
        body, b, plan = self.body, self.b, self.plan
        axes, env = list(body.axes), dict(body.env)
        del body.axes[1:]
        column = self._column()
        product = ContractionLoop(body, plan.last.inner)
        product.start = start
        matrix = product.tile(plan.factors[2], (None, column), (tile, column.size))
        body.axes[:], body.env = axes, env
        p = p if plan.is_f32 else b.cast(arith.TruncFOp, p, element_of(matrix.type))
        return b.insert(tt.DotOp.make(p, matrix, so_far, product.precision)).results[0]

    def _column(self) -> Axis:
        body, plan = self.body, self.plan
        d = plan.last.columns
        tile = tile_of(plan.last.outer, d)
        end = None if multiple_of(d.extent, tile) else Index(self.b, body.env).scalar(d.hi)
        body.add_axis(d, known(0), tile, end, tile)
        return body.axes[-1]

    def _unscaled(self, v: SSAValue) -> tuple[SSAValue, float]:
        """A score before it is multiplied by a positive number, and that, which goes into the exponent's."""
        op = v.owner
        stored = self.plan.source(op) if isinstance(op, LoadOp) else None
        if stored is not None:
            return self._unscaled(stored)
        match op:
            case arith.MulfOp() | arith.DivfOp() if (n := _positive(op.rhs)) is not None:
                return self._value(op.lhs), n if isinstance(op, arith.MulfOp) else 1 / n
            case arith.SelectOp() if is_lowest(op.rhs) or is_lowest(op.lhs):
                seen, lowest = (op.lhs, op.rhs) if is_lowest(op.rhs) else (op.rhs, op.lhs)
                value, n = self._unscaled(seen)
                sides = (value, self._value(lowest)) if seen is op.lhs else (self._value(lowest), value)
                return self.b.select(self._value(op.cond), *sides), n
            case _:
                return self._value(v), 1.0

    def _value(self, v: SSAValue) -> SSAValue:
        """A value at the tile, with all that it is made of; what is kept for each score is taken where it is made."""
        body, op = self.body, v.owner
        if v not in body.values:
            if not isinstance(op, Operation) or op.regions:
                raise KernelError("a score is made of the result of a loop")
            stored = self.plan.source(op) if isinstance(op, LoadOp) else None
            if stored is not None:
                body.values[v] = self._value(stored)
            else:
                for operand in op.operands:
                    if operand not in body.buffers and not isinstance(operand.owner, ScratchOp):
                        self._value(operand)
                body.op(op)
        return body.values[v]

    # What follows

    def _columns(self) -> None:
        """What is done with the sums of values."""
        body, b, plan = self.body, self.b, self.plan
        total = body.values[plan.last.inner.res[0]]
        env = dict(body.env)
        self._column()
        for op, at in plan.weight:
            operands = [total if i == at else self._value(v) for i, v in enumerate(op.operands)]
            total = b.fit(emit(b, op, operands, ROUNDED if op in body.rounded else {}), body.shape)
        body.values[plan.last.inner.res[0]] = total
        for op in list(plan.last.outer.body.block.ops)[:-1]:
            if op is not plan.last.inner:
                body.op(op)
        del body.axes[1:]
        body.env = env
