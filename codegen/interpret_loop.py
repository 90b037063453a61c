"""The loop level on torch tensors: a body is evaluated at every point of its domain at once. Clear rather than fast.

Exact in masks, asserts, NaN rules and dtypes; only the order within a reduction is torch's. Every access is checked:
one outside of its tensor that no mask guards raises OutOfBounds, a failed `loop.assert` raises what it says.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
from torch import Tensor
from xdsl.dialects import arith
from xdsl.ir import Block, Operation, SSAValue

from ..dialects import expr
from ..dialects.loop import (
    SORT,
    AssertOp,
    EndOp,
    ForOp,
    IndexOp,
    KernelOp,
    LaunchOp,
    LoadOp,
    NestOp,
    PredOp,
    ScanOp,
    ScatterOp,
    ScratchOp,
    SortOp,
    StoreOp,
    ViewOp,
    YieldAtOp,
    YieldOp,
)
from ..dialects.raised import error
from ..dialects.tensor import TORCH_DTYPES, TensorType
from .interpret_combine import combine, scan
from .interpret_points import Memory, Points
from .interpret_scalar import constant, run_scalar, signless
from .interpreter import Environment, InterpreterError


def empty(t: TensorType, evaluate: Callable[[Any], int]) -> Tensor:
    """A new tensor of a type."""
    shape, strides = [evaluate(d) for d in t.shape], [evaluate(s) for s in t.strides]
    return torch.empty_strided(shape, strides, dtype=getattr(torch, TORCH_DTYPES[t.dtype]))


# Bodies


def _run_body(block: Block, points: Points) -> tuple[Tensor, ...]:
    """Run the ops of a body; the values it yields."""
    for op in block.ops:
        if isinstance(op, YieldOp):
            return tuple(points.values[v] for v in op.values)
        if isinstance(op, EndOp | YieldAtOp):
            break
        run = BODY.get(type(op))
        if run is not None:
            results = run(op, points)
        elif op.name.startswith(("arith.", "math.", "loop.fn")):
            results = (_scalar(op, points),)
        else:
            raise InterpreterError(f"cannot run {op.name} in the body of a loop")
        for result, value in zip(op.results, results, strict=True):
            points.values[result] = value
    return ()


def _scalar(op: Operation, points: Points) -> Tensor:
    if isinstance(op, arith.ConstantOp):
        return points.align(constant(op.value))
    try:
        return run_scalar(op, [points.align(points.values[v]) for v in op.operands])
    except KeyError:
        raise InterpreterError(f"cannot run {op.name} in the body of a loop") from None


def _memory(v: SSAValue, points: Points) -> Memory:
    value = points.values[v]
    if isinstance(value, Memory):
        return value
    return Memory(signless(value, cast(TensorType, v.type).dtype))


def _where(op: LoadOp | StoreOp, points: Points) -> Tensor | None:
    ok = None if op.ok is None else points.values[op.ok]
    return points.where(None if op.mask is None else tuple(op.mask), ok)


def _load(op: LoadOp, points: Points) -> tuple[Tensor]:
    other = None if op.other is None else constant(op.other)
    vs = [points.values[v] for v in op.indices]
    return (points.load(_memory(op.source, points), tuple(op.index), vs, _where(op, points), other),)


def _store(op: StoreOp, points: Points) -> tuple[()]:
    vs = [points.values[v] for v in op.indices]
    kind = None if op.combine is None else op.combine.data
    value = points.values[op.value]
    points.store(_memory(op.target, points), tuple(op.index), vs, _where(op, points), value, kind)
    return ()


def _index(op: IndexOp, points: Points) -> tuple[Tensor]:
    return (points.align(torch.as_tensor(points.index(op.value[0]), dtype=torch.int64)),)


def _assert(op: AssertOp, points: Points) -> tuple[()]:
    ok = points.full(points.values[op.ok])
    if points.active is not None:
        ok = ok | ~points.full(points.active)
    if not bool(ok.all()):
        raise error(op.message.data)
    return ()


def _for(op: ForOp, points: Points) -> tuple[Tensor, ...]:
    inner = points.inside(tuple(op.dims))
    yielded = _run_body(op.body.block, inner)
    results: list[Tensor] = []
    for kind, value in zip(op.reduce.data, yielded, strict=True):
        where = None if inner.active is None else inner.full(inner.active)
        results += combine(kind.data, inner.full(value), len(op.dims), where)
    return tuple(results)


def _scan(op: ScanOp, points: Points) -> tuple[Tensor]:
    where = None if points.active is None else points.full(points.active)
    return (scan(op.kind.data, points.full(points.values[op.value]), points.names.index(op.dim.data), where),)


def _sort(op: SortOp, points: Points) -> tuple[()]:
    values, count = points.full(points.values[op.value]).sort(-1).values, points.index(op.count)
    memory = _memory(op.target, points)
    copies = memory.data.reshape(-1, memory.data.shape[-1]) if memory.data.numel() else memory.data
    if values.numel():
        copies[:, :count] = values.reshape(-1, values.shape[-1])[:, :count]
    return ()


def _scratch(op: ScratchOp, points: Points) -> tuple[Memory]:
    t = op.res.type
    shape = [points.index(d) for d in t.shape]
    data = signless(torch.empty(*points.sizes, *shape, dtype=getattr(torch, TORCH_DTYPES[t.dtype])), t.dtype)
    return (Memory(data, points.rank),)


BODY: dict[type[Operation], Callable[[Any, Points], Sequence[Any]]] = {
    LoadOp: _load,
    StoreOp: _store,
    IndexOp: _index,
    PredOp: lambda op, points: (points.holds(tuple(op.value)),),
    AssertOp: _assert,
    ForOp: _for,
    ScanOp: _scan,
    SortOp: _sort,
    ScratchOp: _scratch,
}
"""What ops of bodies do, besides arith, math and loop.fn."""


# Nests


def _points(env: Environment) -> Points:
    return Points(dict(env.symbols), values=ChainMap({}, env.values))


def _nest(op: NestOp, operands: Sequence[Any], env: Environment) -> tuple[Tensor, ...]:
    outer = _points(env).inside(tuple(op.dims))
    points = outer.inside(tuple(op.reduce))
    yielded = _run_body(op.body.block, points)
    values: list[Tensor] = []
    if not op.combine.data:
        values += [points.full(v) for v in yielded]
    for kind, value in zip(op.combine.data, yielded, strict=False):
        if kind.data == SORT:
            axis = outer.names.index(cast(Any, op.scan).data)
            least = points.full(value).select(axis, 0).sort(-1).values[..., : outer.sizes[axis]]
            values.append(least.movedim(-1, axis))
        elif op.scan is not None:
            values.append(scan(kind.data, points.full(value), points.names.index(op.scan.data), None))
        else:
            values += combine(kind.data, points.full(value), len(op.reduce), None)
    results: list[Tensor] = []
    for result, value in zip(op.results, values, strict=True):
        t = cast(TensorType, result.type)
        tensor = empty(t, env.evaluate)
        memory = Memory(signless(tensor, t.dtype))
        if op.out is None:
            memory.data.copy_(value)
        else:
            outer.store(memory, tuple(op.out), (), None, value, None)
        results.append(tensor)
    return tuple(results)


def _scatter(op: ScatterOp, operands: Sequence[Any], env: Environment) -> tuple[Tensor]:
    t = op.res.type
    result = empty(t, env.evaluate)
    result.copy_(operands[0])
    points = _points(env).inside(tuple(op.dims))
    _run_body(op.body.block, points)
    end = op.body.block.last_op
    assert isinstance(end, YieldAtOp)
    kind = None if op.combine.data == "none" else op.combine.data
    vs = [points.values[v] for v in end.indices]
    points.store(Memory(signless(result, t.dtype)), tuple(end.index), vs, None, points.values[end.value], kind)
    return (result,)


def _view(op: ViewOp, operands: Sequence[Any], env: Environment) -> tuple[Tensor]:
    t = op.res.type
    x: Tensor = operands[0]
    shape, strides = [env.evaluate(d) for d in t.shape], [env.evaluate(s) for s in t.strides]
    return (x.as_strided(shape, strides, x.storage_offset() + env.evaluate(op.offset[0])),)


# Kernels


def _launch(op: LaunchOp, operands: Sequence[Any], env: Environment) -> tuple[Tensor, ...]:
    name = op.callee
    kernel = next((k for k in env.module.ops if isinstance(k, KernelOp) and k.sym_name.data == name), None)
    if kernel is None:
        raise InterpreterError(f"loop.launch of @{name}: the module has no such kernel")
    results = tuple(empty(r.type, env.evaluate) for r in op.res)
    run_kernel(kernel, [*operands, *results], [env.evaluate(s) for s in op.sizes])
    return results


def run_kernel(kernel: KernelOp, tensors: Sequence[Tensor], sizes: Sequence[int]) -> None:
    """Run a kernel over its grid on its ins and outs; `sizes` are those that it lists, in order.

    The type of an argument says how the kernel sees the memory of the tensor: perhaps with fewer dims.
    """
    args = kernel.body.block.args
    symbols = {expr.text(s): n for s, n in zip(kernel.sizes, sizes, strict=True)}
    types = [cast(TensorType, a.type) for a in args]
    seen = [
        x.as_strided(
            [expr.evaluate(e, symbols) for e in t.shape],
            [expr.evaluate(e, symbols) for e in t.strides],
            x.storage_offset(),
        )
        for t, x in zip(types, tensors, strict=True)
    ]
    memories = [Memory(signless(x, t.dtype)) for t, x in zip(types, seen, strict=True)]
    points = Points(symbols, values=dict(zip(args, memories, strict=True))).inside(tuple(kernel.grid))
    _run_body(kernel.body.block, points)


HANDLERS: dict[type[Operation], Callable[..., tuple[Tensor, ...]]] = {
    NestOp: _nest,
    ScatterOp: _scatter,
    ViewOp: _view,
    LaunchOp: _launch,
}
"""What ops of `func.func @main` do."""
