"""What torch's fake kernels do not check of sizes: of parts that are written, of indices, of parameters of norms, and
the dims and steps that are asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols, guard_or_true

_aten: Any = torch.ops.aten
Check = Callable[[dict[str, Any]], None]
"""It is told the arguments by their names, and may take some of them out."""


def _is_equal(a: Any, b: Any) -> bool:
    return guard_or_true(a == b)


def _part_by(view: Any) -> Check:
    """Checks that the part of x which is written, a view of it, has the sizes of what is written there."""

    def check(given: dict[str, Any]) -> None:
        x, source = given.pop("self"), given.pop("src")
        if free_unbacked_symbols((x.shape, source.shape, *given.values())):
            return
        try:
            part = view(x, **given).shape
        except IndexError as error:
            raise RuntimeError(str(error)) from error
        if len(part) != source.dim() or not all(map(_is_equal, part, source.shape)):
            raise RuntimeError(
                f"expected src to have the sizes of the part of self that it is written to, {list(part)}"
            )

    return check


def _check_copied(given: dict[str, Any]) -> None:
    x, source, index = given["self"], given["source"], given["index"]
    if x.dtype != source.dtype or index.dtype != torch.int64:
        raise RuntimeError("index_copy_(): expected self and source of one dtype, and an index of int64")
    ours, theirs = list(x.shape), list(source.shape)
    if ours and theirs and len(ours) != len(theirs):
        raise RuntimeError("index_copy_(): expected self and source of as many dims")
    places = theirs.pop(given["dim"]) if theirs else 1
    if ours:
        del ours[given["dim"]]
    if len(ours) != len(theirs) or not all(map(_is_equal, (*ours, places), (*theirs, index.numel()))):
        raise RuntimeError("index_copy_(): expected source to have the sizes of self, but as many as index along dim")


def _check_index_vector(given: dict[str, Any]) -> None:
    if given["index"].dim() > 1:
        raise RuntimeError("Index is supposed to be a vector")


def _check_added(given: dict[str, Any]) -> None:
    _check_index_vector(given)
    x, source, index = given["self"], given["source"], given["index"]
    if x.dtype != source.dtype or index.dtype not in (torch.int32, torch.int64):
        raise RuntimeError("expected self and source of one dtype, and an index of int32 or int64")
    if given.get("reduce", "prod") not in ("prod", "mean", "amax", "amin"):
        raise RuntimeError("expected reduce to be prod, mean, amax or amin")
    ours, theirs = list(x.shape), list(source.shape)
    if ours and theirs:
        del ours[given["dim"]], theirs[given["dim"]]
    if len(ours) != len(theirs) or not all(map(_is_equal, ours, theirs)):
        raise RuntimeError("expected self and source of the same sizes, but along dim")


def _check_dim(given: dict[str, Any]) -> None:
    rank, dim = max(given["self"].dim(), 1), given.get("dim", -1)
    if not -rank <= dim < rank:
        raise RuntimeError(f"Dimension out of range, but got {dim}")


def _check_padding(given: dict[str, Any]) -> None:
    """Sides are not cut by more than there is: what is padded at the other one does not count."""
    sides = iter(given["pad"])
    for size, low, high in zip(reversed(given["self"].shape), sides, sides, strict=False):
        if not guard_or_true(size + _cut(low) + _cut(high) >= 0):
            raise RuntimeError("narrow(): length must be non-negative.")


def _cut(side: int) -> int:
    return 0 if guard_or_true(side >= 0) else side


def _check_steps(given: dict[str, Any]) -> None:
    for name in ("stride", "dilation"):
        if not all(guard_or_true(step > 0) for step in given[name]):
            raise RuntimeError(f"{name} should be greater than zero, but got {given[name]}")


def _check_convolution(given: dict[str, Any]) -> None:
    _check_steps(given)
    if given["transposed"]:
        for extra, stride, dilation in zip(given["output_padding"], given["stride"], given["dilation"], strict=False):
            if not (guard_or_true(extra < stride) or guard_or_true(extra < dilation)):
                raise RuntimeError(f"output padding must be smaller than stride or dilation, but got {extra}")


def _check_boundaries(given: dict[str, Any]) -> None:
    if given["boundaries"].dim() != 1:
        raise RuntimeError("boundaries tensor must be 1 dimension")


_PARAMETERS = ("weight", "bias", "running_mean", "running_var")


def _check_channels(given: dict[str, Any]) -> None:
    """Parameters of a norm have an element for each channel."""
    x = given["input"]
    if x.dim() < 2:
        raise RuntimeError("expected input to have channels")
    channels = x.shape[1]
    for t in (given.get(name) for name in _PARAMETERS):
        if t is not None and (t.dim() != 1 or not _is_equal(t.numel(), channels)):
            raise RuntimeError(f"expected parameters to be vectors of {channels} elements, got {list(t.shape)}")


def _check_middle(given: dict[str, Any]) -> None:
    x, dim = given["self"], given.get("dim", -1)
    if x.dim() and -x.dim() <= dim < x.dim() and not guard_or_true(x.shape[dim] != 0):
        raise RuntimeError(f"median(): Expected reduction dim {dim} to have non-zero size.")


def _check_heads(given: dict[str, Any]) -> None:
    for name in ("query", "key", "value"):
        if given[name].dim() != 4:
            raise RuntimeError(f"expected {name} to have 4 dims, got {given[name].dim()}")


CHANNEL_NORMS = (
    _aten.native_group_norm.default,
    _aten.native_batch_norm.default,
    _aten._native_batch_norm_legit.default,
    _aten._native_batch_norm_legit.no_stats,
    _aten._native_batch_norm_legit_no_training.default,
    _aten._batch_norm_with_update.default,
    _aten._batch_norm_no_update.default,
)
"""Norms whose weight and bias have a number for each channel."""

SIZE_CHECKS: dict[Any, Check] = {
    **dict.fromkeys(
        (
            _aten._softmax.default,
            _aten._log_softmax.default,
            _aten.sort.default,
            _aten.sort.stable,
            _aten.select.int,
        ),
        _check_dim,
    ),
    _aten.constant_pad_nd.default: _check_padding,
    _aten.convolution.default: _check_convolution,
    _aten.slice_scatter.default: _part_by(_aten.slice.Tensor),
    _aten.select_scatter.default: _part_by(_aten.select.int),
    _aten.diagonal_scatter.default: _part_by(_aten.diagonal.default),
    _aten.as_strided_scatter.default: _part_by(_aten.as_strided.default),
    _aten.index_copy.default: _check_copied,
    _aten.index_add.default: _check_added,
    _aten.index_reduce.default: _check_added,
    _aten._scaled_dot_product_flash_attention_for_cpu.default: _check_heads,
    _aten.median.dim: _check_middle,
    _aten.nanmedian.dim: _check_middle,
    _aten.index_select.default: _check_index_vector,
    _aten.bucketize.Tensor: _check_boundaries,
    **dict.fromkeys(CHANNEL_NORMS, _check_channels),
}
