"""Kernels that do the same with other elements of a tensor, as with the seeds of a function's random operators, become
one, which takes the places of the elements as sizes. A part of the pass share-kernels.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

import sympy
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from ..dialects import expr
from ..dialects.loop import IndexAttr, KernelOp, LoadOp
from ..dialects.text import print_module
from .origins import fused_location

_Place: TypeAlias = tuple[SSAValue, int]
"""A tensor of rank 1 and which element of it is read."""


def share_places(kernels: Iterable[KernelOp]) -> dict[str, tuple[str, Sequence[int]]]:
    """Drops the kernels that differ from another in the elements they read alone.

    Gives, by name, the kernel that each became (it may be itself), and the sizes that its launches give besides.
    """
    outlines: dict[object, list[KernelOp]] = {}
    for kernel in kernels:
        if _places(kernel):
            outline = (*(a.type for a in kernel.body.block.args), *(o.name for o in kernel.walk()))
            outlines.setdefault(outline, []).append(kernel)
    named: dict[str, tuple[str, Sequence[int]]] = {}
    for group in outlines.values():
        forms: dict[str, list[KernelOp]] = {}
        for kernel in group if len(group) > 1 else ():
            forms.setdefault(_form(kernel), []).append(kernel)
        for alike in forms.values():
            if len(alike) > 1:
                named |= _unite(alike)
    return named


def _place(op: Operation, block: Block) -> _Place | None:
    """What an op reads if that is one element of an argument of the kernel, whatever the point of the grid."""
    if not isinstance(op, LoadOp) or op.indices or op.ok is not None or op.mask is not None:
        return None
    index, source = tuple(op.index), op.source
    given = isinstance(source, BlockArgument) and source.owner is block
    return (source, index[0]) if given and len(index) == 1 and isinstance(index[0], int) else None


def _places(kernel: KernelOp) -> list[_Place]:
    block = kernel.body.block
    return list(dict.fromkeys(p for op in kernel.walk() if (p := _place(op, block)) is not None))


def _symbols(kernel: KernelOp, count: int) -> list[sympy.Symbol]:
    """New names of sizes."""
    first = len(tuple(kernel.sizes))
    return [expr.symbol(f"s{first + i}") for i in range(count)]


def _generalise(kernel: KernelOp, symbols: Mapping[_Place, sympy.Symbol]) -> None:
    """Make these places sizes of the kernel."""
    for op in kernel.walk():
        place = _place(op, kernel.body.block)
        if place is not None and place in symbols:
            op.properties["index"] = IndexAttr.get([symbols[place]])
    kernel.properties["sizes"] = IndexAttr.get([*kernel.sizes, *symbols.values()])


def _form(kernel: KernelOp) -> str:
    """What kernels that can be one have in common."""
    copy = kernel.clone()
    places = _places(copy)
    _generalise(copy, dict(zip(places, _symbols(copy, len(places)), strict=True)))
    copy.properties["sym_name"] = StringAttr("")
    return print_module(copy)


def _unite(kernels: Sequence[KernelOp]) -> dict[str, tuple[str, Sequence[int]]]:
    """Make the first kernel that of all of them, and drop the others."""
    first = kernels[0]
    places = [_places(kernel) for kernel in kernels]
    differ = [i for i, column in enumerate(zip(*places, strict=True)) if len({place for _, place in column}) > 1]
    named: dict[str, tuple[str, Sequence[int]]] = {
        kernel.sym_name.data: (first.sym_name.data, [own[i][1] for i in differ])
        for kernel, own in zip(kernels, places, strict=True)
    }
    symbols = _symbols(first, len(differ))
    _generalise(first, {places[0][i]: s for i, s in zip(differ, symbols, strict=True)})
    first.location = fused_location(k.location for k in kernels)
    for kernel in kernels[1:]:
        kernel.detach()
        kernel.erase()
    return named
