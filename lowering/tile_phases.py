"""Kernels whose programs would have to wait for each other, as several launches: a copy, then updates of the copy.

    kernel @k(%base, %i, %v) outs(%y) grid []: for [d2, d1] { y = base }  for [d0] { for [d1] { y[i] += v } }
    kernel @k_part0(…) grid [d2, d1]: y = base     kernel @k_part1(…) grid [d0, d1]: y[i] += v

Updates that the hardware makes at once run in any order. Others that may meet stay in order, in one program.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import StringAttr, SymbolRefAttr
from xdsl.ir import Operation

from ..dialects.host import LaunchOp as HostLaunchOp
from ..dialects.loop import DimsAttr, ForOp, KernelOp, ScratchOp, StoreOp, body_ops
from ..dialects.tensor import TensorType, is_float
from .fuse_emit import drop_unused
from .tt_access import atomic_kind

DETERMINISTIC = "deterministic"
"""The attribute of a kernel whose sums keep their order."""


def updates(op: Operation) -> list[StoreOp]:
    """The stores of a kernel or loop to memory that may meet: data says where they go, or they change what is there."""
    found = [o for r in op.regions for o in body_ops(r) if isinstance(o, StoreOp)]
    return [o for o in found if (o.combine is not None or o.indices) and not isinstance(o.target.owner, ScratchOp)]


def ordered_dims(kernel: Operation) -> set[str]:
    """Dims along which updates must keep their order: they may meet, and are not made at once."""
    names: set[str] = set()
    for o in updates(kernel):
        assert isinstance(o.target.type, TensorType)
        dtype = o.target.type.dtype
        sums = o.combine is not None and o.combine.data == "add" and is_float(dtype)
        any_order = o.combine is None or atomic_kind(o.combine.data, dtype) is not None
        if any_order and not (sums and DETERMINISTIC in kernel.attributes):
            continue
        around = o.parent_op()
        while isinstance(around, ForOp):
            names |= {d.name for d in around.dims if d.symbol not in tuple(o.index)}
            around = around.parent_op()
    return names


def split_phases(kernel: KernelOp, launches: Sequence[Any]) -> list[KernelOp]:
    """The kernels in place of one, which are launched one after the other."""
    loops = [o for o in kernel.body.block.ops if isinstance(o, ForOp)]
    alone = any(isinstance(o, StoreOp) for o in kernel.body.block.ops) or any(o.reduce.data for o in loops)
    if alone or not updates(kernel) or not all(isinstance(launch, HostLaunchOp) for launch in launches):
        return [kernel]
    parts = [_part(kernel, i) for i in range(len(loops))]
    block = kernel.parent_block()
    assert block is not None
    block.insert_ops_before(parts, kernel)
    for launch in launches:
        around = launch.parent_block()
        copies = [launch.clone() for _ in parts]
        for part, copy in zip(parts, copies, strict=True):
            copy.properties["kernel"] = SymbolRefAttr(part.sym_name)
            copy.location = launch.location
        around.insert_ops_before(copies, launch)
        launch.detach()
        launch.erase()
    kernel.detach()
    kernel.erase()
    return parts


def _part(kernel: KernelOp, n: int) -> KernelOp:
    """A kernel of the `n`-th loop alone, with the dims of that loop in the grid."""
    part = kernel.clone()
    part.location = kernel.location
    loops = [o for o in part.body.block.ops if isinstance(o, ForOp)]
    for i, o in enumerate(loops):
        if i != n:
            o.detach()
            o.erase()
    part.sym_name = StringAttr(f"{kernel.sym_name.data}_part{n}")
    _flatten(part, loops[n])
    drop_unused(part.body.block)
    return part


def _flatten(kernel: KernelOp, loop: ForOp) -> None:
    """Move a loop, and those that are in it alone, into the grid, as far as their points need no order."""
    ordered = ordered_dims(kernel)
    if any(d.name in ordered for d in loop.dims) or any(d.lo != 0 for d in loop.dims) or loop.reduce.data:
        return
    kernel.properties["grid"] = DimsAttr.get([*kernel.grid, *loop.dims])
    ops = list(loop.body.block.ops)[:-1]
    block = kernel.body.block
    for o in ops:
        o.detach()
    block.insert_ops_before(ops, loop)
    loop.detach()
    loop.erase()
    inner = [o for o in ops if isinstance(o, ForOp)]
    if len(inner) == 1 and not any(isinstance(o, StoreOp) for o in ops):
        _flatten(kernel, inner[0])
