"""Which inputs of a backward nobody needs after it: what its forward made for it alone (AOTAutograd's donated buffers).

torch finds them, and refuses to keep such a graph for a second backward: what it noted is taken from it, and a backward
that is to run again (`retain_graph`, `create_graph`) is given copies.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import torch
from torch._guards import TracingContext
from torch.fx import GraphModule

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp


GIVEN = "primals_"
"""How AOTAutograd names what a forward is given, from 1 on."""

GRADIENT = "tangents_"
"""How AOTAutograd names the gradients that a backward is given."""


def take_donated(graph: GraphModule) -> set[int]:
    """The positions of the inputs of a backward graph that it may write over, which torch forgets; none that shares
    memory with another.
    """
    context = TracingContext.try_get()
    about: Any = context.fw_metadata if context is not None else None
    noted: list[int] = getattr(about, "bw_donated_idxs", None) or []
    given = set(noted)
    noted.clear()  # in place: what is noted of tensor subclasses has the same list
    values = [node.meta.get("val") for node in graph.graph.nodes if node.op == "placeholder"]
    places = {i: v.untyped_storage()._cdata for i, v in enumerate(values) if isinstance(v, torch.Tensor)}
    times = Counter(places.values())
    return {i for i in given if i in places and times[places[i]] == 1}


def parameters(graph: GraphModule, kind: str) -> set[int]:
    """The positions of a graph's inputs that lie in the same places at each call, as AOTAutograd has it: parameters and
    buffers of modules, and what `mark_static_address` was said of. Of a backward those that its forward was given.
    """
    context = TracingContext.try_get()
    about: Any = context.fw_metadata if context is not None else None
    static: Collection[int] = getattr(about, "static_input_indices", None) or ()
    if getattr(about, "tokens", None):
        return set()
    names = [node.name for node in graph.graph.nodes if node.op == "placeholder"]
    if kind != "backward":
        return {i for i in static if i < len(names)}
    numbers = {i: name.removeprefix(GIVEN) for i, name in enumerate(names) if name.startswith(GIVEN)}
    return {i for i, number in numbers.items() if number.isdecimal() and int(number) - 1 in static}


def mark_passed(module: ModuleOp, graph: GraphModule) -> None:
    """Mark the gradients that a backward is given: what AOTAutograd makes contiguous, as one number that stands for all
    of a sum's, is there for the call alone.
    """
    from ..lowering.aten_frozen import mark_arguments
    from ..lowering.memory_plan import PASSED

    names = [node.name for node in graph.graph.nodes if node.op == "placeholder"]
    mark_arguments(module, {i for i, name in enumerate(names) if name.startswith(GRADIENT)}, PASSED)


def keeps_graph() -> bool:
    """Whether the backward that runs now may run again on the same graph."""
    c: Any = torch._C
    return c._autograd._get_current_graph_task_keep_graph()


def mark_donated(module: ModuleOp, inputs: set[int]) -> None:
    """Mark these arguments of `@main`."""
    from ..lowering.aten_frozen import mark_arguments
    from ..lowering.memory_plan import DONATED

    mark_arguments(module, inputs, DONATED)
