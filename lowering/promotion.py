"""PyTorch's dtype rules in terms of our dtype names."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

import torch

from ..dialects.tensor import DTYPE_OF_TORCH, HALVES, TORCH_DTYPES, is_complex, is_float

COMPUTE_DTYPES = frozenset({"i1", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f16", "bf16", "f32", "f64"})
"""What prims compute with; an op on any other dtype stays an ATen call."""

FLOAT8 = frozenset({"f8e4m3fn", "f8e5m2", "f8e4m3fnuz", "f8e5m2fnuz"})
"""What is only moved, and converted to and from the others."""


def is_number(dtype: str) -> bool:
    """Whether a dtype is of numbers that are added up and multiplied: not of truth values."""
    return dtype != "i1"


def opmath(dtype: str) -> str:
    """The dtype in which eager computes elementwise: f32 for f16 and bf16."""
    return "f32" if dtype in HALVES else dtype


@cache
def promote_types(a: str, b: str) -> str:
    """torch.promote_types."""
    promoted = torch.promote_types(getattr(torch, TORCH_DTYPES[a]), getattr(torch, TORCH_DTYPES[b]))
    return DTYPE_OF_TORCH[str(promoted)[6:]]


def _promote_all(dtypes: Iterable[str]) -> str | None:
    result: str | None = None
    for dtype in dtypes:
        result = dtype if result is None else promote_types(result, dtype)
    return result


def _combine(higher: str | None, lower: str | None) -> str | None:
    """As c10's combine_categories: the lower priority only counts where its kind of number is larger."""
    if higher is None or lower is None:
        return higher or lower
    if is_complex(higher) or is_float(higher):
        return promote_types(higher, lower) if is_complex(lower) and not is_complex(higher) else higher
    return lower if higher == "i1" or is_float(lower) or is_complex(lower) else higher


@cache
def result_dtype(tensors: tuple[str, ...], zero_dim: tuple[str, ...] = (), numbers: tuple[str, ...] = ()) -> str:
    """torch.result_type of tensors with dims, tensors without, and numbers (i1, i64, f32 for bool, int, float)."""
    result = _combine(_combine(_promote_all(tensors), _promote_all(zero_dim)), _promote_all(numbers))
    assert result is not None, "result_dtype of nothing"
    return result
