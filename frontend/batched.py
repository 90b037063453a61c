"""A compiled backward in a vmap of torch's autograd (`is_grads_batched`, `jacobian(vectorize=True)`): gradients have a
dim that torch hides, and that no graph was compiled for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

_torch: Any = torch
_c: Any = torch._C
_LEVELS = 8
"""Of nested vmaps, far more than anybody has."""


def is_batched(x: Any) -> bool:
    """Whether it is a tensor with a hidden dim."""
    return isinstance(x, torch.Tensor) and _c._functorch.is_legacy_batchedtensor(x)


def for_each(call: Callable[[list[Any]], Sequence[Any]], inputs: Sequence[Any]) -> list[Any] | None:
    """`call` for each index of the dim that is hidden in some inputs, whose results have it again; None where it is
    empty.
    """
    level = max(_level(x) for x in inputs if is_batched(x))
    if level == 0:
        return None
    rows = {i: _torch._remove_batch_dim(x, level, 1, 0) for i, x in enumerate(inputs) if is_batched(x)}
    results = [
        call([rows[i][k] if i in rows else x for i, x in enumerate(inputs)])
        for k in range(min(len(r) for r in rows.values()))
    ]
    return [_hidden(values, level) for values in zip(*results, strict=True)] if results else None


def _level(x: torch.Tensor) -> int:
    """The innermost vmap that hides a dim of `x`, counted from 1; 0 where that dim is empty. The thread does not say
    how many there are: derivatives on a GPU are computed in one of its own.
    """
    for level in range(_LEVELS, 0, -1):
        if _torch._remove_batch_dim(x, level, 0, 0).shape[0]:  # without such a dim it would be repeated 0 times
            return level
    return 0


def _hidden(values: Sequence[Any], level: int) -> Any:
    if not isinstance(values[0], torch.Tensor):
        return values[0]
    return _torch._add_batch_dim(torch.stack(list(values)), 0, level)
