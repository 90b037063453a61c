"""Points of a grid side by side: while the sum of a short row is added up across its vector, another row has work.

loop.kernel … attributes {sides = 2} { %m = for … reduce [max]; %s = for … reduce [add]; for … }

The loops of a point wait for one another, for some 60 cycles each; a machine looks no further ahead than to the next
loop. Where memory is waited for anyway, rows one after the other are read faster.
"""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import Operation

from ..dialects.loop import ForOp, KernelOp, LoadOp, ScratchOp, StoreOp, body_ops
from .fuse_cost import Hints
from .fuse_graph import op_cost
from .schedule_access import accesses
from .schedule_dims import bytes_of

SIDES = 2
"""Points at once: of four the rows no longer lie in the first cache together."""

SHORT = 2 << 10
"""Bytes of a row at most."""

HEAVY = 8
"""The cost of an op, that of an exponential, from which on a row is computed no faster than it is read."""


def set_sides(kernel: KernelOp, hints: Hints) -> None:
    """Mark a kernel of which this can be expected."""
    loops = [o for o in kernel.body.block.ops if isinstance(o, ForOp)]
    inside = [o for loop in loops for o in body_ops(loop.body)]
    if not len(kernel.grid) or sum(bool(o.reduce.data) for o in loops) < 2 or not all(map(_is_plain, inside)):
        return
    if max(map(op_cost, inside), default=0) >= HEAVY and all(_bytes(o, hints) <= SHORT for o in loops):
        kernel.attributes["sides"] = IntegerAttr(SIDES, i64)


def _is_plain(op: Operation) -> bool:
    """Whether an op asks for nothing that others keep for it, or write."""
    if isinstance(op, StoreOp):
        return op.combine is None
    return not op.name.startswith("loop.") or op.name in _PLAIN


_PLAIN = frozenset({"loop.load", "loop.yield", "loop.fn", "loop.index", "loop.pred"})


def _bytes(loop: ForOp, hints: Hints) -> int:
    """What a loop reads of the largest of the buffers it goes over."""
    sizes = [bytes_of(a) for a in accesses(loop.body.block.ops) if not _is_scratch(a)]
    return hints.points(tuple(loop.dims)) * max(sizes, default=0)


def _is_scratch(a: LoadOp | StoreOp) -> bool:
    return isinstance((a.source if isinstance(a, LoadOp) else a.target).owner, ScratchOp)
