"""Which values of a kernel may be a few units of f32 off: those of which nothing but an f16 or bf16 is made.

The hardware approximates exponentials and quotients of f32 in two or three instructions; exact ones take ten, and erf
thirty. An error of 2**-21 is lost where the result is rounded to 8 or 11 bits, also after sums, products and
differences that cancel some of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import Float32Type, FloatAttr, f32, i32
from xdsl.ir import Operation, SSAValue

from ..dialects import tt
from ..dialects.loop import ForOp, KernelOp, LoadOp, ScratchOp, StoreOp, YieldOp, body_ops
from ..dialects.tensor import HALF_TYPES
from ..dialects.tt_types import shape_of
from . import tt_math
from .tile_online import alike
from .tt_builder import TtBuilder

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
        return isinstance(op.results[0].type, HALF_TYPES)
    if isinstance(op, YieldOp):
        loop = op.parent_op()
        if not isinstance(loop, ForOp) or len(loop.reduce.data) != len(loop.res):
            return False
        # a loop's results are used behind it, so what is said of these is known
        return loop.reduce.data[index].data in ("add", "max", "min") and _is_rounded(loop.res[index], found)
    if isinstance(op, StoreOp) and isinstance(op.target.owner, ScratchOp):
        return all(u.operation in found for u in op.target.uses if isinstance(u.operation, LoadOp))
    if isinstance(op, arith.SelectOp) and index == 0:
        return False
    return isinstance(op, _PASSING) and op in found


@dataclass(frozen=True, slots=True)
class Softmax:
    """Of a kernel's ops: x - m and exp(x - m), where m is the largest x, of which only their sum is made, and quotients
    by it that are rounded at once; these too. In code exponentials are 2**24 times as large, so that none of an f32 is
    too small for an instruction that knows no number below 2**-126; `sums` are made right again.
    """

    ops: frozenset[Operation] = frozenset()
    sums: frozenset[SSAValue] = frozenset()


def softmax(kernel: KernelOp, rounded: frozenset[Operation]) -> Softmax:
    """What there is of that among ops that may be off."""
    ops = list(body_ops(kernel.body))
    exps = {o: m for o in ops if isinstance(o, math.ExpOp) and o in rounded and (m := _largest(o)) is not None}
    sums: dict[SSAValue, SSAValue] = {
        r: exps[v.owner]
        for o in ops
        if isinstance(o, ForOp) and isinstance(last := o.body.block.last_op, YieldOp)
        for kind, v, r in zip(o.reduce.data, last.values, o.res, strict=False)
        if kind.data == "add" and isinstance(v.owner, math.ExpOp) and v.owner in exps
    }
    apart, shares = {cast(Operation, e.operands[0].owner) for e in exps}, set[Operation]()
    # an exponential is as large everywhere, or nowhere
    alone = all([_ends_in_shares(e.results[0], m, sums, shares) for e, m in exps.items()])
    alone = alone and all(u.operation in exps for o in apart for u in o.results[0].uses)
    alone = alone and all(u.operation in shares for r in sums for u in r.uses)
    if not alone or any(_written(o.operands[0]) - exps.keys() for o in shares):
        return Softmax()
    return Softmax(frozenset((*exps, *apart, *shares)), frozenset(sums))


def _largest(op: math.ExpOp) -> SSAValue | None:
    """m, where `op` is exp(x - m) and m the largest of all x."""
    apart, around = op.operands[0].owner, op.parent_op()
    loop = apart.operands[1].owner if isinstance(apart, arith.SubfOp) else None
    if not isinstance(loop, ForOp) or not isinstance(around, ForOp) or loop.dims != around.dims:
        return None
    last = loop.body.block.last_op
    if last is None or [k.data for k in loop.reduce.data] != ["max"] or not isinstance(apart, Operation):
        return None
    return loop.res[0] if alike(apart.operands[0], last.operands[0]) else None


def _ends_in_shares(
    weight: SSAValue, largest: SSAValue, sums: Mapping[SSAValue, SSAValue], shares: set[Operation]
) -> bool:
    """Whether nothing but sums, and rounded quotients by these, is made of a value of a row; the quotients are added to
    `shares`. `sums` have the row's largest value.
    """
    for use in weight.uses:
        op = use.operation
        if isinstance(op, StoreOp) and isinstance(op.target.owner, ScratchOp):
            loads = [u.operation for u in op.target.uses if isinstance(u.operation, LoadOp)]
            if not all(_ends_in_shares(o.res, largest, sums, shares) for o in loads):
                return False
        elif isinstance(op, arith.DivfOp) and use.index == 0 and sums.get(op.operands[1]) is largest:
            if not all(isinstance(u.operation, arith.TruncFOp) for u in op.results[0].uses):
                return False
            shares.add(op)
        elif not isinstance(op, YieldOp) or cast(ForOp, op.parent_op()).res[use.index] not in sums:
            return False
    return True


def _written(v: SSAValue) -> set[Operation]:
    """The op that a value is of, or those whose values are in the scratch that it is read from."""
    op = v.owner
    if isinstance(op, LoadOp):
        stores = [u.operation for u in op.source.uses if isinstance(u.operation, StoreOp)]
        return {o for s in stores for o in _written(s.value)} or {op}
    return {op} if isinstance(op, Operation) else set()


# What these ops are


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
