"""Operators of torch as Python functions of what changes from call to call; compiled code calls them for what has no
C form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import sympy
import torch

from ..dialects import expr
from ..dialects.aten import lookup
from ..dialects.literal import HOLE, Value, parse_value
from ..dialects.parser import FastParser
from ..dialects.schema import Argument
from ..dialects.tensor import TORCH_DTYPES
from .errors import CodegenError
from .metadata import CallSpec, ExpressionSpec


def evaluate_expression(spec: ExpressionSpec) -> Callable[..., tuple[Any, ...]]:
    """A function of the values of the symbols, in order, that gives the value of the expression, alone in a tuple."""
    e = expr.parse(spec.expression)

    def evaluate(*values: Any) -> tuple[Any, ...]:
        known = {expr.symbol(name): value for name, value in zip(spec.symbols, values, strict=True)}
        result = e.xreplace({s: sympy.sympify(v) for s, v in known.items()})
        if isinstance(result, sympy.logic.boolalg.BooleanAtom):
            return (bool(result),)
        return (int(result) if result.is_integer else float(result),)

    return evaluate


def call_operator(spec: CallSpec) -> Callable[..., tuple[Any, ...]]:
    """A function of the values of the holes, in order, that gives a tuple of `spec.results` results."""
    cls = lookup(spec.operator)
    if cls is None:
        raise CodegenError(f"this torch has no operator {spec.operator}")
    overload, wanted = cls.overload, spec.results
    pairs = list(zip(cls.schema.args, _parse(spec.template), strict=True))
    positional = [_maker(value, a) for a, value in pairs if not a.kwarg_only]
    named = {a.name: _maker(value, a) for a, value in pairs if a.kwarg_only}

    def call(*given: Any) -> tuple[Any, ...]:
        holes = iter(given)
        # the order of evaluation is that of the holes: keyword-only arguments come last in a schema
        args = [make(holes) for make in positional]
        result = overload(*args, **{name: make(holes) for name, make in named.items()})
        flat = tuple(_flatten(result))
        return (*flat, *(None,) * (wanted - len(flat)))[:wanted] if len(flat) != wanted else flat

    call.__name__ = spec.operator
    return call


def _parse(template: str) -> tuple[Value, ...]:
    from ..dialects.context import make_context

    return parse_value(FastParser(make_context(), template, "<call>"))


def _maker(value: Value, a: Argument) -> Callable[[Iterator[Any]], Any]:
    """A function that gives one argument, taking what it needs from the values of the holes."""
    if value is HOLE:
        return next
    if isinstance(value, tuple) and _has_hole(value):
        parts = [_maker(v, a) for v in value]
        return lambda holes: [make(holes) for make in parts]
    fixed = constant(value, a)
    return lambda holes: fixed


def _has_hole(value: Value) -> bool:
    return value is HOLE or (isinstance(value, tuple) and any(map(_has_hole, value)))


def constant(value: Value, a: Argument) -> Any:
    """A literal as torch takes it."""
    if isinstance(value, tuple):
        return [constant(v, a) for v in value]
    if isinstance(value, str):
        if a.element == "ScalarType":
            return getattr(torch, TORCH_DTYPES[value])
        if a.element in ("Layout", "MemoryFormat"):
            return getattr(torch, value)
        if a.element == "Device":
            return torch.device(value)
    return value


def _flatten(out: Any) -> Iterator[Any]:
    if isinstance(out, (list, tuple)):
        for item in out:
            yield from _flatten(item)
    else:
        yield out
