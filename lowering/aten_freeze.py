"""aten to aten: what depends on frozen arguments alone is computed once, by a function of its own.

    func.func @main(%x, %w {lamella.frozen}) { %t = f(%w); %y = aten.mm(%x, %t) }
    func.func @kept(%w {lamella.argument = 1}) { %t = f(%w); return %t }
    func.func @main(%x, %w {lamella.frozen}, %t {lamella.kept}) { %y = aten.mm(%x, %t) }

`@kept` takes the arguments of `@main` at the positions that `lamella.argument` says, and gives its trailing ones.
Whoever calls them calls `@kept` again when one of its arguments has changed (codegen/frozen.py).

Views are not kept, as they cost nothing, nor what is returned, which the caller may write, nor what takes more than
twice the memory of what it is made of.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, cast

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, FunctionType, IntegerAttr, ModuleOp, StringAttr, i64
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue
from xdsl.passes import ModulePass

from ..dialects.aten import AtenOp
from .aten_canonicalize import ALIASES, canonicalize
from .aten_frozen import argument_attributes, frozen_values
from .aten_to_prims import remake
from .decisions import decide
from .fuse_cost import Hints, shown

KEPT: Final = "kept"
"""The name of the function that makes what is kept."""

ARGUMENT: Final = "lamella.argument"

GROWTH = 2
SMALL = 64 << 10
"""Bytes that are kept whatever they are made of."""


@dataclass(frozen=True)
class AtenFreeze(ModulePass):
    """Move what depends on frozen arguments alone into a function that is called once."""

    name = "aten-freeze"
    statistics: dict[str, int] = field(default_factory=dict[str, int], init=False, compare=False)

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in [f for f in op.ops if isinstance(f, FuncOp) and f.sym_name.data == "main"]:
            kept = _kept(function)
            self.statistics["values kept"] = len(kept)
            if kept:
                names = _names(function)
                lines = [_line(v, made_of, names) for v, made_of in kept.items()]
                op.body.block.insert_op_before(_split(function, list(kept)), function)
                decide(op, dict.fromkeys(lines))


def take_kept(module: ModuleOp) -> tuple[ModuleOp, tuple[int, ...]] | None:
    """`@kept` taken out of a module as the `@main` of another one, and the positions of its arguments; None where there
    is none.
    """
    function = next((f for f in module.ops if isinstance(f, FuncOp) and f.sym_name.data == KEPT), None)
    if function is None:
        return None
    positions = tuple(a[ARGUMENT].value.data for a in argument_attributes(function))
    function.detach()
    function.sym_name = StringAttr("main")
    return ModuleOp([function]), positions


# Choice


def _kept(function: FuncOp) -> dict[SSAValue, frozenset[SSAValue]]:
    """The values to keep, with the arguments they are made of."""
    known, hints = frozen_values(function), Hints({})
    ops = list(function.body.block.ops)
    leaving = _leaving(ops)

    def is_worth(v: SSAValue) -> bool:
        if not known[v] or v in leaving or _is_view(cast(Operation, v.owner)):
            return False
        return hints.bytes(v) <= max(SMALL, GROWTH * sum(map(hints.bytes, known[v])))

    needed: set[SSAValue] = set()
    kept: list[SSAValue] = []
    for op in reversed(ops):
        if op.results and all(r in known for r in op.results):
            used = [r for r in op.results if r in needed]
            if not used:
                continue
            if all(map(is_worth, used)):
                kept += reversed(used)
                continue
        needed.update(v for v in op.operands if v in known and not isinstance(v, BlockArgument))
    return {v: known[v] for v in reversed(kept)}


def _is_view(op: Operation) -> bool:
    return isinstance(op, AtenOp) and (op.schema.is_view or op.name in ALIASES)


def _leaving(ops: Iterable[Operation]) -> set[SSAValue]:
    """Values that the caller gets or that are written, themselves or through a view."""
    found: set[SSAValue] = set()
    for op in reversed(list(ops)):
        if isinstance(op, ReturnOp):
            found.update(op.operands)
        elif isinstance(op, AtenOp):
            written = [v for a, v in zip(op.schema.args, op.args(), strict=True) if a.mutated]
            for v in written:
                found.update(v if isinstance(v, tuple) else (v,))
            if _is_view(op) and any(r in found for r in op.results):
                found.update(op.operands)
    return found


# Rewrite


def _split(function: FuncOp, kept: list[SSAValue]) -> FuncOp:
    """Make `@kept`, and have the function take its results as arguments."""
    block = function.body.block
    attributes = argument_attributes(function)
    ops, sources = _closure(block, kept)
    made = Block(arg_types=[a.type for a in sources])
    values: dict[SSAValue, SSAValue] = {}
    for old, new in zip(sources, made.args, strict=True):
        new.name_hint, new.location = old.name_hint, old.location
        values[old] = new
    made.add_ops([remake(op, values) for op in ops])
    made.add_op(ReturnOp(*(values[v] for v in kept)))
    about = [{**attributes[a.index], ARGUMENT: IntegerAttr(a.index, i64)} for a in sources]
    types = [v.type for v in kept]
    result = FuncOp(KEPT, ([a.type for a in sources], types), Region(made), arg_attrs=_attributes(about))
    result.location = function.location
    for v in kept:
        argument = block.insert_arg(v.type, len(block.args))
        argument.name_hint, argument.location = v.name_hint, cast(Operation, v.owner).location
        v.replace_all_uses_with(argument)
        attributes.append({"lamella.kept": StringAttr(cast(Operation, v.owner).name)})
    function.arg_attrs = _attributes(attributes)
    function.function_type = FunctionType.from_lists(
        [a.type for a in block.args], list(function.function_type.outputs.data)
    )
    canonicalize(block)
    return result


def _closure(block: Block, values: Iterable[SSAValue]) -> tuple[list[Operation], list[BlockArgument]]:
    """The ops that make some values, and the arguments that they are made of, in order."""
    needed: set[Operation] = set()
    sources: set[BlockArgument] = set()
    stack = list(values)
    while stack:
        v = stack.pop()
        if isinstance(v, BlockArgument):
            sources.add(v)
        elif isinstance(v.owner, Operation) and v.owner not in needed:
            needed.add(v.owner)
            stack.extend(v.owner.operands)
    return [op for op in block.ops if op in needed], sorted(sources, key=lambda a: a.index)


def _attributes(of_arguments: Sequence[Mapping[str, Attribute]]) -> ArrayAttr[DictionaryAttr]:
    return ArrayAttr([DictionaryAttr(a) for a in of_arguments])


# What is told


def _names(function: FuncOp) -> dict[SSAValue, str]:
    pairs = zip(function.body.block.args, argument_attributes(function), strict=True)
    return {a: name.data if (name := t.get("lamella.name")) is not None else a.name_hint or "?" for a, t in pairs}


def _line(v: SSAValue, made_of: frozenset[SSAValue], names: dict[SSAValue, str]) -> str:
    sources = sorted((cast(BlockArgument, a) for a in made_of), key=lambda a: a.index)
    what = cast(Operation, v.owner).name
    return f"{what} of {', '.join(names[a] for a in sources)} is computed once and kept, {shown(Hints({}).bytes(v))}"
