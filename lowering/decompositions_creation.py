"""Tensors made from numbers, copies and conversions."""

from __future__ import annotations

import math
from typing import Any

import sympy

from ..dialects import expr, prims
from ..dialects.expr import Dim
from ..dialects.prims import Number
from ..dialects.tensor import is_float
from .decomposition import Call, rule, view
from .float8 import FORMATS, converted
from .out_variants import EMPTY, is_written_first
from .prims_builder import Value
from .storage import overlaps


def constant(call: Call, value: Number) -> Value:
    return call.b.full(value, call.type)


@rule("aten.zeros", "aten._efficientzerotensor", "aten.zeros_like", "aten.new_zeros", "aten.zero")
def zeros(call: Call, *rest: Any) -> Value:
    return constant(call, 0)


@rule("aten.ones", "aten.ones_like", "aten.new_ones")
def ones(call: Call, *rest: Any) -> Value:
    return constant(call, 1)


@rule(*EMPTY)
def empty(call: Call, *rest: Any) -> Any:
    """Zeros: whatever is there is as good, and zeros are the same each time. A result has a place for each element.
    What a call writes to before all else stays memory without values.
    """
    return NotImplemented if overlaps(call.type) or is_written_first(call.op.results[0]) else constant(call, 0)


@rule("aten.full", "aten.full_like", "aten.fill.Scalar", elementwise=True)
def full(call: Call, size: Any, value: Number | Value, *rest: Any) -> Any:
    if isinstance(value, Value):
        return value.to(call.type.dtype).expand(call.type.shape)
    return constant(call, value) if _fits(value, call.type.dtype) else NotImplemented


@rule("aten.new_full")
def new_full(call: Call, x: Value, size: Any, value: Number, *rest: Any) -> Any:
    return full(call, size, value)


def _fits(value: Any, dtype: str) -> bool:
    return isinstance(value, (bool, int, float, sympy.Expr)) and (
        is_float(dtype) or not isinstance(value, float) or math.isfinite(value)
    )


@rule("aten.fill.Tensor")
def fill(call: Call, x: Value, value: Value) -> Value:
    return value.to(call.type.dtype).expand(call.type.shape)


@rule("aten.scalar_tensor", elementwise=True)
def scalar_tensor(call: Call, value: Number | Value, *rest: Any) -> Any:
    return full(call, (), value)


@rule("aten.arange")
def arange(call: Call, end: Number, *rest: Any) -> Any:
    return _range(call, 0, 1)


@rule("aten.arange.start")
def arange_start(call: Call, start: Number, end: Number, *rest: Any) -> Any:
    return _range(call, start, 1)


@rule("aten.arange.start_step")
def arange_step(call: Call, start: Number, end: Number, step: Number, *rest: Any) -> Any:
    return _range(call, start, step)


@rule("torch_prims.iota")
def iota(call: Call, length: Dim, start: Dim, step: Dim, *rest: Any) -> Value:
    return _range(call, start, step)


def _range(call: Call, start: Number, step: Number) -> Value:
    """start + i * step; of f32, in f64 where start or step has a fraction, as ATen; integers in i64."""
    t = call.type
    fraction = any(isinstance(v, float) and not v.is_integer() for v in (start, step))
    dtype = "i64" if not is_float(t.dtype) else "f64" if fraction and t.dtype in ("f32", "f64") else "f32"
    dtype = "f64" if t.dtype == "f64" else dtype
    y = call.b.iota(0, t.with_(dtype=dtype))
    if step != 1:
        y = y * step
    return y if start == 0 else y + start


@rule("aten.linspace")
def linspace(call: Call, start: Number, end: Number, steps: Dim, *rest: Any) -> Any:
    """From both ends to the middle, as ATen; of integers in f64, cut off."""
    t = call.type
    if not isinstance(start, (int, float)) or not isinstance(end, (int, float)) or t.dtype == "i1":
        return NotImplemented
    if steps in (0, 1):
        return constant(call, start)
    if not is_float(t.dtype):
        start, end = int(start), int(end)
    dtype = "f32" if is_float(t.dtype) and t.dtype != "f64" else "f64"
    i = call.b.iota(0, t.with_(dtype=dtype))
    count: Any = steps
    last = i.full(expr.normal(count - 1))
    step = (i.full(end) - i.full(start)) / last
    return (i < expr.floordiv(steps, 2)).where(i * step + start, i.full(end) - (last - i) * step)


@rule("aten.eye", "aten.eye.m")
def eye(call: Call, *rest: Any) -> Value:
    t = call.type.with_(dtype="i64")
    return call.b.iota(0, t).eq(call.b.iota(1, t)).to(call.type.dtype)


def _below_diagonal(call: Call, x: Value, diagonal: Dim) -> Value:
    """Where column <= row + diagonal, in the last two dims of x."""
    t = x.type.with_(shape=x.shape[-2:]).with_(dtype="i64")
    return (call.b.iota(1, t) - call.b.iota(0, t) <= diagonal).expand(x.shape)


@rule("aten.tril")
def tril(call: Call, x: Value, diagonal: Dim) -> Value:
    return _below_diagonal(call, x, diagonal).where(x, x.full(0))


@rule("aten.triu")
def triu(call: Call, x: Value, diagonal: Dim) -> Value:
    below: Any = diagonal
    return _below_diagonal(call, x, expr.normal(below - 1)).where(x.full(0), x)


# Copies and conversions


@rule("aten.clone", "aten.lift_fresh_copy", "aten.detach_copy", "aten.alias_copy")
def clone(call: Call, x: Value, *rest: Any) -> Value:
    return x.copy(call.type)


@view("aten.contiguous")
def contiguous(call: Call, x: Value, memory_format: str) -> Value:
    return x


@rule("aten.copy")
def copy(call: Call, x: Value, source: Value, non_blocking: bool) -> Value:
    t = call.type
    narrow = source.dtype != t.dtype and (source.dtype in FORMATS or t.dtype in FORMATS)
    source = converted(source, t.dtype) if narrow else source.to(t.dtype)
    return source.expand(t.shape).copy(t)


@view("aten.copy_")
def copy_into(call: Call, x: Value, source: Value, non_blocking: bool) -> Any:
    """The source as x is, so that what makes it can write it there, and the call, which then copies nothing."""
    if x.type.numel == 0:
        return x
    if source.type == x.type or source.type.device != x.type.device or overlaps(x.type):
        return NotImplemented
    value = source.to(x.dtype).expand(x.shape).copy(x.type)
    op = type(call.op).call([x.ssa, value.ssa, non_blocking], [x.type], call.op.location)
    call.b.ops.append(op)
    return Value(call.b, op.results[0])


def convert(call: Call, x: Value) -> Any:
    t = call.type
    if t.device != x.type.device:
        return NotImplemented
    if x.dtype == t.dtype:
        return x
    if x.dtype in FORMATS or t.dtype in FORMATS:
        return converted(x, t.dtype)
    return call.b.add(prims.ConvertOp.make(x.ssa, t))


@rule("aten._to_copy", "torch_prims.convert_element_type")
def to_copy(call: Call, x: Value, *rest: Any) -> Any:
    return convert(call, x)


@view("aten.to.dtype", "aten.to.dtype_layout", "aten.to.device", "aten.to.other", "aten.to.prim_Device")
def to(call: Call, x: Value, *rest: Any) -> Any:
    """x itself where nothing changes, unless a copy is asked for."""
    copies = call.op.schema.index.get("copy")
    if copies is not None and call.op.arg("copy"):
        return x.copy(call.type)
    return convert(call, x)


@view(
    "aten.type_as",
    "aten._autocast_to_reduced_precision",
    "aten._autocast_to_full_precision",
)
def type_as(call: Call, x: Value, *rest: Any) -> Any:
    return convert(call, x)
