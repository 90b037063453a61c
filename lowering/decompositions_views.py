"""Views: the same elements seen with another shape. In eager their results share memory with the operand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import sympy

from ..dialects import expr, prims
from ..dialects.aliasing import makes_storage
from ..dialects.aten import lookup
from ..dialects.expr import Dim
from ..dialects.symbol_kinds import Kind, symbol_kind
from ..dialects.tensor import TensorType, itemsize
from .decomposition import Call, rule, view
from .index_bounds import never_negative
from .prims_builder import Builder, Value
from .prims_memory import shares_result
from .storage import order_in_memory


@view(
    "aten.view",
    "aten._unsafe_view",
    "aten.reshape",
    "aten._reshape_alias",
    "aten.view_as",
    "aten.reshape_as",
    "aten.flatten.using_ints",
    "aten.unflatten.int",
    "aten.ravel",
    "aten.squeeze",
    "aten.squeeze.dim",
    "aten.squeeze.dims",
    "aten.atleast_1d",
    "aten.atleast_2d",
)
def reshape(call: Call, x: Value, *sizes: Any) -> Value:
    return x.reshape(call.type.shape, call.type)


@rule(
    "aten.view_copy",
    "aten._reshape_copy",
    "aten.squeeze_copy",
    "aten.squeeze_copy.dim",
    "aten.squeeze_copy.dims",
)
def reshape_copy(call: Call, x: Value, *sizes: Any) -> Value:
    return x.reshape(call.type.shape, call.type)


@view("aten.view.dtype")
def view_dtype(call: Call, x: Value, dtype: str) -> Any:
    if itemsize(x.dtype) != itemsize(dtype) or "i1" in (x.dtype, dtype):
        return NotImplemented
    if x.dtype != dtype and shares_result(call.op):
        return NotImplemented  # as another dtype, only ATen has a view of the same memory
    return x if x.dtype == dtype else x.bitcast(call.type)


@view("aten.alias", "aten.detach", "aten.lift", "aten.lift_fresh", "aten._to_dense")
def alias(call: Call, x: Value, *rest: Any) -> Value:
    return x


@view("aten.expand", "aten.expand_as", "aten.broadcast_to")
def expand(call: Call, x: Value, *rest: Any) -> Value:
    return x.expand(call.type.shape)


@view("torch_prims.broadcast_in_dim")
def broadcast_in_dim(call: Call, x: Value, shape: Sequence[Dim], dims: Sequence[int]) -> Value:
    return x.broadcast(call.type.shape, dims)


@rule("aten.expand_copy")
def expand_copy(call: Call, x: Value, size: Sequence[Dim], implicit: bool) -> Value:
    return x.expand(call.type.shape)


@view("aten.unsqueeze")
def unsqueeze(call: Call, x: Value, dim: int) -> Value:
    return x.unsqueeze(dim % (x.rank + 1))


@rule("aten.unsqueeze_copy")
def unsqueeze_copy(call: Call, x: Value, dim: int) -> Value:
    return x.unsqueeze(dim % (x.rank + 1))


@view("aten.permute")
def permute(call: Call, x: Value, dims: Sequence[int]) -> Value:
    return x.transpose([d % x.rank for d in dims], call.type) if x.rank else x


@rule("aten.permute_copy")
def permute_copy(call: Call, x: Value, dims: Sequence[int]) -> Value:
    return permute(call, x, dims)


@view("aten.transpose.int", "aten.swapaxes", "aten.swapdims")
def transpose(call: Call, x: Value, a: int, b: int) -> Value:
    return _swap(call, x, a, b)


@rule("aten.transpose_copy.int")
def transpose_copy(call: Call, x: Value, a: int, b: int) -> Value:
    return _swap(call, x, a, b)


@view("aten.t")
def t(call: Call, x: Value) -> Value:
    return _swap(call, x, 0, 1) if x.rank == 2 else x


@rule("aten.t_copy")
def t_copy(call: Call, x: Value) -> Value:
    return t(call, x)


@view("aten.mT", "aten.mH", "aten.adjoint")
def matrix_transpose(call: Call, x: Value) -> Value:
    return _swap(call, x, -2, -1)


@view("aten.numpy_T")
def numpy_t(call: Call, x: Value) -> Value:
    return x.transpose(range(x.rank - 1, -1, -1), call.type) if x.rank else x


def _swap(call: Call, x: Value, a: int, b: int) -> Value:
    if x.rank == 0:
        return x
    perm = list(range(x.rank))
    perm[a], perm[b] = perm[b], perm[a]
    return x.transpose(perm, call.type)


@view("aten.movedim.int")
def movedim(call: Call, x: Value, source: int, destination: int) -> Value:
    perm = list(range(x.rank))
    perm.insert(destination % x.rank, perm.pop(source % x.rank))
    return x.transpose(perm, call.type)


# Parts


def wrapped(b: Builder, index: Dim, size: Dim) -> Dim | None:
    """An index that counts from the end where it is negative, as one that counts from 0; None where its sign is
    unknown.
    """
    negative = b.is_negative(index)
    if negative is None:
        return None
    return expr.normal(cast(Any, index) + size) if negative else index


def slice_start(b: Builder, start: Dim | None, stop: Dim | None, step: int, size: Dim, length: Dim) -> Dim | None:
    """Where a Python slice that has `length` elements begins; None where the sign of a symbolic start is unknown.

    A start beyond the end needs no clamping: then there are no elements.
    """
    if start is None or length == 0:
        return 0
    first = wrapped(b, start, size)
    if first is None or b.is_negative(start) is False:
        return first
    # A negative start before the beginning counts as 0. To the end, the length tells where it begins.
    to_end = stop is None or (isinstance(stop, int) and stop >= 2**62)
    if to_end and step == 1:
        return expr.normal(cast(Any, size) - length)
    if b.is_negative(first) is False:
        return first
    return expr.normal(sympy.Max(0, first))


@view("aten.slice.Tensor")
def slice_(call: Call, x: Value, dim: int, start: Dim | None, end: Dim | None, step: int) -> Any:
    return _slice(call, x, dim, start, end, step)


@rule("aten.slice_copy.Tensor")
def slice_copy(call: Call, x: Value, dim: int, start: Dim | None, end: Dim | None, step: int) -> Any:
    return _slice(call, x, dim, start, end, step)


def _slice(call: Call, x: Value, dim: int, start: Dim | None, end: Dim | None, step: int) -> Any:
    dim %= x.rank
    size, length = x.shape[dim], call.type.shape[dim]
    if _is_from_data(start, end) and not _is_from_data(length):
        return NotImplemented  # the program says how long it must be: the call is compared with that
    if size == length and step == 1:
        return x
    first = slice_start(call.b, start, end, step, size, length)
    return NotImplemented if first is None else x.slice(dim, first, length, step, call.type)


def _is_from_data(*numbers: Dim | None) -> bool:
    """Whether symbols are in numbers that are read from data."""
    return any(symbol_kind(s.name) is Kind.DATA for n in numbers if n is not None for s in expr.symbols(n))


@view("aten.narrow", "aten.narrow.Tensor")
def narrow(call: Call, x: Value, dim: int, start: Any, length: Dim) -> Any:
    dim %= x.rank
    if isinstance(start, Value):
        return NotImplemented
    first = wrapped(call.b, start, x.shape[dim])
    return NotImplemented if first is None else x.slice(dim, first, length, 1, call.type)


@rule("aten.narrow_copy")
def narrow_copy(call: Call, x: Value, dim: int, start: Any, length: Dim) -> Any:
    return narrow(call, x, dim, start, length)


@view("aten.select.int")
def select(call: Call, x: Value, dim: int, index: Dim) -> Any:
    return _select(call, x, dim, index)


@rule("aten.select_copy.int")
def select_copy(call: Call, x: Value, dim: int, index: Dim) -> Any:
    return _select(call, x, dim, index)


def _select(call: Call, x: Value, dim: int, index: Dim) -> Any:
    dim %= x.rank
    first = wrapped(call.b, index, x.shape[dim])
    if first is None:
        return NotImplemented
    return x.slice(dim, first, 1).reshape(call.type.shape, call.type)


def _parts(call: Call, x: Value, dim: int) -> tuple[Value, ...]:
    """The parts of x along dim that the results have the sizes of."""
    dim %= x.rank
    start: Any = 0
    parts: list[Value] = []
    for t in call.types:
        parts.append(x.slice(dim, start, t.shape[dim], 1, t))
        start = expr.normal(start + t.shape[dim])
    return tuple(parts)


@view(
    "aten.split.Tensor",
    "aten.split_with_sizes",
    "aten.split.sizes",
    "aten.chunk",
    "aten.tensor_split.sections",
    "aten.unsafe_split.Tensor",
    "aten.unsafe_split_with_sizes",
    "aten.unsafe_chunk",
)
def split(call: Call, x: Value, sizes: Any, dim: int) -> tuple[Value, ...]:
    return _parts(call, x, dim)


@rule("aten.split_copy.Tensor", "aten.split_with_sizes_copy")
def split_copy(call: Call, x: Value, sizes: Any, dim: int) -> tuple[Value, ...]:
    return _parts(call, x, dim)


@view("aten.unbind.int")
def unbind(call: Call, x: Value, dim: int) -> tuple[Value, ...]:
    dim %= x.rank
    return tuple(x.slice(dim, i, 1).reshape(t.shape, t) for i, t in enumerate(call.types))


@rule("aten.unbind_copy.int")
def unbind_copy(call: Call, x: Value, dim: int) -> tuple[Value, ...]:
    return unbind(call, x, dim)


# Other ways through the elements, as an element of x for each of the result


def dims_of(rank: int) -> list[Any]:
    """The symbols `d0, d1, …` of a result."""
    return [expr.symbol(f"d{i}") for i in range(rank)]


@view("aten.unfold")
def unfold(call: Call, x: Value, dim: int, size: int, step: int) -> Value:
    """result[…, i, …, j] = x[…, i * step + j, …]: windows along dim, in a new last dim."""
    if x.rank == 0:
        return x.reshape(call.type.shape, call.type)
    dim %= x.rank
    *index, within = dims_of(x.rank + 1)
    index[dim] = index[dim] * step + within
    return x.subview(index, call.type)


@rule("aten.unfold_copy")
def unfold_copy(call: Call, x: Value, dim: int, size: int, step: int) -> Value:
    return unfold(call, x, dim, size, step)


def diagonal_index(rank: int, offset: int, a: int, b: int) -> list[Any]:
    """The index in a tensor of that rank of each element of its diagonal in dims a, b, which is the last dim."""
    a, b = a % rank, b % rank
    *others, along = dims_of(rank - 1)
    rest = iter(others)
    start = {a: max(-offset, 0), b: max(offset, 0)}
    return [along + start[d] if d in start else next(rest) for d in range(rank)]


@view("aten.diagonal")
def diagonal(call: Call, x: Value, offset: int, a: int, b: int) -> Value:
    return x.subview(diagonal_index(x.rank, offset, a, b), call.type)


@rule("aten.diagonal_copy")
def diagonal_copy(call: Call, x: Value, offset: int, a: int, b: int) -> Value:
    return diagonal(call, x, offset, a, b)


@rule("aten.as_strided_copy")
def as_strided_copy(call: Call, x: Value, size: Sequence[Dim], stride: Sequence[Dim], offset: Dim | None) -> Any:
    """A copy of what is there: through a view that ATen makes, where x may be a part of a larger memory."""
    known = as_strided(call, x, size, stride, offset)
    if known is not NotImplemented:
        return known
    cls = lookup("aten.as_strided")
    assert cls is not None
    seen = TensorType.get(size, x.dtype, stride, x.type.device)
    op = cls.call([x.ssa, tuple(size), tuple(stride), offset], [seen], call.op.location)
    call.b.ops.append(op)
    return Value(call.b, op.results[0]).copy(call.type)


@view("aten.as_strided")
def as_strided(call: Call, x: Value, size: Sequence[Dim], stride: Sequence[Dim], offset: Dim | None) -> Any:
    """The elements at these distances in memory, where x is a new tensor whose elements lie in order, and all of these
    surely lie in it. What else there is ATen makes, which says what lies outside.
    """
    if not _lies_in_order(call, x) or not _lies_within(x, size, stride, offset):
        return NotImplemented
    if (order := _order_of_all(x, size, stride, offset)) is not None:
        return x.reshape([size[d] for d in order]).transpose([order.index(d) for d in range(len(size))], call.type)
    position: Any = offset or 0
    for d, step in zip(dims_of(len(size)), stride, strict=True):
        position = position + d * step
    return x.reshape([x.type.numel]).subview([position], call.type)


@rule("aten.as_strided_scatter")
def as_strided_scatter(
    call: Call, x: Value, source: Value, size: Sequence[Dim], stride: Sequence[Dim], offset: Dim | None
) -> Any:
    """What lies at these distances is all of a new tensor: its elements are those of source, in another order."""
    new = isinstance(x.ssa.owner, prims.FullOp) or _lies_in_order(call, x)
    order = _order_of_all(x, size, stride, offset) if new and x.type.is_contiguous else None
    if order is None or source.shape != tuple(size) or not all(map(never_negative, size)):
        return NotImplemented
    return source.to(x.dtype).transpose(order).reshape(x.shape).copy(call.type)


def _lies_in_order(call: Call, x: Value) -> bool:
    """Whether x, the first operand, is a new tensor whose elements lie one after the other."""
    made = isinstance(x.ssa.owner, prims.ElementwiseOp | prims.ReduceOp) and makes_storage(call.op.operands[0])
    return made and x.type.is_contiguous


def _lies_within(x: Value, size: Sequence[Dim], stride: Sequence[Dim], offset: Dim | None) -> bool:
    """Whether all elements at these distances are surely elements of x, for any sizes."""
    last: Any = offset or 0
    for n, step in zip(size, stride, strict=True):
        last = last + (cast(Any, n) - 1) * step
    room = cast(Any, x.type.numel) - 1 - last
    return all(map(never_negative, (*size, *stride, offset or 0, expr.normal(room))))


def _order_of_all(x: Value, size: Sequence[Dim], stride: Sequence[Dim], offset: Dim | None) -> list[int] | None:
    """The dims of these sizes from the outermost to the innermost, where their elements are all of x, without gaps."""
    t = x.type.with_(shape=size, strides=stride)
    return order_in_memory(t) if not offset and t.numel == x.type.numel else None
