"""Layer, RMS and group norm, forward and backward. In f32 for f16 and bf16, rounded at the end."""

from __future__ import annotations

from collections.abc import Sequence

from ..dialects import expr
from ..dialects.expr import Dim
from .decomposition import Call, rule
from .decompositions_reductions import moving_mean
from .prims_builder import Value

# Layer norm and RMS norm


def _affine(y: Value, weight: Value | None, bias: Value | None) -> Value:
    """y * weight + bias, in y's dtype, aligned at the last dims."""
    if weight is not None:
        y = y * weight.to(y.dtype)
    return y if bias is None else y + bias.to(y.dtype)


@rule("aten.native_layer_norm")
def native_layer_norm(
    call: Call, x: Value, shape: Sequence[Dim], weight: Value | None, bias: Value | None, eps: float
) -> tuple[Value, Value, Value]:
    return _layer_norm(x, len(shape), weight, bias, eps)


@rule("aten.layer_norm")
def layer_norm(
    call: Call, x: Value, shape: Sequence[Dim], weight: Value | None, bias: Value | None, eps: float, cudnn: bool
) -> Value:
    return _layer_norm(x, len(shape), weight, bias, eps)[0]


def _layer_norm(
    x: Value, count: int, weight: Value | None, bias: Value | None, eps: float
) -> tuple[Value, Value, Value]:
    """(x - mean) * rstd * weight + bias over the last `count` dims; mean and rstd = 1 / sqrt(var + eps)."""
    x = x.opmath()
    variance, mean = x.var_mean(range(x.rank - count, x.rank), keepdim=True)
    rstd = (variance + eps).rsqrt()
    return _affine((x - mean) * rstd, weight, bias), moving_mean(variance, mean), rstd


@rule("aten._fused_rms_norm")
def fused_rms_norm(
    call: Call, x: Value, shape: Sequence[Dim], weight: Value | None, eps: float | None
) -> tuple[Value, Value]:
    return _rms_norm(x, len(shape), weight, eps)


@rule("aten.rms_norm")
def rms_norm(call: Call, x: Value, shape: Sequence[Dim], weight: Value | None, eps: float | None) -> Value:
    return _rms_norm(x, len(shape), weight, eps)[0]


EPSILON = {"f16": 0.0009765625, "bf16": 0.0078125, "f32": 1.1920928955078125e-07, "f64": 2.220446049250313e-16}
"""The distance from 1 to the next number."""


def _rms_norm(x: Value, count: int, weight: Value | None, eps: float | None) -> tuple[Value, Value]:
    """x * rstd * weight with rstd = 1 / sqrt(mean(x^2) + eps)."""
    x = x.opmath()
    over = range(x.rank - count, x.rank)
    mean = (x * x).reduce("sum", over, keepdim=True)
    mean = mean / mean.full(x.count(over))
    rstd = (mean + (EPSILON[x.dtype] if eps is None else eps)).rsqrt()
    return _affine(x * rstd, weight, None), rstd


def _gradient(g: Value, n: Value, rstd: Value, over: Sequence[int], *, centred: bool = True) -> Value:
    """Of x, where n = (x - mean) * rstd over some dims has the gradient g: rstd * (g - mean(g) - n * mean(g * n)); no
    mean is subtracted where that of x is not.
    """
    mean_g = g.reduce("sum", over, keepdim=True) if centred else None
    mean_gn = (g * n).reduce("sum", over, keepdim=True)
    count = g.count(over)
    if mean_g is not None:
        g = g - mean_g / mean_g.full(count)
    return rstd * (g - n * (mean_gn / mean_gn.full(count)))


def _summed(x: Value, over: Sequence[int]) -> Value:
    return x.reduce("sum", over) if over else x


@rule("aten.native_layer_norm_backward")
def native_layer_norm_backward(
    call: Call,
    grad: Value,
    x: Value,
    shape: Sequence[Dim],
    mean: Value,
    rstd: Value,
    weight: Value | None,
    bias: Value | None,
    wanted: Sequence[bool],
) -> tuple[Value | None, ...]:
    """The gradients of x, of the weight, sum(grad * n), and of the bias, sum(grad)."""
    grad, x = grad.opmath(), x.opmath()
    outer = range(x.rank - len(shape))
    inner = range(x.rank - len(shape), x.rank)
    rstd = rstd.to(x.dtype)
    n = (x - mean.to(x.dtype)) * rstd
    g = _affine(grad, weight, None)
    results: list[Value | None] = [None, None, None]
    if wanted[0]:
        results[0] = _gradient(g, n, rstd, inner)
    if wanted[1]:
        results[1] = _summed(grad * n, outer)
    if wanted[2]:
        results[2] = _summed(grad, outer)
    return tuple(results)


@rule("aten._fused_rms_norm_backward")
def fused_rms_norm_backward(
    call: Call,
    grad: Value,
    x: Value,
    shape: Sequence[Dim],
    rstd: Value,
    weight: Value | None,
    wanted: Sequence[bool],
) -> tuple[Value | None, ...]:
    """The gradients of x, and of the weight, sum(grad * n) with n = x * rstd."""
    grad, x = grad.opmath(), x.opmath()
    outer = range(x.rank - len(shape))
    inner = range(x.rank - len(shape), x.rank)
    rstd = rstd.to(x.dtype)
    n = x * rstd
    results: list[Value | None] = [None, None]
    if wanted[0]:
        results[0] = _gradient(_affine(grad, weight, None), n, rstd, inner, centred=False)
    if wanted[1] and weight is not None:
        results[1] = _summed(grad * n, outer)
    return tuple(results)


# Group norm: x as [N, groups, channels of a group, …]


def _grouped(x: Value, groups: Dim) -> Value:
    n, c, *spatial = x.shape
    return x.reshape([n, groups, expr.floordiv(c, groups), *spatial])


def _per_channel(v: Value, groups: Dim, rank: int) -> Value:
    """A vector over channels beside a grouped tensor of that rank."""
    c = v.shape[0]
    return v.reshape([groups, expr.floordiv(c, groups), *[1] * (rank - 3)])


@rule("aten.native_group_norm")
def native_group_norm(
    call: Call,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    n: Dim,
    c: Dim,
    hw: Dim,
    groups: int,
    eps: float,
) -> tuple[Value, Value, Value]:
    return _group_norm(x, weight, bias, groups, eps)


@rule("aten.group_norm")
def group_norm(
    call: Call, x: Value, groups: int, weight: Value | None, bias: Value | None, eps: float, cudnn: bool
) -> Value:
    return _group_norm(x, weight, bias, groups, eps)[0]


def _group_norm(
    x: Value, weight: Value | None, bias: Value | None, groups: int, eps: float
) -> tuple[Value, Value, Value]:
    y = _grouped(x.opmath(), groups)
    over = range(2, y.rank)
    variance, mean = y.var_mean(over)
    rstd = (variance + eps).rsqrt()
    ones = range(2, y.rank)
    z = (y - mean.unsqueeze(*ones)) * rstd.unsqueeze(*ones)
    w, b = (None if v is None else _per_channel(v.to(y.dtype), groups, y.rank) for v in (weight, bias))
    return _affine(z, w, b).reshape(x.shape), moving_mean(variance, mean), rstd


@rule("aten.native_group_norm_backward")
def native_group_norm_backward(
    call: Call,
    grad: Value,
    x: Value,
    mean: Value,
    rstd: Value,
    weight: Value | None,
    n: Dim,
    c: Dim,
    hw: Dim,
    groups: int,
    wanted: Sequence[bool],
) -> tuple[Value | None, ...]:
    """As layer norm's, over the channels and positions of a group."""
    g, y = _grouped(grad.opmath(), groups), _grouped(x.opmath(), groups)
    ones = range(2, y.rank)
    mean, rstd = (v.to(y.dtype).reshape(y.shape[:2]).unsqueeze(*ones) for v in (mean, rstd))
    normal = (y - mean) * rstd
    positions = [0, *range(3, y.rank)]
    results: list[Value | None] = [None, None, None]
    if wanted[0]:
        gw = g if weight is None else g * _per_channel(weight.to(y.dtype), groups, y.rank)
        results[0] = _gradient(gw, normal, rstd, ones).reshape(x.shape)
    if wanted[1]:
        results[1] = _summed(g * normal, positions).reshape([c])
    if wanted[2]:
        results[2] = _summed(g, positions).reshape([c])
    return tuple(results)
