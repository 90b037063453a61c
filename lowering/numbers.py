"""Numbers as a dtype has them, the least and greatest of these, and powers of what is multiplied."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

import sympy

from ..dialects.prims import Number
from ..dialects.tensor import is_float, is_unsigned, itemsize

T = TypeVar("T")


def number_as(value: Number, dtype: str) -> Number:
    """A number in a dtype's domain: truth value, wrapped integer, or float; expressions stay."""
    if isinstance(value, sympy.Integer):
        value = int(value)
    if isinstance(value, sympy.Expr):
        return value
    if dtype == "i1":
        return bool(value)
    if is_float(dtype):
        number = float(value)
        return math.copysign(math.inf, number) if abs(number) >= _TOO_LARGE.get(dtype, math.inf) else number
    bits = 8 * itemsize(dtype)
    wrapped = int(value) & ((1 << bits) - 1)
    return wrapped if is_unsigned(dtype) or wrapped < 1 << (bits - 1) else wrapped - (1 << bits)


_TOO_LARGE = {"f16": 65520.0, "bf16": float.fromhex("0x1.ffp127"), "f32": float.fromhex("0x1.ffffffp127")}
"""What is rounded to infinity, and all above."""


def lowest(dtype: str) -> Number:
    """What is below all others."""
    if dtype == "i1" or is_float(dtype):
        return -math.inf if is_float(dtype) else False
    return 0 if is_unsigned(dtype) else -(1 << (8 * itemsize(dtype) - 1))


def highest(dtype: str) -> Number:
    """What is above all others."""
    if dtype == "i1" or is_float(dtype):
        return math.inf if is_float(dtype) else True
    return (1 << (8 * itemsize(dtype) - (not is_unsigned(dtype)))) - 1


def by_squaring(multiply: Callable[[T, T], T], x: T, n: int, one: T) -> T:
    """x to the power of a known n >= 0, in as few steps as n has bits; `one` for 0."""
    result: T | None = None
    while n:
        if n & 1:
            result = x if result is None else multiply(result, x)
        n >>= 1
        if n:
            x = multiply(x, x)
    return one if result is None else result
