"""prims to simpler prims: folds, one op for equal ones, nothing that is not used.

In and out: functions of `prims` and left-over `aten` ops. Works in one walk over the ops and back, in linear time.
Values are immutable here, so a copy is its operand; where a value leaves, into a result of the function or an ATen
call, it gets the layout and the memory of its own that it had before.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, cast

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, BlockArgument, Operation, OpResult, SSAValue
from xdsl.passes import ModulePass

from ..dialects import prims
from ..dialects.aten import AtenOp, lookup
from ..dialects.flow import TERMINATORS, bodies
from ..dialects.prims import PrimsOp, Scalar
from ..dialects.tensor import TensorType
from . import prims_folds, prims_folds_views
from .aten_canonicalize import is_droppable
from .complex_value import PARTS, packed_type
from .numbers import number_as
from .prims_facts import IndexFacts
from .prims_memory import is_alias, roots, shared_memory, written_roots
from .stages import kept_in_memory

# Importing these files fills the table of folds.
TABLES = (prims_folds, prims_folds_views)


@dataclass(frozen=True)
class PrimsCanonicalize(ModulePass):
    """Fold, merge and drop prims. `numerics="eager"` keeps eager's rounding of f16 and bf16 between fused ops."""

    name = "prims-canonicalize"
    numerics: Literal["fast", "eager"] = "fast"
    statistics: dict[str, int] = field(default_factory=dict, init=False, compare=False)

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        self.statistics.clear()
        for body in bodies(op):
            canonicalizer = Canonicalizer(body.block, self.numerics == "eager")
            canonicalizer.run()
            for what, count in canonicalizer.counts.items():
                self.statistics[what] = self.statistics.get(what, 0) + count


class Canonicalizer:
    """One block while it is rewritten in place."""

    def __init__(self, block: Block, eager: bool) -> None:
        self.block = block
        self.eager = eager
        self.facts = IndexFacts()
        self.counts = {"ops folded": 0, "equal ops merged": 0, "dead ops dropped": 0}
        self.values: dict[SSAValue, SSAValue] = {}
        """What replaces the results of folded and merged ops."""
        self.known: dict[Any, Operation] = {}
        """Ops by what they compute."""
        self.roots: dict[SSAValue, SSAValue] = {}
        """The value that a view was a part of, before anything was replaced."""
        self.mutated: set[SSAValue] = set()
        """Roots that some op writes: these are not read later than before."""
        self.kept = set[SSAValue]() if eager else kept_in_memory(block)
        self.shared: set[SSAValue] = set()
        """Roots that have memory of their own, whose views stay views of them."""
        self.at: Operation | None = None

    def run(self) -> None:
        ops = list(self.block.ops)
        self.roots = roots(ops)
        self.shared = shared_memory(ops)
        self.mutated = written_roots(ops, self.roots)
        hidden = self._hide_mutated()
        for op in ops:
            self.at = op
            if isinstance(op, PrimsOp):
                self._simplify(op)
            else:
                self._leave(op)
        for value, stand_in in hidden.items():
            stand_in.replace_all_uses_with(value)
            self.block.erase_arg(stand_in)
        for op in reversed(list(self.block.ops)):
            if is_droppable(op) or (isinstance(op, PrimsOp) and all(r.first_use is None for r in op.results)):
                op.detach()
                op.erase()
                self.counts["dead ops dropped"] += 1

    def add(self, op: PrimsOp) -> SSAValue:
        """Insert an op before the current one, or find its equal; its first result."""
        key = _key(op)
        equal = self.known.get(key)
        if equal is not None:
            op.erase()
            return self.values.get(equal.results[0], equal.results[0])
        at = cast(Operation, self.at)
        op.location = at.location
        self.block.insert_op_before(op, at)
        self.known[key] = op
        value = self._fold(op)
        if value is None:
            return op.results[0]
        self.values[op.results[0]] = value
        return value

    # Ops of prims

    def _simplify(self, op: PrimsOp) -> None:
        self._replace_operands(op)
        if self.shared and not self.shared.isdisjoint(op.results):
            return
        value = self._fold(op)
        if value is not None and not self._leaves_memory(op, value):
            self.values[op.results[0]] = value
            _carry_name(op.results[0], value)
            self.counts["ops folded"] += 1
            return
        equal = self.known.setdefault(_key(op), op)
        if equal is not op:
            self.values.update(zip(op.results, equal.results, strict=True))
            self.counts["equal ops merged"] += 1

    def _replace_operands(self, op: Operation) -> None:
        values = self.values
        operands = op._operands  # pyright: ignore[reportPrivateUsage]
        if any(v in values for v in operands):
            op.operands = [values.get(v, v) for v in operands]

    def _fold(self, op: PrimsOp) -> SSAValue | None:
        t = op.results[0].type
        if isinstance(t, TensorType) and 0 in t.shape and len(op.results) == 1 and not isinstance(op, prims.FullOp):
            # Nothing is computed for no elements, and no element of an empty operand may be read.
            return self.add(prims.FullOp.make(Scalar.get(number_as(0, t.dtype)), t))
        for fold in prims_folds.FOLDS.get(type(op), ()):
            value = fold(op, self)
            if value is not None:
                return None if self._is_late(op, value) else value
        return None

    def _is_late(self, op: PrimsOp, value: SSAValue) -> bool:
        """Whether `value` in place of a copy of it would be read after it is written."""
        return bool(self.mutated) and not isinstance(op, prims.ALIASING) and self._root(value) in self.mutated

    # Memory

    def _hide_mutated(self) -> dict[SSAValue, BlockArgument]:
        """Arguments in place of the results that some op writes: what made these does not say what they are later."""
        made: list[SSAValue] = [v for v in self.mutated if isinstance(v, OpResult)]
        hidden = {v: self.block.insert_arg(v.type, len(self.block.args)) for v in made}
        for value, stand_in in hidden.items():
            value.replace_all_uses_with(stand_in)
        if hidden:
            self.roots = {v: hidden.get(root, root) for v, root in self.roots.items()}
            self.mutated = {hidden.get(v, v) for v in self.mutated}
        return hidden

    def _leaves_memory(self, op: PrimsOp, value: SSAValue) -> bool:
        """Whether `value` is no part any more of what `op` gives a part of, and others see; a result that it lies
        otherwise than would be a copy of it.
        """
        result = op.results[0]
        root = self.roots.get(result)
        if root not in self.shared:
            return False
        lies_otherwise = value.type != result.type and any(isinstance(u.operation, TERMINATORS) for u in result.uses)
        return lies_otherwise or self._root(value) is not root

    def _root(self, value: SSAValue) -> SSAValue:
        """The value that this one is a view of, as things are now."""
        owner = value.owner
        while isinstance(owner, Operation) and is_alias(owner):
            value = owner.operands[0]
            owner = value.owner
        return value

    def _leave(self, op: Operation) -> None:
        """Give an op outside of prims its operands in the types they had; results of the function, memory of their
        own.
        """
        if isinstance(op, AtenOp) and op.schema.mutates:
            self.known.clear()
        returned = isinstance(op, TERMINATORS)
        taken: dict[SSAValue, SSAValue] = {}
        operands: list[SSAValue] = []
        for before in op.operands:
            value = self.values.get(before, before)
            if value.type != before.type or (returned and self._shares(before, value, taken)):
                value = self._copy(before, value)
            operands.append(value)
        if any(a is not b for a, b in zip(op.operands, operands, strict=True)):
            op.operands = operands

    def _shares(self, before: SSAValue, value: SSAValue, taken: dict[SSAValue, SSAValue]) -> bool:
        """Whether a result now shares memory with an argument or another result, and did not before."""
        if not isinstance(value.type, TensorType):
            return False
        old, new = self.roots.get(before, before), self._root(value)
        if isinstance(new, BlockArgument) or new in self.shared:
            return old is not new
        return taken.setdefault(new, old) is not old

    def _copy(self, before: SSAValue, value: SSAValue) -> SSAValue:
        """In memory of its own, a result from where the program computes it; of a complex tensor, the floats that it is
        seen through are.
        """
        at, t = cast(Operation, self.at), cast(TensorType, before.type)
        if t.dtype in PARTS:
            floats, seen = value.owner, "aten.view_as_complex"
            if not isinstance(floats, AtenOp) or floats.name != seen:
                real = self._call("aten.view_as_real", value, packed_type(cast(TensorType, value.type)))
            else:
                real = floats.operands[0]
            copy = prims.ConvertOp.make(real, packed_type(t))
            copy.location = at.location
            self.block.insert_op_before(copy, at)
            return self._call(seen, copy.results[0], t)
        copy = prims.ConvertOp.make(value, t)
        made = before.owner
        copy.location = made.location if isinstance(made, Operation) else at.location
        if isinstance(at, TERMINATORS) and isinstance(made, Operation) and made.parent is self.block:
            self.block.insert_op_after(copy, made)
        else:
            self.block.insert_op_before(copy, at)
        return copy.results[0]

    def _call(self, name: str, operand: SSAValue, t: TensorType) -> SSAValue:
        at, cls = cast(Operation, self.at), lookup(name)
        assert cls is not None
        op = cls.call([operand], [t], at.location)
        self.block.insert_op_before(op, at)
        return op.results[0]


def _key(op: PrimsOp) -> Any:
    operands = op._operands  # pyright: ignore[reportPrivateUsage]
    return (type(op), operands, tuple([r.type for r in op.results]), tuple(op.properties.items()))


def _carry_name(old: SSAValue, new: SSAValue) -> None:
    if new.name_hint is None and not isinstance(new, BlockArgument):
        new.name_hint = old.name_hint
