"""Reductions and scans of loops over whole axes of a tensor."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import torch
from torch import Tensor


def _lowest(dtype: torch.dtype) -> float | int | bool:
    return -torch.inf if dtype.is_floating_point else False if dtype is torch.bool else torch.iinfo(dtype).min


def _highest(dtype: torch.dtype) -> float | int | bool:
    return torch.inf if dtype.is_floating_point else True if dtype is torch.bool else torch.iinfo(dtype).max


IDENTITY: dict[str, Callable[[torch.dtype], float | int | bool]] = {
    "add": lambda _: 0,
    "mul": lambda _: 1,
    "max": _lowest,
    "min": _highest,
    "and": lambda _: True,
    "or": lambda _: False,
    "xor": lambda _: 0,
    "argmax": _lowest,
    "argmin": _highest,
    "logaddexp": _lowest,
    "expsum": _lowest,
}
"""What a kind gives of nothing, and what takes the place of points that do not exist."""


def combine(kind: str, x: Tensor, axes: int, where: Tensor | None) -> tuple[Tensor, ...]:
    """`x` reduced over its last `axes` axes, in row-major order; points outside of `where` do not count."""
    if kind == "welford":
        return _welford(_flat(x, axes), None if where is None else _flat(where, axes))
    if where is not None:
        x = torch.where(where, x, torch.tensor(IDENTITY[kind](x.dtype), dtype=x.dtype))
    x = _flat(x, axes)
    if kind == "expsum":
        return _expsum(x)
    if x.shape[-1] == 0:
        dtype = torch.int64 if kind.startswith("arg") else x.dtype
        value = 0 if kind.startswith("arg") else IDENTITY[kind](x.dtype)
        return (torch.full(x.shape[:-1], value, dtype=dtype),)
    return (_REDUCE[kind](x),)


def _flat(x: Tensor, axes: int) -> Tensor:
    return x.reshape(*x.shape[: x.dim() - axes], -1) if 0 not in x.shape else x.new_empty(_flat_shape(x, axes))


def _flat_shape(x: Tensor, axes: int) -> tuple[int, ...]:
    n = 1
    for size in x.shape[x.dim() - axes :]:
        n *= size
    return (*x.shape[: x.dim() - axes], n)


def _order(x: Tensor) -> Tensor:
    return x.to(torch.int8) if x.dtype is torch.bool else x


_REDUCE: dict[str, Callable[[Tensor], Tensor]] = {
    "add": lambda x: x.sum(-1, dtype=x.dtype),
    "mul": lambda x: x.prod(-1, dtype=x.dtype),
    "max": lambda x: x.amax(-1),
    "min": lambda x: x.amin(-1),
    "and": lambda x: x.all(-1),
    "or": lambda x: x.any(-1),
    "xor": lambda x: reduce(torch.bitwise_xor, x.unbind(-1)),
    "argmax": lambda x: _order(x).argmax(-1),
    "argmin": lambda x: _order(x).argmin(-1),
}


def _expsum(x: Tensor) -> tuple[Tensor, Tensor]:
    """The largest value m, and the sum of exp(x - m); -inf and 0 of nothing."""
    if x.shape[-1] == 0:
        return torch.full(x.shape[:-1], -torch.inf, dtype=x.dtype), x.sum(-1)
    m = x.amax(-1)
    return m, (x - m.unsqueeze(-1)).exp().sum(-1)


def _welford(x: Tensor, where: Tensor | None) -> tuple[Tensor, Tensor]:
    """Mean and sum of squared deviations, in f64; 0 and 0 of nothing."""
    wide = x.double()
    counted = torch.ones_like(wide) if where is None else where.expand(x.shape).double()
    n = counted.sum(-1).clamp(min=1)
    wide = torch.where(counted > 0, wide, 0.0)
    mean = wide.sum(-1) / n
    m2 = (torch.where(counted > 0, wide - mean.unsqueeze(-1), 0.0) ** 2).sum(-1)
    return mean.to(x.dtype), m2.to(x.dtype)


_SCAN: dict[str, Callable[[Tensor, int], Tensor]] = {
    "add": lambda x, axis: x.cumsum(axis, dtype=x.dtype),
    "mul": lambda x, axis: x.cumprod(axis, dtype=x.dtype),
    "max": lambda x, axis: x.cummax(axis).values,
    "min": lambda x, axis: x.cummin(axis).values,
    "logaddexp": lambda x, axis: x.logcumsumexp(axis),
}


def scan(kind: str, x: Tensor, axis: int, where: Tensor | None) -> Tensor:
    """The inclusive running combination along an axis."""
    if where is not None:
        x = torch.where(where, x, torch.tensor(IDENTITY[kind](x.dtype), dtype=x.dtype))
    return _SCAN[kind](x, axis) if x.numel() else x
