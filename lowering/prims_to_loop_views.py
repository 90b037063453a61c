"""Views of prims as accesses, found by substitution of indices, without a copy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import sympy

from ..dialects import expr, prims
from ..dialects.expr import Dim
from .index_polynomial import Polynomial, add, exact_quotient, expression, multiply, polynomial
from .prims_to_loop_access import (
    ZERO,
    Access,
    Case,
    Constant,
    Position,
    Shape,
    compose,
    dim_symbols,
    domain,
    is_empty,
    tensor_type,
)


def _view(op: prims.ViewOp | prims.SubviewOp, x: Access, index: Sequence[Any]) -> Access:
    """result[d…] = x[index]."""
    shape = _shape(op)
    # no case can hold only if the shape has no elements; a size of data may have to be that of an operand without any,
    # which must not be read ahead of the loop either
    cases = (not is_empty(x.shape) and compose(x, tuple(index), domain(shape).facts)) or (ZERO,)
    return Access(shape, x.dtype, cases, x.copied)


def _shape(op: prims.PrimsOp) -> Shape:
    return tensor_type(op.results[0]).shape


def broadcast(op: prims.BroadcastOp, x: Access) -> Access:
    d = dim_symbols(len(_shape(op)))
    return _view(op, x, [0 if n == 1 else d[int(k)] for n, k in zip(x.shape, op.exprs("dims"), strict=True)])


def transpose(op: prims.TransposeOp, x: Access) -> Access:
    index: list[Any] = [0] * len(x.shape)
    for k, p in enumerate(op.exprs("perm")):
        index[int(p)] = dim_symbols(len(x.shape))[k]
    return _view(op, x, index)


def slice_(op: prims.SliceOp, x: Access) -> Access:
    terms = zip(op.exprs("start"), op.exprs("step"), dim_symbols(len(x.shape)), strict=True)
    return _view(op, x, [d if start == 0 and step == 1 else start + step * d for start, step, d in terms])


def subview(op: prims.SubviewOp, x: Access) -> Access:
    return _view(op, x, op.exprs("index"))


def flip(op: prims.FlipOp, x: Access) -> Access:
    index: list[Any] = list(dim_symbols(len(x.shape)))
    for k in map(int, op.exprs("dims")):
        index[k] = x.shape[k] - 1 - index[k]
    # no strides say it, but for dims of size 1, and there it is new memory too
    return _view(op, x, index)._replace(copied=True)


def reshape(op: prims.ReshapeOp, x: Access) -> Access:
    return _view(op, x, reshape_index(x.shape, _shape(op)))


def pad(op: prims.PadOp, x: Access) -> Access:
    shape = _shape(op)
    known = domain(shape).facts
    shifted = [d - n if n != 0 else d for d, n in zip(dim_symbols(len(shape)), op.exprs("low"), strict=True)]
    inside = known.conjunction(
        r for e, n in zip(shifted, x.shape, strict=True) for r in (sympy.Ge(e, 0), sympy.Lt(e, n))
    )
    outside = Case((), Constant(op.value))
    if inside is None or is_empty(x.shape):
        return Access(shape, x.dtype, (outside,))
    if not inside:
        return _view(op, x, shifted)._replace(copied=True)
    return Access(shape, x.dtype, (*compose(x, tuple(shifted), known, inside), outside), True)


def cat(op: prims.CatOp, *parts: Access) -> Access:
    shape = _shape(op)
    axis = op.dim.value
    assert isinstance(axis, int)
    known = domain(shape).facts
    index: list[Any] = list(dim_symbols(len(shape)))
    d = index[axis]
    start: Any = 0
    cases: list[Case] = []
    for part in parts:
        if is_empty(part.shape):
            continue
        index[axis] = d - start
        end = expr.normal(start + part.shape[axis])
        inside = known.conjunction((sympy.Ge(d, start), sympy.Lt(d, end)))
        if inside is not None:
            cases.extend(compose(part, tuple(index), known, inside))
        start = end
    # a new tensor, also where a part of one of its parts is all that is left of it
    return Access(shape, parts[0].dtype, tuple(cases) or (ZERO,), True)


def full(op: prims.FullOp) -> Access:
    t = tensor_type(op.result)
    value = op.value.value
    leaf = Position(value) if isinstance(value, sympy.Expr) else Constant(op.value)
    return Access(t.shape, t.dtype, (Case((), leaf),))


def iota(op: prims.IotaOp) -> Access:
    t = tensor_type(op.result)
    assert isinstance(op.dim.value, int)
    return Access(t.shape, t.dtype, (Case((), Position(dim_symbols(t.rank)[op.dim.value])),))


VIEWS: dict[type[prims.PrimsOp], Callable[..., Access]] = {
    prims.BroadcastOp: broadcast,
    prims.ReshapeOp: reshape,
    prims.TransposeOp: transpose,
    prims.SliceOp: slice_,
    prims.SubviewOp: subview,
    prims.FlipOp: flip,
    prims.PadOp: pad,
    prims.CatOp: cat,
    prims.FullOp: full,
    prims.IotaOp: iota,
}
"""What each view is, from the accesses of its operands."""


# Reshapes


@lru_cache(maxsize=1 << 14)
def reshape_index(source: Shape, target: Shape) -> tuple[Dim, ...]:
    """For each dim of `source` its index over the dims d0, d1, … of `target`, of as many elements in row-major order.

    Runs of dims with equal products are matched, so that `[s0, 12, 64]` to `[s0, 768]` leaves the first index plain.
    """
    index: list[Dim] = [0] * len(source)
    if is_empty(source) or is_empty(target):
        return tuple(index)
    known = domain(target).facts
    d = dim_symbols(len(target))
    for group, into in _groups(source, target):
        flat: Polynomial = {}
        for k in into:
            flat = add(multiply(flat, polynomial(target[k])), polynomial(d[k]))
        # the index of dim k of the group is floordiv(flat, product of the sizes after it), modulo its size
        stride = polynomial(1)
        for k in reversed(group):
            size = polynomial(source[k])
            digit = known.floordiv(flat, stride)
            index[k] = expression(digit if k == group[0] else known.mod(digit, size))
            stride = multiply(stride, size)
    return tuple(index)


def _groups(source: Shape, target: Shape) -> list[tuple[list[int], list[int]]]:
    """Runs of dims of both, in order, with equal products; dims of size 1 are left out."""
    left = [k for k, n in enumerate(source) if n != 1]
    right = [k for k, n in enumerate(target) if n != 1]
    groups: list[tuple[list[int], list[int]]] = []
    while left:
        group, into = [left.pop(0)], [right.pop(0)] if right else []
        p, q = polynomial(source[group[0]]), polynomial(target[into[0]]) if into else polynomial(1)
        while p != q and (left or right):
            if right and (not left or exact_quotient(p, q) is not None):
                into.append(right.pop(0))
                q = multiply(q, polynomial(target[into[-1]]))
            else:
                group.append(left.pop(0))
                p = multiply(p, polynomial(source[group[-1]]))
        groups.append((group, into))
    return groups
