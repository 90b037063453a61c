"""`lamella.register_pattern`: a function of PyTorch that is looked for in programs, and what takes its place."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

import sympy
import torch
from torch.export import Dim
from xdsl.dialects.builtin import StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import BlockArgument

from ..dialects import expr
from ..dialects.aten import AtenOp
from ..dialects.errors import LamellaError
from ..dialects.literal import Value
from ..dialects.tensor import SymType, TensorType
from ..dialects.text import print_module
from ..lowering.aten_canonicalize import canonicalize
from ..lowering.aten_patterns import Pattern
from ..lowering.pattern_match import terminator
from ..lowering.registered_patterns import REGISTERED
from .capture import capture


class PatternError(LamellaError):
    """A pattern that could never match, or whose replacement does not fit."""


class RegisteredPattern:
    """A pattern in use, until `unregister` or the end of a `with` block. Functions that are compiled already stay."""

    def __init__(self, pattern: Pattern) -> None:
        self.pattern = pattern
        REGISTERED.append(pattern)

    @property
    def name(self) -> str:
        return self.pattern.name

    def __str__(self) -> str:
        return "\n".join(map(print_module, (self.pattern.search, self.pattern.replace)))

    def unregister(self) -> None:
        """Stop using the pattern; nothing where that has been done."""
        if any(p is self.pattern for p in REGISTERED):
            REGISTERED[:] = [p for p in REGISTERED if p is not self.pattern]

    def __enter__(self) -> RegisteredPattern:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.unregister()


def register_pattern(
    search: Callable[..., Any],
    replace: Callable[..., Any],
    example_inputs: Sequence[Any],
    *,
    name: str | None = None,
) -> RegisteredPattern:
    """Have `replace` computed wherever a program that is compiled from now on computes `search`.

    Both take `example_inputs` and return tensors of the same sizes and dtypes. A tensor among the examples stands for
    any of its dtype and rank; sizes may differ, but for those that are 0 or 1, and where `search` says what they are. A
    number among the examples stands for any, and must occur in `search` once as it is and in no other meaning; all
    other numbers must be the same. Values that `search` computes on the way must not be used elsewhere in the program.
    The first pattern registered is tried first. Raises PatternError, and CaptureError where torch.export cannot trace
    a function.
    """
    if not isinstance(example_inputs, (list, tuple)):
        raise PatternError(f"expected a list of examples, got {type(example_inputs).__name__}")
    for i, x in enumerate(example_inputs):
        if isinstance(x, bool) or not isinstance(x, (int, float, torch.Tensor)):
            raise PatternError(f"example #{i} is a {type(x).__name__}: tensors and numbers can be arguments")
    _check_takes("pattern", search, example_inputs)
    _check_takes("replacement", replace, example_inputs)
    wanted = re.sub(r"\W", "_", name or _name(search))
    taken = {p.name for p in REGISTERED}
    name = next(n for n in (wanted, *(f"{wanted}_{i}" for i in range(2, len(taken) + 3))) if n not in taken)
    looked_for, taking_its_place = Pattern.symbols(name)
    pattern = Pattern(
        name, _traced(search, example_inputs, looked_for), _traced(replace, example_inputs, taking_its_place)
    )
    _check(pattern.search, pattern.replace, example_inputs)
    return RegisteredPattern(pattern)


def _check_takes(what: str, function: Any, examples: Sequence[Any]) -> None:
    """Raises PatternError for what is no function of as many arguments as there are examples."""
    if not callable(function):
        raise PatternError(f"the {what} is a {type(function).__name__}, not a function")
    try:
        inspect.signature(function).bind(*examples)
    except TypeError as error:
        raise PatternError(f"the {what} cannot be called with the {len(examples)} examples: {error}") from None
    except ValueError:  # of some built-in functions nothing is known
        return


def _traced(function: Callable[..., Any], examples: Sequence[Any], symbol: str) -> FuncOp:
    """The calls of a function, with an argument for each example."""

    def positional(*args: Any) -> Any:
        return function(*args)

    sizes = tuple({i: Dim.AUTO for i in range(x.dim())} if isinstance(x, torch.Tensor) else None for x in examples)
    captured = capture(positional, *examples, dynamic_shapes=(sizes,))
    if captured.held or captured.imported.constants:
        raise PatternError(f"{_name(function)} holds a tensor: give it as an argument")
    main = next(op for op in captured.module.ops if isinstance(op, FuncOp))
    main.detach()
    canonicalize(main.body.block)
    _add_numbers(main, examples, captured.taken)
    types = [a.type for a in main.body.block.args], [v.type for v in terminator(main.body.block).operands]
    made = FuncOp(symbol, types, main.detach_region(main.body))
    made.sym_visibility = StringAttr("private")
    return made


def _add_numbers(main: FuncOp, examples: Sequence[Any], taken: Sequence[int]) -> None:
    """Arguments for the numbers among the examples, which tracing has made literals of; symbols in place of these."""
    block = main.body.block
    symbols: dict[Any, sympy.Symbol] = {}
    for i, x in enumerate(examples):
        if i in taken:
            continue
        if isinstance(x, torch.Tensor):
            continue
        if (type(x), x) in symbols:
            raise PatternError(f"two examples are {x}: give numbers that tell them apart")
        symbol = expr.symbol(f"{'u' if isinstance(x, int) else 'z'}{i + 1000}")
        symbols[type(x), x] = symbol
        block.insert_arg(SymType.get(symbol, "i64" if isinstance(x, int) else "f64"), i)

    def named(value: Value) -> Value:
        if isinstance(value, tuple):
            return tuple(map(named, value))
        return symbols.get((type(value), value), value) if isinstance(value, (int, float)) else value

    for op in list(block.ops) if symbols else ():
        if isinstance(op, AtenOp):
            made = type(op).call([named(v) for v in op.args()], [r.type for r in op.results], op.location)
            block.insert_op_before(made, op)
            for old, new in zip(op.results, made.results, strict=True):
                new.name_hint = old.name_hint
                old.replace_all_uses_with(new)
            op.detach()
            op.erase()


def _check(search: FuncOp, replace: FuncOp, examples: Sequence[Any]) -> None:
    """Raises PatternError for what cannot match or take its place."""
    calls = [op for op in search.body.block.ops if isinstance(op, AtenOp)]
    outputs, results = (terminator(f.body.block).operands for f in (search, replace))
    if not calls or not outputs:
        raise PatternError("the pattern computes nothing")
    for op in calls:
        if not op.schema.is_pure:
            what = "writes to its operands" if op.schema.mutates else "draws random numbers or checks data"
            raise PatternError(f"{op.name} {what}: a pattern cannot hold it")
    if any(isinstance(v, BlockArgument) for v in outputs):
        raise PatternError("the pattern returns one of its arguments: it must compute each result")
    used = {v for op in calls for v in op.operands}
    literals = {s for op in calls for v in op.args() for s in _symbols(v)}
    for i, argument in enumerate(search.body.block.args):
        found = argument.type.expr in literals if isinstance(argument.type, SymType) else argument in used
        if not found:
            what = f", {examples[i]}," if isinstance(argument.type, SymType) else ""
            raise PatternError(f"the pattern does not use argument #{i}{what} as it is: it would stand for anything")
    if len(outputs) != len(results):
        raise PatternError(f"the pattern has {len(outputs)} results, the replacement {len(results)}")
    for i, (a, b) in enumerate(zip(outputs, results, strict=True)):
        if not isinstance(a.type, TensorType) or not isinstance(b.type, TensorType):
            raise PatternError(f"result #{i} is no tensor")
        if (a.type.rank, a.type.dtype) != (b.type.rank, b.type.dtype):
            raise PatternError(f"result #{i} is {a.type}, that of the replacement {b.type}")


def _symbols(value: Value) -> set[sympy.Symbol]:
    if isinstance(value, tuple):
        return set[sympy.Symbol]().union(*map(_symbols, value))
    return set(expr.symbols(value)) if isinstance(value, sympy.Basic) else set()


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", str(function))
