"""Other tiles that a kernel with loops may have: what `mode="max-autotune"` tries beside the choice of tile_choice."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from xdsl.dialects.builtin import StringAttr

from ..dialects.loop import ForOp, IndexAttr, KernelOp, body_ops
from ..dialects.text import print_module
from .tile_held import HELD

WORTH = 1 << 20
"""Bytes that a kernel moves, from which on it is worth a measurement."""


@dataclass(frozen=True)
class Variant:
    """What differs: threads of a program, elements that it has at hand of what it goes through, by factors; elements of
    the longest row that is held though its length is no power of two.
    """

    threads: float = 1
    tile: float = 1
    held: int = HELD


VARIANTS: dict[str, Variant] = {
    "default": Variant(),
    "more-threads": Variant(threads=2),
    "fewer-threads": Variant(threads=0.5),
    "larger-tile": Variant(tile=2),
    "smaller-tile": Variant(tile=0.5),
    "held-by-two": Variant(held=HELD // 2),
    "read-again": Variant(held=0),
}


def kind_of(kernel: KernelOp) -> str:
    """What tells a kernel from others, whatever its symbol is; empty where nothing is to be tried: without loops, of
    sizes that are not known, or where little is moved.
    """
    ops = list(body_ops(kernel.body))
    moved = kernel.attributes.get("bytes")
    bytes_ = moved[0] if isinstance(moved, IndexAttr) else 0
    if kernel.sizes or not any(isinstance(o, ForOp) for o in ops) or not isinstance(bytes_, int) or bytes_ < WORTH:
        return ""
    copy = kernel.clone()
    copy.sym_name = StringAttr("kernel")
    copy.attributes = {}
    return f"{kernel.sym_name.data} {hashlib.sha256(print_module(copy).encode()).hexdigest()[:12]}"
