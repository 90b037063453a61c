"""Rows of a table that are looked up, and what is added to them."""

from __future__ import annotations

from typing import Any

from ..dialects import expr
from ..dialects.expr import Dim, product
from ..dialects.tensor import HALVES
from .decomposition import Call, rule
from .decompositions_indexing import OUT_OF_RANGE, integer
from .prims_builder import Value

FEWER = 2
"""How many times as many rows as are added a table has whose rows in f32 are not all there."""


@rule("aten.embedding")
def embedding(
    call: Call, weight: Value, indices: Value, padding_idx: Dim, scale_grad_by_freq: bool, sparse: bool
) -> Value:
    """Rows of weight."""
    shape = call.type.shape
    tensor = integer(indices).broadcast(shape, range(indices.rank))
    column = expr.symbol(f"d{len(shape) - 1}")
    return weight.gather([tensor], [expr.symbol("i0"), column], call.type, OUT_OF_RANGE)


@rule("aten.embedding_dense_backward")
def embedding_dense_backward(
    call: Call, grad: Value, indices: Value, num_weights: Dim, padding_idx: Dim, scale_grad_by_freq: bool
) -> Any:
    """grad's rows added at their indices; those at padding_idx are left out."""
    if scale_grad_by_freq:
        return NotImplemented
    grad, indices = grad.opmath(), integer(indices)
    padding: Any = padding_idx
    if not isinstance(padding, int) or padding >= 0:
        kept = indices.ne(padding).broadcast(grad.shape, range(indices.rank))
        grad = kept.where(grad, grad.full(0))
    n = product(indices.shape)
    if _has_few(call, n, num_weights):
        return _at_first(call, grad.reshape([n, grad.shape[-1]]), indices.reshape([n]))
    zero = call.b.full(0, call.type.with_(dtype=grad.dtype))
    column = expr.symbol(f"d{grad.rank - 1}")
    rows = indices.broadcast(grad.shape, range(indices.rank))
    return zero.scatter([rows], grad, [expr.symbol("i0"), column], "add", OUT_OF_RANGE)


def _has_few(call: Call, rows: Dim, of: Dim) -> bool:
    """Whether sums in f32 take much less memory in as many rows as are added than in all rows. On a GPU updates that
    may meet are for additions alone.
    """
    t = call.type
    if t.dtype not in HALVES or t.device != "cpu" or not (isinstance(rows, int) and isinstance(of, int)):
        return False
    return 0 < FEWER * rows <= of


def _at_first(call: Call, grad: Value, indices: Value) -> Value:
    """Rows of the same index are added up in the first of them, in their order; all of them write the sum."""
    zero = call.b.full(0, call.type)
    t = indices.type
    i0, column = expr.symbol("i0"), expr.symbol("d1")
    none = call.b.full(t.numel, t.with_(shape=zero.shape[:1]))
    first = none.scatter([indices], call.b.iota(0, t), [i0], "min", OUT_OF_RANGE).gather([indices], [i0], t)
    rows = first.broadcast(grad.shape, [0])
    sums = grad.full(0).scatter([rows], grad, [i0, column], "add")
    added = sums.gather([rows], [i0, column], grad.type).to(zero.dtype, rounding=True)
    return zero.scatter([indices.broadcast(grad.shape, [0])], added, [i0, column], "none")
