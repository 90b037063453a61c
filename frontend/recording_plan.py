"""Whether and how a graph is recorded as a CUDA graph."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any

from torch.fx import GraphModule

from .donated import parameters

if TYPE_CHECKING:
    from .backend import Compilation
    from .cuda_arguments import Arguments
    from .import_fx import ImportedGraph

log = logging.getLogger("lamella")


def recording_plan(
    kind: str, graph: GraphModule, imported: ImportedGraph, asked: bool | None, absent: Collection[int] = ()
) -> Arguments | str:
    """What a recording of the graph needs to know, or why there is none; "" for graphs of the CPU. The module has no
    arguments for the inputs that are `absent`.
    """
    if not any(d.startswith("cuda") for d in imported.devices):
        return ""
    if asked is False:
        return "the option cuda_graphs is off"
    from .cuda_arguments import Arguments
    from .cuda_recording import Unrecordable

    try:
        stay = {i - sum(a < i for a in absent) for i in parameters(graph, kind)}
        return Arguments.of(imported.module, imported.devices, kind, asked=asked is True, parameters=stay)
    except Unrecordable as reason:
        return str(reason)


def recorded(compilation: Compilation, plan: Arguments | str) -> tuple[Callable[[list[Any]], Sequence[Any]], str]:
    """What runs the graph, and what is told about its recording."""
    if not plan:
        return compilation.graph, ""
    from .cuda_graphs import graphed
    from .cuda_recording import Unrecordable

    if not isinstance(plan, str):
        launches = sum(kernel["launches"] for kernel in compilation.kernels) + len(compilation.calls)
        try:
            run = graphed(compilation.graph, plan, compilation.calls, launches)
            when = "at its second call" if plan.asked else "when the GPU waits for its launches"
            return run, f"recorded as a CUDA graph {when}"
        except Unrecordable as reason:
            plan = str(reason)
    log.info("a graph is not recorded as a CUDA graph: %s", plan)
    return compilation.graph, f"not recorded as a CUDA graph: {plan}"
