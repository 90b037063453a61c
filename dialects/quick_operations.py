"""Operations that are made in half the time, and values that are found faster: importing this module changes how xDSL
fills in a new operation, and what it does in Python each time a value is looked up.

A module goes through some 20,000 operations on its way down, and filling them in was a sixth of that. xDSL assigns
operands and successors through properties that release what was there before; here the fields of a new operation are
written as they will be. A test holds all of them to those that xDSL's own function writes.

Values, operations, blocks and regions are what they are by identity: Python's own hash says that without a call. The
numbers of an array, as the sizes of groups of operands, are unpacked once. These were a tenth of all passes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xdsl.dialects.builtin import UNKNOWN_LOC, DenseArrayBase, LocationAttr
from xdsl.ir import Attribute, Block, Data, Operation, OpResult, ParametrizedAttribute, Region, SSAValue, Use
from xdsl.ir.core import IRWithUses, OpOperands, SSAValues, _IRNode  # pyright: ignore[reportPrivateUsage]
from xdsl.irdl import IRDLOperation

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
    self.results = SSAValues([OpResult(type, self, index) for index, type in enumerate(result_types)])
    self.properties = dict(properties)
    self.attributes = dict(attributes)
    self.location = UNKNOWN_LOC if location is None else location
    self._successors = tuple(successors)
    self._successor_uses = _uses(self, self._successors) if successors else _NO_USES
    self.regions = ()
    for region in regions:
        self.add_region(region)
    self.__post_init__()


def _uses(op: Operation, used: Sequence[IRWithUses]) -> tuple[Use, ...]:
    """A use for each of `used`, the first in its list."""
    uses: list[Use] = []
    for index, value in enumerate(used):
        use, before = Use(op, index), value.first_use
        if before is not None:
            use._next_use, before._prev_use = before, use
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


_new: Any = object.__new__


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

_operation: Any = Operation
_some_values: Any = SSAValues
_identical: tuple[Any, ...] = (SSAValue, _IRNode, IRDLOperation)

Operation.__init__ = fill_in
_operation.operands = property(_operands, _operation.operands.fset)
for _kind in _identical:
    _kind.__hash__, _kind.__eq__ = object.__hash__, object.__eq__
_some_values.__getitem__ = _item
_array.get_values = _values
Attribute.__post_init__ = _check
