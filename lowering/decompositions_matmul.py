"""Products of one row with a matrix, as decoding makes them: sums in kernels, which read the matrix at memory speed.

Any other product stays a call.
"""

from __future__ import annotations

from typing import Any, cast

from xdsl.ir import SSAValue

from ..dialects.aten import lookup
from ..dialects.prims import Number
from ..dialects.tensor import TensorType
from .decomposition import RULES, Call, rule
from .prims_builder import Value
from .promotion import opmath

PRODUCTS = frozenset({"aten.mm", "aten.addmm"})
"""Operators of this table: their rules take few cases, most stay calls."""


def row_product(x: Value, matrix: Value, layout: TensorType) -> Value | None:
    """x @ matrix for an x of one row, summed in the dtype of computation; None where the call is as good.

    `layout` is the type that eager's matrix has. Where its columns do not lie in one piece, BLAS is as fast, but not
    for f16 and bf16.
    """
    if x.shape[0] != 1 or not x.is_float or x.type.device != "cpu" or matrix.dtype != x.dtype:
        return None
    if layout.strides[0] != 1 and opmath(x.dtype) == x.dtype:
        return None
    size, columns = matrix.shape
    row = x.opmath().reshape([size]).broadcast([columns, size], [1])
    return (row * matrix.opmath().transpose([1, 0])).reduce("sum", [1]).reshape([1, columns])


def _layout(call: Call, name: str) -> TensorType:
    return cast(TensorType, cast(SSAValue, call.op.arg(name)).type)


def product_for_kernels(call: Call, x: Value, matrix: Value) -> Value | None:
    """x @ matrix where kernels read what the op gives, as they may add a bias to it; else None.

    ATen writes the bias first and adds the product to it: a pass over the result that BLAS alone does not make. (In
    f16 and bf16 the product would be rounded before the bias is added.)
    """
    if not _read_by_kernels(call.op.results[0]):
        return None
    product = lookup("aten.mm")
    assert product is not None
    op = product.call([x.ssa, matrix.ssa], [call.type], call.b.location)
    call.b.ops.append(op)
    return Value(call.b, op.results[0])


_PRODUCTS = frozenset({"aten.mm", "aten.addmm", "aten.bmm", "aten.baddbmm"})


def _read_by_kernels(value: SSAValue) -> bool:
    """Whether all uses, perhaps of views, are operators that become kernels."""
    users = [use.operation for use in value.uses]
    for user in users:
        entry = RULES.get(user.name)
        if entry is None or user.name in _PRODUCTS:
            return False
        if entry.alias and not _read_by_kernels(user.results[0]):
            return False
    return bool(users)


@rule("aten.mm")
def mm(call: Call, x: Value, matrix: Value) -> Any:
    result = row_product(x, matrix, _layout(call, "mat2"))
    return NotImplemented if result is None else result.to(call.type.dtype)


@rule("aten.addmm")
def addmm(call: Call, bias: Value, x: Value, matrix: Value, beta: Number, alpha: Number) -> Any:
    result = row_product(x, matrix, _layout(call, "mat2"))
    if result is None and x.dtype == "f32" and x.type.device == "cpu" and alpha == beta == 1:
        result = product_for_kernels(call, x, matrix)
    if result is None or bias.dtype != x.dtype:
        return NotImplemented
    if alpha != 1:
        result = result * alpha
    if beta != 0:
        bias = bias.to(opmath(bias.dtype)).expand(result.shape)
        result = result + (bias if beta == 1 else bias * beta)
    return result.to(call.type.dtype)
