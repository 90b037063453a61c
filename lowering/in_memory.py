"""What operators find in memory when they run, as it is made by other kernels or calls in any case."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from xdsl.ir import Block, Operation, SSAValue

from ..dialects.aten import AtenOp
from ..dialects.expr import Dim
from ..dialects.tensor import TensorType, itemsize
from .attention_call import attention_of
from .fuse_cost import BYTES_PER_OP, WRITE
from .moves import MOVES_OR_NUMBERS
from .products import CONVERSIONS, FACTORS, MARK, is_generated, is_product, product_of

LARGE = frozenset(
    {
        "aten.convolution",
        "aten.convolution_backward",
        "aten._scaled_dot_product_flash_attention_for_cpu_backward",
        "aten._scaled_dot_product_efficient_attention_backward",
        "aten._scaled_dot_product_flash_attention_backward",
        "aten._scaled_dot_product_cudnn_attention_backward",
    }
)
"""Operators that stay calls where they are not marked, beside products and attention."""


def is_view(op: Operation) -> bool:
    return isinstance(op, AtenOp) and (op.schema.is_view or op.name == "aten._unsafe_view")


def root(value: SSAValue) -> SSAValue:
    """What a value is a view of."""
    while isinstance(op := value.owner, AtenOp) and is_view(op):
        value = op.operands[0]
    return value


def readers(value: SSAValue) -> Iterator[Operation]:
    """What reads a value or views of it."""
    for use in value.uses:
        if is_view(use.operation):
            for r in use.operation.results:
                yield from readers(r)
        else:
            yield use.operation


def stays(op: Operation) -> bool:
    """Whether an op is known to stay a call."""
    if attention_of(op) is not None:
        return MARK not in op.attributes
    return (is_product(op) or op.name in LARGE) and not is_generated(op)


def takes_memory(op: Operation) -> bool:
    """Whether what an op takes is in memory."""
    return not isinstance(op, AtenOp) or stays(op)


def computed_factors(op: Operation, reuse: int) -> tuple[SSAValue, ...]:
    """What the kernel of a product finds in memory as a factor, or views of it, though it is computed. `reuse`: how
    many rows or columns of a product use an element of the other factor once it is at hand.

    A kernel with a product in it has nothing but what is computed at the product's own points (`fuse_groups`), at which
    no factor is. It would compute a factor for every `reuse` rows or columns of the other one again (`fuse_absorb`),
    which is worth it for no arithmetic where these are many.
    """
    if not is_generated(op) or (product := product_of(op)) is None:
        return ()
    a, b = (root(cast(SSAValue, product.op.arg(name))) for name in FACTORS[product.op.name])
    return tuple(v for v, others in ((a, product.n), (b, product.m)) if _is_stored(v, others, reuse))


def _is_stored(factor: SSAValue, others: Dim, reuse: int) -> bool:
    """Whether storing it costs less than computing it for so many rows or columns of the other one."""
    if not isinstance(others, int) or not _is_computed(factor.owner) or not isinstance(factor.type, TensorType):
        return False
    stored = (WRITE + 1) * itemsize(factor.type.dtype) + BYTES_PER_OP
    return others / reuse * BYTES_PER_OP > stored


_NO_ARITHMETIC = MOVES_OR_NUMBERS | CONVERSIONS


def _is_computed(op: Operation | Block) -> bool:
    """Whether an operator does arithmetic for each element that it gives."""
    if not isinstance(op, AtenOp) or op.name in _NO_ARITHMETIC:
        return False
    return any(isinstance(v.type, TensorType) for v in op.operands)
