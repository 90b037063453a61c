"""Loops over bf16 whose vectors hold every other element, which of 32 bits in memory are the high and the low half.

for [r0 = 1024] attributes {vector = "r0", lanes = 32, unroll = 2} { load %x[r0]; …; store %s[r0] : bf16 }
for [r0 = 1024] attributes {vector = "r0", lanes = 16, unroll = 4, apart} { load %x[r0]; …; store %s[r0] : bf16 }

Of two vectors the first has the even elements, the second the odd ones: a shift and a mask make f32 of bf16, and a
shift and a selection of bits bf16 of what is rounded, where neighbours would have to be moved between lanes. Scratch
that only such loops use keeps that order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import IntegerAttr, IntegerType, StringAttr, UnitAttr, f32, i64
from xdsl.ir import SSAValue

from ..dialects import expr
from ..dialects.loop import ForOp, IndexOp, KernelOp, LoadOp, LoopDim, ScratchOp, StoreOp, body_ops
from .schedule_access import Access, accesses, buffer_of, stride, type_of
from .vectors import Vectors

KINDS = frozenset({"add", "mul", "max", "min"})
"""Reductions that do not ask where an element stands."""


def set_apart(kernel: KernelOp, vectors: Vectors) -> None:
    """Mark such loops of a kernel, and the accesses of their scratch."""
    if vectors.bits < 256:
        return
    lanes = vectors.bits // 32
    loops = {o: d for o in body_ops(kernel.body) if isinstance(o, ForOp) and (d := _may_be(o, lanes)) is not None}
    while True:
        scratch = _scratch(kernel, loops, lanes)
        left = {o: d for o, d in loops.items() if _gains(_moving(o, d), scratch)}
        if len(left) == len(loops):
            break
        loops = left
    for loop, d in loops.items():
        loop.attributes["apart"] = UnitAttr()
        loop.attributes["unroll"] = IntegerAttr(_copies(loop, lanes), i64)
        loop.attributes["lanes"] = IntegerAttr(lanes, i64)
        for a in _moving(loop, d):
            if buffer_of(a) in scratch:
                a.attributes["apart"] = UnitAttr()


def _may_be(loop: ForOp, lanes: int) -> LoopDim | None:
    """The vector of a loop in which nothing but addresses depends on the place of an element."""
    name = loop.attributes.get("vector")
    if not isinstance(name, StringAttr) or _copies(loop, lanes) < 2:
        return None
    d = next(d for d in loop.dims if d.name == name.data)
    extent = d.extent
    if isinstance(extent, int) and extent < 2 * lanes:
        return None
    varying: set[SSAValue] = set()
    for op in body_ops(loop.body):
        if isinstance(op, (LoadOp, StoreOp)):
            if not _is_plain(op, d, varying):
                return None
            if isinstance(op, LoadOp) and stride(op, d.symbol) != 0:
                varying.add(op.res)
        elif isinstance(op, ForOp):
            if "vector" in op.attributes or not _adds_up(op):
                return None
            varying.update(op.res)
        elif op.name.partition(".")[0] in ("arith", "math") or op.name in ("loop.fn", "loop.yield"):
            if any(v in varying for v in op.operands):
                varying.update(op.results)
        elif not isinstance(op, IndexOp) or d.symbol in expr.symbols(op.value[0]):
            return None
    return d if _adds_up(loop) else None


def _copies(loop: ForOp, lanes: int) -> int:
    """Vectors of `lanes` side by side, an even number; 0 where there are others."""
    found, unroll = (cast("IntegerAttr[IntegerType]", loop.attributes[name]).value.data for name in ("lanes", "unroll"))
    return found * unroll // lanes // 2 * 2 if found in (lanes, 2 * lanes) else 0


def _adds_up(loop: ForOp) -> bool:
    return all(k.data in KINDS for k in loop.reduce.data) and all(r.type == f32 for r in loop.res)


def _is_plain(a: Access, d: LoopDim, varying: set[SSAValue]) -> bool:
    """Whether a vector of an access is one run of f32 or bf16, or what all lanes share."""
    if a.mask is not None or any(v in varying for v in (*a.indices, *([a.ok] if a.ok is not None else []))):
        return False
    step = stride(a, d.symbol)
    if isinstance(a, StoreOp) and (a.ok is not None or step != 1 or not _may_combine(a)):
        return False
    return step == 0 or (step == 1 and type_of(a).dtype in ("f32", "bf16"))


def _may_combine(a: StoreOp) -> bool:
    return a.combine is None or (a.combine.data == "add" and type_of(a).dtype == "f32")


def _moving(loop: ForOp, d: LoopDim) -> list[Access]:
    return [a for a in accesses(body_ops(loop.body)) if stride(a, d.symbol) == 1]


def _gains(found: Sequence[Access], scratch: set[SSAValue]) -> bool:
    """Whether more is not moved between lanes than is: f32 in memory is in order."""
    others = sum(type_of(a).dtype == "f32" and buffer_of(a) not in scratch for a in found)
    kept = any(buffer_of(a) in scratch for a in found)
    halves = sum(type_of(a).dtype == "bf16" for a in found)
    return halves > others or (kept and not others)


def _scratch(kernel: KernelOp, loops: dict[ForOp, LoopDim], lanes: int) -> set[SSAValue]:
    """Scratch of f32 of which all loops go over the same whole pairs of vectors."""
    places: dict[SSAValue, bool] = {}
    for a in accesses(body_ops(kernel.body)):
        buffer = buffer_of(a)
        if isinstance(buffer.owner, ScratchOp):
            places[buffer] = places.get(buffer, True) and _is_whole(a, loops, lanes)
    return {buffer for buffer, whole in places.items() if whole}


def _is_whole(a: Access, loops: dict[ForOp, LoopDim], lanes: int) -> bool:
    loop = a.parent_op()
    d = loops.get(loop) if isinstance(loop, ForOp) else None
    if d is None or len(a.index) != 1 or type_of(a).dtype != "f32":
        return False
    whole = isinstance(d.extent, int) and d.extent % (2 * lanes) == 0
    return whole and a.index[0] == expr.distance(d.lo, d.symbol)
