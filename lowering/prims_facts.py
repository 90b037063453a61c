"""What is known about integer tensors: expressions over their dims, and signs."""

from __future__ import annotations

from typing import Any, Final, cast

import sympy
from xdsl.ir import SSAValue

from ..dialects import expr, prims
from ..dialects.expr import Dim
from ..dialects.tensor import TensorType, is_float, itemsize

MAX_DEPTH: Final = 32
"""Ops looked through for one fact."""


def _type(v: SSAValue) -> TensorType:
    return cast(TensorType, v.type)


def _dim(k: int) -> Any:
    return expr.symbol(f"d{k}")


class IndexFacts:
    """Facts about values, found on demand and kept. Valid while the ops that define the values do not change."""

    def __init__(self) -> None:
        self._expressions: dict[SSAValue, Any] = {}
        self._signs: dict[SSAValue, bool] = {}

    def expression(self, v: SSAValue, depth: int = MAX_DEPTH) -> Any:
        """The element at `d0, d1, …` as an expression over these and sizes; None if there is none."""
        if v not in self._expressions:
            self._expressions[v] = self._expression(v, depth) if depth else None
        return self._expressions[v]

    def _expression(self, v: SSAValue, depth: int) -> Any:
        op = v.owner
        if _type(v).dtype not in ("i32", "i64"):
            return None
        if isinstance(op, prims.IotaOp):
            return _dim(op.integer("dim"))
        if isinstance(op, prims.FullOp):
            return op.value.value
        if not isinstance(op, _TRANSPARENT):
            return None
        parts = [self.expression(operand, depth - 1) for operand in op.operands]
        if any(p is None for p in parts):
            return None
        if isinstance(op, prims.AddOp):
            return expr.normal(parts[0] + parts[1])
        if isinstance(op, prims.SubOp):
            return expr.normal(parts[0] - parts[1])
        if isinstance(op, prims.MulOp):
            return expr.normal(parts[0] * parts[1]) if not (_loops(parts[0]) and _loops(parts[1])) else None
        if isinstance(op, prims.ConvertOp):
            return parts[0]
        places = operand_places(cast(prims.ViewOp, op))
        return None if places is None else expr.substitute(parts[0], {_dim(k): p for k, p in enumerate(places)})

    def is_not_negative(self, v: SSAValue, depth: int = MAX_DEPTH) -> bool:
        """Whether every element is known to be 0 or more."""
        if v not in self._signs:
            self._signs[v] = bool(depth) and self._is_not_negative(v, depth)
        return self._signs[v]

    def _is_not_negative(self, v: SSAValue, depth: int) -> bool:
        op = v.owner
        if _type(v).dtype in ("i1", "u8", "u16", "u32", "u64") or isinstance(op, prims.IotaOp):
            return True
        if isinstance(op, prims.FullOp):
            value = op.value.value
            return bool(value.is_nonnegative) if isinstance(value, sympy.Expr) else value >= 0
        if isinstance(op, prims.ConvertOp) and not _widens(_type(op.operand).dtype, _type(v).dtype):
            return False
        if isinstance(op, (*_GROWING, prims.ConvertOp, prims.CatOp, prims.ViewOp)) and not isinstance(op, prims.PadOp):
            return all(self.is_not_negative(operand, depth - 1) for operand in op.operands)
        return False


def _widens(source: str, target: str) -> bool:
    """Integers to integers with at least as many bits, so that the sign stays."""
    return not is_float(source) and target in ("i32", "i64") and itemsize(source) <= itemsize(target)


_GROWING = (prims.AddOp, prims.MulOp, prims.MaximumOp, prims.MinimumOp)
_TRANSPARENT = (
    prims.AddOp,
    prims.SubOp,
    prims.MulOp,
    prims.ConvertOp,
    prims.BroadcastOp,
    prims.ReshapeOp,
    prims.TransposeOp,
    prims.SliceOp,
    prims.FlipOp,
)


def _loops(e: Any) -> bool:
    """Whether it depends on a dim."""
    return any(s.name.startswith("d") for s in expr.symbols(e))


def operand_places(op: prims.ViewOp) -> list[Any] | None:
    """Per dim of the operand of a view, where it is read for the result's `d0, d1, …`; None if that has no simple
    form.
    """
    operand, result = _type(op.operands[0]), _type(op.results[0])
    if isinstance(op, prims.BroadcastOp):
        return [
            0 if size == 1 and result.shape[d] != 1 else _dim(d)
            for size, d in zip(operand.shape, op.ints("dims"), strict=True)
        ]
    if isinstance(op, prims.TransposeOp):
        perm = op.ints("perm")
        return [_dim(perm.index(k)) for k in range(operand.rank)]
    if isinstance(op, prims.SliceOp):
        return [a + _dim(k) * step for k, (a, step) in enumerate(zip(op.exprs("start"), op.exprs("step"), strict=True))]
    if isinstance(op, prims.FlipOp):
        flipped = op.ints("dims")
        return [n - 1 - _dim(k) if k in flipped else _dim(k) for k, n in enumerate(cast("list[Any]", operand.shape))]
    if isinstance(op, prims.ReshapeOp):
        return _squeezed_places(operand.shape, result.shape)
    return None


def _squeezed_places(operand: tuple[Dim, ...], result: tuple[Dim, ...]) -> list[Any] | None:
    """For a reshape that only adds and removes dims of size 1."""
    kept = [d for d, n in enumerate(result) if n != 1]
    if [n for n in operand if n != 1] != [result[d] for d in kept]:
        return None
    following = iter(kept)
    return [0 if n == 1 else _dim(next(following)) for n in operand]


def stays_within(e: Any, shape: tuple[Dim, ...], size: Dim) -> bool:
    """Whether `e`, a dim of a domain of that shape plus a constant, is surely in 0..size-1."""
    dims = [s for s in expr.symbols(e) if s.name.startswith("d")]
    if len(dims) > 1:
        return False
    first: Any = expr.substitute(e, {dims[0]: 0}) if dims else e
    last = first
    if dims:
        if expr.normal(e - dims[0] - first) != 0:
            return False
        last = first + shape[int(dims[0].name[1:])] - 1
    room = expr.normal(cast(Any, size) - 1 - last)
    return _not_negative(expr.normal(first)) and _not_negative(room)


def _not_negative(e: Any) -> bool:
    return e >= 0 if isinstance(e, int) else bool(e.is_nonnegative)
