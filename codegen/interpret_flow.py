"""Control flow by Python's own, at every level that the interpreter runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
from xdsl.ir import Operation, Region

from ..dialects import flow
from ..dialects.tensor import TensorType
from ..dialects.verify_program import symbol_table
from .interpreter import Environment, arguments, bind_symbols, run_block, torch_dtype


def run_region(region: Region, args: Sequence[Any], env: Environment) -> list[Any]:
    """What the region yields for `args`; symbols that it binds are forgotten."""
    inner = Environment(env.module, {}, dict(env.symbols), env.check)
    for argument, value in zip(region.block.args, args, strict=True):
        inner.values[argument] = value
        bind_symbols(inner, argument.type, value)
    return list(run_block(region.block, inner))


def _if(op: flow.IfOp, operands: Sequence[Any], env: Environment) -> tuple[Any, ...]:
    condition, *args = arguments(op, operands, env)
    return tuple(run_region(op.then if bool(condition) else op.otherwise, args, env))


def _while(op: flow.WhileOp, operands: Sequence[Any], env: Environment) -> tuple[Any, ...]:
    args = arguments(op, operands, env)
    carried, rest = args[: len(op.results)], args[len(op.results) :]
    while bool(run_region(op.test, [*carried, *rest], env)[0]):
        carried = run_region(op.body, [*carried, *rest], env)
    return tuple(carried)


def _while_stack(op: flow.WhileStackOp, operands: Sequence[Any], env: Environment) -> tuple[Any, ...]:
    args = arguments(op, operands, env)
    carried, rest = args[: len(op.results)], args[len(op.results) :]
    rows: list[list[Any]] = []
    while bool(run_region(op.test, [*carried, *rest], env)[0]):
        rows.append(carried := run_region(op.body, [*carried, *rest], env))
    return tuple(torch.stack(column) for column in zip(*(rows or [carried]), strict=True))


def _scan(op: flow.ScanOp, operands: Sequence[Any], env: Environment) -> tuple[Any, ...]:
    args = arguments(op, operands, env)
    n, over = op.counts
    carried, xs, rest = args[:n], args[n : n + over], args[n + over :]
    rows: list[list[Any]] = []
    for slices in zip(*(x.unbind(0) for x in xs), strict=True):
        carried, row = (made := run_region(op.body, [*carried, *slices, *rest], env))[:n], made[n:]
        rows.append(row)
    types = [cast(TensorType, r.type) for r in op.results[n:]]
    if not rows:
        stacked = [torch.empty([env.evaluate(d) for d in t.shape], dtype=torch_dtype(t)) for t in types]
    else:
        stacked = [torch.stack(column) for column in zip(*rows, strict=True)]
    return (*carried, *stacked)


def _call(op: flow.CallOp, operands: Sequence[Any], env: Environment) -> tuple[Any, ...]:
    return tuple(run_region(op.function(symbol_table(env.module)).body, operands, env))


HANDLERS: dict[type[Operation], Callable[..., tuple[Any, ...]]] = {
    flow.IfOp: _if,
    flow.WhileOp: _while,
    flow.WhileStackOp: _while_stack,
    flow.ScanOp: _scan,
    flow.CallOp: _call,
}
