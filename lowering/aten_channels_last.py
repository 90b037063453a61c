"""aten to aten: what lies between convolutions is kept channels last.

A convolution of contiguous tensors reorders its input and its result into the layout that it computes in, and back;
of channels-last tensors it does not. Images that only convolutions and operators of any layout (`FREE`) touch form a
region: its tensors get channels-last types, if the copies where it meets the rest are smaller than the reorders that
are saved. Weights are made channels last by a copy of our own where they are not, which is counted on a CPU unless
they are frozen.

In and out: functions of `aten` ops. Types of arguments and results of functions do not change.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field
from typing import Any, Final, cast

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass

from ..dialects import expr
from ..dialects.aten import AtenOp, lookup
from ..dialects.flow import bodies
from ..dialects.tensor import HALVES, TensorType
from .aten_frozen import frozen_values
from .aten_to_prims import remake, size_hints
from .beside import RELAID
from .decisions import decide
from .fuse_cost import Hints
from .origins import origins

_POINTWISE = """relu relu6 sigmoid silu gelu tanh elu leaky_relu hardtanh hardswish hardsigmoid clamp clamp_min
    clamp_max mish softplus neg abs exp sqrt rsqrt add.Tensor add.Scalar sub.Tensor sub.Scalar mul.Tensor mul.Scalar
    div.Tensor div.Scalar maximum minimum where.self where.ScalarOther pow.Tensor_Scalar _to_copy"""
_OF_IMAGES = """_native_batch_norm_legit_no_training _batch_norm_no_update max_pool2d_with_indices avg_pool2d
    _adaptive_avg_pool2d constant_pad_nd cat upsample_nearest2d upsample_nearest2d.vec upsample_bilinear2d
    upsample_bilinear2d.vec"""
FREE: Final = frozenset(f"aten.{name}" for name in f"{_POINTWISE} {_OF_IMAGES}".split())
"""Operators that are as good with channels-last images, and whose results are channels last then."""

READERS: Final = frozenset({"aten.mean.dim", "aten.sum.dim_IntList", "aten.amax", "aten.amin"})
"""Operators that read images of any layout, and whose results have none."""

TENSOR_CORE_DTYPES: Final = frozenset({"f16", "bf16", "f32"})
"""On a GPU, tensor cores compute with images of these, channels last; of f32 as tf32, which torch allows by default."""

RESULT, WEIGHT = 6, 3
"""How much longer than a copy of ours it takes, byte by byte, on a CPU: oneDNN to put a result of halves in order, ours
to make a weight channels last and oneDNN to put that in order (one thread: halves 600, 240 and 80 us for a MB; f32
120 to 160 for images, 190 for the copy of a weight and 80 to 200 more than of one that is not copied for oneDNN's).
"""


@dataclass(frozen=True)
class AtenChannelsLast(ModulePass):
    """Keep the images between convolutions channels last."""

    name = "aten-channels-last"
    statistics: dict[str, int] = field(default_factory=dict, init=False, compare=False)

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        hints = Hints(size_hints(op))
        told: list[str] = []
        self.statistics["convolutions"] = sum(_relayout(body, hints, told) for body in bodies(op))
        if told:
            decide(op, told)


def _relayout(body: Region, hints: Hints, told: list[str]) -> int:
    """Change the regions of a body that are worth it; how many convolutions they hold. `told` gets what is decided."""
    function = body.parent_op()
    frozen = frozen_values(function) if isinstance(function, FuncOp) else {}
    regions: list[_Region] = []
    for region in (r for r in _regions(body.block) if r.convolutions):
        saved, copied = region.saved(hints), region.copied(hints, frozen)
        if saved > copied:
            regions.append(region)
        told.append(region.line(saved, copied))
    if not regions:
        return 0
    _Rewrite({v for r in regions for v in r.images}).run(body)
    return sum(len(r.convolutions) for r in regions)


# ----------------------------------------------------------------------------------------------------------- regions


@dataclass
class _Region:
    """Images that have one layout in common."""

    images: set[SSAValue] = field(default_factory=set[SSAValue])
    convolutions: list[AtenOp] = field(default_factory=list[AtenOp])
    others: set[SSAValue] = field(default_factory=set[SSAValue])
    """Images from elsewhere that its operators read."""

    def saved(self, hints: Hints) -> int:
        """The bytes of what convolutions need not reorder."""
        read = sum(hints.bytes(op.operands[0]) for op in self.convolutions)
        return read + sum(hints.bytes(op.results[0]) * (RESULT if _is_slow(op) else 1) for op in self.convolutions)

    def line(self, saved: int, copied: int) -> str:
        """What `explain` says of it."""
        n = len(self.convolutions)
        found = (o.place or o.module for c in self.convolutions for o in origins(c.location))
        place = next(filter(None, found), "")
        where = f" at {place}" if n == 1 and place else f" from {place} on" if place else ""
        what = f"{n} convolution{'s' * (n > 1)}{where}"
        chosen = "channels last" if saved > copied else "not channels last"
        return f"{what}: {chosen}, {saved} bytes less to reorder for {copied} bytes of copies"

    def copied(self, hints: Hints, frozen: Container[SSAValue]) -> int:
        """The bytes of what is copied at each call where it meets the rest, and of weights on a CPU. On a GPU, a kernel
        writes either layout as fast.
        """
        leaving = (v for v in self.images if any(not _takes_any(use.operation, v) for use in v.uses))
        copied = (v for v in leaving if not _is_on_gpu(v) or is_convolution(cast(Operation, v.owner)))
        weights = {w for op in self.convolutions if _is_copied(w := op.operands[1]) and not _is_on_gpu(w)}
        told = (w for w in weights if w not in frozen)
        return sum(map(hints.bytes, (*copied, *self.others))) + WEIGHT * sum(map(hints.bytes, told))


def _is_slow(op: AtenOp) -> bool:
    """Whether a convolution is of halves on a CPU, and oneDNN's: depthwise ones are kernels of ours as images lie."""
    t, weight = (cast(TensorType, v.type) for v in (op.results[0], op.operands[1]))
    return t.device == "cpu" and t.dtype in HALVES and weight.shape[1] != 1


def _is_copied(weight: SSAValue) -> bool:
    """Whether a weight lies otherwise where it is channels last."""
    t = cast(TensorType, weight.type)
    return t.shape[1] != 1 and t.shape[2:] != (1, 1) and t != channels_last(t)


def _is_on_gpu(v: SSAValue) -> bool:
    return isinstance(v.type, TensorType) and v.type.device.startswith("cuda")


def _regions(block: Block) -> list[_Region]:
    region_of: dict[SSAValue, _Region] = {}
    for op in block.ops:
        if not _is_free(op):
            continue
        region = _Region(images={r for r in op.results if _is_contiguous_image(r)})
        for v in {v for v in op.operands[: 1 if is_convolution(op) else None] if _is_contiguous_image(v)}:
            if v in region_of:
                region = _joined(region, region_of[v], region_of)
            else:
                region.others.add(v)
        if is_convolution(op):
            region.convolutions.append(cast(AtenOp, op))
        region_of.update(dict.fromkeys(region.images, region))
    return list({id(r): r for r in region_of.values()}.values())


def _joined(a: _Region, b: _Region, region_of: dict[SSAValue, _Region]) -> _Region:
    if a is b:
        return a
    small, large = sorted((a, b), key=lambda r: len(r.images))
    large.images |= small.images
    large.convolutions += small.convolutions
    large.others |= small.others
    region_of.update((v, large) for v in small.images if v in region_of)
    return large


def is_convolution(op: Operation) -> bool:
    """Whether it is one of images, and not a transposed one."""
    if not isinstance(op, AtenOp) or op.name != "aten.convolution":
        return False
    return _is_image(op.operands[0]) and _is_image(op.operands[1]) and op.arg("transposed") is False


def _is_free(op: Operation) -> bool:
    """Whether the layout of its images may be chosen."""
    return (op.name in FREE or is_convolution(op)) and _is_contiguous_image(op.results[0])


def _takes_any(op: Operation, v: SSAValue) -> bool:
    """Whether the operator takes the image in any layout."""
    if is_convolution(op):
        return v not in op.operands[1:] and _is_free(op)
    return _is_free(op) or op.name in READERS or (op.name in FREE and _is_image(op.results[0], of_one_pixel=True))


def _is_image(v: SSAValue, of_one_pixel: bool | None = None) -> bool:
    t = v.type
    if not isinstance(t, TensorType) or t.rank != 4 or (t.device != "cpu" and t.dtype not in TENSOR_CORE_DTYPES):
        return False
    return of_one_pixel is None or (t.shape[2:] == (1, 1)) == of_one_pixel


def _is_contiguous_image(v: SSAValue) -> bool:
    """Whether it is one that may get another layout; that of a single pixel tells nothing."""
    return _is_image(v, of_one_pixel=False) and cast(TensorType, v.type).is_contiguous


# ----------------------------------------------------------------------------------------------------------- rewrite


def channels_last(t: TensorType) -> TensorType:
    """The type with the strides of torch.channels_last."""
    _, c, h, w = cast("tuple[Any, ...]", t.shape)
    return t.with_(strides=[expr.normal(d) for d in (c * h * w, 1, w * c, c)])


class _Rewrite:
    """A function whose `images` become channels last."""

    def __init__(self, images: set[SSAValue]) -> None:
        self.images = images
        self.ops: list[Operation] = []
        self.copies: dict[tuple[SSAValue, TensorType], SSAValue] = {}

    def run(self, body: Region) -> None:
        old = body.block
        new = Block(arg_types=[a.type for a in old.args])
        values: dict[SSAValue, SSAValue] = {}
        for before, after in zip(old.args, new.args, strict=True):
            after.name_hint, after.location = before.name_hint, before.location
            values[before] = after
        for op in old.ops:
            given = {v: values[v] if _takes_any(op, v) else self._copy(values[v], v.type, op) for v in op.operands}
            if is_convolution(op) and op.results[0] in self.images:
                x, weight = op.operands[:2]
                given[x] = self._copy(given[x], channels_last(cast(TensorType, x.type)), op)
                if _is_copied(weight):
                    given[weight] = self._copy(given[weight], channels_last(cast(TensorType, weight.type)), op)
            made = remake(op, given)
            self.ops.append(made)
            for before, after in zip(op.results, made.results, strict=True):
                values[before] = after
                if before in self.images:
                    if is_convolution(op) and _is_slow(cast(AtenOp, op)):
                        made.attributes = {**made.attributes, RELAID: UnitAttr()}
                    after._type = channels_last(cast(TensorType, before.type))  # pyright: ignore[reportPrivateUsage]
        new.add_ops(self.ops)
        body.detach_block(old)
        body.add_block(new)

    def _copy(self, value: SSAValue, wanted: Attribute, op: Operation) -> SSAValue:
        """The value in that type."""
        if value.type == wanted:
            return value
        t = cast(TensorType, wanted)
        known = self.copies.get((value, t))
        if known is None:
            clone = lookup("aten.clone")
            assert clone is not None
            layout = "contiguous_format" if t.is_contiguous else "channels_last"
            made = clone.call([value, layout], [t], op.location)
            self.ops.append(made)
            known = self.copies[value, t] = made.results[0]
        return known
