"""What a module of kernels tells its user: kernels with source lines and costs, and the calls that stay in ATen."""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import (
    ArrayAttr,
    CallSiteLoc,
    FileLineColLoc,
    FusedLoc,
    ModuleOp,
    NameLoc,
    StringAttr,
)
from xdsl.dialects.func import FuncOp

from ..dialects import expr
from ..dialects.loop import IndexAttr, KernelOp, LaunchOp


def lines(location: Any) -> list[str]:
    """The `file:line` places of a location, in order, each once."""
    found: dict[str, None] = {}

    def visit(loc: Any) -> None:
        if isinstance(loc, FileLineColLoc):
            found[f"{loc.filename.data}:{loc.line.data}"] = None
        elif isinstance(loc, NameLoc):
            visit(loc.location)
        elif isinstance(loc, CallSiteLoc):
            visit(loc.callee)
        elif isinstance(loc, FusedLoc):
            assert isinstance(loc.locations, ArrayAttr)
            for part in loc.locations.data:
                visit(part)

    visit(location)
    return list(found)


def _value(attribute: Any) -> Any:
    if isinstance(attribute, IndexAttr):
        return ", ".join(expr.text(e) for e in attribute)
    if isinstance(attribute, ArrayAttr):
        return [_value(a) for a in attribute.data]
    if isinstance(attribute, StringAttr):
        return attribute.data
    return getattr(getattr(attribute, "value", None), "data", str(attribute))


def kernels(module: ModuleOp) -> list[dict[str, Any]]:
    """One record per kernel: name, launches, ops, source lines, bytes and flops as expressions of its sizes."""
    launches: dict[str, int] = {}
    for op in module.walk():
        if isinstance(op, LaunchOp):
            launches[op.callee] = launches.get(op.callee, 0) + 1
    return [
        {
            "name": op.sym_name.data,
            "launches": launches.get(op.sym_name.data, 0),
            "lines": lines(op.location),
            **{k: _value(op.attributes[k]) for k in ("ops", "bytes", "flops") if k in op.attributes},
        }
        for op in module.ops
        if isinstance(op, KernelOp)
    ]


def decisions(module: ModuleOp) -> list[str]:
    """The fusion decisions, a readable line each."""
    found = module.attributes.get("lamella.decisions")
    return [str(_value(a)) for a in found.data] if isinstance(found, ArrayAttr) else []


def calls(module: ModuleOp) -> list[tuple[str, str]]:
    """The operators that stay calls into ATen, with their source line, in order."""
    found: list[tuple[str, str]] = []
    for f in module.ops:
        if isinstance(f, FuncOp):
            for op in f.body.walk():
                if op.name.partition(".")[0] not in ("loop", "func", "arith", "math"):
                    found.append((op.name, next(iter(lines(op.location)), "?")))
    return found
