"""Where ops came from, read off their locations: the operator, the module path, and the line of the user's program."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, cast

from xdsl.dialects.builtin import (
    UNKNOWN_LOC,
    ArrayAttr,
    CallSiteLoc,
    FileLineColLoc,
    FusedLoc,
    LocationAttr,
    NameLoc,
    NoneAttr,
)
from xdsl.ir import Attribute

NAMESPACES = ("aten.", "torch_prims.")
"""How the names that `aten-to-prims` puts into locations begin."""


class Origin(NamedTuple):
    """One leaf of a location; what is not known is "" or 0."""

    operator: str
    """The ATen operator, as `aten-to-prims` notes it."""
    module: str
    """The path of the module in the user's model: `layers.0.attn`."""
    file: str
    line: int

    @property
    def place(self) -> str:
        """`file:line`."""
        return f"{self.file}:{self.line}" if self.file else ""


class Call(NamedTuple):
    """An operator that stays a call into ATen."""

    name: str
    line: str
    """`file:line`; the module's path, or "?", where that is not known."""
    reason: str


def origins(location: Any, operator: str = "", module: str = "") -> Iterator[Origin]:
    """The leaves of a location, in order."""
    match location:
        case NameLoc():
            name = location.desc.data
            if name.startswith(NAMESPACES):
                yield from origins(location.location, name, module)
            else:
                yield from origins(location.location, operator, name)
        case FusedLoc():
            for part in location.locations.data:  # pyright: ignore[reportAttributeAccessIssue]
                yield from origins(part, operator, module)
        case CallSiteLoc():
            yield from origins(location.callee, operator, module)
        case FileLineColLoc():
            yield Origin(operator, module, location.filename.data, location.line.data)
        case _:
            if operator or module:
                yield Origin(operator, module, "", 0)


def lines(location: Any) -> list[str]:
    """The `file:line` places of a location, in order, each once."""
    return list(dict.fromkeys(o.place for o in origins(location) if o.file))


def fused_location(locations: Iterable[LocationAttr]) -> LocationAttr:
    """One location for several: each part once, in order."""
    parts: dict[LocationAttr, None] = {}
    for loc in locations:
        if isinstance(loc, FusedLoc):
            parts.update((part, None) for part in cast("ArrayAttr[LocationAttr]", loc.locations).data)
        elif loc != UNKNOWN_LOC:
            parts[loc] = None
    if len(parts) < 2:
        return next(iter(parts), UNKNOWN_LOC)
    return FusedLoc(ArrayAttr[Attribute](parts), NoneAttr())
