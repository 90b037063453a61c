"""The outputs of a graph that its module does not return: None, numbers, and expressions over sizes of the inputs."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import torch

if TYPE_CHECKING:
    import sympy

Binding: TypeAlias = tuple[str, int, int]
"""Where a symbol is found: ("value", input, 0), ("size", input, dim), ("stride", input, dim), ("result", result, 0) or
("result size", result, dim).
"""

_SOURCES = {
    **{"value": "a[{0}]", "size": "a[{0}].size({1})", "stride": "a[{0}].stride({1})"},
    **{"result": "r[{0}]", "result size": "r[{0}].size({1})"},
}

_READ = re.compile(r"\ba\[\d+\](?:\.\w+\(\d+\))?")


@dataclass(frozen=True)
class Output:
    """One output of a graph, as Python source over `a` (the inputs) and `r` (the results of `@main`)."""

    source: str
    is_result: bool = False

    @staticmethod
    def result(index: int) -> Output:
        return Output(f"r[{index}]", True)

    @staticmethod
    def argument(index: int) -> Output:
        return Output(f"a[{index}]")

    @staticmethod
    def constant(value: bool | int | float | complex | str | None) -> Output:
        if isinstance(value, (float, complex)):
            return Output(f"{type(value).__name__}({str(value)!r})")
        return Output(repr(value))

    @staticmethod
    def expression(e: sympy.Basic, known: Mapping[sympy.Symbol, Binding]) -> Output:
        from torch.utils._sympy.printers import PythonPrinter

        source = PythonPrinter().doprint(e)
        names = sorted(((s.name, known[s]) for s in e.free_symbols), reverse=True)  # pyright: ignore
        values = ", ".join(_SOURCES[kind].format(i, k) for _, (kind, i, k) in names)
        return Output(f"(lambda {', '.join(name for name, _ in names)}: {source})({values})")


@dataclass(frozen=True)
class OutputRecipe:
    """The outputs of a graph, in order. Picklable."""

    outputs: Sequence[Output]

    @property
    def is_identity(self) -> bool:
        """The results of `@main` are the outputs."""
        return all(o.is_result and o.source == f"r[{i}]" for i, o in enumerate(self.outputs))

    def only_from(self, start: int) -> tuple[int, ...]:
        """The results of `@main` that are no outputs before position `start`."""
        before = {o.source for o in self.outputs[:start]}
        return tuple(int(o.source[2:-1]) for o in self.outputs[start:] if o.is_result and o.source not in before)

    def wrap(
        self, compiled: Callable[[list[Any]], Sequence[Any]], constants: Sequence[Any] = ()
    ) -> Callable[[list[Any]], Sequence[Any]]:
        """A boxed callable: appends `constants` to the inputs, calls, and makes the outputs. Clears the list it is
        given.
        """
        held = list(constants)
        if self.is_identity:

            def call(inputs: list[Any]) -> Sequence[Any]:
                inputs.extend(held)
                return compiled(inputs)

            return call if held else compiled
        # What comes from the inputs is read before the call: it must not keep them alive.
        reads: dict[str, int] = {}
        body = ", ".join(
            _READ.sub(lambda m: f"b[{reads.setdefault(m[0], len(reads))}]", o.source) for o in self.outputs
        )
        names = {"math": math, "torch": torch}
        before = eval(f"lambda a: [{', '.join(reads)}]", names)
        make = eval(f"lambda b, r: [{body}]", names)

        def call_and_make(inputs: list[Any]) -> Sequence[Any]:
            read = before(inputs)
            inputs.extend(held)
            return make(read, compiled(inputs))

        return call_and_make
