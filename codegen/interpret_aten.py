"""ATen ops by eager PyTorch: each op is a call of the overload it is named after."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sympy
import torch

from ..dialects import expr
from ..dialects.aten import AtenOp
from ..dialects.errors import describe_location
from ..dialects.literal import HOLE, Value
from ..dialects.schema import Argument
from ..dialects.tensor import TORCH_DTYPES
from .interpreter import Environment, InterpreterError


def run_aten(op: AtenOp, operands: Sequence[Any], env: Environment) -> tuple[Any, ...]:
    """The results of one op; a list of tensors is several. Raises InterpreterError for arguments that torch refuses,
    and IndexError for data that it does.
    """
    try:
        return call_overload(op, operands, env)
    except (RuntimeError, TypeError, ValueError) as error:
        place = describe_location(op.location)
        raise InterpreterError(f"{op.name}{f' ({place})' if place else ''}: torch says: {error}") from error


def call_overload(op: AtenOp, operands: Sequence[Any], env: Environment) -> tuple[Any, ...]:
    """As `run_aten`, with torch's own errors."""
    values = iter(operands)
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for a, template in zip(op.schema.args, op.templates(), strict=True):
        value = to_torch(template, a, env, values)
        if a.kwarg_only:
            kwargs[a.name] = value
        else:
            args.append(value)
    out = op.overload(*args, **kwargs)
    flat = list(_flatten(out))
    if len(flat) < len(op.results):  # what is undefined is left out of lists, None elsewhere
        flat.extend([None] * (len(op.results) - len(flat)))
    return tuple(flat) if op.results else ()


def to_torch(value: Value, a: Argument, env: Environment, operands: Any) -> Any:
    """A literal value as the Python object that torch takes; holes are filled from `operands`."""
    if value is HOLE:
        return next(operands)
    if type(value) is tuple:
        return [to_torch(v, a, env, operands) for v in value]
    if isinstance(value, sympy.Basic):
        return expr.evaluate(value, env.symbols)
    return word(value, a) if type(value) is str else value


def word(value: str, a: Argument) -> Any:
    """A word of a call as torch takes it: a dtype, a layout, a device, or the word."""
    if a.element == "ScalarType":
        return getattr(torch, TORCH_DTYPES[value])
    if a.element in ("Layout", "MemoryFormat"):
        return getattr(torch, value)
    return torch.device(value) if a.element == "Device" else value


def _flatten(out: Any) -> Any:
    if isinstance(out, (list, tuple)):
        for item in out:
            yield from _flatten(item)
    else:
        yield out
