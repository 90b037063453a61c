"""When a kernel may write a result over one of its inputs: every point reads an element before anyone writes it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, cast

import sympy
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Block, Operation, SSAValue

from ..dialects import expr
from ..dialects.loop import ForOp, KernelOp, LoadOp, StoreOp, ViewOp, YieldOp
from ..dialects.tensor import TensorType
from .kernel_cost import annotate
from .schedule_kernel import set_grain


@dataclass(frozen=True)
class _Access:
    """A load or store: its index, and where it stands, as the positions of the ops around it and its own."""

    index: tuple[Any, ...]
    path: tuple[int, ...]
    loops: tuple[Operation, ...]


def may_overwrite(kernel: KernelOp, source: int, out: int) -> bool:
    """Whether out number `out` may be the memory of in number `source`, which nothing else needs any more.

    Elements lie alike in both, and nothing is written before it has been read: a value is read earlier in the very
    iteration that writes its index; or in a loop that ends before the writing loop begins, where grid points keep to
    elements of their own.
    """
    read, written = kernel.ins[source], kernel.outs[out]
    if not cast(TensorType, read.type).lies_as(cast(TensorType, written.type)):
        return False
    accesses = list(_accesses(kernel.body.block))
    loads = [(op, a) for op, a in accesses if isinstance(op, LoadOp) and op.source is read]
    stores = [a for op, a in accesses if isinstance(op, StoreOp) and op.target is written]
    if any(op.indices for op, _ in loads):
        return False
    grid = frozenset(expr.symbol(name) for name in kernel.grid.names)
    fine = (_apart, _same_point, lambda load, store: _earlier_loop(load, store, grid))
    return all(any(rule(load, store) for rule in fine) for _, load in loads for store in stores)


def without_copies(kernel: KernelOp, source: int, out: int, name: str) -> KernelOp | None:
    """The kernel for when both are one memory: without loops that only copy one to the other. None if it has none."""
    copies = [i for i, op in enumerate(kernel.body.block.ops) if _is_copy(op, kernel.ins[source], kernel.outs[out])]
    if not copies:
        return None
    short = kernel.clone()
    short.properties["sym_name"] = StringAttr(name)
    for op in [op for i, op in enumerate(short.body.block.ops) if i in copies]:
        op.detach()
        op.erase()
    annotate(short)
    set_grain(short)
    return short


def _is_copy(op: Operation, source: SSAValue, out: SSAValue) -> bool:
    """A loop that stores every element it loads from `source` at the same index of `out`, and does nothing else."""
    if not isinstance(op, ForOp):
        return False
    match list(op.body.block.ops):
        case [LoadOp() as load, StoreOp() as store, YieldOp() as last]:
            plain = not any((load.indices, store.indices, load.mask, store.mask, load.ok, store.ok, store.combine))
            both = load.source is source and store.target is out and store.value is load.res
            return plain and both and load.index == store.index and not last.values
        case _:
            return False


def _accesses(
    block: Block, path: tuple[int, ...] = (), loops: tuple[Operation, ...] = ()
) -> Iterator[tuple[Any, _Access]]:
    for i, op in enumerate(block.ops):
        if isinstance(op, (LoadOp, StoreOp)):
            yield op, _Access(tuple(op.index), (*path, i), loops)
        elif isinstance(op, ForOp):
            yield from _accesses(op.body.block, (*path, i), (*loops, op))


def _apart(load: _Access, store: _Access) -> bool:
    """They are never at one element: some index is in other bounds."""
    pairs = ((_bounds(e, load), _bounds(f, store)) for e, f in zip(load.index, store.index, strict=True) if e is not f)
    return any(a and b and (a[1] <= b[0] or b[1] <= a[0]) for a, b in pairs)


def _bounds(e: Any, access: _Access) -> tuple[int, int] | None:
    """The least value of an index and the end of its values, where these are known: of a number, or a dim."""
    if isinstance(e, (int, sympy.Integer)):
        return int(e), int(e) + 1
    dims = (d for loop in access.loops if isinstance(loop, ForOp) for d in loop.dims if d.symbol == e)
    return next(((d.lo, d.hi) for d in dims if isinstance(d.lo, int) and isinstance(d.hi, int)), None)


def _same_point(load: _Access, store: _Access) -> bool:
    """The load stands before the store in one iteration, at the same index."""

    def same(e: Any, f: Any) -> bool:
        a = _bounds(e, load)
        return e == f or (a is not None and a[1] - a[0] == 1 and a == _bounds(f, store))

    return (
        load.loops == store.loops
        and load.path < store.path
        and all(same(e, f) for e, f in zip(load.index, store.index, strict=True))
    )


def _earlier_loop(load: _Access, store: _Access, grid: frozenset[sympy.Symbol]) -> bool:
    """All loads of a point, of the grid and of the loops that both are in, are done before its first store, and such
    points keep to elements of their own.
    """
    around = [a for a, b in zip(load.loops, store.loops, strict=False) if a is b]
    if not load.path[len(around)] < store.path[len(around)]:
        return False
    points = grid | {d.symbol for loop in around if isinstance(loop, ForOp) for d in loop.dims}
    reading, writing = (_grid_symbols(a.loops, grid) for a in (load, store))
    same = {e for e, f in zip(load.index, store.index, strict=True) if e == f}
    return points <= {p for e in same for p in (e, reading.get(e)) if p == e or writing.get(e) == p}


def _grid_symbols(loops: Iterable[Operation], grid: frozenset[sympy.Symbol]) -> dict[Any, sympy.Symbol]:
    """Indices that differ between grid points, with the dim of the grid that says how: it, or a loop over blocks."""
    found: dict[Any, sympy.Symbol] = {g: g for g in grid}
    for d in (d for loop in loops if isinstance(loop, ForOp) for d in loop.dims):
        for g in expr.symbols(d.lo) & grid:
            following = expr.substitute(d.lo, {g: g + 1})
            if following == d.hi or (isinstance(d.hi, sympy.Min) and following in d.hi.args):
                found[d.symbol] = g
    return found


def whole(value: SSAValue) -> SSAValue:
    """The tensor of which `value` is all, in order: views that only give a contiguous tensor another shape are
    undone.
    """
    while isinstance(value.owner, ViewOp) and value.owner.offset[0] == 0:
        source = value.owner.source
        both = cast(TensorType, source.type), cast(TensorType, value.type)
        if not all(t.is_in_order for t in both) or sympy.expand(both[0].numel - both[1].numel) != 0:
            break
        value = source
    return value
