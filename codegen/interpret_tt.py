"""Runs a kernel of the tt level on CPU tensors, program by program, each tensor of a program at once.

Finds what a GPU may hide: an access outside of a tensor and a race are errors with the op's place, and what a masked
load leaves undefined is NaN or an unlikely number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, TypeAlias, cast

import torch
from torch import Tensor
from xdsl.dialects import arith, cf, scf
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.traits import IsTerminator

from ..dialects import expr, tt
from ..dialects.errors import describe_location
from ..dialects.tt_text import called_from
from ..dialects.tt_types import PtrType, TensorDescType
from .errors import CodegenError
from .interpret_tt_access import ACCESS, Descriptor
from .interpret_tt_memory import Memory
from .interpret_tt_ops import OPS, dtype_of
from .interpret_tt_races import AccessError, Moment


class KernelError(CodegenError):
    """What went wrong in a kernel: the op with its place, the program, and why."""

    def __init__(self, op: Operation, program: Sequence[int], message: str) -> None:
        place = describe_location(op.location)
        super().__init__(f"'{op.name}'{f' at {place}' if place else ''} in program {tuple(program)}: {message}")
        self.op = op


Value: TypeAlias = "Tensor | Descriptor"
Step: TypeAlias = "tuple[Callable[..., Any], Operation, tuple[SSAValue, ...]]"


def interpret(func: tt.FuncOp, grid: Sequence[int], args: Sequence[Tensor | int | float | None]) -> None:
    """Run `func` once for each point of `grid` (one to three numbers). It writes into the tensors of `args`.

    Pointers and descriptors take tensors with elements of the same size (None: the null pointer), in which every
    element from the first to the last may be accessed. Raises KernelError.
    """
    memory = Memory()
    types = func.function_type.inputs.data
    assert len(args) == len(types), f"{len(args)} arguments for {len(types)} parameters"
    values = [_argument(memory, a, t) for a, t in zip(args, types, strict=True)]
    memory.watch()
    whole = (*grid, 1, 1)[:3]
    functions = {f.sym_name.data: f for f in called_from(func)}
    run = _Run(memory, whole, functions)
    for number, (z, y, x) in enumerate(product(*(range(n) for n in reversed(whole))), 1):
        run.program, memory.now = (x, y, z), Moment(number)
        run.region(func.body, values)


def launch(func: tt.FuncOp, buffers: Sequence[Tensor], sizes: Sequence[int]) -> None:
    """Run `func` as its attribute `lamella.grid` says, which is over the symbols of `lamella.sizes`."""
    names = [s.name for s in cast("Sequence[Any]", func.attributes["lamella.sizes"])]
    grid = [
        int(expr.evaluate(e, dict(zip(names, sizes, strict=True))))
        for e in cast("Sequence[Any]", func.attributes["lamella.grid"])
    ]
    interpret(func, grid, [*buffers, *sizes])


def _argument(memory: Memory, value: Tensor | float | None, type: Attribute) -> Value:
    if isinstance(type, TensorDescType):
        assert isinstance(value, Tensor)
        return Descriptor(memory.place(value), tuple(value.shape), value.stride(), dtype_of(type.block))
    if not isinstance(type, PtrType):
        return torch.tensor(value, dtype=dtype_of(type))
    if value is None:
        return torch.tensor(0)
    assert isinstance(value, Tensor), f"{type} takes a tensor, not {value!r}"
    assert value.element_size() == dtype_of(type.pointee).itemsize, f"a tensor of {value.dtype} for {type}"
    return torch.tensor(memory.place(value))


@dataclass
class _Run:
    """One program at a time."""

    memory: Memory
    grid: Sequence[int]
    functions: dict[str, tt.FuncOp]
    program: tuple[int, int, int] = (0, 0, 0)
    env: dict[SSAValue, Value] = field(default_factory=dict[SSAValue, Value])
    steps: dict[Block, list[Step]] = field(default_factory=dict[Block, list[Step]])

    def region(self, region: Region, args: Sequence[Value]) -> list[Value]:
        """Run a region from its first block on; the operands of the op that ends it."""
        block = region.first_block
        assert block is not None
        while True:
            self._run(block, args)
            end = block.last_op
            if isinstance(end, cf.BranchOp):
                args, block = self.values(end.operands), end.successors[0]
            elif isinstance(end, cf.ConditionalBranchOp):
                taken = bool(cast(Tensor, self.env[end.cond]))
                args = self.values(end.then_arguments if taken else end.else_arguments)
                block = end.successors[0 if taken else 1]
            else:
                return self.values(end.operands) if end is not None else []

    def values(self, operands: Sequence[SSAValue]) -> list[Value]:
        return [self.env[v] for v in operands]

    def _run(self, block: Block, args: Sequence[Value]) -> None:
        env = self.env
        env.update(zip(block.args, args, strict=True))
        steps = self.steps.get(block)
        if steps is None:
            steps = self.steps[block] = [_step(op) for op in block.ops if not op.has_trait(IsTerminator)]
        for run, op, operands in steps:
            try:
                result = run(self, op, *[env[v] for v in operands])
            except (AccessError, NotImplementedError) as error:
                raise KernelError(op, self.program, str(error)) from error
            if isinstance(result, (tuple, list)):
                env.update(zip(op.results, result, strict=True))
            elif op.results:
                env[op.results[0]] = result


def _step(op: Operation) -> Step:
    control = CONTROL.get(type(op))
    if control is not None:
        return control, op, tuple(op.operands)
    access = ACCESS.get(type(op))
    if access is not None:
        return (lambda run, op, *values: access(run.memory, op, *values)), op, tuple(op.operands)
    pure = OPS.get(type(op))
    if pure is None:
        return _unknown, op, ()
    if isinstance(op, (arith.ConstantOp, tt.MakeRangeOp)):
        value = pure(op)  # the same in every program
        return (lambda run, op: value), op, ()
    return (lambda run, op, *values: pure(op, *values)), op, tuple(op.operands)


def _unknown(run: _Run, op: Operation) -> None:
    raise NotImplementedError("this op is not interpreted")


# ---------------------------------------------------------------------------------------------------- control flow


def _if(run: _Run, op: scf.IfOp, cond: Tensor) -> list[Value]:
    region = op.true_region if bool(cond) else op.false_region
    return run.region(region, ()) if region.blocks else []


def _for(run: _Run, op: scf.ForOp, low: Tensor, high: Tensor, step: Tensor, *carried: Value) -> Sequence[Value]:
    if int(step) <= 0:
        raise AccessError(f"a loop with step {int(step)}")
    values: Sequence[Value] = carried
    for i in range(int(low), int(high), int(step)):
        values = run.region(op.body, (torch.tensor(i, dtype=low.dtype), *values))
    return values


def _while(run: _Run, op: scf.WhileOp, *carried: Value) -> Sequence[Value]:
    values: Sequence[Value] = carried
    while True:
        again, *passed = run.region(op.before_region, values)
        if not bool(cast(Tensor, again)):
            return passed
        values = run.region(op.after_region, passed)


def _call(run: _Run, op: tt.CallOp, *args: Value) -> list[Value]:
    return run.region(run.functions[op.callee.string_value()].body, args)


def _program_id(run: _Run, op: tt.GetProgramIdOp) -> Tensor:
    return torch.tensor(run.program[op.axis.value.data], dtype=torch.int32)


def _num_programs(run: _Run, op: tt.GetNumProgramsOp) -> Tensor:
    return torch.tensor(run.grid[op.axis.value.data], dtype=torch.int32)


def _assert(run: _Run, op: tt.AssertOp, condition: Tensor) -> None:
    if not bool(condition.all()):
        raise KernelError(op, run.program, op.message.data)


def _combine(run: _Run, region: Region, left: Sequence[Tensor], right: Sequence[Tensor]) -> list[Tensor]:
    """The region's scalars computed for whole tensors at once."""
    results = cast("list[Tensor]", run.region(region, (*left, *right)))
    return [r.expand(x.shape) for r, x in zip(results, left, strict=True)]


def _reduce(run: _Run, op: tt.ReduceOp, *srcs: Tensor) -> tuple[Tensor, ...]:
    """By halves, which the sizes of tensors allow."""
    axis, parts = op.axis.value.data, list(srcs)
    while (n := parts[0].shape[axis]) > 1:
        halves = [x.split(n // 2, axis) for x in parts]
        parts = _combine(run, op.combineOp, [h[0] for h in halves], [h[1] for h in halves])
    return tuple(x.squeeze(axis) for x in parts)


def _scan(run: _Run, op: tt.ScanOp, *srcs: Tensor) -> tuple[Tensor, ...]:
    """After the step of distance d each element stands for the 2 d before it, itself included."""
    axis, backwards = op.axis.value.data, bool(op.reverse.value.data)
    parts = [x.flip(axis) if backwards else x for x in srcs]
    n, distance = parts[0].shape[axis], 1
    while distance < n:
        before = [x.narrow(axis, 0, n - distance) for x in parts]
        after = [x.narrow(axis, distance, n - distance) for x in parts]
        later = _combine(run, op.combineOp, before, after)
        parts = [torch.cat((x.narrow(axis, 0, distance), y), axis) for x, y in zip(parts, later, strict=True)]
        distance *= 2
    return tuple(x.flip(axis) if backwards else x for x in parts)


def _map(run: _Run, op: tt.MapElementwiseOp, *srcs: Tensor) -> list[Value]:
    if op.pack.value.data != 1:
        raise NotImplementedError("packs of several elements are not interpreted")
    return [cast(Tensor, r).expand(srcs[0].shape) for r in run.region(op.scalarOp, srcs)]


CONTROL: dict[type[Operation], Callable[..., Any]] = {
    scf.IfOp: _if,
    scf.ForOp: _for,
    scf.WhileOp: _while,
    tt.CallOp: _call,
    tt.GetProgramIdOp: _program_id,
    tt.GetNumProgramsOp: _num_programs,
    tt.AssertOp: _assert,
    tt.ReduceOp: _reduce,
    tt.ScanOp: _scan,
    tt.MapElementwiseOp: _map,
}
"""Op to `run(state, op, *operands)`."""
