"""Products of matrices among reductions, recognised from their structure and from nothing else.

    sum over r of X[batch, rows, r] * Y[batch, columns, r]

A nest or a loop that adds up products of two values is a contraction where each factor moves with the reduced dims and
with dims of its own, of more than one point: every element of X meets every element of Y, so that what a core has read
can be used many times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import cast

from xdsl.dialects import arith
from xdsl.ir import Operation, SSAValue

from ..dialects.loop import ForOp, LoadOp, LoopDim, NestOp, ScratchOp, YieldOp, op_symbols


@dataclass(frozen=True)
class Contraction:
    """The factors, and the parallel dims: of both, of the left one alone, and of the right one alone, in order."""

    left: SSAValue
    right: SSAValue
    batch: tuple[LoopDim, ...]
    rows: tuple[LoopDim, ...]
    columns: tuple[LoopDim, ...]
    reduce: tuple[LoopDim, ...]


def contraction_of_nest(op: NestOp) -> Contraction | None:
    """The contraction that a nest is; None where it is none."""
    if len(op.combine) != 1 or len(op.dims) < 2:
        return None
    (value,) = cast(YieldOp, op.body.block.last_op).values
    return _contraction(value, op.combine.data[0].data, tuple(op.dims), tuple(op.reduce))


def contraction_of_loop(loop: ForOp, around: Sequence[LoopDim], vectors: bool = False) -> Contraction | None:
    """The contraction that a loop of a kernel is, of dims of the grid and of the loops around it; else None.

    With `vectors`, one side may have no dims of its own: then a vector is multiplied with a matrix.
    """
    found = contractions_of_loop(loop, around, vectors)
    return found[0] if len(found) == 1 else None


def contractions_of_loop(loop: ForOp, around: Sequence[LoopDim], vectors: bool = False) -> list[Contraction]:
    """The contractions that a loop is, one for each of its sums; none where one of these is something else."""
    values = cast(YieldOp, loop.body.block.last_op).values
    kinds = [k.data for k in loop.reduce.data]
    dims, reduced = tuple(around), tuple(loop.dims)
    found = [_contraction(v, k, dims, reduced, vectors) for v, k in zip(values, kinds, strict=True)]
    known = [c for c in found if c is not None]
    return known if len(known) == len(found) else []


def _contraction(
    value: SSAValue, kind: str, dims: tuple[LoopDim, ...], reduced: tuple[LoopDim, ...], vectors: bool = False
) -> Contraction | None:
    product = value.owner
    if kind != "add" or not isinstance(product, arith.MulfOp | arith.MuliOp):
        return None
    dims = tuple(d for d in dims if d.extent != 1)
    names = frozenset(d.name for d in (*dims, *reduced))
    known: dict[SSAValue, frozenset[str]] = {}
    left, right = product.lhs, product.rhs
    x, y = (moving(v, names, known) for v in (left, right))
    if any(d.name not in x & y or d.lo != 0 for d in reduced):
        return None
    rows, columns = (tuple(d for d in dims if d.name in a and d.name not in b) for a, b in ((x, y), (y, x)))
    if not (rows or columns) or (not vectors and not (rows and columns)):
        return None
    if not columns or (rows and dims.index(rows[0]) > dims.index(columns[0])):
        left, right, rows, columns = right, left, columns, rows
    batch = tuple(d for d in dims if d.name in x & y)
    if len(batch) + len(rows) + len(columns) != len(dims):
        return None
    return Contraction(left, right, batch, rows, columns, reduced)


def moving(v: SSAValue, names: frozenset[str], known: dict[SSAValue, frozenset[str]]) -> frozenset[str]:
    """The dims that a value changes with. What another loop made, or a buffer of the grid point holds, may with all."""
    found = known.get(v)
    if found is None:
        owner = v.owner
        if not isinstance(owner, Operation):
            found = frozenset[str]()
        elif owner.regions or (isinstance(owner, LoadOp) and isinstance(owner.source.owner, ScratchOp)):
            found = names
        else:
            operands = owner.operands[1:] if isinstance(owner, LoadOp) else owner.operands
            found = reduce(frozenset.union, (moving(o, names, known) for o in operands), names & op_symbols(owner))
        known[v] = found
    return found
