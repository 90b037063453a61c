"""What is made wider for calls is read in its narrow form by kernels that come after other calls, so that the wide one
is there for its calls only:

    %w = widen %v; %a = call(%w); %b = call(%a); %c = nest(%w, %b)
      ->  %w = widen %v; %a = call(%w); %b = call(%a); %x = widen %v; %c = nest(%x, %b)

Positions in a window, of a few points, that nests alone read are stored as narrow as these points allow:

    %i = nest [..] reduce [..] combine [argmax]; ..(%i)  ->  %i; %n = narrow %i; %w = widen %n; ..(%w)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects import arith
from xdsl.ir import Block, Operation, SSAValue

from ..dialects import expr
from ..dialects.flow import TERMINATORS
from ..dialects.loop import DimsAttr, IndexAttr, LoadOp, LoopDim, NestOp, YieldOp
from ..dialects.tensor import itemsize
from .fuse_cost import Hints
from .fuse_graph import Node, outermost, tensor_type
from .stages import Stages

LARGE = 64 << 10
"""Bytes of positions from which on it counts how wide they are."""

_WIDTHS = {"i8": 1 << 7, "i16": 1 << 15, "i32": 1 << 31}
"""How many positions each has."""


def narrow_positions(ops: Sequence[Operation], nodes: Mapping[Operation, Node], hints: Hints) -> list[Operation]:
    """The ops, with nests after those that find positions in windows. Readers change in place."""
    found: list[Operation] = []
    every = set(ops)
    for op in ops:
        found.append(op)
        if op not in nodes or not isinstance(op, NestOp) or op.scan is not None or any(d.lo != 0 for d in op.reduce):
            continue
        points = expr.product(d.extent for d in op.reduce)
        width = next((w for w, n in _WIDTHS.items() if isinstance(points, int) and points <= n), None)
        for kind, v in zip(op.combine.data, op.res, strict=False):
            if width is None or not kind.data.startswith("arg") or hints.bytes(v) < LARGE:
                continue
            uses = list(v.uses)
            if not {outermost(use.operation, every) for use in uses} <= nodes.keys():
                continue
            narrow = _converted(op, v, width, arith.TruncIOp)
            wide = _converted(op, narrow.res[0], tensor_type(v).dtype, arith.ExtSIOp)
            for use in uses:
                use.operation.operands[use.index] = wide.res[0]
            found += [narrow, wide]
    return found


def _converted(op: NestOp, v: SSAValue, dtype: str, by: type[Operation]) -> NestOp:
    """A nest of the elements of a result of `op`, or of one like it, in another dtype."""
    t = tensor_type(v).with_(dtype=dtype)
    dims = [LoopDim(f"d{i}", 0, n) for i, n in enumerate(t.shape)]
    load = LoadOp.make(v, IndexAttr.get([d.symbol for d in dims]), location=op.location)
    made = by.create(operands=[load.res], result_types=[t.element], location=op.location)
    last = YieldOp.create(operands=made.results, location=op.location)
    return NestOp.make(DimsAttr.get(dims), Block([load, made, last]), [t], location=op.location)


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
