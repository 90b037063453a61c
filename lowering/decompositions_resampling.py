"""Upsampling: elements of x at scaled positions, the nearest one or a mixture of neighbours."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import sympy

from ..dialects import expr
from ..dialects.expr import Dim
from .decomposition import Call, rule
from .decompositions_views import dims_of
from .prims_builder import Value


@rule("aten.upsample_nearest1d", "aten.upsample_nearest2d", "aten.upsample_nearest3d")
def upsample_nearest(call: Call, x: Value, sizes: Sequence[Dim], *scales: float | None) -> Any:
    return _nearest(call, x, sizes, scales, 0.0)


@rule("aten._upsample_nearest_exact1d", "aten._upsample_nearest_exact2d", "aten._upsample_nearest_exact3d")
def upsample_nearest_exact(call: Call, x: Value, sizes: Sequence[Dim], *scales: float | None) -> Any:
    return _nearest(call, x, sizes, scales, 0.5)


@rule("aten.upsample_nearest1d.vec", "aten.upsample_nearest2d.vec", "aten.upsample_nearest3d.vec")
def upsample_nearest_vec(call: Call, x: Value, sizes: Any, scales: Sequence[float] | None) -> Any:
    n = x.rank - 2
    return _nearest(call, x, call.type.shape[-n:], scales or (None,) * n, 0.0)


def _nearest(call: Call, x: Value, sizes: Sequence[Dim], scales: Sequence[float | None], shift: float) -> Any:
    """result[…, i, …] = x[…, floor((i + shift) * scale), …]; whole factors repeat each element."""
    outer = x.rank - len(sizes)
    factors = [_whole_factor(x.shape[outer + k], size, scales[k]) for k, size in enumerate(sizes)]
    if all(f is not None for f in factors):
        split = [d for k, f in enumerate(factors) for d in (x.shape[outer + k], f)]
        kept = [*range(outer), *range(outer, outer + 2 * len(sizes), 2)]
        shape: list[Any] = [*x.shape[:outer], *split]
        return x.broadcast(shape, kept).reshape(call.type.shape)
    indices = [_nearest_index(call, x, outer + k, scales[k], shift) for k in range(len(sizes))]
    names = [expr.symbol(f"i{k}") for k in range(len(sizes))]
    return x.gather(indices, [*dims_of(outer), *names], call.type)


def _whole_factor(size: Dim, result: Dim, scale: float | None) -> Dim | None:
    """How often each element is repeated, where that is a whole number."""
    ratio = sympy.sympify(result) / size
    if not ratio.is_Integer or (scale is not None and scale != int(ratio)):
        return None
    return int(ratio)


def _step(size: Dim, result: Dim, scale: float | None) -> float | None:
    """The distance in x of neighbours in the result, in f32."""
    if scale is not None and scale > 0:
        return 1.0 / scale
    return size / result if isinstance(size, int) and isinstance(result, int) else None


def _nearest_index(call: Call, x: Value, dim: int, scale: float | None, shift: float) -> Value:
    t = call.type
    at = call.b.iota(dim, t.with_(dtype="f32"))
    if shift:
        at = at + shift
    step = _step(x.shape[dim], t.shape[dim], scale)
    at = at * step if step is not None else at * (at.full(x.shape[dim]) / at.full(t.shape[dim]))
    size: Any = x.shape[dim]
    return at.floor().to("i64").minimum(expr.normal(size - 1))


@rule("aten.upsample_linear1d", "aten.upsample_bilinear2d", "aten.upsample_trilinear3d")
def upsample_linear(call: Call, x: Value, sizes: Sequence[Dim], align_corners: bool, *scales: float | None) -> Any:
    return _linear(call, x, align_corners, scales)


@rule("aten.upsample_bilinear2d.vec", "aten.upsample_linear1d.vec", "aten.upsample_trilinear3d.vec")
def upsample_linear_vec(call: Call, x: Value, sizes: Any, align_corners: bool, scales: Sequence[float] | None) -> Any:
    return _linear(call, x, align_corners, scales or (None,) * (x.rank - 2))


def _linear(call: Call, x: Value, align_corners: bool, scales: Sequence[float | None]) -> Any:
    """The mixture of the neighbours along each dim, weighted by distance."""
    if not x.is_float:
        return NotImplemented
    t, outer = call.type, x.rank - len(scales)
    sides = [_neighbours(call, x, outer + k, scale, align_corners) for k, scale in enumerate(scales)]
    names = [*dims_of(outer), *(expr.symbol(f"i{k}") for k in range(len(scales)))]
    total: Value | None = None
    for choice in itertools.product((0, 1), repeat=len(scales)):
        picked = [sides[k][c] for k, c in enumerate(choice)]
        term = x.gather([index for index, _ in picked], names, t).opmath()
        for _, weight in picked:
            term = term * weight.to(term.dtype)
        total = term if total is None else total + term
    return total


def _neighbours(call: Call, x: Value, dim: int, scale: float | None, align_corners: bool) -> list[tuple[Value, Value]]:
    """Index and weight of the element before and of the one after each position."""
    size: Any = x.shape[dim]
    result: Any = call.type.shape[dim]
    t = call.type.with_(dtype="f64" if x.dtype == "f64" else "f32")
    at = call.b.iota(dim, t)
    if align_corners:
        at = at * (at.full(expr.normal(size - 1)) / at.full(expr.normal(sympy.Max(1, result - 1))))
    else:
        step = _step(size, result, scale)
        ratio = at.full(step) if step is not None else at.full(size) / at.full(result)
        at = (at + 0.5) * ratio - 0.5
    at = at.maximum(0.0)  # also where it is not below: the product is rounded before its whole part is taken off
    low = at.floor()
    last = expr.normal(size - 1)
    index = low.to("i64").minimum(last)
    weight = at - low
    return [(index, 1.0 - weight), ((index + 1).minimum(last), weight)]


@rule("aten.upsample_nearest2d_backward", "aten.upsample_nearest1d_backward", "aten.upsample_nearest3d_backward")
def upsample_nearest_backward(
    call: Call, grad: Value, sizes: Sequence[Dim], shape: Sequence[Dim], *scales: float | None
) -> Any:
    """Sums over the repetitions, where each element is repeated a whole number of times."""
    outer = grad.rank - len(sizes)
    factors = [_whole_factor(n, m, s) for n, m, s in zip(shape[outer:], sizes, scales, strict=True)]
    if any(f is None for f in factors):
        return NotImplemented
    split: list[Any] = list(shape[:outer])
    for n, f in zip(shape[outer:], factors, strict=True):
        split += [n, f]
    over = [outer + 2 * k + 1 for k in range(len(sizes))]
    return grad.opmath().reshape(split).reduce("sum", over)
