"""The `assembly_format`s of op classes, read when the first op of a class is parsed or printed.

xDSL reads them when a class is made: a quarter of the time that importing its dialects takes, for texts that hardly any
process sees. Importing this module changes that for all classes made later. A malformed format is found by whoever
parses or prints such an op.
"""

from __future__ import annotations

from functools import cache
from typing import Any

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
