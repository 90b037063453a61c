"""Operations that are made in half the time: importing this module changes how xDSL fills in a new one.

A module goes through some 20,000 operations on its way down, and filling them in was a sixth of that. xDSL assigns
operands and successors through properties that release what was there before; here the fields of a new operation are
written as they will be. A test holds all of them to those that xDSL's own function writes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import UNKNOWN_LOC, LocationAttr
from xdsl.ir import Attribute, Block, Operation, OpResult, Region, SSAValue, Use
from xdsl.ir.core import IRWithUses, SSAValues

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


Operation.__init__ = fill_in
