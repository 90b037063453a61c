"""Places in sorted tensors, by bisection: a gather for each halving, so the size of what is searched must be known.
What is counted or picked by value: histograms, the first places that are not zero.
"""

from __future__ import annotations

from math import isfinite
from typing import Any, Final

from ..dialects import expr, prims
from ..dialects.expr import Dim
from ..dialects.tensor import TensorType
from .decomposition import Call, rule
from .decompositions_indexing import set_before
from .decompositions_sorting import key, ordered, taken
from .decompositions_views import dims_of
from .prims_builder import Value
from .promotion import promote_types


@rule("aten.bucketize.Tensor")
def bucketize(call: Call, x: Value, boundaries: Value, as_i32: bool, right: bool) -> Any:
    return _search(call, boundaries, x, right)


@rule("aten.searchsorted.Tensor")
def searchsorted(
    call: Call, boundaries: Value, x: Value, as_i32: bool, right: bool, side: str | None, sorter: Value | None
) -> Any:
    if sorter is not None:
        columns: list[Any] = dims_of(boundaries.rank)
        columns[-1] = expr.symbol("i0")
        message = "RuntimeError: torch.searchsorted(): sorter index out of range"
        boundaries = boundaries.gather([sorter], columns, boundaries.type, message)
    return _search(call, boundaries, x, right or side == "right")


MANY: Final = 32
"""Elements to compare with, from which bisection of them in order is better."""


@rule("aten.isin.Tensor_Tensor")
def isin(call: Call, x: Value, among: Value, unique: bool, invert: bool) -> Any:
    """Whether each element is among others: compared with each where these are few, else looked for in order."""
    n = among.type.numel
    hint = call.b.hint(n)
    dtype = promote_types(x.dtype, among.dtype)
    if hint is None:
        return NotImplemented
    x, among = x.to(dtype), among.to(dtype).reshape([n])
    if hint <= MANY:
        pairs = [*x.shape, n]
        a = x.broadcast(pairs, range(x.rank))
        found = a.eq(among.broadcast(pairs, [x.rank])).reduce("any", [x.rank])
        return ~found if invert else found
    order = ordered(among, 0, n, False)
    if order is None:
        return NotImplemented
    # as whole numbers, of which none is NaN
    row, number = taken(key(among, False), 0, order.places), key(x, False)
    place = bisected(row, number, False)
    if place is None:
        return NotImplemented
    found = number.eq(taken(row, 0, place.minimum(n - 1)))  # pyright: ignore[reportOperatorIssue]
    if x.is_float:
        found = found & ~x.isnan()
    return ~found if invert else found


@rule("aten.nonzero_static")
def nonzero_static(call: Call, x: Value, size: Dim, fill_value: int) -> Any:
    """The first `size` positions of what is not zero, a row each, then rows of the fill value."""
    n = x.type.numel
    if not x.rank or 0 in (n, size) or x.type.device != "cpu":
        return NotImplemented
    flat = (x if x.is_bool else x.ne(0)).reshape([n])
    # what is zero, or too much, goes behind the end
    place = flat.where(set_before(flat), size).minimum(size)
    t = call.type.with_(shape=[n])
    base = call.b.full(-1, t.with_(shape=[expr.normal(size + 1)]))  # pyright: ignore[reportOperatorIssue]
    found = base.scatter([place], call.b.iota(0, t), [expr.symbol("i0")]).slice(0, 0, size)
    columns: list[Value] = []
    rest = found
    for d in reversed(range(x.rank)):
        part = rest.binary(prims.RemOp.make, x.shape[d]) if d else rest
        columns.insert(0, (found < 0).where(fill_value, part).reshape([size, 1]))
        rest = rest.binary(prims.DivTruncOp.make, x.shape[d])
    return call.b.cat(columns, 1, call.type)


@rule("aten.histc")
def histc(call: Call, x: Value, bins: int, low: Any, high: Any) -> Any:
    """How many elements of f32 or f64 there are in each of `bins` parts of a range that is given."""
    n = x.type.numel
    numbers = all(isinstance(v, (int, float)) and isfinite(v) for v in (low, high))
    if x.dtype not in ("f32", "f64") or n == 0 or not numbers or not low < high or not isfinite(high - low):
        return NotImplemented
    x = x.reshape([n])
    low, high = x.full(low), x.full(high)
    inside = ~(x < low) & ~(x > high) & ~x.isnan()
    part = ((x - low) * float(bins) / (high - low)).to("i64").minimum(bins - 1)
    place = inside.where(part, bins)
    counts = call.b.full(0, call.type.with_(shape=[bins + 1]))
    return counts.scatter([place], x.full(1), [expr.symbol("i0")], "add").slice(0, 0, bins)


def _search(call: Call, boundaries: Value, x: Value, right: bool) -> Any:
    found = bisected(boundaries, x, right)
    return NotImplemented if found is None else found.reshape(call.type.shape)


def bisected(boundaries: Value, x: Value, right: bool) -> Value | None:
    """For each element of x, how many of `boundaries` are below it (`right`: or equal to it); None without a rule.

    `boundaries` has one dim, or the dims of x with the searched one last.
    """
    n = boundaries.shape[-1]
    if not isinstance(n, int) or boundaries.dtype != x.dtype:
        return None
    given, shape = x.shape, x.shape or (1,)
    x = x.reshape(shape)
    t = TensorType.get(shape, "i64", None, x.type.device)
    rows: list[Any] = dims_of(len(shape))[:-1] if boundaries.rank > 1 else []
    found = x.b.full(0, t)
    step = 1 << n.bit_length()
    while step := step >> 1:
        # `step` more are below if there are so many, and the last of them is
        last = found + (step - 1)
        place = [last.minimum(n - 1)]
        b = boundaries.gather(place, [*rows, expr.symbol("i0")], t.with_(dtype=boundaries.dtype))
        # as ATen compares, so that NaN among the boundaries counts as below
        below = ~(b > x) if right else ~(b >= x)
        found = (below & (last < n)).where(found + step, found)
    return found.reshape(given)
