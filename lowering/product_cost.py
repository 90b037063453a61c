"""Which products are generated where no measurement says: a model that knows where kernels of ours win, else ATen.

Figures are of measurements against MKL and oneDNN with one and two threads; see docs/ARCHITECTURE.md, "Products".
"""

from __future__ import annotations

from collections.abc import Callable

from ..dialects.expr import Dim
from ..dialects.tensor import is_float
from .products import Product
from .promotion import opmath
from .schedule_products import products_per_load
from .target import CpuTarget

ROWS = 32
"""Rows of f32 up to which a weight as linear layers keep it is multiplied faster."""

BYTE_ROWS = 64
"""The same for a weight of bytes, which ATen writes in the dtype of the rows before."""

HALF_ROWS = 4
"""The same for f16 and bf16, where ATen has instructions that multiply whole tiles."""

FEW = 3
"""Rows of f32 from which on ATen's kernel for matrices runs, instead of that for vectors."""

WIDE = 64
"""Columns below which a product is no work for anyone."""

LEAST = 1.3
"""Products for each vector that a tile loads at least: sizes without divisors have no good tiles."""

SMALL = 1 << 16
"""Products of one matrix of a batch of halves up to which ATen is busy with other things."""


def reason_to_generate(product: Product, target: CpuTarget, size: Callable[[Dim], int]) -> str | None:
    """Why a kernel of ours is faster, in words; None where ATen's is as good or nobody knows."""
    if not product.device.startswith("cpu") or not is_float(product.dtype):
        return None
    half = opmath(product.dtype) != product.dtype
    if product.batch == 1 and product.m == 1 and (half or product.rhs == "k"):
        return "one row reads the matrix at the speed of memory"
    m, n = product.m, product.n
    if product.dtype == "f64" or not target.has_avx512 or not isinstance(m, int) or not isinstance(n, int):
        return None
    if m > BYTE_ROWS:
        return None
    if product.batch != 1:
        few = m * n * size(product.k) <= SMALL or m == 1
        return "small matrices cost ATen more to prepare than to multiply" if half and few else None
    if n < WIDE:
        return None
    if m <= HALF_ROWS and half and product.rhs in "kn":
        return "a few rows read the matrix at the speed of memory"
    if product.rhs != "k" or products_per_load(m, n) < LEAST:
        return None
    if product.stored in ("i8", "u8") and (not half or m <= HALF_ROWS):
        return "a weight of bytes is converted where it is read"
    return "a few rows read the matrix at the speed of memory" if not half and FEW <= m <= ROWS else None
