"""Any level to itself: what functions do takes the place of their calls.

A function that is called several times is lowered and fused once: its kernels are there, its launches are repeated.
Where a call has as many locations as its function, ops are of the call's, and the kernels they launch of all of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, FusedLoc, LocationAttr, ModuleOp, NameLoc
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from ..dialects.errors import LamellaVerifyError
from ..dialects.flow import CallOp, all_ops
from ..dialects.loop import LaunchOp
from ..dialects.verify_program import symbol_table
from .origins import fused_location


@dataclass(frozen=True)
class InlineCalls(ModulePass):
    """Replace each `flow.call` by the ops of its function, and remove the functions that were called."""

    name = "inline-calls"
    statistics: dict[str, int] = field(default_factory=dict[str, int], init=False, compare=False)

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        symbols = symbol_table(op)
        called: dict[FuncOp, None] = {}
        for function in [o for o in op.ops if isinstance(o, FuncOp) and not o.is_declaration]:
            _inline_all(function, symbols, (function,), called)
        for function in called:
            function.detach()
            function.erase(safe_erase=False)
        if called:
            _tell_kernels(op, symbols)
        self.statistics["functions"] = len(called)


def _tell_kernels(module: ModuleOp, symbols: dict[str, Operation]) -> None:
    """Kernels are of the lines of all their launches."""
    places: dict[str, list[LocationAttr]] = {}
    for op in module.walk():
        if isinstance(op, LaunchOp):
            places.setdefault(op.callee, []).append(op.location)
    for name, found in places.items():
        kernel = symbols[name]
        kernel.location = fused_location((kernel.location, *dict.fromkeys(found)))


def _inline_all(
    function: FuncOp, symbols: dict[str, Operation], around: tuple[FuncOp, ...], called: dict[FuncOp, None]
) -> None:
    """Inline the calls in a function that is called by those `around` it."""
    for call in [o for o in all_ops(function.body.block) if isinstance(o, CallOp)]:
        callee = call.function(symbols)
        if callee in around:
            raise LamellaVerifyError(call, f"@{callee.sym_name.data} calls itself")
        called[callee] = None
        _inline_all(callee, symbols, (*around, callee), called)
        _inline(call, callee)


def _inline(call: CallOp, function: FuncOp) -> None:
    values: dict[SSAValue, SSAValue] = dict(zip(function.body.block.args, call.operands, strict=True))
    places = _places(function.location, call.location)
    copies: list[Operation] = []
    for op in function.body.block.ops:
        if isinstance(op, ReturnOp):
            break
        copy = op.clone(values)
        copy_locations(op, copy)
        for inner in copy.walk() if places else ():
            inner.location = _moved(inner.location, places)
        copies.append(copy)
    block = call.parent
    last = function.body.block.last_op
    assert block is not None and last is not None
    block.insert_ops_before(copies, call)
    for result, returned in zip(call.results, last.operands, strict=True):
        result.replace_all_uses_with(values[returned])
    call.detach()
    call.erase()


def _places(function: LocationAttr, call: LocationAttr) -> dict[LocationAttr, LocationAttr]:
    """Of each location in a function, that in the call."""
    if not isinstance(function, FusedLoc) or not isinstance(call, FusedLoc):
        return {}
    pairs = cast("tuple[ArrayAttr[LocationAttr], ...]", (function.locations, call.locations))
    if len(pairs[0]) != len(pairs[1]):
        return {}
    return {a: b for a, b in zip(*pairs, strict=True) if a != b}


def _moved(location: LocationAttr, places: dict[LocationAttr, LocationAttr]) -> LocationAttr:
    """A location with the parts that `places` has replaced; entered there."""
    found = places.get(location)
    if found is None:
        found = location
        if isinstance(location, NameLoc):
            found = NameLoc(location.desc, _moved(cast(LocationAttr, location.location), places))
        elif isinstance(location, FusedLoc):
            parts = cast("ArrayAttr[LocationAttr]", location.locations)
            found = fused_location(_moved(part, places) for part in parts)
        places[location] = found
    return found


def copy_locations(op: Operation, copy: Operation) -> None:
    for old, new in zip(op.walk(), copy.walk(), strict=True):
        new.location = old.location
