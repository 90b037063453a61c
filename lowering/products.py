"""Matrix products at the aten level: their factors and sizes, what names their kind, and how they are to be computed.

    %c = aten.mm(%a, %b) {lamella.product = "generated"} : …

A product with this mark becomes `prims.dot` and so a kernel of ours; one of halves that is "widened" becomes a call
with factors of f32; any other stays the call that it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, cast

from xdsl.dialects import func
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation, SSAValue

from ..dialects import expr
from ..dialects.aten import AtenOp
from ..dialects.expr import Dim
from ..dialects.tensor import TensorType
from .decomposition import RULES

MARK: Final = "lamella.product"
GENERATED: Final = StringAttr("generated")
WIDENED: Final = StringAttr("widened")

FACTORS: Final = {
    "aten.mm": ("self", "mat2"),
    "aten.addmm": ("mat1", "mat2"),
    "aten.bmm": ("self", "mat2"),
    "aten.baddbmm": ("batch1", "batch2"),
    "aten.addbmm": ("batch1", "batch2"),
    "aten.mv": ("self", "vec"),
    "aten.dot": ("self", "tensor"),
    "aten.vdot": ("self", "other"),
    "aten.addmv": ("mat", "vec"),
    "aten.linear": ("input", "weight"),
    "aten._int_mm": ("self", "mat2"),
}
"""The factors of each product; that of `linear` is transposed."""

BIASED: Final = {
    "aten.addmm": "self",
    "aten.baddbmm": "self",
    "aten.addbmm": "self",
    "aten.addmv": "self",
    "aten.linear": "bias",
}
"""What is added to each product that adds something."""

CONVERSIONS = frozenset({"aten._to_copy", "aten.to.dtype", "torch_prims.convert_element_type"})
EXACT: Final = CONVERSIONS | frozenset(
    f"aten.{name}"
    for name in (
        *("abs", "amax", "amin", "cat", "clamp", "clamp_max", "clamp_min", "clone", "hardtanh", "index_select"),
        *("max.dim", "maximum", "min.dim", "minimum", "neg", "relu", "stack", "threshold", "where.self"),
    )
)
"""Operators that give values of their operands, or these with another sign."""
_VIEWS = frozenset({"aten.t", "aten.transpose.int", "aten.permute", "aten.view", "aten.reshape", "aten.expand"})


def is_generated(op: Operation) -> bool:
    """Whether a product is to be a kernel."""
    return op.attributes.get(MARK) == GENERATED


def is_widened(op: Operation) -> bool:
    """Whether halves are to be computed with in f32: a product or a convolution by a call, attention by a kernel."""
    return op.attributes.get(MARK) == WIDENED


def is_product(op: Operation) -> bool:
    return isinstance(op, AtenOp) and op.name in FACTORS


@dataclass(frozen=True)
class Product:
    """batch x [m, k] x [k, n]. `lhs` and `rhs` say along what a factor lies in one piece: `k` is the inner dim, `m` or
    `n` the outer one, `-` neither. `stored` is the dtype that the second factor is converted from.
    """

    op: AtenOp
    batch: Dim
    m: Dim
    n: Dim
    k: Dim
    dtype: str
    result: str
    lhs: str
    rhs: str
    stored: str
    epilogue: str

    @property
    def device(self) -> str:
        return cast(TensorType, self.op.results[0].type).device

    def sizes(self, size: Callable[[Dim], int]) -> tuple[int, int, int, int]:
        """batch, m, n, k as `size` gives them."""
        return size(self.batch), size(self.m), size(self.n), size(self.k)

    @property
    def is_static(self) -> bool:
        return all(isinstance(d, int) for d in (self.batch, self.m, self.n, self.k))

    def kind(self, size: Callable[[Dim], int]) -> str:
        """What a measurement of the product is remembered by, next to the machine."""
        b, m, n, k = self.sizes(size)
        types = f"{self.dtype}*{self.stored if self.stored != self.dtype else self.dtype}->{self.result}"
        return f"{types} {b}x{m}x{n}x{k} {self.lhs}{self.rhs} {self.epilogue}"


def product_of(op: Operation) -> Product | None:
    """What a call multiplies; None where it is no product of matrices."""
    if not isinstance(op, AtenOp) or op.name not in FACTORS:
        return None
    a, b = (cast(SSAValue, op.arg(name)) for name in FACTORS[op.name])
    ta, tb, t = (cast(TensorType, v.type) for v in (a, b, op.results[0]))
    if op.name == "aten.linear":
        if ta.rank < 1 or tb.rank != 2:
            return None
        batch: Dim = 1
        m, k, n = expr.product(ta.shape[:-1]), ta.shape[-1], tb.shape[0]
        sides = "k" if ta.is_contiguous else "-", _side(tb, -1, "k", "n")
    elif ta.rank == 1:
        batch, m, (k,), n = 1, 1, ta.shape, 1
        sides = "k", "k"
    elif tb.rank == 1:
        batch, (m, k), n = 1, ta.shape, 1
        sides = _side(ta, -1, "k", "m"), "k"
    else:
        batch = expr.product(ta.shape[:-2])
        (m, k), n = ta.shape[-2:], tb.shape[-1]
        sides = _side(ta, -1, "k", "m"), _side(tb, -1, "n", "k")
    return Product(op, batch, m, n, k, ta.dtype, t.dtype, *sides, _stored(b), _epilogue(op))


def leaves(value: SSAValue) -> bool:
    """Whether a program returns the tensor, or a view of it."""
    users = [use.operation for use in value.uses]
    views = (o for o in users if isinstance(o, AtenOp) and o.name in {*_VIEWS, "aten._unsafe_view"})
    return any(isinstance(o, func.ReturnOp) for o in users) or any(leaves(o.results[0]) for o in views)


def _side(t: TensorType, dim: int, last: str, other: str) -> str:
    """Along which of its two dims a matrix lies in one piece."""
    if t.strides[dim] == 1 or t.shape[dim] == 1:
        return last
    return other if t.strides[-2] == 1 or t.shape[-2] == 1 else "-"


def _stored(v: SSAValue) -> str:
    """The dtype of a factor in memory: conversions become part of a kernel."""
    while isinstance(owner := v.owner, AtenOp) and owner.name in CONVERSIONS | _VIEWS:
        v = owner.operands[0]
    return cast(TensorType, v.type).dtype


def _epilogue(op: AtenOp) -> str:
    bias = op.name in BIASED and op.arg(BIASED[op.name]) is not None
    parts = ["bias"] * bias + ["more"] * read_by_kernels(op.results[0])
    return "+".join(parts) or "plain"


def read_by_kernels(value: SSAValue) -> bool:
    """Whether all uses, perhaps of views, are operators that become kernels."""
    users = [use.operation for use in value.uses]
    for user in users:
        entry = RULES.get(user.name)
        if entry is None or is_product(user):
            return False
        if entry.alias and not read_by_kernels(user.results[0]):
            return False
    return bool(users)


def rounded_again(value: SSAValue) -> bool:
    """Whether some use, perhaps of a view, computes what its dtype need not hold."""
    for use in value.uses:
        user = use.operation
        entry = RULES.get(user.name)
        if entry is not None and entry.alias:
            if rounded_again(user.results[0]):
                return True
        elif user.name not in EXACT:
            return True
    return False
