"""The error for inputs that a graph was not compiled for; the native checks only find out that there is one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from .metadata import Argument
from .runtime_support import find_layout, plain_keys


def explainer(arguments: Sequence[Argument]) -> Callable[[list[Any]], None]:
    """A function that raises the error for a list of inputs that the native checks refused."""

    def explain(inputs: list[Any]) -> None:
        check_inputs(arguments, inputs)
        raise TypeError("the inputs are not what the graph was compiled for")

    return explain


def check_inputs(arguments: Sequence[Argument], inputs: Sequence[Any]) -> None:
    """Raises TypeError or ValueError for the first input that is not what is expected."""
    if len(inputs) != len(arguments):
        raise TypeError(f"expected {len(arguments)} inputs, got {len(inputs)}")
    symbols: dict[str, tuple[Any, str]] = {}
    for argument, value in zip(arguments, inputs, strict=True):
        _explain_one(argument, value, symbols)
    for argument, value in zip(arguments, inputs, strict=True):
        _explain_sizes(argument, value, symbols)


def _explain_one(argument: Argument, value: Any, symbols: dict[str, tuple[Any, str]]) -> None:
    label = f"input '{argument.name}'"
    if argument.scalar is not None:
        kinds = {"i64": int, "f64": (int, float), "i1": (bool, int)}[argument.dtype or "i64"]
        if not isinstance(value, kinds) and not hasattr(value, "__index__"):
            raise TypeError(f"{label}: expected a number, got {type(value).__name__}")
        if argument.scalar.isidentifier():
            symbols.setdefault(argument.scalar, (value, label))
        return
    if argument.dtype is None:
        return
    if not isinstance(value, torch.Tensor):
        raise TypeError(f"{label}: expected a tensor, got {type(value).__name__}")
    from ..dialects.tensor import TORCH_DTYPES

    expected = TORCH_DTYPES[argument.dtype]
    if (value.device.type if argument.device == "cpu" else str(value.device)) != argument.device:
        on = "the cpu" if argument.device == "cpu" else argument.device
        raise TypeError(f"{label}: expected a tensor on {on}, got one on {value.device}")
    if value.layout != torch.strided:
        raise TypeError(f"{label}: expected a strided tensor, got layout {value.layout}")
    if value.dtype != getattr(torch, expected):
        raise TypeError(f"{label}: expected dtype {expected}, got {str(value.dtype)[6:]}")
    if value.is_conj() or value.is_neg():
        raise TypeError(f"{label}: expected a plain tensor, got one with a pending conjugation or negation")
    plain = find_layout().keys if argument.device == "cpu" else plain_keys(argument.device)
    if torch._C._dispatch_keys(value).raw_repr() & ~plain:
        raise TypeError(f"{label}: expected a plain tensor, got a {type(value).__name__}")
    if value.dim() != len(argument.shape):
        raise ValueError(f"{label}: expected {len(argument.shape)} dimensions, got shape {tuple(value.shape)}")
    for want, got in zip((*argument.shape, *(argument.strides or ())), (*value.shape, *value.stride()), strict=False):
        if isinstance(want, str) and want.isidentifier():
            symbols.setdefault(want, (got, label))


def _explain_sizes(argument: Argument, value: Any, symbols: dict[str, tuple[Any, str]]) -> None:
    from ..dialects import expr

    label = f"input '{argument.name}'"
    known = {name: int(number) for name, (number, _) in symbols.items() if isinstance(number, int)}

    def number(want: int | str) -> Any:
        if isinstance(want, int):
            return want
        try:
            return expr.evaluate(expr.parse(want), known)
        except KeyError:
            return None

    def said(want: int | str) -> str:
        return str(want) if isinstance(want, int) else f"{want} = {number(want)}"

    if argument.scalar is not None:
        if argument.dtype == "i64" and number(argument.scalar) not in (None, value):
            raise ValueError(f"{label}: expected {argument.scalar} = {number(argument.scalar)}, got {value}")
        return
    if argument.dtype is None:
        return
    if any(number(want) not in (None, got) for want, got in zip(argument.shape, value.shape, strict=True)):
        sizes = ", ".join(map(said, argument.shape))
        raise ValueError(f"{label}: expected sizes [{sizes}], got {list(value.shape)}")
    strides: Sequence[Any] = argument.strides or ()
    if argument.strides is None:
        strides = torch.empty(value.shape, device="meta").stride()
    differ = (
        size != 1 and number(want) not in (None, got)
        for want, got, size in zip(strides, value.stride(), value.shape, strict=True)
    )
    if value.numel() and any(differ):
        wanted = "contiguous strides" if argument.strides is None else "strides"
        raise ValueError(f"{label}: expected {wanted} [{', '.join(map(said, strides))}], got {list(value.stride())}")
