"""What shares memory: which values the result of an op may be, or may be a part of."""

from __future__ import annotations

import torch
from xdsl.ir import Operation, OpResult, SSAValue

from .aten import AtenOp
from .flow import CallOp, FlowOp, IfOp, ScanOp, WhileStackOp, YieldOp
from .host import ViewOp as HostViewOp
from .loop import ViewOp
from .tensor import TensorType

OF_STORAGE = frozenset({"aten.as_strided", "aten.as_strided_", "aten.as_strided_copy", "aten.as_strided_scatter"})
"""Operators whose offset is one in the storage of their input, wherever in it that begins. Of what an op makes that is
no view, the storage is all of it and nothing else.
"""


def makes_storage(value: SSAValue) -> bool:
    """Whether a value surely lies in storage of its own, from its beginning to its end."""
    op = value.owner
    if not isinstance(op, AtenOp) or not isinstance(value, OpResult) or op.schema.mutates:
        return False
    return not any(aliased(op, value.index))


def sources(op: Operation, result: int) -> tuple[list[SSAValue], list[SSAValue]]:
    """The operands in whose memory a result surely lies; where it may have its own, those in whose it may lie."""
    match op:
        case ViewOp() | HostViewOp():
            return [op.source], []
        case AtenOp():
            return aliased(op, result)
        case FlowOp():
            return [], given_back(op, result)
        case _:
            return [], []


def aliased(op: AtenOp, result: int) -> tuple[list[SSAValue], list[SSAValue]]:
    """The operands that result `result` is declared to share memory with, and those it may turn out to."""
    schema = op.schema
    declared = 0 if len(schema.returns) == 1 else min(result, len(schema.returns) - 1)
    certain = [v for i in schema.aliases(declared) for v in tensors(op.args()[i])] if schema.returns else []
    if certain:
        return certain, []
    # A composite operator is made of others and may hand back its input, as dropout does when it is off.
    composite = op.overload.has_kernel_for_dispatch_key(torch._C.DispatchKey.CompositeImplicitAutograd)
    return [], [v for v in op.operands if isinstance(v.type, TensorType)] if composite else []


def written(op: Operation) -> list[SSAValue]:
    """The operands that an op writes to; control flow changes none."""
    if not isinstance(op, AtenOp) or not op.schema.mutates:
        return []
    return [v for a, value in zip(op.schema.args, op.args(), strict=True) if a.mutated for v in tensors(value)]


def given_back(op: FlowOp, result: int) -> list[SSAValue]:
    """The operands that a result of control flow may turn out to be: those that a region yields as it got them."""
    args = op.args()
    if isinstance(op, (CallOp, WhileStackOp)):
        return []  # a function that is called makes what it returns, what is stacked is copied
    if isinstance(op, IfOp):
        found = {1 + j for region in op.regions for j in _yielded(region.block.last_op)[result]}
    elif isinstance(op, ScanOp) and result >= op.counts[0]:
        found: set[int] = set()  # slices are copied
    else:
        yielded, found, new = _yielded(op.regions[-1].block.last_op), set[int](), {result}
        while new:  # what comes in round after round
            found |= new
            new = {j for i in new if i < len(yielded) for j in yielded[i]} - found
    return [v for j in found if isinstance(v := args[j], SSAValue)]


def _yielded(last: Operation | None) -> list[set[int]]:
    """For each value that a region yields, the numbers of the arguments that it may be."""
    assert isinstance(last, YieldOp)
    return [_arguments(v) if isinstance(v, SSAValue) else set() for v in last.args()]


def _arguments(value: SSAValue) -> set[int]:
    """The numbers of the block's arguments whose memory a value may lie in."""
    found, seen, left = set[int](), {value}, [value]
    while left:
        at = left.pop()
        if not isinstance(at.owner, Operation):
            found |= {at.index} if isinstance(at.type, TensorType) else set()  # pyright: ignore[reportAttributeAccessIssue]
            continue
        certain, possible = sources(at.owner, at.index)  # pyright: ignore[reportAttributeAccessIssue]
        new = [v for v in (*certain, *possible) if v not in seen]
        seen.update(new)
        left += new
    return found


def tensors(value: object) -> list[SSAValue]:
    """The tensors in an argument of a call."""
    if isinstance(value, SSAValue):
        return [value] if isinstance(value.type, TensorType) else []
    return [v for item in value for v in tensors(item)] if isinstance(value, tuple) else []
