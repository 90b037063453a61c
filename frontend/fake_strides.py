"""How the elements of a tensor that a kernel makes lie, by ATen's rules.

Most kernels leave it to ATen's TensorIterator (`iterated`). Others give what `empty_like` gives for an input (`like`),
or contiguous memory (`in_order`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch
from torch import _prims_common as _prims
from torch._prims_common import (
    ELEMENTWISE_TYPE_PROMOTION_KIND,
    elementwise_dtypes,
    is_channels_last_contiguous_or_false_2d,
    is_contiguous_or_false,
)
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols, guard_or_false, statically_known_true

Strides: TypeAlias = Sequence[Any]

_sizes: Any = _prims
_is_dense: Callable[[Any, Any], bool] = _sizes._is_non_overlapping_and_dense_or_false
_LARGE = 2**20
"""A size that is data, where something must be said before it is known."""


def has_no_elements(t: torch.Tensor) -> bool:
    return any(is_same(n, 0) for n in t.shape)


def with_strides(result: torch.Tensor, strides: Strides) -> torch.Tensor:
    """`result`, or a tensor like it with these strides: a result may have numbers that are known."""
    same = len(strides) == result.dim() and all(map(is_same, result.stride(), strides))
    return result if same else result.new_empty_strided(result.shape, strides)


def same_strides(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.dim() == b.dim() and all(map(is_same, a.stride(), b.stride()))


def is_dense(t: torch.Tensor) -> bool:
    """Whether the elements fill memory, each in a place of its own; strides of dims of size one do not matter."""
    dims = [d for d, n in enumerate(t.shape) if not is_same(n, 1)]
    return _is_dense([t.shape[d] for d in dims], [t.stride(d) for d in dims])


def is_same(a: Any, b: Any) -> bool:
    return a == b if type(a) is int and type(b) is int else statically_known_true(a == b)


def iterated(shape: Sequence[Any], operands: Sequence[Any]) -> Strides:
    """The strides of a result of this shape that TensorIterator computes element by element from these: tensors, and
    numbers, which are tensors without dims to it.
    """
    tensors = [t for t in operands if isinstance(t, torch.Tensor) and t.dim()]
    if tensors and len(tensors) == len(operands) and all(has_shape(t, shape) for t in tensors):
        if all(map(is_contiguous_or_false, tensors)):
            return in_order(shape)
        if all(map(is_channels_last_contiguous_or_false_2d, tensors)):
            return dense(shape, (1, 3, 2, 0), least=1)
        first = tensors[0].stride()
        alike = all(all(map(is_same, first, t.stride())) for t in tensors[1:])
        if alike and is_dense(tensors[0]):
            return first
    return _ordered(shape, [_along(shape, t) for t in tensors])


def dense(shape: Sequence[Any], order: Sequence[int], least: int) -> Strides:
    """One element after the other along these dims, the fastest first; a size counts as `least` at least."""
    strides: list[Any] = [0] * len(shape)
    step: Any = 1
    for d in order:
        strides[d] = step
        step = step * (max(shape[d], least) if type(shape[d]) is int else shape[d])
    return strides


def in_order(shape: Sequence[Any]) -> Strides:
    return dense(shape, range(len(shape) - 1, -1, -1), least=1)


def has_shape(t: Any, shape: Sequence[Any]) -> bool:
    return isinstance(t, torch.Tensor) and t.dim() == len(shape) and all(map(is_same, t.shape, shape))


def _along(shape: Sequence[Any], t: torch.Tensor) -> Strides:
    """The strides of an operand along the dims of the result: 0 where it is repeated."""
    new = len(shape) - t.dim()
    dims = zip(t.shape, t.stride(), shape[new:], strict=True)
    return [0] * new + [0 if is_same(n, 1) and not is_same(m, 1) else s for n, s, m in dims]


def _ordered(shape: Sequence[Any], operands: Sequence[Strides]) -> Strides:
    """The order of the dims is that of the first operand which has one."""

    def after(a: int, b: int) -> int:
        """1 if dim `a` is to be slower than `b`, -1 if not, 0 if no operand says it."""
        for strides in operands:
            x, y = strides[a], strides[b]
            if is_same(x, 0) or is_same(y, 0):
                continue
            if not is_same(x, y):
                return -1 if _is_less(x, y) else 1
            if _is_true(shape[a] > shape[b]):
                return 1
        return 0

    backwards = [*reversed(range(len(shape)))]
    order = [*backwards]
    for i in range(1, len(shape)):
        place = i
        for before in reversed(range(i)):
            where = after(order[before], order[place])
            if where < 0:
                break
            if where > 0:
                order[before], order[place] = order[place], order[before]
                place = before
    return dense(shape, order, least=1 if order == backwards else 0)


def _is_less(x: Any, y: Any) -> bool:
    return _is_true(x < y) or (not _is_true(x > y) and _is_true(y % x == 0))


def _is_true(condition: Any) -> bool:
    """Sizes that are data count as large ones, where nothing is known of them: dims lie in another order only where
    there are few elements.
    """
    if not isinstance(condition, torch.SymBool) or not (data := free_unbacked_symbols(condition)):
        return guard_or_false(condition)
    if statically_known_true(condition) or statically_known_true(torch.sym_not(condition)):
        return statically_known_true(condition)
    node: Any = condition.node
    return guard_or_false(node.shape_env.create_symboolnode(node.expr.subs(dict.fromkeys(data, _LARGE))))


def like(x: torch.Tensor) -> Strides:
    return x.stride() if is_dense(x) else _ordered(x.shape, [x.stride()])


def converted(operands: Sequence[Any], result: Any) -> list[Any]:
    """The operands as a kernel of TensorIterator takes them on CPUs: `compute_types` converts those of another dtype
    than the one it computes in, and a copy lies as `empty_like`, without repeated elements and gaps.
    """
    tensors = [t for t in operands if isinstance(t, torch.Tensor)]
    if result.device.type != "cpu" or len({t.dtype for t in tensors}) < 2:
        return [*operands]
    kind = ELEMENTWISE_TYPE_PROMOTION_KIND.DEFAULT
    _, common = elementwise_dtypes(*operands, type_promotion_kind=kind)
    if result.dtype.is_floating_point and not common.is_floating_point and not common.is_complex:
        common = result.dtype
    return [
        with_strides(t, like(t)) if isinstance(t, torch.Tensor) and t.dim() and t.dtype != common else t
        for t in operands
    ]
