"""Memory accesses of a kernel along its dims: strides, and dims that are one dim in memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, TypeAlias, cast

import sympy
from xdsl.ir import Operation, SSAValue

from ..dialects import expr
from ..dialects.expr import Dim
from ..dialects.loop import (
    DimsAttr,
    ForOp,
    IndexAttr,
    KernelOp,
    LoadOp,
    LoopDim,
    PredAttr,
    ScanOp,
    SortOp,
    StoreOp,
    body_ops,
    op_symbols,
)
from ..dialects.tensor import TensorType
from .fuse_cost import Hints

Access: TypeAlias = LoadOp | StoreOp


def accesses(ops: Iterable[Operation]) -> list[Access]:
    """The loads and stores among ops."""
    return [o for o in ops if isinstance(o, (LoadOp, StoreOp))]


def buffer_of(a: Access) -> SSAValue:
    return a.source if isinstance(a, LoadOp) else a.target


def type_of(a: Access) -> TensorType:
    return cast(TensorType, buffer_of(a).type)


def stride(a: Access, d: sympy.Symbol) -> Dim | None:
    """By how many elements an access moves when `d` grows by 1; None where that is not one number."""
    total: Any = 0
    for e, s in zip(a.index, type_of(a).strides, strict=True):
        if d not in expr.symbols(e):
            continue
        step = 1 if e == d else _derivative(e, d)
        if step is None or d in expr.symbols(step):
            return None
        total = total + step * s
    return expr.normal(total)


@lru_cache(maxsize=1 << 14)
def _derivative(e: sympy.Basic, d: sympy.Symbol) -> Dim | None:
    return None if e.has(sympy.Function) else expr.normal(sympy.diff(e, d))


def collapse(kernel: KernelOp, hints: Hints) -> None:
    """Make one dim of two wherever the kernel runs over both and no buffer can tell: its buffers are seen flatter."""
    _drop_ones(kernel)
    if not any(isinstance(o, ForOp) for o in kernel.body.block.ops):
        _order_grid(kernel, hints)
    while (pair := _collapsible(kernel)) is not None:
        _merge(kernel, *pair)


def _drop_ones(kernel: KernelOp) -> None:
    """Remove dims of one point."""
    scanned = {o.dim.data for o in body_ops(kernel.body) if isinstance(o, (ScanOp, SortOp))}
    zero: dict[sympy.Symbol, int] = {}
    for op, dims in _containers(kernel):
        ones = [d for d in dims if d.lo == 0 and d.hi == 1 and d.name not in scanned]
        if op is not kernel and len(ones) == len(dims):
            ones = ones[1:]
        zero |= {d.symbol: 0 for d in ones}
        op.properties["grid" if op is kernel else "dims"] = DimsAttr.get(d for d in dims if d not in ones)
    if not zero:
        return
    for o in body_ops(kernel.body):
        for name, a in o.properties.items():
            if isinstance(a, IndexAttr):
                o.properties[name] = IndexAttr.get(expr.substitute(e, zero) for e in a)
            elif isinstance(a, PredAttr):
                o.properties[name] = PredAttr.get(expr.substitute(r, zero) for r in a)
            elif isinstance(a, DimsAttr):
                o.properties[name] = DimsAttr.get(
                    (d.name, expr.substitute(d.lo, zero), expr.substitute(d.hi, zero)) for d in a
                )


def _order_grid(kernel: KernelOp, hints: Hints) -> None:
    """Order the dims of a kernel without loops as its largest output lies in memory."""
    stores = [o for o in kernel.body.block.ops if isinstance(o, StoreOp)]
    if not stores:
        return
    largest = max(stores, key=lambda o: hints.bytes(o.target))
    strides = {d: stride(largest, d.symbol) for d in kernel.grid}
    if any(s is None for s in strides.values()):
        return
    ordered = sorted(kernel.grid, key=lambda d: -hints.size(cast(Dim, strides[d])))
    kernel.properties["grid"] = DimsAttr.get(ordered)


def _containers(kernel: KernelOp) -> list[tuple[Operation, DimsAttr]]:
    fors = [o for o in body_ops(kernel.body) if isinstance(o, ForOp)]
    return [(kernel, kernel.grid), *((f, f.dims) for f in fors)]


def _collapsible(kernel: KernelOp) -> tuple[LoopDim, LoopDim] | None:
    ops = list(body_ops(kernel.body))
    found = accesses(ops)
    touched: set[str] = set()
    for o in ops:
        if isinstance(o, (LoadOp, StoreOp)):
            if o.mask is not None:
                touched |= {s.name for r in o.mask for s in r.free_symbols}
        elif not isinstance(o, ForOp):
            touched |= op_symbols(o)
        scanned = o.properties.get("dim")
        if scanned is not None:
            touched.add(cast(Any, scanned).data)
        if isinstance(o, ForOp):
            touched |= {s.name for d in o.dims for s in expr.symbols(d.lo) | expr.symbols(d.hi)}
    containers = [dims for _, dims in _containers(kernel)]
    for dims in containers:
        for a, b in pairwise(dims):
            if a.name in touched or b.name in touched or b.lo != 0 or (dims is kernel.grid and a.lo != 0):
                continue
            if all(_adjacent(c, a, b) for c in containers) and _all_merge(found, a, b):
                return a, b
    return None


def _adjacent(dims: DimsAttr, a: LoopDim, b: LoopDim) -> bool:
    names = dims.names
    if a.name not in names and b.name not in names:
        return True
    if a.name not in names or b.name not in names:
        return False
    i = names.index(a.name)
    return names[i + 1 : i + 2] == (b.name,) and dims[i] == a and dims[i + 1] == b


def _all_merge(found: Sequence[Access], a: LoopDim, b: LoopDim) -> bool:
    places: dict[SSAValue, _Place | None] = {}
    for access in found:
        place = _place(access, a, b)
        if place is _NEVER or places.setdefault(buffer_of(access), place) != place:
            return False
    return True


_Place: TypeAlias = tuple[int, int]
"""Positions of two dims in an index."""

_NEVER: _Place = (-1, -1)


def _place(access: Access, a: LoopDim, b: LoopDim) -> _Place | None:
    """Where `a` and `b` stand in an index, lying as one dim in memory; twice the same for […, a*n + b, …] with n the
    extent of b; None if neither is there.
    """
    index, t = list(access.index), type_of(access)
    with_a = [k for k, e in enumerate(index) if a.symbol in expr.symbols(e)]
    with_b = [k for k, e in enumerate(index) if b.symbol in expr.symbols(e)]
    if not with_a and not with_b:
        return None
    if len(with_a) != 1 or len(with_b) != 1:
        return _NEVER
    (k,), (j,) = with_a, with_b
    if j == k:
        rest = expr.normal(index[k] - a.symbol * b.extent - b.symbol)
        return _NEVER if expr.symbols(rest) & {a.symbol, b.symbol} else (k, k)
    if index[k] != a.symbol or index[j] != b.symbol or t.shape[j] != b.extent:
        return _NEVER
    return (k, j) if t.strides[k] == expr.normal(t.strides[j] * t.shape[j]) else _NEVER  # pyright: ignore


def _merge(kernel: KernelOp, a: LoopDim, b: LoopDim) -> None:
    lo, hi = (expr.normal(n * b.extent) for n in (a.lo, a.hi))  # pyright: ignore[reportOperatorIssue]
    flat: dict[SSAValue, _Place] = {}
    for access in accesses(body_ops(kernel.body)):
        place = _place(access, a, b)
        if place is None:
            continue
        k, j = place
        index = list(access.index)
        if k == j:
            index[k] = expr.normal(index[k] - a.symbol * b.extent - b.symbol + a.symbol)
        else:
            flat[buffer_of(access)] = place
            del index[j]
        access.properties["index"] = IndexAttr.get(index)
    for buffer, (k, j) in flat.items():
        t = cast(TensorType, buffer.type)
        shape, strides = list(t.shape), list(t.strides)
        shape[k] = expr.normal(shape[k] * shape[j])  # pyright: ignore[reportOperatorIssue]
        strides[k] = strides[j]
        del shape[j], strides[j]
        buffer._type = TensorType.get(shape, t.dtype, strides, t.device)  # pyright: ignore[reportPrivateUsage]
    for op, dims in _containers(kernel):
        if a.name in dims.names:
            i = dims.names.index(a.name)
            items = [*dims[:i], LoopDim(a.name, lo, hi), *dims[i + 2 :]]
            op.properties["grid" if op is kernel else "dims"] = DimsAttr.get(items)
