"""What became of a program: its graphs, where and why they break, guards, kernels, and what stays a call into ATen."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch.fx import GraphModule

from ..lowering.kernel_story import KernelStory
from ..lowering.options import Options
from ..lowering.origins import Call
from ..lowering.report_page import count, graph_section, listing, page
from .backend import Backend, Compile, Event
from .timing import sentence, timed


@dataclass(frozen=True)
class Break:
    """A place where TorchDynamo ended a graph."""

    reason: str
    line: str
    """`file:line` of the user's code."""

    def __str__(self) -> str:
        return f"{self.line}: {self.reason}"


@dataclass(frozen=True)
class GraphReport:
    """One ATen graph: inference, or the forward or backward half of training."""

    kind: str
    operators: dict[str, int]
    """How often each ATen operator is called in the imported graph."""
    kernels: list[dict[str, Any]]
    """One record per kernel, as in `kernels.json`: name, launches, ops, lines, bytes, flops."""
    calls: list[Call]
    """Operators that stay calls into ATen, with source line and reason."""
    decisions: list[str]
    """Fusion decisions with their costs."""
    stories: list[KernelStory]
    """Each kernel at every level."""
    reason: str
    """Why the graph runs eagerly; "" if it was compiled."""
    partition: list[str] = field(default_factory=list)
    """Of a forward: what it saves for the backward, and what that computes again, with bytes."""
    recording: str = ""
    """Of a graph on a GPU: whether it is recorded as a CUDA graph, and why not."""
    times: dict[str, float] = field(default_factory=dict[str, float])
    """Milliseconds that compiling took, by step; what `explain` notes of each kernel is in the last."""

    def __str__(self) -> str:
        return "\n".join(self._lines())

    @property
    def title(self) -> str:
        return f"{self.kind.capitalize()} graph: {count(sum(self.operators.values()), 'ATen operator')}"

    def html(self, anchor: str = "g") -> str:
        """The part of the page about this graph."""
        return graph_section(
            self.title,
            self.kernels,
            self.calls,
            self.decisions,
            self.stories,
            anchor=anchor,
            note=f"Runs eagerly: {self.reason}" if self.reason else "",
            partition=[*filter(None, [self.recording, *self._times()]), *self.partition],
        )

    def _times(self) -> list[str]:
        return [f"compiled in {sentence(self.times)}"] if self.times else []

    def _lines(self) -> Iterator[str]:
        yield self.title
        if self.reason:
            yield f"  runs eagerly: {self.reason}"
            return
        yield f"  {count(len(self.kernels), 'kernel')}, {count(len(self.calls), 'call')} into ATen"
        yield from (f"  {line}" for line in self._times())
        if self.recording:
            yield f"  {self.recording}"
        for kernel in self.kernels:
            times = f" x{kernel['launches']}" if kernel["launches"] > 1 else ""
            cost = ", ".join(f"{key} {kernel[key]}" for key in ("bytes", "flops") if key in kernel)
            yield f"  kernel {kernel['name']}{times}" + (f" ({cost})" if cost else "")
            for line in kernel["lines"]:
                yield f"      {line}"
        places: dict[tuple[str, str], list[str]] = {}
        for name, line, reason in self.calls:
            places.setdefault((name, reason), []).append(line)
        for (name, reason), lines in places.items():
            yield f"  call {name} x{len(lines)} ({reason}): {', '.join(dict.fromkeys(lines))}"
        if self.decisions:
            yield "  decisions of the cost model:"
            yield from (f"    {decision}" for decision in self.decisions)
        yield from (f"  {line}" for line in self.partition)


@dataclass
class Explanation:
    """The report of `lamella.explain`: `str()` is for reading, `save` writes a page for a browser."""

    graphs: list[GraphReport] = field(default_factory=list)
    breaks: list[Break] = field(default_factory=list)
    guards: list[str] = field(default_factory=list)
    """What must hold of the inputs for the compiled code to be used again."""
    times: dict[str, float] = field(default_factory=dict[str, float])
    """Milliseconds of the first call: TorchDynamo with the call itself, AOTAutograd, and the graphs."""

    @property
    def summary(self) -> str:
        parts = (count(len(self.graphs), "graph"), count(len(self.breaks), "graph break"))
        return ", ".join((*parts, count(len(self.guards), "guard")))

    def __str__(self) -> str:
        parts = [self.summary, *self._times()]
        parts += [f"break at {b}" for b in self.breaks]
        parts += map(str, self.graphs)
        parts += ["guards:", *(f"  {guard}" for guard in self.guards)] if self.guards else []
        return "\n".join(parts)

    def _times(self) -> list[str]:
        return [f"first call: {sentence(self.times)}"] if self.times else []

    def html(self) -> str:
        """The report as one HTML page: each kernel at every level beside its Python lines, calls, decisions, guards."""
        sections = [
            *(f"<p>{line}</p>" for line in (self.summary, *self._times())),
            *listing("Graph breaks", [str(b) for b in self.breaks]),
        ]
        sections += [graph.html(f"g{i}") for i, graph in enumerate(self.graphs)]
        return page("What became of the program", [*sections, *listing("Guards", self.guards)])

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write `html()` to a file, and return its path. Raises OSError."""
        target = Path(path)
        target.write_text(self.html(), encoding="utf-8")
        return target


def explain_with(
    compile: Compile, options: Options, program: Callable[..., Any], /, *args: Any, **kwargs: Any
) -> Explanation:
    """`lamella.explain` with the function that makes native code of a module."""
    explanation = Explanation()
    backend = Backend(options, compile, watch=lambda event: explanation.graphs.append(report(event)))
    whole, inside = dict[str, float](), dict[str, float]()

    def compile_and_note(graph: GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        if (found := _break(graph)) is not None:
            explanation.breaks.append(found)
        with timed(inside, "all"):
            return backend(graph, inputs)

    def note_guards(guards: Any) -> None:
        explanation.guards.extend(_guard_texts(guards))

    torch._dynamo.reset()
    with timed(whole, "all"):
        torch._dynamo.optimize(compile_and_note, guard_export_fn=note_guards)(program)(*args, **kwargs)
    torch._dynamo.reset()
    graphs = sum(sum(g.times.values()) for g in explanation.graphs)
    rest = inside.get("all", 0.0)
    explanation.times = {
        "TorchDynamo and the call": max(0.0, whole["all"] - rest),
        "AOTAutograd": max(0.0, rest - graphs),
        "Lamella": graphs,
    }
    return explanation


def report(event: Event) -> GraphReport:
    """The report of one graph."""
    made = event.compilation
    if made is None:
        return GraphReport(event.kind, event.operators, [], [], [], [], event.reason, event.partition)
    told = (made.kernels, made.calls, made.decisions, made.stories)
    return GraphReport(event.kind, event.operators, *told, "", event.partition, event.recording, event.times)


def _break(graph: GraphModule) -> Break | None:
    reason = getattr(graph, "compile_subgraph_reason", None)
    if reason is None or not reason.graph_break:
        return None
    frames: list[traceback.FrameSummary] = list(reason.user_stack)
    line = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "?"
    return Break(reason.reason.strip().splitlines()[0], line)


def _guard_texts(guards: Any) -> Iterator[str]:
    """The guards on the program's own values: sizes, then tensors, then the rest. Those on types, torch's modules and
    global state are left out.
    """
    shapes: list[str] = []
    tensors: list[str] = []
    others: list[str] = []
    for guard in guards:
        kind, name = guard.create_fn_name(), guard.name
        codes = [code for code in guard.code_list or [] if not ("hasattr(" in code or code.startswith("___check_"))]
        if kind == "SHAPE_ENV":
            shapes += codes
        elif kind == "TENSOR_MATCH":
            tensors.append(
                f"{name} is a tensor of the same dtype, device, rank and, where not dynamic, sizes and strides"
            )
        elif name and not name.startswith(("G['torch']", "G['__")) and codes:
            others.append(" and ".join(codes))
    yield from (*shapes, *tensors, *others)
