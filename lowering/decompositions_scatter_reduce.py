"""Writes at indices that are tensors, combined with each other: sums, products, means, largest and smallest elements.

Without `include_self` an element that is written starts from what its combination of nothing is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ..dialects import expr, prims
from ..dialects.prims import Number
from .decomposition import Call, rule
from .decompositions_indexing import (
    OUT_OF_ELEMENTS,
    from_end,
    index_rows,
    like,
    scatter,
    scatter_along,
)
from .numbers import highest, lowest
from .prims_builder import Value

REDUCTIONS: Final = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min", "add": "add", "multiply": "mul"}
_OF_BOOL: Final = {"add": "max", "mul": "min"}
"""A sum of truth values is true where one is, a product where all are."""

Write = Callable[[Value, Value, str], Value]
"""`write(base, source, combine)`: base with the elements of source at the indices of a call."""


@rule("aten.scatter.reduce")
def scatter_and_reduce(call: Call, x: Value, dim: int, index: Value, source: Value, reduce: str) -> Any:
    return scatter_along(x, dim, index, source, _kind(x, reduce))


@rule("aten.scatter.value_reduce")
def scatter_value_reduce(call: Call, x: Value, dim: int, index: Value, value: Number, reduce: str) -> Any:
    return scatter_along(x, dim, index, like(x, index, value), _kind(x, reduce))


def _kind(x: Value, reduce: str) -> str:
    kind = REDUCTIONS[reduce]
    return _OF_BOOL.get(kind, kind) if x.is_bool else kind


@rule("aten.scatter_reduce.two")
def scatter_reduce(call: Call, x: Value, dim: int, index: Value, source: Value, reduce: str, include_self: bool) -> Any:
    return _combined(
        x, source, reduce, include_self, lambda base, src, kind: scatter_along(base, dim, index, src, kind)
    )


@rule("aten.index_reduce")
def index_reduce(call: Call, x: Value, dim: int, index: Value, source: Value, reduce: str, include_self: bool) -> Any:
    """Slices along dim, at the positions in index."""
    if source.rank != x.rank or (source.rank and source.shape[dim] != index.type.numel):  # which ATen asks when it runs
        return NotImplemented
    return _combined(x, source, reduce, include_self, lambda base, src, kind: index_rows(base, dim, index, src, kind))


def _combined(x: Value, source: Value, reduce: str, include_self: bool, write: Write) -> Any:
    if reduce == "mean":
        return _mean(x, source, include_self, write)
    kind = REDUCTIONS.get(reduce)
    if kind is None:
        return NotImplemented
    if x.is_bool:
        kind = _OF_BOOL.get(kind, kind)
    if not include_self:
        x = write(x, source.full(_of_nothing(kind, source.dtype)), "none")
    return write(x, source, kind)


def _of_nothing(kind: str, dtype: str) -> Number:
    match kind:
        case "add" | "mul":
            return int(kind == "mul")
        case "max":
            return lowest(dtype)
        case _:
            return highest(dtype)


def _mean(x: Value, source: Value, include_self: bool, write: Write) -> Any:
    """The sum by the number of its terms; of integers, rounded down."""
    if x.is_bool:
        return NotImplemented
    dtype = x.dtype
    x, source = x.opmath(), source.to(dtype).opmath()
    base = x if include_self else write(x, source.full(0), "none")
    total = write(base, source, "add")
    counts = write(x.full(int(include_self)), source.full(1), "add").maximum(1)
    return total / counts if x.is_float else total.binary(prims.DivFloorOp.make, counts)


@rule("aten.put")
def put(call: Call, x: Value, index: Value, source: Value, accumulate: bool) -> Any:
    """x with source's elements at places in x flattened."""
    if source.type.numel != index.type.numel:  # which ATen asks when it runs
        return NotImplemented
    flat, n = x.reshape([x.type.numel]), index.type.numel
    places = from_end(index, x.type.numel).reshape([n])
    values = source.reshape([n])
    kind = "none" if not accumulate else "max" if x.is_bool else "add"
    return scatter(flat, [places], values, [expr.symbol("i0")], kind, OUT_OF_ELEMENTS).reshape(x.shape)
