"""Which values of a kernel may be a few units of f32 off: those of which nothing but an f16 or bf16 is made.

An error of 2**-21 is lost where the result is rounded to 8 or 11 bits, also after sums, products and differences that
cancel some of them. What is made of such values: `tt_rounded` on GPUs, `softmax_rows` on CPUs. And which of a kernel's
ops are a softmax, rounded or not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import cast

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import Float32Type
from xdsl.ir import Operation, SSAValue, Use

from ..dialects.loop import ForOp, KernelOp, LoadOp, ScratchOp, StoreOp, YieldOp, body_ops
from ..dialects.tensor import HALF_TYPES
from .tile_online import alike

_PASSING = (arith.AddfOp, arith.SubfOp, arith.MulfOp, arith.DivfOp, arith.NegfOp, arith.MaximumfOp, arith.MinimumfOp,
            arith.SelectOp, math.SqrtOp, math.RsqrtOp)  # fmt: skip
"""Ops whose result is as much off as their operands are, about."""


def rounded(kernel: KernelOp) -> frozenset[Operation]:
    """The ops of a kernel whose results may be off."""
    found: set[Operation] = set()
    for op in reversed(list(body_ops(kernel.body))):
        floats = [r for r in op.results if isinstance(r.type, Float32Type)]
        if floats and len(floats) == len(op.results) and all(_is_rounded(r, found) for r in floats):
            found.add(op)
    return frozenset(found)


def _is_rounded(value: SSAValue, found: set[Operation]) -> bool:
    uses = list(value.uses)
    return bool(uses) and all(_rounds(u.operation, u.index, found) for u in uses)


def _rounds(op: Operation, index: int, found: set[Operation]) -> bool:
    """Whether an operand of `op` may be off."""
    if isinstance(op, arith.TruncFOp):
        return isinstance(op.results[0].type, HALF_TYPES)
    if isinstance(op, YieldOp):
        loop = op.parent_op()
        if not isinstance(loop, ForOp) or len(loop.reduce.data) != len(loop.res):
            return False
        # a loop's results are used behind it, so what is said of these is known
        return loop.reduce.data[index].data in ("add", "max", "min") and _is_rounded(loop.res[index], found)
    if isinstance(op, StoreOp) and isinstance(op.target.owner, ScratchOp):
        return all(u.operation in found for u in op.target.uses if isinstance(u.operation, LoadOp))
    if isinstance(op, arith.SelectOp) and index == 0:
        return False
    return isinstance(op, _PASSING) and op in found


@dataclass(frozen=True, slots=True)
class Softmax:
    """Of a kernel's ops: x - m and exp(x - m), where m is the largest x, of which only their sum is made, and quotients
    by it, which are rounded at once if it is one that may be off; these too. Then all exponentials of a row may be so
    many times as large in code, and `sums` of them. Else x - m - log(sum) may be made, too.

    Of the loops in `largest` nothing else is made: what they find need not be NaN where an x is, as the sum then is.
    """

    ops: frozenset[Operation] = frozenset()
    sums: frozenset[SSAValue] = frozenset()
    largest: frozenset[Operation] = frozenset()


def softmax(kernel: KernelOp, rounded: frozenset[Operation] | None = None) -> Softmax:
    """What there is of that, among ops that may be off if these are given."""
    ops = list(body_ops(kernel.body))
    exps = {o: m for o, m in _exps(ops).items() if rounded is None or o in rounded}
    sums = _sums(ops, exps)
    apart, shares = {cast(Operation, e.operands[0].owner) for e in exps}, set[Operation]()
    logs: set[Operation] = set() if rounded is not None else {o for o in ops if _is_less_log(o, sums)}
    apart |= {o for o in ops if isinstance(o, arith.SubfOp) and o.result.uses and _are_in(o.result.uses, logs)}
    # an exponential is as large everywhere, or nowhere
    alone = all([_ends_in_shares(e.results[0], m, sums, shares, rounded is not None) for e, m in exps.items()])
    alone = alone and all(_are_in(o.results[0].uses, exps.keys() | logs) for o in apart)
    alone = alone and (rounded is None or all(u.operation in shares for r in sums for u in r.uses))
    if not alone or any(_written(o.operands[0]) - exps.keys() for o in shares):
        return Softmax()
    largest = {m.owner for m in exps.values() if all(_ends_apart(u, apart) for u in m.uses)}
    return Softmax(frozenset((*exps, *apart, *shares)), frozenset(sums), frozenset(cast("set[Operation]", largest)))


def _are_in(uses: Iterable[Use], ops: Set[Operation]) -> bool:
    return all(u.operation in ops for u in uses)


def _is_less_log(op: Operation, sums: Mapping[SSAValue, SSAValue]) -> bool:
    """Whether `op` is (x - m) - log(sum), a log-softmax, which is NaN where the sum is."""
    if not isinstance(op, arith.SubfOp) or not isinstance(log := op.rhs.owner, math.LogOp):
        return False
    apart, largest = op.lhs.owner, sums.get(log.operand)
    return largest is not None and isinstance(apart, arith.SubfOp) and _narrow(apart.rhs) is largest


def _narrow(v: SSAValue) -> SSAValue:
    return v.owner.input if isinstance(v.owner, arith.ExtFOp) else v


def totals(kernel: KernelOp) -> frozenset[SSAValue]:
    """Sums of exp(x - m) over a row, where m is the largest x: at least 1 and no more than there are points, or NaN."""
    ops = list(body_ops(kernel.body))
    return frozenset(_sums(ops, _exps(ops)))


def _exps(ops: Sequence[Operation]) -> dict[Operation, SSAValue]:
    """The exponentials exp(x - m), where m is the largest x, with m."""
    return {o: m for o in ops if isinstance(o, math.ExpOp) and (m := _largest(o)) is not None}


def _sums(ops: Sequence[Operation], exps: Mapping[Operation, SSAValue]) -> dict[SSAValue, SSAValue]:
    """The sums of these exponentials, with their row's largest value."""
    return {
        r: exps[v.owner]
        for o in ops
        if isinstance(o, ForOp) and isinstance(last := o.body.block.last_op, YieldOp)
        for kind, v, r in zip(o.reduce.data, last.values, o.res, strict=False)
        if kind.data == "add" and isinstance(v.owner, math.ExpOp) and v.owner in exps
    }


def _ends_apart(use: Use, apart: Set[Operation]) -> bool:
    """Whether a row's largest value, at a use, is taken from all others and nothing else."""
    op = use.operation
    if isinstance(op, arith.ExtFOp):
        return all(_ends_apart(u, apart) for u in op.result.uses)
    return op in apart and use.index == 1


def _largest(op: math.ExpOp) -> SSAValue | None:
    """m, where `op` is exp(x - m) and m the largest of all x."""
    apart, around = op.operands[0].owner, op.parent_op()
    if not isinstance(apart, arith.SubfOp):
        return None
    x, largest = apart.operands
    if isinstance(a := x.owner, arith.ExtFOp) and isinstance(b := largest.owner, arith.ExtFOp):
        x, largest = a.input, b.input  # the largest of halves
    loop = largest.owner
    if not isinstance(loop, ForOp) or not isinstance(around, ForOp) or loop.dims != around.dims:
        return None
    last = loop.body.block.last_op
    if last is None or [k.data for k in loop.reduce.data] != ["max"]:
        return None
    return largest if alike(x, last.operands[0]) else None


def _ends_in_shares(
    weight: SSAValue, largest: SSAValue, sums: Mapping[SSAValue, SSAValue], shares: set[Operation], rounds: bool
) -> bool:
    """Whether nothing but sums, and quotients by these, which are rounded at once if it `rounds`, is made of a value of
    a row; the quotients are added to `shares`. `sums` have the row's largest value.
    """
    for use in weight.uses:
        op = use.operation
        if isinstance(op, StoreOp) and isinstance(op.target.owner, ScratchOp):
            loads = [u.operation for u in op.target.uses if isinstance(u.operation, LoadOp)]
            if not all(_ends_in_shares(o.res, largest, sums, shares, rounds) for o in loads):
                return False
        elif isinstance(op, arith.DivfOp) and use.index == 0 and sums.get(op.operands[1]) is largest:
            if rounds and not all(isinstance(u.operation, arith.TruncFOp) for u in op.results[0].uses):
                return False
            shares.add(op)
        elif not isinstance(op, YieldOp) or cast(ForOp, op.parent_op()).res[use.index] not in sums:
            return False
    return True


def _written(v: SSAValue) -> set[Operation]:
    """The op that a value is of, or those whose values are in the scratch that it is read from."""
    op = v.owner
    if isinstance(op, LoadOp):
        stores = [u.operation for u in op.source.uses if isinstance(u.operation, StoreOp)]
        return {o for s in stores for o in _written(s.value)} or {op}
    return {op} if isinstance(op, Operation) else set()
