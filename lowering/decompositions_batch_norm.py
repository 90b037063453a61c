"""Batch norm: statistics per channel, which is dim 1. In f32 for f16 and bf16, rounded at the end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..dialects import expr
from ..dialects.expr import Dim
from .decomposition import Call, rule
from .prims_builder import Value
from .promotion import opmath


def _channel(v: Value, rank: int) -> Value:
    """A vector over channels beside a tensor of that rank."""
    return v.unsqueeze(0, *range(2, rank))


def _normalize(x: Value, mean: Value, rstd: Value, weight: Value | None, bias: Value | None) -> Value:
    """x * scale + shift, scale = rstd * weight, shift = bias - mean * scale: computed per channel."""
    scale = rstd if weight is None else rstd * weight.to(rstd.dtype)
    shift = -(mean * scale) if bias is None else bias.to(rstd.dtype) - mean * scale
    return x * _channel(scale, x.rank) + _channel(shift, x.rank)


def _batch_norm_inference(
    x: Value, weight: Value | None, bias: Value | None, mean: Value, var: Value, eps: float
) -> Value:
    y = x.opmath()
    rstd = (var.to(y.dtype) + eps).sqrt().reciprocal()
    return _normalize(y, mean.to(y.dtype), rstd, weight, bias)


def _batch_norm_training(
    x: Value, weight: Value | None, bias: Value | None, eps: float
) -> tuple[Value, Value, Value, Value, Dim]:
    """The result, mean, rstd, biased variance, and the number of elements of a channel."""
    y = x.opmath()
    over = [0, *range(2, y.rank)]
    variance, mean = y.var_mean(over)
    rstd = (variance + eps).sqrt().reciprocal()
    scale = rstd if weight is None else rstd * weight.to(rstd.dtype)
    # from the mean first: what is equal to it gives 0, however large it is
    normal = (y - _channel(mean, y.rank)) * _channel(scale, y.rank)
    result = normal if bias is None else normal + _channel(bias.to(rstd.dtype), y.rank)
    return result, mean, rstd, variance, y.count(over)


def _updated(running: Value, new: Value, momentum: float) -> Value:
    r = running.opmath()
    return new.to(r.dtype) * momentum + r * (1.0 - momentum)


def _unbiased(variance: Value, count: Dim) -> Value:
    n: Any = count
    return variance * variance.full(n) / variance.full(expr.normal(n - 1))


@rule("aten._native_batch_norm_legit_no_training", "aten._batch_norm_no_update")
def batch_norm_no_training(
    call: Call,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    mean: Value | None,
    var: Value | None,
    momentum: float,
    eps: float,
) -> Any:
    if mean is None or var is None:
        return NotImplemented
    y = _batch_norm_inference(x, weight, bias, mean, var, eps)
    return y, *(_saved(call, i, mean, var, eps) for i in range(1, len(call.types)))


def _saved(call: Call, result: int, mean: Value, var: Value, eps: float) -> Value:
    """What inference saves: nothing, or the statistics it was given."""
    t = call.types[result]
    if t.shape != mean.shape or t.dtype == "u8":
        return call.empty(result)
    return mean if result == 1 else (var.to(opmath(var.dtype)) + eps).sqrt().reciprocal()


@rule("aten.native_batch_norm", "aten.cudnn_batch_norm")
def native_batch_norm(
    call: Call,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    mean: Value | None,
    var: Value | None,
    training: bool,
    momentum: float,
    eps: float,
) -> Any:
    """Inference only: in training it writes the running statistics."""
    if training and (mean is not None or var is not None):
        return NotImplemented
    if training:
        return _batch_norm_training(x, weight, bias, eps)[:3]
    return batch_norm_no_training(call, x, weight, bias, mean, var, momentum, eps)


@rule("aten.batch_norm")
def batch_norm(
    call: Call,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    mean: Value | None,
    var: Value | None,
    training: bool,
    momentum: float,
    eps: float,
    cudnn: bool,
) -> Any:
    if training or mean is None or var is None:
        return NotImplemented
    return _batch_norm_inference(x, weight, bias, mean, var, eps)


@rule("aten._native_batch_norm_legit.no_stats")
def batch_norm_no_stats(
    call: Call, x: Value, weight: Value | None, bias: Value | None, training: bool, momentum: float, eps: float
) -> tuple[Value, ...]:
    return _batch_norm_training(x, weight, bias, eps)[:3]


@rule("aten._native_batch_norm_legit_functional")
def batch_norm_functional(
    call: Call,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    mean: Value,
    var: Value,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Value, ...]:
    """Result, saved mean and rstd, and the new running mean and (unbiased) variance."""
    if not training:
        y = _batch_norm_inference(x, weight, bias, mean, var, eps)
        return y, _saved(call, 1, mean, var, eps), _saved(call, 2, mean, var, eps), mean, var
    y, new_mean, rstd, variance, count = _batch_norm_training(x, weight, bias, eps)
    return (
        y,
        new_mean,
        rstd,
        _updated(mean, new_mean, momentum),
        _updated(var, _unbiased(variance, count), momentum),
    )


@rule("aten._batch_norm_with_update_functional")
def batch_norm_with_update_functional(
    call: Call,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    mean: Value,
    var: Value,
    momentum: float,
    eps: float,
) -> tuple[Value, ...]:
    y, saved_mean, rstd, *running = batch_norm_functional(call, x, weight, bias, mean, var, True, momentum, eps)
    return y, saved_mean, rstd, call.empty(3), *running


@rule("aten.native_batch_norm_backward")
def native_batch_norm_backward(
    call: Call,
    grad: Value,
    x: Value,
    weight: Value | None,
    running_mean: Value | None,
    running_var: Value | None,
    saved_mean: Value | None,
    saved_rstd: Value | None,
    train: bool,
    eps: float,
    wanted: Sequence[bool],
) -> Any:
    """weight * rstd * (grad - mean(grad) - n * mean(grad * n)), n = (x - mean) * rstd; sum(grad * n); sum(grad)."""
    g, y = grad.opmath(), x.opmath()
    if train:
        if saved_mean is None or saved_rstd is None:
            return NotImplemented
        mean, rstd = saved_mean.to(y.dtype), saved_rstd.to(y.dtype)
    else:
        if running_mean is None or running_var is None:
            return NotImplemented
        mean, rstd = running_mean.to(y.dtype), (running_var.to(y.dtype) + eps).rsqrt()
    over = [0, *range(2, y.rank)]
    count = y.count(over)
    scale = _channel(rstd if weight is None else rstd * weight.to(y.dtype), y.rank)
    centered = y - _channel(mean, y.rank)
    sum_g = g.reduce("sum", over)
    sum_gn = (g * centered).reduce("sum", over) * rstd
    results: list[Value | None] = [None, None, None]
    if wanted[0] and train:
        n = centered * _channel(rstd, y.rank)
        mean_g, mean_gn = (_channel(v / v.full(count), y.rank) for v in (sum_g, sum_gn))
        results[0] = (g - mean_g - n * mean_gn) * scale
    elif wanted[0]:
        results[0] = g * scale
    if wanted[1]:
        results[1] = sum_gn
    if wanted[2]:
        results[2] = sum_g
    return tuple(results)
