"""Activation functions and their derivatives. Constants and their order of operations are ATen's."""

from __future__ import annotations

import math
from typing import Any, Final

from ..dialects import expr, prims
from ..dialects.prims import Number
from ..dialects.tensor import is_float
from .decomposition import Call, pointwise, rule, view
from .decompositions_comparison import clamp, unless
from .prims_builder import Value
from .steps import step, step_in

SQRT_HALF: Final = math.sqrt(0.5)
SQRT_2_BY_PI: Final = math.sqrt(2 / math.pi)
SIXTH: Final = float.fromhex("0x1.555556p-3")
"""1 / 6, which ATen has in f32 for f64 too."""
CUBIC: Final = 0.044715
"""Of the tanh form of gelu: sqrt(2/pi) * (x + CUBIC * x^3)."""


@rule("aten.relu")
def relu(call: Call, x: Value) -> Value:
    """max(x, 0); NaN stays, and so does -0.0."""
    return clamp(call, x, 0, None)


@rule("aten.relu6")
def relu6(call: Call, x: Value) -> Value:
    return clamp(call, x, 0, 6)


@rule("aten.hardtanh")
def hardtanh(call: Call, x: Value, low: Number, high: Number) -> Value:
    return clamp(call, x, low, high)


@pointwise("aten.sigmoid", "aten.special_expit")
def sigmoid(x: Value) -> Value:
    return x.sigmoid()


@pointwise("aten.silu")
def silu(x: Value) -> Value:
    """x * sigmoid(x)."""
    return x / (1.0 + (-x).exp())


@pointwise("aten.gelu", of=is_float)
def gelu(x: Value, approximate: str) -> Value:
    """x * Phi(x), by erf or the tanh form."""
    if approximate == "tanh":
        return 0.5 * x * (1.0 + _gelu_inner(x).tanh())
    return 0.5 * x * (1.0 + (x * SQRT_HALF).erf())


def _gelu_inner(x: Value) -> Value:
    return SQRT_2_BY_PI * (x + CUBIC * (x * x * x))


@pointwise("aten.leaky_relu")
def leaky_relu(x: Value, slope: Number) -> Value:
    return (x > 0.0).where(x, x * slope)


@pointwise("aten._prelu_kernel")
def prelu(x: Value, weight: Value) -> Value:
    return (x > 0.0).where(x, weight * x)


@pointwise("aten.elu")
def elu(x: Value, alpha: Number, scale: Number, input_scale: Number) -> Value:
    """scale * (x above 0, alpha * (e^(input_scale x) - 1) below)."""
    negative = (x * input_scale).unary(prims.Expm1Op.make) * (alpha * scale)
    return (x < 0.0).where(negative, x * scale)


@pointwise("aten.celu")
def celu(x: Value, alpha: Number) -> Value:
    return elu(x, alpha, 1.0, 1.0 / alpha)


@pointwise("aten.selu")
def selu(x: Value) -> Value:
    return elu(x, 1.6732632423543772848170429916717, 1.0507009873554804934193349852946, 1.0)


@pointwise("aten.hardsigmoid")
def hardsigmoid(x: Value) -> Value:
    return (x + 3.0).maximum(0.0).minimum(6.0) / 6.0


@pointwise("aten.hardswish")
def hardswish(x: Value) -> Value:
    return x * (x + 3.0).maximum(0.0).minimum(6.0) / 6.0


@pointwise("aten.softplus")
def softplus(x: Value, beta: Number, threshold: Number) -> Value:
    """log(1 + e^(beta x)) / beta, x itself where beta x > threshold."""
    z = x * beta
    return (z > threshold).where(x, z.exp().log1p() / beta)


@pointwise("aten.mish")
def mish(x: Value) -> Value:
    """x * tanh(softplus(x))."""
    return x * x.exp().log1p().tanh()


@rule("aten.log_sigmoid_forward")
def log_sigmoid(call: Call, x: Value) -> tuple[Value, Value]:
    """min(0, x) - log(1 + z), z = e^-|x|; z is kept for the derivative (and may be empty)."""
    x = x.opmath()
    z = (-x.abs()).exp()
    result = x.minimum(0.0) - z.log1p()
    return result, z if call.types[1].shape == x.shape else call.empty(1)


@pointwise("aten.threshold")
def threshold(x: Value, bound: Number, value: Number) -> Value:
    return (x <= bound).where(value, x)


@pointwise("aten.hardshrink")
def hardshrink(x: Value, bound: Number) -> Value:
    return ((x >= -bound) & (x <= bound)).where(0.0, x)


@pointwise("aten.softshrink", of=is_float)
def softshrink(x: Value, bound: Number) -> Value:
    """x moved by bound towards 0; NaN stays."""
    inside = (x > bound).where(x - bound, (x < -bound).where(x + bound, x * 0.0))
    return x.isnan().where(x, inside)


@rule("aten.glu")
def glu(call: Call, x: Value, dim: int) -> Value:
    """a * sigmoid(b) for the halves a, b of x along dim."""
    a, b = (v.opmath() for v in _halves(x, dim))
    return a * b.sigmoid()


def _halves(x: Value, dim: int) -> tuple[Value, Value]:
    dim %= x.rank
    size = expr.floordiv(x.shape[dim], 2)
    return x.slice(dim, 0, size), x.slice(dim, size, size)


@view("aten.dropout", "aten.feature_dropout", "aten.alpha_dropout", "aten.feature_alpha_dropout")
def dropout(call: Call, x: Value, p: float, train: bool) -> Any:
    """x itself outside of training; random otherwise, and so left to ATen."""
    return x if not train else NotImplemented


# Derivatives: `grad` is that of the result


@pointwise("aten.sigmoid_backward", steps=True)
def sigmoid_backward(grad: Value, y: Value, *, dtype: str) -> Value:
    return step_in(grad * step_in(1.0 - y, dtype, "f16"), dtype, "f16") * y


@pointwise("aten.tanh_backward")
def tanh_backward(grad: Value, y: Value) -> Value:
    return grad * (1.0 - y * y)


@pointwise("aten.silu_backward")
def silu_backward(grad: Value, x: Value) -> Value:
    """sigmoid(x) * (1 + x * (1 - sigmoid(x)))."""
    s = x.sigmoid()
    return grad * s * (1.0 + x * (1.0 - s))


@pointwise("aten.gelu_backward", of=is_float)
def gelu_backward(grad: Value, x: Value, approximate: str) -> Value:
    if approximate == "tanh":
        t = _gelu_inner(x).tanh()
        inner = (1.0 - t * t) * (SQRT_2_BY_PI * (1.0 + 3.0 * CUBIC * (x * x)))
        return grad * (0.5 * (1.0 + t) + 0.5 * x * inner)
    cdf = 0.5 * (1.0 + (x * SQRT_HALF).erf())
    density = (x * x * -0.5).exp() * (SQRT_2_BY_PI * 0.5)
    return grad * (cdf + x * density)


@pointwise("aten.threshold_backward")
def threshold_backward(grad: Value, x: Value, bound: Number) -> Value:
    return (x <= bound).where(0.0, grad)


@pointwise("aten.hardtanh_backward")
def hardtanh_backward(grad: Value, x: Value, low: Number, high: Number) -> Value:
    return unless(x, (x > low) & (x < high), (x <= low) | (x >= high)).where(grad, 0.0)


@pointwise("aten.hardsigmoid_backward")
def hardsigmoid_backward(grad: Value, x: Value) -> Value:
    return ((x > -3.0) & (x < 3.0)).where(grad * SIXTH, 0.0)


@pointwise("aten.hardswish_backward")
def hardswish_backward(grad: Value, x: Value) -> Value:
    return (x <= -3.0).where(0.0, unless(x, x >= 3.0, x < 3.0).where(grad, grad * (x / 3.0 + 0.5)))


@pointwise("aten.hardshrink_backward", "aten.softshrink_backward")
def shrink_backward(grad: Value, x: Value, bound: Number) -> Value:
    return unless(x, (x < -bound) | (x > bound), (x >= -bound) & (x <= bound)).where(grad, 0.0)


@pointwise("aten.leaky_relu_backward")
def leaky_relu_backward(grad: Value, x: Value, slope: Number, is_result: bool) -> Value:
    return (x > 0.0).where(grad, grad * slope)


@rule("aten._prelu_kernel_backward")
def prelu_backward(call: Call, grad: Value, x: Value, weight: Value) -> tuple[Value, Value]:
    grad, x, weight = (v.opmath() for v in (grad, x, weight))
    return (x > 0.0).where(grad, weight * grad), (x > 0.0).where(0.0, x * grad)


@pointwise("aten.elu_backward")
def elu_backward(grad: Value, alpha: Number, scale: Number, input_scale: Number, is_result: bool, x: Value) -> Value:
    if is_result:
        negative = grad * input_scale * (x + alpha * scale)
    else:
        negative = grad * (input_scale * alpha * scale) * (x * input_scale).exp()
    return unless(x, x > 0.0, x <= 0.0).where(grad * scale, negative)


@pointwise("aten.softplus_backward")
def softplus_backward(grad: Value, x: Value, beta: Number, threshold: Number) -> Value:
    z = (x * beta).exp()
    return (x * beta > threshold).where(grad, grad * z / (z + 1.0))


@pointwise("aten.mish_backward")
def mish_backward(grad: Value, x: Value) -> Value:
    t, s = x.exp().log1p().tanh(), x.sigmoid()
    return grad * (t + x * s * (1.0 - t * t))


@rule("aten.log_sigmoid_backward")
def log_sigmoid_backward(call: Call, grad: Value, x: Value, buffer: Value) -> Value:
    grad, x = grad.opmath(), x.opmath()
    z = step((-x.abs()).exp(), call.type.dtype)  # ATen's forward has kept it
    negative = x < 0.0
    return grad * (negative.where(1.0, x.full(0.0)) - negative.where(1.0, x.full(-1.0)) * (z / (1.0 + z)))


@rule("aten.glu_backward")
def glu_backward(call: Call, grad: Value, x: Value, dim: int) -> Value:
    a, b = (v.opmath() for v in _halves(x, dim))
    grad, s = grad.opmath(), step(b.sigmoid(), call.type.dtype)  # ATen leaves it where its product with grad is made
    t = call.type.with_(dtype=grad.dtype)
    return call.b.cat([grad * s, grad * s * (1.0 - s) * a], dim % x.rank, t)


@pointwise("aten.native_dropout_backward")
def native_dropout_backward(grad: Value, mask: Value, scale: Number) -> Value:
    return grad * (mask * scale)
