"""Ops of kernels without memory or control flow, on torch tensors: a scalar has no dims, a pointer is an i64."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TypeAlias, cast

import numpy as np
import torch
from torch import Tensor
from xdsl.dialects import arith, ub
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, IntegerType
from xdsl.ir import Attribute, Operation

from ..dialects import tt
from ..dialects.arith_tensors import RemfOp
from ..dialects.tt_enums import PRECISION, PROPAGATE_NAN, ROUNDING, SCALED_TYPE
from ..dialects.tt_foreign import AssumeOp
from ..dialects.tt_types import PtrType, element_of, shape_of
from .interpret_scalar import SCALAR, constant, torch_dtype
from .interpret_tt_libdevice import LIBDEVICE
from .interpret_tt_races import AccessError

Values: TypeAlias = "Tensor | tuple[Tensor, ...] | None"
Run: TypeAlias = Callable[..., Values]

_FLOAT8 = {
    "f8E4M3FN": torch.float8_e4m3fn,
    "f8E5M2": torch.float8_e5m2,
    "f8E4M3FNUZ": torch.float8_e4m3fnuz,
    "f8E5M2FNUZ": torch.float8_e5m2fnuz,
}


@cache
def dtype_of(type: Attribute) -> torch.dtype:
    """The dtype of a value's elements."""
    element = element_of(type)
    if isinstance(element, PtrType):
        return torch.int64
    return _FLOAT8.get(str(element)) or torch_dtype(element)


def poison(type: Attribute) -> Tensor:
    """What stands where the dialect leaves a value undefined: NaN, or an unlikely number."""
    dtype, shape = dtype_of(type), shape_of(type)
    if dtype is torch.bool:
        return torch.ones(shape, dtype=dtype)
    if dtype.itemsize == 1 and dtype.is_floating_point:
        return torch.full(shape, 0x7F, dtype=torch.int8).view(dtype)
    if dtype.is_floating_point:
        return torch.full(shape, torch.nan, dtype=dtype)
    return torch.full(shape, -0x5A5A5A5A5A5A5A5B >> (64 - dtype.itemsize * 8), dtype=dtype)


def _constant(op: arith.ConstantOp) -> Tensor:
    value = op.value
    if not isinstance(value, DenseIntOrFPElementsAttr):
        return constant(value)
    dtype, shape = dtype_of(op.result.type), shape_of(op.result.type)
    data = bytearray(value.data.data)
    if dtype is torch.bool:
        return torch.frombuffer(data, dtype=torch.uint8).reshape(shape) != 0
    return torch.frombuffer(data, dtype=dtype).reshape(shape)


# ------------------------------------------------------------------------------------------------------- pointwise


def _fp_to_fp(op: tt.FpToFpOp, x: Tensor) -> Tensor:
    """Rounds to nearest; f8 saturates, as on the device."""
    if op.rounding is not None and ROUNDING.of(op.rounding) != "rtne":
        raise NotImplementedError("rounding towards zero is not interpreted")
    dtype = dtype_of(op.result.type)
    wide = x.to(torch.float32) if x.dtype.itemsize == 1 else x
    if dtype.itemsize == 1:
        most = torch.finfo(dtype).max
        return wide.float().clamp(-most, most).to(dtype)
    return wide.to(dtype)


def _bitcast(op: tt.BitcastOp, x: Tensor) -> Tensor:
    return x if isinstance(element_of(op.result.type), PtrType) else x.contiguous().view(dtype_of(op.result.type))


def _clamp(op: tt.ClampFOp, x: Tensor, low: Tensor, high: Tensor) -> Tensor:
    if PROPAGATE_NAN.of(op.propagateNan) == "all":
        return torch.minimum(torch.maximum(x, low), high)
    return torch.fmin(torch.fmax(x, low), high)


def _high_product(op: tt.MulhiUIOp, x: Tensor, y: Tensor) -> Tensor:
    bits = x.element_size() * 8
    a, b = (v.contiguous().numpy().view(f"u{bits // 8}").astype(object) for v in (x, y))
    high = np.asarray((a * b) >> bits).astype(f"u{bits // 8}")
    return torch.from_numpy(high.view(f"i{bits // 8}"))


def _extern(op: tt.ExternElementwiseOp, *operands: Tensor) -> Tensor:
    symbol = op.symbol.data
    if symbol not in LIBDEVICE:
        raise NotImplementedError(f"the function {symbol} is not interpreted")
    return LIBDEVICE[symbol](*operands).to(dtype_of(op.result.type))


# ----------------------------------------------------------------------------------------------------------- shape


def _expand(op: Operation, x: Tensor) -> Tensor:
    return x.expand(shape_of(op.results[0].type))


def _reshape(op: Operation, x: Tensor) -> Tensor:
    return x.reshape(shape_of(op.results[0].type))


def _gather(op: tt.GatherOp, x: Tensor, indices: Tensor) -> Tensor:
    axis = op.axis.value.data
    if bool(((indices < 0) | (indices >= x.shape[axis])).any()):
        raise AccessError(f"an index is outside of the {x.shape[axis]} elements along axis {axis}")
    return torch.gather(x, axis, indices.long())


def _histogram(op: tt.HistogramOp, x: Tensor, mask: Tensor | None = None) -> Tensor:
    bins = shape_of(op.result.type)[0]
    kept = (x if mask is None else x[mask]).long()
    return torch.bincount(kept[(kept >= 0) & (kept < bins)], minlength=bins).to(torch.int32)


# -------------------------------------------------------------------------------------------------------- products


def _tf32(x: Tensor) -> Tensor:
    """f32 rounded to the 10 bits of mantissa that tensor cores keep."""
    bits = x.contiguous().view(torch.int32)
    rounded = ((bits + 0xFFF + ((bits >> 13) & 1)) & ~0x1FFF).view(torch.float32)
    return torch.where(x.isfinite(), rounded, x)


def _pair(x: Tensor) -> tuple[Tensor, Tensor]:
    """f32 as the sum of two bf16."""
    high = x.to(torch.bfloat16).float()
    return high, (x - high).to(torch.bfloat16).float()


def _dot(op: tt.DotOp, a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    if isinstance(element_of(op.a.type), IntegerType):
        return torch.matmul(a.to(c.dtype), b.to(c.dtype)) + c
    precision = "" if op.inputPrecision is None or a.dtype is not torch.float32 else PRECISION.of(op.inputPrecision)
    if precision == "tf32":
        a, b = _tf32(a), _tf32(b)
    if precision == "bf16x3":
        (a, low), (b, below) = _pair(a), _pair(b)
        c = (torch.matmul(low, b) + torch.matmul(a, below)).nan_to_num(0.0, torch.inf, -torch.inf) + c
    return (torch.matmul(a.to(torch.float64), b.to(torch.float64)) + c.to(torch.float64)).to(c.dtype)


_E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)


def _unscaled(kind: str, x: Tensor, axis: int) -> Tensor:
    """The numbers that `x` holds; e2m1 comes as pairs along `axis`, the first in the low half of a byte."""
    if kind == "e2m1":
        table = torch.tensor((*_E2M1, *(-v for v in _E2M1)))
        bits = x.view(torch.uint8).long()
        pair = torch.stack((table[bits & 15], table[bits >> 4]), axis % x.dim() + 1)
        return pair.flatten(axis % x.dim(), axis % x.dim() + 1)
    if kind in ("e4m3", "e5m2"):
        x = x.view(torch.float8_e4m3fn if kind == "e4m3" else torch.float8_e5m2)
    elif kind not in ("bf16", "fp16"):
        raise NotImplementedError(f"scaled {kind} is not interpreted")
    return x.float()


def _dot_scaled(op: tt.DotScaledOp, a: Tensor, b: Tensor, c: Tensor, *scales: Tensor) -> Tensor:
    kinds = SCALED_TYPE.of(op.a_elem_type), SCALED_TYPE.of(op.b_elem_type)
    packs = [p is None or bool(p.value.data) for p in (op.lhs_k_pack, op.rhs_k_pack)]
    left = _unscaled(kinds[0], a, -1 if packs[0] else -2).double()
    right = _unscaled(kinds[1], b, -2 if packs[1] else -1).double()
    given = iter(scales)
    if op.a_scale is not None:
        left = left * _factors(next(given), left.shape[-1])
    if op.b_scale is not None:
        right = right * _factors(next(given), right.shape[-2]).transpose(-1, -2)
    return (torch.matmul(left, right) + c.double()).to(c.dtype)


def _factors(scale: Tensor, count: int) -> Tensor:
    """2^(scale - 127), each repeated over its part of `count` elements."""
    powers = torch.exp2(scale.view(torch.uint8).double() - 127)
    return powers.repeat_interleave(count // scale.shape[-1], -1)


OPS: dict[type[Operation], Run] = {
    **cast("dict[type[Operation], Run]", SCALAR),
    arith.ConstantOp: _constant,
    RemfOp: lambda op, x, y: torch.fmod(x, y),
    arith.IndexCastOp: lambda op, x: x.to(dtype_of(op.results[0].type)),
    ub.PoisonOp: lambda op: poison(op.result.type),
    AssumeOp: lambda op, cond: None,
    tt.MakeRangeOp: lambda op: torch.arange(op.start.value.data, op.end.value.data, dtype=torch.int32),
    tt.SplatOp: _expand,
    tt.BroadcastOp: _expand,
    tt.ReshapeOp: _reshape,
    tt.UnsplatOp: _reshape,
    tt.ExpandDimsOp: lambda op, x: x.unsqueeze(op.axis.value.data),
    tt.TransOp: lambda op, x: x.permute(op.order.get_values()),
    tt.CatOp: lambda op, x, y: torch.cat((x, y)),
    tt.JoinOp: lambda op, x, y: torch.stack((x, y), -1),
    tt.SplitOp: lambda op, x: (x[..., 0], x[..., 1]),
    tt.IntToPtrOp: lambda op, x: x,
    tt.PtrToIntOp: lambda op, x: x,
    tt.BitcastOp: _bitcast,
    tt.FpToFpOp: _fp_to_fp,
    tt.ClampFOp: _clamp,
    tt.PreciseSqrtOp: lambda op, x: torch.sqrt(x),
    tt.PreciseDivFOp: lambda op, x, y: torch.div(x, y),
    tt.MulhiUIOp: _high_product,
    tt.ExternElementwiseOp: _extern,
    tt.GatherOp: _gather,
    tt.HistogramOp: _histogram,
    tt.DotOp: _dot,
    tt.DotScaledOp: _dot_scaled,
    tt.PrintOp: lambda op, *values: None,
}
"""Op to `run(op, *operands)`, which gives its result, or a tuple of several."""
