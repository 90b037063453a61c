"""bf16 in vectors that hold every other element (`schedule_apart`): bits, and what they are known to be.

No lane is moved where nothing asks for the bits themselves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from xdsl.dialects import arith, llvm
from xdsl.dialects.builtin import f32, f64, i16, i32
from xdsl.ir import Operation, SSAValue

from ..dialects.loop import KernelOp, LoadOp, ScratchOp, body_ops
from ..dialects.loop_scalar import FnOp
from ..dialects.tensor import TensorType
from .half_floats import bf16_on_top
from .llvm_builder import FunctionBuilder
from .vector_math import CALLED

HIGH = 0xFFFF0000
"""The half of 32 bits that a bf16 is of its f32."""


@dataclass(frozen=True)
class Known:
    """What some bits of bf16 are: an f32, and the high half of `top`."""

    number: SSAValue
    top: SSAValue


class Apart:
    """The bf16 values of a function that are known so."""

    def __init__(self, b: FunctionBuilder, target: Any):
        self.b, self.target = b, target
        self.known: dict[SSAValue, Known] = {}
        self.tame = False

    def bits_of(self, top: SSAValue, number: SSAValue | None = None) -> SSAValue:
        """The bits in the high half of integers, and what they are from now on."""
        b = self.b
        if number is None:
            number = b.cast(llvm.BitcastOp, b.binary(llvm.AndOp, top, b.constant(HIGH, top.type)), f32)
        bits = b.cast(llvm.TruncOp, b.binary(llvm.LShrOp, top, b.constant(16, top.type)), i16)
        self.known[bits] = Known(number, top)
        return bits

    def rounded(self, value: SSAValue, rounds: bool, ties: bool = True) -> SSAValue:
        """f32 as bits of bf16; without `ties`, of what is no exact number."""
        if not rounds:
            return self.bits_of(self.b.cast(llvm.BitcastOp, value, i32), value)
        return self.bits_of(bf16_on_top(self.b, value, self.target, self.tame, ties))

    def top(self, bits: SSAValue) -> SSAValue:
        """Integers whose high half are these bits."""
        found = self.known.get(bits)
        if found is not None:
            return found.top
        wide = self.b.cast(llvm.ZExtOp, bits, i32)
        return self.b.shl(wide, self.b.constant(16, wide.type))


def only_bf16(kernel: KernelOp) -> bool:
    """Whether all NaN of a kernel are those of bf16 or arithmetic's own, which end in zeros; SLEEF's are all ones."""
    return not any(_may_be_strange(o) for o in body_ops(kernel.body))


def _may_be_strange(op: Operation) -> bool:
    if isinstance(op, LoadOp) and not isinstance(op.source.owner, ScratchOp):
        dtype = cast(TensorType, op.source.type).dtype
        return dtype != "bf16" and dtype[0] not in "iu"
    function = op.fn.data if isinstance(op, FnOp) else op.name.partition("math.")[2]
    return isinstance(op, arith.BitcastOp) or function in _CALLED or (bool(function) and op.results[0].type == f64)


_CALLED = CALLED | {"powf", "cbrt"}
