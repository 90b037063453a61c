"""Norms of differences with their derivatives, and slices that are scaled down to a norm."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import sympy

from ..dialects import expr, prims
from ..dialects.expr import Dim
from ..dialects.prims import Number
from ..dialects.tensor import TensorType, is_float
from .decomposition import Call, rule
from .decompositions_indexing import OUT_OF_RANGE, integer
from .decompositions_reductions import norm_over
from .numbers import number_as
from .prims_builder import Value
from .promotion import opmath


@rule("aten.dist")
def dist(call: Call, a: Value, b: Value, order: Number) -> Any:
    """The norm of a - b."""
    dtype = opmath(call.type.dtype)
    a, b = a.to(dtype).align(b.to(dtype))
    return norm_over(a - b, order, range(a.rank), False)


@rule("aten._cdist_forward")
def cdist(call: Call, a: Value, b: Value, order: float, mode: int | None) -> Any:
    """The norm of a[…, i, :] - b[…, j, :] for all i and j."""
    *batch, n, m = call.type.shape
    differences = _differences(a, b, [*batch, n, m])
    if not isinstance(order, sympy.Expr) and number_as(order, a.dtype) == math.inf:
        differences = differences.isnan().where(0.0, differences)  # the largest passes over NaN
    return _norm(differences, order, len(batch) + 2)


@rule("aten._cdist_backward")
def cdist_backward(call: Call, grad: Value, a: Value, b: Value, order: float, distances: Value) -> Any:
    """The gradient of a: that of each distance times its derivative by a[…, i, :], over all j."""
    differences = _differences(a, b, [*call.type.shape[:-1], b.shape[-2]])
    return _towards(differences, grad, distances, order)


def _differences(a: Value, b: Value, shape: Sequence[Dim]) -> Value:
    """a[…, i, :] - b[…, j, :] as […, i, j, :]; `shape` without the last dim."""
    (*batch, n, m), width, rank = shape, a.shape[-1], len(shape) + 1
    dims = range(rank - 3)
    x = a.expand([*batch, n, width]).broadcast([*shape, width], [*dims, rank - 3, rank - 1])
    y = b.expand([*batch, m, width]).broadcast([*shape, width], [*dims, rank - 2, rank - 1])
    return x - y


def _towards(differences: Value, grad: Value, distances: Value, order: float) -> Any:
    """grad * sign(d) * (|d| / distance)^(order - 1) of each difference d, over all j; 0 where the distance is 0."""
    if isinstance(order, sympy.Expr) or math.isinf(order) != math.isinf(number_as(order, grad.dtype)):
        return NotImplemented
    d, rank = differences, len(differences.shape)
    if order == 0:
        return d.full(0).reduce("sum", [rank - 2])
    size = d.abs()
    sign = (d > 0).where(d.full(1), (d < 0).where(d.full(-1), d.full(0)))
    if math.isinf(order):
        far = distances.broadcast(d.shape, range(rank - 1))
        grad = grad.broadcast(d.shape, range(rank - 1))
        return size.eq(far).where(grad * sign, 0.0).reduce("sum", [rank - 2])
    if order != 1:  # once for each distance, not for each difference
        whole = distances if order == 2 else distances.binary(prims.PowOp.make, order - 1.0)
        grad = distances.eq(0.0).where(grad.full(0), grad / whole)
    grad = grad.broadcast(d.shape, range(rank - 1))
    if order == 2:
        part = grad * d
    elif order == 1:
        part = grad * sign
    else:
        part = sign * size.binary(prims.PowOp.make, order - 1.0) * grad
        part = d.eq(0.0).where(d.full(0), part) if order < 1 else part
    return part.reduce("sum", [rank - 2])


def _norm(x: Value, order: float, dim: int) -> Any:
    """By an order that ATen's kernels have in the dtype of x, where a large one is infinite. NaN is none of the numbers
    that are not 0 on a CPU.
    """
    if order == 0 and x.type.device == "cpu":
        return x.isnan().where(x, x.ne(0.0).to(x.dtype)).reduce("sum", [dim])
    return norm_over(x, order if isinstance(order, sympy.Expr) else number_as(order, x.dtype), [dim], False)


@rule("aten._pdist_forward")
def pdist(call: Call, x: Value, order: float) -> Any:
    """The norm of x[i] - x[j] for all i < j, in that order; ATen finds i and j so, too."""
    t = call.type
    if t.numel == 0:
        return call.full(0)
    pairs = TensorType.get([*t.shape, x.shape[1]], x.dtype, None, t.device)
    k = call.b.iota(0, pairs.with_(dtype="f64"))
    n = k.full(x.shape[0])
    i = (n - 0.5 - ((n - 0.5) * (n - 0.5) - k * 2.0 - 1.0).sqrt()).floor()
    j = k - n * i + i * (i + 1.0) * 0.5 + i + 1.0
    rows = (x.gather([index.to("i64")], [expr.symbol("i0"), expr.symbol("d1")], pairs) for index in (i, j))
    a, b = rows
    return _norm(a - b, order, 1)


@rule("aten._pdist_backward")
def pdist_backward(call: Call, grad: Value, x: Value, order: float, distances: Value) -> Any:
    """That of distances of all rows from all, of which those of i < j and of j > i are the same number."""
    n = x.shape[0]
    if grad.type.numel == 0:
        return call.full(0)
    square = x.type.with_(shape=[n, n])
    i, j = (call.b.iota(d, square.with_(dtype="i64")) for d in range(2))
    low, high = i.minimum(j), i.maximum(j)
    before = low * n - (low * (low + 1)).binary(prims.DivTruncOp.make, 2)
    place = i.eq(j).where(i.full(0), before + high - low - 1)
    pairs = (v.gather([place], [expr.symbol("i0")], square) for v in (grad, distances))
    grad, far = (i.eq(j).where(v.full(0), v) for v in pairs)
    return _towards(_differences(x, x, [n, n]), grad, far, order)


@rule("aten.renorm")
def renorm(call: Call, x: Value, order: Number, dim: int, largest: Number) -> Any:
    """Slices along dim, scaled down to that norm where theirs is larger."""
    y = x.opmath()
    size = norm_over(y, order, [d for d in range(x.rank) if d != dim % x.rank], True)
    if size is NotImplemented or isinstance(largest, sympy.Expr):
        return NotImplemented
    return y * (size > float(largest)).where(size.full(float(largest)) / (size + 1e-7), 1.0)


# Scans


@rule("aten.embedding_renorm", of=is_float)
def embedding_renorm(call: Call, weight: Value, indices: Value, largest: float, order: float) -> Any:
    """Rows of weight that are looked up, scaled down to that norm where theirs is larger."""
    n, count = weight.shape[0], indices.type.numel
    size = norm_over(weight.opmath(), order, [1], True)
    if size is NotImplemented or isinstance(largest, sympy.Expr):
        return NotImplemented
    size = size.to(weight.dtype).opmath()
    none = call.b.full(False, TensorType.get([n], "i1", None, weight.type.device))
    seen = call.b.full(True, none.type.with_(shape=[count]))
    used = none.scatter([integer(indices).reshape([count])], seen, [expr.symbol("i0")], "none", OUT_OF_RANGE)
    scale = size.full(float(largest)) / (size + 1e-7)
    chosen = used.unsqueeze(1) & (size > float(largest))
    return weight.opmath() * chosen.where(scale, 1.0)
