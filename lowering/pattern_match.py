"""Matches of a graph of ATen calls in a larger one: which values stand for its arguments, which calls for its calls.

An argument stands for any value of its dtype and rank. Sizes that are symbols in the pattern stand for any size, the
same one everywhere; fixed sizes and literals must be equal. A literal that is a number of the pattern's own arguments
(`!sym.int<z0, f64>`) stands for any number. Layouts and devices are not compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

import sympy
from xdsl.ir import Block, BlockArgument, Operation, OpResult, SSAValue

from ..dialects import expr
from ..dialects.aten import AtenOp
from ..dialects.errors import LamellaVerifyError
from ..dialects.flow import TERMINATORS
from ..dialects.literal import Literal, Value
from ..dialects.tensor import SymType, TensorType

COMMUTATIVE: Final = frozenset(
    f"aten.{name}.Tensor" for name in ("add", "mul", "eq", "ne", "bitwise_and", "bitwise_or", "bitwise_xor")
) | {"aten.maximum", "aten.minimum", "aten.logical_and", "aten.logical_or"}
"""Operators whose first two arguments may be swapped, `alpha` being 1."""


@dataclass(frozen=True)
class Match:
    """What stands for what."""

    values: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    """Arguments and results of the pattern's calls to values of the program."""
    symbols: dict[sympy.Symbol, Value] = field(default_factory=dict[sympy.Symbol, Value])
    ops: dict[Operation, AtenOp] = field(default_factory=dict[Operation, AtenOp])

    def bind(self, pattern: SSAValue, value: SSAValue) -> Match | None:
        """An argument of the pattern stands for `value`; None where it cannot."""
        symbols = dict(self.symbols)
        if not unify_types(pattern.type, value.type, symbols):
            return None
        return Match({**self.values, pattern: value}, symbols, self.ops)


def find(pattern: Block, program: Block) -> Iterator[Match]:
    """The matches of a pattern, from the end of the program on, that may be replaced. The program may be changed in
    between; a call is not looked at twice. Raises LamellaVerifyError for a pattern that computes nothing.
    """
    last = cast(Operation, pattern.last_op)
    if not last.operands or not all(isinstance(v, OpResult) for v in last.operands):
        raise LamellaVerifyError(last, "gives back what a pattern computes, not its arguments")
    outputs = [cast(OpResult, v) for v in last.operands]
    root = outputs[0].op
    for op in reversed(list(program.ops)):
        if op.parent is program and op.name == root.name:
            found = next((m for m in _outputs(Match(), outputs, op, program) if _is_closed(m, outputs)), None)
            if found is not None:
                yield found


def _outputs(match: Match, outputs: Sequence[OpResult], first: Operation, program: Block) -> Iterator[Match]:
    """Matches of the calls that make the outputs, of the first of them by `first`."""
    waiting = next((o for o in outputs if o not in match.values), None)
    if waiting is None:
        yield match
        return
    candidates = (first,) if waiting is outputs[0] else tuple(program.ops)
    for op in candidates:
        if isinstance(op, AtenOp) and op.name == waiting.op.name and op not in match.ops.values():
            for found in _call(match, cast(AtenOp, waiting.op), op):
                yield from _outputs(found, outputs, first, program)


def _is_closed(match: Match, outputs: Sequence[OpResult]) -> bool:
    """Whether nothing else uses what the pattern keeps to itself."""
    inside = set(match.ops.values())
    kept = (match.values[r] for p in match.ops for r in p.results if r not in outputs and r in match.values)
    return all(use.operation in inside for value in kept for use in value.uses)


def _value(match: Match, pattern: SSAValue, value: SSAValue) -> Iterator[Match]:
    known = match.values.get(pattern)
    if known is not None:
        if known is value:
            yield match
    elif isinstance(pattern, BlockArgument):
        if (bound := match.bind(pattern, value)) is not None:
            yield bound
    elif isinstance(value, OpResult) and isinstance(value.op, AtenOp):
        result = cast(OpResult, pattern)
        if result.op.name == value.op.name and result.index == value.index:
            yield from _call(match, cast(AtenOp, result.op), value.op)


def _call(match: Match, pattern: AtenOp, op: AtenOp) -> Iterator[Match]:
    if pattern in match.ops:
        if match.ops[pattern] is op:
            yield match
        return
    if len(pattern.results) != len(op.results) or any(
        _dtype(p) != _dtype(r) for p, r in zip(pattern.results, op.results, strict=True)
    ):
        return
    values = {**match.values, **dict(zip(pattern.results, op.results, strict=True))}
    begun = Match(values, match.symbols, {**match.ops, pattern: op})
    wanted, given = pattern.args(), op.args()
    orders = [given]
    if pattern.name in COMMUTATIVE and all(isinstance(v, SSAValue) for v in given[:2]) and given[2:] in ([], [1]):
        orders.append([given[1], given[0], *given[2:]])
    names = [a.element for a in pattern.schema.args]
    for order in orders:
        yield from _arguments(begun, list(zip(names, wanted, order, strict=True)))


def _arguments(match: Match, rows: Sequence[tuple[str, Value, Value]]) -> Iterator[Match]:
    if not rows:
        yield match
        return
    (element, wanted, given), *rest = rows
    for found in _argument(match, element, wanted, given):
        yield from _arguments(found, rest)


def _argument(match: Match, element: str, wanted: Value, given: Value) -> Iterator[Match]:
    if element == "Device":
        yield match
    elif isinstance(wanted, SSAValue):
        if isinstance(given, SSAValue):
            yield from _value(match, wanted, given)
    elif isinstance(wanted, tuple):
        if isinstance(given, tuple) and len(given) == len(wanted):
            yield from _arguments(match, [(element, w, g) for w, g in zip(wanted, given, strict=True)])
    elif not isinstance(given, (SSAValue, tuple)):
        symbols = dict(match.symbols)
        if unify(wanted, given, symbols):
            yield Match(match.values, symbols, match.ops)


def unify(wanted: Value, given: Value, symbols: dict[sympy.Symbol, Value]) -> bool:
    """Whether a literal or a size of the pattern stands for the given one; binds a symbol that has no value yet."""
    if isinstance(wanted, sympy.Symbol):
        if wanted in symbols:
            return _same(symbols[wanted], given)
        if isinstance(given, bool) or not isinstance(given, (int, float, sympy.Basic)):
            return False
        if wanted.is_integer and isinstance(given, float):
            return False
        symbols[wanted] = given
        return True
    if isinstance(wanted, sympy.Basic):
        return expr.symbols(wanted) <= symbols.keys() and _same(substitute(wanted, symbols), given)
    return _same(wanted, given)


def unify_types(wanted: Any, given: Any, symbols: dict[sympy.Symbol, Value]) -> bool:
    """The same for the type of an argument, whose strides and device are not looked at."""
    if isinstance(wanted, TensorType) and isinstance(given, TensorType):
        if wanted.dtype != given.dtype or wanted.rank != given.rank:
            return False
        dims = list(zip(wanted.shape, given.shape, strict=True))
        # what stands alone first: the others are made of it
        dims.sort(key=lambda pair: not isinstance(pair[0], sympy.Symbol))
        return all(unify(w, g, symbols) for w, g in dims)
    return isinstance(wanted, SymType) and isinstance(given, SymType) and wanted.dtype == given.dtype


def substitute(value: Value, symbols: dict[sympy.Symbol, Value]) -> Value:
    """A literal with the values of symbols in it."""
    if isinstance(value, tuple):
        return tuple(substitute(v, symbols) for v in value)
    if isinstance(value, sympy.Symbol):
        return symbols.get(value, value)
    if not isinstance(value, sympy.Basic):
        return value
    result: Any = value.xreplace({s: sympy.sympify(symbols[s]) for s in expr.symbols(value) if s in symbols})
    if isinstance(result, sympy.logic.boolalg.BooleanAtom):
        return bool(result)
    if getattr(result, "is_number", False):
        return int(result) if result.is_integer else float(result)
    return expr.normal(result)


def _same(a: Value, b: Value) -> bool:
    """Literals are told apart by type too: 1, 1.0 and true."""
    return Literal.get(a) is Literal.get(b)


def _dtype(value: SSAValue) -> str:
    return getattr(value.type, "dtype", "")


def terminator(block: Block) -> Operation:
    """What ends a block."""
    last = block.last_op
    assert isinstance(last, TERMINATORS)
    return last
