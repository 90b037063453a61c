"""Operators on lists of tensors, `aten._foreach_*`: the operator on single tensors, element by element.

    %a, %b = aten._foreach_mul.Scalar([%x, %y], 0.5)

has the rule of `aten.mul.Scalar(%x, 0.5)` and `aten.mul.Scalar(%y, 0.5)`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Final

from xdsl.ir import SSAValue

from ..dialects.aten import AtenOp, lookup
from ..dialects.literal import HOLE
from ..dialects.schema import Schema
from .decomposition import RULES, decompose
from .prims_builder import Builder, Value

PREFIX: Final = "aten._foreach_"

OVERLOADS: Final = ("", ".Scalar", ".Tensor", ".Tensor_Scalar", ".Tensor_Tensor")
"""Overloads of single operators that a list can be given to element by element."""

WITH_NUMBER: Final = {"maximum": "clamp_min", "minimum": "clamp_max"}
"""What eager calls where a number stands for the second tensor."""


def decompose_foreach(b: Builder, op: AtenOp, value_of: Callable[[SSAValue], Value]) -> list[SSAValue] | None:
    """As `decompose`, for an operator on lists: the rule of the single operator for each element. None where that has
    no rule, or the rule does not cover an element: then the lists stay together in one call.
    """
    single = _single(type(op)) if op.name.startswith(PREFIX) and not op.schema.mutates else None
    if single is None:
        return None
    mark, constants = len(b.ops), b.constants
    arguments = list(zip(op.schema.args, op.args(), strict=True))
    finished: list[SSAValue] = []
    for i, result in enumerate(op.results):
        element = single.call([arg[i] if a.is_list else arg for a, arg in arguments], [result.type], op.location)
        replaced = decompose(b, element, value_of)
        element.erase()
        if replaced is None:
            b.rewind(mark, constants)
            return None
        finished += replaced
    return finished


@cache
def _single(cls: type[AtenOp]) -> type[AtenOp] | None:
    """The operator on single tensors that takes an element of each list, if it has a rule."""
    packet = cls.name.removeprefix(PREFIX).partition(".")[0]
    for name in (packet, WITH_NUMBER.get(packet)):
        for overload in OVERLOADS:
            found = lookup(f"aten.{name}{overload}") if f"aten.{name}{overload}" in RULES else None
            if found is not None and _takes(found.schema, cls.schema):
                return found
    return None


def _takes(single: Schema, many: Schema) -> bool:
    """Whether `single` takes what the lists of `many` hold, in the same order, and has defaults for the rest."""
    given = len(many.args)
    return [a.element for a in single.args[:given]] == [a.element for a in many.args] and all(
        not a.is_list and (i < given or a.default is not HOLE) for i, a in enumerate(single.args)
    )
