"""Elementwise ops of `prims` with two operands, the a and b of the equations."""

from __future__ import annotations

from abc import ABC
from typing import ClassVar, Self

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, opt_prop_def

from .prims_base import STRING
from .prims_elementwise import ANY, INTEGER, BinaryOp, CompareOp, FloatBinaryOp, IntegerBinaryOp
from .tensor import TensorType


@irdl_op_definition
class AddOp(BinaryOp):
    """result = a + b."""

    name = "prims.add"


@irdl_op_definition
class SubOp(BinaryOp):
    """result = a - b."""

    name = "prims.sub"


@irdl_op_definition
class MulOp(BinaryOp):
    """result = a * b."""

    name = "prims.mul"


@irdl_op_definition
class DivOp(FloatBinaryOp):
    """result = a / b."""

    name = "prims.div"


class IntegerDivisionOp(BinaryOp, ABC):
    """Integers divided by b = 0 are undefined without `message`, and raise what it says (raised.py) with it."""

    FIELDS: ClassVar = {"message": STRING}
    OPTIONAL: ClassVar[tuple[str, ...]] = ("message",)
    message = opt_prop_def(StringAttr)

    @classmethod
    def make(
        cls, lhs: SSAValue, rhs: SSAValue, result_type: TensorType | None = None, message: str | None = None
    ) -> Self:
        properties = {} if message is None else {"message": StringAttr(message)}
        return cls.create(operands=(lhs, rhs), result_types=(result_type or lhs.type,), properties=properties)


@irdl_op_definition
class DivTruncOp(IntegerDivisionOp):
    """result = a / b towards 0."""

    name = "prims.div_trunc"
    ACCEPTS: ClassVar[str] = INTEGER


@irdl_op_definition
class DivFloorOp(IntegerDivisionOp):
    """result = floor(a / b)."""

    name = "prims.div_floor"
    ACCEPTS: ClassVar[str] = INTEGER


@irdl_op_definition
class RemOp(IntegerDivisionOp):
    """result = a - b * trunc(a / b), C's fmod: the sign of a."""

    name = "prims.rem"


@irdl_op_definition
class PowOp(BinaryOp):
    """result = a^b; integers by wrapping multiplication, where a negative exponent gives 0 unless |a| = 1."""

    name = "prims.pow"


@irdl_op_definition
class Atan2Op(FloatBinaryOp):
    """The angle of (b, a), in [-pi, pi]."""

    name = "prims.atan2"


@irdl_op_definition
class CopysignOp(FloatBinaryOp):
    """|a| with the sign of b."""

    name = "prims.copysign"


@irdl_op_definition
class NextafterOp(FloatBinaryOp):
    """The next number after a in the direction of b."""

    name = "prims.nextafter"


@irdl_op_definition
class IgammaOp(FloatBinaryOp):
    """The share of gamma(a) that the integral of t^(a - 1) e^-t has from 0 to b; NaN below 0."""

    name = "prims.igamma"


@irdl_op_definition
class IgammacOp(FloatBinaryOp):
    """1 - igamma(a, b)."""

    name = "prims.igammac"


@irdl_op_definition
class HermiteHOp(FloatBinaryOp):
    """Hermite's polynomial of order b, cut off to a whole number, in a; the physicist's. 0 for b < 0."""

    name = "prims.hermite_h"


@irdl_op_definition
class HermiteHeOp(FloatBinaryOp):
    """Hermite's polynomial of order b in a, the probabilist's."""

    name = "prims.hermite_he"


@irdl_op_definition
class LaguerreOp(FloatBinaryOp):
    """Laguerre's polynomial of order b in a."""

    name = "prims.laguerre"


@irdl_op_definition
class LegendreOp(FloatBinaryOp):
    """Legendre's polynomial of order b in a."""

    name = "prims.legendre"


@irdl_op_definition
class MaximumOp(BinaryOp):
    """The larger; NaN if either is NaN; `or` for i1."""

    name = "prims.maximum"
    ACCEPTS: ClassVar[str] = ANY


@irdl_op_definition
class MinimumOp(BinaryOp):
    """The smaller; NaN if either is NaN; `and` for i1."""

    name = "prims.minimum"
    ACCEPTS: ClassVar[str] = ANY


@irdl_op_definition
class FmaxOp(FloatBinaryOp):
    """The larger; the other if one is NaN."""

    name = "prims.fmax"


@irdl_op_definition
class FminOp(FloatBinaryOp):
    """The smaller; the other if one is NaN."""

    name = "prims.fmin"


@irdl_op_definition
class AndOp(IntegerBinaryOp):
    """Bitwise; logical for i1."""

    name = "prims.and"


@irdl_op_definition
class OrOp(IntegerBinaryOp):
    """Bitwise; logical for i1."""

    name = "prims.or"


@irdl_op_definition
class XorOp(IntegerBinaryOp):
    """Bitwise; logical for i1."""

    name = "prims.xor"


@irdl_op_definition
class ShlOp(IntegerBinaryOp):
    """result = a << b, bits beyond the width are lost; 0 where b < 0 or b >= the width."""

    name = "prims.shl"


@irdl_op_definition
class ShrOp(IntegerBinaryOp):
    """result = a >> b, arithmetic for signed dtypes; shifts of the width and more, or below 0, leave only the sign."""

    name = "prims.shr"


class RandomBitsOp(IntegerBinaryOp):
    """Philox2x32-10 of key a: the same bits for the same operands. i64 only."""

    def verify_(self) -> None:
        super().verify_()
        self.expect_dtype("operands", self.tensor(self._operands[0]), "i64")


@irdl_op_definition
class PhiloxOp(RandomBitsOp):
    """64 random bits of counter b."""

    name = "prims.philox"


@irdl_op_definition
class Philox32Op(RandomBitsOp):
    """32 random bits, as a number that is not negative: the half of counter b >> 1 that is b's."""

    name = "prims.philox32"


@irdl_op_definition
class EqOp(CompareOp):
    """a == b."""

    name = "prims.eq"


@irdl_op_definition
class NeOp(CompareOp):
    """a != b."""

    name = "prims.ne"


@irdl_op_definition
class LtOp(CompareOp):
    """a < b."""

    name = "prims.lt"


@irdl_op_definition
class LeOp(CompareOp):
    """a <= b."""

    name = "prims.le"


@irdl_op_definition
class GtOp(CompareOp):
    """a > b."""

    name = "prims.gt"


@irdl_op_definition
class GeOp(CompareOp):
    """a >= b."""

    name = "prims.ge"
