"""How many bytes of its own eager holds at each op of a block of aten: a way of computing that takes copies may take
them where that stays about as much as eager takes at its peak.
"""

from __future__ import annotations

from xdsl.ir import Block, Operation

from .beside import reordered, spans
from .buffer_lifetimes import Lifetimes
from .fuse_cost import Hints
from .lent_memory import profile
from .memory_plan import donated

OVER = 1.1
"""The part of eager's peak that a program may hold at once."""

FEW = 1 << 20
"""Bytes beside that, which nobody counts."""


class EagerMemory:
    """Of one block: what its ops make, and arguments that are gone after their last use."""

    def __init__(self, block: Block, hints: Hints) -> None:
        given = donated(block)
        lifetimes = Lifetimes(block)
        steps = lifetimes.steps
        self._step: dict[Operation, int] = {op: i for i, step in enumerate(steps) for op in step}
        made = spans(lifetimes, given, hints)
        taken = [(i, i, sum(map(hints.bytes, reordered(op, in_eager=True)))) for op, i in self._step.items()]
        self._alive = profile(made, len(steps))
        self._peak = max(profile([*made, *taken], len(steps)))

    def admits(self, op: Operation, more: int) -> bool:
        """Whether there may be as many bytes more, beside tensors, while `op` is computed."""
        return self._alive[self._step[op]] + more <= OVER * self._peak + FEW
