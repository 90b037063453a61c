"""Windows written out: a reduction over a few points whose neighbours share memory becomes straight code.

    grid [d0 = 56]: %m = for [r0 = 3] reduce [max] { load %x[2*d0 + r0] }; store %m, %y[d0]
    grid [d0 = 56]: %0 = load %x[2*d0]; %1 = load %x[2*d0 + 1]; %2 = load …; store max(max(%0, %1), %2), %y[d0]

The grid dim along which windows lie side by side can then be the vector.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any, cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    AnyFloat,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    f32,
    i1,
    i32,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue

from ..dialects.expr import Dim
from ..dialects.loop import ALONG, ForOp, KernelOp, LoopDim, StoreOp
from ..dialects.tensor import HALF_TYPES
from .contraction import contraction_of_loop
from .fuse_cost import Hints
from .fuse_emit import drop_unused
from .index_simplify import Facts, facts
from .index_split import substitute_body
from .schedule_access import accesses, stride
from .schedule_segments import decided

POINTS = 25
"""Points of a window at most."""

OPS = 256
"""Ops that the points of a window may come to."""

NEAR = 4
"""Elements from one window to the next at most: whole vectors are read and picked from."""

REPEATED = 32
"""Points for which what is read is the same from which on it is worth to be put in order first."""

_FOLDS = frozenset({"add", "mul", "max", "min", "and", "or", "xor", "argmax", "argmin"})


def write_out(kernel: KernelOp, hints: Hints) -> None:
    """Replace the small reductions of a kernel, in place, where all loops of it are such."""
    loops = [o for o in kernel.body.block.ops if isinstance(o, ForOp)]
    if not loops or not all(_is_window(o, kernel, hints) for o in loops):
        return
    if any(contraction_of_loop(o, tuple(kernel.grid)) is not None for o in loops):
        return  # tiles of rows and columns use what they read more often
    known = facts(tuple(kernel.grid))
    for loop in loops:
        _Window(loop, known).write()
    drop_unused(kernel.body.block)


def _is_window(loop: ForOp, kernel: KernelOp, hints: Hints) -> bool:
    points = 1
    for d in loop.dims:
        if not isinstance(d.lo, int) or not isinstance(d.extent, int):
            return False
        points *= d.extent
    ops = list(loop.body.block.ops)
    if not 0 < points <= POINTS or points * len(ops) > OPS:
        return False
    if not loop.reduce.data or any(k.data not in _FOLDS for k in loop.reduce.data):
        return False
    if any(o.regions or isinstance(o, StoreOp) or o.name in (*ALONG, "loop.assert") for o in ops):
        return False
    return any(_side_by_side(ops, d, kernel, hints) for d in kernel.grid if hints.size(d.extent) >= 2 * NEAR)


def _side_by_side(ops: Sequence[Operation], d: LoopDim, kernel: KernelOp, hints: Hints) -> bool:
    """Whether windows lie side by side along `d`, in all that is not the same for many other points."""
    others = [o for o in kernel.grid if o is not d]
    steps: list[Dim | None] = []
    for a in accesses(ops):
        if hints.points(tuple(o for o in others if stride(a, o.symbol) == 0)) < REPEATED:
            steps.append(stride(a, d.symbol))
    return any(steps) and all(isinstance(s, int) and 0 <= s <= NEAR for s in steps)


class _Window:
    """One loop as ops before it."""

    def __init__(self, loop: ForOp, known: Facts):
        self.loop, self.known = loop, known

    def write(self) -> None:
        kinds = [k.data for k in self.loop.reduce.data]
        states: list[list[SSAValue]] = []
        for n, at in enumerate(product(*(range(d.lo, d.hi) for d in self.loop.dims))):  # pyright: ignore
            values = self._point(at)
            new = [[self._wide(v), self._number(n)] if k.startswith("arg") else [self._wide(v)]
                   for k, v in zip(kinds, values, strict=True)]  # fmt: skip
            states = states or [self._before(*x) for x in zip(kinds, new, strict=True)]
            states = [self._joined(*x) if x[1] else x[2] for x in zip(kinds, states, new, strict=True)]
        for result, state in zip(self.loop.results, states, strict=True):
            result.replace_all_uses_with(self._narrow(state[-1], result.type))
        self.loop.detach()
        self.loop.erase()

    def _point(self, at: Sequence[int]) -> list[SSAValue]:
        """The body at one point, before the loop; what it yields."""
        mapping = {d.symbol: i for d, i in zip(self.loop.dims, at, strict=True)}
        body = substitute_body(self.loop.body.block, mapping, self.known)
        *inner, last = body.ops
        ops, values = decided(inner, self.known)
        yields = [values.get(v, v) for v in last.operands]
        self._block.insert_ops_before(ops, self.loop)
        for o in reversed((*inner, last)):
            o.detach()
            o.erase()
        return yields

    @property
    def _block(self) -> Block:
        block = self.loop.parent
        assert block is not None
        return block

    def _before(self, kind: str, first: list[SSAValue]) -> list[SSAValue]:
        """What a state is before its first value, where that makes a difference: a sum of -0.0 alone is 0.0."""
        if kind != "add" or isinstance(type := first[0].type, IntegerType):
            return []
        return [self._insert(arith.ConstantOp(FloatAttr(0.0, cast("AnyFloat", type))))]

    def _joined(self, kind: str, state: list[SSAValue], new: list[SSAValue]) -> list[SSAValue]:
        """A state with one more value. The best so far stays where the new one is only equal, or both are NaN."""
        if not kind.startswith("arg"):
            # Of two equal operands the second is the maximum: the first zero is found, whatever its sign, as in a loop.
            pair = (new[0], state[0]) if kind in ("max", "min") else (state[0], new[0])
            return [self._insert(_operation(kind, new[0].type)(*pair))]
        best, value = state[0], new[0]
        greater = kind == "argmax"
        if isinstance(best.type, IntegerType):
            sign = "u" if best.type == i1 else "s"
            better = self._insert(arith.CmpiOp(value, best, f"{sign}gt" if greater else f"{sign}lt"))
        else:
            unordered = self._insert(arith.CmpfOp(value, best, "ugt" if greater else "ult"))
            better = self._insert(arith.AndIOp(unordered, self._insert(arith.CmpfOp(best, best, "ord"))))
        return [self._insert(arith.SelectOp(better, x, y)) for x, y in zip(new, state, strict=True)]

    def _wide(self, v: SSAValue) -> SSAValue:
        """Half floats are reduced in f32."""
        return self._insert(arith.ExtFOp(v, f32)) if isinstance(v.type, HALF_TYPES) else v

    def _narrow(self, v: SSAValue, type: Attribute) -> SSAValue:
        if v.type == type:
            return v
        return self._insert(arith.ExtSIOp(v, i64) if type == i64 else arith.TruncFOp(v, type))  # pyright: ignore

    def _number(self, n: int) -> SSAValue:
        return self._insert(arith.ConstantOp(IntegerAttr(n, i32)))

    def _insert(self, op: Operation) -> SSAValue:
        op.location = self.loop.location
        self._block.insert_op_before(op, self.loop)
        return op.results[0]


_FLOAT: dict[str, Any] = {
    "add": arith.AddfOp, "mul": arith.MulfOp, "max": arith.MaximumfOp, "min": arith.MinimumfOp,
}  # fmt: skip
_INT: dict[str, Any] = {
    "add": arith.AddiOp, "mul": arith.MuliOp, "max": arith.MaxSIOp, "min": arith.MinSIOp,
    "and": arith.AndIOp, "or": arith.OrIOp, "xor": arith.XOrIOp,
}  # fmt: skip


def _operation(kind: str, type: Attribute) -> Any:
    """How two values become one; the larger of two bools is their or."""
    if not isinstance(type, IntegerType):
        return _FLOAT[kind]
    return _INT[{"max": "or", "min": "and"}.get(kind, kind) if type == i1 else kind]
