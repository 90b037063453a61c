"""Whether kernels that are launched together need nothing of each other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from xdsl.ir import Operation, SSAValue

from . import expr, flow, host, loop
from .errors import LamellaVerifyError
from .expr import Dim
from .tensor import itemsize


def verify_together(op: host.TogetherOp, symbols: Mapping[str, Operation]) -> None:
    """Each launch writes what no other of them reads or writes, and tells of nothing. Raises LamellaVerifyError."""
    at: dict[SSAValue, list[tuple[Dim, Dim | None, host.LaunchOp, bool]]] = {}
    for launch in op.launches:
        kernel = symbols.get(launch.callee)
        if isinstance(kernel, loop.KernelOp) and any(isinstance(o, loop.AssertOp) for o in loop.body_ops(kernel.body)):
            raise LamellaVerifyError(
                launch, f"is of @{launch.callee}, which has a loop.assert: what it finds wrong could not be told"
            )
        for values, writes in ((launch.ins, False), (launch.outs, True)):
            for value in values:
                for root, lo, hi in _places(value):
                    others = at.setdefault(root, [])
                    for low, high, other, wrote in others:
                        if other is not launch and (writes or wrote) and _meet(lo, hi, low, high):
                            raise LamellaVerifyError(
                                launch,
                                f"{'writes' if writes else 'reads'} memory that @{other.callee} "
                                f"{'writes' if wrote else 'reads'} in the same host.together",
                            )
                    others.append((lo, hi, launch, writes))


def verify_marks(ops: Iterable[Operation]) -> None:
    """No launch takes a result of one that it is together with. Raises LamellaVerifyError."""
    number: Any = None
    made: dict[SSAValue, loop.LaunchOp] = {}
    for op in ops:
        mark = op.together if isinstance(op, loop.LaunchOp) else None
        if mark is None or mark != number:
            made = {}
        number = mark
        if not isinstance(op, loop.LaunchOp) or mark is None:
            continue
        for value in op.args:
            if value in made:
                raise LamellaVerifyError(op, f"takes a result of @{made[value].callee}, which it is together with")
        made.update((r, op) for r in op.res)


def _places(value: SSAValue) -> list[tuple[SSAValue, Dim, Dim | None]]:
    """Where a tensor lies: bytes `lo` to `hi` of an arena, or all of the memory that something has made."""
    # Here, as they bring torch, which text without groups of launches does not need.
    from .aliasing import sources
    from .aten import AtenOp

    match value.owner:
        case host.ViewOp() as view:
            return _places(view.source)
        case host.SlotOp() as slot:
            t = slot.res.type
            last: Any = sum(((n - 1) * s for n, s in zip(t.shape, t.strides, strict=True)), 0)  # pyright: ignore
            end = 0 if 0 in t.shape else (last + 1) * itemsize(t.dtype)
            root = slot.arena.owner.source if isinstance(slot.arena.owner, host.LendOp) else slot.arena
            return [(root, slot.offset[0], expr.normal(slot.offset[0] + end))]
        case AtenOp() | flow.FlowOp() as op:
            certain, possible = sources(op, list(op.results).index(cast(Any, value)))
            return [(value, 0, None), *(place for v in (*certain, *possible) for place in _places(v))]
        case _:
            return [(value, 0, None)]


def _meet(lo: Dim, hi: Dim | None, low: Dim, high: Dim | None) -> bool:
    """Whether two parts of one memory meet. Of parts whose places are not numbers, planning has kept those apart that
    do not begin alike.
    """
    if hi is None or high is None or lo == low:
        return hi != lo and high != low
    numbers = (lo, hi, low, high)
    return all(isinstance(n, int) for n in numbers) and max(cast(Any, lo), low) < min(cast(Any, hi), high)
