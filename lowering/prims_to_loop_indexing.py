"""gather and scatter of prims, with their bounds checks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sympy
from xdsl.dialects import arith
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Block, Region, SSAValue

from ..dialects import expr, prims
from ..dialects.expr import Dim
from ..dialects.loop import ScatterOp, YieldAtOp
from ..dialects.tensor import TensorType, is_unsigned
from .index_polynomial import expression, polynomial
from .prims_facts import stays_within
from .prims_to_loop_access import (
    ZERO,
    Access,
    Case,
    Position,
    compose,
    dim_symbols,
    domain,
    is_empty,
    of_value,
    repeated,
    tensor_type,
    used_dims,
    without_dims,
)
from .prims_to_loop_body import Body, index_attr
from .prims_to_loop_rebuild import Rebuild
from .prims_to_loop_reduce import converted, flip_sign, unflipped


class Indices:
    """The index tensors of an op at one point, as i64, and the index expressions over them."""

    def __init__(
        self, op: prims.GatherOp | prims.ScatterOp, body: Body, tensors: Sequence[Access], index: Sequence[Dim]
    ) -> None:
        self.op, self.body = op, body
        self.values = [body.convert(body.element(x), x.dtype, "i64") for x in tensors]
        names = {expr.symbol(f"i{k}"): v for k, v in enumerate(dim_symbols(len(self.values), "v"))}
        self.index = tuple(expr.substitute(e, names) for e in index)
        self._vs = dict(zip(dim_symbols(len(self.values), "v"), self.values, strict=True))

    def check(self, shape: Sequence[Dim], over: Sequence[Dim]) -> SSAValue | None:
        """Assert that each index is inside of `shape`, but those of which the domain `over` tells it; the condition,
        None if there is none.
        """
        message = self.op.message
        if message is None:
            return None
        body, ok = self.body, None
        for e, size in zip(self.index, shape, strict=True):
            if not expr.symbols(e).isdisjoint(self._vs):
                i = self._scalar(e)
            elif stays_within(e, tuple(over), size):
                continue
            else:
                i = body.index(e)
            # a negative index is a large unsigned one
            inside = body.compare("ult", i, body.index(size))
            ok = inside if ok is None else body.add(arith.AndIOp, ok, inside)
        if ok is not None:
            body.check(ok, message.data)
        return ok

    def _scalar(self, e: Dim) -> SSAValue:
        """The value of an index expression."""
        if isinstance(e, sympy.Symbol) and e in self._vs:
            return self._vs[e]
        body, total = self.body, None
        fixed: dict[Any, int] = {}
        for m, c in polynomial(e).items():
            factors = [self._vs[a] for a in m if a in self._vs]
            rest = tuple(a for a in m if a not in self._vs)
            if not factors:
                fixed[m] = c
                continue
            term = body.index(expression({rest: c}))
            for f in factors:
                term = body.add(arith.MuliOp, term, f)
            total = term if total is None else body.add(arith.AddiOp, total, term)
        assert total is not None
        return body.add(arith.AddiOp, total, body.index(expression(fixed))) if fixed else total


def gather(to: Rebuild, op: prims.GatherOp) -> None:
    """result[d…] = x[index], where `index` is inside of x; computed once where nothing depends on a dim."""
    t, tensors, index = tensor_type(op.result), [to.access(v) for v in op.index_tensors], op.exprs("index")
    if is_empty(t.shape):  # no index is read, nor compared, ahead of the loop
        to.define_access(op.result, Access(t.shape, t.dtype, (ZERO,), True))
        return
    positions = Access(t.shape, "i64", tuple(Case((), Position(e)) for e in (0, *index)))
    used = used_dims([*tensors, positions])
    shape = t.shape
    if used is not None:
        shape = tuple(shape[k] for k in used)
        tensors = [without_dims(x, used) for x in tensors]
        renumbered = {expr.symbol(f"d{k}"): d for k, d in zip(used, dim_symbols(len(used)), strict=True)}
        index = tuple(expr.substitute(e, renumbered) for e in index)
        t = TensorType.get(shape, t.dtype, None, t.device)
    body = Body(op)
    indices = Indices(op, body, tensors, index)
    ok = indices.check(tensor_type(op.operand).shape, shape)
    x = to.access(op.operand)
    if x.load is None:
        x = of_value(to.value(op.operand, op))
    (case,) = compose(x, indices.index, domain(shape).facts)
    load = x._replace(cases=(case,)).load
    assert load is not None
    (result,) = to.nest(body, (body.load(load.source, load.at, indices.values, ok=ok),), (t,))
    if used is None:
        to.define(op.result, result)
    else:
        to.define_access(op.result, repeated(result, used, tensor_type(op.result).shape))


_BOOL_KINDS = {"add": "max", "mul": "min"}


def scatter(to: Rebuild, op: prims.ScatterOp) -> None:
    """x with x[index] = source, or combined: as i8 for i1, and with the sign flipped to compare unsigned integers."""
    t, kind = tensor_type(op.result), op.word("combine")
    base = to.value(op.operand, op)
    flipped = kind in ("max", "min") and is_unsigned(t.dtype)
    as_integers = kind != "none" and t.dtype == "i1"
    inner = t.with_(dtype="i8") if as_integers else t
    if as_integers:
        kind = _BOOL_KINDS.get(kind, kind)
        base = converted(to, op, of_value(base), inner)
    if flipped:
        base = unflipped(to, op, base)
    body = Body(op)
    indices = Indices(op, body, [to.access(v) for v in op.index_tensors], op.exprs("index"))
    indices.check(t.shape, tensor_type(op.source).shape)
    value = body.element(to.access(op.source))
    if as_integers:
        value = body.convert(value, t.dtype, inner.dtype)
    if flipped:
        value = flip_sign(body, value)
    result = _scatter(to, body, base, value, indices, kind, tensor_type(op.source), inner)
    if flipped:
        result = unflipped(to, op, result)
    to.define(op.result, converted(to, op, of_value(result), t) if as_integers else result)


def _scatter(
    to: Rebuild,
    body: Body,
    base: SSAValue,
    value: SSAValue,
    indices: Indices,
    kind: str,
    source: TensorType,
    t: TensorType,
) -> SSAValue:
    end = YieldAtOp.create(
        operands=(value, *indices.values),
        properties={"index": index_attr(indices.index)[0]},
        location=body.location,
    )
    new = ScatterOp.create(
        operands=(base,),
        result_types=(t,),
        properties={"dims": domain(source.shape).dims, "combine": StringAttr(kind)},
        regions=[Region(Block([*body.ops, end]))],
        location=body.location,
    )
    to.ops.append(new)
    return new.results[0]
