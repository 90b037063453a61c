"""Reads and writes at indices that are tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import sympy

from ..dialects import expr
from ..dialects.aten import lookup
from ..dialects.expr import Dim
from ..dialects.prims import Number
from ..dialects.symbol_kinds import SIGNED, symbol_kind
from ..dialects.tensor import HALVES
from .decomposition import Call, rule
from .decompositions_views import dims_of
from .prims_builder import Value

OUT_OF_RANGE = "index out of range in self"
OUT_OF_BOUNDS = "index is out of bounds for a dimension"
OUT_OF_ELEMENTS = "out of range: tried to access an index that the tensor has no element at"
OTHER_COUNT = "RuntimeError: shape mismatch: value tensor cannot be broadcast to indexing result"
TOO_FEW = "RuntimeError: Number of elements of source < number of ones in mask"


def out_of_bounds(x: Value, dim: int) -> str:
    """What is said of an index along one dim; the size is named where it is a number."""
    dim, size = (dim % x.rank, x.shape[dim]) if x.rank else (0, 1)
    return f"index is out of bounds for dimension {dim}{f' with size {size}' if isinstance(size, int) else ''}"


def integer(index: Value) -> Value:
    """An index tensor as i32 or i64."""
    return index if index.dtype in ("i32", "i64") else index.to("i64")


def from_end(index: Value, size: Dim) -> Value:
    """Negative indices count from the end."""
    index = integer(index)
    return (index < 0).where(index + size, index)


@dataclass(frozen=True)
class Selection:
    """What `x[i, :, j]` selects: the domain (the shape of the result), index tensors of that shape, an expression per
    dim of x.
    """

    shape: tuple[Dim, ...]
    indices: list[Value]
    index: list[Any]


def _selection(x: Value, indices: Sequence[Value | None]) -> Selection | None:
    """As advanced indexing in numpy: the dims of the index tensors stand at the first of them, or in front if these
    are not adjacent.

    None where a mask selects a number of elements that is not known.
    """
    given = {d: i for d, i in enumerate(indices) if i is not None}
    if not given or any(i.dtype in ("i1", "u8") for i in given.values()):
        return None
    common: tuple[Dim, ...] = ()
    for i in given.values():
        common = x.b.broadcast_shapes(common, i.shape)
    first, last = min(given), max(given)
    at = first if last - first + 1 == len(given) else 0
    others = [d for d in range(x.rank) if d not in given]
    before, after = others[:at], others[at:]
    shape = (*(x.shape[d] for d in before), *common, *(x.shape[d] for d in after))
    symbols = dims_of(len(shape))
    index: list[Any] = [None] * x.rank
    for position, d in enumerate(before):
        index[d] = symbols[position]
    for position, d in enumerate(after):
        index[d] = symbols[len(before) + len(common) + position]
    tensors: list[Value] = []
    for n, (d, i) in enumerate(given.items()):
        wrapped = from_end(i, x.shape[d]).expand(common)
        place = range(len(before), len(before) + len(common))
        tensors.append(wrapped if len(shape) == len(common) else wrapped.broadcast(shape, place))
        index[d] = expr.symbol(f"i{n}")
    return Selection(shape, tensors, index)


@rule("aten.index.Tensor", "aten._unsafe_index.Tensor")
def index(call: Call, x: Value, indices: Sequence[Value | None]) -> Any:
    chosen = _selection(x, indices)
    if chosen is None:
        return NotImplemented
    return x.gather(chosen.indices, chosen.index, call.type.with_(shape=chosen.shape), OUT_OF_BOUNDS)


def _within(x: Value, indices: Sequence[Value | None]) -> list[Value | None]:
    """Indices beyond an end are the end's."""
    ends: list[Any] = list(x.shape)
    return [
        None if i is None else integer(i).maximum(0).minimum(expr.normal(n - 1))
        for i, n in zip(indices, ends, strict=False)
    ]


@rule("aten._unsafe_masked_index")
def masked_index(call: Call, x: Value, mask: Value, indices: Sequence[Value | None], filler: Number) -> Any:
    """x[indices] where the mask is set, else the filler; other indices may be anything."""
    chosen = None if x.type.numel == 0 else _selection(x, _within(x, indices))
    if chosen is None:
        return NotImplemented
    y = x.gather(chosen.indices, chosen.index, call.type.with_(shape=chosen.shape)).expand(call.type.shape)
    return mask.to("i1").expand(call.type.shape).where(y, y.full(filler))


@rule("aten._unsafe_masked_index_put_accumulate")
def masked_index_put(call: Call, x: Value, mask: Value, indices: Sequence[Value | None], values: Value) -> Any:
    """x with values added at indices where the mask is set."""
    chosen = None if x.type.numel == 0 else _selection(x, _within(x, indices))
    if chosen is None or not _fits(call, values, chosen.shape) or not _fits(call, mask, chosen.shape):
        return NotImplemented
    values = values.to(x.dtype).expand(chosen.shape)
    source = mask.to("i1").expand(chosen.shape).where(values, values.full(0))
    return scatter(x, chosen.indices, source, chosen.index, "max" if x.is_bool else "add", None)


@rule("aten.index_put", "aten._unsafe_index_put")
def index_put(call: Call, x: Value, indices: Sequence[Value | None], values: Value, accumulate: bool) -> Any:
    masks = [i for i in indices if i is not None]
    if len(masks) == 1 and masks[0].is_bool and indices[0] is not None:
        return _masked_put(call, x, masks[0], values.to(x.dtype), accumulate)
    chosen = _selection(x, indices)
    if chosen is None or not _fits(call, values, chosen.shape):
        return NotImplemented
    combine = "none" if not accumulate else "max" if x.is_bool else "add"
    source = values.to(x.dtype).expand(chosen.shape)
    return scatter(x, chosen.indices, source, chosen.index, combine, OUT_OF_BOUNDS)


def _fits(call: Call, values: Value, shape: Sequence[Dim]) -> bool:
    """Whether values broadcast to that shape, which tracing does not ask: surely, or as an assertion says. A size that
    data says may be 1.
    """
    lead = len(shape) - values.rank
    differing = [(n, m) for n, m in zip(values.shape, shape[max(lead, 0) :], strict=False) if n not in (1, m)]
    if lead < 0 or not all(map(_is_several, [n for n, _ in differing])):
        return False
    if any(isinstance(n, int) and isinstance(m, int) for n, m in differing):
        return False
    assertion = lookup("aten._assert_scalar")
    assert assertion is not None
    message = "shape mismatch: the values cannot be broadcast to the places that are indexed"
    for n, m in differing:
        call.b.ops.append(assertion.call([sympy.Eq(cast(Any, n), cast(Any, m)), message], [], call.op.location))
    return True


def _is_several(size: Dim) -> bool:
    """Whether a size that is not the number 1 never is 1: torch has symbols of arguments stand for 2 and more."""
    return isinstance(size, int) or (isinstance(size, sympy.Symbol) and symbol_kind(size.name) not in SIGNED)


def _masked_put(call: Call, x: Value, mask: Value, values: Value, accumulate: bool) -> Any:
    """x with values where the mask, over its first dims, is set: the same for each place, or the next in order."""
    rest = x.shape[mask.rank :]
    if mask.shape != x.shape[: mask.rank] or not _fits(call, values, (*values.shape[:1], *rest)):
        return NotImplemented
    if values.rank > len(rest) and values.shape[0] != 1:
        n = mask.type.numel
        if values.shape[0] == 0 or n == 0:
            return NotImplemented
        flat = mask.reshape([n])
        shape = (n, *rest)
        count = values.shape[0]
        values, left_out = _with_one_left_out(values.expand([count, *rest]))
        found, before = flat.to("i64").reduce("sum", [0]), set_before(flat)
        fits = found.eq(count)
        if not isinstance(count, int):  # one is for all places
            only = found.full(count).eq(1)
            fits, before = fits | only, only.expand([n]).where(0, before)
        # all are of no place where there are more or fewer values than places
        place = fits.expand([n]).where(flat.where(before, left_out), -1).broadcast(shape, [0])
        t = values.type.with_(shape=shape)
        values = values.gather([place], [expr.symbol("i0"), *dims_of(len(shape))[1:]], t, OTHER_COUNT).reshape(x.shape)
    else:
        values = values.reshape(values.shape[values.rank - len(rest) :]) if values.rank > len(rest) else values
        values = values.expand(x.shape)
    mask = mask.broadcast(x.shape, range(mask.rank)) if mask.rank < x.rank else mask
    return mask.where(x + values if accumulate else values, x)


def _with_one_left_out(values: Value) -> tuple[Value, Dim]:
    """The values, and the place of one that stands for those that are left out: behind them where there may be none."""
    count = values.shape[0]
    if isinstance(count, int):
        return values, 0
    return values.pad([0] * values.rank, [1, *[0] * (values.rank - 1)], 0), count


def set_before(mask: Value) -> Value:
    """For each element of a flat mask, how many are set before it."""
    return mask.to("i64").scan("sum", 0) - 1


@rule("aten.masked_scatter")
def masked_scatter(call: Call, x: Value, mask: Value, source: Value) -> Any:
    """x with the elements of source, in order, where the mask is set."""
    n, available = call.type.numel, source.type.numel
    if available == 0 or n == 0 or not mask.is_bool:
        return NotImplemented
    mask = mask.expand(call.type.shape).reshape([n])
    source, left_out = _with_one_left_out(source.to(x.dtype).reshape([available]))
    place = set_before(mask)
    if left_out != 0:
        place = (place < available).where(place, -1)
    place = mask.where(place, left_out)
    t = call.type.with_(shape=[n])
    taken = source.gather([place], [expr.symbol("i0")], t, TOO_FEW)
    return mask.where(taken, x.expand(call.type.shape).reshape([n])).reshape(call.type.shape)


@rule("aten.masked_scatter_backward")
def masked_scatter_backward(call: Call, grad: Value, mask: Value, sizes: Sequence[Dim]) -> Any:
    """The elements of grad where the mask is set, in order, then zeros."""
    n, size = grad.type.numel, call.type.numel
    if not isinstance(size, int) or not isinstance(n, int) or mask.rank > grad.rank:
        return NotImplemented
    flat = mask.expand(grad.shape).reshape([n])
    # what the mask leaves out goes behind the end
    place = flat.where(set_before(flat), size).minimum(size)
    base = call.b.full(0, call.type.with_(shape=[size + 1]))
    written = base.scatter([place], grad.reshape([n]), [expr.symbol("i0")], "none")
    return written.slice(0, 0, size).reshape(call.type.shape)


def scatter(
    x: Value,
    indices: Sequence[Value],
    source: Value,
    index: Sequence[Any],
    combine: str,
    message: str | None,
    halves: bool = False,
) -> Value:
    """`x.scatter`, where f16 and bf16 are summed in f32; with `halves` as such, on a GPU that adds them in memory."""
    halves &= combine == "add" and x.b.halves and x.type.device != "cpu"
    if combine == "none" or x.dtype not in HALVES or halves:
        return x.scatter(indices, source, index, combine, message)
    return x.opmath().scatter(indices, source.opmath(), index, combine, message)


def _along(x: Value, index: Value, dim: int) -> list[Any]:
    """The place in x of each element of `index`, which names the position along dim."""
    places = dims_of(index.rank)
    places[dim] = expr.symbol("i0")
    return places


def at_least_1d(*values: Value) -> list[Value]:
    return [v if v.rank else v.reshape([1]) for v in values]


@rule("aten.gather")
def gather(call: Call, x: Value, dim: int, index: Value, sparse_grad: bool) -> Value:
    x, index = at_least_1d(x, index)
    dim %= x.rank
    t, message = call.type.with_(shape=index.shape), f"RuntimeError: {out_of_bounds(x, dim)}"
    return x.gather([integer(index)], _along(x, index, dim), t, message).reshape(call.type.shape)


@rule("aten.take")
def take(call: Call, x: Value, index: Value) -> Value:
    flat = x.reshape([x.type.numel])
    return flat.gather([from_end(index, x.type.numel)], [expr.symbol("i0")], call.type, OUT_OF_ELEMENTS)


@rule("aten.index_select")
def index_select(call: Call, x: Value, dim: int, index: Value) -> Value:
    shape = call.type.shape
    x, index = at_least_1d(x, index)
    dim %= x.rank
    shape = shape or (1,)
    places = dims_of(x.rank)
    places[dim] = expr.symbol("i0")
    tensor = integer(index).broadcast(shape, [dim]) if len(shape) > 1 else integer(index)
    is_column = x.rank == 2 and dim == 1  # which ATen's kernel for vectors of a matrix looks up by another way
    message = "RuntimeError: INDICES element is out of DATA bounds" if is_column else OUT_OF_RANGE
    return x.gather([tensor], places, call.type.with_(shape=shape), message).reshape(call.type.shape)


# Writes


def scatter_along(x: Value, dim: int, index: Value, source: Value, combine: str) -> Value:
    """x with source's elements at the places that index names along dim; source may be larger than index."""
    shape = x.shape
    x, index, source = at_least_1d(x, index, source)
    dim %= x.rank
    for d, (size, larger) in enumerate(zip(index.shape, source.shape, strict=True)):
        if size != larger:
            source = source.slice(d, 0, size)
    message, source = f"RuntimeError: {out_of_bounds(x, dim)}", source.to(x.dtype)
    return scatter(x, [integer(index)], source, _along(x, index, dim), combine, message, halves=True).reshape(shape)


def like(x: Value, index: Value, value: Number) -> Value:
    return x.b.full(value, index.type.with_(dtype=x.dtype))


@rule("aten.scatter.src")
def scatter_source(call: Call, x: Value, dim: int, index: Value, source: Value) -> Value:
    return scatter_along(x, dim, index, source, "none")


@rule("aten.scatter.value")
def scatter_value(call: Call, x: Value, dim: int, index: Value, value: Number) -> Value:
    return scatter_along(x, dim, index, like(x, index, value), "none")


@rule("aten.scatter_add")
def scatter_add(call: Call, x: Value, dim: int, index: Value, source: Value) -> Any:
    return scatter_along(x, dim, index, source, "max" if x.is_bool else "add")


def index_rows(x: Value, dim: int, index: Value, source: Value, combine: str, message: str = OUT_OF_RANGE) -> Value:
    """x with the slices of source along dim written at the positions in index."""
    shape = x.shape
    x, index, source = at_least_1d(x, index, source)
    dim %= x.rank
    places = dims_of(x.rank)
    places[dim] = expr.symbol("i0")
    tensor = integer(index)
    tensor = tensor.broadcast(source.shape, [dim]) if source.rank > 1 else tensor.expand(source.shape)
    return scatter(x, [tensor], source.to(x.dtype), places, combine, message, halves=True).reshape(shape)


@rule("aten.index_copy")
def index_copy(call: Call, x: Value, dim: int, index: Value, source: Value) -> Value:
    message = f"IndexError: index_copy_(): {out_of_bounds(x, dim)}"
    return index_rows(x, dim, index, source, "none", message)


@rule("aten.index_add")
def index_add(call: Call, x: Value, dim: int, index: Value, source: Value, alpha: Number) -> Any:
    is_scatter = x.rank > 1 and index.dtype == "i64" and alpha == 1  # ATen's way then
    message = f"RuntimeError: {out_of_bounds(x, dim)}" if is_scatter else OUT_OF_RANGE
    if x.is_bool:
        return index_rows(x, dim, index, source if alpha else source.full(False), "max", message)
    return index_rows(x, dim, index, source if alpha == 1 else source.opmath() * alpha, "add", message)


@rule("aten.index_fill.int_Scalar", "aten.index_fill.int_Tensor")
def index_fill(call: Call, x: Value, dim: int, index: Value, value: Number | Value) -> Value:
    rank = max(x.rank, 1)
    dim %= rank
    (index,) = at_least_1d(index)
    shape = (*x.shape[:dim], index.shape[0], *x.shape[dim + 1 :])
    filler = value.to(x.dtype) if isinstance(value, Value) else x.b.full(value, x.type.with_(shape=()))
    size = x.shape[dim] if x.rank else 1
    return index_rows(x, dim, from_end(index, size), filler.expand(shape), "none", out_of_bounds(x, dim))
