"""f16 and bf16, kept as their bits in i16, to and from f32; with the target's instructions or in integer arithmetic.

Rounding is to nearest even, denormals are kept and NaN stays NaN. LLVM's own conversions are used only where they are
instructions, never where they would be calls.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from xdsl.dialects import llvm
from xdsl.dialects.builtin import BFloat16Type, Float16Type, bf16, f16, f32, i1, i8, i16, i32
from xdsl.ir import Attribute, SSAValue

from .llvm_builder import FunctionBuilder, lanes_of, vector


def half_bits(value: float, type: Attribute) -> int:
    """The bits of a number rounded to f16 or bf16."""
    if isinstance(type, Float16Type):
        try:
            return struct.unpack("<H", struct.pack("<e", value))[0]
        except OverflowError:
            return 0x7C00 if value > 0 else 0xFC00
    try:
        bits = struct.unpack("<I", struct.pack("<f", value))[0]
    except OverflowError:
        bits = 0x7F800000 if value > 0 else 0xFF800000
    return (bits >> 16) | 0x40 if value != value else (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16


def to_f32(b: FunctionBuilder, bits: SSAValue, type: Attribute, target: Any) -> SSAValue:
    """The number that f16 or bf16 bits stand for."""
    if isinstance(type, BFloat16Type):
        if target.has_avx512_vbmi and lanes_of(bits) in (16, 32):
            return _bf16_by_bytes(b, bits)
        wide = b.cast(llvm.ZExtOp, bits, i32)
        return b.cast(llvm.BitcastOp, b.shl(wide, b.constant(16, wide.type)), f32)
    if target.has_f16c:
        return b.cast(llvm.FPExtOp, b.cast(llvm.BitcastOp, bits, f16), f32)
    return _f16_to_f32(b, bits)


def from_f32(b: FunctionBuilder, value: SSAValue, type: Attribute, target: Any, rounds: bool = True) -> SSAValue:
    """f32 rounded to f16 or bf16, as bits; a value that is one already need not be rounded."""
    if isinstance(type, BFloat16Type):
        if rounds and target.has_avx512_bf16 and lanes_of(value) in (16, 32):
            return _by_instruction(b, *(_halves(b, value) if lanes_of(value) == 32 else (value,)))
        return _f32_to_bf16(b, value) if rounds else _high_half(b, b.cast(llvm.BitcastOp, value, i32))
    if target.has_f16c:
        return b.cast(llvm.BitcastOp, b.cast(llvm.FPTruncOp, value, f16), i16)
    return _f32_to_f16(b, value)


def _bf16_by_bytes(b: FunctionBuilder, bits: SSAValue) -> SSAValue:
    """16 or 32 bf16 as f32, each 16 by one instruction that puts bytes in their places; two would be a widening and a
    shift, which is what LLVM makes of places that it knows.
    """
    if lanes_of(bits) == 32:
        low, high = (_bf16_by_bytes(b, v) for v in _halves(b, bits))
        return b.shuffle(low, high, range(32))
    source = b.pure(llvm.BitcastOp, (b.shuffle(bits, b.constant(0, bits.type), range(32)),), vector(i8, 64))
    places = b.opaque([place for i in range(16) for place in (63, 63, 2 * i, 2 * i + 1)], i8)
    moved = b.intrinsic("x86.avx512.permvar.qi.512", (source, places), source.type)
    return b.pure(llvm.BitcastOp, (moved,), vector(f32, 16))


def _halves(b: FunctionBuilder, value: SSAValue) -> list[SSAValue]:
    """32 lanes as twice 16."""
    return [b.shuffle(value, value, range(at, at + 16)) for at in (0, 16)]


def pairs_to_bf16(b: FunctionBuilder, values: Sequence[SSAValue], target: Any) -> list[SSAValue] | None:
    """Vectors of f32 rounded to bf16 two by two, which takes as long as one; None where that is not to be had."""
    if not target.has_avx512_bf16 or len(values) % 2 or any(lanes_of(v) != 16 for v in values):
        return None
    pairs = zip(values[::2], values[1::2], strict=True)
    return [half for low, high in pairs for half in _halves(b, _by_instruction(b, low, high))]


def _by_instruction(b: FunctionBuilder, *values: SSAValue) -> SSAValue:
    """16 numbers, or twice 16 as 32, by the target's instructions, which take denormals for zero: where there are any,
    in integers.
    """
    if len(values) == 1:
        rounded = b.cast(llvm.FPTruncOp, values[0], bf16)
    else:
        low, high = values
        rounded = b.intrinsic("x86.avx512bf16.cvtne2ps2bf16.512", (high, low), vector(bf16, 32))
    bits = b.cast(llvm.BitcastOp, rounded, i16)
    kind = b.constant(_DENORMAL, i32)
    some: SSAValue | None = None
    for v in values:
        denormal = b.intrinsic("x86.avx512.fpclass.ps.512", (v, kind), vector(i1, 16))
        some = denormal if some is None else b.binary(llvm.OrOp, some, denormal)
    assert some is not None
    some = b.intrinsic("vector.reduce.or", (some,), i1)

    def exactly() -> list[SSAValue]:
        parts = [_f32_to_bf16(b, v) for v in values]
        return [parts[0] if len(parts) == 1 else b.shuffle(parts[0], parts[1], range(32))]

    return b.when(some, exactly, [bits])[0]


_DENORMAL = 0x20
"""The class of denormals, as `vfpclassps` names them."""


def _f32_to_bf16(b: FunctionBuilder, value: SSAValue) -> SSAValue:
    return _high_half(b, bf16_on_top(b, value))


def bf16_on_top(
    b: FunctionBuilder, value: SSAValue, target: Any = None, tame: bool = False, ties: bool = True
) -> SSAValue:
    """Integers whose high half is f32 rounded to bf16: just under half a unit is added, one more if that half is odd.
    NaN must not be carried to zero, which happens to none that ends in zeros (`tame`). What is in the middle only by
    chance may be rounded up (not `ties`).
    """
    by_class = target is not None and target.has_avx512 and lanes_of(value) == 16
    if by_class and not tame:
        table, all_lanes = b.constant(_QUIET, vector(i32, 16)), b.constant(-1, i16)
        rest = (table, b.constant(0, i32), all_lanes, b.constant(4, i32))
        value = b.intrinsic("x86.avx512.mask.fixupimm.ps.512", (value, value, *rest), value.type)
    bits = b.cast(llvm.BitcastOp, value, i32)

    def number(n: int) -> SSAValue:
        return b.constant(n, bits.type)

    if not ties and (tame or by_class):
        return b.add(bits, number(0x8000))
    if by_class and target is not None and target.has_avx512_vnni:
        # both are added by one instruction, as products of 16 bits with 1
        parts = b.binary(llvm.OrOp, b.binary(llvm.AndOp, bits, number(0x10000)), number(0x7FFF))
        words = vector(i16, 32)
        ones = b.constant(1, words)
        return b.intrinsic("x86.avx512.vpdpwssd.512", (bits, b.pure(llvm.BitcastOp, (parts,), words), ones), bits.type)
    odd = b.binary(llvm.AndOp, b.binary(llvm.LShrOp, bits, number(16)), number(1))
    rounded = b.add(b.add(bits, number(0x7FFF)), odd)
    if tame or by_class:
        return rounded
    return b.select(b.fcmp("uno", value, value), number(0x7FC00000), rounded)


_QUIET = 0x33
"""`vfixupimmps` gives the default NaN for both kinds of NaN, and leaves all else."""


def _high_half(b: FunctionBuilder, bits: SSAValue) -> SSAValue:
    return b.cast(llvm.TruncOp, b.binary(llvm.LShrOp, bits, b.constant(16, bits.type)), i16)


def _f16_to_f32(b: FunctionBuilder, bits: SSAValue) -> SSAValue:
    """Exponent and fraction moved into place as a float 2**112 too small, scaled up exactly; inf and NaN by hand."""
    wide = b.cast(llvm.ZExtOp, bits, i32)

    def number(n: int) -> SSAValue:
        return b.constant(n, wide.type)

    size = b.shl(b.binary(llvm.AndOp, wide, number(0x7FFF)), number(13))
    small = b.cast(llvm.BitcastOp, size, f32)
    scaled = b.cast(llvm.BitcastOp, b.fmul(small, b.constant(2.0**112, small.type)), i32)
    special = b.icmp("uge", size, number(0x7C00 << 13))
    size = b.select(special, b.binary(llvm.OrOp, size, number(0x7F800000)), scaled)
    sign = b.shl(b.binary(llvm.AndOp, wide, number(0x8000)), number(16))
    return b.cast(llvm.BitcastOp, b.binary(llvm.OrOp, size, sign), f32)


def _f32_to_f16(b: FunctionBuilder, value: SSAValue) -> SSAValue:
    """Normal results by rounding the bits; denormal ones by adding 0.5, whose last place is f16's least denormal."""
    bits = b.cast(llvm.BitcastOp, value, i32)

    def number(n: int) -> SSAValue:
        return b.constant(n, bits.type)

    size = b.binary(llvm.AndOp, bits, number(0x7FFFFFFF))
    sign = b.binary(llvm.LShrOp, b.binary(llvm.AndOp, bits, number(0x80000000)), number(16))
    odd = b.binary(llvm.AndOp, b.binary(llvm.LShrOp, size, number(13)), number(1))
    biased = b.add(b.add(size, number(0xFFF - (112 << 23))), odd)
    normal = b.binary(llvm.LShrOp, biased, number(13))
    half = b.constant(0.5, value.type)
    shifted = b.cast(llvm.BitcastOp, b.fadd(b.cast(llvm.BitcastOp, size, f32), half), i32)
    denormal = b.sub(shifted, number(0x3F000000))
    result = b.select(b.icmp("ult", size, number(113 << 23)), denormal, normal)
    result = b.select(b.icmp("uge", size, number(0x47800000)), number(0x7C00), result)
    result = b.select(b.icmp("ugt", size, number(0x7F800000)), number(0x7E00), result)
    return b.cast(llvm.TruncOp, b.binary(llvm.OrOp, result, sign), i16)
