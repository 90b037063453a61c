"""Softmax forward and backward, in f32 for f16 and bf16, rounded at the end."""

from __future__ import annotations

import math

from ..dialects.tensor import is_float
from .decomposition import Call, rule
from .prims_builder import Value
from .promotion import opmath


@rule("aten._softmax", of=is_float)
def softmax(call: Call, x: Value, dim: int, half_to_float: bool) -> Value:
    """e^(x - m) / sum(e^(x - m)), m = max(x)."""
    return _softmax(x.opmath(), dim)


@rule("aten.softmax.int", "aten.special_softmax")
def softmax_int(call: Call, x: Value, dim: int, dtype: str | None) -> Value:
    return _softmax(x.to(opmath(call.type.dtype)), dim)


def _softmax(x: Value, dim: int) -> Value:
    if not x.rank:
        return (x - x) + 1.0
    over = [dim % x.rank]
    e = (x - x.reduce("max", over, keepdim=True)).exp()
    return e / e.reduce("sum", over, keepdim=True)


@rule("aten._safe_softmax")
def safe_softmax(call: Call, x: Value, dim: int, dtype: str | None) -> Value:
    """softmax, 0 along all of a dim that is -inf."""
    y = x.to(opmath(call.type.dtype))
    masked = y.eq(-math.inf)
    if y.rank:
        masked = masked.reduce("all", [dim % y.rank], keepdim=True).expand(y.shape)
    return masked.where(0.0, _softmax(y, dim))


@rule("aten._log_softmax", of=is_float)
def log_softmax(call: Call, x: Value, dim: int, half_to_float: bool) -> Value:
    """x - m - log(sum(e^(x - m))), m = max(x)."""
    return _log_softmax(x.opmath(), dim)


@rule("aten.log_softmax.int", "aten.special_log_softmax")
def log_softmax_int(call: Call, x: Value, dim: int, dtype: str | None) -> Value:
    return _log_softmax(x.to(opmath(call.type.dtype)), dim)


def _log_softmax(x: Value, dim: int) -> Value:
    if not x.rank:
        return x - x
    over = [dim % x.rank]
    shifted = x - x.reduce("max", over, keepdim=True)
    return shifted - shifted.exp().reduce("sum", over, keepdim=True).log()


@rule("aten._softmax_backward_data", of=is_float)
def softmax_backward(call: Call, grad: Value, y: Value, dim: int, input_dtype: str) -> Value:
    """grad * y - y * sum(grad * y)."""
    grad, y = grad.opmath(), y.opmath()
    product = grad * y
    if not y.rank:
        return product - y * product
    return product - y * product.reduce("sum", [dim % y.rank], keepdim=True)


@rule("aten._log_softmax_backward_data", of=is_float)
def log_softmax_backward(call: Call, grad: Value, y: Value, dim: int, input_dtype: str) -> Value:
    """grad - e^y * sum(grad)."""
    grad, y = grad.opmath(), y.opmath()
    total = grad.reduce("sum", [dim % y.rank], keepdim=True) if y.rank else grad
    return grad - y.exp() * total
