"""Which memory a value of a body stands for, how long it is needed, and who else may hold it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from xdsl.ir import Block, Operation, SSAValue

from ..dialects.aliasing import OF_STORAGE, sources
from ..dialects.aten import AtenOp
from ..dialects.flow import TERMINATORS
from ..dialects.loop import LaunchOp
from ..dialects.tensor import TensorType

_LETS_GO = ("aten.", "lamella.")
"""Namespaces of operators that keep nothing of their arguments; of those that users register nothing is known."""


@dataclass(eq=False)
class Memory:
    """The storage of a tensor that an op makes, or of an argument."""

    value: SSAValue
    first: int
    """Step of the op that makes it; -1 for an argument."""
    last: int
    """Step of the last op that uses it or an alias."""
    returned: bool = False
    kept: bool = False
    """It is a tensor's alone: somebody outside of the program may hold on to it, as an operator that is not torch's own
    has seen it, or an operator counts from where the tensor's storage begins.
    """
    uses: list[tuple[int, Operation]] = field(default_factory=list[tuple[int, Operation]])
    """The ops that read or write it, each with its step."""
    aliases: list[SSAValue] = field(default_factory=list[SSAValue])
    """Tensors that calls made of it."""

    def used_by_others(self, step: int, op: Operation) -> bool:
        """Whether another op than `op` uses it at that step."""
        return any(at == step and user is not op for at, user in self.uses)


class Lifetimes:
    """`of[value]` are the memories that a tensor may lie in: its own, and those it may alias."""

    def __init__(self, block: Block):
        self.steps: list[list[Operation]] = steps(block.ops)
        self.of: dict[SSAValue, tuple[Memory, ...]] = {}
        self.memories: list[Memory] = []
        for argument in block.args:
            self._make(argument, -1)
        for position, step in enumerate(self.steps):
            for op in step:
                for operand in op.operands:
                    self._use(operand, position, op)
                for i, result in enumerate(op.results):
                    self._define(op, i, result, position)

    def own(self, value: SSAValue) -> Memory | None:
        """The memory that the op of `value` makes; None where it only aliases, or `value` is no tensor."""
        return next((m for m in self.of.get(value, ()) if m.value is value), None)

    def _make(self, value: SSAValue, position: int) -> Memory | None:
        if not isinstance(value.type, TensorType):
            return None
        memory = Memory(value, position, position)
        self.memories.append(memory)
        self.of[value] = (memory,)
        return memory

    def _use(self, value: SSAValue, position: int, op: Operation) -> None:
        for memory in self.of.get(value, ()):
            memory.last = position
            if not memory.uses or memory.uses[-1][1] is not op:
                memory.uses.append((position, op))
            if isinstance(op, TERMINATORS):
                memory.returned = True
            elif isinstance(op, AtenOp) and (op.name in OF_STORAGE or not op.name.startswith(_LETS_GO)):
                memory.kept = True

    def _define(self, op: Operation, i: int, result: SSAValue, position: int) -> None:
        certain, possible = sources(op, i)
        if certain:
            self.of[result] = _union(self.of.get(v, ()) for v in certain)
            if isinstance(op, AtenOp) and not op.schema.mutates:
                for memory in self.of[result]:
                    memory.aliases.append(result)
            return
        own = self._make(result, position)
        if own is not None and possible:
            self.of[result] = (own, *_union(self.of.get(v, ()) for v in possible))


def steps(ops: Iterable[Operation]) -> list[list[Operation]]:
    """The ops in order, launches that are run as one in one list: which of them has run when is not known."""
    found: list[list[Operation]] = []
    for op in ops:
        number = op.together if isinstance(op, LaunchOp) else None
        before = found[-1][-1] if found else None
        if number is not None and isinstance(before, LaunchOp) and before.together == number:
            found[-1].append(op)
        else:
            found.append([op])
    return found


def _union(groups: Iterable[Sequence[Memory]]) -> tuple[Memory, ...]:
    return tuple(dict.fromkeys(m for group in groups for m in group))
