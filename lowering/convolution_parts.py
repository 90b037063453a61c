"""A convolution as several, each of a part of the channels of its result, put together again:

    %y = aten.convolution(%x, %w, %b, …)
      ->  %p = aten.convolution(%x, aten.slice(%w, 0, 0, n), aten.slice(%b, 0, 0, n), …); …
          %y = aten.cat([%p, …], 1)

Of a weight that is copied for a call (into f32, and by oneDNN into an order of its own), a part at a time is.

Gradients of a weight that is larger than its images are those of contiguous ones, which oneDNN copies once less:

    %dx, %dw = aten.convolution_backward(%g, %x, %w, …) : images and weights channels last
      ->  %d, %dw' = aten.convolution_backward(aten.clone(%g), aten.clone(%x), aten.clone(%w), …)
          %dx = aten.clone(%d, channels_last); %dw = aten.clone(%dw', channels_last)
"""

from __future__ import annotations

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
        return [_contiguous(c) if _has_large_weight(c) else c.op]
    b, channels = AtenBuilder(c.op), cast(int, c.result.shape[1]) // n
    values = dict(zip((a.name for a in c.op.schema.args), c.op.args(), strict=True))
    made: list[SSAValue] = []
    for i in range(n):
        given = ((k, values[k]) for k in ("weight", "bias"))
        cut = {k: _slice(b, v, i * channels, channels) for k, v in given if isinstance(v, SSAValue)}
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


def _slice(b: AtenBuilder, v: SSAValue, first: int, n: int) -> SSAValue:
    t = type_of(v)
    return b.call("aten.slice.Tensor", t.with_(shape=(n, *t.shape[1:]), strides=t.strides), v, 0, first, first + n)


def _has_large_weight(c: Convolution) -> bool:
    """Whether a backward of images channels last has more to copy of the weight than of images."""
    numbers = [t.numel for t in (c.x, c.result, c.weight)]
    if c.op.name == "aten.convolution" or c.x.rank != 4 or c.x.is_contiguous or c.op.arg("transposed"):
        return False
    x, g, weight = (n if isinstance(n, int) else 0 for n in numbers)
    return 0 < LARGER * (x + g) <= weight


def _contiguous(c: Convolution) -> Operation:
    """The call for contiguous tensors in the place of one, whose results have copies as they were."""
    b = AtenBuilder(c.op)
    values = dict(zip((a.name for a in c.op.schema.args), c.op.args(), strict=True))
    plain = {k: b.plain(cast(SSAValue, values[k]), c.x.dtype) for k in ("grad_output", "input", "weight")}
    types = [t.with_(shape=t.shape) if isinstance(t := r.type, TensorType) else t for r in c.op.results]
    made = b.calls(c.op.name, cast("list[TensorType]", types), *(values | plain).values())
    for old, new in zip(c.op.results, made, strict=True):
        same = old.type == new.type
        old.replace_all_uses_with(new if same else b.call("aten.clone", type_of(old), new, "channels_last"))
        new.name_hint = old.name_hint
    c.op.detach()
    c.op.erase()
    return cast(Operation, made[0].owner)
