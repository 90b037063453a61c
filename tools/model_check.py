"""One model through torch.compile and the whole compiler, against eager: values, gradients, graphs, calls and time."""

from __future__ import annotations

import copy
import statistics
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch._dynamo.testing import CompileCounterWithBackend
from torch.utils import _pytree as pytree

from ..driver import compile_module
from ..frontend.backend import Backend, Event
from ..lowering.options import Options
from ..lowering.report import READ, SEEDS, VIEW
from .op_check import NEARBY, VERSION
from .op_compare import Mismatch, compare
from .zoo import Case

MODES = ("infer", "train", "dynamic")
"""Inference; outputs with the gradients of all parameters; inference with symbolic sizes, at several sizes."""

STATUSES = ("right", "eager", "wrong", "error", "torch", "refused")
"""Compiled and right; some graph was given back to torch; another result than eager's; our exception, a crash or a
hang; the same fault without our compiler; eager does not take the model.
"""

WITHOUT_FAULT = ("right", "eager", "torch", "refused")

ROUNDS = 7
"""How often eager and compiled calls are timed, in turns."""


@dataclass
class Outcome:
    """What became of a model in a mode with a dtype."""

    library: str
    model: str
    mode: str
    dtype: str
    status: str = "right"
    reason: str = ""
    graphs: int = 0
    """Graphs that TorchDynamo made."""
    breaks: list[str] = field(default_factory=list[str])
    """Why TorchDynamo ended graphs, `reason` and place."""
    recompiled: int = 0
    """How many more graphs were made after the first call than torch makes without our compiler."""
    operators: int = 0
    kernels: int = 0
    calls: dict[str, int] = field(default_factory=dict[str, int])
    """Operators left as calls into ATen, and how many calls."""
    compile_s: float = 0.0
    """CPU seconds of the first call."""
    eager_ms: float = 0.0
    """CPU milliseconds of eager's call, one thread."""
    ratio: float = 0.0
    """Eager's time by ours."""
    torch: str = VERSION

    @property
    def json(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def key(self) -> tuple[str, str, str, str]:
        return self.library, self.model, self.mode, self.dtype

    def fail(self, status: str, reason: str) -> Outcome:
        self.status, self.reason = status, " ".join(reason.split())[:1200]
        return self


def check(outcome: Outcome, load: Callable[[], Case], *, timed: bool = True) -> Outcome:
    """Fill in the outcome of a model that `load` makes. Raises nothing a model can cause."""
    dtype = getattr(torch, outcome.dtype)
    torch._dynamo.reset()
    try:
        case = load()
        program = Program(case, outcome.mode, dtype)
        expected = [program(k) for k in program.sizes]
    except Exception as error:  # whatever a library raises
        return outcome.fail("refused", described(error))
    try:
        _check(outcome, program, expected, timed)
    except Exception as ours:
        status = "wrong" if isinstance(ours, Mismatch) else "error"
        outcome.fail(status, str(ours) if status == "wrong" else described(ours))
        torch._dynamo.reset()
        try:
            program.compare("aot_eager", expected)
        except Exception as theirs:
            outcome.fail("torch", f"{described(theirs)} (with ours: {outcome.reason})")
    finally:
        torch._dynamo.reset()
    return outcome


def _check(outcome: Outcome, program: Program, expected: Sequence[Any], timed: bool) -> None:
    events: list[Event] = []
    breaks: list[str] = []
    random = "eager" if program.random else "philox"
    backend = Backend(Options(cache=False, strict=True, random=random), compile_module, watch=events.append)
    made = 0

    def note(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        nonlocal made
        made += 1
        if (reason := getattr(graph, "compile_subgraph_reason", None)) is not None and reason.graph_break:
            place = f"{reason.user_stack[-1].filename}:{reason.user_stack[-1].lineno}" if reason.user_stack else "?"
            breaks.append(f"{reason.reason.strip().splitlines()[0]} ({place})")
        return backend(graph, inputs)

    began = time.process_time()

    def first() -> None:
        outcome.graphs, outcome.compile_s = made, round(time.process_time() - began, 2)

    compiled = program.compare(note, expected, first)
    later = made - outcome.graphs
    outcome.breaks = list(dict.fromkeys(breaks))
    for event in events:
        outcome.operators += sum(event.operators.values())
        if event.compilation is None:
            outcome.fail("eager", event.reason)
            continue
        outcome.kernels += len(event.compilation.kernels)
        counts = Counter(c.name for c in event.compilation.calls if c.reason not in (READ, SEEDS, VIEW))
        outcome.calls = dict(Counter(outcome.calls) + counts)
    if timed:
        ours, eager = times([partial(program, 0, compiled), partial(program, 0)])
        outcome.eager_ms, outcome.ratio = round(1e3 * eager, 3), round(eager / ours, 3)
    if later:  # a model may fix its sizes
        torch._dynamo.reset()
        counter = CompileCounterWithBackend("aot_eager")
        program.compare(counter, expected)
        outcome.recompiled = max(0, made - counter.frame_count)


class Program:
    """A model as a function of the number of its inputs' size: its outputs and, in training, gradients."""

    def __init__(self, case: Case, mode: str, dtype: torch.dtype) -> None:
        self.case = case
        self.mode = mode
        self.dtype = dtype
        self.sizes = range(3) if mode == "dynamic" else range(1)
        self.model = case.model.to(dtype).train(mode == "train")
        outputs = [pytree.tree_leaves(self(0, seed=seed)) for seed in (1, 2)]
        pairs = zip(*outputs, strict=True)
        self.random = any(isinstance(a, Tensor) and not torch.equal(a, b) and not a.isnan().any() for a, b in pairs)

    def __call__(
        self, k: int, function: Callable[..., Any] | None = None, *, seed: int = 1, model: Any = None, dtype: Any = None
    ) -> Any:
        """What `function`, or `model`, or else this one's, makes of the k-th inputs."""
        model = self.model if model is None else model
        dtype = self.dtype if dtype is None else dtype
        inputs = pytree.tree_map(lambda t: t.to(dtype) if _floats(t) else t, self.case.inputs(k))
        seeded(seed)
        with torch.set_grad_enabled(self.mode == "train"):
            outputs = self.case.outputs((model if function is None else function)(**inputs))
            if self.mode != "train":
                return outputs
            parameters = [p for p in model.parameters() if p.requires_grad]
            wanted = [t for t in outputs if t.requires_grad]
            generator = torch.Generator().manual_seed(2)
            weights = [torch.rand(t.shape, generator=generator, dtype=torch.float64).to(t) for t in wanted]
            gradients = torch.autograd.grad(wanted, parameters, weights, allow_unused=True)
            return [t.detach() for t in outputs], gradients

    def compare(self, backend: Any, expected: Sequence[Any], after_first: Callable[[], None] = lambda: None) -> Any:
        """The compiled model. Raises Mismatch, or what compiling raises."""
        compiled = torch.compile(self.model, backend=backend, dynamic=self.mode == "dynamic")
        for k, wanted in zip(self.sizes, expected, strict=True):
            got = self(k, compiled)
            if k == 0:
                after_first()
            exact, nearby = partial(self.exact, k), partial(self.nearby, k)
            strides = self.mode != "train"
            compare(got, wanted, values=True, exact=exact, nearby=nearby, what=f"size {k} result", strides=strides)
        if len(self.sizes) == 1:
            self(0, compiled)
        return compiled

    def exact(self, k: int) -> list[Any]:
        """The results in float64."""
        model = self.case.wide(copy.deepcopy(self.model))
        return pytree.tree_leaves(self(k, model=model, dtype=torch.float64))

    def nearby(self, k: int) -> Iterator[list[Any]]:
        """Eager's results where parameters are off by up to half a unit in the last place."""
        for seed in range(NEARBY):
            model, generator = copy.deepcopy(self.model), torch.Generator().manual_seed(seed)
            with torch.no_grad():
                for p in filter(_floats, model.parameters()):
                    p *= 1 + (torch.rand(p.shape, generator=generator) - 0.5).to(p) * torch.finfo(p.dtype).eps
            yield pytree.tree_leaves(self(k, model=model))


def _floats(value: Any) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point()


def seeded(seed: int) -> None:
    """Every generator that models draw from."""
    import random

    import numpy

    torch.manual_seed(seed)
    numpy.random.seed(seed)
    random.seed(seed)


def times(functions: Sequence[Callable[[], Any]]) -> list[float]:
    """CPU seconds of a call of each, medians of calls in turns."""
    found: list[list[float]] = [[] for _ in functions]
    for _ in range(ROUNDS):
        for function, seconds in zip(functions, found, strict=True):
            began = time.thread_time()
            function()
            seconds.append(time.thread_time() - began)
    return [statistics.median(seconds) for seconds in found]


def described(error: Exception) -> str:
    where = traceback.extract_tb(error.__traceback__)[-1]
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:500]} ({where.filename.rpartition('/')[2]}:{where.lineno})"
