"""A random program: Python source over torch, tensors and lines chosen one by one; and smaller variants of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F

from .fuzz_steps import STEPS
from .fuzz_values import MOVES, Chooser, Value, source

MODES = ("forward", "dynamic", "forward", "gradient", "dynamic")
"""With fixed sizes, with symbolic ones, with derivatives; as often as they are chosen."""


@dataclass(frozen=True)
class Step:
    """`name = text`; `rough`: the unit in the last place of a result that is no one number, else 0."""

    name: str
    text: str
    rough: float
    writes: bool


@dataclass(frozen=True)
class Program:
    """A function of tensors."""

    mode: str
    inputs: tuple[tuple[str, str], ...]
    """Names and expressions of the arguments."""
    steps: tuple[Step, ...]
    results: tuple[str, ...]

    def __str__(self) -> str:
        """As a function with its arguments."""
        made = [f"{name} = {text}" for name, text in self.inputs]
        return "\n".join([f"# {self.mode}", *made, self._code([f"{s.name} = {s.text}" for s in self.steps])])

    def _code(self, lines: Sequence[str]) -> str:
        names = ", ".join(name for name, _ in self.inputs)
        body = [*lines, f"return {', '.join(self.results)},"]
        return "\n".join([f"def program({names}):", *(f"    {line}" for line in body)])

    def arguments(self, dtype: torch.dtype | None = None) -> list[torch.Tensor]:
        """New tensors, floats in `dtype` if one is given."""
        made: list[torch.Tensor] = [eval(text, NAMES) for _, text in self.inputs]
        if dtype is not None:
            made = [t.to(dtype) if t.is_floating_point() else t for t in made]
        if self.mode == "gradient":
            made = [t.detach().requires_grad_() if t.is_floating_point() else t for t in made]
        return made

    def function(self) -> Callable[..., tuple[torch.Tensor, ...]]:
        return _defined(self._code([f"{s.name} = {s.text}" for s in self.steps]), NAMES)

    def disturbed(self, seed: int | None) -> Callable[..., tuple[torch.Tensor, ...]]:
        """The program in f64, with errors of one unit in the last place of the original dtype after each step that may
        have them; without, for seed None.
        """
        generator = None if seed is None else torch.Generator().manual_seed(seed)

        def disturb(x: torch.Tensor, unit: float) -> torch.Tensor:
            if generator is None:
                return x
            return x * (1.0 + unit * (torch.rand(x.shape, generator=generator, dtype=torch.float64) * 2.0 - 1.0))

        lines: list[str] = []
        for s in self.steps:
            lines.append(f"{s.name} = {s.text}")
            if s.rough and not s.writes:
                lines.append(f"{s.name} = disturb({s.name}, {s.rough})")
        code = self._code(lines)
        for name in ("float32", "float16", "bfloat16"):
            code = code.replace(f"torch.{name}", "torch.float64")
        return _defined(code, {**NAMES, "disturb": disturb})

    def run(self, f: Callable[..., tuple[torch.Tensor, ...]], inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """The results of `f`, a form of this program, with derivatives after them in mode "gradient"."""
        if self.mode != "gradient":
            with torch.no_grad():
                return list(f(*inputs))
        results = list(f(*inputs))
        wanted = [r for r in results if r.requires_grad]
        sources = [t for t in inputs if t.requires_grad]
        if wanted and sources:
            weights = [torch.ones_like(r) for r in wanted]
            found: Any = torch.autograd.grad(wanted, sources, weights, allow_unused=True)
            results += [t for t in found if t is not None]
        return [r.detach() for r in results]

    def smaller(self) -> Iterator[Program]:
        """Programs with less in them: one result, a step or an argument fewer."""
        if len(self.results) > 1:
            yield from (replace(self, results=(r,)) for r in self.results)
        for i in reversed(range(len(self.steps))):
            if (found := self._without(self.steps[i].name)) is not None:
                yield found
        for name, _ in self.inputs:
            if len(self.inputs) > 1 and not any(_uses(s.text, name) for s in self.steps) and name not in self.results:
                yield replace(self, inputs=tuple(x for x in self.inputs if x[0] != name))

    def _without(self, name: str) -> Program | None:
        """Without a step and what depends on it."""
        gone = {name}
        kept: list[Step] = []
        for s in self.steps:
            if s.name in gone or any(_uses(s.text, g) for g in gone):
                gone.add(s.name)
            else:
                kept.append(s)
        results = tuple(r for r in self.results if r not in gone) or tuple(s.name for s in kept[-1:])
        return replace(self, steps=tuple(kept), results=results) if results else None


def _uses(text: str, name: str) -> bool:
    return re.search(rf"\b{name}\b", text) is not None


def _defined(code: str, names: dict[str, Any]) -> Callable[..., tuple[torch.Tensor, ...]]:
    scope = dict(names)
    exec(code, scope)
    return scope["program"]


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def special(t: torch.Tensor) -> torch.Tensor:
    """With numbers among its elements that have rules of their own."""
    flat = t.flatten()
    for i, number in enumerate((float("nan"), float("inf"), -float("inf"), -0.0, 1e-40, 3e4)):
        flat[i * 3 + 1 : i * 3 + 2] = number
    return flat.reshape(t.shape)


NAMES: dict[str, Any] = {"torch": torch, "F": F, "seeded": seeded, "special": special}
"""What the text of programs may use."""


def generate(g: Chooser, least: int = 5, most: int = 30) -> Program:
    """A program of `least` to `most` steps, each run by eager as it is chosen."""
    mode = g.pick(MODES)
    inputs = [(f"x{i}", source(g)) for i in range(1 + g.below(3))]
    tensors: list[torch.Tensor] = [eval(text, NAMES) for _, text in inputs]
    values = [Value(name, t, True) for (name, _), t in zip(inputs, tensors, strict=True)]
    steps: list[Step] = []
    count = least + g.below(most - least + 1)
    for _ in range(4 * count):
        if len(steps) == count:
            break
        line = g.pick(STEPS)(g, values)
        if line is None or (line.writes and mode == "gradient"):
            continue
        try:
            result: Any = eval(line.text, {**NAMES, **{v.name: v.tensor for v in values}})
        except (RuntimeError, IndexError, TypeError, NotImplementedError, ValueError):
            continue
        if result.numel() > 1 << 14:
            continue
        exact = line.is_exact(result)
        rough = torch.finfo(result.dtype).eps if result.dtype.is_floating_point and not exact else 0.0
        steps.append(Step(f"v{len(steps)}", line.text, 0.0 if line.numbers is MOVES else rough, line.writes))
        values.append(Value(steps[-1].name, result, exact))
        if line.writes and not exact:
            for v in values:
                if v.tensor.untyped_storage().data_ptr() == result.untyped_storage().data_ptr():
                    v.exact = v.exact and not v.tensor.is_floating_point()
    made = values[len(inputs) :] or values
    results = [made[-1], *(g.pick(made) for _ in range(g.below(3)))]
    return Program(mode, tuple(inputs), tuple(steps), tuple(dict.fromkeys(v.name for v in results)))
