"""The outputs of a graph that its module does not return: None, numbers, and expressions over sizes of the inputs."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch._ops import OpOverload
from torch.utils._pytree import tree_leaves

if TYPE_CHECKING:
    import sympy

Binding: TypeAlias = tuple[str, int, int]
"""Where a symbol is found: ("value", input, 0), ("size", input, dim), ("stride", input, dim), ("offset", input, 0),
("result", result, 0) or ("result size", result, dim).
"""

_SOURCES = {
    **{"value": "a[{0}]", "size": "a[{0}].size({1})", "stride": "a[{0}].stride({1})"},
    "offset": "a[{0}].storage_offset()",
    **{"result": "r[{0}]", "result size": "r[{0}].size({1})"},
}

_RESULT = re.compile(r"\br\[\d+\]")
_INPUT = re.compile(r"\ba\[(\d+)\]")
_READ = re.compile(r"\ba\[\d+\](?:\.\w+\(\d+\))?")


@dataclass(frozen=True)
class Output:
    """One output of a graph, as Python source over `a` (the inputs) and `r` (the results of `@main`)."""

    source: str
    is_result: bool = False
    beside: int | None = None
    """An earlier result in whose memory this one lies."""

    @staticmethod
    def result(index: int, beside: int | None = None) -> Output:
        return Output(f"r[{index}]", True, beside)

    @staticmethod
    def seen_again(index: int, before: int, beside: int | None = None) -> Output:
        """A result that is a view of all of another one: `@main` may give one tensor for both."""
        return Output(f"another(r[{index}], r[{before}])", beside=beside)

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
        source = _printed(e)
        names = sorted(((s.name, known[s]) for s in e.free_symbols), reverse=True)  # pyright: ignore
        values = ", ".join(_SOURCES[kind].format(i, k) for _, (kind, i, k) in names)
        return Output(f"(lambda {', '.join(name for name, _ in names)}: {source})({values})")

    @staticmethod
    def view(
        base: str,
        like: torch.Tensor,
        numbers: tuple[Sequence[Any], Sequence[Any], Any],
        relative: bool,
        known: Mapping[sympy.Symbol, Binding],
        values: Mapping[sympy.Symbol, str],
        steps: Sequence[tuple[OpOverload, Any, int | None]] = (),
        anew: bool = True,
    ) -> Output:
        """A tensor in the memory of what the source `base` gives, with the dtype and marks of the (fake) tensor `like`:
        sizes, strides, and the offset, `relative` to where that begins. `values` are sources of symbols that are not
        `known`. Made by the views `steps` where these are known, of the base itself if nobody makes it `anew`.
        """
        sizes, strides, offset = numbers
        if steps:
            # No view itself: AOTAutograd makes them anew, as views of the base, of what they are views of here.
            made = f"{base}.detach()" if anew else base
            for op, args, part in steps:
                made = _called(op, made, args) + ("" if part is None else f"[{part}]")
            symbols = {s for _, args, _ in steps for value in tree_leaves(args) for s in symbols_of(value)}
        else:
            begin = f"{base}.storage_offset() + {_printed(offset)}" if relative else _printed(offset)
            lies = f"{_printed([*sizes])}, {_printed([*strides])}"
            made = f"within({base}, {like.dtype}, {lies}, {begin})"
            if like.is_conj() or like.is_neg():
                made = f"marked({base}, {like.dtype}, {like.is_conj()}, {like.is_neg()}, {lies}, {begin})"
            symbols = {s for n in (*sizes, *strides, offset) for s in symbols_of(n)}
        found = {s.name: values.get(s) or _SOURCES[known[s][0]].format(*known[s][1:]) for s in symbols}
        names = sorted(found)
        if not names:
            return Output(made)
        return Output(f"(lambda {', '.join(names)}: {made})({', '.join(found[n] for n in names)})")


def _called(op: OpOverload, source: str, args: Sequence[Any]) -> str:
    """An operator on what a source gives and other arguments, in the order of its schema."""
    names = [f"{a.name}=" if a.kwarg_only else "" for a in op._schema.arguments[1:]]
    return f"torch.ops.{op}({', '.join([source, *(f'{n}{_printed(v)}' for n, v in zip(names, args, strict=False))])})"


def symbols_of(value: Any) -> set[Any]:
    """The symbols in an expression, none in what is no expression."""
    return getattr(value, "free_symbols", set())


def _printed(value: Any) -> str:
    """The source of an expression, a number, a dtype, or lists of these."""
    if isinstance(value, (list, tuple)):
        items: Sequence[Any] = value
        return f"[{', '.join(map(_printed, items))}]"
    if not hasattr(value, "free_symbols"):
        return repr(value)
    from torch.utils._sympy.printers import PythonPrinter

    return PythonPrinter().doprint(value)


def within(base: torch.Tensor, dtype: torch.dtype, sizes: list[int], strides: list[int], offset: int) -> torch.Tensor:
    """A tensor in the memory of another one."""
    return torch.empty(0, dtype=dtype, device=base.device).set_(base.untyped_storage(), offset, sizes, strides)


def marked(
    base: torch.Tensor,
    dtype: torch.dtype,
    conj: bool,
    neg: bool,
    sizes: list[int],
    strides: list[int],
    offset: int,
) -> torch.Tensor:
    """Conjugates or negatives of what lies in the memory of another tensor, or the negatives of parts of its numbers:
    as views of a tensor like that one, which AOTAutograd makes of it again.
    """
    t = within(base, base.dtype, [*base.shape], [*base.stride()], int(base.storage_offset()))
    if base.is_complex() and not dtype.is_complex:
        t = torch.view_as_real(t)
    t = t.as_strided(sizes, strides, offset)
    t = t.conj() if conj else t
    return torch.ops.aten._neg_view(t) if neg else t


def another(t: torch.Tensor, before: torch.Tensor) -> torch.Tensor:
    """A tensor that is not the same object."""
    return t.detach() if t is before else t


def viewed(t: torch.Tensor, before: torch.Tensor) -> torch.Tensor:
    """A result as a view of another one whose memory it lies in, if it does: they count writes together."""
    if t.untyped_storage().data_ptr() != before.untyped_storage().data_ptr():
        return t
    if t.is_conj() or t.is_neg() or before.is_conj() or before.is_neg():
        return t
    if t.dtype is not before.dtype:
        unit = max(t.itemsize, before.itemsize)
        count = before.untyped_storage().nbytes() // unit * (unit // before.itemsize)
        before = before.as_strided((count,), (1,), 0).view(t.dtype)
    return before.as_strided(t.shape, t.stride(), t.storage_offset())


@dataclass(frozen=True)
class OutputRecipe:
    """The outputs of a graph, in order. Picklable."""

    outputs: Sequence[Output]

    @property
    def is_identity(self) -> bool:
        """The results of `@main` are the outputs."""
        return all(o.is_result and o.source == f"r[{i}]" for i, o in enumerate(self.outputs))

    def with_views(self) -> OutputRecipe:
        """Results in one memory are views of the first of them. For inference: with derivatives, AOTAutograd makes
        views of what a forward returns.
        """
        outputs = [o if o.beside is None else Output(f"viewed({o.source}, r[{o.beside}])") for o in self.outputs]
        return OutputRecipe(outputs)

    @property
    def inputs(self) -> set[int]:
        """The positions of inputs that outputs are made of without the module."""
        return {int(i) for o in self.outputs for i in _INPUT.findall(o.source)}

    def only_from(self, start: int) -> tuple[int, ...]:
        """The results of `@main` that are no outputs before position `start`."""
        before = {name for o in self.outputs[:start] for name in _RESULT.findall(o.source)}
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
        names = {"math": math, "torch": torch, "within": within, "marked": marked, "another": another, "viewed": viewed}
        before = eval(f"lambda a: [{', '.join(reads)}]", names)
        make = eval(f"lambda b, r: [{body}]", names)

        def call_and_make(inputs: list[Any]) -> Sequence[Any]:
            read = before(inputs)
            inputs.extend(held)
            return make(read, compiled(inputs))

        return call_and_make
