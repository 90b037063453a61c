"""Convolutions that are marked (`aten-choose-products`): sums over windows, or calls with halves as f32; any other
stays a call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..dialects import expr
from ..dialects.expr import Dim
from .decomposition import Call, rule
from .decompositions_pooling import Windows
from .prims_builder import Value
from .products import is_generated, is_widened
from .widened import called, called_in_f32


def _each(values: Sequence[int], n: int) -> tuple[int, ...]:
    """One number for each of n dims; a single one stands for all."""
    return tuple(values) * (n if len(values) == 1 else 1)


class _Grouped:
    """Windows of images and their weights, both as [batch, groups, outer, places…, inner, kernel…]."""

    def __init__(self, x: Value, of: Windows, groups: int, outer: Dim) -> None:
        self.of, self.groups, self.outer = of, groups, outer
        self.n = n = len(of.kernel)
        self.batch, self.inner = x.shape[0], expr.floordiv(x.shape[1], groups)
        self.shape = [self.batch, groups, outer, *of.places, self.inner, *of.kernel]
        read = of.read(x, 0).opmath().reshape((self.batch, groups, self.inner, *of.places, *of.kernel))
        read = read.transpose([0, 1, *range(3, 3 + n), 2, *range(3 + n, 3 + 2 * n)])
        self.windows = read.broadcast(self.shape, [0, 1, *range(3, 4 + 2 * n)])

    def weighted(self, weight: Value) -> Value:
        """[batch, channels, places…]: the sum over a window and the inner channels."""
        n = self.n
        w = weight.opmath().reshape((self.groups, self.outer, self.inner, *self.of.kernel))
        w = w.broadcast(self.shape, [1, 2, 3 + n, *range(4 + n, 4 + 2 * n)])
        result = (self.windows * w).reduce("sum", range(3 + n, 4 + 2 * n))
        return result.reshape((self.batch, expr.product((self.groups, self.outer)), *self.of.places))

    def correlated(self, grad: Value) -> Value:
        """[channels, inner, kernel…]: the sum over the batch and all places."""
        n = self.n
        g = grad.opmath().reshape((self.batch, self.groups, self.outer, *self.of.places))
        product = self.windows * g.broadcast(self.shape, range(3 + n))
        result = product.reduce("sum", [0, *range(3, 3 + n)])
        return result.reshape((expr.product((self.groups, self.outer)), self.inner, *self.of.kernel))


def _spread(x: Value, stride: Sequence[int]) -> Value:
    """x with stride - 1 zeros between neighbours of its last dims."""
    for i, s in enumerate(stride):
        dim = 2 + i
        if s > 1:
            size = x.shape[dim]
            high = [0] * (x.rank + 1)
            high[dim + 1] = s - 1
            y = x.unsqueeze(dim + 1).pad([0] * (x.rank + 1), high, 0)
            wide = expr.product((size, s))
            y = y.reshape((*x.shape[:dim], wide, *x.shape[dim + 1 :]))
            x = y.slice(dim, 0, expr.normal(wide - (s - 1)))  # pyright: ignore[reportOperatorIssue]
    return x


def _turned(weight: Value, groups: int) -> Value:
    """Weights with input and output channels exchanged, backwards along each window."""
    outer, inner, *kernel = weight.shape
    w = weight.flip(range(2, weight.rank)).reshape((groups, expr.floordiv(outer, groups), inner, *kernel))
    w = w.transpose([0, 2, 1, *range(3, w.rank)])
    return w.reshape((expr.product((groups, inner)), expr.floordiv(outer, groups), *kernel))


def _convolved(
    x: Value, weight: Value, places: Sequence[Dim], stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int], groups: int,
) -> Value:  # fmt: skip
    kernel: Any = weight.shape[2:]
    of = Windows(2, tuple(places), tuple(kernel), tuple(stride), tuple(padding), tuple(dilation))
    return _Grouped(x, of, groups, expr.floordiv(weight.shape[0], groups)).weighted(weight)


def _transposed(
    x: Value, weight: Value, places: Sequence[Dim], stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int], groups: int,
) -> Value:  # fmt: skip
    """What a convolution has for its gradient: windows over x with zeros between its elements, weights backwards."""
    kernel: Any = weight.shape[2:]
    low = [d * (k - 1) - p for d, k, p in zip(dilation, kernel, padding, strict=True)]
    ones = [1] * len(low)
    return _convolved(_spread(x, stride), _turned(weight, groups), places, ones, low, dilation, groups)


def _adds_bias(x: Value, weight: Value, groups: int) -> bool:
    """Whether ATen adds the bias to what its library has made, as a kernel of ours does with what follows: on GPUs,
    but for depthwise convolutions. Source: aten/src/ATen/native/Convolution.cpp, _convolution.
    """
    return x.type.device.startswith("cuda") and (groups == 1 or weight.shape[1] != 1)


@rule("aten.convolution", costly=True)
def convolution(
    call: Call, x: Value, weight: Value, bias: Value | None, stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int], transposed: bool, output_padding: Sequence[int], groups: int,
) -> Any:  # fmt: skip
    """The sum over input channels of a group and places within the window of x[n, g, i, s o + d k] w[g, j, i, k]."""
    if is_widened(call.op):
        args = (x, weight, bias, stride, padding, dilation, transposed, output_padding, groups)
        return called_in_f32(call, args)[0]
    if not is_generated(call.op):
        if bias is None or not _adds_bias(x, weight, groups):
            return NotImplemented
        args = (x, weight, None, stride, padding, dilation, transposed, output_padding, groups)
        (y,) = called(call, call.op.name, args, [call.type])
        return (y.opmath() + bias.opmath().broadcast(y.shape, [1])).to(call.type.dtype)
    n = x.rank - 2
    numbers = _each(stride, n), _each(padding, n), _each(dilation, n)
    made = _transposed if transposed else _convolved
    result = made(x, weight, call.type.shape[2:], *numbers, groups)
    if bias is not None:
        result = result + bias.opmath().broadcast(result.shape, [1])
    return result.to(call.type.dtype)


@rule("aten.convolution_backward", costly=True)
def convolution_backward(
    call: Call, grad: Value, x: Value, weight: Value, bias: Any, stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int], transposed: bool, output_padding: Sequence[int], groups: int, mask: Sequence[bool],
) -> Any:  # fmt: skip
    """Of x: the convolution the other way; of the weight: sums over places of windows times the gradient."""
    if is_widened(call.op):
        given = (stride, padding, dilation, transposed, output_padding, groups, mask)
        made = called_in_f32(call, (grad, x, weight, bias, *given))
        return tuple(v if call.wanted(i) else None for i, v in enumerate(made))
    if not is_generated(call.op):
        return NotImplemented
    n = x.rank - 2
    strides, low, steps = numbers = _each(stride, n), _each(padding, n), _each(dilation, n)
    results: list[Value | None] = [None, None, None]
    if call.wanted(0):
        made = _convolved if transposed else _transposed
        results[0] = made(grad, weight, x.shape[2:], *numbers, groups).to(x.dtype)
    if call.wanted(1):
        kernel: Any = weight.shape[2:]
        image, other = (grad, x) if transposed else (x, grad)
        of = Windows(2, tuple(other.shape[2:]), tuple(kernel), strides, low, steps)
        grouped = _Grouped(image, of, groups, expr.floordiv(other.shape[1], groups))
        results[1] = grouped.correlated(other).to(weight.dtype)
    if call.wanted(2):
        results[2] = grad.opmath().reduce("sum", [0, *range(2, grad.rank)]).to(grad.dtype)
    return tuple(results)
