"""Margin losses of classes in terms of others, where what torch says differs from ATen's kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch
from torch import Tensor

_aten: Any = torch.ops.aten


def _multilabel_margin_loss(input: Tensor, target: Tensor, reduction: int) -> tuple[Tensor, Tensor]:
    """The classes of a row are those before its first -1; torch takes what is after it for class 0."""
    x, classes = torch.atleast_2d(input), torch.atleast_2d(target)
    if input.dim() > 2 or not x.shape[1] or target.shape != input.shape:
        raise RuntimeError(f"multilabel_margin_loss: inconsistent sizes {list(input.shape)} and {list(target.shape)}")
    if target.dtype != torch.int64:
        raise RuntimeError("multilabel_margin_loss: expected target of int64")
    named = (classes == -1).cumsum(-1) == 0
    all_classes = torch.arange(x.shape[1], device=x.device)
    is_target = ((classes[..., None] == all_classes) & named[..., None]).any(1)
    margins = 1 - x.gather(-1, torch.where(named, classes, 0))[..., None] + x[:, None]
    counted = named[..., None] & ~is_target[:, None]
    rows = torch.where(counted, margins.relu() / x.shape[1], 0).sum((1, 2)).reshape(input.shape[:-1])
    result = (rows, rows.mean(), rows.sum())[reduction]
    return result, is_target.to(input.dtype).reshape(input.shape)


def _multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: float = 1,
    margin: float = 1,
    weight: Tensor | None = None,
    reduction: int = 1,
) -> Tensor:
    """As ATen's `multi_margin_loss_out_cpu_template`: what is not above 0, NaN too, is no loss, and a class without a
    dim has a loss without one.
    """
    x, classes = torch.atleast_2d(input), torch.atleast_1d(target)
    if p not in (1, 2):
        raise RuntimeError("multi_margin_loss: only p == 1 and p == 2 supported")
    if x.dim() != 2 or not x.shape[1] or classes.shape != x.shape[:1]:
        raise RuntimeError(f"multi_margin_loss: inconsistent sizes {list(input.shape)} and {list(target.shape)}")
    weights = None if weight is None else torch.atleast_1d(weight)
    if weights is not None and weights.shape != x.shape[1:]:
        raise RuntimeError(f"multi_margin_loss: expected {x.shape[1]} weights, not {list(weights.shape)}")
    if target.dtype != torch.int64 or not input.is_floating_point() or (weight is not None and weight.dtype != x.dtype):
        raise RuntimeError("multi_margin_loss: expected an input of floats, weights like it, a target of int64")
    column = classes[:, None]
    losses = margin - x.gather(1, column) + x
    counted = (losses > 0) & (torch.arange(x.shape[1], device=x.device) != column)
    losses = losses if p == 1 else losses * losses
    losses = torch.where(counted, losses if weights is None else losses * weights[column], 0)
    rows = losses.mean(1) if target.dim() else losses.mean()
    return (rows, rows.mean(), rows.sum())[reduction]


MARGIN_LOSSES: Final[dict[Any, Callable[..., Any]]] = {
    _aten.multilabel_margin_loss_forward.default: _multilabel_margin_loss,
    _aten.multi_margin_loss.default: _multi_margin_loss,
}
"""By operator, in the place of torch's decompositions."""
