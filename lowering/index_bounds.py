"""Bounds of index expressions over a domain of loop dims, and floordiv and mod removed where the bounds allow it.

`Bounds` knows the range of each dim, that sizes `s<n>` are at least 1, and that inside a body every extent is at least
1. Everything is memoised, and plain symbols cost nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import sympy

from ..dialects import expr
from ..dialects.expr import Dim
from ..dialects.loop import LoopDim
from ..dialects.symbol_kinds import PROGRAM, symbol_kind
from .index_polynomial import (
    ONE,
    Monomial,
    Polynomial,
    add,
    as_constant,
    common_factor,
    constant,
    divide,
    exact_quotient,
    expression,
    multiply,
    polynomial,
    scale,
    single_term,
    split_by,
    subtract,
)


@lru_cache(maxsize=1)
def _torch_functions() -> tuple[Any, Any, Any]:
    from torch.utils._sympy.functions import FloorDiv, Mod, ModularIndexing

    return FloorDiv, Mod, ModularIndexing


@lru_cache(maxsize=1 << 16)
def is_plain(e: Dim) -> bool:
    """Whether an expression holds nothing but symbols, sums and products."""
    return isinstance(e, (int, sympy.Symbol, sympy.Integer)) or not e.has(sympy.Function)


class Bounds:
    """What is known about the values of expressions over one domain."""

    def __init__(self, dims: tuple[LoopDim, ...]) -> None:
        self.dims = {d.symbol: d for d in dims}
        self._live = {d.extent for d in dims if not isinstance(d.extent, int)}
        self._polynomials: dict[Any, Polynomial] = {}
        self._moving: dict[Any, bool] = {}

    def bounds(self, e: Dim) -> tuple[Dim | None, Dim | None]:
        """Least and greatest value over the domain, in sizes only; None where unknown. They need not be reached."""
        p = self.polynomial(e)
        low, high = self._bound(p, False), self._bound(p, True)
        return None if low is None else expression(low), None if high is None else expression(high)

    # Polynomials without needless floordiv and mod

    def polynomial(self, e: Dim) -> Polynomial:
        """`e` simplified, as a polynomial."""
        if is_plain(e):
            return polynomial(e)
        known = self._polynomials.get(e)
        if known is None:
            known = self._polynomials[e] = self._recombine(
                add(*(self._product(m, c) for m, c in polynomial(e).items()))
            )
        return known

    def _arguments(self, a: Any) -> list[Polynomial]:
        """The arguments of a function or relation, simplified."""
        return [self.polynomial(x) for x in a.args]

    def _product(self, m: Monomial, c: int) -> Polynomial:
        result = constant(c)
        for a in m:
            result = multiply(result, self._atom(a))
        return result

    def _atom(self, a: Any) -> Polynomial:
        floordiv, mod, modular = _torch_functions()
        if isinstance(a, floordiv):
            return self.floordiv(*self._arguments(a))
        if isinstance(a, mod):
            return self.mod(*self._arguments(a))
        if isinstance(a, modular):
            x, c, n = self._arguments(a)
            return self.mod(self.floordiv(x, c), n)
        if isinstance(a, (sympy.Max, sympy.Min)):
            return self._extremum(a)
        return {(a,): 1}

    def floordiv(self, p: Polynomial, c: Polynomial) -> Polynomial:
        """floor(p / c)."""
        if c == ONE:
            return p
        if not self._positive(c):
            return polynomial(expr.floordiv(expression(p), expression(c)))
        # (q*c + r) // c = q + r // c
        q, r = divide(p, c)
        k = self._whole(r, c)
        if k is not None:
            return add(q, k)
        # (g*big + small) // (g*c') = big // c'   where 0 <= small < g
        for big, _, c_rest, _ in self._factorings(r, c):
            return add(q, self.floordiv(big, c_rest))
        floordiv, mod, _ = _torch_functions()
        a = _single_atom(r)
        # (x // b) // c = x // (b*c)
        if isinstance(a, floordiv):
            return add(q, self.floordiv(self.polynomial(a.args[0]), multiply(self.polynomial(a.args[1]), c)))
        # mod(x, b*c) // c = mod(x // c, b)
        if isinstance(a, mod) and (b := exact_quotient(self.polynomial(a.args[1]), c)) is not None:
            return add(q, self.mod(self.floordiv(self.polynomial(a.args[0]), c), b))
        kept, q = (p, {}) if not self._never_negative(r) and self._never_negative(p) else (r, q)
        return add(q, polynomial(expr.floordiv(expression(kept), expression(c))))

    def mod(self, p: Polynomial, c: Polynomial) -> Polynomial:
        """p - c * floor(p / c)."""
        if c == ONE:
            return {}
        _, r = divide(p, c) if self._positive(c) else ({}, p)
        k = self._whole(r, c)
        if k is not None:
            return subtract(r, multiply(k, c))
        # mod(g*big + small, g*c') = g * mod(big, c') + small   where 0 <= small < g
        for big, small, c_rest, g in self._factorings(r, c):
            return add(multiply(g, self.mod(big, c_rest)), small)
        mod = _torch_functions()[1]
        a = _single_atom(r)
        # mod(mod(x, b*c), c) = mod(x, c)
        if isinstance(a, mod) and exact_quotient(self.polynomial(a.args[1]), c) is not None:
            return self.mod(self.polynomial(a.args[0]), c)
        for kept in (r, p):
            if self._never_negative(kept):
                return polynomial(expr.mod(expression(kept), expression(c)))
        # expr.mod wants a non-negative operand
        return subtract(p, multiply(c, self.floordiv(p, c)))

    def _whole(self, r: Polynomial, c: Polynomial) -> Polynomial | None:
        """The k with k*c <= r < (k + 1)*c everywhere, if that is proved."""
        low, high = self._bound(r, False), self._bound(r, True)
        if low is None or high is None:
            return None
        n, d = as_constant(low), as_constant(c)
        candidates = [constant(n // d)] if n is not None and d else [{}, constant(-1), divide(low, c)[0]]
        for k in candidates:
            kc = multiply(k, c)
            if self._nonnegative(subtract(low, kc)) and self._nonnegative(subtract(add(kc, c), add(high, ONE))):
                return k
        return None

    def _factorings(
        self, r: Polynomial, c: Polynomial
    ) -> Iterable[tuple[Polynomial, Polynomial, Polynomial, Polynomial]]:
        """Each (big, small, c', g), largest g first: r = g*big + small, c = g*c', 0 <= small < g, g > 1 a monomial."""
        term = single_term(c)
        if term is None:
            return
        factors = {common_factor(t, term) for t in r.items()} - {((), 1)}
        for g in sorted(factors, key=lambda g: (len(g[0]), g[1], expr.text(sympy.Mul(*g[0]))), reverse=True):
            big, small = split_by(r, g)
            if big and self._fits(small, dict([g])):
                yield big, small, split_by(c, g)[0], dict([g])

    def _fits(self, small: Polynomial, g: Polynomial) -> bool:
        """Whether 0 <= small < g everywhere."""
        if not small:
            return self._positive(g)
        low, high = self._bound(small, False), self._bound(small, True)
        if low is None or high is None:
            return False
        return self._nonnegative(low) and self._nonnegative(subtract(g, add(high, ONE)))

    def _recombine(self, p: Polynomial) -> Polynomial:
        """Put parts of one number together again."""
        _, mod, _ = _torch_functions()
        mods = [(m, c, a) for m, c in p.items() for a in m if isinstance(a, mod)]
        for m, c, a in mods:
            rest = list(m)
            rest.remove(a)
            base = {tuple(rest): c}
            x, b = self.polynomial(a.args[0]), self.polynomial(a.args[1])
            quotient = self.floordiv(x, b)
            # k*b*floordiv(x, b) + k*mod(x, b) = k*x
            high = multiply(multiply(base, b), quotient)
            if high and all(p.get(n) == k for n, k in high.items()):
                return self._recombine(add(subtract(p, add(high, {m: c})), multiply(base, x)))
            # k*b*mod(y + floordiv(x, b), n) + k*mod(x, b) = k*mod(b*y + x, b*n)
            for m2, c2, a2 in mods:
                inner = self.polynomial(a2.args[0])
                if a2 is a or not quotient or any(inner.get(n) != k for n, k in quotient.items()):
                    continue
                high = multiply(multiply(base, b), {(a2,): 1})
                if high == {m2: c2}:
                    added = add(x, multiply(b, subtract(inner, quotient)))
                    whole = self.mod(added, multiply(b, self.polynomial(a2.args[1])))
                    return self._recombine(add(subtract(p, add(high, {m: c})), multiply(base, whole)))
        return p

    def _extremum(self, a: Any) -> Polynomial:
        greatest = isinstance(a, sympy.Max)
        kept: list[Polynomial] = []
        for p in self._arguments(a):
            # max(p, q) = q where q - p >= 0
            if any(self._above(q, p, greatest) for q in kept):
                continue
            kept = [q for q in kept if not self._above(p, q, greatest)] + [p]
        if len(kept) == 1:
            return kept[0]
        return polynomial(type(a)(*map(expression, kept)))

    def _above(self, q: Polynomial, p: Polynomial, greatest: bool) -> bool:
        return self._never_negative(subtract(q, p) if greatest else subtract(p, q))

    # Bounds and signs

    def _moves(self, a: Any) -> bool:
        """Whether an atom depends on a dim or on an index operand."""
        known = self._moving.get(a)
        if known is None:
            known = any(s in self.dims or symbol_kind(s.name) not in PROGRAM for s in a.free_symbols)
            self._moving[a] = known
        return known

    def _bound(self, p: Polynomial, up: bool) -> Polynomial | None:
        """An upper or lower bound over the domain, in sizes; None where unknown."""
        coefficients: dict[Monomial, Polynomial] = {}
        for m, c in p.items():
            moving = tuple(a for a in m if self._moves(a))
            fixed = tuple(a for a in m if a not in moving)
            coefficients[moving] = add(coefficients.get(moving, {}), {fixed: c})
        total: list[Polynomial] = []
        for moving, k in coefficients.items():
            if moving:
                direction = up if self._nonnegative(k) else not up if self._nonnegative(scale(k, -1)) else None
                if direction is None:
                    return None
                for a in moving:
                    limit = self._atom_bound(a, direction)
                    if limit is None or (
                        len(moving) > 1
                        and not ((low := self._atom_bound(a, False)) is not None and self._nonnegative(low))
                    ):
                        return None
                    k = multiply(k, limit)
            total.append(k)
        return add(*total)

    def _atom_bound(self, a: Any, up: bool) -> Polynomial | None:
        floordiv, mod, _ = _torch_functions()
        if isinstance(a, sympy.Symbol):
            if (d := self.dims.get(a)) is not None:
                return self._bound(subtract(self.polynomial(d.hi), ONE) if up else self.polynomial(d.lo), up)
            return None if up else {}
        if isinstance(a, mod):
            return self._bound(subtract(self.polynomial(a.args[1]), ONE), True) if up else {}
        if isinstance(a, floordiv):
            x, c = self._bound(self.polynomial(a.args[0]), up), self.polynomial(a.args[1])
            if x is None or any(self._moves(b) for m in c for b in m) or not self._positive(c):
                return None
            return self.floordiv(x, c)
        if isinstance(a, (sympy.Max, sympy.Min)):
            parts = self._arguments(a)
            limits = [b for p in parts if (b := self._bound(p, up)) is not None]
            if up != isinstance(a, sympy.Max):  # any limit of an operand is one
                return min(limits, key=lambda b: as_constant(b) is None, default=None)
            if len(limits) == len(parts):
                for b in limits:
                    if all(self._nonnegative(subtract(b, o) if up else subtract(o, b)) for o in limits):
                        return b
        return None

    def _never_negative(self, p: Polynomial) -> bool:
        low = self._bound(p, False)
        return low is not None and self._nonnegative(low)

    def is_never_negative(self, e: Dim) -> bool:
        """Whether an expression is proved to be 0 or more everywhere."""
        return self._never_negative(self.polynomial(e))

    def _positive(self, p: Polynomial) -> bool:
        return self._never_negative(subtract(p, ONE))

    def _nonnegative(self, p: Polynomial) -> bool:
        """Proof that p >= 0: with every atom a >= n written as n + t, t >= 0, no coefficient is negative."""
        if (n := as_constant(p)) is not None:
            return n >= 0
        shifted: list[Polynomial] = []
        unknown: set[Any] = set()
        for m, c in p.items():
            product = constant(c)
            for a in m:
                least = self._least(a)
                if least is None:
                    unknown.add(a)
                    least = 0
                product = multiply(product, add({(a,): 1}, constant(least)))
            shifted.append(product)
        return all(c >= 0 and unknown.isdisjoint(m) for m, c in add(*shifted).items())

    def _least(self, a: Any) -> int | None:
        """A constant that an atom is never below."""
        if a in self._live:
            return 1
        if isinstance(a, sympy.Symbol):
            if (d := self.dims.get(a)) is not None:
                return d.lo if isinstance(d.lo, int) else None
            return 1 if a.is_positive else 0 if a.is_nonnegative else None
        floordiv, mod, _ = _torch_functions()
        if isinstance(a, mod):
            return 0
        if isinstance(a, floordiv):
            x, c = self._arguments(a)
            return 0 if self._nonnegative(x) and self._nonnegative(subtract(c, ONE)) else None
        if isinstance(a, (sympy.Max, sympy.Min)):
            least = [self._least_of(p) for p in self._arguments(a)]
            if isinstance(a, sympy.Max):
                return max((n for n in least if n is not None), default=None)
            return None if None in least else min(n for n in least if n is not None)
        return None

    def _least_of(self, p: Polynomial) -> int | None:
        n = as_constant(p)
        return n if n is not None else 1 if self._nonnegative(subtract(p, ONE)) else 0 if self._nonnegative(p) else None


@lru_cache(maxsize=1 << 12)
def never_negative(e: Dim) -> bool:
    """Whether an expression over sizes is proved to be 0 or more."""
    return e >= 0 if isinstance(e, int) else _SIZES.is_never_negative(e)


def _single_atom(p: Polynomial) -> Any:
    """The atom that `p` is, or None."""
    term = single_term(p)
    return term[0][0] if term is not None and term[1] == 1 and len(term[0]) == 1 else None


_SIZES = Bounds(())
