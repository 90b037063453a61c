"""How images lie that kernels make: their channels may be the fastest, those of one without a batch only where a kernel
makes a batch of it first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch._prims_common import (
    is_channels_last_contiguous_or_false_2d,
    is_channels_last_contiguous_or_false_3d,
    is_contiguous_or_false,
    suggest_memory_format,
)

from .fake_strides import Strides, dense, in_order

Given = Mapping[str, Any]

_ORDERS = {torch.channels_last: (1, 3, 2, 0), torch.channels_last_3d: (1, 4, 3, 2, 0)}


def in_format(result: Any, given: Given) -> Strides:
    """In the format that the input suggests, as kernels of CPUs have it."""
    x = given.get("input", given.get("self"))
    return _formatted(result, x, suggest_memory_format(x)) if result.device.type == "cpu" else result.stride()


def _formatted(result: Any, x: Any, order: torch.memory_format) -> Strides:
    if x.dim() != result.dim() or order not in _ORDERS:
        return in_order(result.shape)
    return dense(result.shape, _ORDERS[order], least=1)


def normalized(result: Any, given: Given) -> Strides:
    """As ATen's `batch_norm_cpu`: where all arguments are contiguous in some format, in the first one that the input is
    contiguous in, which need not be the one that it suggests.
    """
    x = given["input"]
    others = (given.get(name) for name in ("weight", "bias", "running_mean", "running_var"))
    if result.device.type != "cpu" or not all(t is None or is_contiguous_or_false(t) for t in others):
        return in_format(result, given)
    if is_contiguous_or_false(x):
        return in_order(result.shape)
    if is_channels_last_contiguous_or_false_3d(x):
        return _formatted(result, x, torch.channels_last_3d)
    if is_channels_last_contiguous_or_false_2d(x):
        return _formatted(result, x, torch.channels_last)
    return in_format(result, given)


def pooled(result: Any, given: Given) -> Strides:
    """As ATen's `max_pool3d_with_indices_out_cpu_template`, and as on GPUs: an image without a batch is one of a batch
    if that is contiguous with its channels as the fastest, and not without.
    """
    x = given["self"]
    if x.dim() == 5:
        return in_format(result, given)
    batch = x.unsqueeze(0)
    if is_contiguous_or_false(batch) or not is_channels_last_contiguous_or_false_3d(batch):
        return in_order(result.shape)
    return dense((1, *result.shape), _ORDERS[torch.channels_last_3d], least=1)[1:]
