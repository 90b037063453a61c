"""Scratch that cannot stay in registers becomes a buffer in memory that nobody reads after the kernel.

A value is kept from loop to loop only for the lane that made it. `loop.scratch` that is read elsewhere (a scan's value
at `2*d1 + 1`), or is too large, is written to memory, where a program finds it once its threads have waited.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from ..dialects import expr, host
from ..dialects.loop import ForOp, IndexAttr, KernelOp, LaunchOp, LoopDim, ScratchOp, StoreOp, body_ops
from ..dialects.tensor import TensorType
from .schedule_access import Access, accesses, buffer_of

MOST = 32 << 10
"""Elements of a scratch buffer that a program keeps as values."""


def spill(kernel: KernelOp, launches: list[Any]) -> None:
    """Give a kernel a buffer for each scratch that it cannot keep; its launches pass one."""
    loops = [o for o in body_ops(kernel.body) if isinstance(o, ForOp)]
    # dims that bounds of other loops are made of are gone through one by one
    alone = {s for o in loops for d in o.dims for s in expr.symbols(d.lo) | expr.symbols(d.hi)}
    for op in [o for o in kernel.body.block.ops if isinstance(o, ScratchOp)]:
        found = [a for a in accesses(body_ops(kernel.body)) if buffer_of(a) is op.res]
        if any(alone & expr.symbols(e) for a in found for e in a.index) or not _kept(op, found):
            _move(kernel, op, found, launches)


def _kept(op: ScratchOp, found: Sequence[Access]) -> bool:
    """Whether all that is read is what the same lane has written: along the same dims, one by one."""
    size = expr.product(op.res.type.shape)
    places = {tuple(_dim(a, e) for e in a.index) for a in found}
    return isinstance(size, int) and size <= MOST and len(places) == 1 and None not in places.pop()


def _dim(a: Access, e: Any) -> tuple[Any, Any] | int | None:
    """The bounds of the dim that an index is; None where it is something else. A dim of one point is 0."""
    if e == 0:
        return 0
    around = a.parent_op()
    while isinstance(around, ForOp):
        for d in around.dims:
            if d.symbol == e:
                return 0 if d.lo == 0 and d.hi == 1 else (d.lo, d.hi)
        around = around.parent_op()
    return None


def _move(kernel: KernelOp, op: ScratchOp, found: Sequence[Access], launches: list[Any]) -> None:
    t, grid = op.res.type, cast("Sequence[LoopDim]", tuple(kernel.grid))
    device = cast(TensorType, kernel.body.block.args[-1].type).device
    type = TensorType.get([*(d.extent for d in grid), *t.shape], t.dtype, None, device)
    block = kernel.body.block
    buffer = block.insert_arg(type, len(block.args), op.location)
    buffer.name_hint = f"y{len(kernel.outs) - 1}"
    for a in found:
        a.operands[int(isinstance(a, StoreOp))] = buffer
        a.properties["index"] = IndexAttr.get([*(d.symbol for d in grid), *a.index])
    op.detach()
    op.erase()
    for i, launch in enumerate(launches):
        sizes = dict(zip(kernel.sizes, launch.sizes, strict=True))
        own = type.with_(shape=[expr.substitute(n, sizes) for n in type.shape])
        launches[i] = _pass(launch, own)


def _pass(launch: host.LaunchOp | LaunchOp, type: TensorType) -> Any:
    """The launch with one more buffer."""
    block = launch.parent_block()
    assert block is not None
    if isinstance(launch, LaunchOp):
        new = LaunchOp.create(
            operands=launch.operands,
            result_types=[*launch.result_types, type],
            properties=launch.properties,
            attributes=launch.attributes,
            location=launch.location,
        )
        block.insert_op_before(new, launch)
        for old, result in zip(launch.results, new.results, strict=False):
            old.replace_all_uses_with(result)
    else:
        empty = host.EmptyOp.create(result_types=[type], location=launch.location)
        outs, attributes = [*launch.outs, empty.res], dict(launch.attributes)
        new = host.LaunchOp.make(
            launch.callee, launch.ins, outs, launch.sizes, attributes=attributes, location=launch.location
        )
        drop = host.DropOp.create(operands=[empty.res], location=launch.location)
        block.insert_ops_before([empty, new, drop], launch)
    launch.detach()
    launch.erase()
    return new
