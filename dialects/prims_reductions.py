"""Reductions and scans of `prims`. Reduced dims are removed; nothing is kept with size 1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Self

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def

from .expr import Dim, text
from .prims_base import EXPRS, SCALAR, WORD, Exprs, PrimsOp, Scalar, word
from .prims_elementwise import expect_dim
from .tensor import TensorType, is_complex, is_float, is_integer

REDUCTIONS = ("sum", "prod", "max", "min", "any", "all", "xor", "argmax", "argmin")
SCANS = ("sum", "prod", "max", "min", "logsumexp")


class ReductionOp(PrimsOp):
    """Reduces over `dims`."""

    def reduced_shape(self, operand: TensorType) -> list[Dim]:
        dims = self.expect_dims("dims", operand.rank)
        return [size for d, size in enumerate(operand.shape) if d not in dims]


@irdl_op_definition
class ReduceOp(ReductionOp):
    """The elements over `dims` combined by `kind`.

    sum, prod: in the dtype of the operand, 0 and 1 of nothing. max, min: NaN wins; lowest and highest of nothing; i1
    as `or` and `and`. any, all: i1 operands. xor: of integers' bits, 0 of nothing. argmax, argmin: i64, the row-major
    position among `dims` (in ascending order) of the first element that is largest, smallest, or NaN.
    """

    name = "prims.reduce"
    FIELDS: ClassVar = {"kind": WORD, "dims": EXPRS}
    kind = prop_def(StringAttr)
    dims = prop_def(Exprs)
    operand = operand_def(TensorType)
    result = result_def(TensorType)

    def verify_(self) -> None:
        operand, result = self.tensor(self._operands[0]), self.tensor(self.results[0])
        kind = self.kind.data
        if kind not in REDUCTIONS:
            self.reject(f"expected 'kind' to be one of {', '.join(REDUCTIONS)}, got {kind}")
        if is_complex(operand.dtype):
            self.reject(f"is not defined for {operand.dtype}")
        if kind in ("any", "all"):
            self.expect_dtype("an operand", operand, "i1")
        elif kind == "xor" and not is_integer(operand.dtype):
            self.reject(f"expected integers for kind {kind}, got {operand.dtype}")
        elif kind in ("sum", "prod") and operand.dtype == "i1":
            self.reject(f"expected numbers for kind {kind}, got i1")
        self.expect_dtype("a result", result, "i64" if kind.startswith("arg") else operand.dtype)
        self.expect_shape("a result", result, self.reduced_shape(operand))

    @classmethod
    def make(cls, operand: SSAValue, kind: str, dims: Sequence[int], result_type: TensorType) -> Self:
        properties = {"kind": word(kind), "dims": Exprs.get(dims)}
        return cls.create(operands=(operand,), result_types=(result_type,), properties=properties)


@irdl_op_definition
class VarMeanOp(ReductionOp):
    """mean and mean((x - mean)^2) of the floats over `dims`, by Welford's recurrence; NaN of nothing."""

    name = "prims.var_mean"
    FIELDS: ClassVar = {"dims": EXPRS}
    dims = prop_def(Exprs)
    operand = operand_def(TensorType)
    mean = result_def(TensorType)
    variance = result_def(TensorType)

    def verify_(self) -> None:
        operand = self.tensor(self._operands[0])
        if not is_float(operand.dtype):
            self.reject(f"is defined for floats, got {operand.dtype}")
        for r in self.results:
            self.expect_dtype("results", self.tensor(r), operand.dtype)
            self.expect_shape("results", self.tensor(r), self.reduced_shape(operand))

    @classmethod
    def make(cls, operand: SSAValue, dims: Sequence[int], result_type: TensorType) -> Self:
        return cls.create(
            operands=(operand,), result_types=(result_type, result_type), properties={"dims": Exprs.get(dims)}
        )


@irdl_op_definition
class ScanOp(PrimsOp):
    """result[…, i, …] = the elements up to and with i along `dim`, combined by `kind`.

    sum, prod (numbers), max, min (NaN wins from then on; of equals, as 0 and -0 are, the last stands), logsumexp
    (floats: log of the sum of e^x).
    """

    name = "prims.scan"
    FIELDS: ClassVar = {"kind": WORD, "dim": SCALAR}
    kind = prop_def(StringAttr)
    dim = prop_def(Scalar)
    operand = operand_def(TensorType)
    result = result_def(TensorType)

    def verify_(self) -> None:
        operand, result = self.tensor(self._operands[0]), self.tensor(self.results[0])
        kind = self.kind.data
        if kind not in SCANS:
            self.reject(f"expected 'kind' to be one of {', '.join(SCANS)}, got {kind}")
        if is_complex(operand.dtype) or (operand.dtype == "i1" and kind in ("sum", "prod")):
            self.reject(f"is not defined for {operand.dtype} and kind {kind}")
        if kind == "logsumexp" and not is_float(operand.dtype):
            self.reject(f"expected floats for kind logsumexp, got {operand.dtype}")
        self.expect_dtype("a result", result, operand.dtype)
        self.expect_shape("a result", result, operand.shape)
        expect_dim(self, operand.rank)

    @classmethod
    def make(cls, operand: SSAValue, kind: str, dim: int, result_type: TensorType | None = None) -> Self:
        properties = {"kind": word(kind), "dim": Scalar.get(dim)}
        return cls.create(operands=(operand,), result_types=(result_type or operand.type,), properties=properties)


@irdl_op_definition
class SortOp(PrimsOp):
    """result[…, j, …] = the j-th of the i32 or i64 along `dim` in ascending order; the first ones, so many as it has.

    What else is to be in order is made a whole number first, with its place as the last digits where ties matter.
    """

    name = "prims.sort"
    FIELDS: ClassVar = {"dim": SCALAR}
    dim = prop_def(Scalar)
    operand = operand_def(TensorType)
    result = result_def(TensorType)

    def verify_(self) -> None:
        operand, result = self.tensor(self._operands[0]), self.tensor(self.results[0])
        if operand.dtype not in ("i32", "i64"):
            self.reject(f"is defined for i32 and i64, got {operand.dtype}")
        self.expect_dtype("a result", result, operand.dtype)
        dim = expect_dim(self, operand.rank)
        if result.rank != operand.rank:
            self.reject(f"expected a result of rank {operand.rank}, got {result.rank}")
        count, size = result.shape[dim], operand.shape[dim]
        if isinstance(count, int) and isinstance(size, int) and count > size:
            self.reject(f"expected at most {text(size)} elements along dim {dim}, got {text(count)}")
        self.expect_shape("a result", result, [count if d == dim else n for d, n in enumerate(operand.shape)])

    @classmethod
    def make(cls, operand: SSAValue, dim: int, result_type: TensorType) -> Self:
        return cls.create(operands=(operand,), result_types=(result_type,), properties={"dim": Scalar.get(dim)})
