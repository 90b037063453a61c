"""Operators between negations: what is fused with them, before and after."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree


def negated(value: Any) -> Any:
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided or value.is_quantized:
        return value
    return ~value if value.dtype is torch.bool else -value


def is_negatable(dtype: torch.dtype) -> bool:
    try:
        negated(torch.zeros(1, dtype=dtype))
    except NotImplementedError:
        return False
    return True


def between_negations(op: Callable[..., Any]) -> Callable[..., Any]:
    """The operator with something to fuse before and after it: its operands and results are negated."""

    def f(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = pytree.tree_map(negated, (args, kwargs))
        return pytree.tree_map(negated, op(*args, **kwargs))

    return f
