"""Integer expressions as polynomials: sums of products of atoms with integer coefficients, in plain dictionaries.

An atom is a symbol or what is not a sum or product (floordiv, mod, max, min, …). Sympy is only met on the way in and
out.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import gcd
from typing import Any, TypeAlias

import sympy

from ..dialects import expr
from ..dialects.expr import Dim

Monomial: TypeAlias = tuple[Any, ...]
Polynomial: TypeAlias = dict[Monomial, int]
"""Product of atoms, sorted by text, to its coefficient; no coefficient is 0. Never changed once made."""


@lru_cache(maxsize=1 << 16)
def polynomial(e: Dim) -> Polynomial:
    """`e`, expanded."""
    if isinstance(e, (int, sympy.Integer)):
        return constant(int(e))
    if isinstance(e, sympy.Add):
        return add(*(polynomial(a) for a in e.args))  # pyright: ignore[reportArgumentType]
    if isinstance(e, sympy.Mul):
        result = ONE
        for a in e.args:
            result = multiply(result, polynomial(a))  # pyright: ignore[reportArgumentType]
        return result
    if isinstance(e, sympy.Pow) and isinstance(e.exp, sympy.Integer) and e.exp > 0:
        base, result = polynomial(e.base), ONE
        for _ in range(int(e.exp)):
            result = multiply(result, base)
        return result
    return {(e,): 1}


def expression(p: Polynomial) -> Dim:
    """The expression that `p` stands for."""
    return _expression(tuple(p.items()))


@lru_cache(maxsize=1 << 16)
def _expression(items: tuple[tuple[Monomial, int], ...]) -> Dim:
    return expr.normal(sympy.Add(*(sympy.Mul(sympy.Integer(c), *m) for m, c in items)))


def constant(n: int) -> Polynomial:
    return {(): n} if n else {}


ONE: Polynomial = constant(1)


def as_constant(p: Polynomial) -> int | None:
    """The number that `p` is, or None."""
    if not p:
        return 0
    return p.get(()) if len(p) == 1 else None


def add(*parts: Polynomial) -> Polynomial:
    result: Polynomial = {}
    for p in parts:
        for m, c in p.items():
            n = result.get(m, 0) + c
            if n:
                result[m] = n
            else:
                del result[m]
    return result


def scale(p: Polynomial, n: int) -> Polynomial:
    return {m: c * n for m, c in p.items()} if n else {}


def subtract(p: Polynomial, q: Polynomial) -> Polynomial:
    return add(p, scale(q, -1))


def merge(m: Monomial, n: Monomial) -> Monomial:
    """The product of two monomials."""
    if not m or not n:
        return m or n
    return tuple(sorted(m + n, key=expr.text))


def multiply(p: Polynomial, q: Polynomial) -> Polynomial:
    return add(*({merge(m, n): c * k} for m, c in p.items() for n, k in q.items()))


def cofactor(m: Monomial, divisor: Monomial) -> Monomial | None:
    """`m / divisor`, or None if it is no monomial."""
    rest = list(m)
    for a in divisor:
        if a not in rest:
            return None
        rest.remove(a)
    return tuple(rest)


def split_by(p: Polynomial, divisor: tuple[Monomial, int]) -> tuple[Polynomial, Polynomial]:
    """(q, r) with `p = q * divisor + r`, where q takes the terms that the monomial divides exactly."""
    n, k = divisor
    quotient: Polynomial = {}
    rest: Polynomial = {}
    for m, c in p.items():
        m_rest = cofactor(m, n)
        if m_rest is not None and c % k == 0:
            quotient[m_rest] = c // k
        else:
            rest[m] = c
    return quotient, rest


def single_term(p: Polynomial) -> tuple[Monomial, int] | None:
    """The one term of `p`, or None if there are several or none."""
    return next(iter(p.items())) if len(p) == 1 else None


def common_factor(a: tuple[Monomial, int], b: tuple[Monomial, int]) -> tuple[Monomial, int]:
    """The greatest monomial that divides both terms."""
    rest = list(b[0])
    shared: list[Any] = []
    for atom in a[0]:
        if atom in rest:
            rest.remove(atom)
            shared.append(atom)
    return tuple(shared), gcd(a[1], b[1])


def divide(p: Polynomial, c: Polynomial) -> tuple[Polynomial, Polynomial]:
    """(q, r) with `p = q*c + r`, by division of leading terms; a constant is divided as floor does where `c` is one."""
    if not c:
        return {}, p
    order = _total_order(p, c)
    lead_m, lead_c = max(c.items(), key=lambda t: order(t[0]))
    quotient: Polynomial = {}
    rest: Polynomial = {}
    left = p
    while left:
        m, n = max(left.items(), key=lambda t: order(t[0]))
        m_rest = cofactor(m, lead_m)
        k = n // lead_c if m_rest is not None and (n % lead_c == 0 or not m) else 0
        if m_rest is not None and k:
            quotient = add(quotient, {m_rest: k})
            left = subtract(left, multiply({m_rest: k}, c))
            n = left.get(m, 0)
        if n:
            rest[m] = n
        left = {m2: n2 for m2, n2 in left.items() if m2 != m}
    return quotient, rest


def exact_quotient(p: Polynomial, c: Polynomial) -> Polynomial | None:
    """`p / c` where that is a polynomial again; None otherwise."""
    q, r = divide(p, c)
    return q if c and not r else None


def _total_order(*polynomials: Polynomial) -> Callable[[Monomial], Any]:
    """A key that orders monomials by degree, then by exponents: the order survives multiplication by a monomial."""
    atoms = sorted({a for p in polynomials for m in p for a in m}, key=expr.text)
    return lambda m: (len(m), [m.count(a) for a in atoms])
