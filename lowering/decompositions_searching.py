"""Places in sorted tensors, by bisection: a gather for each halving, so the size of what is searched must be known."""

from __future__ import annotations

from typing import Any, Final

from ..dialects import expr
from ..dialects.tensor import TensorType
from .decomposition import Call, rule
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
        boundaries = boundaries.gather([sorter], columns, boundaries.type, "index out of bounds")
    return _search(call, boundaries, x, right or side == "right")


MANY: Final = 32
"""Elements to compare with, from which sorting is better."""


@rule("aten.isin.Tensor_Tensor")
def isin(call: Call, x: Value, among: Value, unique: bool, invert: bool) -> Any:
    """Whether each element is among others, each compared with each where these are few."""
    n = among.type.numel
    hint = call.b.hint(n)
    if hint is None or hint > MANY:
        return NotImplemented
    dtype = promote_types(x.dtype, among.dtype)
    pairs = [*x.shape, n]
    a = x.to(dtype).broadcast(pairs, range(x.rank))
    found = a.eq(among.to(dtype).reshape([n]).broadcast(pairs, [x.rank])).reduce("any", [x.rank])
    return ~found if invert else found


def _search(call: Call, boundaries: Value, x: Value, right: bool) -> Any:
    """For each element of x, how many of `boundaries` are below it (`right`: or equal to it).

    `boundaries` has one dim, or the dims of x with the searched one last.
    """
    n = boundaries.shape[-1]
    if not isinstance(n, int) or boundaries.dtype != x.dtype:
        return NotImplemented
    shape = x.shape or (1,)
    x = x.reshape(shape)
    t = TensorType.get(shape, "i64", None, x.type.device)
    rows: list[Any] = dims_of(len(shape))[:-1] if boundaries.rank > 1 else []
    found = call.b.full(0, t)
    step = 1 << n.bit_length()
    while step := step >> 1:
        # `step` more are below if there are so many, and the last of them is
        last = found + (step - 1)
        place = [last.minimum(n - 1)]
        b = boundaries.gather(place, [*rows, expr.symbol("i0")], t.with_(dtype=boundaries.dtype))
        # as ATen compares, so that NaN among the boundaries counts as below
        below = ~(b > x) if right else ~(b >= x)
        found = (below & (last < n)).where(found + step, found)
    return found.reshape(call.type.shape)
