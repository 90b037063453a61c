"""A compiled graph of which AOTAutograd has nothing to do at a call. What is here needs none of torch's compiler."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import Any

import torch

from .outputs import OutputRecipe


@dataclass(frozen=True)
class DirectGraph:
    """Takes and returns what TorchDynamo's graph does. Picklable where `compiled` is."""

    compiled: Callable[[list[Any]], Sequence[Any]]
    recipe: OutputRecipe
    constants: Sequence[torch.Tensor]
    versions: Sequence[int] = ()
    """Positions of the arguments that autograd must know to be written."""

    def function(self) -> Callable[..., Any]:
        """What runs it on TorchDynamo's arguments."""
        function = self._function()
        if not self.versions:
            return function
        take, increment = itemgetter(*self.versions, self.versions[0]), torch.autograd.graph.increment_version

        def writes(*inputs: Any) -> Any:
            increment(take(inputs)[:-1])
            return function(*inputs)

        return writes

    def _function(self) -> Callable[..., Any]:
        native = getattr(self.compiled, "function", None)
        function = native() if native is not None else self.compiled
        if native is None or self.constants or not self.recipe.is_identity:
            boxed = self.recipe.wrap(function, self.constants)
            return lambda *inputs: boxed(list(inputs))
        return function

    def entry(self) -> Callable[..., Any]:
        """That, as `compiled.entry` makes it."""
        made: Any = partial(self.function())
        made.__name__ = "call"  # TorchDynamo asks at every call
        made.lamella_graph = self
        return made
