"""Where the values of symbols are found when a graph is called."""

from __future__ import annotations

from collections.abc import Sequence

import sympy
from xdsl.ir import Attribute

from ..dialects.tensor import SymType, TensorType
from .outputs import Binding


def bindings(arguments: Sequence[Attribute]) -> dict[sympy.Symbol, Binding]:
    """For each symbol that stands alone in the type of an argument, where its value is; scalars before sizes and
    strides.
    """
    found: dict[sympy.Symbol, Binding] = {}
    for i, type_ in enumerate(arguments):
        if isinstance(type_, SymType) and isinstance(type_.expr, sympy.Symbol):
            found.setdefault(type_.expr, ("value", i, 0))
    for kind in ("size", "stride"):
        for i, type_ in enumerate(arguments):
            if isinstance(type_, TensorType):
                for k, d in enumerate(type_.shape if kind == "size" else type_.strides):
                    if isinstance(d, sympy.Symbol):
                        found.setdefault(d, (kind, i, k))
    return found
