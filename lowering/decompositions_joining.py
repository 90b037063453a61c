"""Tensors put together, padded, repeated and rearranged: new tensors that hold elements of the operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from ..dialects import expr
from ..dialects.expr import Dim
from ..dialects.prims import Number
from .decomposition import Call, rule
from .decompositions_views import diagonal_index, dims_of, slice_start, wrapped
from .prims_builder import Value
from .prims_memory import keeps_memory_around
from .promotion import is_number


@rule("aten.cat", "aten.concat", "aten.concatenate")
def cat(call: Call, tensors: Sequence[Value], dim: int) -> Any:
    """The tensors one after the other. As in eager, an empty tensor of rank 1 goes with any shape."""
    t = call.type
    parts = [x.to(t.dtype) for x in tensors if x.shape != (0,) or t.rank == 1]
    if not parts:
        return call.empty(0)
    if len(parts) == 1:
        return parts[0]
    dim %= t.rank
    return call.b.cat([_fit_other_dims(x, t.shape, dim) for x in parts], dim, t)


def _fit_other_dims(x: Value, shape: Sequence[Dim], dim: int) -> Value:
    """x with the sizes of `shape` in all dims but one: they are equal, perhaps in other words."""
    return x.reshape([*shape[:dim], x.shape[dim], *shape[dim + 1 :]])


@rule("aten.stack")
def stack(call: Call, tensors: Sequence[Value], dim: int) -> Value:
    t = call.type
    dim %= t.rank
    parts = [x.to(t.dtype).unsqueeze(dim) for x in tensors]
    return parts[0] if len(parts) == 1 else call.b.cat([_fit_other_dims(x, t.shape, dim) for x in parts], dim, t)


@rule("aten.flip")
def flip(call: Call, x: Value, dims: Sequence[int]) -> Value:
    return x.flip(sorted(d % x.rank for d in dims), call.type) if dims and x.rank else x


@rule("aten.fliplr")
def fliplr(call: Call, x: Value) -> Value:
    return x.flip([1], call.type)


@rule("aten.flipud")
def flipud(call: Call, x: Value) -> Value:
    return x.flip([0], call.type)


@rule("aten.roll")
def roll(call: Call, x: Value, shifts: Sequence[Dim], dims: Sequence[int]) -> Any:
    """result[i] = x[(i - shift) mod size], as the last elements followed by the first."""
    flat = not dims
    y = x.reshape([x.type.numel]) if flat else x
    for shift, dim in zip(shifts, dims or (0,), strict=True):
        if not y.rank:
            continue
        dim %= y.rank
        size: Any = y.shape[dim]
        if size == 0:
            continue
        last = expr.normal(expr.mod(shift, size))
        if last != 0:
            first = expr.normal(size - last)
            y = call.b.cat([y.slice(dim, first, last), y.slice(dim, 0, first)], dim, y.type.with_(shape=y.shape))
    return y.reshape(x.shape)


@rule("aten.repeat")
def repeat(call: Call, x: Value, repeats: Sequence[Dim]) -> Value:
    """x repeats[d] times along dim d, by a new dim before each."""
    shape = [1] * (len(repeats) - x.rank) + list(x.shape)
    if all(r == 1 for r in repeats):
        return x.reshape(shape)
    pairs = [size for pair in zip(repeats, shape, strict=True) for size in pair]
    return x.reshape(shape).broadcast(pairs, range(1, 2 * len(shape), 2)).reshape(call.type.shape)


@rule("aten.tile")
def tile(call: Call, x: Value, repeats: Sequence[Dim]) -> Value:
    return repeat(call, x, [1] * (x.rank - len(repeats)) + list(repeats))


@rule("aten.repeat_interleave.self_int")
def repeat_interleave(call: Call, x: Value, repeats: Dim, dim: int | None, output_size: Dim | None) -> Value:
    """Each element repeats times, one after the other."""
    y = x.reshape([x.type.numel]) if dim is None else x
    at = (dim or 0) % y.rank
    shape = [*y.shape[: at + 1], repeats, *y.shape[at + 1 :]]
    dims = [d for d in range(y.rank + 1) if d != at + 1]
    return y.broadcast(shape, dims).reshape(call.type.shape)


@rule("aten.rot90")
def rot90(call: Call, x: Value, k: int, dims: Sequence[int]) -> Value:
    a, b = (d % x.rank for d in dims)
    perm = list(range(x.rank))
    perm[a], perm[b] = b, a
    match k % 4:
        case 1:
            return x.flip([b]).transpose(perm)
        case 2:
            return x.flip(sorted((a, b)))
        case 3:
            return x.flip([a]).transpose(perm)
        case _:
            return x


@rule("aten.linalg_cross", of=is_number)
def cross(call: Call, a: Value, b: Value, dim: int) -> Value:
    """a[1] b[2] - a[2] b[1] and so on in turn, along a dim of size 3."""
    t = call.type
    dim %= t.rank
    a, b = (v.opmath().expand(t.shape) for v in (a, b))

    def turned(x: Value, by: int) -> Value:
        parts = [x.slice(dim, by, 3 - by), x.slice(dim, 0, by)]
        return call.b.cat(parts, dim, x.type.with_(shape=x.shape))

    return turned(a, 1) * turned(b, 2) - turned(a, 2) * turned(b, 1)


@rule("aten.pixel_shuffle")
def pixel_shuffle(call: Call, x: Value, factor: int) -> Value:
    *batch, c, h, w = x.shape
    n = len(batch)
    y = x.reshape([*batch, expr.floordiv(c, factor * factor), factor, factor, h, w])
    y = y.transpose([*range(n), n, n + 3, n + 1, n + 4, n + 2])
    return y.reshape(call.type.shape)


@rule("aten.pixel_unshuffle")
def pixel_unshuffle(call: Call, x: Value, factor: int) -> Value:
    *batch, c, h, w = x.shape
    n = len(batch)
    y = x.reshape([*batch, c, expr.floordiv(h, factor), factor, expr.floordiv(w, factor), factor])
    y = y.transpose([*range(n), n, n + 2, n + 4, n + 1, n + 3])
    return y.reshape(call.type.shape)


# Padding


@rule("aten.constant_pad_nd")
def constant_pad(call: Call, x: Value, pad: Sequence[Dim], value: Number) -> Any:
    """`pad` holds (low, high) of the last dim, then of the one before, …"""
    if not isinstance(value, (bool, int, float)):
        return NotImplemented
    low: list[Dim] = [0] * x.rank
    high: list[Dim] = [0] * x.rank
    for i in range(0, len(pad), 2):
        low[x.rank - 1 - i // 2], high[x.rank - 1 - i // 2] = pad[i], pad[i + 1]
    return x.pad(low, high, value, call.type) if any(d != 0 for d in pad) else x


@rule("aten.pad")
def pad(call: Call, x: Value, sizes: Sequence[Dim], mode: str, value: Number | None) -> Any:
    match mode:
        case "constant":
            return constant_pad(call, x, sizes, value or 0)
        case "reflect":
            return reflection_pad(call, x, sizes)
        case "replicate":
            return replication_pad(call, x, sizes)
        case _:
            return NotImplemented


@rule("aten.reflection_pad1d", "aten.reflection_pad2d", "aten.reflection_pad3d")
def reflection_pad(call: Call, x: Value, pad: Sequence[Dim]) -> Any:
    """Mirrored at the borders, which are not repeated: the elements beside them, flipped."""

    def parts(x: Value, dim: int, low: Dim, high: Any) -> tuple[Value, Value]:
        size: Any = x.shape[dim]
        return x.slice(dim, 1, low).flip([dim]), x.slice(dim, expr.normal(size - 1 - high), high).flip([dim])

    return _pad_each(call, x, pad, parts)


@rule("aten.replication_pad1d", "aten.replication_pad2d", "aten.replication_pad3d")
def replication_pad(call: Call, x: Value, pad: Sequence[Dim]) -> Any:
    """The elements at the borders, repeated."""

    def parts(x: Value, dim: int, low: Dim, high: Dim) -> tuple[Value, Value]:
        size: Any = x.shape[dim]
        ends = (x.slice(dim, 0, 1), low), (x.slice(dim, expr.normal(size - 1), 1), high)
        first, last = (end.expand([*x.shape[:dim], n, *x.shape[dim + 1 :]]) for end, n in ends)
        return first, last

    return _pad_each(call, x, pad, parts)


@rule("aten.replication_pad1d_backward", "aten.replication_pad2d_backward", "aten.replication_pad3d_backward")
def replication_pad_backward(call: Call, grad: Value, x: Value, pad: Sequence[Dim]) -> Value:
    """grad's elements added where they were taken from: inside, or at the nearest border."""
    index = dims_of(grad.rank)
    tensors: list[Value] = []
    for dim, low, _ in _paddings(x, pad):
        place: Any = call.b.iota(dim, grad.type.with_(shape=grad.shape).with_(dtype="i64"))
        size: Any = x.shape[dim]
        offset: Any = low
        index[dim] = expr.symbol(f"i{len(tensors)}")
        tensors.append((place + expr.normal(-offset)).maximum(0).minimum(expr.normal(size - 1)))
    grad = grad.opmath()
    return call.b.full(0, x.type.with_(dtype=grad.dtype)).scatter(tensors, grad, index, "add")


@rule("aten.block_diag")
def block_diag(call: Call, tensors: Sequence[Value]) -> Value:
    """Matrices along the diagonal, zeros beside them; a row or a number is a matrix of one row."""
    t = call.type
    blocks = [x.to(t.dtype).reshape([*[1] * (2 - x.rank), *x.shape]) for x in tensors]
    before: Any = 0
    rows: list[Value] = []
    for x in blocks:
        width: Any = x.shape[1]
        rest: Any = t.shape[1]
        rows.append(x.pad([0, before], [0, expr.normal(rest - before - width)], 0))
        before = expr.normal(before + width)
    return call.b.cat([_fit_other_dims(x, t.shape, 0) for x in rows], 0, t) if len(rows) > 1 else rows[0]


@rule("aten.channel_shuffle")
def channel_shuffle(call: Call, x: Value, groups: Dim) -> Value:
    """Channels of groups in turn: [n, groups, c / groups, …] with these two dims exchanged."""
    n, channels, *rest = x.shape
    parts = expr.normal(expr.floordiv(channels, groups))
    perm = [0, 2, 1, *range(3, 3 + len(rest))]
    return x.reshape([n, groups, parts, *rest]).transpose(perm).reshape(x.shape)


Parts = Callable[[Value, int, Dim, Dim], tuple[Value, Value]]
"""`parts(x, dim, low, high)`: what stands before and after x, so many elements each."""


def _pad_each(call: Call, x: Value, pad: Sequence[Dim], parts: Parts) -> Any:
    """Dim by dim; negative paddings cut off what is left. NotImplemented where a sign is not known."""
    for dim, *sizes in _paddings(x, pad):
        negative = [call.b.is_negative(n) for n in sizes]
        if None in negative:
            return NotImplemented
        low, high = (0 if cut else n for n, cut in zip(sizes, negative, strict=True))
        before, after = parts(x, dim, low, high)
        x = _surround(call, x, dim, [before], [after])
        if any(negative):
            cuts: list[Any] = [-n if cut else 0 for n, cut in zip(sizes, negative, strict=True)]
            left: Any = x.shape[dim]
            x = x.slice(dim, cuts[0], expr.normal(left - cuts[0] - cuts[1]))
    return x


def _paddings(x: Value, pad: Sequence[Dim]) -> list[tuple[int, Dim, Dim]]:
    return [(x.rank - 1 - i // 2, pad[i], pad[i + 1]) for i in range(0, len(pad), 2)]


def _surround(call: Call, x: Value, dim: int, before: Sequence[Value], after: Sequence[Value]) -> Value:
    """Parts of x's own shape in all other dims before and after it; empty ones are left out."""
    parts = [p for p in (*before, x, *after) if p.shape[dim] != 0]
    if len(parts) == 1:
        return parts[0]
    total: Any = sum(cast(Any, p.shape[dim]) for p in parts)
    shape = [*x.shape[:dim], expr.normal(total), *x.shape[dim + 1 :]]
    return call.b.cat(parts, dim, x.type.with_(shape=shape))


# A tensor with a part replaced


@rule("aten.slice_scatter")
def slice_scatter(call: Call, x: Value, source: Value, dim: int, start: Dim | None, end: Dim | None, step: int) -> Any:
    """x with x[start:end:step] = source along dim."""
    if keeps_memory_around(call.op):
        return NotImplemented
    dim %= x.rank
    size, length = x.shape[dim], source.shape[dim]
    first = slice_start(call.b, start, end, step, size, length)
    if first is None:
        return NotImplemented
    source = source.to(x.dtype)
    if step != 1:
        index = dims_of(x.rank)
        index[dim] = index[dim] * step + first
        return x.scatter((), source, index)
    left = expr.normal(cast(Any, size) - first - cast(Any, length))
    if isinstance(left, int) and left < 0:
        return NotImplemented  # sizes that can only be 0, which torch has asserted in other words
    return replace_part(call, x, source, dim, first)


def replace_part(call: Call, x: Value, source: Value, dim: int, first: Dim) -> Value:
    """x with source in place of its elements from `first` on along dim."""
    source = source.expand([*x.shape[:dim], source.shape[dim], *x.shape[dim + 1 :]])
    end = expr.normal(cast(Any, first) + source.shape[dim])
    before = x.slice(dim, 0, first)
    after = x.slice(dim, end, expr.normal(cast(Any, x.shape[dim]) - end))
    parts = [p for p in (before, source, after) if p.shape[dim] != 0] or [x]
    return parts[0] if len(parts) == 1 else call.b.cat(parts, dim, x.type)


@rule("aten.select_scatter")
def select_scatter(call: Call, x: Value, source: Value, dim: int, index: Dim) -> Any:
    """x with x[index] = source along dim."""
    if keeps_memory_around(call.op):
        return NotImplemented
    dim %= x.rank
    first = wrapped(call.b, index, x.shape[dim])
    return NotImplemented if first is None else replace_part(call, x, source.to(x.dtype).unsqueeze(dim), dim, first)


@rule("aten.diagonal_scatter")
def diagonal_scatter(call: Call, x: Value, source: Value, offset: int, a: int, b: int) -> Any:
    if keeps_memory_around(call.op):
        return NotImplemented
    return x.scatter((), source.to(x.dtype), diagonal_index(x.rank, offset, a, b))


@rule("aten.diag_embed")
def diag_embed(call: Call, x: Value, offset: int, a: int, b: int) -> Value:
    """Zeros with the last dim of x as a diagonal in dims a, b."""
    return call.empty(0).scatter((), x, diagonal_index(call.type.rank, offset, a, b))


# Derivatives of views


@rule("aten.slice_backward")
def slice_backward(call: Call, grad: Value, sizes: Sequence[Dim], dim: int, start: Dim, end: Dim, step: int) -> Any:
    """grad in place of the slice of zeros."""
    dim %= len(sizes)
    first = slice_start(call.b, start, end, step, sizes[dim], grad.shape[dim])
    if first is None:
        return NotImplemented
    if step != 1:
        index = dims_of(len(sizes))
        index[dim] = index[dim] * step + first
        return call.empty(0).scatter((), grad, index)
    return _pad_to(grad, dim, first, sizes[dim])


@rule("aten.select_backward")
def select_backward(call: Call, grad: Value, sizes: Sequence[Dim], dim: int, index: Dim) -> Any:
    dim %= len(sizes)
    first = wrapped(call.b, index, sizes[dim])
    return NotImplemented if first is None else _pad_to(grad.unsqueeze(dim), dim, first, sizes[dim])


def _pad_to(x: Value, dim: int, first: Dim, size: Dim) -> Value:
    """x from `first` on along dim, zeros around it."""
    low: list[Dim] = [0] * x.rank
    high: list[Dim] = [0] * x.rank
    low[dim] = first
    high[dim] = expr.normal(cast(Any, size) - x.shape[dim] - first)
    return x.pad(low, high, 0)


@rule("aten.diagonal_backward")
def diagonal_backward(call: Call, grad: Value, sizes: Sequence[Dim], offset: int, a: int, b: int) -> Value:
    return call.empty(0).scatter((), grad, diagonal_index(len(sizes), offset, a, b))


@rule("aten.unfold_backward")
def unfold_backward(call: Call, grad: Value, sizes: Sequence[Dim], dim: int, size: int, step: int) -> Value:
    """The sum of the windows' elements, each at its place; other dims of size 1 are repeated (istft relies on it)."""
    if not sizes:
        return grad.reshape(())
    dim %= len(sizes)
    grad = grad.expand([n if d == dim else sizes[d] for d, n in enumerate(grad.shape[:-1])] + [grad.shape[-1]])
    *index, within = dims_of(grad.rank)
    index[dim] = index[dim] * step + within
    return call.empty(0).scatter((), grad, index, "add")
