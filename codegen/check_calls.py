"""Whether calls of ATen are what torch would accept: each is made on tensors without data, as its types describe them.

What a verifier knows of an operator is its schema. How sizes and dtypes of operands make those of results, and which
dims there are, torch's fake tensors say. Strides are not compared: fake ones are not exact.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch._subclasses import fake_tensor
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
    UnsupportedOperatorException,
)
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute

from ..dialects import expr
from ..dialects.aten import AtenOp
from ..dialects.errors import LamellaVerifyError
from ..dialects.hints import size_hints
from ..dialects.literal import Literal
from ..dialects.symbol_kinds import SIGNED, symbol_kind
from ..dialects.tensor import TORCH_DTYPES, SymType, TensorType
from .interpret_aten import call_overload
from .interpreter import Environment

_DEPENDS_ON_DATA = frozenset({"data_dependent_output", "dynamic_output_shape"})
_UNKNOWN = (
    *(DataDependentOutputException, DynamicOutputShapeException, UnsupportedOperatorException),
    *(NotImplementedError, MemoryError),
)
_NO_FUNCTION = re.compile(r"\b(?:meta|fake|not compiled with)\b", re.IGNORECASE)
"""What torch says where it has no function that needs no data."""
_GUESSES: tuple[Sequence[int], ...] = ((5040, 10080, 15120, 20160), (8, 16, 24, 32), (2, 3, 4, 5), (2, 2, 2, 2))
"""Sizes to try where the module has no hints. A call is wrong if it fails for all of them."""


def check_calls(module: ModuleOp) -> None:
    """Raises LamellaVerifyError for the first call of ATen in `module` that no sizes make right."""
    environment = Environment(module)
    hints = size_hints(module)
    known: dict[Any, str] = {}
    with _without_log(), FakeTensorMode():
        for op in module.walk():
            if not isinstance(op, AtenOp):
                continue
            key = (op.name, tuple(op.properties.items()), tuple(v.type for v in op.operands), tuple(op.result_types))
            if key not in known:
                known[key] = _complaint(op, environment, hints)
            if known[key]:
                raise LamellaVerifyError(op, known[key])


@contextmanager
def _without_log() -> Generator[None]:
    """torch logs what its fake tensors refuse, with a traceback."""
    log = logging.getLogger(fake_tensor.__name__)
    before, log.disabled = log.disabled, True
    try:
        yield
    finally:
        log.disabled = before


def _complaint(op: AtenOp, environment: Environment, hints: Mapping[str, int]) -> str:
    """What is wrong with a call; "" if nothing is, or that cannot be known without data."""
    types = [*(v.type for v in op.operands), *op.result_types]
    if op.schema.tags & _DEPENDS_ON_DATA or not all(isinstance(t, TensorType) for t in op.result_types):
        return ""
    symbols = sorted({s.name for e in _expressions(op, types) for s in expr.symbols(e)})
    are_sizes = not any(symbol_kind(name) in SIGNED for name in symbols)
    complaints: list[str] = []
    for sizes in _assignments(symbols, hints):
        environment.symbols = dict(sizes)
        complaint = _complaint_at(op, environment, are_sizes)
        if not complaint:
            return ""
        complaints.append(complaint)
    return complaints[0]


def _assignments(symbols: Sequence[str], hints: Mapping[str, int]) -> Iterator[Mapping[str, int]]:
    if all(name in hints for name in symbols):
        yield {name: hints[name] for name in symbols}
        return
    for guess in _GUESSES:
        yield {name: guess[i % len(guess)] for i, name in enumerate(symbols)}


def _complaint_at(op: AtenOp, environment: Environment, are_sizes: bool) -> str:
    """The same for sizes. Of symbols that are not known to be any, only ranks and dtypes of results are told."""
    try:
        operands = [_stand_in(v.type, environment) for v in op.operands]
        results = call_overload(op, operands, environment)
    except _UNKNOWN:
        return ""
    except Exception as error:  # operators refuse arguments in many ways
        message = next(iter(str(error).splitlines()), "") or type(error).__name__
        return "" if not are_sizes or _NO_FUNCTION.search(message) else f"torch refuses this call: {message}"
    for i, (result, type_) in enumerate(zip(results, op.result_types, strict=False)):
        if not isinstance(result, torch.Tensor) or not isinstance(type_, TensorType):
            continue
        sizes = [environment.evaluate(d) for d in type_.shape]
        same = list(result.shape) == sizes if are_sizes else result.dim() == len(sizes)
        if not same or result.dtype is not _dtype(type_):
            made = f"sizes {list(result.shape)} and dtype {str(result.dtype)[6:]}"
            at = f" for {environment.symbols}" if environment.symbols else ""
            return f"result #{i} has type {type_}, but torch makes {made}{at}"
    return ""


def _stand_in(type_: Attribute, environment: Environment) -> Any:
    """A tensor without data, or a number, of that type."""
    if isinstance(type_, SymType):
        return environment.evaluate(type_.expr)
    if not isinstance(type_, TensorType):
        return None
    sizes = [environment.evaluate(d) for d in type_.shape]
    strides = [environment.evaluate(d) for d in type_.strides]
    return torch.empty_strided(sizes, strides, dtype=_dtype(type_), device=type_.device)


def _dtype(type_: TensorType) -> torch.dtype:
    return getattr(torch, TORCH_DTYPES[type_.dtype])


def _expressions(op: AtenOp, types: Sequence[Attribute]) -> Iterator[Any]:
    for type_ in types:
        if isinstance(type_, TensorType):
            yield from (*type_.shape, *type_.strides)
        elif isinstance(type_, SymType):
            yield type_.expr
    for literal in op.properties.values():
        if isinstance(literal, Literal):
            yield from _symbolic(literal.value)


def _symbolic(value: Any) -> Iterator[Any]:
    if isinstance(value, tuple):
        for item in value:
            yield from _symbolic(item)
    elif hasattr(value, "free_symbols"):
        yield value
