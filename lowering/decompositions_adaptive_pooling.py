"""Adaptive pooling: place o of n is made of the elements from floor(o * size / n) to ceil((o + 1) * size / n).

Where n divides the sizes these are blocks; else they are windows of different lengths, of which the longest decides how
many elements are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import sympy

from ..dialects import expr, prims
from ..dialects.expr import Dim
from ..dialects.prims import Number
from ..dialects.tensor import TensorType, is_float
from .decomposition import Call, rule
from .decompositions_pooling import add_at_places
from .decompositions_views import dims_of
from .numbers import lowest
from .prims_builder import Value


def _blocks(x: Value, places: Sequence[Dim]) -> Value | None:
    """The last dims split into places and blocks: `[outer…, place, block, place, block, …]`; None if they do not
    divide.
    """
    outer = x.shape[: x.rank - len(places)]
    shape: list[Dim] = list(outer)
    for size, n in zip(x.shape[len(outer) :], places, strict=True):
        ratio = sympy.sympify(size) / n
        if n == 0 or not ratio.is_integer:
            return None
        shape += [n, expr.normal(ratio)]
    return x.reshape(shape)


def _block_dims(x: Value, places: Sequence[Dim]) -> list[int]:
    outer = x.rank - len(places)
    return [outer + 2 * k + 1 for k in range(len(places))]


def _begin(o: Any, size: Any, n: Any) -> Any:
    return expr.floordiv(o * size, n)


def longest(size: Dim, n: Dim) -> Dim | None:
    """The most elements that a place of n has, at most so many where a symbol decides; None for no elements."""
    if size == 0 or n == 0:
        return None
    if isinstance(size, int) and isinstance(n, int):
        return max(-(-(o + 1) * size // n) - o * size // n for o in range(n))
    return expr.normal(cast(Any, expr.ceildiv(size, n)) + 1)


def _lengths(like: Value, dim: int, size: Dim, n: Dim) -> Value:
    """How many elements each place along `dim` has, as i64 of the shape of `like`."""
    o = like.b.iota(dim, like.type.with_(shape=like.shape).with_(dtype="i64"))
    first = (o * size).binary(prims.DivTruncOp.make, n)
    end = (o * size + expr.normal(cast(Any, size) + n - 1)).binary(prims.DivTruncOp.make, n)
    return end - first


def window_sums(x: Value, dim: int, n: Dim) -> Value:
    """Sums over the elements of each of n places along `dim`."""
    size = x.shape[dim]
    most = longest(size, n)
    assert most is not None
    read, within = _windows(x, [dim], [n], [most], 0.0)
    kept = (within[0] < _lengths(read, dim, size, n)).where(read, 0.0)
    return kept.reduce("sum", [read.rank - 1])


def _windows(
    x: Value, dims: Sequence[int], places: Sequence[Dim], most: Sequence[Dim], filler: Number
) -> tuple[Value, list[Value]]:
    """`[…, places, …, within…]`: the elements from the beginning of each place on, and the position within it."""
    high: list[Dim] = [0] * x.rank
    shape: list[Dim] = list(x.shape)
    symbols = dims_of(x.rank + len(dims))
    index = symbols[: x.rank]
    for k, (d, n, m) in enumerate(zip(dims, places, most, strict=True)):
        high[d], shape[d] = m, n
        index[d] = _begin(symbols[d], x.shape[d], n) + symbols[x.rank + k]
    t = TensorType.get([*shape, *most], x.dtype, None, x.type.device)
    read = x.pad([0] * x.rank, high, filler).gather((), index, t)
    positions = t.with_(shape=t.shape).with_(dtype="i64")
    return read, [x.b.iota(x.rank + k, positions) for k in range(len(dims))]


@rule(
    "aten._adaptive_avg_pool2d",
    "aten._adaptive_avg_pool3d",
    "aten.adaptive_avg_pool1d",
    "aten.adaptive_avg_pool2d",
    "aten.adaptive_avg_pool3d",
)
def adaptive_avg_pool(call: Call, x: Value, places: Sequence[Dim]) -> Any:
    """The mean of each place's elements."""
    if not is_float(x.dtype):
        return NotImplemented
    y = x.opmath()
    blocks = _blocks(y, places)
    if blocks is not None:
        inner = _block_dims(x, places)
        total = blocks.reduce("sum", inner)
        return total / total.full(blocks.count(inner))
    outer = x.rank - len(places)
    if any(longest(x.shape[outer + k], n) is None for k, n in enumerate(places)):
        return NotImplemented
    for k, n in enumerate(places):
        y = window_sums(y, outer + k, n)
    return y / _counts(y, x, places).to(y.dtype)


def _counts(like: Value, x: Value, places: Sequence[Dim]) -> Value:
    """How many elements of x each place has in all dims."""
    outer = x.rank - len(places)
    count: Value | None = None
    for k, n in enumerate(places):
        length = _lengths(like, outer + k, x.shape[outer + k], n)
        count = length if count is None else count * length
    assert count is not None
    return count


@rule("aten._adaptive_avg_pool2d_backward", "aten._adaptive_avg_pool3d_backward")
def adaptive_avg_pool_backward(call: Call, grad: Value, x: Value) -> Any:
    """An element lies in places that are those of adaptive pooling with the sizes exchanged."""
    n = 2 if "2d" in call.op.name else 3
    outer = x.rank - n
    places = grad.shape[outer:]
    blocks = _blocks(x, places)
    grad = grad.opmath()
    if blocks is not None:
        inner = _block_dims(x, places)
        share = grad / grad.full(blocks.count(inner))
        kept = [d for d in range(blocks.rank) if d not in inner]
        return share.broadcast(blocks.shape, kept).reshape(x.shape)
    if any(longest(x.shape[outer + k], size) is None for k, size in enumerate(places)):
        return NotImplemented
    y = grad / _counts(grad, x, places).to(grad.dtype)
    for k in range(n):
        y = window_sums(y, outer + k, x.shape[outer + k])
    return y


@rule("aten.adaptive_max_pool2d", "aten.adaptive_max_pool3d")
def adaptive_max_pool(call: Call, x: Value, places: Sequence[Dim]) -> Any:
    """The largest element of each place (NaN wins), and where it is in the flattened last dims of x."""
    n = len(places)
    outer = x.rank - n
    sizes = x.shape[outer:]
    most = [longest(size, p) for size, p in zip(sizes, places, strict=True)]
    if any(m is None for m in most):
        return NotImplemented
    lengths: list[Dim] = [m for m in most if m is not None]
    dims = range(outer, x.rank)
    filler = lowest(x.dtype)
    read, within = _windows(x, dims, places, lengths, filler)
    inside: Value | None = None
    for d, position, size, p in zip(dims, within, sizes, places, strict=True):
        ok = position < _lengths(read, d, size, p)
        inside = ok if inside is None else inside & ok
    assert inside is not None
    read = inside.where(read, filler)
    inner = range(x.rank, read.rank)
    largest = read.reduce("max", inner)
    if not call.wanted(1):
        return largest, call.empty(1)
    position = read.reduce("argmax", inner)
    place: Value | None = None
    for k, (d, size, p) in enumerate(zip(dims, sizes, places, strict=True)):
        below = expr.product(lengths[k + 1 :])
        o = position.b.iota(d, position.type)
        first = (o * size).binary(prims.DivTruncOp.make, p)
        at = first + position.binary(prims.DivTruncOp.make, below).binary(prims.RemOp.make, lengths[k])
        place = at if place is None else place * size + at
    return largest, place


@rule("aten.adaptive_max_pool2d_backward", "aten.adaptive_max_pool3d_backward")
def adaptive_max_pool_backward(call: Call, grad: Value, x: Value, indices: Value) -> Value:
    return add_at_places(call, grad, indices, x.shape, 2 if "2d" in call.op.name else 3, "add")


@rule("aten.max_unpool2d", "aten.max_unpool3d")
def max_unpool(call: Call, x: Value, indices: Value, *rest: Any) -> Value:
    """Zeros with x's elements at their places in the flattened last dims."""
    n = 2 if "2d" in call.op.name else 3
    return add_at_places(call, x, indices, call.type.shape, n, "none", "RuntimeError: Found an invalid max index")
