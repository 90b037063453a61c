"""New operations have the fields that xDSL's own function gives them."""

from collections.abc import Callable
from typing import Any

import pytest
from xdsl.dialects.builtin import FileLineColLoc, IntAttr, StringAttr, i32, i64
from xdsl.dialects.test import TestOp as SomeOp
from xdsl.ir import Block, Operation, Region, Use

from lamella.dialects import quick_operations

Fill = Callable[..., None]


def _uses(uses: Any, names: dict[int, str]) -> list[Any]:
    def told(use: Use) -> tuple[str, int]:
        return names[id(use.operation)], use.index

    return [(told(u), *(None if v is None else told(v) for v in (u._prev_use, u._next_use))) for u in uses]


def _made(fill_in: Fill) -> list[Any]:
    """All fields of operations filled in one after the other, and the uses of what they use, by names of the objects."""
    block, other = Block(arg_types=[i32, i64]), Block()
    x, y = block.args
    location = FileLineColLoc(StringAttr("file.py"), IntAttr(3), IntAttr(1))
    cases: list[dict[str, Any]] = [
        {},
        {"operands": [x, y, x], "result_types": [i64, i32], "location": location},
        {"operands": (y,), "properties": {"a": StringAttr("a")}, "attributes": {"b": StringAttr("b")}},
        {"operands": [x], "successors": [other, block, other]},
        {"regions": [Region(Block()), Region()], "result_types": (i64,)},
    ]
    names = {id(x): "x", id(y): "y", id(block): "block", id(other): "other"}
    made: list[Operation] = []
    for number, case in enumerate(cases):
        op = SomeOp.__new__(SomeOp)
        fill_in(op, **case)
        names |= {id(op): f"op{number}"} | {id(r): f"region{i} of op{number}" for i, r in enumerate(op.regions)}
        names |= {id(r): f"result{i} of op{number}" for i, r in enumerate(op.results)}
        made.append(op)
    found: list[Any] = []
    for op in made:
        fields = dict(vars(op))
        for name in ("_operand_uses", "_successor_uses"):
            fields[name] = type(fields[name]), _uses(fields[name], names)
        for name in ("_operands", "_successors", "results", "regions"):
            fields[name] = type(fields[name]), [names[id(v)] for v in fields[name]]
        results = [[names.get(id(v), v) for v in vars(r).values()] for r in op.results]
        found += [fields, results, [names[id(r.parent)] for r in op.regions]]
    return [*found, *(_uses(v.uses, names) for v in (x, y, block, other))]


def test_all_fields_are_as_xdsl_writes_them() -> None:
    assert Operation.__init__ is quick_operations.fill_in
    assert _made(quick_operations.fill_in) == _made(quick_operations.XDSLS)


def test_operands_can_be_replaced_and_released() -> None:
    block = Block(arg_types=[i32, i32])
    x, y = block.args
    op = SomeOp.create(operands=[x, x], result_types=[i32])
    op.operands[0] = y
    assert [(u.operation, u.index) for u in x.uses] == [(op, 1)]
    op.operands = [y]
    assert x.first_use is None
    op.erase()
    assert y.first_use is None


def test_what_belongs_to_another_operation_is_refused() -> None:
    region = Region()
    SomeOp.create(regions=[region])
    with pytest.raises(ValueError, match="already attached"):
        SomeOp.create(regions=[region])
