"""Loss functions and their derivatives, in f32 for f16 and bf16. `reduction`: 0 none, 1 mean, 2 sum."""

from __future__ import annotations

from typing import Any, Final

from ..dialects import expr
from ..dialects.expr import Dim
from .decomposition import Call, rule
from .prims_builder import Value
from .promotion import opmath, promote_types
from .steps import step

NONE: Final = 0
MEAN: Final = 1


def reduced(loss: Value, reduction: int) -> Value:
    """Each element's loss, their mean, or their sum."""
    if reduction == NONE:
        return loss
    total = loss.reduce("sum", range(loss.rank)) if loss.rank else loss
    return total / total.full(loss.type.numel) if reduction == MEAN else total


def _pair(x: Value, target: Value) -> tuple[Value, Value]:
    """Both in the dtype that eager computes in."""
    dtype = opmath(promote_types(x.dtype, target.dtype))
    return x.to(dtype), target.to(dtype)


def _share(grad: Value, x: Value, reduction: int) -> Value:
    """What of the loss's derivative falls on each element of x, which is of the dtype that eager computes in."""
    grad = grad.to(x.dtype).expand(x.shape)
    return grad / grad.full(x.type.numel) if reduction == MEAN else grad


@rule("aten.mse_loss")
def mse_loss(call: Call, x: Value, target: Value, reduction: int) -> Value:
    """(x - target)^2."""
    dtype = call.type.dtype
    x, target = _pair(x, target)
    difference = step(x - target, dtype)
    return reduced(step(difference * difference, dtype), reduction)


@rule("aten.mse_loss_backward")
def mse_loss_backward(call: Call, grad: Value, x: Value, target: Value, reduction: int) -> Value:
    x, target = _pair(x, target)
    return 2.0 * (x - target) * _share(grad, x, reduction)


@rule("aten.smooth_l1_loss")
def smooth_l1_loss(call: Call, x: Value, target: Value, reduction: int, beta: float) -> Value:
    """d^2 / (2 beta) for d = |x - target| < beta, d - beta / 2 from there on."""
    x, target = _pair(x, target)
    d = (x - target).abs()
    return reduced(d if beta == 0 else (d < beta).where(0.5 * d * d / beta, d - 0.5 * beta), reduction)


@rule("aten.smooth_l1_loss_backward")
def smooth_l1_loss_backward(call: Call, grad: Value, x: Value, target: Value, reduction: int, beta: float) -> Value:
    x, target = _pair(x, target)
    d, share = x - target, _share(grad, x, reduction)
    outside = (d <= -beta).where(-share, share)
    return outside if beta == 0 else (d.abs() < beta).where(share * d / beta, outside)


@rule("aten.huber_loss")
def huber_loss(call: Call, x: Value, target: Value, reduction: int, delta: float) -> Value:
    """d^2 / 2 for d = |x - target| <= delta, delta * (d - delta / 2) beyond."""
    x, target = _pair(x, target)
    d = (x - target).abs()
    return reduced((d <= delta).where(0.5 * d * d, delta * (d - 0.5 * delta)), reduction)


@rule("aten.huber_loss_backward")
def huber_loss_backward(call: Call, grad: Value, x: Value, target: Value, reduction: int, delta: float) -> Value:
    x, target = _pair(x, target)
    d, share = x - target, _share(grad, x, reduction)
    return (d < -delta).where(-delta * share, (d > delta).where(delta * share, d * share))


@rule("aten.soft_margin_loss")
def soft_margin_loss(call: Call, x: Value, target: Value, reduction: int) -> Value:
    """log(1 + e^(-target * x))."""
    dtype = call.type.dtype
    x, target = _pair(x, target)
    return reduced(step(step(step(-target * x, dtype).exp(), dtype).log1p(), dtype), reduction)


@rule("aten.binary_cross_entropy")
def binary_cross_entropy(call: Call, x: Value, target: Value, weight: Value | None, reduction: int) -> Value:
    """(target - 1) * log(1 - x) - target * log(x), the logarithms not below -100."""
    x, target = x.opmath(), target.opmath()
    x = x.checked((x >= 0.0) & (x <= 1.0), "RuntimeError: all elements of input should be between 0 and 1")
    loss = (target - 1.0) * (-x).log1p().maximum(-100.0) - target * x.log().maximum(-100.0)
    return reduced(loss if weight is None else loss * weight.opmath(), reduction)


@rule("aten.binary_cross_entropy_backward")
def binary_cross_entropy_backward(
    call: Call, grad: Value, x: Value, target: Value, weight: Value | None, reduction: int
) -> Value:
    dtype = call.type.dtype
    x, target = x.opmath(), target.opmath()
    share = _share(grad, x, NONE)
    variance = step(step(1.0 - x, dtype) * x, dtype).maximum(1e-12)
    result = step(step(share * step(x - target, dtype), dtype) / step(variance, dtype), dtype)
    result = result if weight is None else step(result * weight.opmath(), dtype)
    return result / result.full(x.type.numel) if reduction == MEAN else result


@rule("aten.binary_cross_entropy_with_logits")
def binary_cross_entropy_with_logits(
    call: Call, x: Value, target: Value, weight: Value | None, pos_weight: Value | None, reduction: int
) -> Value:
    """(1 - target) * x - (1 + (pos_weight - 1) * target) * log_sigmoid(x)."""
    dtype = call.type.dtype
    x, target = _pair(x, target)
    log_sigmoid = step(x.minimum(0.0) - (-x.abs()).exp().log1p(), dtype)
    if pos_weight is not None:
        more = step(pos_weight.to(x.dtype) - 1.0, dtype)
        log_sigmoid = step(log_sigmoid * step(step(more * target, dtype) + 1.0, dtype), dtype)
    loss = step(step(step(1.0 - target, dtype) * x, dtype) - log_sigmoid, dtype)
    return reduced(loss if weight is None else step(loss * weight.to(x.dtype), dtype), reduction)


# Negative log likelihood: x holds log-probabilities, its classes are dim 1, or dim 0 of a vector


@rule("aten.nll_loss_forward", "aten.nll_loss2d_forward")
def nll_loss(
    call: Call, x: Value, target: Value, weight: Value | None, reduction: int, ignore_index: Dim
) -> tuple[Value, Value]:
    """-weight[target] * x[target], 0 where target is ignore_index, and the sum of the weights that count."""
    counts = target.ne(ignore_index)
    classes = counts.where(target, target.full(0)).to("i64")
    picked = _pick(x.opmath(), classes)
    share = picked.full(1.0) if weight is None else _class_weight(weight.to(picked.dtype), classes)
    share = counts.where(share, 0.0)
    loss = -(counts.where(picked, 0.0) * share)
    if reduction == NONE:
        return loss, call.empty(1)
    over = range(loss.rank)
    total, weights = (v.reduce("sum", over) if v.rank else v for v in (loss, share))
    return (total / weights if reduction == MEAN else total), weights


TARGET_OUT_OF_BOUNDS: Final = "Target is out of bounds"


def _pick(x: Value, classes: Value) -> Value:
    """x at the class of each target."""
    dims: list[Any] = [expr.symbol(f"d{k}") for k in range(classes.rank)]
    dims.insert(1 if x.rank > 1 else 0, expr.symbol("i0"))
    return x.gather([classes], dims, classes.type.with_(shape=classes.shape).with_(dtype=x.dtype), TARGET_OUT_OF_BOUNDS)


def _class_weight(weight: Value, classes: Value) -> Value:
    t = classes.type.with_(shape=classes.shape).with_(dtype=weight.dtype)
    return weight.gather([classes], [expr.symbol("i0")], t, TARGET_OUT_OF_BOUNDS)


@rule("aten.nll_loss_backward", "aten.nll_loss2d_backward")
def nll_loss_backward(
    call: Call,
    grad: Value,
    x: Value,
    target: Value,
    weight: Value | None,
    reduction: int,
    ignore_index: Dim,
    total_weight: Value,
) -> Value:
    """-weight * grad at the class of each target, 0 elsewhere."""
    dim = 1 if x.rank > 1 else 0
    grad = grad.opmath()
    if reduction == MEAN:
        grad = grad / total_weight.to(grad.dtype)
    if reduction == NONE and x.rank > 1:
        grad = grad.unsqueeze(dim)
    counts = target.ne(ignore_index)
    wide = (target.to("i64").unsqueeze(dim), counts.unsqueeze(dim)) if x.rank > 1 else (target.to("i64"), counts)
    at, counted = (v.expand(x.shape) for v in wide)
    here = call.b.iota(dim, at.type).eq(at) & counted
    value = -grad
    if weight is not None:
        ones = range(1, x.rank - dim)
        value = value * weight.to(grad.dtype).unsqueeze(*ones).expand(x.shape)
    return here.where(value.expand(x.shape), 0.0)
