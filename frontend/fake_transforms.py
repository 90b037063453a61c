"""How Fourier transforms lie: as ATen's `mkl/SpectralOps.cpp` and `cuda/SpectralOps.cpp` leave them, else contiguous.

torch tells other strides on GPUs where dims are not in order or more than three, some of elements that overlap.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from .fake_strides import Strides, in_order

Given = Mapping[str, Any]


def complex_transformed(result: Any, given: Given) -> Strides:
    """As `_fft_c2c_mkl` and `_fft_c2c_cufft`."""
    x, dim = given["self"], given["dim"]
    if not dim:
        return result.stride()
    if result.device.type != "cpu":
        return _in_turns(x.stride(), result.shape, dim)
    if not torch.backends.mkl.is_available():
        return in_order(result.shape)
    return _transformed(x.stride(), result.shape, _sorted(x.stride(), dim))


def real_transformed(result: Any, given: Given) -> Strides:
    """As `_fft_r2c_mkl`, whose last dim stays the last, and `_fft_r2c_cufft`."""
    x, dim = given["self"], given["dim"]
    if result.device.type != "cpu":
        if _is_at_once(dim):
            return _transformed(x.stride(), result.shape, dim)
        return _in_turns(_transformed(x.stride(), result.shape, dim[-1:]), result.shape, dim[:-1])
    if not torch.backends.mkl.is_available():
        return in_order(result.shape)
    return _transformed(x.stride(), result.shape, [*_sorted(x.stride(), dim[:-1]), dim[-1]])


def transformed_to_real(result: Any, given: Given) -> Strides:
    """As `_fft_c2r_mkl`, which transforms the last dim alone, after the others, and `_fft_c2r_cufft`."""
    x, dim = given["self"], given["dim"]
    strides = x.stride()
    if result.device.type != "cpu":
        if _is_at_once(dim):
            return _transformed(in_order(x.shape), result.shape, dim)
        strides = _in_turns(strides, x.shape, dim[:-1]) if len(dim) > 1 else in_order(x.shape)
    elif not torch.backends.mkl.is_available():
        return in_order(result.shape)
    elif len(dim) > 1:
        strides = _transformed(strides, x.shape, _sorted(strides, dim[:-1]))
    return _transformed(strides, result.shape, dim[-1:])


_AT_ONCE = 3
"""Dims that cuFFT transforms in one go."""


def _is_at_once(dim: Sequence[int]) -> bool:
    """As `use_optimized_cufft_path`."""
    return len(dim) <= _AT_ONCE and list(dim[:2]) != [0, 1]


def _in_turns(strides: Strides, shape: Sequence[Any], dims: Sequence[int]) -> Strides:
    """The fastest dims first; after each turn they lie otherwise."""
    rest = list(dims)
    while rest:
        rest = _sorted(strides, rest)
        strides = _transformed(strides, shape, rest[-_AT_ONCE:])
        del rest[-_AT_ONCE:]
    return strides


def _sorted(strides: Strides, dims: Sequence[int]) -> list[int]:
    """Slowest first, as `_sort_dims` does it."""
    return sorted(dims, key=lambda d: strides[d], reverse=True)


def _transformed(strides: Strides, shape: Sequence[Any], dims: Sequence[int]) -> Strides:
    """As `_exec_fft`: the dims of a batch come first, those that are transformed in the order of `dims`."""
    lying: list[Any] = [0] * len(shape)
    step: Any = 1
    for d in (*reversed(dims), *reversed(_batch_dims(strides, dims))):
        lying[d] = step
        step = step * shape[d]
    return lying


def _batch_dims(strides: Strides, dims: Sequence[int]) -> list[int]:
    """The dims that are not transformed, slowest first. Those of one stride are in the order in which `std::partition`
    has left them, which swaps from both ends.
    """
    order = [*range(len(strides))]
    first, last = 0, len(order)
    while True:
        while first < last and order[first] not in dims:
            first += 1
        last -= 1
        while first < last and order[last] in dims:
            last -= 1
        if first >= last:
            return _sorted(strides, order[:first])
        order[first], order[last] = order[last], order[first]
        first += 1
