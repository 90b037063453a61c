"""`loop.for` at tiles: dims that fit a tile are axes, longer ones loops over tiles; reductions and scans over both."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects.arith import ExtFOp
from xdsl.dialects.builtin import AnyFloat, DictionaryAttr, IntegerAttr, IntegerType, f32, i32, i64
from xdsl.ir import Operation, SSAValue

from ..dialects import expr, tt
from ..dialects.loop import ForOp, LoadOp, LoopDim, ScanOp, YieldOp, body_ops
from ..dialects.tensor import HALF_TYPES
from ..dialects.tt_types import bool_attr, element_of
from .address import multiple_of
from .llvm_properties import KernelError
from .schedule_access import stride
from .tile_extent import at_most
from .tt_forms import most_of
from .tt_index import MOST, Index, Number, Place, known
from .tt_reductions import Reduction, across, identity, in_shape, make, running
from .tt_scalar import narrowed, widened

if TYPE_CHECKING:
    from .tt_body import KernelBody


_WIDE = 256
"""Lanes of a tile for whose conditions it pays to write the last tile of a loop by itself."""

UNROLL = "unroll"
"""The attribute of a loop whose tiles are written out one after the other."""

STAGES = "stages"
"""The attribute of a loop that asks for what a turn reads so many turns, less one, before."""


def tile_of(op: Operation, d: LoopDim) -> int:
    """The tile of a dim of a kernel or loop: points that a program has at hand at once; 1 where nothing is said."""
    tiles = op.attributes.get("tile")
    size = tiles.data.get(d.name) if isinstance(tiles, DictionaryAttr) else None
    return size.value.data if isinstance(size, IntegerAttr) else 1


class TileLoop:
    """One `loop.for` under construction."""

    def __init__(self, body: KernelBody, op: ForOp) -> None:
        self.body, self.op, self.b = body, op, body.b
        self.scans = [s for s in op.body.block.ops if isinstance(s, ScanOp)]
        self.dims = self._ordered(list(op.dims))
        self.tiles = {d.name: tile_of(op, d) for d in self.dims}
        last = cast(YieldOp, op.body.block.last_op)
        self.yields = list(last.values)
        most = at_most(expr.product(at_most(d) or 1 << 31 for d in op.dims))
        self.positions = i32 if most is not None and most <= MOST else i64
        self.reductions: list[Reduction] = [
            make(self.b, kind.data, f32 if isinstance(v.type, HALF_TYPES) else v.type, self.positions, self._rounded(v))
            for kind, v in zip(op.reduce.data, self.yields, strict=True)
        ]
        self.outer = len(body.axes)

    def _rounded(self, v: SSAValue) -> bool:
        """Whether a reduction of `v` may be a few units of f32 off: an f16 or bf16 is made of it, or was."""
        return self.op in self.body.rounded or (
            isinstance(v.owner, ExtFOp) and isinstance(v.owner.input.type, HALF_TYPES)
        )

    def _ordered(self, dims: list[LoopDim]) -> list[LoopDim]:
        """The dims with that of the scans innermost: the others are independent."""
        along = {s.dim.data for s in self.scans}
        if len(along) > 1:
            raise KernelError(f"loop.for {self.op.dims.text} scans along {', '.join(sorted(along))} at once")
        return sorted(dims, key=lambda d: d.name in along)

    # The loops

    def run(self) -> list[SSAValue]:
        """The loop's results."""
        body = self.body
        scans, scanner, env = body.scans, getattr(body, "scanner", None), dict(body.env)
        body.scanner = self._scan
        sizes = [self.tiles[d.name] for d in self.dims if self.tiles[d.name] > 1]
        self.full = (*body.shape, *sizes)
        looped = [d for d in self.dims if not self._fits(d)]
        self.lanes = (*self.full[:-1], self._folded()) if looped and sizes else self.full
        self.counted = self._counted(looped, sizes)
        initial = [v for r in self.reductions for v in self._initial(r)] if looped else []
        values = self._nest(0, initial, bool(looped))
        if self.counted is not None:
            values = self._with_counts(values)
        del body.axes[self.outer :]
        body.env = env
        body.scans = scans
        if scanner is not None:
            body.scanner = scanner
        return self._results(values, len(sizes))

    def _counted(self, looped: Sequence[LoopDim], sizes: Sequence[int]) -> tuple[int, ...] | None:
        """In what shape reductions count the points of lanes, as all lanes of axes around the loop have as many: that
        of its own axes, or one number if each turn has a point in the same lanes.
        """
        wide = [d for d in self.dims if self.tiles[d.name] > 1]
        if not wide or not looped or self.lanes != self.full or not any(r.counts for r in self.reductions):
            return None
        whole = [d for d in wide if multiple_of(d.extent, self.tiles[d.name])]
        if all(d in whole or (d not in looped and isinstance(d.lo, int) and isinstance(d.hi, int)) for d in wide):
            return ()
        return (*(1 for _ in self.body.shape), *sizes)

    def _initial(self, r: Reduction) -> list[SSAValue]:
        """What a loop carries of a reduction at first."""
        state = r.identity()
        last = state[-1:] if self.counted is not None and r.counts else []
        return [
            *in_shape(self.b, state[: len(state) - len(last)], self.lanes),
            *in_shape(self.b, last, self.counted or ()),
        ]

    def _with_counts(self, values: Sequence[SSAValue]) -> list[SSAValue]:
        """The states with a count in each lane; of one number that, or none."""
        body, b = self.body, self.b
        del body.axes[self.outer :]  # what stands around the loops has been entered already
        for d in self.dims:
            if self.tiles[d.name] > 1:
                self._enter(d, Index(b, body.env).scalar(d.lo), self.tiles[d.name])
        valid = self._valid()
        found, at = list(values), 0
        for r in self.reductions:
            at += r.size
            if r.counts:
                n = found[at - 1]
                if valid is not None and not self.counted:
                    n = b.select(valid, n, b.constant(0.0, n.type))
                found[at - 1 : at] = in_shape(b, [n], self.full)
        return found

    def _valid(self) -> SSAValue | None:
        """Where the tile has points; None where it has in all lanes."""
        valid: SSAValue | None = None
        for axis in self.body.axes[self.outer :]:
            valid = self.b.both(valid, axis.valid)
        return valid

    def _folded(self) -> int:
        """Lanes of the last axis that carry a state: as many as threads read in one go, where reductions take the
        others of a thread together.
        """
        tile = self.full[-1]
        if not all(r.folds for r in self.reductions) or self.tiles[self.dims[-1].name] != tile:
            return tile
        loads = [o for o in body_ops(self.op.body) if isinstance(o, LoadOp)]
        bytes_ = min((t.bitwidth // 8 for o in loads if isinstance(t := o.res.type, AnyFloat)), default=4)
        lanes = self.body.threads * 16 // bytes_
        if not any(stride(o, self.dims[-1].symbol) == 1 for o in loads):
            lanes //= prod(self.full[:-1])  # threads lie along the other axes first
        return min(tile, max(lanes, 1))

    def nothing(self) -> list[SSAValue]:
        """The results of a loop without points."""
        return self._results([v for r in self.reductions for v in r.identity()], 0)

    def _fits(self, d: LoopDim) -> bool:
        """Whether all points of a dim are in one tile."""
        most, tile = most_of(d, self.body.limits), self.tiles[d.name]
        return d.extent == 1 or (tile > 1 and most is not None and most <= tile)

    def _nest(self, depth: int, values: Sequence[SSAValue], looped: bool) -> list[SSAValue]:
        """The loops from `depth` inwards, with what reductions and scans carry in `values`."""
        if depth == len(self.dims):
            return self._innermost(values, looped)
        d, body = self.dims[depth], self.body
        index = Index(self.b, body.env)
        lo, tile = index.scalar(d.lo), self.tiles[d.name]
        if self._fits(d):
            self._enter(d, lo, tile)
            return self._after_scans(depth, values, looped)
        if UNROLL in self.op.attributes and isinstance(d.lo, int) and isinstance(d.hi, int) and not self.scans:
            return self._unrolled(depth, d.lo, d.hi, values)
        hi, rest = index.scalar(d.hi), self._rest(d)
        if rest is not None:
            hi = known(rest)
        type = i64 if max(lo.bound, hi.bound) + tile > MOST else i32
        bounds = [index.ssa(n, type) for n in (lo, hi, known(tile))]
        carried = list(values)
        count = len(carried)
        scans = self.scans if depth == len(self.dims) - 1 else []
        carried += [self._first(s) for s in scans]
        keys, rank = body.carried(self.op), len(body.axes)
        inner = count + len(scans)
        carried += [self.b.recall(key)[0] for key in keys]

        def step(i: SSAValue, state: Sequence[SSAValue]) -> list[SSAValue]:
            body.scans = body.scans | dict(zip(scans, state[count:inner], strict=True))
            body.carry(keys, state[inner:])
            written = dict(body.written)
            self._enter(d, Number(i, hi.bound), tile, whole=rest is not None)
            result = self._nest(depth + 1, list(state[:count]), True)
            if body.written.keys() - written.keys():
                # what a later turn reads may have been written in this one by another thread
                body.written = written | body.written
            del body.axes[rank:]
            return [*result, *(body.scans[s] for s in scans), *(self.b.recall(key)[0] for key in keys)]

        stages = self.op.attributes.get(STAGES) if depth == len(self.dims) - 1 else None
        state = self.b.loop(bounds[0], bounds[1], bounds[2], carried, step, stages)
        body.carry(keys, state[inner:])
        state = state[:count]
        return state if rest is None else self._unrolled(depth, rest, cast(int, d.hi), state)

    def _rest(self, d: LoopDim) -> int | None:
        """Where the last tile of a loop begins, if it is the only one with lanes that are no points: it comes after the
        loop.
        """
        tile = self.tiles[d.name]
        if self.scans or d.lo != 0 or not isinstance(d.hi, int) or d.hi % tile == 0 or tile < _WIDE:
            return None
        return d.hi // tile * tile

    def _unrolled(self, depth: int, lo: int, hi: int, values: Sequence[SSAValue]) -> list[SSAValue]:
        """A loop over tiles written out: what one loads is at hand where another loop over them loads it."""
        d, rank, state = self.dims[depth], len(self.body.axes), list(values)
        tile = self.tiles[d.name]
        for start in range(lo, hi, tile):
            self._enter(d, known(start), tile, whole=start + tile <= hi)
            state = self._nest(depth + 1, state, True)
            del self.body.axes[rank:]
        return state

    def _after_scans(self, depth: int, values: Sequence[SSAValue], looped: bool) -> list[SSAValue]:
        if depth == len(self.dims) - 1:
            self.body.scans = self.body.scans | {s: self._first(s) for s in self.scans}
        return self._nest(depth + 1, values, looped)

    def _enter(self, d: LoopDim, start: Number, tile: int, whole: bool = False) -> None:
        """A dim from `start` on; `whole`: all lanes of its tile are points."""
        body = self.body
        if tile == 1:
            body.env[d.symbol] = Place(start)
            return
        index = Index(self.b, body.env)
        end = None if whole or multiple_of(d.extent, tile) else index.scalar(d.hi)
        body.add_axis(d, start, tile, end, tile if d.lo == 0 else 1)

    # Reductions

    def _innermost(self, values: Sequence[SSAValue], looped: bool) -> list[SSAValue]:
        body, b = self.body, self.b
        body.block(self.op.body.block)
        if not self.reductions:
            return []
        valid = self._valid()
        result: list[SSAValue] = []
        at = 0
        for r, v in zip(self.reductions, self.yields, strict=True):
            state = in_shape(b, r.state(widened(b, body.values[v]), self._position), self.full)
            counted = looped and r.counts and self.counted is not None
            if valid is not None and not (counted and self.counted):
                nothing = r.identity()
                state = [b.select(valid, s, n) for s, n in zip(state, nothing, strict=True)]
                state = in_shape(b, state, self.full)
            if looped:
                before = values[at : at + len(state)]
                at += len(state)
                if counted:
                    *state, n = r.join_all(before, state, valid if self.counted else None)
                    state += in_shape(b, [n], self.counted or ())
                else:
                    state = (r.join if self.lanes == self.full else r.fold)(before, state)
            result += state
        return result

    def _position(self) -> SSAValue:
        """The row-major position in the domain."""
        index = Index(self.b, self.body.env)
        at: Any = 0
        for d in self.op.dims:
            at = at * d.extent + d.symbol - d.lo
        return self.b.resize(index.ssa(index.full(expr.normal(at))), self.positions)

    def _results(self, values: Sequence[SSAValue], axes: int) -> list[SSAValue]:
        results: list[SSAValue] = []
        at = 0
        for r in self.reductions:
            state = across(self.b, r, list(values[at : at + r.size]), axes)
            at += r.size
            for v in r.results(state):
                results.append(narrowed(self.b, v, self.op.res[len(results)].type))
        return results

    # Scans

    def _first(self, op: ScanOp) -> SSAValue:
        """What a scan carries before the first point."""
        type = f32 if isinstance(op.value.type, HALF_TYPES) else op.value.type
        start = identity(self.b, op.kind.data, type)
        along = next(d for d in self.dims if d.name == op.dim.data)
        if self.tiles[along.name] == 1:
            return self.b.fit(start, self.full)
        return self.b.fit(start, self._carried())

    def _carried(self) -> tuple[int, ...]:
        """The shape of what a scan carries. It is not that of a reduction's result: Triton's optimize-thread-locality
        rewrites a reduction that is added to what a loop carries, and fails where that is used for more.
        """
        return (*self.full[:-1], 1) if self.full[:-1] else ()

    def _scan(self, op: ScanOp) -> tuple[SSAValue, SSAValue]:
        """What the scan carries on, and its value at each point of the tile."""
        b, body, kind = self.b, self.body, op.kind.data
        along = next(d for d in self.dims if d.name == op.dim.data)
        before = body.scans[op]
        value = b.fit(widened(b, body.values[op.value]), self.full)
        if self.tiles[along.name] == 1:
            after = running(b, kind, before, value)
            return after, narrowed(b, after, op.res.type)
        axis = len(self.full) - 1
        type = element_of(value.type)
        valid = body.axes[-1].valid
        if valid is not None:
            value = b.fit(b.select(valid, value, identity(b, kind, type)), self.full)

        def both(x: Sequence[SSAValue], y: Sequence[SSAValue]) -> list[SSAValue]:
            return [running(b, kind, x[0], y[0])]

        (values,) = b.across(
            tt.ScanOp, tt.ScanReturnOp, [value], axis, [value.type], both, {"reverse": bool_attr(False)}
        )
        if self._fits(along):
            return before, narrowed(b, values, op.res.type)
        if kind in ("max", "min") and not isinstance(type, IntegerType):
            value = self._alone(values, along, identity(b, kind, type))
        types = [tt.tensor(type, self.full[:-1])]
        (total,) = b.across(tt.ReduceOp, tt.ReduceReturnOp, [value], axis, types, both)
        total = b.fit(total, self._carried())
        values = running(b, kind, before, values)
        return running(b, kind, before, total), narrowed(b, values, op.res.type)

    def _alone(self, values: SSAValue, along: LoopDim, nothing: SSAValue) -> SSAValue:
        """The last value of a tile among lanes of nothing: `tt.reduce` takes lanes in no order, and here it counts."""
        b, tile = self.b, self.tiles[along.name]
        last = b.compare("eq", b.lanes(tile, len(self.body.axes) - 1), b.constant(tile - 1, i32))
        return b.fit(b.select(last, values, nothing), self.full)
