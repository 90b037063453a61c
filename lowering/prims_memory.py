"""Memory at the prims level, where values are immutable but for what calls write to: views, and what is written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from xdsl.ir import BlockArgument, Operation, SSAValue

from ..dialects import prims
from ..dialects.aliasing import OF_STORAGE, written
from ..dialects.aten import AtenOp
from ..dialects.flow import TERMINATORS


def is_alias(op: Operation) -> bool:
    """Whether the results lie in the memory of the first operand."""
    if isinstance(op, AtenOp):
        return op.schema.is_view and bool(op.operands)
    return isinstance(op, prims.ALIASING) and not (isinstance(op, prims.BroadcastOp) and _repeats(op))


def _repeats(op: prims.BroadcastOp) -> bool:
    """Whether each repetition has a place of its own in the result, which no strides over the operand say."""
    operand, result = op.types()
    plain = {d for d, n in zip(op.ints("dims"), operand.shape, strict=True) if n == result.shape[d]}
    places = enumerate(zip(result.shape, result.strides, strict=True))
    return any(d not in plain and size not in (0, 1) and stride != 0 for d, (size, stride) in places)


def leaves(op: Operation) -> bool:
    """Whether what it takes, or a view of that, is a result."""
    if isinstance(op, TERMINATORS):
        return True
    return is_alias(op) and any(leaves(use.operation) for r in op.results for use in r.uses)


def shares_result(op: Operation) -> bool:
    """Whether a view leaves that lies in the caller's memory, or together with what it is a view of, or with another
    view of that.
    """
    if not leaves(op):
        return False
    root = op.operands[0]
    while isinstance(root.owner, Operation) and is_alias(root.owner):
        root = root.owner.operands[0]
    if isinstance(root, BlockArgument):
        return True
    return sum(leaves(use.operation) for v in _views(root) for use in v.uses if not is_alias(use.operation)) > 1


SCATTERS = frozenset({"aten.slice_scatter", "aten.select_scatter", "aten.diagonal_scatter"})
"""What makes a copy of all the memory that its first operand is a part of."""


def keeps_memory_around(op: Operation) -> bool:
    """Whether a copy of the caller's tensor is seen by `as_strided`, which counts from the beginning of the memory that
    the tensor is a part of: only ATen's has what lies around it.
    """
    root = op.operands[0]
    while isinstance(root.owner, Operation) and (is_alias(root.owner) or root.owner.name in SCATTERS):
        root = root.owner.operands[0]
    if not isinstance(root, BlockArgument):  # memory that is planned begins elsewhere
        return False
    seen, todo = set[SSAValue](), [*op.results]
    while todo:
        value = todo.pop()
        seen.add(value)
        for user in (use.operation for use in value.uses):
            if user.name.startswith("aten.as_strided"):
                return True
            if is_alias(user) or user.name in SCATTERS:
                todo += [r for r in user.results if r not in seen]
    return False


def _views(value: SSAValue) -> Iterator[SSAValue]:
    yield value
    for use in value.uses:
        if is_alias(use.operation):
            for r in use.operation.results:
                yield from _views(r)


def roots(ops: Iterable[Operation]) -> dict[SSAValue, SSAValue]:
    """For each view the value that it is a part of."""
    found: dict[SSAValue, SSAValue] = {}
    for op in ops:
        if is_alias(op):
            root = found.get(op.operands[0], op.operands[0])
            found.update((r, root) for r in op.results)
    return found


def written_roots(ops: Iterable[Operation], roots: Mapping[SSAValue, SSAValue]) -> set[SSAValue]:
    """The values whose memory some op writes to, directly or through a view."""
    return {roots.get(v, v) for op in ops for v in written(op)}


def shared_memory(ops: Sequence[Operation]) -> set[SSAValue]:
    """The values that must lie in memory of their own: who reads them later sees what was written there, results that
    are parts of one share it, and operators count from its beginning.
    """
    known = roots(ops)
    parts = Counter(known.get(v, v) for op in ops if isinstance(op, TERMINATORS) for v in op.operands)
    counted = {known.get(v, v) for op in ops if op.name in OF_STORAGE for v in op.operands[:1]}
    return written_roots(ops, known) | counted | {root for root, count in parts.items() if count > 1}
