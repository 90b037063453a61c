"""The scalar form of each elementwise prims op, by class of dtype: an op with the same operands, or a builder."""

from __future__ import annotations

import math as numbers
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import IntegerType, i64
from xdsl.ir import Operation, SSAValue

from ..dialects import prims
from ..dialects.tensor import TensorType, is_float, scalar_type
from .prims_to_loop_body import Body, dtype_class, is_computable

Build: TypeAlias = Callable[..., SSAValue]
"""`build(body, *operands)`: append ops, give the result."""
Column: TypeAlias = type[Operation] | Build | None


class Row(NamedTuple):
    """The scalar form for floats, signed and unsigned integers, and bool; None where the op is not defined."""

    floats: Column = None
    signed: Column = None
    unsigned: Column = None
    bools: Column = None


def integers(op: Column) -> Row:
    """One form for all integers and bool."""
    return Row(None, op, op, op)


def _function(name: str) -> Build:
    return lambda b, *operands: b.function(name, *operands)


def _compare(floats: str, signed: str, unsigned: str) -> Row:
    def column(predicate: str) -> Build:
        return lambda b, x, y: b.compare(predicate, x, y)

    return Row(column(floats), column(signed), column(unsigned), column(unsigned))


def _width(x: SSAValue) -> int:
    assert isinstance(x.type, IntegerType)
    return x.type.width.data


def _same(b: Body, x: SSAValue) -> SSAValue:
    return x


def _neg(b: Body, x: SSAValue) -> SSAValue:
    """-x = 0 - x."""
    return b.add(arith.SubiOp, b.constant(0, x.type), x)


def _not(b: Body, x: SSAValue) -> SSAValue:
    """~x = x ^ -1."""
    return b.add(arith.XOrIOp, x, b.constant(-1, x.type))


def _reciprocal(b: Body, x: SSAValue) -> SSAValue:
    return b.add(arith.DivfOp, b.constant(1, x.type), x)


def _sign(above: str, below: str) -> Build:
    """x > 0 ? 1 : x < 0 ? -1 : 0."""

    def build(b: Body, x: SSAValue) -> SSAValue:
        zero, one = b.constant(0, x.type), b.constant(1, x.type)
        negative = b.select(b.compare(below, x, zero), b.constant(-1, x.type), zero)
        return b.select(b.compare(above, x, zero), one, negative)

    return build


def _sign_unsigned(b: Body, x: SSAValue) -> SSAValue:
    """x != 0 ? 1 : 0."""
    zero = b.constant(0, x.type)
    return b.select(b.compare("ne", x, zero), b.constant(1, x.type), zero)


def _isnan(b: Body, x: SSAValue) -> SSAValue:
    return b.compare("uno", x, x)


def _isinf(b: Body, x: SSAValue) -> SSAValue:
    return b.compare("oeq", b.add(math.AbsFOp, x), b.constant(numbers.inf, x.type))


def _signbit(b: Body, x: SSAValue) -> SSAValue:
    bits = b.add(arith.BitcastOp, x, type=scalar_type(f"i{x.type.bitwidth}"))  # pyright: ignore
    return b.compare("slt", bits, b.constant(0, bits.type))


def _pow_unsigned(b: Body, x: SSAValue, y: SSAValue) -> SSAValue:
    """In i64, where no exponent is negative."""
    if _width(x) == 64:
        return b.add(math.IPowIOp, x, y)
    wide = [b.add(arith.ExtUIOp, v, type=i64) for v in (x, y)]
    return b.add(arith.TruncIOp, b.add(math.IPowIOp, *wide), type=x.type)


def _shift_out(op: type[Operation]) -> Build:
    """y unsigned-below width ? x shifted : 0."""

    def build(b: Body, x: SSAValue, y: SSAValue) -> SSAValue:
        fits = b.compare("ult", y, b.constant(_width(x), x.type))
        # the shift by an amount beyond the width is poison, even if it is not selected
        zero = b.constant(0, x.type)
        return b.select(fits, b.add(op, x, b.select(fits, y, zero)), zero)

    return build


def _shift_right(b: Body, x: SSAValue, y: SSAValue) -> SSAValue:
    """x >> min(y, width - 1), where a negative y is large."""
    return b.add(arith.ShRSIOp, x, b.add(arith.MinUIOp, y, b.constant(_width(x) - 1, x.type)))


_SHL = _shift_out(arith.ShLIOp)
_SHR_UNSIGNED = _shift_out(arith.ShRUIOp)

SCALAR: dict[type[prims.PrimsOp], Row] = {
    prims.NegOp: Row(arith.NegfOp, _neg, _neg),
    prims.AbsOp: Row(math.AbsFOp, math.AbsIOp, _same),
    prims.SignOp: Row(_sign("ogt", "olt"), _sign("sgt", "slt"), _sign_unsigned),
    prims.ExpOp: Row(math.ExpOp),
    prims.Exp2Op: Row(math.Exp2Op),
    prims.Expm1Op: Row(math.ExpM1Op),
    prims.LogOp: Row(math.LogOp),
    prims.Log2Op: Row(math.Log2Op),
    prims.Log10Op: Row(math.Log10Op),
    prims.Log1pOp: Row(math.Log1pOp),
    prims.SqrtOp: Row(math.SqrtOp),
    prims.RsqrtOp: Row(math.RsqrtOp),
    prims.ReciprocalOp: Row(_reciprocal),
    prims.SinOp: Row(math.SinOp),
    prims.CosOp: Row(math.CosOp),
    prims.TanOp: Row(math.TanOp),
    prims.AsinOp: Row(math.AsinOp),
    prims.AcosOp: Row(math.AcosOp),
    prims.AtanOp: Row(math.AtanOp),
    prims.SinhOp: Row(math.SinhOp),
    prims.CoshOp: Row(math.CoshOp),
    prims.TanhOp: Row(math.TanhOp),
    prims.AsinhOp: Row(math.AsinhOp),
    prims.AcoshOp: Row(math.AcoshOp),
    prims.AtanhOp: Row(math.AtanhOp),
    prims.ErfOp: Row(math.ErfOp),
    prims.ErfcOp: Row(_function("erfc")),
    prims.ErfinvOp: Row(_function("erfinv")),
    prims.LgammaOp: Row(_function("lgamma")),
    prims.DigammaOp: Row(_function("digamma")),
    prims.FloorOp: Row(math.FloorOp),
    prims.CeilOp: Row(math.CeilOp),
    prims.TruncOp: Row(math.TruncOp),
    prims.RoundOp: Row(math.RoundEvenOp),
    prims.IsnanOp: Row(_isnan),
    prims.IsinfOp: Row(_isinf),
    prims.SignbitOp: Row(_signbit),
    prims.NotOp: integers(_not),
    prims.AddOp: Row(arith.AddfOp, arith.AddiOp, arith.AddiOp),
    prims.SubOp: Row(arith.SubfOp, arith.SubiOp, arith.SubiOp),
    prims.MulOp: Row(arith.MulfOp, arith.MuliOp, arith.MuliOp),
    prims.DivOp: Row(arith.DivfOp),
    prims.DivTruncOp: Row(None, arith.DivSIOp, arith.DivUIOp),
    prims.DivFloorOp: Row(None, arith.FloorDivSIOp, arith.DivUIOp),
    prims.RemOp: Row(_function("fmod"), arith.RemSIOp, arith.RemUIOp),
    prims.PowOp: Row(math.PowFOp, math.IPowIOp, _pow_unsigned),
    prims.Atan2Op: Row(math.Atan2Op),
    prims.CopysignOp: Row(math.CopySignOp),
    prims.NextafterOp: Row(_function("nextafter")),
    prims.IgammaOp: Row(_function("igamma")),
    prims.IgammacOp: Row(_function("igammac")),
    prims.HermiteHOp: Row(_function("hermite_h")),
    prims.HermiteHeOp: Row(_function("hermite_he")),
    prims.LaguerreOp: Row(_function("laguerre")),
    prims.LegendreOp: Row(_function("legendre")),
    prims.MaximumOp: Row(arith.MaximumfOp, arith.MaxSIOp, arith.MaxUIOp, arith.OrIOp),
    prims.MinimumOp: Row(arith.MinimumfOp, arith.MinSIOp, arith.MinUIOp, arith.AndIOp),
    prims.FmaxOp: Row(arith.MaxnumfOp),
    prims.FminOp: Row(arith.MinnumfOp),
    prims.AndOp: integers(arith.AndIOp),
    prims.OrOp: integers(arith.OrIOp),
    prims.XorOp: integers(arith.XOrIOp),
    prims.ShlOp: Row(None, _SHL, _SHL),
    prims.ShrOp: Row(None, _shift_right, _SHR_UNSIGNED),
    prims.PhiloxOp: Row(None, _function("philox")),
    prims.Philox32Op: Row(None, _function("philox32")),
    prims.EqOp: _compare("oeq", "eq", "eq"),
    prims.NeOp: _compare("une", "ne", "ne"),
    prims.LtOp: _compare("olt", "slt", "ult"),
    prims.LeOp: _compare("ole", "sle", "ule"),
    prims.GtOp: _compare("ogt", "sgt", "ugt"),
    prims.GeOp: _compare("oge", "sge", "uge"),
    prims.FmaOp: Row(math.FmaOp),
    prims.SelectOp: Row(*[lambda b, c, x, y: b.select(c, x, y)] * 4),
}


def scalar(b: Body, op: prims.PrimsOp, operands: Sequence[SSAValue]) -> SSAValue:
    """The element of the result of an elementwise op from those of its operands. Raises UnsupportedDtype."""
    source, target = _dtype(op.operands[-1]), _dtype(op.results[0])
    if isinstance(op, prims.ConvertOp):
        return b.convert(operands[0], source, target)
    if isinstance(op, prims.BitcastOp):
        return _bitcast(b, operands[0], source, target)
    if isinstance(op, prims.CheckedOp):
        b.check(operands[0], op.message.data)
        return operands[1]
    column = SCALAR[type(op)][dtype_class(source)]
    if column is None or (not is_computable(source) and not isinstance(op, prims.SelectOp)):
        b.reject(source)
    if isinstance(op, prims.IntegerDivisionOp) and op.message is not None and not is_float(source):
        b.check(b.compare("ne", operands[1], b.constant(0, operands[1].type)), op.message.data)
    return b.add(column, *operands) if isinstance(column, type) else column(b, *operands)  # pyright: ignore


def _dtype(v: SSAValue) -> str:
    assert isinstance(v.type, TensorType)
    return v.type.dtype


def _bitcast(b: Body, x: SSAValue, source: str, target: str) -> SSAValue:
    if target == "i1":
        return b.compare("ne", x, b.constant(0, x.type)) if source != "i1" else x
    if source == "i1":
        return b.add(arith.ExtUIOp, x, type=scalar_type(target))
    t = scalar_type(target)
    return x if x.type == t else b.add(arith.BitcastOp, x, type=t)
