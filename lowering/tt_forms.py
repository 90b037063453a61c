"""Kernels of two forms: where sizes are as small as when the kernel was compiled, rows are held, else gone through.

    held = {s1 = 1024}:  if (s1 <= 1024) { loops over s1 are one tile } else { loops over tiles of s1 }

A program takes one of the two. What both need, the place of the program in the grid, stands before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import sympy
from xdsl.dialects import scf
from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr
from xdsl.ir import Block, Region, SSAValue

from ..dialects import expr
from ..dialects.loop import KernelOp, LoopDim
from .tile_extent import at_most
from .tt_index import Index, known

if TYPE_CHECKING:
    from .tt_body import KernelBody

HELD = "held"
"""The attribute of a kernel: the largest sizes with which its tiles have all of their dims."""


def body_in_forms(body: KernelBody, kernel: KernelOp) -> None:
    """Append the kernel's body in each of its forms."""
    held = kernel.attributes.get(HELD)
    if not isinstance(held, DictionaryAttr):
        body.block(kernel.body.block)
        return
    limits = {expr.symbol(name): n.value.data for name, n in held.data.items() if isinstance(n, IntegerAttr)}
    b, index = body.b, Index(body.b, body.env)
    small: SSAValue | None = None
    for symbol, limit in limits.items():
        small = b.both(small, index.compare("le", (index.scalar(symbol), None), (known(limit), None)))
    assert small is not None
    regions: list[Region] = []
    for most in (limits, {}):
        block = Block()
        with b.scope(block):
            body.limits = most
            body.block(kernel.body.block)
            b.effect(scf.YieldOp, ())
        body.written.clear()
        regions.append(Region(block))
    b.effect(scf.IfOp, [small], (), {}, regions)


def most_of(d: LoopDim, limits: dict[sympy.Symbol, int]) -> int | None:
    """A number that the extent of a dim does not exceed where sizes are within `limits`."""
    most = at_most(d)
    if most is None and d.lo == 0 and isinstance(d.hi, sympy.Symbol):
        return limits.get(d.hi)
    return most
