"""The largest or least of f16 or bf16, from their bits: as whole numbers those of one sign are in order."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import BFloat16Type, f32, i16
from xdsl.ir import Attribute, SSAValue

from ..dialects.tensor import HALF_TYPES
from .reductions import Fold, Point, Reduction, State, make, tree
from .scalar_to_llvm import ScalarCode


def reduction_of(s: ScalarCode, kind: str, type: Attribute, small: bool, numbers: bool = False) -> Reduction:
    """The reduction of a kind on values of a body's type; `small`: positions fit in i32; `numbers`: max may leave NaN
    out.
    """
    if not isinstance(type, HALF_TYPES):
        return make(s, "max_number" if numbers and kind == "max" else kind, type, small)
    return HalfExtreme(s, kind, type, numbers) if kind in ("max", "min") else make(s, kind, f32, small)


def taken(s: ScalarCode, reduction: Reduction, value: SSAValue, type: Attribute) -> SSAValue:
    """A value of a body's type in the form that a reduction takes."""
    return value if isinstance(reduction, HalfExtreme) else s.widened(value, type)


_GREATER = {"smax": "sgt", "umin": "ult", "umax": "ugt"}
"""What is kept, compared with another."""


class HalfExtreme(Fold):
    """max, min: the state is the largest as a signed number, and the least and the largest as unsigned ones. Without a
    sign bits grow with the number, and NaN is beyond inf; with one they grow as it falls, and are above all without.
    The last is of use to max for a NaN with a sign alone, and left out where `numbers` matter alone.
    """

    def __init__(self, s: ScalarCode, kind: str, type: Attribute, numbers: bool = False):
        super().__init__(s, kind, i16)
        self.kinds = ("smax", "umin") if numbers and kind == "max" else ("smax", "umin", "umax")
        self.infinity = 0x7F80 if isinstance(type, BFloat16Type) else 0x7C00

    def initial(self, lanes: int, masked: bool) -> State:
        """That of the infinity which changes nothing."""
        bits = self.infinity + (0x8000 if self.kind == "max" else 0)
        return [self.s.b.splat(self.s.b.constant(bits, i16), lanes)] * len(self.kinds)

    def join(self, state: State, value: SSAValue, mask: SSAValue | None, point: Point) -> State:
        new = self.merge(state, [value] * len(state))
        return new if mask is None else [self.s.b.select(mask, a, c) for a, c in zip(new, state, strict=True)]

    def merge(self, a: State, b: State) -> State:
        pairs = (self.s.b.same_lanes(x, y) for x, y in zip(a, b, strict=True))
        return [self.s.extreme(x, y, _GREATER[kind]) for (x, y), kind in zip(pairs, self.kinds, strict=True)]

    def across(self, states: Sequence[State]) -> State:
        """By LLVM's own reductions: x86 has an instruction for the least of 8 lanes."""
        vectors = tree(self, states)
        return [self.s.b.intrinsic(f"vector.reduce.{k}", (v,), i16) for v, k in zip(vectors, self.kinds, strict=True)]

    def results(self, state: State) -> list[SSAValue]:
        """With `max`: the largest without a sign, else the least with one; a NaN of the other sign is found apart."""
        b, (signed, least, *rest) = self.s.b, state
        if self.kind == "max":
            found = b.select(b.icmp("sge", signed, self.s.same(0, signed)), signed, least)
            if not rest:
                return [found]
            largest = rest[0]
            strange = b.icmp("ugt", largest, self.s.same(self.infinity + 0x8000, largest))
            return [b.select(strange, largest, found)]
        largest = rest[0]
        found = b.select(b.icmp("slt", largest, self.s.same(0, largest)), largest, least)
        return [b.select(b.icmp("sgt", signed, self.s.same(self.infinity, signed)), signed, found)]
