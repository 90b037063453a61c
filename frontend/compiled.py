"""What the backend hands to AOTAutograd for one graph: callable with a list of inputs, and storable in AOTAutograd's
cache.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import GraphModule

from .outputs import OutputRecipe
from .torch_compat import BypassCache, OutputCode


class CompiledGraph(OutputCode):
    """A graph that runs natively. Calls take a list of inputs, which is cleared."""

    def __init__(
        self, compiled: Callable[[list[Any]], Sequence[Any]], recipe: OutputRecipe, constants: Sequence[torch.Tensor]
    ) -> None:
        super().__init__()
        self._boxed_call = True  # on the instance: torch's wrappers copy `__dict__`
        self.compiled = compiled
        """`@main`: picklable for a graph that is to be cached."""
        self.recipe = recipe
        self.constants = list(constants)
        self.call = recipe.wrap(compiled, self.constants)

    def __call__(self, inputs: Sequence[Any]) -> Sequence[Any]:
        assert isinstance(inputs, list)
        return self.call(inputs)

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

    def post_compile(self, example_inputs: Any, constants: Any, graph_kwargs: Any) -> None:
        """Nothing is left to do when a cached graph has been read."""

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "call"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.call = self.recipe.wrap(self.compiled, self.constants)


class EagerGraph(OutputCode):
    """A graph that this compiler cannot take, run node by node."""

    def __init__(self, graph: GraphModule, reason: str) -> None:
        super().__init__()
        self._boxed_call = True
        self.graph = graph
        self.reason = reason

    def __call__(self, inputs: Sequence[Any]) -> Sequence[Any]:
        assert isinstance(inputs, list)
        args = tuple(inputs)
        inputs.clear()
        return self.graph(*args)

    def prepare_for_serialization(self) -> None:
        raise BypassCache(f"lamella runs this graph eagerly: {self.reason}")

    def post_compile(self, example_inputs: Any, constants: Any, graph_kwargs: Any) -> None:
        """Nothing: such a graph is never read from a cache."""
