"""What a kernel moves and computes, as expressions of its sizes: the attributes `bytes` and `flops`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Operation, SSAValue

from ..dialects import expr
from ..dialects.expr import Dim
from ..dialects.loop import ForOp, IndexAttr, KernelOp, LoadOp, StoreOp, body_ops
from ..dialects.tensor import TensorType, itemsize


def annotate(kernel: KernelOp) -> None:
    """Set `bytes` and `flops`. A buffer counts once, and no more of one than there are points that read it."""
    grid = expr.product(d.extent for d in kernel.grid)
    kernel.attributes["bytes"] = IndexAttr.get([_bytes(kernel)])
    kernel.attributes["flops"] = IndexAttr.get([expr.normal(grid * _flops(kernel.body.block.ops))])  # pyright: ignore


def _bytes(kernel: KernelOp) -> Dim:
    found: dict[SSAValue, list[LoadOp | StoreOp]] = {a: [] for a in kernel.body.block.args}
    for o in body_ops(kernel.body):
        buffer = o.source if isinstance(o, LoadOp) else o.target if isinstance(o, StoreOp) else None
        if isinstance(o, (LoadOp, StoreOp)) and buffer is not None and buffer in found:
            found[buffer].append(o)
    total: Any = 0
    for a, accesses in found.items():
        t = a.type
        assert isinstance(t, TensorType)
        n: Any = t.numel if accesses else 0
        if accesses and all(o.indices for o in accesses):
            points: Any = _points(kernel, accesses[0])
            n = min(n, points) if isinstance(n, int) and isinstance(points, int) else points
        total = total + n * itemsize(t.dtype)
    return expr.normal(total)


def _points(kernel: KernelOp, o: Operation) -> Dim:
    """How often an op of the body runs."""
    points: Any = expr.product(d.extent for d in kernel.grid)
    around = o.parent_op()
    while isinstance(around, ForOp):
        points = points * expr.product(d.extent for d in around.dims)
        around = around.parent_op()
    return expr.normal(points)


def _flops(ops: Iterable[Operation]) -> Dim:
    """Float operations of one point."""
    total: Any = 0
    for o in ops:
        if isinstance(o, ForOp):
            # each reduction combines once per point
            inside: Any = _flops(o.body.block.ops)
            total = total + expr.product(d.extent for d in o.dims) * (inside + len(o.reduce.data))
        elif o.results and not isinstance(o.results[0].type, IntegerType):
            total = total + int(o.name.startswith(("arith.", "math.", "loop.fn")) and o.name != "arith.constant")
    return expr.normal(total)
