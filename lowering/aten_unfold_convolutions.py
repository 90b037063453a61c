"""aten to aten: convolutions whose windows lie side by side, as those that embed patches of images, are matrix
products: on GPUs those of halves, on CPUs the gradients of large windows alone.

    conv(x, w, b, stride = kernel)[n, o, p] = addmm(b, patches(x)[n p, c k], w[o, c k]^T)

cuDNN reorders images of few channels and has slow kernels for them, the copy of patches is one kernel of ours, and the
order of the result, channels last, is what mostly is asked for next. Gradients are products of the same patches. On a
CPU oneDNN has a copy of a weight's gradient for each part of the images that it goes through side by side, eight of
768 x 3 x 16 x 16 on two threads (19 MiB beside the gradient), where the product takes 0.1 to 1.07 of the time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, Final, cast

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from ..dialects import expr
from ..dialects.expr import Dim
from ..dialects.flow import bodies
from ..dialects.tensor import HALVES, TensorType
from .aten_builder import AtenBuilder, type_of
from .convolution_cost import Convolution, convolution_of, reason_to_widen
from .decisions import decide
from .origins import lines
from .target import CpuTarget

POINTS = 64
"""Points of a window from which on the product is as fast as oneDNN's gradient; of 16 it took 0.8 to 2.7 of that."""


@dataclass(frozen=True)
class AtenUnfoldConvolutions(ModulePass):
    """Make convolutions whose windows lie side by side matrix products: on GPUs, and gradients of weights on CPUs.

    `target`: `host` or a name of `CpuTarget.from_name`.
    """

    name = "aten-unfold-convolutions"

    target: str = "host"
    statistics: dict[str, int] = field(default_factory=dict[str, int], init=False, compare=False)

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = CpuTarget.host() if self.target == "host" else CpuTarget.from_name(self.target)
        all_of_them = [c for body in bodies(op) for o in body.block.ops if (c := convolution_of(o))]
        found = [c for c in all_of_them if _is_worth_it(c, target) and _side_by_side(c)]
        self.statistics["convolutions"] = len(found)
        for c in found:
            line = next(iter(lines(c.op.location)), "")
            decide(op, [f"convolution of windows side by side is a matrix product{f' ({line})' if line else ''}"])
            _MAKERS[c.op.name](c)
            c.op.detach()
            c.op.erase()


def _is_worth_it(c: Convolution, target: CpuTarget) -> bool:
    """Whether the product is faster, or needs less memory in the same time."""
    if len({c.x.dtype, c.weight.dtype, c.result.dtype}) > 1:
        return False
    if c.x.device != "cpu":
        return c.x.device.startswith("cuda") and c.x.dtype in HALVES
    if c.op.name != "aten.convolution_backward" or c.op.results[0].first_use or not c.op.results[1].first_use:
        return False
    points = [n for n in c.weight.shape[2:] if isinstance(n, int)]
    in_f32 = c.x.dtype == "f32" or reason_to_widen(c, target) is not None
    return in_f32 and len(points) == c.weight.rank - 2 and prod(points) >= POINTS


def _side_by_side(c: Convolution) -> bool:
    """Whether each element of the images is in one window."""
    op = c.op
    if op.arg("transposed") or op.arg("groups") != 1 or _order(c.weight) is None:
        return False
    sizes: tuple[Any, ...] = (*c.weight.shape, *c.x.shape[1:], *c.result.shape[2:])
    if not all(type(n) is int and n > 0 for n in sizes):
        return False
    kernel, places = cast("tuple[int, ...]", c.weight.shape[2:]), cast("tuple[int, ...]", c.result.shape[2:])
    stride, padding, dilation = (cast("tuple[int, ...]", op.arg(name)) for name in ("stride", "padding", "dilation"))
    if {*padding} != {0} or {*dilation} != {1} or stride not in (kernel, kernel[:1] if len({*kernel}) == 1 else kernel):
        return False
    return prod(kernel) > 1 and all(n == p * k for n, p, k in zip(c.x.shape[2:], places, kernel, strict=True))


def _order(weight: TensorType) -> tuple[int, ...] | None:
    """Dims of a weight in memory, those of a window together; None where it is in another order."""
    n = weight.rank
    orders = ((*range(n),), (0, *range(2, n), 1))
    return next((o for o in orders if _is_contiguous(weight, o)), None)


def _is_contiguous(t: TensorType, order: Sequence[int]) -> bool:
    return t.with_(shape=[t.shape[i] for i in order], strides=[t.strides[i] for i in order]).is_contiguous


class _Unfolded:
    """The tensors of a convolution as matrices: [places, channels of a window], [channels, places …]."""

    def __init__(self, c: Convolution) -> None:
        self.c, self.b = c, AtenBuilder(c.op)
        self.kernel: tuple[Any, ...] = c.weight.shape[2:]
        self.places: tuple[Any, ...] = c.result.shape[2:]
        self.n = len(self.kernel)
        self.batch, self.channels, self.outer = c.x.shape[0], c.x.shape[1], c.weight.shape[0]
        self.rows = expr.normal(expr.product((self.batch, *self.places)))
        self.order = cast("tuple[int, ...]", _order(c.weight))
        self.window: tuple[Any, ...] = tuple(c.weight.shape[i] for i in self.order[1:])
        self.columns = prod(self.window)

    def patches(self, x: SSAValue) -> SSAValue:
        """Images [batch, channels, size…] as [batch and places, a window]."""
        t = type_of(x)
        both = [(p, k) for p, k in zip(self.places, self.kernel, strict=True)]
        steps = [(expr.normal(cast(Any, s) * k), s) for s, k in zip(t.strides[2:], self.kernel, strict=True)]
        shape = (*t.shape[:2], *(d for pair in both for d in pair))
        split = t.with_(shape=shape, strides=(*t.strides[:2], *(s for pair in steps for s in pair)))
        x = self.b.call("aten.view", split, x, shape)
        inner = {1: 1} | {2 + i: 3 + 2 * i for i in range(self.n)}
        dims = (0, *range(2, 2 + 2 * self.n, 2), *(inner[i] for i in self.order[1:]))
        return self.b.view(self.b.plain(self._permuted(x, dims), t.dtype), (self.rows, self.columns))

    def images(self, patches: SSAValue, like: TensorType) -> SSAValue:
        """The other way."""
        x = self.b.view(patches, (self.batch, *self.places, *self.window))
        at = {dim: 1 + self.n + i for i, dim in enumerate(self.order[1:])}
        dims = (0, at[1], *(d for i in range(self.n) for d in (1 + i, at[2 + i])))
        x = self.b.plain(self._permuted(x, dims), like.dtype)
        return self._as(self.b.view(x, like.shape), like)

    def weight(self, weight: SSAValue) -> SSAValue:
        """[channels, a window], as it lies in memory."""
        return self.b.view(self._permuted(weight, self.order), (self.outer, self.columns))

    def grad_weight(self, grad: SSAValue, like: TensorType) -> SSAValue:
        """The gradient of that as one of the weight."""
        grad = self.b.view(grad, (self.outer, *self.window))
        return self._as(self._permuted(grad, [self.order.index(i) for i in range(2 + self.n)]), like)

    def result(self, result: SSAValue, like: TensorType) -> SSAValue:
        """[batch and places, channels] as [batch, channels, places…]."""
        y = self.b.view(result, (self.batch, *self.places, self.outer))
        return self._as(self._permuted(y, (0, 1 + self.n, *range(1, 1 + self.n))), like)

    def grad(self, grad: SSAValue) -> SSAValue:
        """The other way."""
        y = self._permuted(grad, (0, *range(2, 2 + self.n), 1))
        return self.b.view(self.b.plain(y, type_of(grad).dtype), (self.rows, self.outer))

    def _permuted(self, x: SSAValue, dims: Sequence[int]) -> SSAValue:
        t = type_of(x)
        if tuple(dims) == tuple(range(t.rank)):
            return x
        t = t.with_(shape=[t.shape[i] for i in dims], strides=[t.strides[i] for i in dims])
        return self.b.call("aten.permute", t, x, tuple(dims))

    def _as(self, x: SSAValue, t: TensorType) -> SSAValue:
        return x if type_of(x) == t else self.b.laid_out(x, t)


def _forward(c: Convolution) -> None:
    u, result = _Unfolded(c), c.op.results[0]
    x, weight, bias = (c.op.arg(name) for name in ("input", "weight", "bias"))
    factors = u.patches(cast(SSAValue, x)), u.b.transpose(u.weight(cast(SSAValue, weight)))
    shape: tuple[Dim, ...] = (u.rows, u.outer)
    made = u.b.new(shape, c.result.dtype)
    y = u.b.call("aten.mm", made, *factors) if bias is None else u.b.call("aten.addmm", made, bias, *factors)
    y = u.result(y, c.result)
    y.name_hint = result.name_hint
    result.replace_all_uses_with(y)


def _backward(c: Convolution) -> None:
    u = _Unfolded(c)
    b = u.b
    x, weight, grad = (cast(SSAValue, c.op.arg(name)) for name in ("input", "weight", "grad_output"))
    g, dtype = u.grad(grad), c.result.dtype
    made: list[Callable[[TensorType], SSAValue]] = [
        lambda t: u.images(b.call("aten.mm", b.new((u.rows, u.columns), dtype), g, u.weight(weight)), t),
        lambda t: u.grad_weight(b.call("aten.mm", b.new((u.outer, u.columns), dtype), b.transpose(g), u.patches(x)), t),
        lambda t: b.call("aten.sum.dim_IntList", t, g, (0,), False, None),
    ]
    for result, make in zip(c.op.results, made, strict=True):
        if result.first_use is not None:
            value = make(cast(TensorType, result.type))
            value.name_hint = result.name_hint
            result.replace_all_uses_with(value)


_MAKERS: Final[dict[str, Callable[[Convolution], None]]] = {
    "aten.convolution": _forward,
    "aten.convolution_backward": _backward,
}
