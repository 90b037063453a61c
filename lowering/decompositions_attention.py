"""Attention of one query, as decoding makes it: one pass over the keys and one over the values, in a kernel.

ATen's kernel works on blocks of queries: that takes longer with one. Where several queries meet the same keys, of one
head or of heads that share keys, it is a product of matrices, at which BLAS is better. All else stays a call.
"""

from __future__ import annotations

import math
from typing import Any

from ..dialects.loop import LoopDim
from .decomposition import Call, rule
from .fuse_cost import Hints
from .prims_builder import Value
from .promotion import opmath

FLASH = "aten._scaled_dot_product_flash_attention_for_cpu"

MOST_HALVES = 1 << 19
"""Elements of keys up to which a kernel is faster in f16 and bf16: oneDNN multiplies these without converting them."""


@rule(FLASH)
def attention_of_one(
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

    Of a query that may see nothing the result is 0, as ATen's is.
    """
    batch, heads, queries, size = query.shape
    keys = key.shape[2]
    if queries != 1 or key.shape[1] != heads or dropout_p != 0 or call.wanted(1) or query.type.device != "cpu":
        return NotImplemented
    if key.shape[3] != size or value.shape != key.shape or not _is_faster(call, key):
        return NotImplemented
    domain = (batch, heads, 1, keys, size)
    scores = (
        query.opmath().broadcast(domain, [0, 1, 2, 4]) * key.opmath().broadcast(domain, [0, 1, 3, 4])
    ).reduce("sum", [4])  # fmt: skip
    scores = scores * (1.0 / math.sqrt(size) if scale is None else scale)
    if is_causal:
        scores = call.b.iota(3, scores.type.with_(dtype="i64")).eq(0).where(scores, -math.inf)
    if mask is not None:
        scores = scores + mask.to(scores.dtype).expand(scores.shape)
    most = scores.reduce("max", [3], keepdim=True)
    e = (scores - most.eq(-math.inf).where(0.0, most)).exp()
    total = e.reduce("sum", [3], keepdim=True)
    domain = (batch, heads, 1, size, keys)
    v = value.opmath().transpose([0, 1, 3, 2]).broadcast(domain, [0, 1, 3, 4])
    out = (e.broadcast(domain, [0, 1, 2, 4]) * v).reduce("sum", [4])
    return out / total.eq(0.0).where(1.0, total), call.empty(1)


def _is_faster(call: Call, key: Value) -> bool:
    if opmath(key.dtype) == key.dtype:
        return True
    elements = Hints(dict(call.b.hints)).points(tuple(LoopDim(f"d{i}", 0, n) for i, n in enumerate(key.shape)))
    return elements <= MOST_HALVES
