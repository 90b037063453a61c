"""Which products are generated where no measurement says: a model that knows where kernels of ours win, else ATen.

Figures are of measurements against MKL and oneDNN with one and two threads; see docs/ARCHITECTURE.md, "Products".
"""

from __future__ import annotations

from collections.abc import Callable

from ..dialects.expr import Dim
from ..dialects.tensor import is_complex, is_float, is_integer
from .products import Product
from .promotion import opmath
from .schedule_matrix import BYTES, pairs, rows_of_block
from .schedule_products import products_per_load
from .schedule_split import split_pays
from .target import F32_ALONE, CpuTarget
from .vectors import Vectors

ROWS = 32
"""Rows of f32 up to which a weight as linear layers keep it is multiplied faster by vectors of 512 bits; half as many
by half as long ones, as of `BYTE_ROWS`.
"""

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

EACH = 1 << 16
"""Products of one matrix of a batch of halves up to which ATen is busy with other things."""

SMALL = 1 << 18
"""Products of numbers up to which a call costs more than a kernel: half a microsecond to two of f32 and f64, 15 of
halves. Of 334 random products up to there (and below `SCATTERED`) 334 took no longer than ATen's by 5 %; with
vectors of 256 bits, up to half as many, 7 of 130 did.
"""

SCATTERED = 1 << 16
"""The same where what a row reads of the left factor lies far apart."""

PLAIN = 1 << 13
"""The same for vectors of less than 256 bits, where nothing has been measured: a call is all of the time."""

SHARED = 64
"""Products of numbers for each element that is widened or rounded, from which on the library's f32 makes up for that.
Of bf16 with one thread and AVX-512, by how many there are: 32, 0.9 to 1.2 of the time of a kernel; 55, 0.79 to 1.04;
110, 0.65 to 0.85; 230, 0.6 to 0.8.
"""

WIDENED_MOST = 1 << 22
"""Elements of a factor up to which there is memory for it in f32 too."""

CALLED = frozenset({"aten.mm", "aten.addmm", "aten.bmm", "aten.baddbmm", "aten.linear"})
"""Products that are calls with factors of f32 where that is faster."""

UNKNOWN = 1 << 12
"""The same where columns or the inner dim have no known size: other calls may have more."""


def reason_to_generate(product: Product, target: CpuTarget, size: Callable[[Dim], int]) -> str | None:
    """Why a kernel of ours is faster, in words; None where ATen's is as good or nobody knows."""
    if not product.device.startswith("cpu"):
        return None
    if is_integer(product.dtype) and product.dtype == product.result:
        return "ATen multiplies whole numbers one after the other"
    if (product.dtype, product.result) == ("i8", "i32"):
        return _bytes(product, target) or _small(product, target, size)
    if not is_float(product.dtype):
        return _small(product, target, size) if is_complex(product.dtype) else None
    return _memory_bound(product, target, size) or _small(product, target, size)


def reason_to_widen(product: Product, target: CpuTarget, size: Callable[[Dim], int]) -> str | None:
    """Why a call with factors of f32 is faster than one with halves, and than a kernel."""
    if not _is_slow(product, target) or product.op.name not in CALLED:
        return None
    b, m, n, k = product.sizes(size)
    if b * max(m, n) * k > WIDENED_MOST or m * n * k < SHARED * (m * n + m * k + n * k):
        return None
    return F32_ALONE


def _is_slow(product: Product, target: CpuTarget) -> bool:
    """Whether ATen's library has no instructions for the halves of a product, and vectors are long enough for ours."""
    half = opmath(product.dtype) != product.dtype and product.device == "cpu"
    return half and target.vector_bits >= 256 and not target.multiplies(product.dtype)


def _bytes(product: Product, target: CpuTarget) -> str | None:
    """Why a product of bytes is faster than oneDNN's: with matrix units 1.6 to 2.1 times at any size that was tried."""
    m, n, k = product.m, product.n, product.k
    if not (isinstance(m, int) and isinstance(n, int) and isinstance(k, int)):
        return None
    if product.lhs != "k" or product.rhs not in MATRIX_ROWS:
        return None
    if target.has_amx and rows_of_block(m, n, k, BYTES) is not None and max(m, n, k) <= MATRIX_MOST:
        return "matrix units are fed as fast, without copies of the factors before"
    if target.vector_bits == 256 and "+avxvnni" not in target.features and rows_of_block(m, n, k, pairs(8)) is not None:
        return "sums are exact, which ATen's of bytes are not there"
    return None


def _small(product: Product, target: CpuTarget, size: Callable[[Dim], int]) -> str | None:
    """Why a product takes less time than a call does. Rows and batches may be more in other calls: tiles stay good."""
    b, m, n, k = product.sizes(size)
    most = _share(SMALL, target) or PLAIN
    if product.lhs != "k":
        most = min(most, SCATTERED)
    if is_complex(product.dtype) or not (isinstance(product.n, int) and isinstance(product.k, int)):
        most = min(most, UNKNOWN)
    return "a call costs more than the work" if b * m * n * k <= most else None


def _memory_bound(product: Product, target: CpuTarget, size: Callable[[Dim], int]) -> str | None:
    """Why a product that reads its matrices once is as fast as memory is, or one in tiles as oneDNN."""
    half = opmath(product.dtype) != product.dtype
    if product.batch == 1 and product.m == 1 and (half or product.rhs == "k"):
        return "one row reads the matrix at the speed of memory"
    if product.batch == 1 and product.n == 1 and product.lhs == "k" and (product.m == 1 or half):
        return "one column reads the matrix at the speed of memory"
    m, n = product.m, product.n
    known = isinstance(n, int) and isinstance(product.k, int)
    if known and "-" not in (product.lhs, product.rhs) and _is_slow(product, target):
        return "ATen has no instructions for halves there"
    if target.has_blocks and (reason := _in_blocks(product, target, size)) is not None:
        return reason
    if product.dtype == "f64" or target.vector_bits < 256 or not isinstance(m, int) or not isinstance(n, int):
        return None
    if target.has_amx and (reason := _for_matrix_units(product, m, n)) is not None:
        return reason
    if m > _share(BYTE_ROWS, target):
        return None
    if product.batch != 1:
        few = m * n * size(product.k) <= EACH or m == 1
        return "small matrices cost ATen more to prepare than to multiply" if half and few else None
    if n < WIDE:
        return None
    if m <= HALF_ROWS and half and product.rhs in "kn":
        return "a few rows read the matrix at the speed of memory"
    if product.rhs != "k" or products_per_load(m, n, Vectors(target.vector_bits, target.registers).sums) < LEAST:
        return None
    if product.stored in ("i8", "u8") and (not half or m <= HALF_ROWS):
        return "a weight of bytes is converted where it is read"
    return (
        "a few rows read the matrix at the speed of memory" if not half and FEW <= m <= _share(ROWS, target) else None
    )


def _in_blocks(product: Product, target: CpuTarget, size: Callable[[Dim], int]) -> str | None:
    """Why a product of f32 is faster in blocks of ours. Rows may be more or fewer in other calls."""
    _, m, n, k = product.sizes(size)
    if (product.dtype, product.result) != ("f32", "f32") or "-" in product.lhs + product.rhs:
        return None
    if not (isinstance(product.n, int) and isinstance(product.k, int) and split_pays(m, n, k)):
        return None
    few = product.rhs == "k" and m <= _share(ROWS, target)
    if few:
        return None
    return "matrix units multiply f32 as three bf16 each" if target.has_amx else "the library has shorter vectors there"


def _share(n: int, target: CpuTarget) -> int:
    """What holds for vectors of 512 bits, for shorter ones; 0 where these are too short."""
    return n * target.vector_bits // 512 if target.vector_bits >= 256 else 0


MATRIX_ROWS = {"k": 128, "n": 32}
"""Rows up to which matrix units are fed faster by our kernels, by how the other factor lies."""

MATRIX_MOST = 4096
"""Rows, columns and inner points up to which they are as fast, so that what is fused with the product is saved."""


def _for_matrix_units(product: Product, m: int, n: int) -> str | None:
    """Why a product of bf16 in tiles is faster than oneDNN's."""
    k = product.k
    if product.dtype != "bf16" or not isinstance(k, int) or product.lhs != "k" or product.rhs not in MATRIX_ROWS:
        return None
    if rows_of_block(m, n, k) is None or max(m, n, k) > MATRIX_MOST:
        return None
    if product.stored in ("i8", "u8"):
        return "a weight of bytes is converted where it is read" if m <= BYTE_ROWS else None
    if m <= MATRIX_ROWS[product.rhs]:
        return "matrix units are fed as fast, without copies of the factors before"
    fused = product.batch == 1 and "more" in product.epilogue and product.rhs == "k"
    return "matrix units are fed as fast, and what follows is part of the kernel" if fused else None
