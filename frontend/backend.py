"""The torch.compile backend: TorchDynamo's graphs through AOTAutograd to ATen graphs, each imported and compiled."""

from __future__ import annotations

import hashlib
import logging
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import torch
from torch._ops import OpOverload
from torch.fx import GraphModule
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from ..lowering.options import Options
from .absent_gradients import Layout, Partial, Run, Whole, absent_now, drop_absent, gradients_of
from .aliases import NotFunctional, Views, take_views, written_inputs
from .attention_masks import without_needless_masks
from .compiled import CompiledGraph, EagerGraph, calls_custom, entry
from .donated import mark_donated, mark_passed, take_donated
from .fake_kernels import right_fakes
from .forward_mode import guarded_forward_mode
from .freezing import mark_frozen, module_state
from .in_place_layouts import keep_layouts
from .marks import Marks, marks_of_results
from .module_names import module_name
from .outputs import OutputRecipe
from .random_numbers import with_numbers_as_passed
from .recording_plan import recorded, recording_plan
from .results_given import check_results_given
from .second_derivatives import twice_differentiable
from .timing import table, timed, with_rest
from .torch_compat import (
    CacheableCompiler,
    OutputCode,
    TorchDynamoException,
    aot_compile,
    assumed_floats,
    cached,
    hold_cached,
    leaves_nothing_to_do,
    real_tensors,
    says_all,
    with_effects,
    written_versions,
)
from .torch_state import transforms_as_before
from .unread_graphs import are_read, printed_if_read

# What only a graph that is compiled needs is imported then: one that AOTAutograd has in its cache needs no IR.
if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from ..lowering.kernel_story import KernelStory
    from ..lowering.origins import Call
    from .import_fx import ImportedGraph
    from .partition import Choice

log = logging.getLogger("lamella")

DEVICES = ("cpu", "cuda")
"""Kinds of devices whose tensors are compiled."""


class Compilation(Protocol):
    """What the compiler that a backend is given makes of a module."""

    @property
    def graph(self) -> Callable[[list[Any]], Sequence[Any]]:
        """`@main`; picklable where graphs are to be cached."""
        ...

    @property
    def kernels(self) -> list[dict[str, Any]]: ...

    @property
    def decisions(self) -> list[str]: ...

    @property
    def calls(self) -> list[Call]: ...

    @property
    def stories(self) -> list[KernelStory]: ...

    @property
    def times(self) -> dict[str, float]:
        """Milliseconds by pass, and of the machine code; empty for what came from the cache."""
        ...


UNEXPRESSED = (RuntimeError, AssertionError, NotImplementedError)
"""What AOTAutograd raises of programs that it cannot trace."""

Compile = Callable[["ModuleOp", Options], Compilation]


@dataclass(frozen=True)
class Event:
    """What became of one ATen graph, for those who watch (`explain`)."""

    kind: str
    """"inference", "forward" or "backward"."""
    operators: dict[str, int]
    """How often each operator is called in the graph, most frequent first."""
    compilation: Compilation | None
    reason: str
    """Why the graph runs eagerly; "" if it was compiled."""
    partition: list[str] = field(default_factory=list)
    """Of a forward: what it saves for the backward, and what that computes again, with bytes."""
    recording: str = ""
    """Of a graph on a GPU: whether it is recorded as a CUDA graph, and why not."""
    times: dict[str, float] = field(default_factory=dict[str, float])
    """Milliseconds that compiling took, by step."""


class _Compiled(NamedTuple):
    """What an imported graph became."""

    compilation: Compilation
    run: Run
    recording: str
    """What is told about it."""
    donated: frozenset[int]
    absent: frozenset[int]


class Backend:
    """A backend with its options fixed. `compile` makes native code of a module; `watch` is told of each graph;
    `eagerly` runs the text of a module of which there is no graph of torch's left.

    `version` names the compiler and the machine in the keys of AOTAutograd's cache; without it, or with `watch`,
    nothing is kept there.
    """

    def __init__(
        self,
        options: Options,
        compile: Compile,
        *,
        version: str | None = None,
        watch: Callable[[Event], None] | None = None,
        eagerly: Callable[[str], Run] | None = None,
    ) -> None:
        self.options = options
        self.compile = compile
        self.eagerly = eagerly
        self.watch = watch
        self.version = version
        self.cacheable = version is not None and watch is None
        self.saved: list[str] = []
        """What the partition told about the graph whose forward is compiled next."""
        self.graphs = 0
        """How many graphs AOTAutograd has given to `compile_graph`."""
        self.assumed: dict[str, str] = {}
        """What torch had assumed of floats before AOTAutograd traced the graph."""
        self.parting = False
        """Whether the partition has begun and not ended."""
        self.marks: Marks = ()
        """Of the results of TorchDynamo's graph."""
        self.forward_outputs = 0
        """How many outputs of that forward are the program's; the others are the backward's."""

    def __call__(self, graph: GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        times: dict[str, float] = {}
        with timed(times, "AOTAutograd and what it calls"):
            compiled = self._compile(graph, example_inputs)
        if self.options.timing:
            sys.stderr.write(table("a graph of TorchDynamo", times) + "\n")
        return compiled

    def _compile(self, graph: GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        if guarded_forward_mode():
            return self._eager(graph, "arguments may have derivatives in forward mode")
        # TorchDynamo's fake tensors have strides, whatever they stand for. Subclasses (nested tensors) are traced to
        # the tensors in them.
        plain = (x for x in example_inputs if isinstance(x, torch.Tensor) and not is_traceable_wrapper_subclass(x))
        if layouts := {x.layout for x in plain} - {torch.strided}:
            return self._eager(graph, f"tensors of {' and '.join(sorted(map(str, layouts)))} are not compiled")
        without_needless_masks(graph)
        example_inputs = with_numbers_as_passed(graph, example_inputs)
        keep_layouts(graph)
        names, state = _input_names(graph), module_state(graph) if self.options.freezing else ()
        compilers = [self.compiler(kind, names, state) for kind in ("forward", "backward", "inference")]

        def compile() -> Callable[..., Any]:
            fakes, derivable = right_fakes(self.options.strict), twice_differentiable(graph, example_inputs)
            with transforms_as_before(), fakes, printed_if_read(), derivable:
                return aot_compile(graph, example_inputs, *compilers, partition=self.partition)

        count, self.parting = self.graphs, False
        try:
            check_results_given(graph)
            self.marks = marks_of_results(graph)
            if not self.cacheable:
                return entry(compile, graph.forward, example_inputs)
            # What AOTAutograd's key must contain beside the graph: the compiler, what it was asked for, and what was
            # assumed of floats: it looks whether sizes are right.
            asked = replace(self.options, timing=False)
            self.assumed = assumed_floats()
            # What is kept has the graphs as text where they are read, which the next process logs.
            key = f"{self.version}|{asked!r}|{self.assumed}|{are_read()}"
            tag = hashlib.sha256(key.encode()).hexdigest()[:32]
            with cached(f"lamella-{tag}"):
                return entry(compile, graph.forward, example_inputs, says_all(graph))
        except NotFunctional as error:
            reason = f"AOTAutograd cannot express the aliases of this program: {error}"
        except UNEXPRESSED as error:
            # Before the first graph is given to us, only our partition runs: with `strict`, its bugs are errors.
            own = self.options.strict and self.parting
            if self.graphs > count or own or isinstance(error, TorchDynamoException):
                raise
            said = str(error).strip() or type(error).__name__
            reason = f"AOTAutograd does not take this program: {said.splitlines()[0]}"
        return self._eager(graph, reason)

    def _eager(self, graph: GraphModule, reason: str) -> Callable[..., Any]:
        log.warning("a graph runs eagerly: %s", reason)
        self.tell("inference", graph, None, reason)
        return graph.forward

    def partition(self, joint: GraphModule, inputs: Sequence[Any], **settings: Any) -> tuple[GraphModule, GraphModule]:
        """The forward and the backward of AOTAutograd's joint graph."""
        from .partition import partitioner

        def note(choice: Choice) -> None:
            self.saved = choice.lines()

        tell = None if self.watch is None else note
        self.forward_outputs = settings["num_fwd_outputs"]
        exact = self.options.numerics == "eager" or self.options.batch_invariant
        eagers = self.options.random == "eager"
        self.parting = True
        parts = partitioner(self.options.activation_memory_budget, tell, exact, eagers)(joint, inputs, **settings)
        self.parting = False
        return parts

    def compiler(self, kind: str, names: Sequence[str], state: Collection[int] = ()) -> Callable[..., Any]:
        def compile_graph(graph: GraphModule, example_inputs: Sequence[Any]) -> OutputCode:
            return self.compile_graph(graph, kind, names, state)

        return CacheableCompiler(OutputCode, compile_graph) if self.cacheable else compile_graph

    def compile_graph(
        self, graph: GraphModule, kind: str, names: Sequence[str] = (), state: Collection[int] = ()
    ) -> OutputCode:
        """Import and compile one ATen graph; one that is not supported runs eagerly. `names` are those of the inputs of
        TorchDynamo's graph, `state` are the positions of its parameters and buffers where these are frozen.
        """
        steps, whole = dict[str, float](), dict[str, float]()
        self.graphs += 1
        views: Views | None = None
        written: Sequence[int] | None = None
        if kind != "backward":
            views, written = take_views(graph, kind == "inference", self.marks), written_inputs(graph)
        with timed(whole, "all"), timed(steps, "loading the IR"):
            from ..dialects import lazy_formats as lazy_formats  # before any of xDSL's dialects
            from .graph_parts import UnsupportedGraph
            from .import_fx import import_graph

        gradients = gradients_of(graph) if kind == "backward" else {}
        with real_tensors(), timed(whole, "all"):
            try:
                with timed(steps, "import"):
                    imported = import_graph(graph, _placeholder_names(graph, names))
            except UnsupportedGraph as error:
                return self.compile_pieces(graph, kind, str(error), views, written, gradients)
            recipe = OutputRecipe(imported.outputs if views is None else views.outputs(imported.outputs))
            recipe = recipe.with_views() if kind == "inference" else recipe
            try:
                if others := {d for d in imported.devices if d.partition(":")[0] not in DEVICES}:
                    raise UnsupportedGraph(f"tensors of {' and '.join(sorted(others))} are not compiled")
                made = self._compiled(graph, kind, imported, recipe, gradients, state)
            except UnsupportedGraph as error:
                log.warning("a graph runs eagerly: %s", error)
                self.tell(kind, graph, None, str(error))
                return EagerGraph(graph, str(error), views, written, gradients)
        compilation = made.compilation
        self.tell(kind, graph, compilation, "", made.recording, with_rest(steps | compilation.times, whole["all"]))
        direct = kind == "inference" and leaves_nothing_to_do(graph)
        compiled = CompiledGraph(
            made.run,
            recipe,
            imported.constants,
            versions=written_versions() if direct else None,
            written=written,
            stays=self._stays(graph, compilation.calls),
            donated=made.donated,
            custom=calls_custom(graph),
            gradients=gradients,
            absent=made.absent,
        )
        if kind == "backward" and self.cacheable and (release := hold_cached()) is not None:
            compiled.before_first_call(release)
        return compiled

    def _compiled(
        self,
        graph: GraphModule,
        kind: str,
        imported: ImportedGraph,
        recipe: OutputRecipe,
        gradients: Collection[int],
        state: Collection[int],
    ) -> _Compiled:
        """Compile what has been imported. Raises UnsupportedGraph."""
        module, options = imported.module, with_settings(self.options)
        plan = recording_plan(kind, graph, imported, options.cuda_graphs)
        donated, absent, whole = set[int](), frozenset[int](), None
        if kind == "inference" and state and options.cuda_graphs is not True:
            mark_frozen(module, graph, state)
            plan = plan and "its parameters are frozen"
        if kind == "forward" and not isinstance(plan, str):
            plan = replace(plan, kept=recipe.only_from(self.forward_outputs))
        if kind == "backward":
            if donated := take_donated(graph):
                mark_donated(module, donated)
            mark_passed(module, graph)
            absent = absent_now(module, gradients, recipe.inputs)
        if absent:
            whole = Whole.of(module, options, self.compile, self.eagerly, plan)
            drop_absent(module, absent, options.verify)
            plan = recording_plan(kind, graph, imported, options.cuda_graphs, absent)
        compilation = self.compile(module, options)
        run, recording = recorded(compilation, plan)
        run = run if whole is None else Partial(run, absent, whole)
        return _Compiled(compilation, run, recording, frozenset(donated), absent)

    def compile_pieces(
        self,
        graph: GraphModule,
        kind: str,
        reason: str,
        views: Views | None,
        written: Sequence[int] | None,
        gradients: Mapping[int, Layout],
    ) -> OutputCode:
        """A graph that cannot be imported as a whole: what lies between the calls that cannot is compiled."""
        from .graph_parts import UnsupportedGraph
        from .import_fx import import_graph
        from .pieces import in_pieces

        pieces = in_pieces(graph)
        if pieces is None:
            log.warning("a graph runs eagerly: %s", reason)
            self.tell(kind, graph, None, reason)
            return EagerGraph(graph, reason, views, written, gradients)
        if pieces.reasons:
            log.warning("a part of a graph runs eagerly: %s", "; ".join(pieces.reasons))
        for name, piece in pieces.native.items():
            try:
                imported = import_graph(piece)
                compilation = self.compile(imported.module, with_settings(self.options))
            except UnsupportedGraph as error:
                log.warning("a part of a graph runs eagerly: %s", error)
                self.tell(kind, piece, None, str(error))
                continue
            self.tell(kind, piece, compilation, "")
            pieces.replace(name, OutputRecipe(imported.outputs).wrap(compilation.graph, imported.constants))
        for piece in pieces.eager:
            self.tell(kind, piece, None, "; ".join(pieces.reasons))
        return EagerGraph(pieces.graph, reason, views, written, gradients)

    def _stays(self, graph: GraphModule, calls: Iterable[Call]) -> str:
        """Why a compiled graph is not kept: what it calls is found among the objects of this process, AOTAutograd calls
        it without its tokens once it is in the cache (torch 2.13), or a value that its key has not was assumed.
        """
        if any(call.name == "lamella.triton_kernel" for call in calls):
            return "it calls kernels of the user's"
        if assumed_floats() != self.assumed:
            return "it is for some values of a float"
        return "tokens order its calls" if any(node.target is with_effects for node in graph.graph.nodes) else ""

    def tell(
        self,
        kind: str,
        graph: GraphModule,
        compilation: Compilation | None,
        reason: str,
        recording: str = "",
        times: dict[str, float] | None = None,
    ) -> None:
        if times and self.options.timing:
            sys.stderr.write(table(f"{kind} graph", times) + "\n")
        if self.watch is not None:
            names = Counter(_name(node.target) for node in graph.graph.nodes if node.op == "call_function")
            saved, self.saved = (self.saved, []) if kind == "forward" else ([], self.saved)
            self.watch(Event(kind, dict(names.most_common()), compilation, reason, saved, recording, times or {}))


def with_settings(options: Options) -> Options:
    """`options` where what is not said is what torch is set to now."""
    found: dict[str, bool] = {}
    if options.deterministic is None:
        found["deterministic"] = torch.are_deterministic_algorithms_enabled()
    if options.tf32 is None:
        try:
            found["tf32"] = torch.get_float32_matmul_precision() != "highest"
        except RuntimeError:  # it is set in torch's other way, for each backend
            found["tf32"] = torch.backends.cuda.matmul.fp32_precision == "tf32"
    return replace(options, **found) if found else options


def _input_names(graph: GraphModule) -> list[str]:
    """What the user calls the inputs of a graph of TorchDynamo; "" where that is not known."""
    sources = [
        getattr(node.meta.get("grapharg"), "source", None) for node in graph.graph.nodes if node.op == "placeholder"
    ]
    return [module_name(source.name) if source is not None else "" for source in sources]


def _placeholder_names(graph: GraphModule, names: Sequence[str]) -> dict[str, str]:
    """The names of the inputs of an ATen graph that are inputs of TorchDynamo's graph."""
    found: dict[str, str] = {}
    for node in graph.graph.nodes:
        if node.op != "placeholder":
            break
        index = getattr(node.meta.get("desc"), "idx", None)
        if type(index) is int and index < len(names) and type(node.meta["desc"]).__name__ == "PlainAOTInput":
            found[node.name] = names[index]
    return {name: value for name, value in found.items() if value}


def _name(target: Any) -> str:
    return str(target) if isinstance(target, OpOverload) else getattr(target, "__name__", str(target))
