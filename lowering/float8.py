"""The 8-bit floats, as bits in u8, to and from f32, in integer arithmetic that gives torch's bits.

A format has exponent and fraction bits and a bias; "fn" forms have no infinity, "fnuz" forms no negative zero either,
and NaN in its place. Rounding is to nearest even; what is too large becomes NaN, infinity where there is one, or the
largest number: that depends on torch's version, which is asked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import torch

from ..dialects import prims
from .prims_builder import Value


@dataclass(frozen=True)
class Format:
    """`overflow`: the bits of f32 from which on numbers are too large. `large`: the bits of what these become."""

    fraction: int
    bias: int
    overflow: int
    large: int
    nan: int
    infinite: bool = False
    unsigned_zero: bool = False

    @property
    def moved(self) -> int:
        """How far the fraction moves on the way to f32."""
        return 23 - self.fraction


SATURATES: Final = bool(torch.tensor(1e9).to(torch.float8_e4m3fn).float().isfinite())

FORMATS: Final = {
    "f8e4m3fn": Format(3, 7, 0x43E80000, 0x7E, 0x7F) if SATURATES else Format(3, 7, 0x43F00000, 0x7F, 0x7F),
    "f8e5m2": Format(2, 15, 0x47800000, 0x7C, 0x7F, infinite=True),
    "f8e4m3fnuz": Format(3, 8, 0x43800000, 0x80, 0x80, unsigned_zero=True),
    "f8e5m2fnuz": Format(2, 16, 0x47800000, 0x80, 0x80, unsigned_zero=True),
}
"""As c10 defines them."""

SIGN: Final = 1 << 31


def _shl(x: Value, count: int) -> Value:
    return x.binary(prims.ShlOp.make, count)


def _shr(x: Value, count: int) -> Value:
    """Of bits without a sign."""
    return x.binary(prims.ShrOp.make, count)


def to_f32(x: Value, format: Format) -> Value:
    """The numbers that u8 bits stand for: exponent and fraction in place, as a float 2^(127 - bias) times too small."""
    wide = x.to("i32")
    f32 = wide.type.with_(dtype="f32")
    size = _shl(wide & 0x7F, format.moved)
    number = size.bitcast(f32) * 2.0 ** (127 - format.bias)
    if format.unsigned_zero:  # its NaN, which has the sign's bit, is not negative
        return wide.eq(format.nan).where(float("nan"), (wide > 0x7F).where(-number, number))
    if not format.infinite:
        number = (wide & 0x7F).eq(format.nan).where(float("nan"), number)
    else:
        beyond = (wide & 0x7F) - format.large  # 0 is inf, what is above NaN
        number = beyond.eq(0).where(float("inf"), (beyond > 0).where(float("nan"), number))
    return (wide > 0x7F).where(-number, number)


def from_f32(x: Value, format: Format) -> Value:
    """Bits in u8. Denormal results are rounded by adding a number whose last place is theirs."""
    bits = x.bitcast(x.type.with_(dtype="i32"))
    size = bits & (SIGN - 1)
    least = 128 - format.bias  # the exponent of the smallest normal number
    shift = (least + format.moved) << 23
    denormal = (size.bitcast(x.type) + x.full(2.0 ** (least + format.moved - 127))).bitcast(size.type) - shift
    odd = _shr(size, format.moved) & 1
    normal = _shr(size + (((format.bias - 127) << 23) + (1 << (format.moved - 1)) - 1) + odd, format.moved)
    result = (size < (least << 23)).where(denormal, normal)
    sign = _shr(bits, 24) & 0x80
    result = (size >= format.overflow).where(format.large, result)
    if format.nan != format.large:
        result = (size > 0x7F800000).where(format.nan, result)
    if format.unsigned_zero:
        sign = (result.eq(0) | result.eq(format.nan)).where(0, sign)
    return (result | sign).to("u8")


def converted(x: Value, dtype: str) -> Value:
    """From or to one of the formats, by f32 as eager."""
    if x.dtype in FORMATS:
        x = to_f32(x.bitcast(x.type.with_(dtype="u8")), FORMATS[x.dtype])
    if dtype not in FORMATS:
        return x.to(dtype)
    bits = from_f32(x.to("f32"), FORMATS[dtype])
    return bits.bitcast(bits.type.with_(dtype=dtype))
