"""What of a block is computed when: before and after which of its calls.

A stage is how many calls follow one another before a value can be there. Kernels end at calls, so that what is read in
a later stage than it is made in comes from memory, unless nothing needs it before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.ir import Block, Operation, SSAValue

from ..dialects import prims
from ..dialects.aten import AtenOp
from ..dialects.loop import NestOp, ScatterOp, ViewOp
from ..dialects.prims import PrimsOp

_WHOLE = (prims.ReduceOp, prims.VarMeanOp, prims.ScanOp, prims.SortOp, prims.DotOp, ScatterOp)
"""What is not computed again where it is read."""


_MOVED = (prims.ViewOp, prims.MaximumOp, prims.MinimumOp, prims.SelectOp)


class Stages:
    """The stages of some ops, in order. `reads` tells what an op reads."""

    def __init__(self, ops: Sequence[Operation], reads: Callable[[Operation], Sequence[SSAValue]]) -> None:
        self.reads = reads
        self.made: dict[SSAValue, int] = {}
        """The first stage in which a value can be there; 0 for those that are not from here."""
        self.used: dict[Operation, int] = {}
        """The stage in which an op is computed: the first in which something reads its results."""
        last = 0
        for op in ops:
            stage = self._first(op)
            if _is_call(op):
                # calls keep their order: one that waits for less than those before it is after them
                stage = stage + 1 if stage >= last - 1 else last + 1
                last = stage
            self.made |= dict.fromkeys(op.results, stage)
        read: dict[SSAValue, int] = {}
        """The first stage in which a value is read."""
        for op in reversed(ops):
            stage = self._first(op)
            if not _is_call(op) and not _is_whole(op):
                stage = max(stage, min((read[r] for r in op.results if r in read), default=0))
            self.used[op] = stage
            for v in reads(op):
                read[v] = min(read.get(v, stage), stage)

    def _first(self, op: Operation) -> int:
        return max((self.made.get(v, 0) for v in self.reads(op)), default=0)

    def is_later(self, op: Operation, value: SSAValue) -> bool:
        """Whether an op is computed in a later stage than a value is made."""
        return self.used.get(op, 0) > self.made.get(value, 0)


def kept_in_memory(block: Block) -> set[SSAValue]:
    """What of a block of prims is in memory whatever is fused: calls and results of the block take it, two products do,
    or it is read in a later stage than it is made in; and what these are views of, or chosen from, as x less its choice
    is 0 where that is x.
    """
    ops = list(block.ops)
    stages = Stages(ops, lambda op: op.operands)
    kept: set[SSAValue] = set()
    of_a_product: set[SSAValue] = set()
    for op in reversed(ops):
        for v in op.operands:
            moved = isinstance(op, _MOVED) and op.results[0] in kept
            multiplied = isinstance(op, prims.DotOp) or (isinstance(op, prims.ViewOp) and op.results[0] in of_a_product)
            if moved or not isinstance(op, PrimsOp) or stages.is_later(op, v) or (multiplied and v in of_a_product):
                kept.add(v)
            if multiplied:
                of_a_product.add(v)
    return kept


def _is_call(op: Operation) -> bool:
    if isinstance(op, AtenOp):
        return not op.schema.is_view
    return not isinstance(op, PrimsOp | NestOp | ScatterOp | ViewOp)


def _is_whole(op: Operation) -> bool:
    return isinstance(op, _WHOLE) or (isinstance(op, NestOp) and bool(op.combine.data))
