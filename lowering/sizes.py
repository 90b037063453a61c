"""What is known of sizes that are expressions, by the symbols' signs or by the sizes of the captured call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import sympy

from ..dialects.expr import Dim


class SizeHints:
    """The sizes seen when the graph was captured: what torch decides on them holds for all (it guards it)."""

    __slots__ = ("hints",)

    def __init__(self, hints: Mapping[str, int]) -> None:
        self.hints = hints

    def is_negative(self, e: Dim) -> bool | None:
        """Whether a size expression is below 0, as the symbols' signs or else the hints tell; None if neither does."""
        if isinstance(e, int):
            return e < 0
        if e.is_nonnegative:
            return False
        if e.is_negative:
            return True
        hint = self.hint(e)
        return None if hint is None else bool(hint < 0)

    def is_one(self, e: Dim) -> bool:
        """Whether a size is 1, by its expression or by its hint: where that decides, torch guards it."""
        return e == 1 if isinstance(e, int) else self.hint(e) == 1

    def hint(self, e: Dim) -> Any:
        """A size as it was when the graph was captured; None where that is not known."""
        if isinstance(e, int):
            return e
        values = {s: self.hints.get(cast(sympy.Symbol, s).name) for s in e.free_symbols}
        if any(v is None for v in values.values()):
            return None
        return e.xreplace({s: sympy.Integer(v) for s, v in values.items()})

    def broadcast_shapes(self, a: Sequence[Dim], b: Sequence[Dim]) -> tuple[Dim, ...]:
        """The shape of `a` and `b` expanded against each other; other sizes that differ are equal by a guard."""
        if len(a) < len(b):
            a, b = b, a
        lead = len(a) - len(b)
        return (*a[:lead], *(self._common(x, y) for x, y in zip(a[lead:], b, strict=True)))

    def _common(self, x: Dim, y: Dim) -> Dim:
        if self.is_one(x):
            return y
        return y if isinstance(y, int) and y != 1 else x
