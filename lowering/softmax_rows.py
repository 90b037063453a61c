"""A softmax that is rounded to f16 or bf16: of all exponentials of a row only shares in their sum are made, so that
they may all be so many times as large.

    e^(x - m) / s = 2^y / t,  y = x c - k,  with c = log2(e) and k the whole number next to m c

A step less for each, and no less exact: c and k are a row's, and y is rounded once. The sum is between 0.7 and 1.5
times the number of points, whose reciprocal needs no care.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xdsl.dialects import llvm
from xdsl.ir import Operation, SSAValue

from ..dialects.loop import KernelOp
from .llvm_builder import lanes_of
from .llvm_properties import NO_FLAGS
from .rounded import Softmax, rounded, softmax

if TYPE_CHECKING:
    from .scalar_to_llvm import ScalarCode

LOG2_E = 1.4426950408889634
LARGE = 2.0**30
"""From here on m c is rounded by more than a sum of powers of two can take, and numbers that differ do so by 64 at
least: what is not the largest is next to nothing for any c.
"""


def ops_of(kernel: KernelOp, target: Any) -> frozenset[Operation]:
    """The differences, exponentials and quotients of a kernel that are computed so, and the loops that find the largest
    of a row's numbers, of any softmax.
    """
    found = softmax(kernel, rounded(kernel)) if target.has_avx512 else Softmax()
    return found.ops | found.largest | softmax(kernel).largest


def power(s: ScalarCode, x: SSAValue, m: SSAValue) -> SSAValue:
    """y, for the exponential of x - m."""
    b = s.b
    few = b.fcmp("olt", b.intrinsic("fabs", (m,), m.type), s.same(LARGE, m))
    c = b.select(few, s.same(LOG2_E, m), s.same(1.0, m))
    near = b.intrinsic("rint", (b.pure(llvm.FMulOp, (m, c), m.type, NO_FLAGS),), m.type)
    k = b.pure(llvm.FNegOp, (near,), m.type, NO_FLAGS)
    lanes = lanes_of(x)
    return b.intrinsic("fma", [v if lanes == 1 else b.splat(v, lanes) for v in (x, c, k)], x.type)


def share(s: ScalarCode, x: SSAValue, total: SSAValue) -> SSAValue:
    """x / total."""
    b = s.b
    inverse = b.fdiv(s.same(1.0, total), total)
    x, inverse = b.same_lanes(x, inverse)
    return b.pure(llvm.FMulOp, (x, inverse), x.type, NO_FLAGS)
