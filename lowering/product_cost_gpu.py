"""Which products of GPUs are generated where no measurement says: only such as were faster on an H200 in every case
tried, by benchmarks/gpu_products.py; see docs/performance.md.
"""

from __future__ import annotations

from typing import cast

from .gpu_target import GpuTarget
from .products import Product, leaves
from .promotion import opmath

LONG_ROW = 16 << 10
"""Elements of the row that a matrix is multiplied with, at most."""

MATRIX = 1 << 21
"""Elements of that matrix at least, for the time to be that of reading it."""

ROWS = 16
"""Rows that one tile has, at most."""

LARGE_MATRIX, COLUMNS = 1 << 23, range(4096, 8192)
"""Elements at least, and columns, of the matrix that such rows are multiplied with."""

BYTES, BYTE_ROWS = 1 << 24, 64
"""Elements at least of a matrix of bytes, which the library wants as floats, and rows at most of 16-bit floats."""

UNALIGNED_ROWS, UNALIGNED_COLUMNS = 2048, 1 << 14
"""Rows and columns at least of a result whose rows do not begin at multiples of 16 bytes: the library needs padded
factors, and its result is copied."""

SMALL = 1 << 27
"""Products of two matrices of 16-bit floats up to which the library is as slow as with twice the size."""

SIDE = 64
"""Rows and columns of these at least."""

SHORT = 512
"""Elements of a sum of these at most: there are few programs to go through it."""

BATCH, BATCH_SIDE, BATCH_SHORT = 96, range(64, 129), range(32, 129)
"""Small matrices of a batch: how many at least, their rows and columns, and elements of a sum."""


def reason_on_gpu(product: Product, gpu: GpuTarget) -> str | None:
    """Why a kernel of ours is faster, in words; None where ATen's is as good or nobody knows."""
    if gpu.sm < 90 or not product.is_static:
        return None
    batch, m, n, k = (cast(int, d) for d in (product.batch, product.m, product.n, product.k))
    half = opmath(product.dtype) != product.dtype
    if product.stored in ("i8", "u8"):
        rows = BYTE_ROWS if half else ROWS if product.dtype == "f32" else 0
        few = batch == 1 and m <= rows and n >= COLUMNS.start and n * k >= BYTES and k <= LONG_ROW
        return "a weight of bytes is converted where it is read" if few and product.rhs == "k" else None
    if product.stored != product.dtype:
        return None
    if batch >= BATCH and half and m in BATCH_SIDE and n in BATCH_SIDE and k in BATCH_SHORT:
        return "a program has one of many small matrices"
    if batch != 1 or not (half or product.dtype == "f32"):
        return None
    if product.rhs == "k" and k <= LONG_ROW:
        if m == 1 and n * k >= MATRIX:
            return "one row reads the matrix at the speed of memory"
        if half and m <= ROWS and n in COLUMNS and n * k >= LARGE_MATRIX:
            return "a few rows read the matrix at the speed of memory"
        large = m >= UNALIGNED_ROWS and n >= UNALIGNED_COLUMNS
        if half and large and n % 8 != 0 and k % 8 == 0 and leaves(product.op.results[0]):
            return "rows of the result begin anywhere: the library's would be copied"
    if half and min(m, n, k) >= SIDE and m * n * k <= SMALL and k <= SHORT:
        return "small matrices take one short launch"
    return None
