"""Reductions rewritten before fusion: long ones with few results in parts, and sums of columns where a thread should
read rows as they lie; variance in two passes.

    sum over r of x[r]  =  sum over c of (sum over r in chunk c of x[r])
    welford(x)          =  mean = sum(x) / n,  m2 = sum((x - mean)**2)

The number of parts depends on sizes and the machine, never on how many threads run: a run gives the same bits as the
next. Products of matrices stay whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import sympy
from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr
from xdsl.ir import Block, Operation, SSAValue

from ..dialects import expr
from ..dialects.expr import Dim
from ..dialects.loop import DimsAttr, IndexAttr, IndexOp, LoadOp, LoopDim, NestOp, ScatterOp, YieldOp
from ..dialects.symbol_kinds import SIGNED, symbol_kind
from ..dialects.tensor import TensorType, is_float, itemsize
from .cascade import ADDED
from .contraction import contraction_of_nest
from .fuse_bins import as_sums
from .fuse_cost import Hints, Machine
from .fuse_graph import tensor_type
from .fuse_strips import Cut, cuts_of, is_sum, strips
from .index_simplify import facts
from .index_split import substitute_body
from .schedule_access import Access, accesses, stride, type_of

CHUNK = 16 << 10
"""Elements of a part, about."""

LEAST = 64 << 10
"""Elements below which a reduction stays whole."""

ROWS = 64
"""Rows of a part where the results are columns."""

RUN = 2 << 20
"""Bytes of rows, about, that one thread adds up where each should read memory as it lies."""

COLUMNS = 32
"""Results whose columns a program of a GPU sums up, about."""

LONG = 512
"""Elements of a row whose mean is mended by one more sum: in shorter ones what is done once a row counts."""

_MOST = {
    "f16": 65504.0,
    "bf16": (2 - 2**-7) * 2.0**127,
    "f32": (2 - 2**-23) * 2.0**127,
    "f64": (2 - 2**-52) * 2.0**1023,
}
"""The largest numbers."""

_PARTED = frozenset({"add", "mul", "max", "min", "and", "or", "xor"})


def split_reductions(ops: Sequence[Operation], machine: Machine, hints: Hints) -> list[Operation]:
    """The ops, with reductions replaced where that is worth it; the uses of their results are replaced too, and those
    reductions are erased, that what they read knows no use of theirs.
    """
    found: list[Operation] = []
    in_strips = strips(ops, hints, machine, LEAST) if machine.parts and machine.strips else {}
    for o in ops:
        if isinstance(o, NestOp) and o in in_strips:
            found += in_parts(o, in_strips[o])
            continue
        if isinstance(o, ScatterOp) and machine.rows and (sums := as_sums(o, hints)):
            found += [*_in_parts(sums[0], machine, hints), sums[1]]
            continue
        if not isinstance(o, NestOp) or not o.combine.data or o.scan is not None or contraction_of_nest(o) is not None:
            found.append(o)
            continue
        pieces: list[Operation] = [o]
        if _is_variance(o):
            if machine.one_pass and not _is_at_hand(o, machine, hints):
                found += [p for piece in _in_parts(o, machine, hints) for p in _at_hand(piece, machine, hints)]
                continue
            if _in_two_passes(o, machine, hints):
                pieces = two_passes(o, hints)
        alone = machine if len(pieces) == 1 else replace(machine, runs=0)  # the second pass finds columns at hand
        for piece in pieces:
            found += _in_parts(piece, alone, hints) if isinstance(piece, NestOp) else [piece]
    return found


# Variance


def _is_variance(o: NestOp) -> bool:
    return [k.data for k in o.combine.data] == ["welford"]


def _in_two_passes(o: NestOp, machine: Machine, hints: Hints) -> bool:
    """Whether the second pass finds what the first read in the cache, or there are too few results for the threads."""
    return _is_at_hand(o, machine, hints) or hints.points(tuple(o.dims)) < machine.threads


def _at_hand(o: Operation, machine: Machine, hints: Hints) -> list[Operation]:
    """A part, in two passes where it is a variance that finds what the first has read."""
    if isinstance(o, NestOp) and _is_variance(o) and _is_at_hand(o, machine, hints):
        return two_passes(o, hints)
    return [o]


def _is_at_hand(o: NestOp, machine: Machine, hints: Hints) -> bool:
    if machine.rows and machine.one_pass and tensor_type(o.res[0]).dtype == "f32" and _is_column(o, hints):
        return False  # a program of a GPU has many columns side by side, and others at work as much
    return hints.points(tuple(o.reduce)) * 4 <= machine.row


def two_passes(o: NestOp, hints: Hints) -> list[Operation]:
    """Mean and sum of squared deviations as a sum, a quotient and a sum; of long rows one more sum mends the mean:

    m = sum(x) / n,  c = sum(x - m) / n,  mean = m + c,  m2 = sum((x - m)**2) - n c**2

    Short rows are summed from their first element p, which makes the mean of equal numbers exact at less cost:
    m = p + sum(x - p) / n
    """
    t = tensor_type(o.res[0])
    plain = tuple(d.symbol for d in o.dims)
    index = IndexAttr.get(plain if o.out is None else o.out)
    first = _first(o, t) if _is_short(o, hints) else None
    if first is None:
        total = _nest(o, o.dims, _copy(o), [t], o.reduce, ("add",))
        about = _quotient(o, total.res[0], index)
        before = [total, about]
    else:
        total = _nest(o, o.dims, _apart(o, first.res[0], index), [t], o.reduce, ("add",))
        about = _quotient(o, total.res[0], index, first.res[0])
        before = [first, total, about]
    body = _copy(o)
    last = body.last_op
    assert isinstance(last, YieldOp)
    known = LoadOp.make(about.res[0], index, location=o.location)
    apart = arith.SubfOp.create(operands=[last.values[0], known.res], result_types=[t.element], location=o.location)
    square = _binary(arith.MulfOp, apart.results[0], apart.results[0], o)
    body.insert_ops_before([known, apart, square], last)
    if not _is_mended(o, hints):
        last.operands = square.results
        m2 = _nest(o, o.dims, body, [tensor_type(o.res[1])], o.reduce, ("add",))
        _replace(o, [about.res[0], m2.res[0]])
        return [*before, m2]
    last.operands = [apart.results[0], square.results[0]]
    sums = _nest(o, o.dims, body, [t, tensor_type(o.res[1])], o.reduce, ("add", "add"))
    mended = _mended(o, about.res[0], sums, index)
    _replace(o, mended.res)
    return [*before, sums, mended]


def _is_short(o: NestOp, hints: Hints) -> bool:
    """Whether rows have elements, but few."""
    return all(map(_is_some, o.reduce)) and hints.points(tuple(o.reduce)) < LONG and _is_inexact(o)


def _is_some(d: LoopDim) -> bool:
    """Whether a dim surely has elements: torch has symbols of arguments stand for 2 and more."""
    n = d.extent
    return n > 0 if isinstance(n, int) else isinstance(n, sympy.Symbol) and symbol_kind(n.name) not in SIGNED


def _first(o: NestOp, t: TensorType) -> NestOp:
    """The first element of each row."""
    body = substitute_body(o.body.block, {d.symbol: d.lo for d in o.reduce}, facts(tuple(o.dims)))
    return _nest(o, o.dims, body, [t])


def _apart(o: NestOp, from_: SSAValue, index: IndexAttr) -> Block:
    """The body of o, with what it yields taken from a number of the row."""
    body = _copy(o)
    last = body.last_op
    assert isinstance(last, YieldOp)
    known = LoadOp.make(from_, index, location=o.location)
    apart = _binary(arith.SubfOp, last.values[0], known.res, o)
    body.insert_ops_before([known, apart], last)
    last.operands = apart.results
    return body


def _is_mended(o: NestOp, hints: Hints) -> bool:
    """Whether the mean is worth a sum more."""
    return hints.points(tuple(o.reduce)) >= LONG and _is_inexact(o)


def _is_inexact(o: NestOp) -> bool:
    """Whether the sum is rounded: of what narrower floats are made into, it is exact enough."""
    size, seen, todo = itemsize(tensor_type(o.res[0]).dtype), {o}, [o]
    while todo:
        for x in (a.operands[0] for a in accesses(todo.pop().body.block.ops)):
            t, maker = tensor_type(x), x.owner
            if not is_float(t.dtype) or itemsize(t.dtype) < size or maker in seen:
                continue
            if not isinstance(maker, NestOp) or maker.combine.data:
                return True
            seen.add(maker)
            todo.append(maker)
    return False


def _mended(o: NestOp, about: SSAValue, sums: NestOp, index: IndexAttr) -> NestOp:
    """The mean and m2 from a number near the mean, the sum of the deviations from it and that of their squares. What is
    taken from m2 leaves 0 at least, and infinity as it is.
    """
    t = tensor_type(o.res[0])
    near, rest, squares = (LoadOp.make(v, index, location=o.location) for v in (about, *sums.res))
    ops: list[Operation] = [near, rest, squares, *_number(expr.product(d.extent for d in o.reduce), t, o)]
    most, zero = (_float(v, t, o) for v in (_MOST[t.dtype], 0.0))
    off = _binary(arith.DivfOp, rest.res, ops[-1].results[0], o)
    mean = _binary(arith.AddfOp, near.res, off.results[0], o)
    more = _binary(arith.MulfOp, rest.res, off.results[0], o)
    taken = _binary(arith.MinimumfOp, more.results[0], most.results[0], o)
    left = _binary(arith.SubfOp, squares.res, taken.results[0], o)
    m2 = _binary(arith.MaximumfOp, left.results[0], zero.results[0], o)
    last = YieldOp.create(operands=[*mean.results, *m2.results], location=o.location)
    body = Block([*ops, most, zero, off, mean, more, taken, left, m2, last])
    return _nest(o, o.dims, body, [tensor_type(r) for r in o.res])


def _quotient(o: NestOp, total: SSAValue, index: IndexAttr, from_: SSAValue | None = None) -> NestOp:
    """The mean of numbers with that sum, or of those whose distances from a number have it."""
    t = tensor_type(total)
    n = expr.product(d.extent for d in o.reduce)
    sum_ = LoadOp.make(total, index, location=o.location)
    ops: list[Operation] = [sum_, *_number(n, t, o)]
    ops.append(_binary(arith.DivfOp, sum_.res, ops[-1].results[0], o))
    if from_ is not None:
        known = LoadOp.make(from_, index, location=o.location)
        ops += [known, _binary(arith.AddfOp, known.res, ops[-1].results[0], o)]
    ops.append(YieldOp.create(operands=ops[-1].results, location=o.location))
    return _nest(o, o.dims, Block(ops), [t])


def _binary(cls: type[Operation], a: SSAValue, b: SSAValue, o: Operation) -> Operation:
    properties = {"fastmath": arith.FastMathFlagsAttr("none")}
    return cls.create(operands=[a, b], result_types=[a.type], properties=properties, location=o.location)


# Parts


def _in_parts(o: NestOp, machine: Machine, hints: Hints) -> list[Operation]:
    kinds = {k.data for k in o.combine.data}
    if not machine.parts or not kinds or not (_is_variance(o) or kinds <= _PARTED):
        return [o]
    results, points = hints.points(tuple(o.dims)), hints.points(tuple(o.reduce))
    if results * points < LEAST:
        return [o]
    columns = _is_column(o, hints)
    least = max(ROWS, machine.rows)
    sizes = [hints.size(d.extent) for d in o.reduce]
    k = next((i for i, n in enumerate(sizes) if n >= 8), max(range(len(sizes)), key=lambda i: sizes[i]))
    if columns and is_sum(o) and machine.in_order and (rows := _run(o, sizes[k], points, results, machine, hints)):
        return in_parts(o, [(k, rows)])
    if results >= machine.threads * (least if columns else 1):
        return [o]
    if columns and machine.rows:
        tiles = -(-results // COLUMNS)
        least = min(least, max(2 * ROWS, points * tiles // machine.threads))
        cuts = cuts_of(sizes, least, max(1, 2 * machine.threads // tiles))
        return in_parts(o, cuts) if cuts else [o]
    inside = max(1, points // max(1, sizes[k]))
    rows = max(1, CHUNK // (inside * (min(results, CHUNK) if columns else 1)))
    if columns:
        rows = max(rows, least)
    elif machine.hold:
        rows = 1 << (rows.bit_length() - 1)  # held in a tile, whose sizes are powers of two
    return [o] if 2 * rows > sizes[k] else in_parts(o, [(k, rows)])


def _run(o: NestOp, extent: int, points: int, results: int, machine: Machine, hints: Hints) -> int:
    """How many points of a reduced dim a part has where threads should each read rows as they lie, all columns of them;
    0 where there is too little to share, or there are sums enough for all threads beside those of columns.
    """
    loads = accesses(o.body.block.ops)
    size = max((itemsize(type_of(a).dtype) for a in loads), default=0)
    columns = max((hints.size(d.extent) for d in o.dims if any(stride(a, d.symbol) == 1 for a in loads)), default=1)
    parts, read = 2 * machine.threads * columns // max(1, results), results * points * size
    if parts < 2 or not machine.far(read, size):
        return 0
    inside = max(1, points // max(1, extent))
    parts = max(parts, -(-read // RUN) // machine.threads * machine.threads)  # as many for each
    rows = max(-(-extent // parts), -(-ROWS // inside))
    rows = -(-rows // ADDED) * ADDED if inside == 1 else rows  # whole strips
    return rows if 2 * rows <= extent else 0


def _is_column(o: NestOp, hints: Hints) -> bool:
    """Whether neighbours in memory go to different results, of most of what is read."""
    loads = accesses(o.body.block.ops)

    def bytes_(a: Access) -> int:
        moving = {s for e in a.index for s in expr.symbols(e)}
        points = hints.points(tuple(d for d in (*o.dims, *o.reduce) if d.symbol in moving or a.indices))
        return points * itemsize(type_of(a).dtype)

    def weight(dims: Sequence[LoopDim]) -> int:
        per_dim = (sum(bytes_(a) for a in loads if stride(a, d.symbol) == 1) for d in dims)
        return max(per_dim, default=0)

    return weight(o.dims.data.items) > weight(o.reduce.data.items)


def in_parts(o: NestOp, cuts: Sequence[Cut]) -> list[Operation]:
    """A reduction of parts of so many rows along some of its reduce dims, and the reduction of its results."""
    part, counts, points = _part(o, cuts)
    counting = [LoopDim(f"r{i}", 0, count) for i, count in enumerate(counts)]
    over, index = DimsAttr.get(counting), IndexAttr.get([x.symbol for x in (*counting, *o.dims)])
    if _is_variance(o):
        return [part, *_merged(o, part, index, over, points)]
    loads = [LoadOp.make(r, index, location=o.location) for r in part.res]
    last = YieldOp.create(operands=[load.res for load in loads], location=o.location)
    kinds = [k.data for k in o.combine.data]
    final = _nest(o, o.dims, Block([*loads, last]), [tensor_type(r) for r in o.res], over, kinds)
    for old, new in zip(o.res, final.res, strict=True):
        new.name_hint = old.name_hint
    _replace(o, final.res)
    return [part, final]


def _part(o: NestOp, cuts: Sequence[Cut]) -> tuple[NestOp, list[Dim], Dim]:
    """The reductions of parts, how many there are along each cut, and how many points the part `r0`, `r1`, … has."""
    counts = [expr.ceildiv(o.reduce[k].extent, rows) for k, rows in cuts]
    chunks = [LoopDim(f"d{i}", 0, count) for i, count in enumerate(counts)]
    names = {x.symbol: expr.symbol(f"d{len(cuts) + i}") for i, x in enumerate(o.dims)}
    dims = [*chunks, *(LoopDim(names[x.symbol].name, x.lo, x.hi) for x in o.dims)]
    reduce = list(o.reduce)
    for (k, rows), chunk in zip(cuts, chunks, strict=True):
        d = o.reduce[k]
        end: Any = rows * chunk.symbol + rows
        whole = isinstance(d.extent, int) and d.extent % rows == 0
        reduce[k] = LoopDim(d.name, rows * chunk.symbol, end if whole else sympy.Min(sympy.sympify(d.hi), end))
    known = facts((*dims, *reduce))
    body = substitute_body(o.body.block, names, known)
    shape = [x.extent for x in dims]
    types = [tensor_type(r).with_(shape=shape) for r in o.res]
    part = NestOp.make(
        DimsAttr.get(dims),
        body,
        types,
        reduce=DimsAttr.get(reduce),
        combine=[k.data for k in o.combine.data],
        location=o.location,
        attributes=dict(o.attributes),
    )
    points = expr.product(x.extent for x in reduce)
    return part, counts, expr.substitute(points, {d.symbol: expr.symbol(f"r{i}") for i, d in enumerate(chunks)})


def _merged(o: NestOp, part: NestOp, index: IndexAttr, over: DimsAttr, points: Dim) -> list[NestOp]:
    """Mean and sum of squared deviations from those of parts with n points (Chan et al., 1979):
    mean = sum(n mean_p) / sum(n),  m2 = sum(m2_p + n (mean_p - mean)**2).
    """
    t, plain = tensor_type(o.res[0]), tuple(d.symbol for d in o.dims)
    at = IndexAttr.get(plain if o.out is None else o.out)
    mean_p = LoadOp.make(part.res[0], index, location=o.location)
    count = _number(points, t, o)
    weighted = _binary(arith.MulfOp, mean_p.res, count[-1].results[0], o)
    last = YieldOp.create(operands=weighted.results, location=o.location)
    total = _nest(o, o.dims, Block([mean_p, *count, weighted, last]), [t], over, ("add",))
    mean = _quotient(o, total.res[0], at)
    mean_p, m2_p = (LoadOp.make(r, index, location=o.location) for r in part.res)
    known, count = LoadOp.make(mean.res[0], at, location=o.location), _number(points, t, o)
    apart = _binary(arith.SubfOp, mean_p.res, known.res, o)
    moved = _binary(arith.MulfOp, apart.results[0], count[-1].results[0], o)
    between = _binary(arith.MulfOp, moved.results[0], apart.results[0], o)
    both = _binary(arith.AddfOp, m2_p.res, between.results[0], o)
    last = YieldOp.create(operands=[*moved.results, *both.results], location=o.location)
    ops = [mean_p, m2_p, known, *count, apart, moved, between, both, last]
    sums = _nest(o, o.dims, Block(ops), [t, tensor_type(o.res[1])], over, ("add", "add"))
    mended = _mended(o, mean.res[0], sums, at)
    _replace(o, mended.res)
    return [total, mean, sums, mended]


def _replace(o: NestOp, by: Sequence[SSAValue]) -> None:
    """Use other values instead of a nest's, and erase it."""
    for old, new in zip(o.res, by, strict=True):
        old.replace_all_uses_with(new)
    if o.parent is not None:
        o.detach()
    o.erase()


def _number(n: Dim, t: TensorType, o: NestOp) -> list[Operation]:
    """Ops whose last one gives a number as a float."""
    if isinstance(n, int):
        return [_float(float(n), t, o)]
    number = IndexOp.make(n, o.location)
    return [number, arith.SIToFPOp.create(operands=number.results, result_types=[t.element], location=o.location)]


def _float(value: float, t: TensorType, o: NestOp) -> Operation:
    properties = {"value": FloatAttr(value, t.element)}  # pyright: ignore
    return arith.ConstantOp.create(result_types=[t.element], properties=properties, location=o.location)


def _copy(o: NestOp) -> Block:
    return substitute_body(o.body.block, {}, facts((*o.dims, *o.reduce)))


def _nest(
    o: NestOp,
    dims: DimsAttr,
    body: Block,
    types: Sequence[TensorType],
    reduce: DimsAttr | None = None,
    combine: Sequence[str] = (),
) -> NestOp:
    """A nest in place of `o`; with `out` as there where it has the same dims."""
    out = o.out if dims is o.dims else None
    return NestOp.make(
        dims, body, types, reduce=reduce, combine=combine, out=out, location=o.location, attributes=dict(o.attributes)
    )
