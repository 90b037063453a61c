"""What a function computes from frozen arguments alone: parameters and buffers whose values the user promised to keep.

An argument is frozen by its attribute `lamella.frozen`; `lamella.constant` are tensors that the graph itself holds.
One that the function writes is not.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

import sympy
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, UnitAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from ..dialects.aten import AtenOp
from ..dialects.literal import Value
from ..dialects.tensor import TensorType

FROZEN: Final = "lamella.frozen"


def argument_attributes(function: FuncOp) -> list[dict[str, Any]]:
    """The attributes of each argument."""
    given = function.arg_attrs.data if function.arg_attrs is not None else ()
    found = [dict(a.data) for a in given]
    return found or [{} for _ in function.body.block.args]


def main_of(module: ModuleOp) -> FuncOp:
    """The function of a graph, which stands first."""
    return next(f for f in module.ops if isinstance(f, FuncOp))


def mark_arguments(module: ModuleOp, positions: Collection[int], attribute: str) -> None:
    """Give these arguments of `@main` an attribute."""
    function = main_of(module)
    attributes = argument_attributes(function)
    for i in positions:
        attributes[i][attribute] = UnitAttr()
    function.arg_attrs = ArrayAttr([DictionaryAttr(a) for a in attributes])


def frozen_values(function: FuncOp) -> dict[SSAValue, frozenset[SSAValue]]:
    """Values that no other argument has a part in, with the frozen arguments that each is made of."""
    found: dict[SSAValue, frozenset[SSAValue]] = {}
    for a, attributes in zip(function.body.block.args, argument_attributes(function), strict=True):
        frozen = FROZEN in attributes or "lamella.constant" in attributes
        if frozen and "lamella.mutated" not in attributes and isinstance(a.type, TensorType) and _is_fixed_type(a.type):
            found[a] = frozenset({a})
    for op in function.body.block.ops:
        if is_fixed(op) and all(v in found for v in op.operands):
            made_of = frozenset[SSAValue]().union(*(found[v] for v in op.operands))
            found.update(dict.fromkeys(op.results, made_of))
    return found


def is_fixed(op: Operation) -> bool:
    """Whether equal operands give equal results, of sizes that are known."""
    if not isinstance(op, AtenOp) or not op.schema.is_pure:
        return False
    known = all(isinstance(r.type, TensorType) and _is_fixed_type(r.type) for r in op.results)
    return known and not any(map(_is_symbolic, op.args()))


def _is_fixed_type(t: TensorType) -> bool:
    return all(type(d) is int for d in (*t.shape, *t.strides))


def _is_symbolic(value: Value) -> bool:
    if isinstance(value, tuple):
        return any(map(_is_symbolic, value))
    return isinstance(value, sympy.Basic)
