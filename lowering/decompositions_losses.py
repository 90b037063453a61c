"""Loss functions and their derivatives, in f32 for f16 and bf16. `reduction`: 0 none, 1 mean, 2 sum."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from ..dialects import expr
from ..dialects.expr import Dim
from .decomposition import Call, rule
from .prims_builder import Value
from .promotion import opmath, promote_types
from .steps import step, step_in

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


def _norm(x: Value, reduction: int, factor: float = 1.0) -> Value:
    """What a loss's derivative is multiplied by, in the dtype that eager computes in."""
    return x.full(factor) / x.full(x.type.numel) if reduction == MEAN else x.full(factor)


def _of(x: Value, grad: Value) -> Value:
    """`grad`, of the loss or of each element's, at each element of x, in its dtype."""
    return grad.to(x.dtype).expand(x.shape)


@rule("aten.mse_loss")
def mse_loss(call: Call, x: Value, target: Value, reduction: int) -> Value:
    """(x - target)^2."""
    dtype = call.type.dtype
    x, target = _pair(x, target)
    difference = step(x - target, dtype)
    return reduced(step(difference * difference, dtype), reduction)


@rule("aten.mse_loss_backward")
def mse_loss_backward(call: Call, grad: Value, x: Value, target: Value, reduction: int) -> Value:
    dtype = call.type.dtype
    x, target = _pair(x, target)
    return step(step(x - target, dtype) * _norm(x, reduction, 2.0), dtype) * _of(x, grad)


@rule("aten.smooth_l1_loss")
def smooth_l1_loss(call: Call, x: Value, target: Value, reduction: int, beta: float) -> Value:
    """d^2 / (2 beta) for d = |x - target| < beta, d - beta / 2 from there on."""
    x, target = _pair(x, target)
    at = partial(step_in, dtype=call.type.dtype, where="f16")
    d = at((x - target).abs())
    if beta == 0:
        return reduced(d, reduction)
    number = at(x.full(beta))
    inside = at(at(0.5 * d) * d) / number
    return reduced(at((d < number).where(inside, d - at(0.5 * number))), reduction)


@rule("aten.smooth_l1_loss_backward")
def smooth_l1_loss_backward(call: Call, grad: Value, x: Value, target: Value, reduction: int, beta: float) -> Value:
    x, target = _pair(x, target)
    d, norm, grad = step_in(x - target, call.type.dtype), _norm(x, reduction), _of(x, grad)
    outside = (d <= -beta).where(-norm * grad, norm * grad)
    return outside if beta == 0 else (d.abs() >= beta).where(outside, norm * d / beta * grad)


@rule("aten.huber_loss")
def huber_loss(call: Call, x: Value, target: Value, reduction: int, delta: float) -> Value:
    """d^2 / 2 for d = |x - target| <= delta, delta * (d - delta / 2) beyond."""
    x, target = _pair(x, target)
    at = partial(step_in, dtype=call.type.dtype, where="bf16")
    d, number = at((x - target).abs()), at(x.full(delta))
    beyond = number * at(d - at(0.5 * number))
    return reduced(at((d <= number).where(at(0.5 * d) * d, beyond)), reduction)


@rule("aten.huber_loss_backward")
def huber_loss_backward(call: Call, grad: Value, x: Value, target: Value, reduction: int, delta: float) -> Value:
    dtype = call.type.dtype
    x, target = _pair(x, target)
    d, number = step(x - target, dtype), step(x.full(delta), dtype)
    limited = (d < -number).where(-number, (d > number).where(number, d))
    return step(limited * step(_norm(x, reduction), dtype), dtype) * _of(x, grad)


@rule("aten.soft_margin_loss")
def soft_margin_loss(call: Call, x: Value, target: Value, reduction: int) -> Value:
    """log(1 + e^(-target * x))."""
    dtype = call.type.dtype
    x, target = _pair(x, target)
    return reduced(step(step(step(-target * x, dtype).exp(), dtype).log1p(), dtype), reduction)


@rule("aten.soft_margin_loss_backward")
def soft_margin_loss_backward(call: Call, grad: Value, x: Value, target: Value, reduction: int) -> Value:
    """-target * z / (z + 1) for z = e^(-target * x)."""
    dtype = call.type.dtype
    x, target = _pair(x, target)
    z = step(step(-target * x, dtype).exp(), dtype)
    times = step(step(target * z, dtype) * -step(_norm(x, reduction), dtype), dtype)
    return step(times / step(z + 1.0, dtype), dtype) * _of(x, grad)


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
    share = _of(x, grad)
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
