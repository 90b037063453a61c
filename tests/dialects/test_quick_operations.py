"""New operations have the fields that xDSL's own function gives them."""

from collections.abc import Callable
from typing import Any

import pytest
from xdsl.dialects.arith import AddiOp as Addi
from xdsl.dialects.builtin import DenseArrayBase, FileLineColLoc, IntAttr, ModuleOp, StringAttr, f32, i32, i64
from xdsl.dialects.test import TestOp as SomeOp
from xdsl.ir import (
    Attribute,
    Block,
    BlockArgument,
    Operation,
    OpResult,
    ParametrizedAttribute,
    Region,
    SSAValue,
    Use,
)
from xdsl.ir.core import SSAValues
from xdsl.irdl import IRDLOperation

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


def test_what_is_the_same_is_the_same_object() -> None:
    block = Block(arg_types=[i32, i32])
    x, y = block.args
    a, b = (SomeOp.create(operands=[x], result_types=[i32]) for _ in range(2))
    objects: list[Any] = [x, y, a, b, a.results[0], b.results[0], block, Region(), Region()]
    assert {type(o).__hash__ for o in objects} == {object.__hash__}
    assert len(set(objects)) == len(objects) == sum(v == w for v in objects for w in objects)


def test_operands_are_found_by_place_and_by_slice() -> None:
    x, y, z = Block(arg_types=[i32, i64, f32]).args
    op = SomeOp.create(operands=[x, y, z])
    assert op.operands[1] is y and op.operands[-1] is z and op.operands[True] is y
    rest = op.operands[1:]
    assert isinstance(rest, SSAValues) and rest.types == (i64, f32) and list(op.operands) == [x, y, z]
    with pytest.raises(IndexError):
        op.operands[3]


def test_the_numbers_of_an_array_are_unpacked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    unpacked: list[Any] = []
    xdsls: Any = quick_operations._unpacked

    def noted(array: Any) -> Any:
        unpacked.append(array)
        return xdsls(array)

    monkeypatch.setattr(quick_operations, "_unpacked", noted)
    array, same = (DenseArrayBase.from_list(i32, [3, -1, 2]) for _ in range(2))
    assert array.get_values() == array.get_values() == (3, -1, 2)
    assert len(unpacked) == 1
    assert array == same and hash(array) == hash(same) and str(array) == str(same) and repr(array) == repr(same)


def test_an_attribute_of_no_kind_is_refused() -> None:
    class Strange(Attribute):
        name = "strange"

    for _ in range(2):
        with pytest.raises(TypeError, match="only be Data or"):
            Strange()


def test_what_something_is_is_what_it_inherits() -> None:
    block = Block(arg_types=[i32])
    op = SomeOp.create(operands=block.args, result_types=[i32])
    kinds = (
        Attribute,
        ParametrizedAttribute,
        Operation,
        IRDLOperation,
        SomeOp,
        SSAValue,
        OpResult,
        BlockArgument,
        Block,
    )
    objects: list[Any] = [i32, StringAttr("a"), op, ModuleOp([]), op.results[0], block.args[0], block, Region(), 1]
    for value in objects:
        assert [isinstance(value, k) for k in kinds] == [k in type(value).__mro__ for k in kinds]
    assert {type(k) for k in kinds} == {quick_operations.Inherited}
    assert issubclass(ModuleOp, Operation) and not issubclass(ModuleOp, Attribute)
    with pytest.raises(TypeError, match="inherits"):
        SomeOp.register(int)
    with pytest.raises(TypeError, match="abstract"):
        SSAValue(i32)  # pyright: ignore[reportAbstractUsage]


def test_operations_are_added_at_the_end_of_a_block() -> None:
    block, outer = Block(), SomeOp.create(regions=[Region(inside := Block())])
    ops = [SomeOp.create() for _ in range(3)]
    for op in ops:
        block.add_op(op)
    assert list(block.ops) == ops and block.first_op is ops[0] and block.last_op is ops[2]
    assert [(op.prev_op, op.next_op, op.parent) for op in ops] == [
        (None, ops[1], block),
        (ops[0], ops[2], block),
        (ops[1], None, block),
    ]
    ops[1].detach()
    block.add_op(ops[1])
    assert list(block.ops) == [ops[0], ops[2], ops[1]] and ops[1].next_op is None
    with pytest.raises(ValueError, match="already attached"):
        block.add_op(ops[0])
    inside.add_op(SomeOp.create())
    with pytest.raises(ValueError, match="contained in the operation"):
        inside.add_op(outer)


def _nested() -> ModuleOp:
    inner = Region([Block([SomeOp.create(), SomeOp.create()]), Block(), Block([SomeOp.create()])])
    return ModuleOp([SomeOp.create(), SomeOp.create(regions=[Region(), inner]), SomeOp.create()])


@pytest.mark.parametrize("options", [{}, {"reverse": True}, {"region_first": True}])
def test_operations_are_walked_in_the_order_of_xdsls(options: dict[str, bool], monkeypatch: pytest.MonkeyPatch) -> None:
    module = _nested()
    found = list(module.walk(**options))
    monkeypatch.setattr(Operation, "walk", quick_operations._xdsls_walk)
    assert found == list(module.walk(**options)) and len(found) == 7


def test_an_operation_may_go_while_those_of_its_block_are_gone_through() -> None:
    module = _nested()
    for ops, left in ((module.body.block.ops, 5), (module.walk(), 2)):
        for op in ops:
            if op is not module and not op.regions:
                op.detach()
                op.erase()
        assert len(list(module.walk())) == left


def test_what_is_found_by_name_is_at_its_place() -> None:
    x, y = Block(arg_types=[i32, i32]).args
    op = Addi(x, y)
    assert op.lhs is x and op.rhs is y and op.result is op.results[0] and op.result.type == i32
    block = Block([op, Addi(y, x)])
    assert block.first_op is op and op.next_op is block.last_op and op.prev_op is None and not block.args
