"""Index expressions of nests: which point a value at an index comes from."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import sympy

from ..dialects import expr
from ..dialects.expr import Dim
from ..dialects.loop import LoopDim
from .fuse_graph import Binding, Index, Node, Read
from .index_simplify import facts, is_plain


@lru_cache(maxsize=1 << 14)
def radices(e: Dim, dims: tuple[LoopDim, ...]) -> tuple[tuple[LoopDim, Dim], ...] | None:
    """The dims of a mixed-radix number `d0*n1*n2 + d1*n2 + d2` with their strides, outermost first; else None."""
    if isinstance(e, int):
        return () if e == 0 else None
    by_symbol = {d.symbol: d for d in dims}
    rest = dict[sympy.Symbol, Any]()
    for term in sympy.Add.make_args(e):
        moving = [s for s in by_symbol if s in term.free_symbols]
        if len(moving) != 1 or moving[0] in rest:
            return None
        stride = expr.normal(term / moving[0])
        if moving[0] in expr.symbols(stride):
            return None
        rest[moving[0]] = stride
    found: list[tuple[LoopDim, Dim]] = []
    stride: Dim = 1
    while rest:
        # where an extent is 1 several dims have one stride: those go first
        match = [s for s, k in rest.items() if k == stride]
        if not match:
            return None
        s = min(match, key=lambda s: (by_symbol[s].extent != 1, s.name))
        d = by_symbol[s]
        if d.lo != 0:
            return None
        found.append((d, rest.pop(s)))
        stride = expr.normal(stride * d.extent)  # pyright: ignore[reportOperatorIssue]
    return tuple(reversed(found))


def invert(n: Node, index: Index, sizes: Binding | None = None) -> Binding | None:
    """The dims of a nest for which its value goes to `index` of its results; None where `out` is not understood.

    `sizes`: what `index` calls the symbols of the nest.
    """
    sizes = sizes or {}
    binding: Binding = {}
    for out, e in zip(n.index, index, strict=True):
        if isinstance(out, sympy.Symbol):
            binding[out] = e
            continue
        digits = radices(out, n.dims)
        if digits is None:
            return None
        for i, (d, stride) in enumerate(digits):
            part = expr.floordiv(e, expr.substitute(stride, sizes))
            binding[d.symbol] = expr.mod(part, expr.substitute(d.extent, sizes)) if i else part
    for d in n.dims:
        if d.symbol not in binding:
            if d.extent != 1:
                return None
            binding[d.symbol] = expr.substitute(d.lo, sizes)
    return binding


def point_of(n: Node, p: Node, read: Read) -> Binding | None:
    """The dims of the producer at which the reader reads, in the reader's dims."""
    binding = invert(p, read.index)
    return None if binding is None else {d: simplified(e, n.domain) for d, e in binding.items()}


def simplified(e: Dim, dims: tuple[LoopDim, ...]) -> Dim:
    """`e` without needless floordiv and mod, for dims within their bounds."""
    return e if is_plain(e) else facts(dims).simplify(e)
