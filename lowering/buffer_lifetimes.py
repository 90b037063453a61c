"""Which memory a value of a body stands for, how long it is needed, and who else may hold it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import torch
from xdsl.ir import Block, Operation, SSAValue

from ..dialects.aten import AtenOp
from ..dialects.flow import TERMINATORS, FlowOp, IfOp, ScanOp, YieldOp
from ..dialects.loop import LaunchOp, ViewOp
from ..dialects.tensor import TensorType

OF_STORAGE = frozenset({"aten.as_strided", "aten.as_strided_", "aten.as_strided_copy", "aten.as_strided_scatter"})
"""Operators whose offset is one in the storage of their input, wherever in it that begins."""


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
            elif isinstance(op, AtenOp) and (op.name in OF_STORAGE or not op.name.startswith("aten.")):
                memory.kept = True

    def _define(self, op: Operation, i: int, result: SSAValue, position: int) -> None:
        if isinstance(op, ViewOp):
            self.of[result] = self.of[op.source]
            return
        if isinstance(op, AtenOp):
            certain, possible = aliased(op, i)
            if certain:
                self.of[result] = _union(self.of.get(v, ()) for v in certain)
                if not op.schema.mutates:
                    for memory in self.of[result]:
                        memory.aliases.append(result)
                return
            own = self._make(result, position)
            if own is not None and possible:
                self.of[result] = (own, *_union(self.of.get(v, ()) for v in possible))
            return
        own = self._make(result, position)
        if own is not None and isinstance(op, FlowOp):
            self.of[result] = (own, *_union(self.of.get(v, ()) for v in given_back(op, i)))


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


def given_back(op: FlowOp, result: int) -> list[SSAValue]:
    """The operands that a result of control flow may turn out to be: those that a region yields as it got them."""
    args = op.args()
    if isinstance(op, IfOp):
        found = {1 + j for region in op.regions for j in _yielded(region.block)[result]}
    elif isinstance(op, ScanOp) and result >= op.counts[0]:
        found: set[int] = set()  # slices are copied
    else:
        yielded, found, new = _yielded(op.regions[-1].block), set[int](), {result}
        while new:  # what comes in round after round
            found |= new
            new = {j for i in new if i < len(yielded) for j in yielded[i]} - found
    return [v for j in found if isinstance(v := args[j], SSAValue)]


def _yielded(block: Block) -> list[set[int]]:
    """For each value that a region yields, the numbers of the arguments that it may be."""
    inside = Lifetimes(block)
    numbers: dict[SSAValue, int] = {a: j for j, a in enumerate(block.args)}
    last = block.last_op
    assert isinstance(last, YieldOp)
    return [
        {numbers[m.value] for m in inside.of.get(v, ()) if m.value in numbers} if isinstance(v, SSAValue) else set()
        for v in last.args()
    ]


def aliased(op: AtenOp, result: int) -> tuple[list[SSAValue], list[SSAValue]]:
    """The operands that result `result` is declared to share memory with, and those it may turn out to."""
    schema = op.schema
    declared = 0 if len(schema.returns) == 1 else min(result, len(schema.returns) - 1)
    certain = [v for i in schema.aliases(declared) for v in _tensors(op.args()[i])] if schema.returns else []
    if certain:
        return certain, []
    # A composite operator is made of others and may hand back its input, as dropout does when it is off.
    composite = op.overload.has_kernel_for_dispatch_key(torch._C.DispatchKey.CompositeImplicitAutograd)
    return [], [v for v in op.operands if isinstance(v.type, TensorType)] if composite else []


def _tensors(value: object) -> list[SSAValue]:
    if isinstance(value, SSAValue):
        return [value] if isinstance(value.type, TensorType) else []
    return [v for item in value for v in _tensors(item)] if isinstance(value, tuple) else []
