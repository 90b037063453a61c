"""The generator of random bits: Philox2x32-10 of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as
1, 2, 3" (SC 2011).

Bits are a function of a key and a counter, so that every element of a tensor has its own, whatever computes it and in
which order. It is written once, with operators, for whatever has them: torch tensors of i64, and values of the llvm
dialect or of another one.
"""

from __future__ import annotations

from typing import Protocol, Self, TypeVar

MULTIPLIER = 0xD256D193
KEY_STEP = 0x9E3779B9
ROUNDS = 10
WORD = 0xFFFFFFFF


class Int64(Protocol):
    """Wrapping 64-bit integers; `>>` repeats the sign."""

    def __add__(self, other: int, /) -> Self: ...
    def __mul__(self, other: int, /) -> Self: ...
    def __and__(self, other: Self | int, /) -> Self: ...
    def __or__(self, other: Self, /) -> Self: ...
    def __xor__(self, other: Self, /) -> Self: ...
    def __lshift__(self, other: int, /) -> Self: ...
    def __rshift__(self, other: int, /) -> Self: ...


T = TypeVar("T", bound=Int64)


def words(key: T, counter: T) -> tuple[T, T]:
    """Two words of 32 random bits, the low ones of each value, above which stands anything.

    Ten rounds of `c0, c1 = high(M * c0) ^ key ^ c1, low(M * c0)`, from the counter's words c0 (low) and c1 (high). The
    key's low word is Philox's key, its high word goes to c1.
    """
    c0, c1 = counter, (counter >> 32) ^ (key >> 32)
    for i in range(ROUNDS):
        product = (c0 & WORD) * MULTIPLIER
        c0, c1 = (product >> 32) ^ (key + (i * KEY_STEP & WORD) if i else key) ^ c1, product
    return c0, c1


def philox(key: T, counter: T) -> T:
    """64 random bits: the first word above the second."""
    c0, c1 = words(key, counter)
    return (c0 << 32) | (c1 & WORD)


def philox32(key: T, place: T) -> T:
    """32 random bits, from 0 on: a word of the counter that two neighbours share, the second one for the even place."""
    c0, c1 = words(key, place >> 1)
    odd = (place << 63) >> 63
    return (((c0 ^ c1) & odd) ^ c1) & WORD
