"""Accesses: which element of which tensor each index of a value means.

An access is a list of cases; the first whose predicates hold gives the element. One case is a plain view, `pad` has
two, `cat` one per part. The predicates of the last case hold wherever the others fail: they only guard its load.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any, NamedTuple, TypeAlias

import sympy
from xdsl.ir import SSAValue

from ..dialects import expr, prims
from ..dialects.expr import Dim
from ..dialects.loop import DimsAttr
from ..dialects.tensor import TensorType
from .index_polynomial import Polynomial, add, expression, multiply, polynomial, split_by
from .index_simplify import Facts, Relation, facts, is_plain
from .storage import as_products

Shape: TypeAlias = tuple[Dim, ...]


class Load(NamedTuple):
    """An element of a tensor."""

    source: SSAValue
    at: tuple[Dim, ...]


class Constant(NamedTuple):
    """A number."""

    value: prims.Scalar


class Position(NamedTuple):
    """An index expression, as a number."""

    value: Dim


Leaf: TypeAlias = Load | Constant | Position


class Case(NamedTuple):
    when: tuple[Relation, ...]
    leaf: Leaf


class Access(NamedTuple):
    """The elements of a value of this shape and dtype, over indices d0, d1, …"""

    shape: Shape
    dtype: str
    cases: tuple[Case, ...]
    copied: bool = False
    """Whether it stands for a copy, so that it must not leave as an alias."""

    @property
    def load(self) -> Load | None:
        """The load that it is everywhere, or None."""
        leaf = self.cases[0].leaf
        return leaf if len(self.cases) == 1 and not self.cases[0].when and isinstance(leaf, Load) else None


ZERO = Case((), Constant(prims.Scalar.get(0)))
"""Where there are no elements, any will do."""


@cache
def dim_symbols(rank: int, prefix: str = "d") -> tuple[sympy.Symbol, ...]:
    """d0, d1, …"""
    return tuple(expr.symbol(f"{prefix}{k}") for k in range(rank))


class Domain(NamedTuple):
    dims: DimsAttr
    facts: Facts


@lru_cache(maxsize=1 << 14)
def domain(shape: Shape) -> Domain:
    """The dims d0, d1, … over a shape."""
    dims = DimsAttr.get((s.name, n) for s, n in zip(dim_symbols(len(shape)), shape, strict=True))
    return Domain(dims, facts(dims))


class ReductionDomain(NamedTuple):
    dims: DimsAttr
    reduce: DimsAttr
    operand: tuple[Dim, ...]
    """The dims of the operand: d0, … for those that are kept, r0, … for the others."""
    facts: Facts


@lru_cache(maxsize=1 << 12)
def reduction_domain(shape: Shape, reduced: tuple[Dim, ...]) -> ReductionDomain:
    """The domain of a reduction of `shape` over the dims `reduced`, in ascending order."""
    operand: list[Dim] = [0] * len(shape)

    def dims(prefix: str, chosen: Sequence[int]) -> DimsAttr:
        symbols = dim_symbols(len(chosen), prefix)
        for k, s in zip(chosen, symbols, strict=True):
            operand[k] = s
        return DimsAttr.get((s.name, shape[k]) for k, s in zip(chosen, symbols, strict=True))

    kept = dims("d", [k for k in range(len(shape)) if k not in reduced])
    gone = dims("r", sorted(map(int, reduced)))
    return ReductionDomain(kept, gone, tuple(operand), facts([*kept, *gone]))


def of_value(value: SSAValue) -> Access:
    """A tensor as it is."""
    t = tensor_type(value)
    return Access(t.shape, t.dtype, (Case((), Load(value, dim_symbols(t.rank))),))


def is_empty(shape: Sequence[Dim]) -> bool:
    """Whether a shape has no elements, statically."""
    return any(isinstance(n, int) and n == 0 for n in shape)


# Composition


def compose(access: Access, index: tuple[Dim, ...], known: Facts, when: tuple[Relation, ...] = ()) -> tuple[Case, ...]:
    """The cases of `access` at `index`, expressions over the dims that `known` is about, while `when` holds.

    Cases that never hold are left out; none is left where that is so of `when`.
    """
    if not when and index == dim_symbols(len(index)):
        return access.cases
    mapping = dict(zip(dim_symbols(len(index)), index, strict=True))
    cases: list[Case] = []
    for case in access.cases:
        relations = known.conjunction((*when, *(substitute_relation(r, mapping) for r in case.when)))
        if relations is None:
            continue
        cases.append(Case(relations, _substitute_leaf(case.leaf, mapping, known)))
        if not relations:
            break
    return tuple(cases)


def substitute_relation(r: Relation, mapping: dict[sympy.Symbol, Any]) -> Relation:
    """A predicate at another index."""
    if isinstance(r, sympy.Rel):
        return type(r)(expr.substitute(r.lhs, mapping), expr.substitute(r.rhs, mapping))
    if isinstance(r, (sympy.And, sympy.Or, sympy.Not)):
        return type(r)(*(substitute_relation(a, mapping) for a in r.args))
    return r


def _substitute_leaf(leaf: Leaf, mapping: dict[sympy.Symbol, Any], known: Facts) -> Leaf:
    match leaf:
        case Load(source, index):
            return Load(source, tuple(known.simplify(expr.substitute(e, mapping)) for e in index))
        case Position(value):
            return Position(known.simplify(expr.substitute(value, mapping)))
        case Constant():
            return leaf


def tensor_type(v: SSAValue) -> TensorType:
    assert isinstance(v.type, TensorType)
    return v.type


# Repetition


def used_dims(accesses: Sequence[Access]) -> tuple[int, ...] | None:
    """The dims that elements of these accesses, all of one shape, depend on; None where they do on all that matter."""
    shape = accesses[0].shape
    if is_empty(shape):  # indices are constants there, but there is nothing to read
        return None
    used: set[int] = set()
    for access in accesses:
        load = access.load
        used.update(_dims_in(load.at, len(shape)) if load is not None else _dims_of_cases(access))
        if len(used) == len(shape):
            return None
    return tuple(sorted(used)) if any(n != 1 for k, n in enumerate(shape) if k not in used) else None


@lru_cache(maxsize=1 << 14)
def _dims_in(expressions: tuple[Any, ...], rank: int) -> frozenset[int]:
    free = {s for e in expressions if not isinstance(e, int) for s in e.free_symbols}
    return frozenset(k for k, d in enumerate(dim_symbols(rank)) if d in free)


def _dims_of_cases(access: Access) -> frozenset[int]:
    expressions: list[Any] = []
    for case in access.cases:
        expressions += case.when
        match case.leaf:
            case Load(_, index):
                expressions += index
            case Position(value):
                expressions.append(value)
            case Constant():
                pass
    return _dims_in(tuple(expressions), len(access.shape))


def without_dims(access: Access, used: tuple[int, ...]) -> Access:
    """The elements over the dims `used` alone; they depend on no other."""
    shape = tuple(access.shape[k] for k in used)
    index: list[Dim] = [0] * len(access.shape)
    for d, k in zip(dim_symbols(len(used)), used, strict=True):
        index[k] = d
    return access._replace(shape=shape, cases=compose(access, tuple(index), domain(shape).facts) or (ZERO,))


def repeated(value: SSAValue, used: tuple[int, ...], shape: Shape) -> Access:
    """`value`, whose dims are the dims `used` of `shape`, repeated along the others."""
    d = dim_symbols(len(shape))
    return Access(shape, tensor_type(value).dtype, (Case((), Load(value, tuple(d[k] for k in used))),))


# Layout


class Layout(NamedTuple):
    """Elements of a tensor's storage, counted from its first element."""

    source: SSAValue
    offset: Dim
    strides: tuple[Dim, ...]


def layout(access: Access, wanted: Sequence[Dim] | None = None) -> Layout | None:
    """The strides at which `access` reads the storage of one tensor, or None if no strides say it, or others than are
    `wanted` (those of dims of size 1, and of tensors without elements, do not matter).
    """
    load = access.load
    if load is None:
        return None
    source = tensor_type(load.source)
    steps = [as_products(s, (source.numel,)) for s in source.strides]
    flat = add(*(multiply(polynomial(e), polynomial(s)) for e, s in zip(load.at, steps, strict=True)))
    if not all(map(is_plain, load.at)):
        flat = domain(access.shape).facts.polynomial(expression(flat))
    dims = dim_symbols(len(access.shape))
    strides: list[Dim] = []
    for k, d in enumerate(dims):
        step, flat = split_by(flat, ((d,), 1))
        if not _is_fixed(step, dims):
            return None
        if wanted is None:
            # torch has no negative strides, and takes no sign on trust
            if any(c < 0 for c in step.values()):
                return None
        elif access.shape[k] != 1 and not is_empty(access.shape):
            products = as_products(wanted[k], (source.numel, expr.product(access.shape)))
            if step != polynomial(products):
                return None
        strides.append(expression(step))
    return Layout(load.source, expression(flat), tuple(strides)) if _is_fixed(flat, dims) else None


def _is_fixed(p: Polynomial, dims: tuple[sympy.Symbol, ...]) -> bool:
    """Whether no dim is in `p`."""
    return not any(s in dims for m in p for a in m for s in a.free_symbols)


def alias(access: Access, t: TensorType) -> Layout | None:
    """The layout of `access` if it has the strides of `t`, else None."""
    found = layout(access, t.strides)
    return None if found is None or tensor_type(found.source).dtype != t.dtype else found


def lies_in_order(t: TensorType, step: Dim = 1) -> bool:
    """Whether the elements lie one after the other, each a `step` after the one before, if all divisions in its sizes
    and strides are without a rest.
    """
    expected = sympy.sympify(step)
    for size, stride in zip(reversed(t.shape), reversed(t.strides), strict=True):
        if size != 1 and sympy.expand(_divided(stride) - expected) != 0:
            return False
        expected *= _divided(size)
    return True


def _divided(e: Dim) -> Any:
    return sympy.sympify(e).replace(_is_division, lambda e: e.args[0] / e.args[1])


def _is_division(e: Any) -> bool:
    return type(e).__name__ == "FloorDiv"
