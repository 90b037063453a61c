"""Matrix products of `prims`."""

from __future__ import annotations

from typing import Self

from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, result_def

from .prims_base import PrimsOp, shape_text
from .tensor import TensorType, is_complex, is_float, itemsize


@irdl_op_definition
class DotOp(PrimsOp):
    """result[…, m, n] = the sum over k of lhs[…, m, k] * rhs[…, k, n], products and sum in the result's dtype.

    lhs [*B, M, K] and rhs [*B, K, N] have one dtype of numbers, result [*B, M, N] the same or a wider one of its kind.
    The order of the sum is not said; the sum of nothing is 0.
    """

    name = "prims.dot"
    lhs = operand_def(TensorType)
    rhs = operand_def(TensorType)
    result = result_def(TensorType)

    def verify_(self) -> None:
        lhs, rhs, result = (self.tensor(v) for v in (*self._operands, self.results[0]))
        for t in (lhs, result):
            if is_complex(t.dtype) or t.dtype == "i1":
                self.reject(f"is not defined for {t.dtype}")
        self.expect_dtype("rhs", rhs, lhs.dtype)
        if is_float(lhs.dtype) != is_float(result.dtype) or itemsize(result.dtype) < itemsize(lhs.dtype):
            self.reject(f"expected a result that holds products of {lhs.dtype}, got {result.dtype}")
        if lhs.rank < 2:
            self.reject(f"expected matrices, got lhs of shape {shape_text(lhs.shape)}")
        *batch, m, k = lhs.shape
        self.expect_shape("rhs", rhs, (*batch, k, rhs.shape[-1] if rhs.rank else 1))
        self.expect_shape("a result", result, (*batch, m, rhs.shape[-1]))

    @classmethod
    def make(cls, lhs: SSAValue, rhs: SSAValue, result_type: TensorType) -> Self:
        return cls.create(operands=(lhs, rhs), result_types=(result_type,))
