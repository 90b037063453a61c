"""What is made wider for calls is read in its narrow form by kernels that come after other calls, so that the wide one
is there for its calls only:

    %w = widen %v; %a = call(%w); %b = call(%a); %c = nest(%w, %b)
      ->  %w = widen %v; %a = call(%w); %b = call(%a); %x = widen %v; %c = nest(%x, %b)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.ir import Operation

from ..dialects.flow import TERMINATORS
from ..dialects.tensor import itemsize
from .fuse_graph import Node, outermost, tensor_type
from .stages import Stages


def widens(n: Node) -> bool:
    """Whether a nest only makes its elements wider."""
    if not n.pointwise or len(n.tensors) != 1 or len(n.results) != 1 or n.cost > 1:
        return False
    return itemsize(tensor_type(n.results[0]).dtype) > itemsize(tensor_type(n.tensors[0]).dtype)


def read_narrow(ops: Sequence[Operation], nodes: Mapping[Operation, Node], stages: Stages) -> list[Operation] | None:
    """The ops with nests that are made a second time; None where there are none. Readers change in place."""
    found: list[Operation] = []
    every = set(ops)
    for op in ops:
        found.append(op)
        n = nodes.get(op)
        if n is None or not n.escapes or not widens(n):
            continue
        users = [(use, outermost(use.operation, every)) for use in n.results[0].uses]
        calls = [o for _, o in users if o not in nodes]
        if any(isinstance(o, TERMINATORS) for o in calls):
            continue
        # what reads the results of its calls comes one stage after them, when it has just gone
        gone = max(stages.used.get(o, 0) for o in calls) + 1
        later = [use for use, o in users if o in nodes and stages.used.get(o, 0) > gone]
        if later:
            found.append(again := op.clone())
            for use in later:
                use.operation.operands[use.index] = again.results[0]
    return found if len(found) > len(ops) else None
