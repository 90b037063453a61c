"""How long a loop can be, where that is a number though its bounds are not."""

from __future__ import annotations

from typing import Any

import sympy

from ..dialects import expr
from ..dialects.expr import Dim
from ..dialects.loop import LoopDim


def at_most(d: LoopDim | Dim) -> int | None:
    """A number that an extent does not exceed; None where none is known. `lo : min(hi, lo + 16)` has at most 16."""
    if not isinstance(d, LoopDim):
        return d if isinstance(d, int) else None
    if isinstance(d.hi, sympy.Min):
        bounds: list[Any] = [expr.normal(bound - d.lo) for bound in d.hi.args]  # pyright: ignore[reportOperatorIssue]
        return min((n for n in bounds if isinstance(n, int)), default=None)
    return d.extent if isinstance(d.extent, int) else None
