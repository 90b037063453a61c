"""Reductions and scans of prims as nests."""

from __future__ import annotations

import math

import sympy
from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerType, i8
from xdsl.ir import SSAValue

from ..dialects import prims
from ..dialects.expr import product
from ..dialects.loop import SORT, DimsAttr, LoopDim
from ..dialects.tensor import TensorType, is_unsigned
from .index_simplify import facts
from .prims_to_loop_access import Access, compose, domain, of_value, reduction_domain, tensor_type
from .prims_to_loop_body import Body, is_computable
from .prims_to_loop_rebuild import Rebuild

KINDS = {"sum": "add", "prod": "mul", "any": "or", "all": "and", "logsumexp": "logaddexp"}
"""The combine kind of a reduction or scan, where it has another name."""

ORDERED = frozenset({"max", "min", "argmax", "argmin"})
"""Kinds that compare; they take integers as signed."""


def flip_sign(b: Body, x: SSAValue) -> SSAValue:
    """x ^ 0x80…: unsigned order becomes signed order, and back."""
    assert isinstance(x.type, IntegerType)
    return b.add(arith.XOrIOp, x, b.constant(1 << (x.type.width.data - 1), x.type))


def unflipped(to: Rebuild, op: prims.PrimsOp, flipped: SSAValue) -> SSAValue:
    """The nest that flips the sign of every element."""
    body = Body(op)
    (result,) = to.nest(body, (flip_sign(body, body.element(of_value(flipped))),), (tensor_type(flipped),))
    return result


def converted(to: Rebuild, op: prims.PrimsOp, access: Access, t: TensorType) -> SSAValue:
    """The nest that converts every element to the dtype of `t`."""
    body = Body(op)
    (result,) = to.nest(body, (body.convert(body.element(access), access.dtype, t.dtype),), (t,))
    return result


def _reduced(to: Rebuild, op: prims.ReduceOp | prims.VarMeanOp, body: Body) -> SSAValue:
    """The element of the operand at a point of the reduction's domain."""
    x = to.access(op.operand)
    if not is_computable(x.dtype):
        body.reject(x.dtype)
    where = reduction_domain(x.shape, op.exprs("dims"))
    cases = compose(x, where.operand, where.facts)
    return body.element(x._replace(cases=cases) if cases else x)


def reduce(to: Rebuild, op: prims.ReduceOp) -> None:
    x, t, kind, dims = tensor_type(op.operand), tensor_type(op.result), op.word("kind"), op.exprs("dims")
    body = Body(op)
    value = _reduced(to, op, body)
    if not dims:
        if kind.startswith("arg"):
            value = body.constant(0, t.element)
        to.define(op.result, to.nest(body, (value,), (t,))[0])
        return
    if x.dtype == "i1":
        kind = {"max": "any", "min": "all"}.get(kind, kind)
        if kind.startswith("arg"):
            value = body.add(arith.ExtUIOp, value, type=i8)
    flipped = kind in ORDERED and is_unsigned(x.dtype)
    if flipped:
        value = flip_sign(body, value)
    where = reduction_domain(x.shape, dims)
    combine = (KINDS.get(kind, kind),)
    (result,) = to.nest(body, (value,), (t,), dims=where.dims, reduce=where.reduce, combine=combine)
    to.define(op.result, unflipped(to, op, result) if flipped and kind in ("max", "min") else result)


def var_mean(to: Rebuild, op: prims.VarMeanOp) -> None:
    """mean, m2 = welford(x); variance = m2 / n."""
    x, t, dims = tensor_type(op.operand), tensor_type(op.variance), op.exprs("dims")
    body = Body(op)
    value = _reduced(to, op, body)
    if not dims:  # x - x is NaN for inf and NaN
        mean, variance = to.nest(body, (value, body.add(arith.SubfOp, value, value)), (tensor_type(op.mean), t))
        to.define(op.mean, mean)
        to.define(op.variance, variance)
        return
    where = reduction_domain(x.shape, dims)
    types = (tensor_type(op.mean), t)
    mean, m2 = to.nest(body, (value,), types, dims=where.dims, reduce=where.reduce, combine=("welford",))
    n = product(x.shape[int(k)] for k in dims)
    some = facts(()).decide(sympy.Ge(n, 1))
    if some is not True:  # the mean of nothing is NaN, not the identity of the combination
        body = Body(op)
        nothing = body.constant(math.nan, t.element)
        value = body.element(of_value(mean))
        if some is None:
            nothing = body.select(body.holds((sympy.Ge(n, 1),)), value, nothing)
        (mean,) = to.nest(body, (nothing,), (tensor_type(op.mean),))
    body = Body(op)
    count = body.constant(n, t.element) if isinstance(n, int) else body.convert(body.index(n), "i64", t.dtype)
    (variance,) = to.nest(body, (body.add(arith.DivfOp, body.element(of_value(m2)), count),), (t,))
    to.define(op.mean, mean)
    to.define(op.variance, variance)


def scan(to: Rebuild, op: prims.ScanOp) -> None:
    x, t, kind = to.access(op.operand), tensor_type(op.result), op.word("kind")
    body = Body(op)
    if not is_computable(x.dtype):
        body.reject(x.dtype)
    value = body.element(x)
    inner = t
    if x.dtype == "i1":
        value, inner = body.add(arith.ExtUIOp, value, type=i8), t.with_(dtype="i8")
    flipped = kind in ORDERED and is_unsigned(x.dtype)
    if flipped:
        value = flip_sign(body, value)
    if not x.shape:
        (result,) = to.nest(body, (value,), (inner,))
    else:
        (result,) = to.nest(body, (value,), (inner,), combine=(KINDS.get(kind, kind),), scan=f"d{op.dim.value}")
    if flipped:
        result = unflipped(to, op, result)
    to.define(op.result, result if inner == t else converted(to, op, of_value(result), t))


def sort(to: Rebuild, op: prims.SortOp) -> None:
    """Every place along the dim has the element of the whole row that belongs there."""
    x, t, dim = to.access(op.operand), tensor_type(op.result), int(op.dim.value)
    row, dims = LoopDim("r0", 0, x.shape[dim]), domain(t.shape).dims
    at = tuple(row.symbol if k == dim else d.symbol for k, d in enumerate(dims))
    reduce = DimsAttr.get([row])
    cases = compose(x, at, facts([*dims, row]))
    body = Body(op)
    value = body.element(x._replace(cases=cases) if cases else x)
    (result,) = to.nest(body, (value,), (t,), dims=dims, reduce=reduce, combine=(SORT,), scan=f"d{dim}")
    to.define(op.result, result)
