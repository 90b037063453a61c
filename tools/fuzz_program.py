"""A random program: Python source over torch, tensors and lines chosen one by one; and smaller variants of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F

from .fuzz_calls import WAYS, mode_of, turned, wider
from .fuzz_data import DATA, DTYPES, FLOW, RANDOM, cond, mapped, put, repeated, scanned, size_of
from .fuzz_sources import (
    LAYOUTS,
    argument,
    converted,
    odd,
    other_sizes,
    shared,
    sizes,
    whole_complex,
    wide_argument,
    widest,
)
from .fuzz_steps import STEPS
from .fuzz_used import HELPERS, USED
from .fuzz_values import MOVES, Chooser, Maker, Value, source
from .fuzz_wide import WIDE
from .fuzz_wide_writes import HELPERS as WRITTEN
from .fuzz_wide_writes import WIDE_WRITES
from .fuzz_writes import VIEWS, WRITES

MODES = ("forward", "dynamic", "forward", "gradient", "dynamic")
"""Graphs of AOTAutograd alone: with fixed sizes, with symbolic ones, with derivatives; as often as they are chosen."""

WHOLE = ("compile", "compile", "sizes", "train", "automatic", "fullgraph", "train sizes")
"""Through torch.compile, called again with other numbers: with fixed sizes, with symbolic ones at several sizes, with
derivatives, with those sizes symbolic that change, and by the fast entry.
"""


@dataclass(frozen=True)
class Step:
    """`name = text`; `rough`: the unit in the last place of a result that is no one number, else 0; `alias`: it lies in
    the memory of an operand.
    """

    name: str
    text: str
    rough: float
    writes: bool
    alias: bool = False


@dataclass(frozen=True)
class Program:
    """A function of tensors."""

    mode: str
    inputs: tuple[tuple[str, str], ...]
    """Names and expressions of the arguments."""
    steps: tuple[Step, ...]
    results: tuple[str, ...]

    sizes: tuple[tuple[tuple[str, int], ...], ...] = ((),)
    """What n and m are in each call."""
    owned: tuple[str, ...] = ()
    """Arguments that are parameters, or else buffers, of a module."""
    ways: tuple[str, ...] = ()
    """How each call is made, one of WAYS; "" where nothing is said."""

    def way(self, call: int) -> str:
        return self.ways[call] if call < len(self.ways) else ""

    def called(self, call: int) -> Program:
        """As it is at this call."""
        way = self.way(call)
        return replace(self, mode="train", ways=()) if way == "derivatives" else replace(self, ways=(way,))

    @property
    def through_dynamo(self) -> bool:
        return self.mode in WHOLE

    @property
    def differentiates(self) -> bool:
        return self.mode.startswith(("gradient", "train"))

    @property
    def draws(self) -> bool:
        """Whether it has random numbers."""
        return any(DRAWS.search(s.text) for s in self.steps)

    def __str__(self) -> str:
        """As a function with its arguments."""
        calls = [f"# {', '.join(f'{k} = {v}' for k, v in known)}" for known in self.sizes if known]
        owned = [f"# {', '.join(self.owned)} of a module"] if self.owned else []
        made = [f"{name} = {text}" for name, text in self.inputs]
        ways = [f"# called: {', '.join(w or 'plain' for w in self.ways)}"] if any(self.ways) else []
        return "\n".join([f"# {self.mode}", *calls, *ways, *owned, *made, self._code(self._lines())])

    def _lines(self) -> list[str]:
        return [f"{s.name} = {s.text}" for s in self.steps]

    def _code(self, lines: Sequence[str], owned: Sequence[str] = ()) -> str:
        given = [*(["self"] if owned else []), *(name for name, _ in self.inputs if name not in owned)]
        body = [*(f"{name} = self.{name}" for name in owned), *lines, f"return {', '.join(self.results)},"]
        return "\n".join([f"def program({', '.join(given)}):", *(f"    {line}" for line in body)])

    def arguments(self, call: int = 0, *, wide: bool = False, device: str = "cpu") -> list[torch.Tensor]:
        """New tensors for a call, floats of double precision if `wide`."""
        shift = 0 if any(CASTS.search(s.text) for s in self.steps) else 1000 * call
        known: dict[str, Any] = {**NAMES, "seeded": lambda seed: seeded(seed + shift), **dict(self.sizes[call])}
        made: list[torch.Tensor] = []
        for name, text in self.inputs:
            made.append(eval(text, known))
            known[name] = made[-1]
        way = self.way(call)
        made = turned(made) if way == "turned" else made
        if wide or device != "cpu" or self.through_dynamo:
            same = (lambda dtype: dtype) if way != "wide" else wider
            made = converted(made, device, widest if wide else same)
        if self.differentiates or way == "derivatives":
            made = [t.detach().requires_grad_() if self._is_source(name, t) else t for name, t in self._named(made)]
        return made

    def _named(self, tensors: Sequence[torch.Tensor]) -> Iterator[tuple[str, torch.Tensor]]:
        return ((name, t) for (name, _), t in zip(self.inputs, tensors, strict=True))

    def _is_source(self, name: str, t: torch.Tensor) -> bool:
        """Whether derivatives are asked for: of parameters, and of arguments that share no memory."""
        if self.mode == "gradient":
            return t.is_floating_point()
        if not (t.is_floating_point() or t.is_complex()) or t.itemsize == 1 or name.startswith("b"):
            return False
        text = dict(self.inputs)[name]
        return not any(_uses(text, n) or _uses(other, name) for n, other in self.inputs if n != name)

    def function(self, device: str = "cpu") -> Callable[..., tuple[torch.Tensor, ...]]:
        return _defined(_placed(self._code(self._lines()), device), NAMES)

    def module(
        self, tensors: Sequence[torch.Tensor], device: str = "cpu"
    ) -> tuple[torch.nn.Module, list[torch.Tensor]]:
        """The program as a module that owns some of its arguments, and the arguments, with those of the module."""
        forward = _defined(_placed(self._code(self._lines(), self.owned), device), NAMES)
        module = type("Owner", (torch.nn.Module,), {"forward": forward})()
        given: list[torch.Tensor] = []
        for name, t in self._named(tensors):
            if name in self.owned and (name.startswith("b") or not t.is_leaf):
                module.register_buffer(name, t)
            elif name in self.owned:
                t = torch.nn.Parameter(t, t.requires_grad)
                module.register_parameter(name, t)
            given.append(t)
        return module, given

    def passed(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Those that a caller passes."""
        return [t for name, t in self._named(tensors) if name not in self.owned]

    def disturbed(self, seed: int | None) -> Callable[..., tuple[torch.Tensor, ...]]:
        """The program in f64, with errors of one unit in the last place of the original dtype after each step that may
        have them; without, for seed None.
        """
        generator = None if seed is None else torch.Generator().manual_seed(seed)

        def disturb(x: torch.Tensor, unit: float, written: bool) -> torch.Tensor:
            if generator is None or (written and torch.is_grad_enabled()):
                return x
            noise = 1.0 + unit * (torch.rand(x.shape, generator=generator, dtype=torch.float64) * 2.0 - 1.0)
            return x.mul_(noise) if written else x * noise

        lines: list[str] = []
        for s in self.steps:
            text = s.text if s.alias else FLOATS.sub(r".to(torch.float64, copy=True)", s.text)
            lines.append(f"{s.name} = {text}")
            if s.rough and (s.writes or not s.alias):
                lines.append(f"{s.name} = disturb({s.name}, {s.rough}, {s.writes})")
        code = self._code(lines)
        for name in ("float32", "float16", "bfloat16"):
            code = code.replace(f"torch.{name}", "torch.float64")

        def halves(f: Callable[..., torch.Tensor], *tensors: torch.Tensor) -> torch.Tensor:
            return f(*(disturb(t, torch.finfo(torch.bfloat16).eps, False) for t in tensors))

        names = {**NAMES, "disturb": disturb, "autocast": halves}
        return _defined(code.replace("torch.complex64", "torch.complex128"), names)

    def run(self, f: Callable[..., tuple[torch.Tensor, ...]], inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """The results of `f`, a form of this program, with derivatives after them where it has them. Random numbers are
        the same each time.
        """
        if self.through_dynamo:
            torch.manual_seed(0)
        return self.derived(lambda: f(*inputs), inputs)

    def derived(self, call: Callable[[], Sequence[torch.Tensor]], inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        if not self.differentiates:
            with torch.no_grad(), mode_of(self.way(0)):
                return list(call())
        results = list(call())
        wanted = [r for r in results if r.requires_grad]
        sources = [t for t in inputs if t.requires_grad]
        if wanted and sources:
            found: Any = torch.autograd.grad(wanted, sources, [weights(r) for r in wanted], allow_unused=True)
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
            texts = [s.text for s in self.steps] + [text for _, text in self.inputs]
            if len(self.inputs) > 1 and not any(_uses(text, name) for text in texts) and name not in self.results:
                yield replace(self, inputs=tuple(x for x in self.inputs if x[0] != name))
        for name in self.owned:
            yield replace(self, owned=tuple(n for n in self.owned if n != name))
        if len(self.sizes) > 1:
            yield replace(self, sizes=self.sizes[:1], ways=self.ways[:1])
        for i in range(len(self.ways)):
            if self.ways[i]:
                yield replace(self, ways=(*self.ways[:i], "", *self.ways[i + 1 :]))

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


DRAWS = re.compile(r"rand|bernoulli|dropout|uniform_|normal|exponential_")
CASTS = re.compile(r"\.to\(torch\.(u?int|float8)")
"""What would be undefined of other numbers than those that were looked at."""
FLOATS = re.compile(r"\.to\(torch\.(float32|float64|bfloat16|float16)\)")


def _placed(code: str, device: str) -> str:
    """The code with its constants on the device."""
    return (
        code
        if device == "cpu"
        else re.sub(r"torch\.tensor\((\[[^\]]*\])\)", rf"torch.tensor(\1, device='{device}')", code)
    )


def _defined(code: str, names: dict[str, Any]) -> Callable[..., tuple[torch.Tensor, ...]]:
    scope = dict(names)
    exec(code, scope)
    return scope["program"]


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def weights(t: torch.Tensor) -> torch.Tensor:
    """What a gradient of `t` begins with, exact in each dtype; where it is 1 everywhere, faults cancel."""
    chosen = torch.randint(-8, 8, t.shape, generator=seeded(0)) / 4 + 0.125
    return chosen.to(t.device, t.dtype)


def special(t: torch.Tensor) -> torch.Tensor:
    """With numbers among its elements that have rules of their own."""
    flat = t.flatten()
    for i, number in enumerate((float("nan"), float("inf"), -float("inf"), -0.0, 1e-40, 3e4)):
        flat[i * 3 + 1 : i * 3 + 2] = number
    return flat.reshape(t.shape)


NAMES: dict[str, Any] = {
    **{"torch": torch, "F": F, "seeded": seeded, "special": special, "odd": odd, "whole_complex": whole_complex},
    **{"put": put, "size_of": size_of, "cond": cond, "repeated": repeated, "scanned": scanned, "mapped": mapped},
    **HELPERS,
    **LAYOUTS,
    **WRITTEN,
}
"""What the text of programs may use."""

CALLS = 4
"""Of a program that is called in several ways."""

MORE: tuple[Maker, ...] = (*STEPS, *WRITES, *VIEWS, *DTYPES, *USED)


def generate(g: Chooser, least: int = 5, most: int = 30) -> Program:
    """A program of `least` to `most` steps, each run by eager as it is chosen."""
    mode = g.pick(MODES)
    inputs = [(f"x{i}", source(g)) for i in range(1 + g.below(3))]
    return _generated(g, Program(mode, tuple(inputs), (), ()), STEPS, least + g.below(most - least + 1))


def generate_whole(g: Chooser, least: int = 5, most: int = 30, *, wide: bool = False) -> Program:
    """A program as `generate` makes it, of what torch.compile takes: arguments that share memory or belong to a module,
    sizes that change, writes, sizes of data, random numbers, control flow, and all dtypes; if `wide`, of more functions
    and ways to write, with arguments that lie in more ways.
    """
    torch.manual_seed(0)
    mode = g.pick(WHOLE)
    base = sizes(g)
    later = [other_sizes(g, base) for _ in range(2)] if mode in ("sizes", "automatic", "train sizes") else [base]
    inputs: list[tuple[str, str]] = []
    owned: list[str] = []
    values: list[Value] = []
    for i in range(1 + g.below(4)):
        of_module = i > 0 and g.below(4) == 0
        if values and g.below(3) == 0:
            of_module, text = False, shared(g, g.pick(values))
        else:
            text = (wide_argument if wide else argument)(g, base, of_module)
        name = f"{g.pick('bp') if of_module else 'x'}{i}"
        tensor = eval(text, {**NAMES, **base, **{v.name: v.tensor for v in values}})
        if name[0] == "p" and not (tensor.is_floating_point() and tensor.itemsize > 1):
            name = f"b{i}"
        inputs.append((name, text))
        values.append(Value(name, tensor, True))
        owned += [name] if of_module else []
    calls = tuple(tuple(known.items()) for known in (base, *later))
    steps = (*WIDE, *WIDE_WRITES, *WIDE_WRITES, *MORE) if wide else MORE
    for group in (DATA, RANDOM, FLOW):
        steps += group if g.below(3) == 0 else ()
    whole = Program(mode, tuple(inputs), (), (), calls, tuple(owned))
    made = _generated(g, whole, steps, least + g.below(most - least + 1))
    try:
        made.run(made.function(), made.arguments())
    except Exception:  # autograd does not take all that is written, nor views whose sizes changed in place
        return replace(made, mode="compile")
    return made


def generate_called(g: Chooser, *, wide: bool = False) -> Program:
    """A program as `generate_whole` makes it, called in several ways."""
    program = generate_whole(g, wide=wide)
    sizes = [*program.sizes, *[program.sizes[-1]] * (CALLS - len(program.sizes))]
    return replace(program, sizes=tuple(sizes), ways=("", *(g.pick(WAYS) for _ in sizes[1:])))


def _generated(g: Chooser, program: Program, makers: Sequence[Maker], count: int) -> Program:
    """With `count` steps and some results."""
    mode, inputs = program.mode, program.inputs
    with torch.set_grad_enabled(mode.startswith("train")):
        tensors = program.arguments() if program.through_dynamo else [eval(text, NAMES) for _, text in inputs]
        values = [Value(name, t, True) for (name, _), t in zip(inputs, tensors, strict=True)]
        steps: list[Step] = []
        for _ in range(4 * count):
            if len(steps) == count:
                break
            line = g.pick(makers)(g, values)
            if line is None or (line.writes and mode == "gradient"):
                continue
            try:
                result: Any = eval(line.text, {**NAMES, **{v.name: v.tensor for v in values}})
            except (RuntimeError, IndexError, TypeError, NotImplementedError, ValueError):
                continue
            if result.numel() > 1 << 14:
                continue
            exact = line.is_exact(result)
            # half floats may be rounded where they are moved to, and not elsewhere
            moves = line.numbers is MOVES and not (result.is_floating_point() and result.itemsize == 2)
            rough = 0.0 if exact or moves else _unit(result)
            alias = any(_memory(v.tensor) == _memory(result) for v in line.operands) and result.numel() > 0
            steps.append(Step(f"v{len(steps)}", line.text, rough, line.writes, alias))
            values.append(Value(steps[-1].name, result, exact))
            if line.writes and not exact:
                for v in values:
                    if _memory(v.tensor) == _memory(result):
                        v.exact = v.exact and not (v.tensor.is_floating_point() or v.tensor.is_complex())
        made = values[len(inputs) :] or values
        whole = program.through_dynamo
        results = [made[-1], *(g.pick(made) for _ in range(g.below(5 if whole else 3)))]
        if whole and g.chance(4):
            results.append(g.pick(values))
        # random numbers that nobody reads are not drawn
        results += [v for v, s in zip(made, steps, strict=False) if whole and DRAWS.search(s.text)]
        return replace(program, steps=tuple(steps), results=tuple(dict.fromkeys(v.name for v in results)))


def _memory(t: torch.Tensor) -> int:
    return t.untyped_storage().data_ptr()


def _unit(t: torch.Tensor) -> float:
    return torch.finfo(t.dtype).eps if t.is_floating_point() or t.is_complex() else 0.0
