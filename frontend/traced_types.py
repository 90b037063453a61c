"""The types of traced values: fake tensors and symbolic numbers, as torch leaves them in `node.meta["val"]`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import sympy
import torch
from xdsl.dialects.builtin import NoneType
from xdsl.ir import Attribute

from ..dialects import expr
from ..dialects.schema import symbolic
from ..dialects.tensor import DTYPE_OF_TORCH, SymType, TensorType
from .torch_compat import is_plain_tensor


class NoType(Exception):
    """A value that no type describes."""


class TracedTypes:
    """Types of traced values; remembers the symbols and shape environments met."""

    def __init__(self) -> None:
        self.symbols: set[sympy.Symbol] = set()
        self.shape_envs: dict[int, Any] = {}
        self.devices: set[str] = set()

    def of(self, value: Any) -> Attribute:
        if isinstance(value, torch.Tensor):
            return self.tensor(value)
        if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            dtype = "i64" if isinstance(value, torch.SymInt) else "f64" if isinstance(value, torch.SymFloat) else "i1"
            return SymType.get(self.expression(value), dtype)
        if isinstance(value, bool):
            return SymType.get(int(value), "i1")
        if isinstance(value, int):
            return SymType.get(value)
        if isinstance(value, float):
            return SymType.get(sympy.Float(value), "f64")
        if value is None:
            return NoneType()
        raise NoType(f"a value of type {type(value).__name__} has no type here")

    def flat(self, value: Any) -> Iterator[Attribute]:
        """Types of the results of a call that was traced to `value`: none for None, `none` for a None among several."""
        if isinstance(value, (list, tuple)):
            for v in value:
                yield from (NoneType(),) if v is None else self.flat(v)
        elif value is not None:
            yield self.of(value)

    def tensor(self, value: torch.Tensor) -> TensorType:
        if not is_plain_tensor(value):
            what = "nested tensor" if value.is_nested else f"tensor of layout {value.layout}"
            raise NoType(f"a {what} has no type here")
        dtype = DTYPE_OF_TORCH.get(str(value.dtype)[6:])
        if dtype is None:
            raise NoType(f"dtype {value.dtype} has no type here")
        shape = [d if type(d) is int else self.expression(d) for d in value.shape]
        strides = [d if type(d) is int else self.expression(d) for d in value.stride()]
        device = "cpu" if value.device.type == "cpu" else str(value.device)
        self.devices.add(device)
        return TensorType.get(shape, dtype, strides, device)

    def expression(self, value: Any) -> Any:
        e = symbolic(value)
        if isinstance(e, sympy.Basic):
            self.symbols |= expr.symbols(e)
            shape_env = value.node.shape_env
            if shape_env is not None:
                self.shape_envs[id(shape_env)] = shape_env
        return e
