"""Simplification of index expressions and predicates, given the ranges of loop dims."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

import sympy

from ..dialects.expr import Dim
from ..dialects.loop import LoopDim
from .index_bounds import Bounds, is_plain
from .index_polynomial import ONE, Polynomial, add, constant, expression, scale, split_by, subtract

Relation: TypeAlias = Any
"""A sympy relation or boolean function of relations, as `loop_attrs.PredAttr` holds them."""


class Facts(Bounds):
    """What is known about the dims of one domain. Made by `facts`; every answer is remembered.

    Predicates that the bounds decide are decided, all others are put into one form.
    """

    def __init__(self, dims: tuple[LoopDim, ...]) -> None:
        super().__init__(dims)
        self._simplified: dict[Any, Dim] = {}
        self._relations: dict[Any, Any] = {}

    def simplify(self, e: Dim) -> Dim:
        """An expression with the same value at every point of the domain."""
        if isinstance(e, (int, sympy.Symbol)):
            return e
        known = self._simplified.get(e)
        if known is None:
            known = self._simplified[e] = e if is_plain(e) else expression(self.polynomial(e))
        return known

    def relation(self, r: Relation) -> Relation:
        """An equal predicate in normal form: `sympy.true`, `sympy.false`, or mostly `lt` or `ge`, dims on the left."""
        known = self._relations.get(r)
        if known is None:
            known = self._relations[r] = self._relation(r)
        return known

    def decide(self, r: Relation) -> bool | None:
        """Whether a predicate holds at every point (True), at none (False), or that is unknown (None)."""
        r = self.relation(r)
        return True if r == sympy.true else False if r == sympy.false else None

    def conjunction(self, relations: Iterable[Relation]) -> tuple[Relation, ...] | None:
        """The relations that are left to test, each once, and of those that bound one expression from one side the
        closest where that is known; None if they never hold together.
        """
        left: dict[Any, Relation] = {}
        for r in relations:
            r = self.relation(r)
            if r == sympy.false:
                return None
            if r == sympy.true:
                continue
            if not isinstance(r, (sympy.Lt, sympy.Ge)):
                left[r] = r
                continue
            side = sympy.Lt if isinstance(r, sympy.Lt) else sympy.Ge
            self._bind(left, side, r)
            below, above = left.get((sympy.Lt, r.lhs)), left.get((sympy.Ge, r.lhs))
            if below is not None and above is not None and self._apart(below, above):
                return None
        return tuple(left.values())

    def _apart(self, below: Any, above: Any) -> bool:
        """Whether e < a and e >= b never hold together, as where b >= a."""
        return self._never_negative(subtract(self.polynomial(above.rhs), self.polynomial(below.rhs)))

    def _bind(self, left: dict[Any, Relation], side: Any, r: Any) -> None:
        """`left` with the bound `r` on an expression, which is the only one from this side, or the closest."""
        key = (side, r.lhs)
        known = left.setdefault(key, r)
        if known is r or known == r:
            return
        closer = subtract(self.polynomial(r.rhs), self.polynomial(known.rhs))  # ge: where that is not negative
        if self._never_negative(closer if side is sympy.Ge else scale(closer, -1)):
            left[key] = r
        elif not self._never_negative(scale(closer, -1) if side is sympy.Ge else closer):
            left[r] = r

    def _relation(self, r: Relation) -> Relation:
        if isinstance(r, (sympy.And, sympy.Or, sympy.Not)):
            return type(r)(*(self.relation(a) for a in r.args))
        if not isinstance(r, sympy.Rel):
            return r
        p = subtract(*self._arguments(r))
        match r:
            case sympy.Ge():
                return self._at_least_zero(p)
            case sympy.Gt():
                return self._at_least_zero(subtract(p, ONE))
            case sympy.Lt():
                return self._below_zero(p)
            case sympy.Le():
                return self._below_zero(subtract(p, ONE))
            case _:
                equal = self._equal_zero(p)
                return equal if isinstance(r, sympy.Eq) else sympy.Not(equal)

    def _at_least_zero(self, p: Polynomial) -> Relation:
        low, high = self._bound(p, False), self._bound(p, True)
        if low is not None and self._nonnegative(low):
            return sympy.true
        if high is not None and self._nonnegative(scale(add(high, ONE), -1)):
            return sympy.false
        # g*big + small >= 0 is big >= 0, where 0 <= small < g
        for g in sorted({abs(c) for c in p.values()} - {1}, reverse=True):
            big, small = split_by(p, ((), g))
            if big and self._fits(small, constant(g)):
                return self._at_least_zero(big)
        return self._ordered(p)

    def _below_zero(self, p: Polynomial) -> Relation:
        return sympy.Not(self._at_least_zero(p))

    def _ordered(self, p: Polynomial) -> Relation:
        """p >= 0 with dims on the left."""
        moving = {m: c for m, c in p.items() if any(self._moves(a) for a in m)} or {m: c for m, c in p.items() if m}
        left = {m: c for m, c in moving.items() if c > 0}
        if moving and not left:  # -x + n >= 0 is x < n + 1
            left = scale(moving, -1)
            return sympy.Lt(expression(left), expression(add(subtract(p, moving), ONE)))
        return sympy.Ge(expression(left), expression(subtract(left, p)))

    def _equal_zero(self, p: Polynomial) -> Relation:
        if not p:
            return sympy.true
        for q in (p, scale(p, -1)):
            low = self._bound(q, False)
            if low is not None and self._nonnegative(subtract(low, ONE)):
                return sympy.false
        left = {m: c for m, c in p.items() if c > 0}
        return sympy.Eq(expression(left), expression(subtract(left, p)))


_facts: dict[tuple[LoopDim, ...], Facts] = {}


def facts(dims: Iterable[LoopDim]) -> Facts:
    """The facts about a domain; one object for equal dims."""
    key = tuple(dims)
    known = _facts.get(key)
    if known is None:
        known = _facts[key] = Facts(key)
    return known
