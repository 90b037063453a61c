"""Which inputs of a backward nobody needs after it: what its forward made for it alone (AOTAutograd's donated buffers).

torch finds them, and refuses to keep such a graph for a second backward.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import torch
from torch._guards import TracingContext
from torch.fx import GraphModule

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp


def donated_inputs(graph: GraphModule) -> set[int]:
    """The positions of the inputs of a backward graph that it may write over; none that shares memory with another."""
    context = TracingContext.try_get()
    about: Any = context.fw_metadata if context is not None else None
    given = set(getattr(about, "bw_donated_idxs", None) or ())
    values = [node.meta.get("val") for node in graph.graph.nodes if node.op == "placeholder"]
    places = {i: v.untyped_storage()._cdata for i, v in enumerate(values) if isinstance(v, torch.Tensor)}
    times = Counter(places.values())
    return {i for i in given if i in places and times[places[i]] == 1}


def mark_donated(module: ModuleOp, inputs: set[int]) -> None:
    """Mark these arguments of `@main`."""
    from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, UnitAttr
    from xdsl.dialects.func import FuncOp

    from ..lowering.aten_frozen import argument_attributes
    from ..lowering.memory_plan import DONATED

    main = next(f for f in module.ops if isinstance(f, FuncOp))
    attributes = argument_attributes(main)
    for i in inputs:
        attributes[i][DONATED] = UnitAttr()
    main.arg_attrs = ArrayAttr([DictionaryAttr(a) for a in attributes])
