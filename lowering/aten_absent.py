"""aten to aten: a backward that is given no gradient of some results, because nobody has used them.

Eager computes nothing from such a gradient. A compiled backward has an argument for each, for which autograd would fill
memory with zeros: logits beside a loss, caches of keys and values. An argument marked `lamella.absent` is zeros: what
these are added to is as it was, what is computed from them alone is zeros, and the argument goes.

As in eager, and other than where zeros are multiplied, what is infinite makes no NaN of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, cast

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, FunctionType, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, BlockArgument, Operation, OpResult, SSAValue, Use
from xdsl.passes import ModulePass

from ..dialects.aten import AtenOp, lookup
from ..dialects.literal import Value
from ..dialects.tensor import TensorType
from .aten_canonicalize import ALIASES, canonicalize
from .aten_frozen import argument_attributes
from .decisions import decide
from .fuse_cost import Hints, shown

ABSENT: Final = "lamella.absent"
"""The attribute of an argument that stands for zeros that are nowhere: of fixed sizes, and strides without gaps."""

LINEAR: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys(("aten.neg", "aten.clone", "aten._to_copy", "aten._unsafe_view", "aten.reshape"), ("self",)),
    **dict.fromkeys(("aten.sum", "aten.sum.dim_IntList", "aten.mean", "aten.mean.dim"), ("self",)),
    **dict.fromkeys(("aten.mul.Tensor", "aten.matmul"), ("self", "other")),
    **dict.fromkeys(("aten.mul.Scalar", "aten.div.Scalar", "aten.div.Tensor", "aten.tril", "aten.triu"), ("self",)),
    **dict.fromkeys(("aten.mm", "aten.bmm"), ("self", "mat2")),
}
"""Operators that make zeros of zeros in one of these arguments. Views do, too, and what has gradients (`grad…`), if all
of them are zeros."""


@dataclass(frozen=True)
class AtenAbsent(ModulePass):
    """Compute without the gradients that a function is not given."""

    name = "aten-absent"
    statistics: dict[str, int] = field(default_factory=dict[str, int], init=False, compare=False)

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in (f for f in op.ops if isinstance(f, FuncOp)):
            if absent := absent_arguments(function):
                size = shown(sum(map(Hints({}).bytes, absent)))
                decide(op, [f"gradients that are not given: {len(absent)}, zeros of {size} that are not made"])
                before = len(function.body.block.ops)
                _without(function, absent)
                self.statistics["arguments dropped"] = self.statistics.get("arguments dropped", 0) + len(absent)
                dropped = before - len(function.body.block.ops)
                self.statistics["calls dropped"] = self.statistics.get("calls dropped", 0) + dropped


def absent_arguments(function: FuncOp) -> list[BlockArgument]:
    """The arguments that are marked."""
    marked = zip(function.body.block.args, argument_attributes(function), strict=True)
    return [a for a, attributes in marked if ABSENT in attributes]


def can_be_absent(value: SSAValue) -> bool:
    """Whether zeros can be made of its type alone."""
    return isinstance(value.type, TensorType) and _order(value.type) is not None


def _without(function: FuncOp, absent: Sequence[BlockArgument]) -> None:
    block = function.body.block
    zeros: set[SSAValue] = {*absent}
    for op in list(block.ops):
        if not isinstance(op, AtenOp) or not any(v in zeros for v in op.operands):
            continue
        if op.name == "aten.add.Tensor" and op.arg("alpha") == 1:
            _add(op, zeros)
        elif _is_zero(op, zeros):
            zeros.update(op.results)
    for value in zeros:
        if can_be_absent(value) and (read := [u for u in value.uses if not _is_made_anew(u.operation, zeros)]):
            _make(value, read, block)
    canonicalize(block)
    attributes = argument_attributes(function)
    for a in reversed(absent):
        attributes.pop(a.index)
        block.erase_arg(a)
    function.arg_attrs = ArrayAttr([DictionaryAttr(t) for t in attributes])
    outputs = list(function.function_type.outputs.data)
    function.function_type = FunctionType.from_lists([a.type for a in block.args], outputs)


def _is_zero(op: AtenOp, zeros: set[SSAValue]) -> bool:
    """Whether all results are zeros."""
    if not op.schema.is_pure:
        return False
    names = [a.name for a in op.schema.args]
    if op.schema.is_view or op.name in ALIASES:
        return op.operands[0] in zeros
    if op.name in LINEAR:
        return any(isinstance(v := op.arg(name), SSAValue) and v in zeros for name in LINEAR[op.name])
    gradients = [op.arg(name) for name in names if name.startswith("grad")]
    given = [v for v in gradients if isinstance(v, SSAValue)]
    return "backward" in op.name and bool(given) and all(v in zeros for v in given)


def _add(op: AtenOp, zeros: set[SSAValue]) -> None:
    """A sum is what is added to zeros."""
    result = op.results[0]
    others = [v for v in (op.arg("self"), op.arg("other")) if not (isinstance(v, SSAValue) and v in zeros)]
    if not others:
        zeros.add(result)
        return
    (other,) = others
    if not isinstance(other, SSAValue) or not isinstance(other.type, TensorType):
        return
    t, given = cast(TensorType, result.type), other.type
    if (t.dtype, t.shape) != (given.dtype, given.shape):
        return
    if given == t and not _leaves(result):
        value = other
    elif t == t.with_(strides=None):  # what leaves has memory of its own
        value = _before(op, "aten.clone", [other, "contiguous_format"], t)
    else:
        return
    value.name_hint = value.name_hint or result.name_hint
    result.replace_all_uses_with(value)
    op.detach()
    op.erase()


def _leaves(value: SSAValue) -> bool:
    """Whether the caller gets a value, or a view of it."""
    for use in value.uses:
        user = use.operation
        if not isinstance(user, AtenOp):
            return True
        if (user.schema.is_view or user.name in ALIASES) and any(map(_leaves, user.results)):
            return True
    return False


def _is_made_anew(user: Operation, zeros: set[SSAValue]) -> bool:
    """Whether the results are zeros that need no operand: not those of views with gaps."""
    return bool(user.results) and all(r in zeros and can_be_absent(r) for r in user.results)


def _make(value: SSAValue, uses: Iterable[Use], block: Block) -> None:
    """Zeros in memory in place of a value."""
    t = cast(TensorType, value.type)
    order = cast("list[int]", _order(t))
    shape = tuple(t.shape[d] for d in order)
    at = value.owner if isinstance(value, OpResult) else block.first_op
    assert at is not None
    made = _before(
        at, "aten.full", [shape, _zero(t), t.dtype, None, t.device, None], t.with_(shape=shape, strides=None)
    )
    if order != sorted(order):
        made = _before(at, "aten.permute", [made, tuple(order.index(d) for d in range(len(order)))], t)
    made.name_hint = value.name_hint
    for use in uses:
        use.operation.operands[use.index] = made


def _zero(t: TensorType) -> bool | int | float:
    return 0.0 if t.dtype.startswith(("f", "bf", "c")) else False if t.dtype == "i1" else 0


def _order(t: TensorType) -> list[int] | None:
    """The dims from the outermost in memory to the innermost; None where sizes are not fixed or there are gaps."""
    if not all(type(d) is int for d in (*t.shape, *t.strides)):
        return None
    sizes, strides = cast("tuple[int, ...]", t.shape), cast("tuple[int, ...]", t.strides)
    order = sorted(range(len(sizes)), key=lambda d: (-strides[d], d))
    dense = t.with_(shape=tuple(sizes[d] for d in order), strides=None).strides
    same = all(strides[d] == s for d, s in zip(order, dense, strict=True))
    return order if same else None


def _before(op: Operation, name: str, args: list[Value], type: TensorType) -> SSAValue:
    cls, block = lookup(name), op.parent
    assert cls is not None and block is not None
    made = cls.call(args, [type], op.location)
    block.insert_op_before(made, op)
    return made.results[0]
