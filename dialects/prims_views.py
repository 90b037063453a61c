"""Ops of `prims` that rearrange elements: views, padding, concatenation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import sympy
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def, var_operand_def

from . import expr
from .prims_base import EXPRS, SCALAR, Exprs, Number, PrimsOp, Scalar, shape_text
from .prims_elementwise import expect_dim
from .tensor import TensorType, is_complex, is_float


class ViewOp(PrimsOp):
    """One operand; the elements of the result are elements of it, and have its dtype."""

    def types(self) -> tuple[TensorType, TensorType]:
        """The types of operand and result, of one dtype."""
        operand, result = self.tensor(self._operands[0]), self.tensor(self.results[0])
        self.expect_dtype("a result", result, operand.dtype)
        return operand, result


@irdl_op_definition
class BroadcastOp(ViewOp):
    """result[d] = x[…, d[dims[k]] or 0, …]: dim k of the operand becomes dim dims[k]; those of size 1 may expand."""

    name = "prims.broadcast"
    FIELDS: ClassVar = {"dims": EXPRS}
    dims = prop_def(Exprs)
    operand = operand_def(TensorType)
    result = result_def(TensorType)

    def verify_(self) -> None:
        operand, result = self.types()
        self.expect_length("dims", operand.rank)
        dims = self.expect_dims("dims", result.rank)
        if list(dims) != sorted(dims):
            self.reject(f"expected ascending 'dims', got {shape_text(dims)}")
        for size, d in zip(operand.shape, dims, strict=True):
            if size not in (1, result.shape[d]):
                self.reject(
                    f"cannot expand a dim of size {expr.text(size)} to {expr.text(result.shape[d])} (result dim {d})"
                )

    @classmethod
    def make(cls, operand: SSAValue, dims: Sequence[int], result_type: TensorType) -> Self:
        return cls.create(operands=(operand,), result_types=(result_type,), properties={"dims": Exprs.get(dims)})


@irdl_op_definition
class ReshapeOp(ViewOp):
    """The same elements in row-major order in another shape."""

    name = "prims.reshape"
    operand = operand_def(TensorType)
    result = result_def(TensorType)

    def verify_(self) -> None:
        operand, result = self.types()
        a, b = operand.numel, result.numel
        if isinstance(a, int) and isinstance(b, int) and a != b:
            self.reject(f"cannot reshape {a} elements {shape_text(operand.shape)} into {shape_text(result.shape)}")

    @classmethod
    def make(cls, operand: SSAValue, result_type: TensorType) -> Self:
        return cls.create(operands=(operand,), result_types=(result_type,))


@irdl_op_definition
class TransposeOp(ViewOp):
    """Dim k of the result is dim perm[k] of the operand."""

    name = "prims.transpose"
    FIELDS: ClassVar = {"perm": EXPRS}
    perm = prop_def(Exprs)
    operand = operand_def(TensorType)
    result = result_def(TensorType)

    def verify_(self) -> None:
        operand, result = self.types()
        self.expect_length("perm", operand.rank)
        perm = self.expect_dims("perm", operand.rank)
        self.expect_shape("a result", result, [operand.shape[p] for p in perm])

    @classmethod
    def make(cls, operand: SSAValue, perm: Sequence[int], result_type: TensorType) -> Self:
        return cls.create(operands=(operand,), result_types=(result_type,), properties={"perm": Exprs.get(perm)})


@irdl_op_definition
class SliceOp(ViewOp):
    """result[…, i, …] = x[…, start + i * step, …] per dim, while start + i * step < stop; 0 <= start, step >= 1.

    The sizes of the result are its type's (ceil((stop - start) / step) where all are known).
    """

    name = "prims.slice"
    FIELDS: ClassVar = {"start": EXPRS, "stop": EXPRS, "step": EXPRS}
    start = prop_def(Exprs)
    stop = prop_def(Exprs)
    step = prop_def(Exprs)
    operand = operand_def(TensorType)
    result = result_def(TensorType)

    def verify_(self) -> None:
        operand, result = self.types()
        if operand.rank != result.rank:
            self.reject(f"expected a result of rank {operand.rank}, got {shape_text(result.shape)}")
        starts, stops, steps = (self.expect_length(n, operand.rank) for n in ("start", "stop", "step"))
        for d, (start, stop, step) in enumerate(zip(starts, stops, steps, strict=True)):
            if isinstance(step, int) and step < 1:
                self.reject(f"expected a step of at least 1 in dim {d}, got {step}")
            if isinstance(start, int) and start < 0:
                self.reject(f"expected a start of at least 0 in dim {d}, got {start}")
            size, extent = result.shape[d], operand.shape[d]
            if isinstance(start, int) and isinstance(stop, int) and isinstance(step, int) and isinstance(size, int):
                if size != max(0, -((start - stop) // step)):
                    self.reject(f"expected size {max(0, -((start - stop) // step))} in dim {d}, got {size}")
                if isinstance(extent, int) and stop > extent:
                    self.reject(f"expected a stop of at most {extent} in dim {d}, got {stop}")
            elif step == 1 and isinstance(wrong := expr.normal(sympy.expand(stop - start - size)), int) and wrong:  # pyright: ignore
                self.reject(f"expected size {expr.text(size + wrong)} in dim {d}, got {expr.text(size)}")  # pyright: ignore

    @classmethod
    def make(
        cls, operand: SSAValue, start: Sequence[Any], stop: Sequence[Any], step: Sequence[Any], result_type: TensorType
    ) -> Self:
        properties = {"start": Exprs.get(start), "stop": Exprs.get(stop), "step": Exprs.get(step)}
        return cls.create(operands=(operand,), result_types=(result_type,), properties=properties)


@irdl_op_definition
class FlipOp(ViewOp):
    """result[…, i, …] = x[…, size - 1 - i, …] for each of `dims`."""

    name = "prims.flip"
    FIELDS: ClassVar = {"dims": EXPRS}
    dims = prop_def(Exprs)
    operand = operand_def(TensorType)
    result = result_def(TensorType)

    def verify_(self) -> None:
        operand, result = self.types()
        self.expect_dims("dims", operand.rank)
        self.expect_shape("a result", result, operand.shape)

    @classmethod
    def make(cls, operand: SSAValue, dims: Sequence[int], result_type: TensorType) -> Self:
        return cls.create(operands=(operand,), result_types=(result_type,), properties={"dims": Exprs.get(dims)})


@irdl_op_definition
class PadOp(ViewOp):
    """result[…, i, …] = x[…, i - low, …] where that exists, `value` elsewhere. Negative `low` and `high` cut off."""

    name = "prims.pad"
    FIELDS: ClassVar = {"low": EXPRS, "high": EXPRS, "value": SCALAR}
    low = prop_def(Exprs)
    high = prop_def(Exprs)
    value = prop_def(Scalar)
    operand = operand_def(TensorType)
    result = result_def(TensorType)

    def verify_(self) -> None:
        operand, result = self.types()
        value = self.value.value
        if is_complex(operand.dtype):
            self.reject(f"is not defined for {operand.dtype}")
        if isinstance(value, sympy.Expr):
            self.reject(f"expected a number for 'value', got {self.value.text}")
        if isinstance(value, float) and not is_float(operand.dtype):
            self.reject(f"expected an integer value for {operand.dtype}, got {self.value.text}")
        lows, highs = self.expect_length("low", operand.rank), self.expect_length("high", operand.rank)
        if operand.rank != result.rank:
            self.reject(f"expected a result of rank {operand.rank}, got {shape_text(result.shape)}")
        for d, (low, high) in enumerate(zip(lows, highs, strict=True)):
            want = expr.normal(low + operand.shape[d] + high)
            if isinstance(want, int) and want != result.shape[d]:
                self.reject(f"expected size {want} in dim {d}, got {expr.text(result.shape[d])}")

    @classmethod
    def make(
        cls, operand: SSAValue, low: Sequence[Any], high: Sequence[Any], value: Number, result_type: TensorType
    ) -> Self:
        properties = {"low": Exprs.get(low), "high": Exprs.get(high), "value": Scalar.get(value)}
        return cls.create(operands=(operand,), result_types=(result_type,), properties=properties)


@irdl_op_definition
class CatOp(PrimsOp):
    """The operands one after the other along `dim`; their other sizes are equal."""

    name = "prims.cat"
    FIELDS: ClassVar = {"dim": SCALAR}
    dim = prop_def(Scalar)
    operands_ = var_operand_def(TensorType)
    result = result_def(TensorType)

    def verify_(self) -> None:
        if not self._operands:
            self.reject("needs at least one operand")
        result = self.tensor(self.results[0])
        dim = expect_dim(self, result.rank)
        total = 0
        for v in self._operands:
            t = self.tensor(v)
            self.expect_dtype("an operand", t, result.dtype)
            if t.rank != result.rank:
                self.reject(f"expected operands of rank {result.rank}, got {shape_text(t.shape)}")
            self.expect_shape("an operand", t, [*result.shape[:dim], t.shape[dim], *result.shape[dim + 1 :]])
            total = total + t.shape[dim]
        total = expr.normal(total)
        if isinstance(total, int) and total != result.shape[dim]:
            self.reject(f"expected size {total} in dim {dim}, got {expr.text(result.shape[dim])}")

    @classmethod
    def make(cls, operands: Sequence[SSAValue], dim: int, result_type: TensorType) -> Self:
        return cls.create(operands=operands, result_types=(result_type,), properties={"dim": Scalar.get(dim)})
