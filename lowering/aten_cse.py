"""aten to aten: equal calls are made once.

Kernels compute what is equal once in any case (`prims-canonicalize`); this is for what stays a call, a matrix product
above all. Results that leave keep memory of their own, so only those that calls alone read are shared.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation
from xdsl.passes import ModulePass

from ..dialects.aten import AtenOp
from ..dialects.flow import FlowOp, bodies
from .aten_canonicalize import introduces_sizes

_VIEWS: Final = frozenset(
    f"aten.{name}"
    for name in (
        *("_unsafe_view", "_reshape_alias", "reshape", "reshape_as", "contiguous", "flatten.using_ints", "ravel"),
        *("unsafe_split.Tensor", "unsafe_split_with_sizes", "unsafe_chunk", "unflatten.int", "view_as", "expand_as"),
    )
)
"""Operators that may give a view of their operand, without a schema that says so."""


@dataclass(frozen=True)
class AtenCse(ModulePass):
    """Make equal calls once."""

    name = "aten-cse"
    statistics: dict[str, int] = field(default_factory=dict[str, int], init=False, compare=False)

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        self.statistics["calls merged"] = sum(_merge(body.block) for body in bodies(op))


def _merge(block: Block) -> int:
    """Merge the equal calls of a block; how many went."""
    if any(isinstance(op, AtenOp) and op.schema.mutates and op.name != "aten.copy_" for op in block.ops):
        return 0  # what is written somewhere may be a value, or a view of one
    known: dict[Any, AtenOp] = {}
    merged = 0
    for op in list(block.ops):
        if not isinstance(op, AtenOp):
            continue
        if op.schema.mutates:
            known.clear()  # an argument is another one from here on
        if not is_function(op):
            continue
        key = (type(op), tuple(op.operands), tuple(op.properties.items()), tuple(op.result_types))
        first = known.setdefault(key, op)
        if first is op or introduces_sizes(op) or not _is_only_read(op):
            continue
        for old, new in zip(op.results, first.results, strict=True):
            old.replace_all_uses_with(new)
        op.detach()
        op.erase()
        merged += 1
    return merged


def _is_only_read(op: AtenOp) -> bool:
    """Whether nobody but calls that make something new use the results, and views of them."""
    return all(_reads(use.operation) for r in op.results for use in r.uses)


def _reads(user: Operation) -> bool:
    if isinstance(user, FlowOp):
        return False  # it may yield the value
    if not isinstance(user, AtenOp) or not is_function(user):
        return False
    seen = user.schema.is_view or user.name in _VIEWS
    return not seen or _is_only_read(user)


def is_function(op: AtenOp) -> bool:
    """Whether a call gives the same for the same arguments and writes nothing, as attention without dropout does."""
    schema = op.schema
    return schema.is_pure or (not schema.mutates and "dropout_p" in schema.index and op.arg("dropout_p") == 0)
