"""Splitting of nest dims: `d` with loads at floordiv(d, c) and mod(d, c) becomes an outer and an inner dim.

    loop.nest [d0 = 12*s0] { load %x[floordiv(d0, 12), mod(d0, 12)] }
    loop.nest [d0 = s0, d1 = 12] out [12*d0 + d1] { load %x[d0, d1] }

The plain indices unify with the dims of the producer of %x; results keep their shape, and `out` says where the value of
a point goes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, cast

import sympy
from xdsl.dialects import arith
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from ..dialects import expr
from ..dialects.expr import Dim
from ..dialects.loop import DimsAttr, IndexAttr, LoadOp, LoopDim, NestOp, PredAttr, YieldOp, body_ops
from ..dialects.tensor import TensorType
from .contraction import contraction_of_nest
from .index_polynomial import ONE, Polynomial, as_constant, divide, exact_quotient, expression, multiply, polynomial
from .index_simplify import Facts, facts, is_plain


def split_dims(nest: NestOp, plain: bool = False) -> NestOp:
    """The nest with its dims split where that makes indices plain, of which `plain` says that all are, and as those
    that it reads are split; the same nest if there is nothing to gain.

    The new nest is not attached; the operands of its body are those of the old one.
    """
    shared = _shared(nest)
    ops = [] if plain else [op for op in body_ops(nest.body) if op not in shared]
    wanted = _wanted([e for op in ops for e in _expressions(op) if not is_plain(e)])
    for name, divisors in _as_sources(nest).items():
        wanted.setdefault(name, divisors)
    if not wanted:
        return nest
    dims, reduce = tuple(nest.dims), tuple(nest.reduce)
    # what is ordered stays one row, and what a CPU's product adds up: its tiles have one such dim
    product = not _on_gpu(nest) and contraction_of_nest(nest) is not None
    rows = product or nest.scan is not None
    whole = {_scanned(nest), *(d.name for d in reduce)} if rows else {_scanned(nest)}
    steps = _steps(wanted, [d for d in (*dims, *reduce) if d.lo == 0 and d.name not in whole])
    if not steps:
        return nest
    new_dims, outer = _split(dims, steps, "d")
    new_reduce, inner = _split(reduce, steps, "r")
    mapping = outer | inner
    known = facts([*new_dims, *new_reduce])
    properties = dict(nest.properties)
    properties["dims"] = DimsAttr.get(new_dims)
    properties["reduce"] = DimsAttr.get(new_reduce)
    if nest.out is not None or outer.keys() != {d.symbol for d in new_dims}:
        out = tuple(d.symbol for d in dims) if nest.out is None else tuple(nest.out)
        properties["out"] = IndexAttr.get(known.simplify(expr.substitute(e, mapping)) for e in out)
    if nest.scan is not None:
        properties["scan"] = type(nest.scan)(expr.text(mapping[expr.symbol(nest.scan.data)]))
    body = substitute_body(nest.body.block, mapping, known)
    parts = NestOp.create(
        result_types=nest.result_types,
        properties=properties,
        attributes=nest.attributes,
        regions=[Region(body)],
        location=nest.location,
    )
    if product and contraction_of_nest(parts) is None:  # of rows that repeat, a part would move with neither factor
        parts.erase()  # what it reads is not used by it
        return nest
    return parts


def _shared(nest: NestOp) -> set[Operation]:
    """Loads of a product on a GPU that several matrices of a batch share, `load %k[floordiv(d0, 2), …]`: a program has
    one matrix, and its number in parts would not unify with what stands around the product.
    """
    if [k.data for k in nest.combine.data] != ["add"] or not _on_gpu(nest):
        return set()
    loads = [op for op in body_ops(nest.body) if isinstance(op, LoadOp)]
    if len(loads) != 2 or not isinstance(cast(YieldOp, nest.body.block.last_op).values[0].owner, arith.MulfOp):
        return set()
    units = [{name for e in op.index for name in _units(e)} for op in loads]
    used = [{s.name for e in op.index for s in expr.symbols(e)} for op in loads]
    batch = used[0] & used[1] - {d.name for d in nest.reduce}
    return {op for op, own, other in zip(loads, units, reversed(units), strict=True) if batch & (other - own)}


def _on_gpu(nest: NestOp) -> bool:
    (t, *_) = (r.type for r in nest.results)
    return isinstance(t, TensorType) and t.device != "cpu"


def _units(e: Dim) -> set[str]:
    """Dims of whose neighbours an index tells one from another: not d of floordiv(d, c)."""
    if isinstance(e, sympy.Symbol):
        return {e.name}
    if type(e).__name__ == "FloorDiv":
        return set()
    return set[str]().union(*(_units(a) for a in getattr(e, "args", ())[: 1 if type(e).__name__ == "Mod" else None]))


def substitute_body(
    body: Block, mapping: Mapping[sympy.Symbol, Dim], known: Facts, values: dict[SSAValue, SSAValue] | None = None
) -> Block:
    """A copy of the block with dims replaced in every index and predicate, simplified by what is known; `values`: of
    what is outside of it.
    """
    values = {} if values is None else values
    new = Block(arg_types=[a.type for a in body.args])
    values.update(zip(body.args, new.args, strict=True))
    for op in body.ops:
        new.add_op(substitute_op(op, mapping, known, values))
    return new


def substitute_op(
    op: Operation, mapping: Mapping[sympy.Symbol, Dim], known: Facts, values: dict[SSAValue, SSAValue]
) -> Operation:
    """A copy of an op in the same way, which is added to `values`."""
    properties: dict[str, Attribute] = {}
    for name, a in op.properties.items():
        if isinstance(a, IndexAttr):
            a = IndexAttr.get(known.simplify(expr.substitute(e, mapping)) for e in a)
        elif isinstance(a, PredAttr):
            a = PredAttr.get(known.relation(_substitute_relation(r, mapping)) for r in a)
        properties[name] = a
    copy = type(op).create(
        operands=[values.get(v, v) for v in op.operands],
        result_types=op.result_types,
        properties=properties,
        attributes=op.attributes,
        regions=[Region(substitute_body(r.block, mapping, known, values)) for r in op.regions],
        location=op.location,
    )
    values.update(zip(op.results, copy.results, strict=True))
    return copy


def _substitute_relation(r: Any, mapping: Mapping[sympy.Symbol, Dim]) -> Any:
    if isinstance(r, (sympy.And, sympy.Or, sympy.Not)):
        return type(r)(*(_substitute_relation(a, mapping) for a in r.args))
    if isinstance(r, sympy.Rel):
        return type(r)(expr.substitute(r.lhs, mapping), expr.substitute(r.rhs, mapping))
    return r


def _scanned(nest: NestOp) -> str | None:
    return None if nest.scan is None else nest.scan.data


def _expressions(op: Operation) -> Iterable[Dim]:
    for a in op.properties.values():
        if isinstance(a, IndexAttr):
            yield from a
        elif isinstance(a, PredAttr):
            for r in a:
                yield from (side for relation in r.atoms(sympy.Rel) for side in relation.args)


def _wanted(used: Sequence[Dim]) -> dict[str, list[Polynomial]]:
    """Per dim the divisors in these indices."""
    wanted: dict[str, list[Polynomial]] = {}
    for e in used:
        for a in e.atoms(sympy.Function):  # pyright: ignore[reportAttributeAccessIssue]
            if (found := _divisor(a)) is not None:
                wanted.setdefault(found[0], []).append(found[1])
    return wanted


def _as_sources(nest: NestOp) -> dict[str, list[Polynomial]]:
    """Per dim of what is computed point by point, and per dim along which a reduction reads one tensor alone, the
    divisors at which all nests that it reads there were split: what else reads those, by their parts, is then still one
    kernel with it.
    """
    loads = [op for op in body_ops(nest.body) if isinstance(op, LoadOp)]
    if nest.scan is not None or (nest.combine.data and len(loads) > 1):
        return {}
    found: dict[str, list[Polynomial] | None] = {d.name: None for d in nest.dims} if nest.combine.data else {}
    for op in loads:
        if not isinstance(source := op.source.owner, NestOp):
            continue
        for at, e in enumerate(op.index):
            if isinstance(e, sympy.Symbol):
                divisors = [] if source.out is None else _factors(tuple(source.out)[at])
                known = found.setdefault(e.name, divisors)
                if known != divisors:
                    found[e.name] = None
    return {name: divisors for name, divisors in found.items() if divisors}


def _factors(e: Dim) -> list[Polynomial]:
    """What the dims in a sum are multiplied by, less 1: c of c * d0 + d1. Known numbers alone: a size that is a symbol
    is not told from a dim.
    """
    terms = sympy.Add.make_args(sympy.sympify(e))
    return [polynomial(c) for c in (t.as_independent(*expr.symbols(t))[0] for t in terms) if c != 1]


def _steps(wanted: Mapping[str, list[Polynomial]], dims: Sequence[LoopDim]) -> dict[str, list[Polynomial]]:
    """Per dim the divisors at which to split it, ascending, each dividing the next and the extent."""
    steps: dict[str, list[Polynomial]] = {}
    for d in dims:
        chain: list[Polynomial] = []
        for c in sorted(wanted.get(d.name, ()), key=lambda c: (max(map(len, c)), as_constant(c) or 0)):
            below = chain[-1] if chain else ONE
            if c != below and exact_quotient(c, below) and exact_quotient(polynomial(d.extent), c) not in (None, ONE):
                chain.append(c)
        if chain:
            steps[d.name] = chain
    return steps


def _divisor(a: Any) -> tuple[str, Polynomial] | None:
    """(d, c) where an atom is floordiv(x, c) or mod(x, c) of x = d, d // c', or a constant - d."""
    if type(a).__name__ not in ("FloorDiv", "Mod"):
        return None
    x, c = a.args
    if type(x).__name__ == "FloorDiv":
        inner = _divisor(x)
        return None if inner is None else (inner[0], multiply(inner[1], polynomial(c)))
    moving = [(m, k) for m, k in polynomial(x).items() if m]
    if len(moving) == 1:
        (m, k) = moving[0]
        if len(m) == 1 and abs(k) == 1 and isinstance(m[0], sympy.Symbol):
            return m[0].name, polynomial(c)
    return None


def _split(
    dims: Sequence[LoopDim], steps: Mapping[str, list[Polynomial]], prefix: str
) -> tuple[list[LoopDim], dict[sympy.Symbol, Dim]]:
    """The new dims, numbered in order, and what each old one is in terms of them."""
    new: list[LoopDim] = []
    mapping: dict[sympy.Symbol, Dim] = {}

    def part(lo: Dim, hi: Dim) -> sympy.Symbol:
        new.append(LoopDim(f"{prefix}{len(new)}", lo, hi))
        return new[-1].symbol

    for d in dims:
        if d.name not in steps:
            mapping[d.symbol] = part(d.lo, d.hi)
            continue
        bounds = [ONE, *steps[d.name], polynomial(d.extent)]
        value: Any = 0
        for low, high in reversed(list(pairwise(bounds))):
            value += expression(low) * part(0, expression(divide(high, low)[0]))
        mapping[d.symbol] = value
    return new, mapping
