"""Updates that add to few places, as sums: programs of a GPU that add at once to the same places would wait for each
other, thousands of times as long as it takes to read all updates once for each place.

    loop.scatter %b [d0 = 8192, d1 = 768] combine add { yield_at %v[v0, d1](%i) }     with 2 rows in %b, becomes

    %s = loop.nest [d0 = 2, d1 = 768] reduce [r0 = 8192] combine [add] { yield %i == d0 ? %v : 0 }
    loop.nest [d0 = 2, d1 = 768] { yield %b + %s }
"""

from __future__ import annotations

from typing import cast

import sympy
from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, i1, i64
from xdsl.ir import Block, Operation, SSAValue

from ..dialects import expr
from ..dialects.expr import Dim
from ..dialects.loop import DimsAttr, IndexAttr, IndexOp, LoadOp, LoopDim, NestOp, ScatterOp, YieldAtOp, YieldOp
from ..dialects.tensor import is_float
from .fuse_body import zero_of
from .fuse_cost import Hints
from .fuse_graph import tensor_type
from .fuse_turns import SUMMED
from .index_simplify import facts
from .index_split import substitute_body

FEW = 64
"""Places along one dim of the target, at most: all updates are read once for each."""

MANY = 64
"""Updates for each place at least."""


def as_sums(o: ScatterOp, hints: Hints) -> list[NestOp]:
    """The reduction and the nest in place of a scatter, whose uses are theirs; empty where it is none of that kind."""
    last, t = cast(YieldAtOp, o.body.block.last_op), tensor_type(o.res)
    if o.combine.data != "add" or t.dtype not in SUMMED or len(last.indices) != 1 or any(d.lo != 0 for d in o.dims):
        return []
    of = {d.symbol: d for d in o.dims}
    told = [i for i, e in enumerate(last.index) if e not in of]
    kept = [of[e] for e in last.index if e in of]
    if len(told) != 1 or last.index[told[0]] != expr.symbol("v0") or len(set(kept)) != len(kept):
        return []
    (row,) = told
    places, updated = t.shape[row], [n for i, n in enumerate(t.shape) if i != row]
    if not isinstance(places, int) or places > FEW or any(d.hi != n for d, n in zip(kept, updated, strict=True)):
        return []
    reduced = [d for d in o.dims if d not in kept]
    if not reduced or hints.points(tuple(reduced)) < MANY * places:
        return []
    dims = [LoopDim(f"d{i}", 0, n) for i, n in enumerate(t.shape)]
    reduce = [LoopDim(f"r{i}", 0, d.hi) for i, d in enumerate(reduced)]
    moved: dict[sympy.Symbol, Dim] = {d.symbol: r.symbol for d, r in zip(reduced, reduce, strict=True)}
    moved |= {e: d.symbol for e, d in zip(last.index, dims, strict=True) if isinstance(e, sympy.Symbol) and e in of}
    body = substitute_body(o.body.block, moved, facts([*dims, *reduce]))
    _yield_at_place(body, dims[row])
    over = DimsAttr.get(dims)
    sums = NestOp.make(over, body, [t], reduce=DimsAttr.get(reduce), combine=["add"], location=o.location)
    index = IndexAttr.get([d.symbol for d in dims])
    loads = [LoadOp.make(v, index, location=o.location) for v in (o.base, sums.res[0])]
    add = _of_type(arith.AddfOp if is_float(t.dtype) else arith.AddiOp, [load.res for load in loads], o)
    end = YieldOp.create(operands=add.results, location=o.location)
    result = NestOp.make(over, Block([*loads, add, end]), [t], location=o.location)
    result.res[0].name_hint = o.res.name_hint
    o.res.replace_all_uses_with(result.res[0])
    if o.parent is not None:
        o.detach()
    o.erase()
    return [sums, result]


def _yield_at_place(body: Block, row: LoopDim) -> None:
    """Have a body yield its update where that goes to the row, else 0."""
    last = cast(YieldAtOp, body.last_op)
    value, place = last.value, last.indices[0]
    here = IndexOp.make(row.symbol, last.location)
    equal = arith.CmpiOp.create(
        operands=[place, here.res], result_types=[i1], properties={"predicate": IntegerAttr(0, i64)}
    )
    nothing = arith.ConstantOp.create(result_types=[value.type], properties={"value": zero_of(value.type)})
    chosen = arith.SelectOp.create(operands=[equal.results[0], value, nothing.results[0]], result_types=[value.type])
    end = YieldOp.create(operands=chosen.results)
    new = [here, equal, nothing, chosen, end]
    for op in new:
        op.location = last.location
    last.detach()
    last.erase()
    body.add_ops(new)


def _of_type(cls: type[Operation], operands: list[SSAValue], o: ScatterOp) -> Operation:
    flags = arith.FastMathFlagsAttr("none") if cls is arith.AddfOp else arith.IntegerOverflowAttr("none")
    name = "fastmath" if cls is arith.AddfOp else "overflowFlags"
    return cls.create(operands=operands, result_types=[operands[0].type], properties={name: flags}, location=o.location)
