"""Which expressions over sizes kernels have code for (`address.evaluate`, `tt_index.Index`)."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

import sympy

from ..dialects.symbol_kinds import SIGNED, symbol_kind

_DIVISIONS: Final = frozenset({"FloorDiv", "CleanDiv", "Mod", "PythonMod", "ModularIndexing"})
_CODED: Final = _DIVISIONS | {"Max", "Min"}
"""The functions of sizes that kernels have code for: divisions by what is not negative."""
_ROUNDED: Final = frozenset({"TruncToInt", "FloorToInt", "CeilToInt"})
"""Those of real numbers that sizes are made of."""


@lru_cache(maxsize=1 << 14)
def has_code(e: Any) -> bool:
    """Whether a kernel can compute an expression over sizes: an integer one of arithmetic, `_CODED` and `_ROUNDED`."""
    # torch's Mod says that it is an integer, also of floats
    if isinstance(e, (int, sympy.Integer)):
        return True
    name = type(e).__name__
    if not e.is_integer:
        return False
    if name in _ROUNDED:
        return _is_product(e.args[0])
    return isinstance(e, sympy.Symbol) or (
        (isinstance(e, sympy.Add | sympy.Mul | sympy.Pow) or name in _CODED)
        and all(isinstance(a, sympy.Rational) or has_code(a) for a in e.args)
        and not (name in _DIVISIONS and any(map(may_be_negative, e.args[1:])))
    )


def may_be_negative(divisor: Any) -> bool:
    """Whether a divisor is made of numbers that may be: sizes, and what is made of them, are not."""
    return divisor.is_nonnegative is not True and (
        divisor.is_negative is True or any(symbol_kind(s.name) in SIGNED for s in divisor.free_symbols)
    )


def _is_product(e: Any) -> bool:
    """Whether `address.real` has code for a real number."""
    if isinstance(e, sympy.Float) or has_code(e):
        return True
    if isinstance(e, sympy.Mul):
        return all(map(_is_product, e.args))
    if (square := root_of(e)) is not None:
        return _is_product(square)
    return type(e).__name__ in ("ToFloat", "IntTrueDiv") and all(map(has_code, e.args))


def root_of(e: Any) -> Any:
    """What `e` is the square root of, by `math.sqrt` or as a power; None where it is none, or that may be negative.

    Of what is no integer, a power may differ from the root in the last place, and so in the integer made of it.
    """
    name = type(e).__name__
    if name == "OpaqueUnaryFn_sqrt":
        (square,) = e.args
        whole = square.args[0] if type(square).__name__ == "ToFloat" else square
    elif name == "FloatPow" and e.args[1] == 0.5 and type(e.args[0]).__name__ == "ToFloat":
        square, whole = e.args[0], e.args[0].args[0]
    else:
        return None
    return square if whole.is_nonnegative else None
