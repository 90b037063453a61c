"""aten to simpler aten: aliases and views that change nothing are their operand; pure calls that nobody uses are
dropped.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain
from typing import Final

import sympy
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.passes import ModulePass

from ..dialects import expr
from ..dialects.aten import AtenOp
from ..dialects.expr import Dim
from ..dialects.flow import bodies
from ..dialects.literal import Value
from ..dialects.symbol_kinds import FOUND, symbol_kind
from ..dialects.tensor import SymType, TensorType

ALIASES: Final = frozenset({"aten.alias", "aten.detach", "aten.lift", "aten.lift_fresh", "aten.contiguous"})
"""Their operand, where the type is the same."""

KEEPING_ORDER: Final = frozenset(
    {"aten.view", "aten.reshape", "aten._reshape_alias", "aten.expand", "aten.squeeze", "aten.squeeze.dim"}
    | {"aten.squeeze.dims", "aten.view_as", "aten.reshape_as", "aten.expand_as", "aten.slice.Tensor"}
)
"""Views that keep the order of the elements: with all of the operand's elements and its type, they are the operand."""


@dataclass(frozen=True)
class AtenCanonicalize(ModulePass):
    """Drop ATen calls that do nothing or whose results nobody uses."""

    name = "aten-canonicalize"
    statistics: dict[str, int] = field(default_factory=dict, init=False, compare=False)

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        self.statistics["calls dropped"] = sum(canonicalize(body.block) for body in bodies(op))


def canonicalize(block: Block) -> int:
    """Simplify a block in place; how many ops went."""
    values: dict[SSAValue, SSAValue] = {}
    for op in block.ops:
        operands = op.operands
        if any(v in values for v in operands):
            op.operands = [values.get(v, v) for v in operands]
        if is_no_op(op):
            values[op.results[0]] = op.operands[0]
    dropped = 0
    for op in reversed(list(block.ops)):
        if is_droppable(op):
            op.detach()
            op.erase()
            dropped += 1
    return dropped


def is_droppable(op: Operation) -> bool:
    """Whether a call has no effect, nobody uses its results, and no size is only known from them."""
    if isinstance(op, AtenOp) and op.name == "aten._assert_tensor_metadata":
        return _is_known(op)
    if not isinstance(op, AtenOp) or not op.schema.is_pure or any(r.first_use is not None for r in op.results):
        return False
    return not introduces_sizes(op)


def _is_known(op: AtenOp) -> bool:
    """Whether a type says what is asserted of its tensor: dtype, device and layout."""
    tensor, *claims = op.args()
    if not isinstance(tensor, SSAValue) or not isinstance(tensor.type, TensorType):
        return False
    facts = (None, None, tensor.type.dtype, tensor.type.device, "strided")
    return all(claim is None or claim == fact for claim, fact in zip(claims, facts, strict=True))


def introduces_sizes(op: AtenOp) -> bool:
    """Whether a symbol in the types of the results is in no operand or argument: data gives it its value."""
    made = _unbacked(r.type for r in op.results)
    return bool(made) and not made <= _unbacked(v.type for v in op.operands) | _in_literals(op.args())


def _unbacked(types: Iterable[Attribute]) -> set[sympy.Symbol]:
    """The symbols in types whose value is read from data."""
    dims = chain.from_iterable(map(_dims, types))
    return {s for d in dims for s in expr.symbols(d) if symbol_kind(s.name) in FOUND}


def _dims(t: Attribute) -> tuple[Dim, ...]:
    if isinstance(t, TensorType):
        return (*t.shape, *t.strides)
    return (t.expr,) if isinstance(t, SymType) else ()


def _in_literals(values: Iterable[Value]) -> set[sympy.Symbol]:
    found: set[sympy.Symbol] = set()
    for value in values:
        if isinstance(value, tuple):
            found |= _in_literals(value)
        elif isinstance(value, sympy.Basic):
            found |= expr.symbols(value)
    return found


def is_no_op(op: Operation) -> bool:
    """Whether the call returns its first operand as it is."""
    if not isinstance(op, AtenOp) or op.name not in ALIASES | KEEPING_ORDER:
        return False
    # A slice that keeps the size begins at 0 with step 1.
    return op.operands[0].type == op.results[0].type
