"""Division in kernel bodies: of floats by what all lanes share, of integers without traps."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from xdsl.dialects import arith, llvm, math
from xdsl.dialects.builtin import FloatAttr, IntegerType, f32, f64, i16, i32
from xdsl.ir import Operation, SSAValue

from ..dialects import llvm_ext
from ..dialects.loop import ForOp, LoadOp, StoreOp, YieldOp
from .llvm_builder import FunctionBuilder, bits_of, element_of, lanes_of
from .llvm_properties import NO_FLAGS
from .narrowed import ALL, OF_BF16, digits
from .softmax_rows import share

if TYPE_CHECKING:
    from .scalar_to_llvm import ScalarCode


def divide_floats(s: ScalarCode, op: Operation, v: list[SSAValue]) -> SSAValue:
    """x / y; where all lanes share y, by its reciprocal, and then as exactly as a division by Markstein's correction,
    unless that is of no use (`_needs_all_digits`).

    q = x * (1 / y);  q + (x - q * y) * (1 / y)
    """
    b, (x, y) = s.b, v
    if op in s.softmax:
        return share(s, x, y)
    lanes, type = lanes_of(x), element_of(x)
    # without contractions an element has the same bits in a vector and alone
    loose = b.float_flags is not NO_FLAGS
    if (
        loose
        and lanes_of(y) == 16
        and type == f32
        and s.target.has_avx512
        and _grows(op)
        and (kept := digits(op.results[0])) < ALL
    ):
        return _by_estimate(b, b.splat(x, 16), y, kept)
    if lanes == 1 or lanes_of(y) > 1 or not s.target.has_fma:
        return b.fdiv(x, y)
    one = s.same(1.0, y)
    if op.operands[1] not in s.totals:
        # neither 1 / y may overflow nor lose digits: both are scaled where y is so small or large
        small, large, scale = (2.0**-900, 2.0**900, 2.0**512) if type == f64 else (2.0**-100, 2.0**100, 2.0**64)
        size = b.intrinsic("fabs", (y,), type)
        factor = b.select(b.fcmp("ogt", size, s.same(large, y)), s.same(1 / scale, y), one)
        factor = b.select(b.fcmp("olt", size, s.same(small, y)), s.same(scale, y), factor)
        x, y = b.fmul(x, factor), b.fmul(y, factor)
    x, y, inverse = (b.splat(z, lanes) for z in (x, y, b.fdiv(one, y)))
    quotient = b.pure(llvm.FMulOp, (x, inverse), x.type, NO_FLAGS)
    if loose and not _needs_all_digits(op):
        return quotient
    rest = b.intrinsic("fma", (b.pure(llvm.FNegOp, (quotient,), x.type, NO_FLAGS), y, x), x.type)
    exact = b.intrinsic("fma", (rest, inverse, quotient), x.type)
    # with infinities the rest is not a number, and the correction of a zero has no sign
    return b.select(b.fcmp("one", exact, s.same(0.0, exact)), exact, quotient)


def _by_estimate(b: FunctionBuilder, x: SSAValue, y: SSAValue, kept: int) -> SSAValue:
    """x / y for y >= 1 by an instruction's 14 digits of 1 / y and, but for bf16, a correction: a quarter of the time of
    a division.

    q = x * r;  q + (x - q * y) * r
    """
    operands = (y, b.constant(0.0, y.type), b.constant(-1, i16))
    r = b.intrinsic("x86.avx512.rcp14.ps.512", operands, y.type)
    quotient = b.pure(llvm.FMulOp, (x, r), x.type, NO_FLAGS)
    if kept <= OF_BF16:
        return quotient
    rest = b.intrinsic("fma", (b.pure(llvm.FNegOp, (quotient,), x.type, NO_FLAGS), y, x), x.type)
    better = b.intrinsic("fma", (rest, r, quotient), x.type)
    # of infinities the rest is not a number, and the correction of a zero has no sign
    return b.select(b.fcmp("one", better, b.constant(0.0, better.type)), better, quotient)


def _grows(op: Operation) -> bool:
    """Whether a divisor is 1 + e^x, as a sigmoid's."""
    total = op.operands[1].owner
    if not isinstance(total, arith.AddfOp):
        return False
    ones = [v for v in total.operands if isinstance(o := v.owner, arith.ConstantOp) and _is_one(o)]
    return len(ones) == 1 and any(isinstance(v.owner, math.ExpOp) for v in total.operands)


def _is_one(op: arith.ConstantOp) -> bool:
    return isinstance(op.value, FloatAttr) and op.value.value.data == 1.0


def _needs_all_digits(op: Operation) -> bool:
    """Whether a quotient is neither rounded to 16 bits nor a softmax's: the share of an exponential, which has an error
    of its own, in the sum of such.
    """
    if digits(op.results[0]) < ALL:
        return False
    share, total = (v.owner for v in op.operands)
    if not isinstance(total, ForOp) or not isinstance(share, LoadOp) or len(total.res) != len(total.reduce.data):
        return True
    k = total.res.index(op.operands[1])
    term = cast(YieldOp, total.body.block.last_op).values[k]
    stores = [use.operation for use in share.source.uses if isinstance(use.operation, StoreOp)]
    stored = [o.value for o in stores]
    return total.reduce.data[k].data != "add" or not isinstance(term.owner, math.ExpOp) or stored != [term]


def _safe_divisor(s: ScalarCode, x: SSAValue, y: SSAValue, signed: bool) -> tuple[SSAValue, SSAValue | None]:
    """A divisor that cannot trap, and where it stands for -1 (x / -1 overflows for the least x). 0 becomes 1."""
    b, known = s.b, s.b.literal(y)
    if known is not None and known not in (0, -1):
        return y, None
    one = s.same(1, y)
    y = b.select(b.icmp("eq", y, s.same(0, y)), one, y)
    if not signed:
        return y, None
    minus = b.icmp("eq", y, s.same(-1, y))
    return b.select(minus, one, y), minus


def divide(s: ScalarCode, x: SSAValue, y: SSAValue, signed: bool = True) -> SSAValue:
    """x / y towards zero; x / 0 is x."""
    b = s.b
    x, y = b.same_lanes(x, y)
    divisor, minus = _safe_divisor(s, x, y, signed)
    quotient = _divide_vectors(b, x, divisor, signed)
    if quotient is None:
        quotient = b.binary(llvm.SDivOp if signed else llvm.UDivOp, x, divisor)
    return quotient if minus is None else b.select(minus, b.sub(s.same(0, x), x), quotient)


def remainder(s: ScalarCode, x: SSAValue, y: SSAValue, signed: bool = True) -> SSAValue:
    """x - y * divide(x, y)."""
    b = s.b
    x, y = b.same_lanes(x, y)
    divisor, _ = _safe_divisor(s, x, y, signed)
    quotient = _divide_vectors(b, x, divisor, signed)
    if quotient is None:
        return b.binary(llvm.SRemOp if signed else llvm.URemOp, x, divisor)
    return b.sub(x, b.mul(quotient, divisor))


def _divide_vectors(b: FunctionBuilder, x: SSAValue, divisor: SSAValue, signed: bool) -> SSAValue | None:
    """x / divisor of vectors, which machines divide as floats only; None for one number, for i64 and u32, and for a
    divisor that is known, by which is multiplied.

    A float has so many more digits (24 for 16, 53 for 32) that no quotient is rounded up to a whole number.
    """
    bits = bits_of(x)
    if lanes_of(x) == 1 or b.literal(divisor) is not None or bits > (32 if signed else 16):
        return None
    type = f64 if bits == 32 else f32
    floats = [b.cast(llvm.SIToFPOp, b.resize(v, i32, signed), type) for v in (x, divisor)]
    return b.resize(b.cast(llvm_ext.FPToSIOp, b.fdiv(*floats), i32), IntegerType(bits))


def round_towards(s: ScalarCode, op: Operation, v: list[SSAValue], up: bool) -> SSAValue:
    """The quotient rounded down (or up): moved by one where the division left a rest and the signs differ (agree)."""
    b = s.b
    x, y = b.same_lanes(*v)
    quotient, rest = divide(s, x, y), remainder(s, x, y)
    zero = s.same(0, x)
    signs = b.icmp("sge" if up else "slt", b.binary(llvm.XOrOp, x, y), zero)
    moved = b.binary(llvm.AndOp, signs, b.icmp("ne", rest, zero))
    return b.select(moved, b.add(quotient, s.same(1 if up else -1, x)), quotient)


def ceil_unsigned(s: ScalarCode, op: Operation, v: list[SSAValue]) -> SSAValue:
    quotient, rest = divide(s, v[0], v[1], False), remainder(s, v[0], v[1], False)
    return s.b.select(s.b.icmp("ne", rest, s.same(0, rest)), s.b.add(quotient, s.same(1, rest)), quotient)
