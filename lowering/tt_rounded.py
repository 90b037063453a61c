"""Which values of a kernel may be a few units of f32 off: those of which nothing but an f16 or bf16 is made.

The hardware approximates exponentials and quotients of f32 in two or three instructions; exact ones take ten. An error
of 2**-21 is lost where the result is rounded to 8 or 11 bits, also after sums, products and differences that cancel
some of them.
"""

from __future__ import annotations

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type
from xdsl.ir import Operation, SSAValue

from ..dialects.loop import ForOp, KernelOp, YieldOp, body_ops

_PASSING = (arith.AddfOp, arith.SubfOp, arith.MulfOp, arith.DivfOp, arith.NegfOp, arith.MaximumfOp, arith.MinimumfOp,
            arith.SelectOp, math.SqrtOp, math.RsqrtOp)  # fmt: skip
"""Ops whose result is as much off as their operands are, about."""


def rounded(kernel: KernelOp) -> frozenset[Operation]:
    """The ops of a kernel whose results may be off."""
    found: set[Operation] = set()
    for op in reversed(list(body_ops(kernel.body))):
        floats = [r for r in op.results if isinstance(r.type, Float32Type)]
        if floats and len(floats) == len(op.results) and all(_is_rounded(r, found) for r in floats):
            found.add(op)
    return frozenset(found)


def _is_rounded(value: SSAValue, found: set[Operation]) -> bool:
    uses = list(value.uses)
    return bool(uses) and all(_rounds(u.operation, u.index, found) for u in uses)


def _rounds(op: Operation, index: int, found: set[Operation]) -> bool:
    """Whether an operand of `op` may be off."""
    if isinstance(op, arith.TruncFOp):
        return isinstance(op.results[0].type, (BFloat16Type, Float16Type))
    if isinstance(op, YieldOp):
        loop = op.parent_op()
        if not isinstance(loop, ForOp) or len(loop.reduce.data) != len(loop.res):
            return False
        # a loop's results are used behind it, so what is said of these is known
        return loop.reduce.data[index].data in ("add", "max", "min") and _is_rounded(loop.res[index], found)
    if isinstance(op, arith.SelectOp) and index == 0:
        return False
    return isinstance(op, _PASSING) and op in found
