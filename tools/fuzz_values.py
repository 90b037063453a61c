"""What the steps of random programs are made of: values, lines of Python over them, and choices.

A value is *exact* while eager's bits are the only right ones: integers, truth values, and floats made of inputs by
operations that every implementation rounds alike. What jumps (comparisons, rounding, positions of extremes) is asked
of exact values only: elsewhere one unit in the last place, which kernels may have different, would decide.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

import torch

T = TypeVar("T")


class Numbers(Enum):
    """What a step does to the numbers of its operands."""

    MOVES = "gives some of them, or a function that is exact in every dtype"
    ROUNDS = "is rounded once, as IEEE says; but kernels do not round f16 and bf16 between steps"
    ROUGH = "is as exact as an implementation likes"


MOVES, ROUNDS, ROUGH = Numbers


class Chooser:
    """Makes choices: `below(n)` is one of 0..n-1."""

    def __init__(self, below: Callable[[int], int]) -> None:
        self.below = below

    def pick(self, among: Sequence[T]) -> T:
        return among[self.below(len(among))]

    def chance(self, one_in: int) -> bool:
        """Rarely true; the choice that comes first is false."""
        return self.below(one_in) == one_in - 1


@dataclass
class Value:
    """A variable of a program with what eager gives it."""

    name: str
    tensor: torch.Tensor
    exact: bool

    @property
    def kind(self) -> str:
        """f for floats, 8 those of 8 bits, c complex, i integers, b bool."""
        dtype = self.tensor.dtype
        if dtype.is_floating_point and dtype.itemsize == 1:
            return "8"
        return "f" if dtype.is_floating_point else "c" if dtype.is_complex else "b" if dtype is torch.bool else "i"


@dataclass(frozen=True)
class Line:
    """An expression over values."""

    text: str
    operands: tuple[Value, ...]
    numbers: Numbers = MOVES
    writes: bool = False
    """Whether it writes into an operand."""

    def is_exact(self, result: torch.Tensor) -> bool:
        if not (result.dtype.is_floating_point or result.dtype.is_complex):
            return True
        rounds = self.numbers is ROUNDS and result.dtype not in (torch.float16, torch.bfloat16)
        return (self.numbers is MOVES or rounds) and all(v.exact for v in self.operands)


Maker = Callable[[Chooser, Sequence[Value]], Line | None]
"""A line for some of these values; None where none fits."""


def choose(g: Chooser, values: Sequence[Value], fits: Callable[[Value], bool]) -> Value | None:
    """One that fits, later ones rather than earlier ones."""
    found = [v for v in values if fits(v)]
    if not found:
        return None
    recent = found[-4:]
    return g.pick(found) if g.chance(3) else recent[-1 - g.below(len(recent))]


def of_kinds(kinds: str, exact: bool = False, rank: int = 0) -> Callable[[Value], bool]:
    return lambda v: v.kind in kinds and (v.exact or not exact) and v.tensor.dim() >= rank


def partner(g: Chooser, a: Value, values: Sequence[Value], kinds: str, exact: bool) -> Value | None:
    """One whose shape broadcasts with that of `a` to something not much larger."""

    def fits(b: Value) -> bool:
        if b.kind not in kinds or (exact and not b.exact):
            return False
        try:
            return torch.Size(torch.broadcast_shapes(a.tensor.shape, b.tensor.shape)).numel() <= 4096
        except RuntimeError:
            return False

    return choose(g, values, fits)


def choose_any(g: Chooser, values: Sequence[Value], rank: int = 0) -> Value | None:
    return choose(g, values, lambda v: v.tensor.dim() >= rank)


def shapes(g: Chooser) -> list[int]:
    rank = g.pick((2, 3, 1, 2, 4, 0, 3))
    sizes = [g.pick((3, 4, 5, 2, 8, 7, 1, 16, 17, 33, 0)) for _ in range(rank)]
    while torch.Size(sizes).numel() > 2048:
        sizes[g.below(rank)] = 2
    return sizes


def source(g: Chooser) -> str:
    """A tensor as an argument may be: dtype, numbers, and layout in memory."""
    dtype = g.pick(
        ("float32", "float32", "int64", "float64", "bfloat16", "bool", "float16", "int32", "uint8", "int8", "int16")
    )
    sizes = shapes(g)
    layout = g.below(7) if sizes else 0
    seed = g.below(1000)
    small = 1 if dtype == "bool" else 5
    low = 0 if dtype in ("uint8", "bool") else -4
    whole = f"torch.randint({low}, {small + 1}, {{}}, generator=seeded({seed})).to(torch.{dtype})"
    if dtype.startswith(("float", "bfloat")) and g.below(2):
        whole = f"torch.randn({{}}, generator=seeded({seed})).to(torch.{dtype})"
    match layout:
        case 1 if len(sizes) > 1:
            return whole.format([*sizes[:-2], sizes[-1], sizes[-2]]) + ".mT"
        case 2:
            return whole.format([*sizes[:-1], 2 * sizes[-1]]) + "[..., ::2]"
        case 3:
            return whole.format([sizes[0] + 2, *sizes[1:]]) + "[1:-1]"
        case 4 if sizes[0] != 0:
            return whole.format([1, *sizes[1:]]) + f".expand({sizes})"
        case 5 if len(sizes) == 4:
            return whole.format(sizes) + ".contiguous(memory_format=torch.channels_last)"
        case 6 if dtype.startswith(("float", "bfloat")):
            return f"special({whole.format(sizes)})"
        case _:
            return whole.format(sizes)
