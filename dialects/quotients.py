"""Quotients and remainders as torch's FloorDiv and Mod make them, without asking sympy where the numbers say enough,
and without a quotient where a divisor is a factor.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Any

import sympy


@cache
def _functions() -> tuple[Any, Any]:
    from torch.utils._sympy.functions import FloorDiv, Mod

    return FloorDiv, Mod


@lru_cache(maxsize=1 << 16)
def quotient(a: Any, b: Any) -> Any:
    """torch's FloorDiv; exact where that sees no factor: of powers, of several terms."""
    a, b = sympy.sympify(a), sympy.sympify(b)
    if (exact := _exact(a, b)) is not None:
        return exact
    found = _coefficients(a) if isinstance(b, sympy.Integer) and b > 1 else ()
    stays = found and math.gcd(*found, int(b)) == 1 and all(c % int(b) for c in found)
    return _functions()[0](a, b, evaluate=not stays)


def _exact(a: Any, b: Any) -> Any:
    """a / b where b, a product of sizes, is a factor of each term of a."""
    divisor = b.as_powers_dict() if isinstance(b, (sympy.Symbol, sympy.Mul, sympy.Pow)) else {}
    if not divisor or not all(isinstance(s, sympy.Symbol) and s.is_positive for s in divisor):
        return None
    terms = a.args if isinstance(a, sympy.Add) else (a,)
    powers: list[Mapping[Any, Any]] = [t.as_powers_dict() for t in terms]
    if not all(s in p and (p[s] - n).is_nonnegative for p in powers for s, n in divisor.items()):
        return None
    return sympy.Add(*(t / b for t in terms)) if len(terms) > 1 else a / b


@lru_cache(maxsize=1 << 16)
def remainder(a: Any, b: Any) -> Any:
    """torch's Mod."""
    a, b = sympy.sympify(a), sympy.sympify(b)
    found = _coefficients(a) if isinstance(b, sympy.Integer) and b > 2 else ()
    return _functions()[1](a, b, evaluate=not (found and any(c % int(b) for c in found)))


def _coefficients(e: Any) -> tuple[int, ...]:
    """The numbers before the symbols of a sum of integers, and the number that is added; () of what is not one.

    From them alone it is seen that torch's FloorDiv and Mod leave such a sum over a number as it is. They ask sympy, of
    each term and of the sum, what is known of its sign and parity.
    """
    found: list[int] = []
    for term in e.args if isinstance(e, sympy.Add) else (e,):
        factor = term
        if isinstance(term, sympy.Mul) and len(term.args) == 2 and isinstance(term.args[0], sympy.Integer):
            factor = term.args[1]
            found.append(int(term.args[0]))
        elif isinstance(term, sympy.Integer) and term is not e:
            found.append(int(term))
            continue
        else:
            found.append(1)
        if not isinstance(factor, sympy.Symbol) or not factor.is_integer:
            return ()
    return tuple(found)


def divided(e: Any) -> Any:
    """`e` of torch's with `quotient`, so that what lies alike says so."""
    floordiv, _ = _functions()
    return e.replace(lambda a: isinstance(a, floordiv), lambda a: quotient(*a.args)) if e.has(floordiv) else e


@lru_cache(maxsize=1 << 16)
def replaced(e: Any, pairs: tuple[tuple[Any, Any], ...]) -> Any:
    """`e` with other expressions for symbols, at once."""
    return _replaced(e, {a: sympy.sympify(b) for a, b in pairs}, _functions())


def _replaced(e: Any, rule: Mapping[Any, Any], functions: tuple[Any, Any]) -> Any:
    """sympy's `xreplace` of symbols, with `quotient` and `remainder`."""
    if not e.args:
        return rule.get(e, e)
    args = [_replaced(a, rule, functions) for a in e.args]
    if all(map(operator.is_, args, e.args)):
        return e
    if type(e) in functions:
        return (quotient if type(e) is functions[0] else remainder)(*args)
    return e.func(*args)
