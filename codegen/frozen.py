"""Graphs whose parameters are frozen: what is made of these alone is made at the first call, and again when one has
changed.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

Run = Callable[[list[Any]], Sequence[Any]]


class EagerModule:
    """A module of ATen calls, run by torch one by one: `@kept` runs once. Picklable."""

    def __init__(self, module: ModuleOp | str) -> None:
        self.module = module
        """Or its text, until it is run."""

    def __call__(self, inputs: list[Any]) -> list[Any]:
        from xdsl.dialects.func import FuncOp

        from ..dialects.text import parse_module
        from .interpreter import run_module

        if isinstance(self.module, str):
            self.module = parse_module(self.module)
        results = run_module(self.module, inputs)
        main = next(f for f in self.module.ops if isinstance(f, FuncOp))
        return [_laid_out(t, type) for t, type in zip(results, main.function_type.outputs.data, strict=True)]

    def __getstate__(self) -> str:
        from ..dialects.text import print_module

        return self.module if isinstance(self.module, str) else print_module(self.module)

    def __setstate__(self, text: str) -> None:
        self.__init__(text)


def _laid_out(t: torch.Tensor, type: Any) -> torch.Tensor:
    """The tensor with the strides that its type says; one in oneDNN's layout as it is."""
    if t.layout is not torch.strided or t.stride() == type.strides:
        return t
    return torch.empty_strided(t.shape, type.strides, dtype=t.dtype, device=t.device).copy_(t)


class FrozenGraph:
    """`main`, whose trailing inputs `kept` makes of the inputs at `positions`. Picklable without them.

    A tensor has changed when it is another one, or lies elsewhere, or torch has counted a write to it. Writes through
    `Tensor.data` are not counted. Tensors of inference mode count none: of such ones nothing is kept.
    """

    def __init__(self, main: Run, kept: Run, positions: Sequence[int]) -> None:
        self.main, self.kept, self.positions = main, kept, tuple(positions)
        self.made = 0
        """How often `kept` was called."""
        self._lock = threading.Lock()
        self._known: tuple[list[tuple[int, Any, int, int]], list[Any]] | None = None
        """What was seen of each input, and the values made of them."""

    def __call__(self, inputs: list[Any]) -> Sequence[Any]:
        known = self._known
        if known is None or _has_changed(inputs, known[0]):
            inputs += self._make(inputs)
        else:
            inputs += known[1]
        return self.main(inputs)

    def _make(self, inputs: Sequence[Any]) -> list[Any]:
        """The values; they are known from now on."""
        with self._lock:
            given = [inputs[p] for p in self.positions]
            self.made += 1
            if any(t.is_inference() for t in given):
                return list(self.kept(given))
            pairs = zip(self.positions, given, strict=True)
            seen = [(p, weakref.ref(t), t._version, t.data_ptr()) for p, t in pairs]
            values = list(self.kept(given))
            self._known = seen, values
            return values

    def __getstate__(self) -> tuple[Any, ...]:
        return self.main, self.kept, self.positions

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.__init__(*state)


def _has_changed(inputs: Sequence[Any], seen: Sequence[tuple[int, Any, int, int]]) -> bool:
    for position, known, version, address in seen:
        t = inputs[position]
        if t is not known() or t._version != version or t.data_ptr() != address:
            return True
    return False
