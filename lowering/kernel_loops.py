"""`loop.for`: the loops over its dims, the parts of its vector dim, and what reductions and scans carry through."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import sympy
from xdsl.dialects import arith, llvm
from xdsl.dialects.builtin import IntegerAttr, IntegerType, StringAttr, i64
from xdsl.ir import Operation, SSAValue

from ..dialects import expr
from ..dialects.loop import ForOp, LoadOp, LoopDim, ScanOp, SortOp, StoreOp, YieldOp, body_ops
from ..dialects.tensor import TensorType, itemsize
from .address import evaluate, lane_compare, multiple_of
from .cascade import LONG_BLOCK, block_sizes
from .kernel_sort import Sorter
from .lanes import Lanes
from .llvm_builder import KernelError, Num, lanes_of
from .reductions import Accumulators, identity, tree
from .reductions_halves import reduction_of, taken
from .scans import scan_type
from .schedule_dims import block_extent

if TYPE_CHECKING:
    from .kernel_body import KernelBody

Value: TypeAlias = "SSAValue | tuple[SSAValue, ...]"
"""A value of the body: a scalar that all lanes share, or a vector for each unrolled copy."""


@dataclass(frozen=True)
class Group:
    """One part of a loop over the vector dim: steps of `copies * lanes`, its values at `start` among those carried."""

    lanes: int
    copies: int
    masked: bool
    accumulators: Accumulators
    start: int

    @property
    def range(self) -> slice:
        return slice(self.start, self.start + self.accumulators.size)


class ForLoop:
    """One `loop.for` under construction."""

    def __init__(self, body: KernelBody, op: ForOp):
        self.body, self.op, self.b = body, op, body.b
        self.scans = [s for s in op.body.block.ops if isinstance(s, (ScanOp, SortOp))]
        self.dims = self._ordered(list(op.dims))
        self.vector = self._vector_dim()
        self.apart = "apart" in op.attributes
        last = cast(YieldOp, op.body.block.last_op)
        self.yields = list(last.values)
        positions = expr.product(d.extent for d in self.dims)
        small = isinstance(positions, int) and positions < 2**31
        kinds = zip(op.reduce.data, self.yields, strict=True)
        self.reductions = [reduction_of(body.code, k.data, v.type, small, op in body.code.softmax) for k, v in kinds]
        self.groups: list[Group] = []
        self._reached: list[SSAValue] = []
        outer = body.lanes
        if self.vector is None:
            self._group(1 if outer is None else outer.lanes, body.copies, False)

    def _group(self, lanes: int, copies: int, masked: bool) -> Group:
        start = sum(g.accumulators.size for g in self.groups)
        group = Group(lanes, copies, masked, Accumulators(self.reductions, lanes, copies, masked), start)
        self.groups.append(group)
        return group

    def _ordered(self, dims: list[LoopDim]) -> list[LoopDim]:
        """The dims with that of the scans innermost: the others are independent."""
        along = {s.dim.data for s in self.scans}
        if len(along) > 1:
            raise KernelError(f"loop.for {self.op.dims.text} scans along {', '.join(sorted(along))} at once")
        return sorted(dims, key=lambda d: d.name in along)

    def _vector_dim(self) -> LoopDim | None:
        """The dim to vectorize, unless something around is a vector already."""
        name = self.op.attributes.get("vector")
        if not isinstance(name, StringAttr) or self.body.lanes is not None:
            return None
        if _number(self.op, "lanes") < 2:
            return None
        return next((d for d in self.dims if d.name == name.data), None)

    # ------------------------------------------------------------------------------------------------------------ run

    def run(self) -> list[Value]:
        """The loop's results."""
        if self.vector is None:
            values = self._nest(0, self.groups[0], self.groups[0].accumulators.initial())
            self._sort()
            return self._results_per_copy(values)
        main, rest = self._plan(self.vector)
        values = [v for g in self.groups for v in g.accumulators.initial()]
        self._main, self._rest = main, rest
        values = self._nest(0, None, values)
        self._sort()
        return list(self._results_across(values))

    def _sort(self) -> None:
        """Order what the loop has put into buffers."""
        at = 0
        for s in self.scans:
            if isinstance(s, SortOp) and self._reached:
                Sorter(self.body, s).finish(self._reached[at])
            at += self._states(s)

    def _results_per_copy(self, values: Sequence[SSAValue]) -> list[Value]:
        results: list[Value] = []
        for r, states in zip(self.reductions, self.groups[0].accumulators.states(values), strict=True):
            found = [self._narrowed(r.results(r.settle(state)), len(results)) for state in states]
            if self.body.lanes is None:
                results += found[0]
            else:
                results += [tuple(per_copy) for per_copy in zip(*found, strict=True)]
        return results

    def _results_across(self, values: Sequence[SSAValue]) -> list[SSAValue]:
        results: list[SSAValue] = []
        for i, r in enumerate(self.reductions):
            vectors: list[list[SSAValue]] = []
            scalars: list[list[SSAValue]] = []
            for g in self.groups:
                states = [r.settle(s) for s in g.accumulators.states(values[g.range])[i]]
                (vectors if g.lanes > 1 else scalars).extend(states)
            if vectors:
                scalars.insert(0, r.across(vectors))
            results += self._narrowed(r.results(tree(r, scalars)), len(results))
        return results

    def _narrowed(self, values: Sequence[SSAValue], first: int) -> list[SSAValue]:
        """Results from `first` on in their own types: half floats are added up in f32."""
        return [self.body.code.narrowed(v, self.op.res[first + i].type) for i, v in enumerate(values)]

    # ----------------------------------------------------------------------------------------------------------- plan

    def _plan(self, d: LoopDim) -> tuple[Group | None, Group | None]:
        """The groups of the vector dim: whole steps of several vectors, then what is left."""
        lanes, copies = _number(self.op, "lanes"), max(_number(self.op, "unroll"), 1)
        extent = d.extent
        if self.apart and copies % 2:
            raise KernelError(f"loop.for {self.op.dims.text} is apart, which takes an even number of vectors")
        if isinstance(extent, int):
            vectors = extent // lanes
            unit = 2 if self.apart else 1
            even = [n for n in range(copies, 1 if self.apart else copies // 2, -unit) if vectors % n == 0]
            copies = even[0] if even and vectors else max(min(copies, vectors // unit * unit), unit)
            left = extent % (lanes * copies)
            whole = extent >= lanes * copies
        else:
            left, whole = 0 if multiple_of(extent, lanes * copies) else -1, True
        main = self._group(lanes, copies, False) if whole else None
        if left == 0 and whole:
            return main, None
        if (left % lanes == 0 and left > 0) or multiple_of(extent, lanes):
            return main, self._group(lanes, 1, False)
        # LLVM stores too many bytes of a narrowed vector of which only the first lane is known to be on
        if left not in (0, 1) and self._masks_well():
            return main, self._group(lanes, 1, True)
        return main, self._group(1, 1, False)

    def _masks_well(self) -> bool:
        """Whether the target has masked instructions for all elements that the loop reads and writes."""
        target = self.body.target
        if target.has_avx512:
            return True
        types = [v.type for op in body_ops(self.op.body) if isinstance(op, (LoadOp, StoreOp)) for v in op.operands]
        sizes = {itemsize(t.dtype) for t in types if isinstance(t, TensorType)}
        return target.vector_bits >= 256 and sizes <= {4, 8}

    # ------------------------------------------------------------------------------------------------------------ nest

    def _nest(self, depth: int, group: Group | None, values: Sequence[SSAValue]) -> list[SSAValue]:
        """The loops from `depth` inwards. `group`: the part of the vector dim that is run, once that is chosen."""
        if depth == len(self.dims):
            assert group is not None
            return self._innermost(group, values)
        d, body = self.dims[depth], self.body
        lo, hi = (evaluate(self.b, e, body.index) for e in (d.lo, d.hi))
        if d is not self.vector:
            return self._loop(depth, group, d, lo, hi, 1, values, body.lanes)
        values = list(values)
        self._reached = []
        steps = self._main
        middle = lo
        if steps is not None:
            size = steps.lanes * steps.copies
            middle = self._whole_steps(lo, hi, size)
            lanes = Lanes(d.symbol, steps.lanes, steps.copies, None, False, apart=self.apart)
            lanes = replace(lanes, aligned=multiple_of(d.lo, lanes.run))
            values = self._loop(depth, steps, d, lo, middle, size, values, lanes)
        rest = self._rest
        if rest is not None:
            lanes = Lanes(d.symbol, rest.lanes, 1, None, multiple_of(d.lo, rest.lanes)) if rest.lanes > 1 else None
            values = self._loop(depth, rest, d, middle, hi, rest.lanes, values, lanes)
        return values

    def _whole_steps(self, lo: Num, hi: Num, size: int) -> Num:
        """Where the last whole step ends."""
        b = self.b
        extent = b.index_sub(hi, lo)
        if isinstance(extent, int):
            return b.index_add(lo, extent // size * size)
        if size & (size - 1) == 0:
            whole: Num = b.binary(llvm.AndOp, extent, b.constant(-size, i64))
        else:
            count = b.binary(llvm.SDivOp, extent, b.constant(size, i64))
            whole = b.index_mul(count, size)
        if isinstance(lo, int) and lo == 0 and all(s.is_positive for s in expr.symbols(self.vector.hi)):  # pyright: ignore
            return whole
        return b.index_add(lo, self._at_least_zero(b.number(whole)))

    def _at_least_zero(self, n: SSAValue) -> SSAValue:
        zero = self.b.constant(0, i64)
        return self.b.select(self.b.icmp("sgt", n, zero), n, zero)

    def _loop(
        self,
        depth: int,
        group: Group | None,
        d: LoopDim,
        lo: Num,
        hi: Num,
        step: int,
        values: Sequence[SSAValue],
        lanes: Lanes | None,
    ) -> list[SSAValue]:
        """The loop over one dim, in blocks where a float sum is long."""
        innermost = depth + 1 == len(self.dims)
        scans = self.scans if innermost else []
        block = 0 if scans else self._block()
        inside = self._terms(depth + 1)
        whole = inside is None or inside >= block

        def at(i: Num, carried: Sequence[SSAValue]) -> list[SSAValue]:
            outer, body = (self.body.lanes, self.body.index.get(d.symbol)), self.body
            body.index[d.symbol] = i
            here = lanes
            if lanes is not None and lanes is not outer[0] and group is not None and group.masked:
                left = self.b.index_sub(hi, i)
                mask = lane_compare(self.b, "lt", left, lanes.lanes)
                here = replace(lanes, mask=mask, left=left)
            body.enter(here)
            results = self._next(depth + 1, group, carried, scans, restart=block > 0 and whole and not innermost)
            body.enter(outer[0])
            if outer[1] is None:
                del body.index[d.symbol]
            else:
                body.index[d.symbol] = outer[1]
            return results

        start = [*values, *self._scan_start(scans, lanes)]
        once = d is self.vector and group is not None and group.masked
        most = None if d is self.vector else block_extent(d)
        steps = most if isinstance(most, int) else None
        sizes = block_sizes(lo, hi, step, inside, block, steps) if block and not once else []
        after = self._blocks(sizes, group, lo, hi, step, start, at)
        self._reached = after[len(values) :]
        return after[: len(values)]

    def _blocks(
        self,
        sizes: Sequence[int],
        group: Group | None,
        lo: Num,
        hi: Num,
        step: int,
        values: Sequence[SSAValue],
        at: Callable[[Num, Sequence[SSAValue]], Sequence[SSAValue]],
        runs: bool = False,
    ) -> list[SSAValue]:
        """The loop in blocks of blocks, each with partial sums of its own."""
        if not sizes:
            return self.b.loop(lo, hi, step, values, at, runs)
        size, *smaller = sizes

        def block(i: Num, carried: Sequence[SSAValue]) -> list[SSAValue]:
            end, last = self.b.number(self.b.index_add(i, size)), self.b.number(hi)
            end = self.b.select(self.b.icmp("slt", end, last), end, last)
            inner = partial(self._blocks, smaller, group, i, end, step, at=at, runs=True)
            return self._restarted(group, carried, inner)

        return self.b.loop(lo, hi, size, values, block, runs)

    def _next(
        self,
        depth: int,
        group: Group | None,
        carried: Sequence[SSAValue],
        scans: Sequence[ScanOp | SortOp],
        restart: bool,
    ) -> list[SSAValue]:
        if restart:
            return self._restarted(group, carried, lambda fresh: self._nest(depth, group, fresh))
        if not scans:
            return self._nest(depth, group, carried)
        values, at = carried[: len(carried) - self._scan_size], len(carried) - self._scan_size
        for s in scans:
            size = self._states(s)
            self.body.scans[s] = list(carried[at : at + size])
            at += size
        values = self._nest(depth, group, values)
        return [*values, *(v for s in scans for v in self.body.scans.pop(s))]

    def _block(self) -> int:
        """Terms of a partial sum, 0 where sums are not cut. What is added up decides, not how many sums a tile has: a
        row at its end is added up as all others.
        """
        cut = [(r.block, v) for r, v in zip(self.reductions, self.yields, strict=True) if r.block]
        products = all(isinstance(v.owner, arith.MulfOp) for _, v in cut)
        return LONG_BLOCK if cut and products else max((block for block, _ in cut), default=0)

    def _terms(self, depth: int) -> int | None:
        """How many terms the loops from `depth` inwards add to a sum, None if that is not known."""
        terms = 1
        for d in self.dims[depth:]:
            width = self.groups[0].lanes * self.groups[0].copies if d is self.vector else 1
            if not isinstance(d.extent, int):
                return None
            terms *= max(1, d.extent // width)
        return terms

    def _restarted(
        self,
        group: Group | None,
        carried: Sequence[SSAValue],
        run: Callable[[Sequence[SSAValue]], Sequence[SSAValue]],
    ) -> list[SSAValue]:
        """What `run` carries on with new partial sums, of one group or of all, joined with what was carried."""
        chosen = self.groups if group is None else [group]
        fresh = list(carried)
        for g in chosen:
            fresh[g.range] = g.accumulators.restart(carried[g.range])
        after = list(run(fresh))
        for g in chosen:
            after[g.range] = g.accumulators.resume(carried[g.range], after[g.range])
        return after

    def _is_across(self, s: ScanOp | SortOp) -> bool:
        """Whether a scan runs along the lanes: then all copies share one state."""
        return self.vector is not None and self.vector.name == s.dim.data

    def _states(self, s: ScanOp | SortOp) -> int:
        """How many values are carried for a scan."""
        return 2 if isinstance(s, SortOp) else 1 if self._is_across(s) else self.body.copies

    def _scan_start(self, scans: Sequence[ScanOp | SortOp], lanes: Lanes | None) -> list[SSAValue]:
        copies, width = (1, 1) if lanes is None else (lanes.copies, lanes.lanes)
        start: list[SSAValue] = []
        for s in scans:
            if isinstance(s, SortOp):
                start += self._reached[len(start) :][:2] or Sorter(self.body, s).start()
                continue
            if self._is_across(s) and self._reached:
                # the whole vectors have been there before what is left
                state = self._reached[len(start)]
                start.append(self.b.extract(state, 0) if width == 1 < lanes_of(state) else state)
                continue
            kind = "max" if s.kind.data == "logaddexp" else s.kind.data
            first = identity(self.body.code, kind, scan_type(s))
            start += [self.b.splat(first, width)] * (1 if self._is_across(s) else copies)
        self._scan_size = len(start)
        return start

    def _innermost(self, group: Group, values: Sequence[SSAValue]) -> list[SSAValue]:
        body = self.body
        body.block(self.op.body.block)
        if not self.reductions:
            return list(values)
        found = zip(self.reductions, self.yields, strict=True)
        yields = [[taken(body.code, r, body.operand(v, k), v.type) for k in range(group.copies)] for r, v in found]
        points = [Position(self, k) for k in range(group.copies)]
        mask = body.lanes.mask if body.lanes is not None and group.masked else None
        joined = group.accumulators.join(values[group.range], yields, mask, points)
        return [*values[: group.start], *joined, *values[group.range.stop :]]


class Position:
    """Where in a loop's domain a copy of the body is."""

    def __init__(self, loop: ForLoop, copy: int):
        self.loop, self.copy = loop, copy

    def position(self, type: IntegerType) -> SSAValue:
        """The row-major position among the loop's dims, per lane."""
        loop, b = self.loop, self.loop.b
        e: Any = 0
        for d in loop.op.dims:
            e = e * d.extent + d.symbol - d.lo
        e = expr.normal(sympy.expand(e))
        at = loop.body.lane_index(self.copy)
        step, base = at.step(e), b.resize(b.number(at.base(e)), type)
        if step == 0:
            return base
        if isinstance(step, int):
            return b.add(base, b.dense([i * step for i in range(at.lanes)], type))
        return b.resize(b.number(at.value(e)), type)


def _number(op: Operation, name: str) -> int:
    attribute = op.attributes.get(name)
    return cast("IntegerAttr[IntegerType]", attribute).value.data if isinstance(attribute, IntegerAttr) else 0
