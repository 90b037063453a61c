"""Operators of torch as Python functions of what changes from call to call; compiled code calls them for what has no
C form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast

import torch

from .errors import CodegenError
from .metadata import CallSpec, ExpressionSpec, Hole


def evaluate_expression(spec: ExpressionSpec) -> Callable[..., tuple[Any, ...]]:
    """A function of the values of the symbols, in order, that gives the value of the expression, alone in a tuple."""
    import sympy

    from ..dialects import expr

    e = expr.parse(spec.expression)

    def evaluate(*values: Any) -> tuple[Any, ...]:
        known = {expr.symbol(name): value for name, value in zip(spec.symbols, values, strict=True)}
        result = e.xreplace({s: sympy.sympify(v) for s, v in known.items()})
        if isinstance(result, sympy.logic.boolalg.BooleanAtom):
            return (bool(result),)
        return (int(result) if result.is_integer else float(result),)

    return evaluate


def call_operator(spec: CallSpec) -> Callable[..., tuple[Any, ...]]:
    """A function of the values of the holes, in order, that gives a tuple of `spec.results` results. Raises
    CodegenError for an operator that torch does not have.
    """
    overload, wanted = _overload(spec), spec.results
    marks = _may_mark(overload)
    positional = [_maker(value) for value in spec.positional]
    named = {name: _maker(value) for name, value in spec.named}

    def call(*given: Any) -> tuple[Any, ...]:
        holes = iter(given)
        # the order of evaluation is that of the holes: keyword-only arguments come last in a schema
        args = [make(holes) for make in positional]
        result = overload(*args, **{name: make(holes) for name, make in named.items()})
        flat = tuple(map(_resolved, _flatten(result)) if marks else _flatten(result))
        return (*flat, *(None,) * (wanted - len(flat)))[:wanted] if len(flat) != wanted else flat

    call.__name__ = spec.operator
    return call


def _may_mark(overload: Any) -> bool:
    """Whether results that are no views may be marked as conjugates, which compiled code does not look at."""
    schema = getattr(overload, "_schema", None)
    return schema is not None and not any(r.alias_info for r in schema.returns)


def _resolved(value: Any) -> Any:
    """A result as what its memory holds: `linalg.lu_solve` gives one that is marked."""
    return value.resolve_conj() if isinstance(value, torch.Tensor) and value.is_conj() else value


def _overload(spec: CallSpec) -> Any:
    namespace, _, name = spec.name.partition("::")
    if spec.operator == "lamella.triton_kernel":
        from ..dialects import user_kernels

        return user_kernels.call  # past the dispatcher, which has nothing to add
    try:
        if namespace == "seeded":
            from ..dialects.seeded import find

            return find(name, spec.overload)
        return getattr(getattr(getattr(torch.ops, namespace), name), spec.overload)
    except AttributeError as error:
        raise CodegenError(f"this torch has no operator {spec.operator}") from error


def _maker(value: Any) -> Callable[[Iterator[Any]], Any]:
    """A function that gives one argument, taking what it needs from the values of the holes."""
    if value is Hole.GIVEN:
        return next
    if isinstance(value, list) and _has_hole(value):
        parts = [_maker(v) for v in cast("list[Any]", value)]
        return lambda holes: [make(holes) for make in parts]
    return lambda holes: value


def _has_hole(value: Any) -> bool:
    return value is Hole.GIVEN or (isinstance(value, list) and any(map(_has_hole, cast("list[Any]", value))))


def _flatten(out: Any) -> Iterator[Any]:
    if isinstance(out, (list, tuple)):
        for item in out:
            yield from _flatten(item)
    else:
        yield out
