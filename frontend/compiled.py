"""What the backend hands to AOTAutograd for one graph: callable with a list of inputs, and storable in AOTAutograd's
cache.
"""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch.fx import GraphModule

from .outputs import OutputRecipe
from .torch_compat import BypassCache, OutputCode, autocast_enabled, real_tensors


class _Latest(threading.local):
    """The graph that was compiled in this thread, or read from AOTAutograd's cache, last."""

    graph: OutputCode | None = None

    def take(self) -> OutputCode | None:
        """That graph, once."""
        graph, self.graph = self.graph, None
        return graph


_latest = _Latest()


class CompiledGraph(OutputCode):
    """A graph that runs natively. Calls take a list of inputs, which is cleared."""

    def __init__(
        self,
        compiled: Callable[[list[Any]], Sequence[Any]],
        recipe: OutputRecipe,
        constants: Sequence[torch.Tensor],
        direct: bool = False,
    ) -> None:
        super().__init__()
        _latest.graph = self
        self._boxed_call = True  # on the instance: torch's wrappers copy `__dict__`
        self.compiled = compiled
        """`@main`: picklable for a graph that is to be cached."""
        self.recipe = recipe
        self.constants = list(constants)
        self.direct = direct
        """Its inputs and outputs are those of TorchDynamo's graph, and no effect is left to AOTAutograd."""
        self.call = recipe.wrap(compiled, self.constants)

    def __call__(self, inputs: Sequence[Any]) -> Sequence[Any]:
        assert isinstance(inputs, list)
        return self.call(inputs)

    def before_first_call(self, action: Callable[[], None]) -> None:
        """Run `action` when the graph is first called."""
        call = self.call

        def first(*inputs: Any) -> Any:
        result = wrapped(*inputs)
        native = getattr(graph.compiled, "function", None)
        function = native() if native is not None else graph.compiled
        if native is None or graph.constants or not graph.recipe.is_identity:
            boxed = graph.recipe.wrap(function, graph.constants)
            function = lambda *inputs: boxed(list(inputs))  # noqa: E731
        call.__setstate__((function, (), {}, {"__name__": "call"}))
        return result

    # A partial is called without a frame of Python, and may get another function.
    call: Any = partial(first)
    call.__name__ = "call"  # TorchDynamo asks at every call
    return call
