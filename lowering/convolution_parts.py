"""A convolution as several, each of a part of the channels of its result, put together again:

    %y = aten.convolution(%x, %w, %b, …)
      ->  %p = aten.convolution(%x, aten.slice(%w, 0, 0, n), aten.slice(%b, 0, 0, n), …); …
          %y = aten.cat([%p, …], 1)

Of a weight that is copied for a call (into f32, and by oneDNN into an order of its own), a part at a time is.

Gradients of a weight that is larger than its images are those of contiguous ones, which oneDNN copies once less, of a
part of the channels that it takes at a time:

    %dx, %dw = aten.convolution_backward(%g, %x, %w, …) : images and weights channels last
      ->  %d, %e = aten.convolution_backward(aten.clone(%g), aten.clone(aten.slice(%x, 1, 0, n)), …(%w), …); …
          %dx = aten.clone(aten.cat([%d, …], 1), channels_last); %dw = aten.clone(aten.cat([%e, …], 1), channels_last)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.ir import Operation, SSAValue

from ..dialects.aten import AtenOp
from ..dialects.tensor import TensorType
from .aten_builder import AtenBuilder, type_of
from .aten_channels_last import channels_last
from .convolution_cost import Convolution

LEAST = 32
"""Channels of a part at least."""

PARTS = (1, 2, 4, 8)
"""How many there may be."""

LARGER = 2
"""How many times the bytes of images those of a weight are that count more than these: 0.4 to 0.9 of the time then."""


BACKWARD_PARTS = (1, 2, 4)
"""How many there may be of a backward, and how many channels each has at least: 512 channels in and out, 3 x 3, at
7 x 7 take 0.87 of the time in 4 parts, in a stride of 2 0.79, with 10.5 MiB in the place of 27.6.
"""
BACKWARD_LEAST = 128


def parts_of(c: Convolution) -> tuple[int, ...]:
    """Into how many parts a convolution may be cut."""
    t = c.result
    one = c.op.name != "aten.convolution" or c.op.arg("transposed") or c.op.arg("groups") != 1
    if one or t != _part(t, t.shape[1]) or not isinstance(t.shape[1], int):
        return PARTS[:1]
    channels = t.shape[1]
    return tuple(n for n in PARTS if n == 1 or (channels % n == 0 and channels // n >= LEAST))


def in_parts(c: Convolution, n: int) -> list[Operation]:
    """The convolutions in the place of one; itself for a single part."""
    if n == 1:
        return _contiguous(c) if _has_large_weight(c) else [c.op]
    b, channels = AtenBuilder(c.op), cast(int, c.result.shape[1]) // n
    values = dict(zip((a.name for a in c.op.schema.args), c.op.args(), strict=True))
    made: list[SSAValue] = []
    for i in range(n):
        given = ((k, values[k]) for k in ("weight", "bias"))
        cut = {k: _slice(b, v, 0, i * channels, channels) for k, v in given if isinstance(v, SSAValue)}
        made.append(b.call(c.op.name, _part(c.result, channels), *(values | cut).values()))
    whole = b.call("aten.cat", c.result, made, 1)
    whole.name_hint = c.op.results[0].name_hint
    c.op.results[0].replace_all_uses_with(whole)
    c.op.detach()
    c.op.erase()
    return [cast(AtenOp, v.owner) for v in made]


def _part(t: TensorType, channels: object) -> TensorType:
    """The type of as many channels of an image, which are laid out as all are."""
    part = t.with_(shape=(t.shape[0], cast(int, channels), *t.shape[2:]), strides=None)
    return part if t.is_contiguous or t.rank != 4 else channels_last(part)


def _slice(b: AtenBuilder, v: SSAValue, dim: int, first: int, n: int) -> SSAValue:
    t = type_of(v)
    shape = (*t.shape[:dim], n, *t.shape[dim + 1 :])
    return b.call("aten.slice.Tensor", t.with_(shape=shape, strides=t.strides), v, dim, first, first + n)


def _has_large_weight(c: Convolution) -> bool:
    """Whether a backward of images channels last has more to copy of the weight than of images."""
    numbers = [t.numel for t in (c.x, c.result, c.weight)]
    if c.op.name == "aten.convolution" or c.x.rank != 4 or c.x.is_contiguous or c.op.arg("transposed"):
        return False
    x, g, weight = (n if isinstance(n, int) else 0 for n in numbers)
    return 0 < LARGER * (x + g) <= weight


def _contiguous(c: Convolution) -> list[Operation]:
    """The calls for contiguous tensors in the place of one, whose results have copies as they were."""
    b, n = AtenBuilder(c.op), _backward_parts(c)
    values = dict(zip((a.name for a in c.op.schema.args), c.op.args(), strict=True))
    size = cast(int, c.x.shape[1]) // n
    gradient = b.plain(cast(SSAValue, values["grad_output"]), c.x.dtype)
    made: list[Sequence[SSAValue]] = []
    for i in range(n):
        given = {k: cast(SSAValue, values[k]) for k in ("input", "weight")}
        cut = {k: _slice(b, v, 1, i * size, size) for k, v in given.items()} if n > 1 else given
        plain = {"grad_output": gradient} | {k: b.plain(v, c.x.dtype) for k, v in cut.items()}
        types = [_of_channels(r.type, size) if isinstance(r.type, TensorType) else r.type for r in c.op.results]
        made.append(b.calls(c.op.name, cast("list[TensorType]", types), *(values | plain).values()))
    for old, parts in zip(c.op.results, zip(*made, strict=True), strict=True):
        t, new = old.type, parts[0]
        if n > 1 and isinstance(t, TensorType):
            new = b.call("aten.cat", t.with_(shape=t.shape), parts, 1)
        old.replace_all_uses_with(new if new.type == t else b.call("aten.clone", type_of(old), new, "channels_last"))
        new.name_hint = old.name_hint
    c.op.detach()
    c.op.erase()
    return [cast(Operation, results[0].owner) for results in made]


def _backward_parts(c: Convolution) -> int:
    """Into how many parts a backward is cut; none has a gradient of the bias, which would be of all of them."""
    channels = c.x.shape[1]
    if not isinstance(channels, int) or c.op.arg("groups") != 1 or isinstance(c.op.results[2].type, TensorType):
        return 1
    return max(n for n in BACKWARD_PARTS if channels % n == 0 and (n == 1 or channels // n >= BACKWARD_LEAST))


def _of_channels(t: TensorType, n: int) -> TensorType:
    """The contiguous type with n in its second dim: channels of an image, or those that a weight takes."""
    return t.with_(shape=t.shape if t.rank == 1 else (t.shape[0], n, *t.shape[2:]))
