"""Kinds of dtypes that ATen has kernels for, or has none for."""

from __future__ import annotations

import torch

_WIDE_UNSIGNED = (torch.uint16, torch.uint32, torch.uint64)


def is_integer(dtype: torch.dtype) -> bool:
    return not (dtype.is_floating_point or dtype.is_complex)


def is_bool(dtype: torch.dtype) -> bool:
    return dtype is torch.bool


def is_not_integer(dtype: torch.dtype) -> bool:
    return dtype is torch.bool or not is_integer(dtype)


def is_float(dtype: torch.dtype) -> bool:
    return dtype.is_floating_point


def is_half(dtype: torch.dtype) -> bool:
    return dtype in (torch.float16, torch.bfloat16)


def is_integer_but_bool(dtype: torch.dtype) -> bool:
    return dtype is not torch.bool and is_integer(dtype)


def is_neither_float_nor_long(dtype: torch.dtype) -> bool:
    return is_integer(dtype) and dtype is not torch.int64


def is_wide_unsigned(dtype: torch.dtype) -> bool:
    return dtype in _WIDE_UNSIGNED


def is_unindexed(dtype: torch.dtype) -> bool:
    return dtype in _WIDE_UNSIGNED or (dtype.is_floating_point and dtype.itemsize == 1)
