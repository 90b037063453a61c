"""Scalar ops of loop bodies (arith, math, loop.fn) on torch tensors: one element per point.

Integers are signless: a tensor holds them in the signed dtype of their width, and unsigned ops go through numpy's
unsigned dtypes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor
from xdsl.dialects import arith, math
from xdsl.dialects.builtin import ComplexType, FloatAttr, IntegerAttr, IntegerType
from xdsl.ir import Attribute, Operation
from xdsl.utils.type import get_element_type_or_self

from ..dialects.loop import FnOp
from ..dialects.tensor import is_unsigned
from ..lowering.philox import philox, philox32

Scalar: TypeAlias = Callable[..., Tensor]

_FLOATS = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64}
_INTEGERS = {1: torch.bool, 8: torch.int8, 16: torch.int16, 32: torch.int32, 64: torch.int64}
_UNSIGNED = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}


def torch_dtype(t: Attribute) -> torch.dtype:
    """The dtype that holds scalars of a type, or the elements of a tensor type."""
    t = get_element_type_or_self(t)
    if isinstance(t, IntegerType):
        return _INTEGERS[t.width.data]
    if isinstance(t, ComplexType):
        return torch.complex64 if str(t.element_type) == "f32" else torch.complex128
    return _FLOATS[str(t)]


def constant(a: Attribute) -> Tensor:
    """The number that an attribute is."""
    assert isinstance(a, (IntegerAttr, FloatAttr))
    return torch.tensor(a.value.data, dtype=torch_dtype(a.type))  # pyright: ignore[reportUnknownMemberType]


def signless(x: Tensor, dtype: str) -> Tensor:
    """A tensor as its elements stand in bodies: f8 and unsigned integers as the signed integers of their bits."""
    if is_unsigned(dtype) or dtype.startswith("f8"):
        return x.view(_INTEGERS[x.element_size() * 8])
    return x


def _unsigned(x: Tensor) -> Any:
    """As a numpy array of unsigned integers."""
    if x.dtype is torch.bool:
        return x.numpy().astype(np.uint8)
    return x.contiguous().numpy().view(_UNSIGNED[x.element_size() * 8])


def _on_unsigned(f: Callable[[Any, Any], Any]) -> Scalar:
    """`f` on unsigned numpy arrays, with the result back in the operands' dtype (or bool)."""

    def run(op: Operation, x: Tensor, y: Tensor) -> Tensor:
        a, b = torch.broadcast_tensors(x, y)
        result = torch.from_numpy(np.asarray(f(_unsigned(a), _unsigned(b))))
        return result if result.dtype is torch.bool else result.view(x.dtype)

    return run


def _plain(f: Callable[..., Tensor]) -> Scalar:
    return lambda op, *operands: f(*operands)


def _wrapping(f: Callable[..., Tensor]) -> Scalar:
    """Integer arithmetic, where i1 wraps too."""

    def run(op: Operation, *operands: Tensor) -> Tensor:
        if operands[0].dtype is torch.bool:
            return (f(*(x.to(torch.int8) for x in operands)) & 1).bool()
        return f(*operands)

    return run


def _nonzero(y: Tensor) -> Tensor:
    """Division by 0 is undefined: any number will do, but no trap."""
    return torch.where(y == 0, torch.ones_like(y), y)


def _np_nonzero(y: Any) -> Any:
    return np.where(y == 0, np.ones_like(y), y)


def _divide(mode: str) -> Scalar:
    return lambda op, x, y: torch.div(x, _nonzero(y), rounding_mode=mode)


_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "eq": lambda x, y: x == y,
    "ne": lambda x, y: x != y,
    "lt": lambda x, y: x < y,
    "le": lambda x, y: x <= y,
    "gt": lambda x, y: x > y,
    "ge": lambda x, y: x >= y,
}


def _cmpi(op: arith.CmpiOp, x: Tensor, y: Tensor) -> Tensor:
    name = arith.CMPI_COMPARISON_OPERATIONS[op.predicate.value.data]
    if name in ("eq", "ne"):
        return _COMPARE[name](x, y)
    if name[0] == "u":
        return _on_unsigned(_COMPARE[name[1:]])(op, x, y)
    if x.dtype is torch.bool:  # true is -1
        x, y = -x.to(torch.int8), -y.to(torch.int8)
    return _COMPARE[name[1:]](x, y)


def _cmpf(op: arith.CmpfOp, x: Tensor, y: Tensor) -> Tensor:
    name = arith.CMPF_COMPARISON_OPERATIONS[op.predicate.value.data]
    unordered = x.isnan() | y.isnan()
    match name:
        case "false" | "true":
            return torch.full_like(unordered, name == "true")
        case "ord":
            return ~unordered
        case "uno":
            return unordered
        case _:
            result = _COMPARE[name[1:]](x, y)
            return result & ~unordered if name[0] == "o" else result | unordered


def _to_result(op: Operation, x: Tensor) -> Tensor:
    return x.to(torch_dtype(op.results[0].type))


def _extend_unsigned(op: Operation, x: Tensor) -> Tensor:
    dtype = torch_dtype(op.results[0].type)
    if x.dtype is torch.bool:
        return x.to(dtype)
    wide = torch.from_numpy(_unsigned(x).astype(np.int64 if x.element_size() < 8 else np.uint64))
    return wide.to(dtype)


def _unsigned_to_float(op: Operation, x: Tensor) -> Tensor:
    dtype = torch_dtype(op.results[0].type)
    return torch.from_numpy(_unsigned(x).astype(np.float64 if dtype is torch.float64 else np.float32)).to(dtype)


def _float_to_unsigned(op: Operation, x: Tensor) -> Tensor:
    dtype = torch_dtype(op.results[0].type)
    bits = x.double().numpy().astype(_UNSIGNED[dtype.itemsize * 8])
    return torch.from_numpy(np.asarray(bits)).view(dtype)


def _truncate(op: Operation, x: Tensor) -> Tensor:
    dtype = torch_dtype(op.results[0].type)
    return (x & 1).bool() if dtype is torch.bool else x.to(dtype)


def _extend(op: Operation, x: Tensor) -> Tensor:
    wide = x.to(torch_dtype(op.results[0].type))
    return -wide if x.dtype is torch.bool else wide


def _bitcast(op: Operation, x: Tensor) -> Tensor:
    return x.contiguous().view(torch_dtype(op.results[0].type))


def _shift(f: Callable[[Tensor, Tensor], Tensor]) -> Scalar:
    return lambda op, x, y: f(x, y.clamp(0, x.element_size() * 8 - 1))


def _shift_right_unsigned(x: Any, y: Any) -> Any:
    return x >> np.minimum(y, x.dtype.itemsize * 8 - 1).astype(x.dtype)


def _fma(op: Operation, x: Tensor, y: Tensor, z: Tensor) -> Tensor:
    """x * y + z, rounded once (nearly so, by way of f64)."""
    return (x.double() * y.double() + z.double()).to(x.dtype)


_FUNCTIONS: dict[str, Callable[..., Tensor]] = {
    "lgamma": torch.lgamma,
    "digamma": torch.digamma,
    "nextafter": torch.nextafter,
    "fmod": torch.fmod,
    "igamma": torch.special.gammainc,
    "igammac": torch.special.gammaincc,
    "hermite_h": torch.special.hermite_polynomial_h,
    "hermite_he": torch.special.hermite_polynomial_he,
    "laguerre": torch.special.laguerre_polynomial_l,
    "legendre": torch.special.legendre_polynomial_p,
    "j0": torch.special.bessel_j0,
    "j1": torch.special.bessel_j1,
    "y0": torch.special.bessel_y0,
    "y1": torch.special.bessel_y1,
    "philox": philox,
    "philox32": philox32,
    "polygamma": lambda n, x: torch.special.polygamma(int(n.flatten()[0]), x),
}
"""Functions of `loop.fn` that torch.special lacks or has under another name; the rest are found by theirs."""


def _fn(op: FnOp, *operands: Tensor) -> Tensor:
    f = _FUNCTIONS.get(op.fn.data) or getattr(torch.special, op.fn.data)
    return f(*operands)


SCALAR: dict[type[Operation], Scalar] = {
    arith.AddfOp: _plain(torch.add),
    arith.SubfOp: _plain(torch.sub),
    arith.MulfOp: _plain(torch.mul),
    arith.DivfOp: _plain(torch.div),
    arith.NegfOp: _plain(torch.neg),
    arith.MaximumfOp: _plain(torch.maximum),
    arith.MinimumfOp: _plain(torch.minimum),
    arith.MaxnumfOp: _plain(torch.fmax),
    arith.MinnumfOp: _plain(torch.fmin),
    arith.AddiOp: _wrapping(torch.add),
    arith.SubiOp: _wrapping(torch.sub),
    arith.MuliOp: _wrapping(torch.mul),
    arith.DivSIOp: _divide("trunc"),
    arith.FloorDivSIOp: _divide("floor"),
    arith.RemSIOp: lambda op, x, y: torch.fmod(x, _nonzero(y)),
    arith.DivUIOp: _on_unsigned(lambda x, y: x // _np_nonzero(y)),
    arith.RemUIOp: _on_unsigned(lambda x, y: x % _np_nonzero(y)),
    arith.MaxSIOp: _plain(torch.maximum),
    arith.MinSIOp: _plain(torch.minimum),
    arith.MaxUIOp: _on_unsigned(np.maximum),
    arith.MinUIOp: _on_unsigned(np.minimum),
    arith.AndIOp: _plain(torch.bitwise_and),
    arith.OrIOp: _plain(torch.bitwise_or),
    arith.XOrIOp: _plain(torch.bitwise_xor),
    arith.ShLIOp: _shift(torch.bitwise_left_shift),
    arith.ShRSIOp: _shift(torch.bitwise_right_shift),
    arith.ShRUIOp: _on_unsigned(_shift_right_unsigned),
    arith.CmpiOp: _cmpi,
    arith.CmpfOp: _cmpf,
    arith.SelectOp: _plain(torch.where),
    arith.ExtFOp: _to_result,
    arith.TruncFOp: _to_result,
    arith.SIToFPOp: _to_result,
    arith.UIToFPOp: _unsigned_to_float,
    arith.FPToSIOp: _to_result,
    arith.FPToUIOp: _float_to_unsigned,
    arith.ExtSIOp: _extend,
    arith.ExtUIOp: _extend_unsigned,
    arith.TruncIOp: _truncate,
    arith.BitcastOp: _bitcast,
    math.AbsFOp: _plain(torch.abs),
    math.AbsIOp: _plain(torch.abs),
    math.AcosOp: _plain(torch.acos),
    math.AcoshOp: _plain(torch.acosh),
    math.AsinOp: _plain(torch.asin),
    math.AsinhOp: _plain(torch.asinh),
    math.Atan2Op: _plain(torch.atan2),
    math.AtanOp: _plain(torch.atan),
    math.AtanhOp: _plain(torch.atanh),
    math.CeilOp: _plain(torch.ceil),
    math.CopySignOp: _plain(torch.copysign),
    math.CosOp: _plain(torch.cos),
    math.CoshOp: _plain(torch.cosh),
    math.ErfOp: _plain(torch.erf),
    math.ExpOp: _plain(torch.exp),
    math.Exp2Op: _plain(torch.exp2),
    math.ExpM1Op: _plain(torch.expm1),
    math.FloorOp: _plain(torch.floor),
    math.FmaOp: _fma,
    math.IPowIOp: _plain(torch.pow),
    math.LogOp: _plain(torch.log),
    math.Log10Op: _plain(torch.log10),
    math.Log1pOp: _plain(torch.log1p),
    math.Log2Op: _plain(torch.log2),
    math.PowFOp: _plain(torch.pow),
    math.RoundEvenOp: _plain(torch.round),
    math.RsqrtOp: _plain(torch.rsqrt),
    math.SinOp: _plain(torch.sin),
    math.SinhOp: _plain(torch.sinh),
    math.SqrtOp: _plain(torch.sqrt),
    math.TanOp: _plain(torch.tan),
    math.TanhOp: _plain(torch.tanh),
    math.TruncOp: _plain(torch.trunc),
    FnOp: _fn,
}
"""Op to `run(op, *operands)`; operands broadcast."""


def run_scalar(op: Operation, operands: Sequence[Tensor]) -> Tensor:
    """The result of a scalar op at every point. Raises KeyError for an op that is none."""
    if isinstance(op, arith.ConstantOp):
        return constant(op.value)
    return SCALAR[type(op)](op, *operands)
