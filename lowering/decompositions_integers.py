"""Functions of whole numbers."""

from __future__ import annotations

from typing import Any, Final

from ..dialects import prims
from ..dialects.tensor import itemsize
from .decomposition import Call, rule
from .prims_builder import Value

STEPS: Final = {1: 12, 2: 23, 4: 46, 8: 92}
"""Divisions that Euclid's algorithm needs at most, by the size of a number: consecutive Fibonacci numbers take most."""


def _gcd(a: Value, b: Value) -> Value:
    if a.dtype[0] != "u":
        a, b = a.abs(), b.abs()
    for _ in range(STEPS[itemsize(a.dtype)]):
        # once b is 0 nothing changes; division by 0 gives a value that is not taken
        done = b.eq(0)
        rest = a.binary(prims.RemOp.make, done.where(1, b))
        a, b = done.where(a, b), done.where(0, rest)
    return a


@rule("aten.gcd")
def gcd(call: Call, a: Value, b: Value) -> Any:
    t = call.type
    return _gcd(a.to(t.dtype).expand(t.shape), b.to(t.dtype).expand(t.shape))


@rule("aten.lcm")
def lcm(call: Call, a: Value, b: Value) -> Any:
    """|a / gcd * b|, 0 where both are; of narrow integers cut off at the end only, as C computes in int."""
    t = call.type
    a, b = (x.to(t.dtype).expand(t.shape) for x in (a, b))
    g = _gcd(a, b)
    if itemsize(t.dtype) < 4:
        a, b, g = (x.to("i32") for x in (a, b, g))
    none = g.eq(0)
    y = a.binary(prims.DivTruncOp.make, none.where(1, g)) * b
    return none.where(0, y if y.dtype[0] == "u" else y.abs())
