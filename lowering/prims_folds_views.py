"""Rewrites of views, reductions and indexed reads: fewer of them, and none that moves nothing."""

from __future__ import annotations

from typing import Any

import sympy
from xdsl.ir import SSAValue

from ..dialects import expr, prims
from ..dialects.prims import PrimsOp
from ..dialects.tensor import is_float
from .prims_facts import stays_within
from .prims_folds import MOVES, Folder, constant, fold, full, type_of
from .storage import is_dense


@fold(*MOVES)
def fold_view_of_constant(op: PrimsOp, f: Folder) -> SSAValue | None:
    """view(full a) = full a."""
    value = constant(op.operands[0])
    return None if value is None else full(f, value, type_of(op.results[0]))


@fold(prims.BroadcastOp, prims.ReshapeOp)
def fold_same_shape(op: PrimsOp, f: Folder) -> SSAValue | None:
    """A view of the same shape is x."""
    return op.operands[0] if type_of(op.operands[0]).shape == type_of(op.results[0]).shape else None


@fold(prims.ReshapeOp)
def fold_reshape(op: prims.ReshapeOp, f: Folder) -> SSAValue | None:
    """reshape(reshape(x)) = reshape(x); also where the inner one is a broadcast that only adds dims of size 1."""
    inner = op.operand.owner
    if isinstance(inner, prims.ReshapeOp) or (isinstance(inner, prims.BroadcastOp) and _only_adds_ones(inner)):
        source = inner.operand
        if type_of(source).shape == type_of(op.result).shape:
            return source
        return f.add(prims.ReshapeOp.make(source, type_of(op.result)))
    return None


def _only_adds_ones(op: prims.BroadcastOp) -> bool:
    return type_of(op.operand).shape == tuple(type_of(op.result).shape[d] for d in op.ints("dims")) and all(
        n == 1 for d, n in enumerate(type_of(op.result).shape) if d not in op.ints("dims")
    )


@fold(prims.BroadcastOp)
def fold_broadcast(op: prims.BroadcastOp, f: Folder) -> SSAValue | None:
    """broadcast(broadcast(x)) = broadcast(x)."""
    inner = op.operand.owner
    if not isinstance(inner, prims.BroadcastOp):
        return None
    outer = op.ints("dims")
    return f.add(prims.BroadcastOp.make(inner.operand, [outer[d] for d in inner.ints("dims")], type_of(op.result)))


@fold(prims.TransposeOp)
def fold_transpose(op: prims.TransposeOp, f: Folder) -> SSAValue | None:
    """transpose(transpose(x)) = transpose(x); the identity is x."""
    perm = op.ints("perm")
    if perm == tuple(range(len(perm))):
        return op.operand
    inner = op.operand.owner
    if not isinstance(inner, prims.TransposeOp):
        return None
    inner_perm = inner.ints("perm")
    both = [inner_perm[p] for p in perm]
    if both == list(range(len(both))):
        return inner.operand
    return f.add(prims.TransposeOp.make(inner.operand, both, type_of(op.result)))


@fold(prims.ConvertOp)
def fold_transposed(op: prims.ConvertOp, f: Folder) -> SSAValue | None:
    """convert(transpose(x)) = transpose(convert(x)) where both lie alike: whoever reads x both ways has one copy."""
    view = op.operand.owner
    t = type_of(op.result)
    if not isinstance(view, prims.TransposeOp) or t.strides != type_of(op.operand).strides or not is_dense(t):
        return None
    source = type_of(view.operand).with_(dtype=t.dtype)
    if tuple(source.strides[d] for d in view.ints("perm")) != t.strides:
        return None
    value = f.add(prims.ConvertOp.make(view.operand, source, rounding=op.rounding is not None))
    return f.add(prims.TransposeOp.make(value, view.ints("perm"), t))


@fold(prims.SliceOp)
def fold_slice(op: prims.SliceOp, f: Folder) -> SSAValue | None:
    """All of x is x; slice(slice(x)) = slice(x)."""
    starts, steps = op.exprs("start"), op.exprs("step")
    if (
        type_of(op.operand).shape == type_of(op.result).shape
        and all(a == 0 for a in starts)
        and all(s == 1 for s in steps)
    ):
        return op.operand
    inner = op.operand.owner
    if not isinstance(inner, prims.SliceOp):
        return None
    start: list[Any] = []
    stop: list[Any] = []
    step: list[Any] = []
    sizes = type_of(op.result).shape
    parts: Any = zip(inner.exprs("start"), inner.exprs("step"), starts, steps, sizes, strict=True)
    for a, s, b, u, size in parts:
        start.append(expr.normal(a + s * b))
        step.append(expr.normal(s * u))
        stop.append(start[-1] if size == 0 else expr.normal(start[-1] + (size - 1) * step[-1] + 1))
    return f.add(prims.SliceOp.make(inner.operand, start, stop, step, type_of(op.result)))


@fold(prims.PadOp)
def fold_pad(op: prims.PadOp, f: Folder) -> SSAValue | None:
    """pad by nothing is x; pad(full a) with a = full a."""
    if all(n == 0 for name in ("low", "high") for n in op.exprs(name)):
        return op.operand
    inner = op.operand.owner
    if isinstance(inner, prims.FullOp) and inner.value is op.value:
        return full(f, inner.value.value, type_of(op.result))
    return None


@fold(prims.CatOp)
def fold_cat(op: prims.CatOp, f: Folder) -> SSAValue | None:
    """cat(x) = x; parts without elements are left out; cat(full a, full a) = full a."""
    dim = op.integer("dim")
    parts = [v for v in op.operands if type_of(v).shape[dim] != 0]
    if len(parts) == 1:
        return parts[0]
    constants = {v.owner.value for v in op.operands if isinstance(v.owner, prims.FullOp)}
    if len(constants) == 1 and all(isinstance(v.owner, prims.FullOp) for v in op.operands):
        return full(f, constants.pop().value, type_of(op.result))
    if parts and len(parts) < len(op.operands):
        return f.add(prims.CatOp.make(parts, dim, type_of(op.result)))
    return None


# Reductions and indexing


@fold(prims.ReduceOp)
def fold_reduce(op: prims.ReduceOp, f: Folder) -> SSAValue | None:
    """Over dims of size 1 there is nothing to combine (but a sum of -0.0 alone is 0.0)."""
    if not all(type_of(op.operand).shape[d] == 1 for d in op.ints("dims")):
        return None
    if op.word("kind") == "sum" and is_float(type_of(op.operand).dtype):
        return None
    if op.word("kind").startswith("arg"):
        return full(f, 0, type_of(op.result))
    return f.add(prims.ReshapeOp.make(op.operand, type_of(op.result)))


@fold(prims.GatherOp)
def fold_gather(op: prims.GatherOp, f: Folder) -> SSAValue | None:
    """x[i] with i known as an expression over dims is read at that expression; no check where that stays within x."""
    known = [f.facts.expression(i) for i in op.indices]
    if all(e is None for e in known):
        return None
    left = [i for i, e in zip(op.indices, known, strict=True) if e is None]
    names: dict[sympy.Symbol, Any] = {}
    for k, e in enumerate(known):
        names[expr.symbol(f"i{k}")] = e if e is not None else expr.symbol(f"i{len(names) - _count_known(known[:k])}")
    index = [expr.substitute(e, names) for e in op.exprs("index")]
    t = type_of(op.result)
    message = op.message.data if op.message is not None else None
    sizes = type_of(op.operand).shape
    if not left and all(stays_within(e, t.shape, size) for e, size in zip(index, sizes, strict=True)):
        message = None
    return f.add(prims.GatherOp.make(op.operand, left, index, t, message))


def _count_known(known: list[Any]) -> int:
    return sum(e is not None for e in known)
