"""What xDSL does more often than is needed: reading the `assembly_format`s of op classes, and looking for the defaults
of an op.

xDSL reads a format when a class is made: a quarter of the time that importing its dialects takes, for texts that hardly
any process sees. Importing this module changes that for all classes made later: one is read when the first op of its
class is parsed or printed, so a malformed one is found by whoever does that. Defaults are looked up once for a class,
not for each op: a tenth of what making one takes.
"""

from __future__ import annotations

from . import lazy_methods as lazy_methods  # before any class of xDSL's

# isort: split
from functools import cache
from typing import Any

from xdsl.ir import Attribute, Operation
from xdsl.irdl import operations

_eager = operations.get_accessors_from_op_def


def _accessors(op_def: operations.OpDef, custom_verify: Any) -> dict[str, Any]:
    """What the class of `op_def` gets, as xDSL makes it, but for `parse` and `print`."""
    source = op_def.assembly_format
    if source is None:
        return _eager(op_def, custom_verify)
    op_def.assembly_format = None
    try:
        members = _eager(op_def, custom_verify)
    finally:
        op_def.assembly_format = source

    @cache
    def program() -> Any:
        from xdsl.irdl.declarative_assembly_format import FormatProgram

        return FormatProgram.from_str(source, op_def)

    members["parse"] = classmethod(lambda cls, parser: program().parse(parser, cls))
    members["print"] = lambda self, printer: program().print(printer, self)  # pyright: ignore[reportUnknownLambdaType]
    return members


operations.get_accessors_from_op_def = _accessors


@cache
def _defaults(cls: type[operations.IRDLOperation]) -> tuple[tuple[tuple[str, Attribute], ...], ...]:
    """The default properties and attributes of a class."""
    op_def = cls.get_irdl_definition()
    return tuple(
        tuple(
            (name, d.default_value)
            for name, d in definitions.items()
            if not isinstance(d, operations.OptionalDef) and d.default_value is not None
        )
        for definitions in (op_def.properties, op_def.attributes)
    )


def _fill_in(self: operations.IRDLOperation) -> None:
    properties, attributes = _defaults(type(self))
    for name, value in properties:
        self.properties.setdefault(name, value)
    for name, value in attributes:
        self.attributes.setdefault(name, value)
    Operation.__post_init__(self)  # where xDSL's implicit builders look in


operations.IRDLOperation.__post_init__ = _fill_in
