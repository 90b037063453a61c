"""What may be a few units of f32 off (`rounded`) as ops of tt.

The hardware approximates exponentials and quotients of f32 in two or three instructions; exact ones take ten, and erf
thirty. In a softmax's code exponentials are 2**24 times as large, so that none of an f32 is too small for an
instruction that knows no number below 2**-126; sums are made right again.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import FloatAttr, f32, i32
from xdsl.ir import Operation, SSAValue

from ..dialects import tt
from ..dialects.tt_types import shape_of
from . import tt_math
from .tt_builder import TtBuilder


def exp(b: TtBuilder, x: SSAValue) -> SSAValue:
    """2**(x log2(e)), by ex2.approx."""
    return b.float(math.ExpOp, x)


def exp_of_sum(b: TtBuilder, x: SSAValue) -> SSAValue:
    """The same for a term of a sum that is at least 1: what is below 2**-126 is 0."""
    return exp2_of_sum(b, b.float(arith.MulfOp, x, b.constant(1.4426950408889634, f32)))


def exp2_of_sum(b: TtBuilder, x: SSAValue) -> SSAValue:
    """2**x for such a term: one instruction, without what others take for results below 2**-126."""
    return tt_math.external(b, "llvm.nvvm.ex2.approx.ftz.f", x)


def divide(b: TtBuilder, x: SSAValue, y: SSAValue) -> SSAValue:
    """x / y. Where lanes share a divisor, its inverse is computed once: (x r) k with r = 1 / (y k), where k keeps the
    inverse of a small divisor finite.
    """
    if len(shape_of(y.type)) >= len(shape_of(x.type)):
        return b.float(arith.DivfOp, x, y)
    one, small = b.constant(1.0, f32), b.compare("olt", b.float(math.AbsFOp, y), b.constant(2.0**-100, f32))
    k = b.select(small, b.constant(2.0**64, f32), one)
    r = b.float(arith.DivfOp, one, b.float(arith.MulfOp, y, k))
    return b.float(arith.MulfOp, b.float(arith.MulfOp, x, r), k)


def power(b: TtBuilder, x: SSAValue, most: SSAValue) -> SSAValue:
    """log2(2**24 exp(x - most)) in one step, x c + d. As c and d are a row's, all of it is off by as much as d is.
    Where d would overflow, numbers that are not equal differ by too much for any c to matter.
    """
    few = b.compare("olt", b.float(math.AbsFOp, most), b.constant(2.0**126, f32))
    c = b.select(few, b.constant(1.4426950408889634, f32), b.constant(1.0, f32))
    d = b.float(arith.SubfOp, b.constant(24.0, f32), b.float(arith.MulfOp, most, c))
    return tt_math.libdevice(b, "fma", x, c, d)


def weights(b: TtBuilder, total: SSAValue) -> SSAValue:
    """The sum of what `total` has 2**24 times."""
    return b.float(arith.MulfOp, total, b.constant(2.0**-24, f32))


def share(b: TtBuilder, x: SSAValue, y: SSAValue) -> SSAValue:
    """A weight x by a sum y, which is 1 at least."""
    return b.float(arith.MulfOp, x, b.float(arith.DivfOp, b.constant(2.0**-24, f32), y))


_ERFC = (1.6279086, 0.91841638, 0.14848159, -0.028253637, 0.00077456877, 0.0014894856, -0.00044552350, 4.5360837e-05)
"""-log2(erfc(a)) / a as a polynomial in a, by least squares weighted for the error of erfc: 2e-8 at most."""


def _erfc(b: TtBuilder, a: SSAValue, coefficients: Sequence[float]) -> SSAValue:
    """exp2(-a p(a)), erfc of a number that is not negative by the polynomial p."""
    p = b.constant(coefficients[-1], f32)
    for c in reversed(coefficients[:-1]):
        p = b.float(arith.AddfOp, b.float(arith.MulfOp, p, a), b.constant(c, f32))
    return exp2_of_sum(b, b.float(arith.MulfOp, b.float(arith.SubfOp, b.constant(-0.0, f32), a), p))


def erf(b: TtBuilder, x: SSAValue) -> SSAValue:
    """1 - erfc(|x|) with the sign of x, to 1e-7; near 0 the first term of the series."""
    a = b.float(math.AbsFOp, x)
    value = b.float(arith.SubfOp, b.constant(1.0, f32), _erfc(b, a, _ERFC))
    return _odd(b, x, a, value, 1.1283791671)


def tanh(b: TtBuilder, x: SSAValue) -> SSAValue:
    """1 - 2 / (1 + exp(2 |x|)) with the sign of x; near 0 the first term of the series."""
    a = b.float(math.AbsFOp, x)
    grown = exp2_of_sum(b, b.float(arith.MulfOp, a, b.constant(2.8853900818, f32)))
    share = b.float(arith.DivfOp, b.constant(2.0, f32), b.float(arith.AddfOp, grown, b.constant(1.0, f32)))
    return _odd(b, x, a, b.float(arith.SubfOp, b.constant(1.0, f32), share), 1.0)


_TAIL = (1.6281693, 0.9164005, 0.15387278, -0.035336837, 0.0059720396, -0.00070269362, 5.3794177e-05, -2.3894805e-06,
         4.6495215e-08)  # fmt: skip
"""-log2(erfc(a)) / a again, for the relative error of erfc up to a = 9.5: 8e-6, and 6e-5 from a = 3 on."""


def grown(op: Operation) -> Operation | None:
    """The erf or tanh that `op` adds 1 to, if nothing else reads it. Near -1 little would be left of its digits."""
    if not isinstance(op, arith.AddfOp):
        return None
    for one, other in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
        made = other.owner
        if isinstance(made, (math.ErfOp, math.TanhOp)) and len(list(other.uses)) == 1 and _is_one(one):
            return made
    return None


def _is_one(v: SSAValue) -> bool:
    value = v.owner.value if isinstance(v.owner, arith.ConstantOp) else None
    return isinstance(value, FloatAttr) and value.value.data == 1


def is_grown(op: Operation) -> bool:
    """Whether such a sum is made of an erf or tanh."""
    return any(grown(u.operation) is op for u in op.results[0].uses)


def one_and_erf(b: TtBuilder, x: SSAValue) -> SSAValue:
    """1 + erf(x): erfc(|x|), or what it lacks of 2."""
    a = b.float(math.AbsFOp, x)
    tail = _erfc(b, a, _TAIL)
    below = b.compare("olt", x, b.constant(0.0, f32))
    return b.select(below, tail, b.float(arith.SubfOp, b.constant(2.0, f32), tail))


def one_and_tanh(b: TtBuilder, x: SSAValue) -> SSAValue:
    """1 + tanh(x) = 2 / (1 + exp(-2 x))."""
    shrunk = exp2_of_sum(b, b.float(arith.MulfOp, x, b.constant(-2.8853900818, f32)))
    return b.float(arith.DivfOp, b.constant(2.0, f32), b.float(arith.AddfOp, shrunk, b.constant(1.0, f32)))


def _odd(b: TtBuilder, x: SSAValue, a: SSAValue, value: SSAValue, slope: float) -> SSAValue:
    """`value`, that of an odd function at a = |x|, with the sign of x; `slope` x where that is small."""
    sign = b.integer(arith.AndIOp, b.cast(tt.BitcastOp, x, i32), b.constant(-(2**31), i32))
    bits = b.integer(arith.OrIOp, b.cast(tt.BitcastOp, value, i32), sign)
    near = b.compare("olt", a, b.constant(2.0**-7, f32))
    return b.select(near, b.float(arith.MulfOp, x, b.constant(slope, f32)), b.cast(tt.BitcastOp, bits, f32))
