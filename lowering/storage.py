"""How much memory a tensor type takes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import sympy

from ..dialects import expr
from ..dialects.expr import Dim
from ..dialects.symbol_kinds import SIGNED, symbol_kind
from ..dialects.tensor import TensorType, itemsize
from .index_polynomial import exact_quotient, polynomial


@cache
def storage_bytes(type: TensorType) -> Dim:
    """Bytes from the first element to the last; 0 for an empty tensor."""
    size = itemsize(type.dtype)
    if 0 in type.shape:
        return 0
    if is_dense(type):
        return expr.normal(type.numel * size)
    last: Any = 1
    for extent, stride in zip(type.shape, type.strides, strict=True):
        last = last + (extent - 1) * stride
    if isinstance(last, int):
        return last * size
    return expr.normal(sympy.Max(sympy.expand(last) * size, 0))


def is_dense(type: TensorType) -> bool:
    """Whether the elements fill their memory without gaps, in some order of the dims."""
    return order_in_memory(type) is not None


def order_in_memory(type: TensorType) -> list[int] | None:
    """The dims from the outermost to the innermost, where elements fill their memory without gaps. Strides count an
    empty dim as one, which says nothing else of where elements are.
    """
    if type.is_contiguous:
        return list(range(type.rank))
    strides = [as_products(s) for s in type.strides]
    rest = [d for d, size in enumerate(type.shape) if size != 1]
    order: list[int] = []
    expected: Any = 1
    while rest:
        found = next((d for d in rest if strides[d] == expected), None)
        if found is None:
            return None
        rest.remove(found)
        order.append(found)
        expected = expr.normal(expected * type.shape[found])
    return [d for d, size in enumerate(type.shape) if size == 1] + order[::-1]


def as_products(stride: Dim, counts: Sequence[Dim] | None = None) -> Dim:
    """max(1, n) as n; with `counts` of elements only where one of these is 0 if n is."""
    if isinstance(stride, int):
        return stride

    def is_meant(e: Any) -> bool:
        if type(e).__name__ != "Max" or 1 not in e.args:  # sympy's, or torch's own class
            return False
        return counts is None or any(exact_quotient(polynomial(c), polynomial(_other_than_one(e))) for c in counts)

    return expr.normal(stride.replace(is_meant, _other_than_one))


def _other_than_one(e: Any) -> Any:
    return sympy.Max(*(a for a in e.args if a != 1))


@cache
def strides_made(type: TensorType) -> tuple[Dim, ...]:
    """The strides of a tensor that is made of this type: as torch's, in which a size that is 0 counts as 1."""
    return tuple(s if isinstance(s, int) else _of_empties(s, type.numel) for s in type.strides)


def _of_empties(stride: Any, numel: Dim) -> Dim:
    """n of data as max(1, n) where there are no elements if n is 0; sizes of arguments are 2 or more, or numbers."""
    factors = [
        sympy.Max(1, f)
        if any(symbol_kind(s.name) in SIGNED for s in expr.symbols(f))
        and type(f).__name__ != "Max"
        and exact_quotient(polynomial(numel), polynomial(f))
        else f
        for f in (stride.args if isinstance(stride, sympy.Mul) else (stride,))
    ]
    return expr.normal(sympy.Mul(*factors))


@cache
def overlaps(t: TensorType) -> bool:
    """Whether elements may lie at one place, as far as is known: by dims of stride 0, or by strides that may not get
    past the dims of smaller ones.
    """
    dims = [(stride, size) for stride, size in zip(t.strides, t.shape, strict=True) if size != 1]
    if 0 in t.shape or t.is_contiguous:
        return False
    if any(stride == 0 for stride, _ in dims):
        return True
    if is_dense(t):
        return False
    reached: Any = 0
    for stride, size in sorted(dims, key=lambda d: (not isinstance(d[0], int), isinstance(d[0], int) and d[0])):
        if not isinstance(stride, int) or not isinstance(reached, int) or stride <= reached:
            return True
        reached += (size - 1) * stride
    return False
