"""Which products are generated where no measurement says: a model that knows where kernels of ours win, else ATen.

Figures are of measurements against MKL and oneDNN with one and two threads; see docs/ARCHITECTURE.md, "Products".
"""

from __future__ import annotations

from collections.abc import Callable

from ..dialects.expr import Dim
from ..dialects.tensor import is_float
from .products import Product
from .promotion import opmath
from .target import CpuTarget


def reason_to_generate(product: Product, target: CpuTarget, size: Callable[[Dim], int]) -> str | None:
    """Why a kernel of ours is faster, in words; None where ATen's is as good or nobody knows."""
    if not product.device.startswith("cpu") or not is_float(product.dtype):
        return None
    half = opmath(product.dtype) != product.dtype
    if product.batch == 1 and product.m == 1 and (half or product.rhs == "k"):
        return "one row reads the matrix at the speed of memory"
    return None
