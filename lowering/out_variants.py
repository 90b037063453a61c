"""Calls whose result lies in memory given to them: operators that write there, and those that only make memory."""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from ..dialects.aliasing import written
from ..dialects.aten import AtenOp, lookup
from ..dialects.tensor import TensorType
from .storage import overlaps

OUT_VARIANTS: dict[str, str] = {
    "aten.mm": "aten.mm.out",
    "aten.addmm": "aten.addmm.out",
    "aten.bmm": "aten.bmm.out",
    "aten.baddbmm": "aten.baddbmm.out",
    "aten.randint.low": "aten.randint.low_out",
}
"""Operators that write into memory they are given. Their result is contiguous, as eager's is."""

EMPTY = (
    *("aten.empty.memory_format", "aten.empty_like", "aten.new_empty"),
    *("aten.empty_strided", "aten.new_empty_strided", "aten.empty_permuted"),
)
"""Operators that give memory as it is."""


def is_empty(op: Operation) -> bool:
    """Whether a call is no more than memory for its result."""
    return op.name in EMPTY and isinstance(op.results[0].type, TensorType) and not overlaps(op.results[0].type)


def is_written_first(value: SSAValue) -> bool:
    """Whether a call writes to a value before anything else is done with it."""
    users = {use.operation for use in value.uses}
    if not users or len({user.parent for user in users}) > 1:
        return False
    (block,) = {user.parent for user in users}
    first = next(op for op in block.ops if op in users) if block is not None else None
    return first is not None and value in written(first)


def out_variant(op: Operation) -> type[AtenOp] | None:
    """The overload of this call that writes into memory it is given; None where there is none, or the layout
    differs.
    """
    name = OUT_VARIANTS.get(op.name)
    if name is None:
        return None
    type = op.results[0].type
    fits = isinstance(type, TensorType) and type.is_contiguous and type.device.startswith(("cpu", "cuda"))
    return lookup(name) if fits else None
