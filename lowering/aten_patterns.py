"""aten to aten: patterns of the user's are replaced.

A pattern is a pair of functions of the module, `@pattern.NAME.search` and `@pattern.NAME.replace`, with the same
arguments and results. Where calls of the program are those of the first, those of the second take their place. The
pairs are gone afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

import sympy
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, OpResult, SSAValue
from xdsl.passes import ModulePass

from ..dialects.aten import AtenOp, lookup
from ..dialects.errors import LamellaError
from ..dialects.flow import all_ops, bodies
from ..dialects.literal import Value
from ..dialects.tensor import SymType, TensorType
from .decisions import decide
from .origins import fused_location, lines
from .pattern_match import Match, find, substitute, terminator, unify_types

PREFIX: Final = "pattern."
SEARCH, REPLACE = ".search", ".replace"


@dataclass(frozen=True)
class Pattern:
    """What is looked for and what takes its place: functions of one block, with the same arguments and results."""

    name: str
    search: FuncOp
    replace: FuncOp

    @staticmethod
    def symbols(name: str) -> tuple[str, str]:
        """The names of the two functions."""
        return f"{PREFIX}{name}{SEARCH}", f"{PREFIX}{name}{REPLACE}"


@dataclass(frozen=True)
class AtenPatterns(ModulePass):
    """Replace the patterns that the module holds."""

    name = "aten-patterns"
    statistics: dict[str, int] = field(default_factory=dict[str, int], init=False, compare=False)

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        patterns = list(patterns_of(op))
        notes: list[str] = []
        for function in (f for p in patterns for f in (p.search, p.replace)):
            function.detach()
        for pattern in patterns:
            places = [place for body in bodies(op) for place in _replace_all(pattern, body.block)]
            self.statistics[pattern.name] = len(places)
            known = ", ".join(dict.fromkeys(p for p in places if p))
            notes.append(f"pattern {pattern.name}: {len(places)} x{f' ({known})' if known else ''}")
        if notes:
            decide(op, notes)


def patterns_of(module: ModuleOp) -> Iterator[Pattern]:
    """The patterns that a module holds, in order. Raises LamellaError for half of one."""
    functions = {f.sym_name.data: f for f in module.ops if isinstance(f, FuncOp)}
    for name, function in functions.items():
        if name.startswith(PREFIX) and name.endswith(SEARCH):
            short = name.removeprefix(PREFIX).removesuffix(SEARCH)
            other = functions.get(Pattern.symbols(short)[1])
            if other is None:
                raise LamellaError(f"there is @{name}, but no @{Pattern.symbols(short)[1]}")
            if other.function_type != function.function_type and len(other.args) != len(function.args):
                raise LamellaError(f"@{name} and its replacement have other arguments")
            yield Pattern(short, function, other)


def add_patterns(module: ModuleOp, patterns: Sequence[Pattern]) -> None:
    """Put those patterns into the module that it may hold a match of."""
    names = {op.name for f in module.ops if isinstance(f, FuncOp) for op in all_ops(f.body.block)}
    for pattern in patterns:
        if all(op.name in names for op in pattern.search.body.block.ops if isinstance(op, AtenOp)):
            module.body.block.add_ops([pattern.search.clone(), pattern.replace.clone()])


def _replace_all(pattern: Pattern, program: Block) -> Iterator[str]:
    """Replace the matches in a block; the line of each."""
    for match in find(pattern.search.body.block, program):
        replacement = _Replacement(pattern, match, program)
        if replacement.insert():
            yield next(iter(lines(replacement.location)), "")


class _Replacement:
    """New calls for the matched ones."""

    def __init__(self, pattern: Pattern, match: Match, program: Block) -> None:
        self.match = match
        self.program = program
        self.search, self.replace = pattern.search.body.block, pattern.replace.body.block
        self.location = fused_location(op.location for op in match.ops.values())
        self.symbols: dict[sympy.Symbol, Value] = {}
        self.values: dict[SSAValue, SSAValue] = {}
        self.device = next(
            (v.type.device for v in match.values.values() if isinstance(v.type, TensorType)),
            "cpu",
        )

    def insert(self) -> bool:
        """Put the calls into the program and drop those that nobody uses any more; False where that cannot be."""
        at = self._place()
        outputs = [self.match.values[v] for v in terminator(self.search).operands]
        if at is None or not self._bind_arguments():
            return False
        made = [self._remade(op) for op in self.replace.ops if isinstance(op, AtenOp)]
        results = [self.values[v] for v in terminator(self.replace).operands]
        if not all(map(_fits, results, outputs)):
            return False
        for i, (result, output) in enumerate(zip(results, outputs, strict=True)):
            if not isinstance(result, OpResult) or result.op not in made or result in results[:i]:
                made.append(copy := _copy(result, output.type, self.location))
                result = copy.results[0]
            else:
                result._type = output.type  # pyright: ignore[reportPrivateUsage]
            result.name_hint = output.name_hint
            output.replace_all_uses_with(result)
        self.program.insert_ops_before(made, at)
        old = sorted(self.match.ops.values(), key=list(self.program.ops).index, reverse=True)
        for op in old:
            if all(r.first_use is None for r in op.results):
                op.detach()
                op.erase()
        return True

    def _place(self) -> Operation | None:
        """The call before which the new ones go: the first matched one that all arguments are known at. None where an
        output is used above, or a call in between writes to something.
        """
        position = {op: i for i, op in enumerate(self.program.ops)}
        matched = sorted(self.match.ops.values(), key=position.__getitem__)
        given = [self.match.values[a] for a in self.search.args if a in self.match.values]
        known = max((position[v.op] for v in given if isinstance(v, OpResult)), default=-1)
        at = next((op for op in matched if position[op] > known), None)
        if at is None:
            return None
        first, last = position[matched[0]], position[matched[-1]]
        between = (op for op, i in position.items() if first < i < last)
        if any(isinstance(op, AtenOp) and op.schema.mutates for op in between):
            return None
        outputs = [self.match.values[v] for v in terminator(self.search).operands]
        users = (use.operation for v in outputs for use in v.uses if use.operation not in matched)
        return at if all(position[user] > position[at] for user in users) else None

    def _bind_arguments(self) -> bool:
        for wanted, argument in zip(self.search.args, self.replace.args, strict=True):
            if isinstance(wanted.type, SymType):
                self.symbols[cast(SymType, argument.type).expr] = self.match.symbols[wanted.type.expr]
                continue
            value = self.match.values[wanted]
            if not unify_types(argument.type, value.type, self.symbols):
                return False
            self.values[argument] = value
        return True

    def _remade(self, op: AtenOp) -> AtenOp:
        args = [
            self.device if a.element == "Device" and value is not None else self._argument(value)
            for a, value in zip(op.schema.args, op.args(), strict=True)
        ]
        made = type(op).call(args, [self._type(r.type) for r in op.results], cast(Any, self.location))
        self.values.update(zip(op.results, made.results, strict=True))
        return made

    def _argument(self, value: Value) -> Value:
        if isinstance(value, SSAValue):
            return self.values[value]
        if isinstance(value, tuple):
            return tuple(self._argument(v) for v in value)
        return substitute(value, self.symbols)

    def _type(self, type: Attribute) -> Attribute:
        if not isinstance(type, TensorType):
            return type
        shape, strides = (substitute(tuple(dims), self.symbols) for dims in (type.shape, type.strides))
        return TensorType.get(shape, type.dtype, strides, self.device)


def _fits(result: SSAValue, output: SSAValue) -> bool:
    a, b = result.type, output.type
    return isinstance(a, TensorType) and isinstance(b, TensorType) and (a.shape, a.dtype) == (b.shape, b.dtype)


def _copy(value: SSAValue, type: Attribute, location: Any) -> AtenOp:
    """What is an argument, or another result too, has memory of its own as a result."""
    clone = lookup("aten.clone")
    assert clone is not None
    return clone.call([value], [type], location)
