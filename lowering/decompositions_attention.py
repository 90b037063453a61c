"""Attention as one kernel: scores, softmax and the sum of values, where that is faster than ATen's.

ATen's kernel works on blocks of queries: that takes longer with one. Attention of many queries, or of halves, becomes a
kernel where the call is marked (`aten-choose-products`); fusion makes one of all that the rule says. Several queries
that meet the same keys because heads share them are rows of one product. All else stays a call.
"""

from __future__ import annotations

import math
from typing import Any

from ..dialects.expr import Dim
from ..dialects.tensor import TensorType, is_float
from .attention_call import EFFICIENT, FLASH
from .decomposition import Call, rule
from .prims_builder import Value
from .products import is_generated, is_widened
from .promotion import opmath


@rule(FLASH, costly=True, of=is_float)
def attention(
    call: Call,
    query: Value,
    key: Value,
    value: Value,
    dropout_p: float,
    is_causal: bool,
    mask: Value | None,
    scale: float | None,
) -> Any:
    """sum over s of p[s] value[s], p = softmax over s of scale * sum over d of query[d] key[s, d] + mask[s].

    Of a query that may see nothing the result is 0, as ATen's is. The second result is the logarithm of what
    exponentials of scores add up to.
    """
    batch, heads, queries, size = query.shape
    if dropout_p != 0 or query.type.device != "cpu" or key.shape[3] != size or value.shape != key.shape:
        return NotImplemented
    if not _may_be_divided(query, key):
        return NotImplemented
    of_one = queries == 1 and not call.wanted(1) and opmath(key.dtype) == key.dtype
    wide = is_widened(call.op)
    if not of_one and not wide and not is_generated(call.op):
        return NotImplemented
    out, most, total = attend(query, key, value, is_causal, mask, scale, "f32" if wide else value.dtype)
    if not call.wanted(1):
        return out, call.empty(1)
    most, total = (v.reshape(v.shape[:-1]) for v in (most, total))
    return out, (most + total.log()).reshape((batch, heads, queries))


@rule(EFFICIENT, costly=True, of=is_float)
def efficient_attention(
    call: Call,
    query: Value,
    key: Value,
    value: Value,
    mask: Value | None,
    compute_log_sumexp: bool,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
) -> Any:
    """The same on a GPU, where only calls that are marked become kernels."""
    if dropout_p != 0 or not is_generated(call.op) or any(map(call.wanted, (1, 2, 3))):
        return NotImplemented
    if not _may_be_divided(query, key):
        return NotImplemented
    return attend(query, key, value, is_causal, mask, scale, value.dtype)[0], *map(call.empty, (1, 2, 3))


def _may_be_divided(query: Value, key: Value) -> bool:
    """Whether each head of keys is that of as many heads of queries, and there is something to add up; else ATen is
    asked.
    """
    heads, groups = query.shape[1], key.shape[1]
    fits = not (isinstance(heads, int) and isinstance(groups, int)) or (groups > 0 and heads % groups == 0)
    return fits and query.shape[3] != 0


def attend(
    query: Value, key: Value, value: Value, is_causal: bool, mask: Value | None, scale: float | None, weights: str
) -> tuple[Value, Value, Value]:
    """Attention, and the largest of each row of scores and what their exponentials add up to; these are rounded to the
    dtype of `weights` once they are added up: matrix units multiply halves, as ATen's kernel does.
    """
    batch, heads, queries, size = query.shape
    groups, keys = key.shape[1:3]
    times = 1 if groups == heads else heads // groups  # pyright: ignore[reportOperatorIssue]
    lead: tuple[Dim, ...] = (batch, heads) if groups == heads else (batch, groups, times)
    n = len(lead)
    outer, shared = list(range(n)), [0, 1]
    query = query.opmath().reshape((*lead, queries, size))
    sizes_known = all(isinstance(d, int) and d > 1 for d in (queries, keys, size))
    in_tiles = sizes_known and value.dtype == "f32" and query.type.device == "cpu"

    def times_shared(x: Value, y: Value) -> Value:
        """The rows of each head times the matrix that heads share. Where a CPU's kernel makes tiles of it, that is said
        to be a product: what is not done at its points is then no part of the kernel.
        """
        if in_tiles:
            return x.dot(y.broadcast((*lead, *y.shape[2:]), [*shared, n, n + 1]))
        domain = (*x.shape[:-1], y.shape[-1], x.shape[-1])
        right = y.transpose([0, 1, 3, 2]).broadcast(domain, [*shared, n + 1, n + 2])
        return (x.broadcast(domain, [*outer, n, n + 2]) * right).reduce("sum", [n + 2])

    scores = times_shared(query, key.opmath().transpose([0, 1, 3, 2]))
    scores = scores * (_scale(scores, size) if scale is None else scale)
    if mask is not None:
        scores = scores + _for_heads(mask.to(scores.dtype), lead).expand(scores.shape)
    visible: Value | None = None
    if is_causal:
        query_at, key_at = (query.b.iota(d, scores.type.with_(dtype="i64")) for d in (n, n + 1))
        visible = key_at <= query_at
        scores = visible.where(scores, -math.inf)
    most = scores.reduce("max", [n + 1], keepdim=True)
    e = (scores - most.eq(-math.inf).where(0.0, most)).exp()
    if visible is not None and query.type.device == "cpu":
        # said, not computed: what would be multiplied by it need not be looked at
        e = visible.where(e, 0.0)
    total = e.reduce("sum", [n + 1], keepdim=True)
    out = times_shared(e.to(weights).opmath(), value.opmath())
    out = out / total.eq(0.0).where(1.0, total)
    return out.reshape((batch, heads, queries, value.shape[3])), most, total


def _scale(scores: Value, size: Dim) -> Value | float:
    """1 / sqrt(size)."""
    if isinstance(size, int):
        return 1.0 / math.sqrt(size)
    number = scores.b.full(size, TensorType.get((), "f64", None, scores.type.device))
    return scores.full(1.0 / number.sqrt())


def _for_heads(mask: Value, lead: tuple[Dim, ...]) -> Value:
    """A mask with the heads as groups of those that share keys."""
    if len(lead) == 2 or mask.rank < 3:
        return mask
    *batch, heads, rows, columns = mask.shape
    return mask.reshape((*batch, *((1, 1) if heads == 1 else lead[1:]), rows, columns))
