"""Operations that are made in half the time, and values that are found faster: importing this module changes how xDSL
fills in a new operation, and what it does in Python each time a value is looked up or asked what it is.

A module goes through some 20,000 operations on its way down, and filling them in was a sixth of that. xDSL assigns
operands and successors through properties that release what was there before; here the fields of a new operation are
written as they will be, those of its results and uses, too. A test holds all of them to those that xDSL's own function
writes. To add an operation at the end of a block, xDSL asks whether the block lies within the operation: where it has
no regions, nothing does.

Values, operations, blocks and regions are what they are by identity: Python's own hash says that without a call. The
numbers of an array, as the sizes of groups of operands, are unpacked once. These were a tenth of all passes.

The operations of a block are gone through by a generator, which keeps the next one before it gives one, as xDSL's
iterator does. Fields behind properties (the type of a value, what is next to an operation) are read without a call in
Python, and operands and results that no variadic ones are before by their place. That was another tenth.

What `isinstance` says of them is what they inherit: `abc` looks in Python for classes that were registered, of which
there are none. That was a twentieth.
"""

from __future__ import annotations

from abc import ABCMeta
from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any, NoReturn

from xdsl.dialects.builtin import UNKNOWN_LOC, DenseArrayBase, LocationAttr
from xdsl.ir import Attribute, Block, Data, Operation, OpResult, ParametrizedAttribute, Region, SSAValue, Use
from xdsl.ir.core import BlockOps, IRWithUses, OpOperands, SSAValues, _IRNode  # pyright: ignore[reportPrivateUsage]
from xdsl.irdl import IRDLOperation
from xdsl.irdl.operations import BeforeVariadicSingleAccessor, VarIRConstruct

XDSLS = Operation.__init__
"""What xDSL has, to be compared with."""

_NO_USES: tuple[Use, ...] = ()


def fill_in(
    self: Operation,
    *,
    operands: Sequence[SSAValue] = (),
    result_types: Sequence[Attribute] = (),
    properties: Mapping[str, Attribute] = {},
    attributes: Mapping[str, Attribute] = {},
    location: LocationAttr | None = None,
    successors: Sequence[Block] = (),
    regions: Sequence[Region] = (),
) -> None:
    """Operation's `__init__`."""
    self._operands = SSAValues(operands)
    self._operand_uses = _uses(self, self._operands) if operands else _NO_USES
    self.results = SSAValues(_results(self, result_types)) if result_types else _NO_RESULTS
    self.properties = dict(properties)
    self.attributes = dict(attributes)
    self.location = UNKNOWN_LOC if location is None else location
    self._successors = tuple(successors)
    self._successor_uses = _uses(self, self._successors) if successors else _NO_USES
    self.regions = ()
    for region in regions:
        self.add_region(region)
    self.__post_init__()


_NO_RESULTS: SSAValues[OpResult] = SSAValues()


def _results(op: Operation, types: Sequence[Attribute]) -> list[OpResult]:
    results: list[OpResult] = []
    for type in types:
        result = _new(OpResult)
        result._type, result.op, result.index = type, op, len(results)
        results.append(result)
    return results


def _uses(op: Operation, used: Sequence[IRWithUses]) -> tuple[Use, ...]:
    """A use for each of `used`, the first in its list."""
    uses: list[Use] = []
    for index, value in enumerate(used):
        use, before = _new(Use), value.first_use
        use._operation, use._index, use._prev_use, use._next_use = op, index, None, before
        if before is not None:
            before._prev_use = use
        value.first_use = use
        uses.append(use)
    return tuple(uses)


def _item(self: Any, index: int | slice) -> Any:
    """SSAValues' `__getitem__`."""
    found: Any = _tuple_item(self, index)
    return SSAValues(found) if index.__class__ is slice else found


_tuple_item: Any = tuple.__getitem__


def _operands(self: Operation) -> OpOperands:
    """Operation's `operands`: a view, without a call to make it."""
    view = _new(OpOperands)
    view._op = self
    return view


def _operand(self: OpOperands, idx: int | slice) -> Any:
    """OpOperands' `__getitem__`."""
    found: Any = _tuple_item(self._op._operands, idx)
    return SSAValues(found) if idx.__class__ is slice else found


_new: Any = object.__new__


def _add_op(self: Block, operation: Operation) -> None:
    """Block's `add_op`."""
    last: Any = self._last_op
    if last is None or operation.parent is not None or operation.regions:
        _xdsls_add_op(self, operation)
        return
    operation.parent, operation._prev_op, operation._next_op = self, last, None
    last._next_op = self._last_op = operation


_xdsls_add_op = Block.add_op


def _following(op: Operation | None) -> Iterator[Operation]:
    while op is not None:
        after = op._next_op
        yield op
        op = after


def _each_op(self: BlockOps) -> Iterator[Operation]:
    """BlockOps' `__iter__`."""
    return _following(self.block._first_op)


def _ops(self: Block) -> BlockOps:
    """Block's `ops`: a view, without a call to make it."""
    view = _new(BlockOps)
    view.block = self
    return view


def _walk(self: Operation, *, reverse: bool = False, region_first: bool = False) -> Iterator[Operation]:
    """Operation's `walk`."""
    if reverse or region_first:
        yield from _xdsls_walk(self, reverse=reverse, region_first=region_first)
        return
    yield self
    for region in self.regions:
        yield from _within(region)


def _within(region: Region) -> Iterator[Operation]:
    block = region._first_block
    while block is not None:
        after = block._next_block
        for op in _following(block._first_op):
            yield op
            for inner in op.regions:
                yield from _within(inner)
        block = after


_xdsls_walk = Operation.walk


def _at_place(self: BeforeVariadicSingleAccessor, obj: Any, objtype: Any = None) -> Any:
    """BeforeVariadicSingleAccessor's `__get__`."""
    construct = self.construct
    if construct is VarIRConstruct.OPERAND:
        return _tuple_item(obj._operands, self.idx)
    return _tuple_item(obj.results, self.idx) if construct is VarIRConstruct.RESULT else _xdsls_at(self, obj, objtype)


_xdsls_at = BeforeVariadicSingleAccessor.__get__


def _values(self: Any) -> tuple[Any, ...]:
    """DenseArrayBase's `get_values`. It never changes; what is beside its fields is neither compared nor printed."""
    known = self.__dict__
    if "values" not in known:
        known["values"] = _unpacked(self)
    return known["values"]


_array: Any = DenseArrayBase
_unpacked: Any = _array.get_values


def _check(self: Attribute) -> None:
    """Attribute's `__post_init__`."""
    self._verify()  # pyright: ignore[reportPrivateUsage]
    if self.__class__ not in _attributes:
        if not isinstance(self, (Data, ParametrizedAttribute)):
            raise TypeError("Attributes should only be Data or ParametrizedAttribute")
        _attributes.add(self.__class__)


_attributes: set[type[Attribute]] = set()


class Inherited(ABCMeta):
    """The class of abstract classes whose instances are those of classes that inherit from them."""

    __instancecheck__, __subclasscheck__ = type.__instancecheck__, type.__subclasscheck__

    def register(cls, subclass: type) -> NoReturn:
        raise TypeError(f"{subclass.__name__} is no {cls.__name__} unless it inherits from it")


def _with_subclasses(cls: type) -> Iterator[type]:
    yield cls
    for subclass in type.__subclasses__(cls):
        yield from _with_subclasses(subclass)


_FIELDS: dict[type, tuple[str, ...]] = {
    SSAValue: ("type",),
    Operation: ("next_op", "prev_op"),
    Block: ("first_op", "last_op", "next_block", "prev_block", "args"),
}
"""Properties that only give the field of their name."""

_operation: Any = Operation
_some_values: Any = SSAValues
_block_ops: Any = BlockOps
_identical: tuple[Any, ...] = (SSAValue, _IRNode, IRDLOperation)

for _kind in (Attribute, SSAValue, _IRNode):
    for _class in _with_subclasses(_kind):
        if type(_class) is ABCMeta:
            _class.__class__ = Inherited  # classes that are made later have it from those they inherit from
Operation.__init__ = fill_in
_operation.operands = property(_operands, _operation.operands.fset)
Operation.walk = _walk
for _owner, _names in _FIELDS.items():
    for _name in _names:
        setattr(_owner, _name, property(attrgetter(f"_{_name}")))
Block.ops = property(_ops)  # pyright: ignore[reportAttributeAccessIssue]
_block_ops.__iter__ = _each_op
BeforeVariadicSingleAccessor.__get__ = _at_place
for _kind in _identical:
    _kind.__hash__, _kind.__eq__ = object.__hash__, object.__eq__
_some_values.__getitem__ = _item
OpOperands.__getitem__ = _operand
Block.add_op = _add_op
_array.get_values = _values
Attribute.__post_init__ = _check
