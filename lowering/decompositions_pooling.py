"""Pooling: reductions over windows. A window is two indices, its place and the place within it: `x[…, o * stride + k
* dilation, …]`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.ir import Operation, SSAValue

from ..dialects import expr, prims
from ..dialects.aten import AtenOp
from ..dialects.expr import Dim
from ..dialects.prims import Number
from ..dialects.tensor import TensorType
from .decomposition import Call, rule
from .decompositions_views import dims_of
from .numbers import lowest
from .prims_builder import Value

COVERING = 16
"""Windows that an element of what was pooled lies in, up to which it reads them all."""


@dataclass(frozen=True)
class Windows:
    """The windows over the last dims of a tensor: `outer` leading dims, then as many places, sizes, strides, … as
    dims.
    """

    outer: int
    places: tuple[Dim, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]

    def index(self) -> list[Any]:
        """The place in the padded tensor of an element of a window; dims are `outer`, places, places within."""
        n = len(self.kernel)
        dims = dims_of(self.outer + 2 * n)
        at, within = dims[self.outer : self.outer + n], dims[self.outer + n :]
        steps = zip(at, self.stride, within, self.dilation, strict=True)
        return [*dims[: self.outer], *(o * s + k * d for o, s, k, d in steps)]

    def read(self, x: Value, filler: Number) -> Value:
        """The elements as `[outer…, places…, kernel…]`; `filler` where a window leaves x."""
        padded = x
        if any(self.padding) or any(h != 0 for h in self._overhang(x)):
            low: list[Dim] = [*[0] * self.outer, *self.padding]
            padded = x.pad(low, [0] * self.outer + self._overhang(x), filler)
        shape = [*x.shape[: self.outer], *self.places, *self.kernel]
        return padded.gather((), self.index(), TensorType.get(shape, x.dtype, None, x.type.device))

    def covering(self) -> list[int]:
        """How many windows an element lies in at most, by dims."""
        reach = (d * (k - 1) + 1 for d, k in zip(self.dilation, self.kernel, strict=True))
        return [expr.ceildiv(r, s) for r, s in zip(reach, self.stride, strict=True)]  # type: ignore[misc]

    def read_covering(self, values: Value, x: Value, filler: Number) -> Value:
        """What the windows that may cover an element of x have, as `[*x.shape, *self.covering()]`, last ones first;
        `filler` where there is no such window.
        """
        most, sizes = self.covering(), x.shape[self.outer :]
        last = [
            expr.floordiv(expr.normal(n - 1 + p), s) for n, p, s in zip(sizes, self.padding, self.stride, strict=True)
        ]
        beyond = [expr.normal(end - o + 1) for end, o in zip(last, self.places, strict=True)]
        low: list[Dim] = [*[0] * self.outer, *(m - 1 for m in most)]
        padded = values.pad(low, [0] * self.outer + beyond, filler)
        dims = dims_of(x.rank + len(most))
        steps = zip(dims[self.outer :], self.padding, self.stride, most, dims[x.rank :], strict=False)
        index = [expr.floordiv(at + p, s) + (m - 1) - back for at, p, s, m, back in steps]
        shape = [*x.shape, *most]
        return padded.gather(
            (), [*dims[: self.outer], *index], TensorType.get(shape, values.dtype, None, x.type.device)
        )

    def add_to(self, x: Value, source: Value) -> Value:
        """x with the elements of windows added, those outside of it dropped."""
        high = [0] * self.outer + self._overhang(x)
        low: list[Dim] = [*[0] * self.outer, *self.padding]
        padded = x.pad(low, high, 0).scatter((), source, self.index(), "add")
        cut: list[Any] = [-p for p in low]
        return padded.pad(cut, [expr.normal(-h) for h in high], 0)

    def _overhang(self, x: Value) -> list[Any]:
        """How far the last window reaches beyond the end of each dim; negative where elements are left over."""
        sizes: Any = x.shape[self.outer :]
        parts = zip(sizes, self.places, self.kernel, self.stride, self.padding, self.dilation, strict=True)
        return [expr.normal((o - 1) * s + d * (k - 1) + 1 - n - p) for n, o, k, s, p, d in parts]


def windows(
    x: Value,
    places: Sequence[Dim],
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int] = (),
) -> Windows:
    """Pooling arguments, where an empty stride is the kernel's size and one number stands for all dims."""
    n = len(kernel) if len(kernel) > 1 else len(places)

    def each(values: Sequence[int], otherwise: Sequence[int]) -> tuple[int, ...]:
        values = values or otherwise
        return tuple(values) * (n if len(values) == 1 else 1)

    sizes = each(kernel, ())
    strides, paddings, dilations = each(stride, sizes), each(padding, (0,)), each(dilation, (1,))
    return Windows(x.rank - n, tuple(places), sizes, strides, paddings, dilations)


# Maximum


@rule("aten.max_pool2d_with_indices", "aten.max_pool3d_with_indices")
def max_pool_with_indices(
    call: Call,
    x: Value,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
) -> tuple[Value, Value]:
    """The largest element of each window (NaN wins) and its place in the flattened last dims of x."""
    w = windows(x, call.type.shape[-len(kernel) :], kernel, stride, padding, dilation)
    largest, within = _largest_and_within(call, w, x)
    return largest, call.empty(1) if within is None else _place(w, x.shape[w.outer :], within)


@rule("torch_prims._low_memory_max_pool_with_offsets")
def max_pool_with_offsets(
    call: Call,
    x: Value,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
) -> tuple[Value, Value]:
    """The largest element of each window and its place within it, flattened."""
    w = windows(x, call.type.shape[-len(kernel) :], kernel, stride, padding, dilation)
    largest, within = _largest_and_within(call, w, x)
    return largest, call.empty(1) if within is None else within.to("i8")


@rule("torch_prims._low_memory_max_pool_offsets_to_indices")
def offsets_to_indices(
    call: Call,
    offsets: Value,
    kernel: Sequence[int],
    size: Sequence[Dim],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> Value:
    """Places within windows as places in what was pooled."""
    n = len(kernel)
    w = Windows(offsets.rank - n, offsets.shape[-n:], *map(tuple, (kernel, stride, padding, dilation)))
    return _place(w, size, offsets.to("i64"))


def _largest_and_within(call: Call, w: Windows, x: Value) -> tuple[Value, Value | None]:
    """The largest element of each window and, if the second result is wanted, its place within it, flattened."""
    if not call.wanted(1):
        return _largest(call, w, x), None
    elements = w.read(x, lowest(x.dtype))
    inner = range(elements.rank - len(w.kernel), elements.rank)
    return elements.reduce("max", inner), elements.reduce("argmax", inner)


def _largest(call: Call, w: Windows, x: Value) -> Value:
    """The largest element of each window. That of relu(x), which nothing else reads, is relu of the largest of x: a
    comparison for each window, not for each of its elements.
    """
    made, source = x.ssa.owner, call.op.operands[0]
    relu = isinstance(source.owner, AtenOp) and source.owner.name == "aten.relu" and len(list(source.uses)) == 1
    inner = Value(x.b, made.operands[2]) if relu and isinstance(made, prims.SelectOp) else x
    elements = w.read(inner, lowest(x.dtype))
    found = elements.reduce("max", range(elements.rank - len(w.kernel), elements.rank))
    return found if inner is x else (found < 0).where(found.full(0), found)


def _place(w: Windows, sizes: Sequence[Dim], position: Value) -> Value:
    """Positions within windows as positions in the flattened last dims, of these sizes."""
    place: Value | None = None
    for d in range(len(w.kernel)):
        below = math.prod(w.kernel[d + 1 :])
        within = position.binary(prims.DivTruncOp.make, below).binary(prims.RemOp.make, w.kernel[d])
        at = position.b.iota(w.outer + d, position.type) * w.stride[d] + within * w.dilation[d] + -w.padding[d]
        place = at if place is None else place * sizes[d] + at
    assert place is not None
    return place


@rule("aten.max_pool1d", "aten.max_pool2d", "aten.max_pool3d")
def max_pool(
    call: Call,
    x: Value,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
) -> Value:
    return _largest(call, windows(x, call.type.shape[-len(kernel) :], kernel, stride, padding, dilation), x)


@rule("aten.max_pool2d_with_indices_backward", "aten.max_pool3d_with_indices_backward")
def max_pool_backward(
    call: Call,
    grad: Value,
    x: Value,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
    indices: Value,
) -> Value:
    """grad's elements added where the largest ones were. On a GPU each element looks for itself in the windows that it
    lies in, as with ATen's kernel: what is added to memory there is atomic, and no other kernel's part.
    """
    w = windows(x, grad.shape[-len(kernel) :], kernel, stride, padding, dilation)
    if math.prod(w.covering()) > COVERING or not x.type.device.startswith("cuda"):
        return add_at_places(call, grad, indices, x.shape, len(w.kernel), "add")
    offsets = _offsets(call.op.operands[2], indices) if all(d == 1 for d in w.dilation) else None
    mine = w.read_covering(indices if offsets is None else offsets, x, -1)
    here = _places(mine, w, x) if offsets is None else _places_within(mine, w, x)
    g = w.read_covering(grad.opmath(), x, 0)
    return mine.eq(here).where(g, g.full(0)).reduce("sum", range(x.rank, mine.rank))


def _places(mine: Value, w: Windows, x: Value) -> Value:
    """Where each element is in the flattened last dims of x."""
    here: Value | None = None
    for d in range(w.outer, x.rank):
        at = x.b.iota(d, mine.type)
        here = at if here is None else here * x.shape[d] + at
    assert here is not None
    return here


def _places_within(mine: Value, w: Windows, x: Value) -> Value:
    """Where each element is in the windows that may cover it, flattened; -2 where it is in none."""
    t = mine.type.with_(dtype="i32")
    here, inside = None, None
    for d, (kernel, stride, padding, most) in enumerate(zip(w.kernel, w.stride, w.padding, w.covering(), strict=True)):
        at = (x.b.iota(w.outer + d, t) + padding).binary(prims.RemOp.make, stride)
        at = at + x.b.iota(x.rank + d, t) * stride if most > 1 else at
        known = at < kernel
        here = at if here is None else here * kernel + at
        inside = known if inside is None else inside & known
    assert here is not None and inside is not None
    return inside.where(here, here.full(-2)).to("i8")


def _offsets(source: SSAValue, indices: Value) -> Value | None:
    """What indices were made of by `_low_memory_max_pool_offsets_to_indices`, if they were."""
    made = source.owner
    if not isinstance(made, AtenOp) or made.name != "torch_prims._low_memory_max_pool_offsets_to_indices":
        return None
    ops = [indices.ssa.owner]
    while ops:
        op = ops.pop()
        if isinstance(op, prims.ConvertOp):
            return Value(indices.b, op.operands[0])
        ops += [v.owner for v in op.operands] if isinstance(op, Operation) else []
    return None


def add_at_places(
    call: Call, x: Value, indices: Value, shape: Sequence[Dim], n: int, combine: str, message: str | None = None
) -> Value:
    """Zeros of `shape` with x's elements added (or written) at places in the last n dims, flattened."""
    outer = shape[: len(shape) - n]
    flat = [*outer, expr.product(shape[len(outer) :])]
    taken = [*outer, expr.product(x.shape[len(outer) :])]
    x, indices = x.opmath().reshape(taken), indices.reshape(taken)
    zero = call.b.full(0, TensorType.get(flat, x.dtype, None, x.type.device))
    index = [*dims_of(len(outer)), expr.symbol("i0")]
    return zero.scatter([indices], x, index, combine, message).reshape(shape)


# Average


@rule("aten.avg_pool1d", "aten.avg_pool2d", "aten.avg_pool3d")
def avg_pool(
    call: Call,
    x: Value,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil_mode: bool,
    count_padding: bool,
    divisor: int | None = None,
) -> Any:
    """The mean of each window; padding counts if `count_padding`, or the divisor is given."""
    w = windows(x, call.type.shape[-len(kernel) :], kernel, stride, padding)
    elements = w.read(x.opmath(), 0)
    total = elements.reduce("sum", range(elements.rank - len(kernel), elements.rank))
    counts = _counts(w, x, total, count_padding, divisor)
    return total / counts if x.is_float else total.binary(prims.DivTruncOp.make, counts)


@rule("aten.avg_pool2d_backward", "aten.avg_pool3d_backward")
def avg_pool_backward(
    call: Call,
    grad: Value,
    x: Value,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil_mode: bool,
    count_padding: bool,
    divisor: int | None,
) -> Value:
    """Each element of grad, divided by its count, added to all of its window."""
    w = windows(x, grad.shape[-len(kernel) :], kernel, stride, padding)
    grad = grad.opmath()
    share = grad / _counts(w, x, grad, count_padding, divisor)
    spread = share.broadcast([*share.shape, *w.kernel], range(share.rank))
    return w.add_to(call.b.full(0, x.type.with_(shape=x.shape).with_(dtype=grad.dtype)), spread)


def _counts(w: Windows, x: Value, like: Value, count_padding: bool, divisor: int | None) -> Value:
    """How many elements the window at each place of `like` has."""
    if divisor is not None:
        return like.full(divisor)
    beyond = [expr.normal(h - p) for h, p in zip(w._overhang(x), w.padding, strict=True)]
    if (count_padding or not any(w.padding)) and all(map(_is_inside, beyond)):
        return like.full(math.prod(w.kernel))
    count: Value | None = None
    for d, (k, s, p) in enumerate(zip(w.kernel, w.stride, w.padding, strict=True)):
        size: Any = x.shape[w.outer + d]
        start = like.b.iota(w.outer + d, like.type.with_(dtype="i64")) * s + -p
        end = (start + k).minimum(expr.normal(size + p))
        length = end - start if count_padding else end.minimum(size) - start.maximum(0)
        count = length if count is None else count * length
    assert count is not None
    return count.to(like.dtype)


def _is_inside(overhang: Any) -> bool:
    return overhang <= 0 if isinstance(overhang, int) else bool(overhang.is_nonpositive)


@rule("aten.im2col")
def im2col(
    call: Call,
    x: Value,
    kernel: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
    stride: Sequence[int],
) -> Value:
    """All windows as columns: `[…, channels * kernel, places]`."""
    sizes: Any = x.shape[-2:]
    places = [
        expr.floordiv(expr.normal(n + 2 * p - d * (k - 1) - 1 + s), s)
        for n, k, d, p, s in zip(sizes, kernel, dilation, padding, stride, strict=True)
    ]
    w = windows(x, places, kernel, stride, padding, dilation)
    elements = w.read(x, 0)
    n = w.outer
    return elements.transpose([*range(n), n + 2, n + 3, n, n + 1]).reshape(call.type.shape)
