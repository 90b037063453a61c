"""Which values of a kernel may be a few units of f32 off: those of which nothing but an f16 or bf16 is made.

The hardware approximates exponentials and quotients of f32 in two or three instructions; exact ones take ten, and erf
thirty. An error of 2**-21 is lost where the result is rounded to 8 or 11 bits, also after sums, products and
differences that cancel some of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type, f32, i32
from xdsl.ir import Operation, SSAValue

from ..dialects import tt
from ..dialects.loop import ForOp, KernelOp, LoadOp, ScratchOp, StoreOp, YieldOp, body_ops
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
        return isinstance(op.results[0].type, (BFloat16Type, Float16Type))
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
    """Of a kernel's ops: exp(x - m), where m is the largest x, of which only their sum and quotients by it are made,
    and these quotients, which are rounded at once. In code the exponentials are 2**24 times as large, so that none that
    f32 holds is too small for an instruction that knows no number below 2**-126; `sums` of them are made right again.
    """

    ops: frozenset[Operation] = frozenset()
    sums: frozenset[SSAValue] = frozenset()


def softmax(kernel: KernelOp, rounded: frozenset[Operation]) -> Softmax:
    """What there is of that among ops that may be off."""
    ops = list(body_ops(kernel.body))
    exps = {o for o in ops if isinstance(o, math.ExpOp) and o in rounded and _is_below_largest(o)}
    sums: dict[SSAValue, Operation | None] = {}
    for loop in ops:
        last = loop.body.block.last_op if isinstance(loop, ForOp) else None
        if not isinstance(loop, ForOp) or last is None:
            continue
        kinds = [k.data for k in loop.reduce.data]
        if kinds == ["expsum"]:
            sums[loop.res[1]] = None
        for kind, v, r in zip(kinds, last.operands, loop.res, strict=False):
            if kind == "add" and v.owner in exps:
                sums[r] = cast(Operation, v.owner)
    shares: dict[Operation, set[Operation]] = {}
    kept = {e for e in exps if _ends_in_shares(e.results[0], e, sums, shares)}
    taken = {o for o, made in shares.items() if made <= kept and _written(o.operands[0]) <= kept}
    # an exponential is as large everywhere, or nowhere
    if {o for o in shares if o not in taken} or exps - kept:
        return Softmax()
    return Softmax(frozenset((*kept, *taken)), frozenset(r for r, e in sums.items() if e is not None))


def _is_below_largest(op: math.ExpOp) -> bool:
    """Whether `op` is exp(x - m), with m the largest of all x."""
    apart = op.operands[0].owner
    largest = apart.operands[1].owner if isinstance(apart, arith.SubfOp) else None
    around = op.parent_op()
    if not isinstance(largest, ForOp) or not isinstance(around, ForOp) or largest.dims != around.dims:
        return False
    kinds, last = [k.data for k in largest.reduce.data], largest.body.block.last_op
    if last is None or apart.operands[1] is not largest.res[0] or kinds[:1] not in (["max"], ["expsum"]):
        return False
    return alike(apart.operands[0], last.operands[0])


def _ends_in_shares(
    weight: SSAValue, e: Operation, sums: Mapping[SSAValue, Any], shares: dict[Operation, set[Operation]]
) -> bool:
    """Whether nothing but sums and rounded quotients by `sums` are made of a value, which is `e`'s; these become
    `shares` of it.
    """
    for use in weight.uses:
        op = use.operation
        if isinstance(op, StoreOp) and isinstance(op.target.owner, ScratchOp):
            loads = [u.operation for u in op.target.uses if isinstance(u.operation, LoadOp)]
            if not all(_ends_in_shares(o.res, e, sums, shares) for o in loads):
                return False
        elif isinstance(op, arith.DivfOp) and use.index == 0 and op.operands[1] in sums:
            if not all(isinstance(u.operation, arith.TruncFOp) for u in op.results[0].uses):
                return False
            shares.setdefault(op, set()).add(e)
        elif not isinstance(op, YieldOp) or not any(r in sums for r in _results(op, use.index)):
            return False
    return True


def _results(op: YieldOp, index: int) -> list[SSAValue]:
    """What a loop makes of the value that it yields there."""
    loop = op.parent_op()
    return [loop.res[index]] if isinstance(loop, ForOp) and index < len(loop.res) else []


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


def weight(b: TtBuilder, x: SSAValue) -> SSAValue:
    """2**24 exp(x), for a softmax."""
    power = b.float(arith.MulfOp, x, b.constant(1.4426950408889634, f32))
    return exp2_of_sum(b, b.float(arith.AddfOp, power, b.constant(24.0, f32)))


def weights(b: TtBuilder, total: SSAValue) -> SSAValue:
    """The sum of what `total` has 2**24 times."""
    return b.float(arith.MulfOp, total, b.constant(2.0**-24, f32))


def share(b: TtBuilder, x: SSAValue, y: SSAValue) -> SSAValue:
    """A weight x by a sum y, which is 1 at least."""
    return b.float(arith.MulfOp, x, b.float(arith.DivfOp, b.constant(2.0**-24, f32), y))


_ERFC = (1.6279086, 0.91841638, 0.14848159, -0.028253637, 0.00077456877, 0.0014894856, -0.00044552350, 4.5360837e-05)
"""-log2(erfc(a)) / a as a polynomial in a, by least squares weighted for the error of erfc: 2e-8 at most."""


def erf(b: TtBuilder, x: SSAValue) -> SSAValue:
    """1 - erfc(|x|) with the sign of x, to 1e-7; near 0 the first term of the series."""
    a = b.float(math.AbsFOp, x)
    p = b.constant(_ERFC[-1], f32)
    for c in reversed(_ERFC[:-1]):
        p = b.float(arith.AddfOp, b.float(arith.MulfOp, p, a), b.constant(c, f32))
    exponent = b.float(arith.MulfOp, b.float(arith.SubfOp, b.constant(-0.0, f32), a), p)
    value = b.float(arith.SubfOp, b.constant(1.0, f32), exp2_of_sum(b, exponent))
    return _odd(b, x, a, value, 1.1283791671)


def tanh(b: TtBuilder, x: SSAValue) -> SSAValue:
    """1 - 2 / (1 + exp(2 |x|)) with the sign of x; near 0 the first term of the series."""
    a = b.float(math.AbsFOp, x)
    grown = exp2_of_sum(b, b.float(arith.MulfOp, a, b.constant(2.8853900818, f32)))
    share = b.float(arith.DivfOp, b.constant(2.0, f32), b.float(arith.AddfOp, grown, b.constant(1.0, f32)))
    return _odd(b, x, a, b.float(arith.SubfOp, b.constant(1.0, f32), share), 1.0)


def _odd(b: TtBuilder, x: SSAValue, a: SSAValue, value: SSAValue, slope: float) -> SSAValue:
    """`value`, that of an odd function at a = |x|, with the sign of x; `slope` x where that is small."""
    sign = b.integer(arith.AndIOp, b.cast(tt.BitcastOp, x, i32), b.constant(-(2**31), i32))
    bits = b.integer(arith.OrIOp, b.cast(tt.BitcastOp, value, i32), sign)
    near = b.compare("olt", a, b.constant(2.0**-7, f32))
    return b.select(near, b.float(arith.MulfOp, x, b.constant(slope, f32)), b.cast(tt.BitcastOp, bits, f32))
