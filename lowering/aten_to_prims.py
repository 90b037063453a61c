"""aten to prims: every ATen op that has a rule becomes prims; the others stay in place, in order.

In: functions of `aten` ops. Out: the same functions in `prims`, left-over `aten` ops and ops of other dialects. Types
of results, and so the interface of every function, do not change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Literal

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, NameLoc, StringAttr
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass

from ..dialects import prims
from ..dialects.aten import AtenOp
from ..dialects.flow import FlowOp, bodies
from ..dialects.hints import size_hints
from ..dialects.tensor import SymType, TensorType, is_float
from .complex_pairs import Pairs
from .decomposition import RULES, decompose
from .float_expressions import note_float
from .foreach import decompose_foreach
from .prims_builder import Builder, Value
from .random_seeds import join_draws
from .reference_decompositions import decompose_by_reference

TABLES = tuple(
    import_module(f"{__package__}.{file.name}")
    for file in iter_modules([str(Path(__file__).parent)])
    if file.name.startswith("decompositions_")
)
"""Importing these files fills the table of rules."""

READ = "aten._local_scalar_dense"
"""The element of a tensor as a number."""


NOT_DETERMINISTIC = frozenset({"aten.max_unpool2d", "aten.max_unpool3d", "aten.put"})
"""Operators of which ATen has no deterministic kernel on the CPU: it raises, or warns, where such are asked for."""


@dataclass(frozen=True)
class AtenToPrims(ModulePass):
    """Decompose ATen ops into prims."""

    name = "aten-to-prims"
    reference: bool = True
    """Use torch's decompositions where the table has no rule."""
    random: Literal["philox", "eager"] = "philox"
    """"eager" leaves random ops to ATen, whose numbers depend on the order of draws."""
    deterministic: bool = False
    """Leave to ATen, which sorts them, updates of a GPU's tensors where data says whose order changes the result; and
    operators for which it raises then.
    """
    numerics: Literal["fast", "eager"] = "fast"
    """"eager" leaves to ATen what would be rounded elsewhere."""
    halves: bool = False
    """The GPU adds f16 and bf16 in memory at once (from compute capability 90 on): where data says whose elements are
    summed, and eager rounds after each sum, so do kernels there.
    """
    statistics: dict[str, int] = field(default_factory=dict, init=False, compare=False)

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        self.statistics.clear()
        hints = size_hints(op)
        for body in bodies(op):
            self._lower(body, hints)

    def _lower(self, body: Region, hints: Mapping[str, int]) -> None:
        b = Builder(hints, self.halves, self.numerics == "eager")
        devices = _devices(body.block)
        pairs = Pairs(b, lambda op, values: b.ops.append(remake(op, values)), self._is_refused)
        counts = self.statistics

        def lower(op: Operation, values: dict[SSAValue, SSAValue]) -> None:
            b.location = op.location
            if isinstance(op, AtenOp):
                b.location = NameLoc(StringAttr(op.name), op.location)
                eagers = self._is_eagers(op)
                if not eagers and pairs.lower(op):
                    return
                replaced = None if eagers else self._decompose(b, op, lambda v: Value(b, values[v]))
                if replaced is not None:
                    values.update(zip(op.results, replaced, strict=True))
                    return
                kind = "aten ops left without a rule" if op.name not in RULES else "aten ops left by their rule"
                counts[kind] = counts.get(kind, 0) + 1
            b.ops.append(remake(op, values))
            if op.name == READ and isinstance(t := op.results[0].type, SymType) and t.dtype == "f64":
                note_float(b, t.expr, values[op.operands[0]], devices)

        rebuild(body, b, lower, pairs.values)
        join_draws(body.block)

    def _decompose(self, b: Builder, op: AtenOp, value_of: Callable[[SSAValue], Value]) -> list[SSAValue] | None:
        mark, constants = len(b.ops), b.constants
        replaced = decompose(b, op, value_of)
        if replaced is not None and self._is_refused(b.ops[mark:]):
            b.rewind(mark, constants)
            return None
        if replaced is None:
            replaced = decompose_foreach(b, op, value_of)
        if replaced is None and self.reference:
            replaced = decompose_by_reference(b, op, value_of)
        return replaced

    def _is_refused(self, ops: Sequence[Operation]) -> bool:
        return self.deterministic and any(map(_order_matters, ops))

    def _is_eagers(self, op: AtenOp) -> bool:
        """Whether only ATen may make the numbers, or say that it does not."""
        if self.deterministic and op.name in NOT_DETERMINISTIC:
            return op.name != "aten.put" or not op.arg("accumulate")
        return self.random == "eager" and "nondeterministic_seeded" in op.schema.tags


def _devices(block: Block) -> list[str]:
    """Of the tensors in a block, each once."""
    types = (v.type for v in (*block.args, *(r for o in block.ops for r in o.results)))
    return list(dict.fromkeys(t.device for t in types if isinstance(t, TensorType)))


def _order_matters(op: Operation) -> bool:
    """Whether updates of a GPU's tensor may meet, so that the result depends on their order."""
    if not isinstance(op, prims.ScatterOp) or not op.index_tensors:
        return False
    type = op.result.type
    sums = op.combine.data == "add" and is_float(type.dtype)
    return type.device.startswith("cuda") and (sums or op.combine.data == "none")


def rebuild(
    body: Region,
    b: Builder,
    lower: Callable[[Operation, dict[SSAValue, SSAValue]], None],
    values: dict[SSAValue, SSAValue],
) -> None:
    """Replace the one block of a body by the ops that `lower` appends to `b`, op by op.

    `lower` enters the values that replace the results of its op into `values`.
    """
    old = body.block
    new = Block(arg_types=[a.type for a in old.args])
    for before, after in zip(old.args, new.args, strict=True):
        after.name_hint, after.location = before.name_hint, before.location
        values[before] = after
    for op in old.ops:
        lower(op, values)
    new.add_ops(b.ops)
    body.detach_block(old)
    body.add_block(new)


def remake(op: Operation, values: dict[SSAValue, SSAValue]) -> Operation:
    """`op` on the mapped operands; its results enter the mapping. Regions of control flow move there."""
    if isinstance(op, FlowOp):
        copy: Operation = op.rebuilt([values[v] for v in op.operands])
    elif op.regions or op.successors:
        copy = op.clone(values)
    else:
        copy = type(op).create(
            operands=[values[v] for v in op.operands],
            result_types=[r.type for r in op.results],
            properties=op.properties,
            attributes=op.attributes,
            location=op.location,
        )
    for before, after in zip(op.results, copy.results, strict=True):
        after.name_hint = before.name_hint
        values[before] = after
    return copy
