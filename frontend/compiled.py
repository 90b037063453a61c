"""What the backend hands to AOTAutograd for one graph: callable with a list of inputs, and storable in AOTAutograd's
cache.
"""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch._dynamo import disable
from torch._ops import OpOverload
from torch.fx import GraphModule
from torch.utils._pytree import tree_leaves

from .absent_gradients import Layout, fill
from .aliases import Views
from .batched import for_each, is_batched
from .direct import DirectGraph
from .donated import keeps_graph
from .outputs import Output, OutputRecipe
from .overlap import unless_overlapping
from .torch_compat import BypassCache, OutputCode, autocast_enabled, is_marked, saved_tensors
from .torch_state import outside_analysis


class _Latest(threading.local):
    """The graph that was compiled in this thread, or read from AOTAutograd's cache, last, but for backwards."""

    graph: CompiledGraph | EagerGraph | None = None

    def note(self, graph: CompiledGraph | EagerGraph) -> None:
        if graph.written is not None:
            self.graph = graph

    def take(self) -> CompiledGraph | EagerGraph | None:
        """That graph, once."""
        graph, self.graph = self.graph, None
        return graph


_latest = _Latest()
_untraced: Any = disable(reason="do not trace how a compiled graph is stored")
"""A backward that is compiled while TorchDynamo is on is stored then, too."""


class CompiledGraph(OutputCode):
    """A graph that runs natively. Calls take a list of inputs, which is cleared."""

    def __init__(
        self,
        compiled: Callable[[list[Any]], Sequence[Any]],
        recipe: OutputRecipe,
        constants: Sequence[torch.Tensor],
        versions: Sequence[int] | None = None,
        written: Collection[int] | None = None,
        stays: str = "",
        donated: Collection[int] = (),
        custom: bool = False,
        gradients: Mapping[int, Layout] | None = None,
        absent: frozenset[int] = frozenset(),
    ) -> None:
        super().__init__()
        self.gradients = gradients or {}
        """The inputs of a backward that may be None, which stands for zeros."""
        self.absent = absent
        """Those that it does without if all of these are."""
        self.custom = custom
        """Whether it calls operators that are not torch's own."""
        self.donated = donated
        """The inputs of a backward that it may write over."""
        self.written = written
        """The inputs of TorchDynamo's graph that it, or AOTAutograd after it, writes; None for a backward."""
        self.stays = stays
        """Why it is of no use in another process."""
        _latest.note(self)
        self._boxed_call = True  # on the instance: torch's wrappers copy `__dict__`
        self.compiled = compiled
        """`@main`: picklable for a graph that is to be cached."""
        self.recipe = recipe
        self.constants = list(constants)
        self.versions = versions
        """Where its inputs and outputs are those of TorchDynamo's graph, and no effect is left to AOTAutograd but to
        count versions of inputs that are written: these; else None.
        """
        self.call = self._call()

    def _call(self) -> Callable[[list[Any]], Sequence[Any]]:
        call = self.recipe.wrap(self.compiled, self.constants)
        return call if self.custom else unanalyzed(self, call)

    def __call__(self, inputs: Sequence[Any]) -> Sequence[Any]:
        assert isinstance(inputs, list)
        if self.gradients:
            fill(inputs, self.gradients, self.absent)
        if self.donated and keeps_graph():
            inputs[:] = self._copied(inputs)
        count = len(inputs)
        try:
            return self.call(inputs)
        except (TypeError, RuntimeError) as error:
            given = inputs[:count]
            if any(map(is_batched, given)):
                if (results := for_each(lambda row: self(self._copied(row)), given)) is None:
                    raise
                return results
            if isinstance(error, RuntimeError) or (plain := without_marks(given)) is None:
                raise
        inputs.clear()
        return self.call(plain)

    def _copied(self, inputs: Sequence[Any]) -> list[Any]:
        """Inputs of which the call may write over none that is needed again."""
        return [_plain(x) if i in self.donated else x for i, x in enumerate(inputs)]

    def before_first_call(self, action: Callable[[], None]) -> None:
        """Run `action` when the graph is first called."""
        call = self.call

        def first(inputs: list[Any]) -> Sequence[Any]:
            self.call = call
            action()
            return call(inputs)

        self.call = first

    def prepare_for_serialization(self) -> None:
        """AOTAutograd pickles a shallow copy that it has called this on."""
        if self.stays:
            raise BypassCache(self.stays)

    def post_compile(self, example_inputs: Any, constants: Any, graph_kwargs: Any) -> None:
        """A graph has been read from the cache and is what runs from now on."""
        _latest.note(self)

    @_untraced
    def __getstate__(self) -> dict[str, Any]:
        state = {name: value for name, value in self.__dict__.items() if name != "call"}
        if any(t.device.type != "cpu" for t in self.constants):
            # Pickling them copies them to the CPU, as fake tensors while AOTAutograd has its modes on.
            with saved_tensors():
                torch.save(self.constants, file := io.BytesIO())
            state["constants"] = file.getvalue()
        return state

    @_untraced
    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if isinstance(self.constants, bytes):
            with saved_tensors():
                self.constants = torch.load(io.BytesIO(self.constants), weights_only=True)
        self.call = self._call()


class EagerGraph(OutputCode):
    """A graph that this compiler cannot take, run node by node; `views` are the outputs that are not in it, `written`
    and `gradients` as of a `CompiledGraph`.
    """

    def __init__(
        self,
        graph: GraphModule,
        reason: str,
        views: Views | None,
        written: Collection[int] | None,
        gradients: Mapping[int, Layout] | None = None,
    ) -> None:
        super().__init__()
        self.written = written
        self.gradients = gradients or {}
        _latest.note(self)
        self._boxed_call = True
        self.graph = graph
        self.reason = reason
        self.call = self.run
        if views is not None:
            made = [Output.result(i) for i in range(views.count + len(views.read))]
            self.call = OutputRecipe(views.outputs(made)).wrap(self.run)
        if not calls_custom(graph):
            self.call = unanalyzed(self, self.call)

    def __call__(self, inputs: Sequence[Any]) -> Sequence[Any]:
        assert isinstance(inputs, list)
        fill(inputs, self.gradients, frozenset())
        return self.call(inputs)

    def run(self, inputs: list[Any]) -> Sequence[Any]:
        """The outputs that are in the graph."""
        args = tuple(inputs)
        inputs.clear()
        return self.graph(*args)

    def prepare_for_serialization(self) -> None:
        raise BypassCache(f"lamella runs this graph eagerly: {self.reason}")

    def post_compile(self, example_inputs: Any, constants: Any, graph_kwargs: Any) -> None:
        """Nothing: such a graph is never read from a cache."""


def unanalyzed(graph: CompiledGraph | EagerGraph, call: Callable[[list[Any]], Sequence[Any]]) -> Callable[..., Any]:
    """`call`, and a first call outside of the mode in which AOTAutograd has it made, to look at what custom operators
    return: within it operators that are made of others lose conjugates, and `linalg.pinv` gives wrong numbers.
    """

    def first(inputs: list[Any]) -> Sequence[Any]:
        with outside_analysis():
            results = call(inputs)
        graph.call = call
        return results

    return first


def calls_custom(graph: GraphModule) -> bool:
    """Whether a graph, or one in it, names an operator that is not torch's own."""
    nodes = (node for part in graph.modules() if isinstance(part, GraphModule) for node in part.graph.nodes)
    named = (value for node in nodes for value in (node.target, *tree_leaves((node.args, node.kwargs))))
    return any(isinstance(value, OpOverload) and value.namespace not in _OWN for value in named)


_OWN = ("aten", "prim", "prims")


def without_marks(inputs: Sequence[Any]) -> list[Any] | None:
    """Inputs that a graph has refused, without what marks tensors as conjugate or negative, which gradients may be
    whatever was traced; None if none is.
    """
    if not any(isinstance(x, torch.Tensor) and is_marked(x) for x in inputs):
        return None
    return [_plain(x) if isinstance(x, torch.Tensor) and is_marked(x) else x for x in inputs]


def _plain(x: torch.Tensor) -> torch.Tensor:
    """The same numbers at the same strides."""
    once = tuple(slice(0, 1) if stride == 0 else slice(None) for stride in x.stride())
    new = torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=x.device)
    new[once].copy_(x[once])
    return new


def entry(
    make: Callable[[], Callable[..., Any]], eager: Callable[..., Any], inputs: Sequence[Any], keep: bool = False
) -> Callable[..., Any]:
    """`make()`, a callable that AOTAutograd makes of a graph of TorchDynamo, without AOTAutograd's part in its calls
    where that is to do nothing, and `eager`, which is the graph, for arguments that share memory which is written.
    `inputs` are examples. Where the callable is to be made again in another process (`keep`) and can be, its graph is
    its `lamella_graph`.
    """
    _latest.take()
    wrapped = make()
    compiled = _latest.take()
    if compiled is None or any(isinstance(value, (list, tuple, dict)) for value in inputs):
        return wrapped
    if isinstance(compiled, CompiledGraph) and compiled.versions is not None and not autocast_enabled():
        direct = DirectGraph(compiled.compiled, compiled.recipe, compiled.constants, compiled.versions)
        wrapped = _without_wrapper(wrapped, direct)
        if keep and not compiled.written and not compiled.stays:
            wrapped.lamella_graph = direct
    return unless_overlapping(wrapped, eager, compiled.written or (), inputs)


def _without_wrapper(wrapped: Callable[..., Any], direct: DirectGraph) -> Any:
    """The first call is made as it is: AOTAutograd looks at what custom operators return then."""

    def first(*inputs: Any) -> Any:
        result = wrapped(*inputs)
        call.__setstate__((direct.function(), (), {}, vars(call)))
        return result

    # A partial is called without a frame of Python, and may get another function.
    call: Any = partial(first)
    call.__name__ = "call"  # TorchDynamo asks at every call
    return call
