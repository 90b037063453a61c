"""Kernels of two forms: one for sizes that are alike those that the kernel was compiled with, one for all.

    held = {s1 = 1024}, multiple = {s1 = 16}:  if (s1 <= 1024 and s1 % 16 == 0) {
        loops over s1 are one tile, and rows begin at multiples of 16 elements: loads are of several elements
    } else { loops over tiles of s1 }

A program takes one of the two.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import sympy
from xdsl.dialects import scf
from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr
from xdsl.ir import Block, Region, SSAValue

from ..dialects import expr
from ..dialects.loop import KernelOp, LoopDim
from .tile_extent import at_most
from .tt_index import Index, Number, Place, known

if TYPE_CHECKING:
    from .tt_body import KernelBody

HELD = "held"
"""The attribute of a kernel: the largest sizes with which its tiles have all of their dims."""

UNALIGNED = "unaligned"
"""The attribute of a kernel that makes no use of where its buffers begin."""

MULTIPLE = "multiple"
"""Its attribute: numbers that sizes are multiples of."""


def body_in_forms(body: KernelBody, kernel: KernelOp, enter: Callable[[], None]) -> None:
    """Append the kernel's body in each of its forms; `enter` makes the dims of its grid known."""
    held, multiple = _numbers(kernel, HELD), _numbers(kernel, MULTIPLE)
    if not held and not multiple:
        enter()
        body.block(kernel.body.block)
        return
    b, index, env = body.b, Index(body.b, body.env), dict(body.env)
    alike: SSAValue | None = None
    for s, n in held.items():
        alike = b.both(alike, index.compare("le", (index.scalar(s), None), (known(n), None)))
    rounded = dict(env)
    for s, n in multiple.items():
        size = index.scalar(s)
        rest = index.remainder(size, known(n))
        alike = b.both(alike, index.compare("eq", (rest, None), (known(0), None)))
        # that it is a multiple stands in how it is computed
        whole = Number(index.divide(size, known(n)).value, size.bound // n)
        rounded[s] = Place(index.multiply(whole, known(n)))
    assert alike is not None
    regions: list[Region] = []
    # equal blocks would become one again, for which nothing is known of its sizes
    for body.limits, sizes, body.cache in ((held, rounded, "none"), ({}, env, "ca")):
        block = Block()
        with b.scope(block):
            body.env = dict(sizes)
            enter()
            body.block(kernel.body.block)
            b.effect(scf.YieldOp, ())
        body.axes.clear()
        body.written.clear()
        regions.append(Region(block))
    b.effect(scf.IfOp, [alike], (), {}, regions)


def _numbers(kernel: KernelOp, name: str) -> dict[sympy.Symbol, int]:
    given = kernel.attributes.get(name)
    numbers = given.data if isinstance(given, DictionaryAttr) else {}
    return {expr.symbol(k): n.value.data for k, n in numbers.items() if isinstance(n, IntegerAttr)}


def most_of(d: LoopDim, limits: dict[sympy.Symbol, int]) -> int | None:
    """A number that the extent of a dim does not exceed where sizes are within `limits`."""
    most = at_most(d)
    if most is None and d.lo == 0 and isinstance(d.hi, sympy.Symbol):
        return limits.get(d.hi)
    return most
