"""Operators that torch says wrongly in terms of others while AOTAutograd traces."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch._C import DispatchKey

_aten: Any = torch.ops.aten
_AUTOGRAD: Any = DispatchKey.Autograd  # pyright: ignore[reportAttributeAccessIssue]


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


DECOMPOSITIONS: dict[Any, Callable[..., Any]] = {
    _aten.multilabel_margin_loss_forward.default: _multilabel_margin_loss,
}


@contextmanager
def right_decompositions() -> Generator[None]:
    """A context in which these are traced in the place of torch's."""
    before = {op: op.py_kernels[_AUTOGRAD] for op in DECOMPOSITIONS if _AUTOGRAD in op.py_kernels}
    _put({op: DECOMPOSITIONS[op] for op in before})
    try:
        yield
    finally:
        _put(before)


def _put(kernels: dict[Any, Callable[..., Any]]) -> None:
    for op, kernel in kernels.items():
        op.py_kernels[_AUTOGRAD] = kernel
        op._dispatch_cache.clear()  # of what was found in py_kernels
