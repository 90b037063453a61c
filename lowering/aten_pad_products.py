"""aten to aten, for GPUs: matrix products whose rows do not begin at multiples of 16 bytes are made of padded operands.

The tensor memory accelerator and the wide loads that the fast kernels of cuBLAS use need such rows; without them it
takes one that is several times slower. A size that is the contiguous one of an operand or of the result is rounded up,
the operands are padded with zeros, and the result is cut to size. A tensor that is padded for several products, or for
one as it is and for another transposed, is padded once. This is done where the model of time below says that
the copies cost less than the slow product: for a vocabulary of 50257, a fifth of the time is left. Products that
become kernels of ours (`aten-choose-products`) stay as they are.

Source: NVIDIA, Matrix Multiplication Background User's Guide, "Tensor Core requirements".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, cast

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from ..dialects import expr
from ..dialects.aten import AtenOp, lookup
from ..dialects.expr import Dim
from ..dialects.flow import bodies
from ..dialects.tensor import TensorType, itemsize
from .aten_to_prims import RULES, size_hints
from .fuse_cost import Hints
from .products import MARK

PRODUCTS: Final = {"aten.mm": ("self", "mat2"), "aten.addmm": ("mat1", "mat2")}
"""The factors of each product."""

ROW_BYTES = 16
FAST_FLOPS_PER_US, SLOW_FLOPS_PER_US = 600e6, 110e6
"""Of products of 16-bit floats with and without aligned rows, on an H200."""
COPY_BYTES_PER_US, COPY_US = 4e6, 8.0


@dataclass(frozen=True)
class AtenPadProducts(ModulePass):
    """Pad the operands of matrix products on GPUs where their rows are not aligned."""

    name = "aten-pad-products"
    statistics: dict[str, int] = field(default_factory=dict[str, int], init=False, compare=False)

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        hints = Hints(size_hints(op))
        calls = (o for body in bodies(op) for o in body.block.ops if isinstance(o, AtenOp) and MARK not in o.attributes)
        products = [o for o in calls if o.name in PRODUCTS]
        made: _Made = {}
        self.statistics["products"] = sum(_pad(o, hints, made) for o in products)


_Made = dict[tuple[SSAValue, tuple[Dim, ...]], SSAValue]
"""Padded tensors, by what they were and the shape."""


def _pad(op: AtenOp, hints: Hints, made: _Made) -> bool:
    """Replace a product by one of padded operands, if that pays."""
    a, b = (cast(SSAValue, op.arg(name)) for name in PRODUCTS[op.name])
    ta, tb, result = cast(TensorType, a.type), cast(TensorType, b.type), op.results[0]
    t = cast(TensorType, result.type)
    if not t.device.startswith("cuda") or {ta.dtype, tb.dtype, t.dtype} not in ({"bf16"}, {"f16"}):
        return False
    (m, k), n = ta.shape, tb.shape[1]
    if not all(type(size) is int and size > 0 for size in (k, n)):
        return False
    unit = ROW_BYTES // itemsize(t.dtype)
    contiguous = {_contiguous(ta, m, k), _contiguous(tb, k, n), n}
    new_k, new_n = (_rounded(size, unit) if size in contiguous else size for size in (k, n))
    new_m = _rounded(m, unit) if type(m) is int and _rows_contiguous(ta) else m
    if (new_m, new_k, new_n) == (m, k, n):
        return False
    high, wide, long = new_m != m, new_n != n, new_k != k
    factors = [(a, ta, (new_m, new_k))] * (high or long) + [(b, tb, (new_k, new_n))] * (wide or long)
    padded = [(v, shape) for x, v, shape in factors if _key(x, shape) not in made] + [(t, (m, new_n))] * wide
    flops = 2 * hints.size(m) * hints.size(k) * hints.size(n)
    copied = sum(2 * itemsize(v.dtype) * hints.size(shape[0]) * hints.size(shape[1]) for v, shape in padded)
    saved = flops / SLOW_FLOPS_PER_US - flops / FAST_FLOPS_PER_US
    if saved <= copied / COPY_BYTES_PER_US + COPY_US * len(padded):
        return False
    first, second = PRODUCTS[op.name]
    given = {first: _padded(a, (new_m, new_k), op, made), second: _padded(b, (new_k, new_n), op, made)}
    if op.name == "aten.addmm":
        bias = cast(SSAValue, op.arg("self"))
        shape = cast(TensorType, bias.type).shape
        sizes = zip(reversed(shape), ((n, new_n), (m, new_m)), strict=False)
        given["self"] = _padded(bias, tuple(new if d == old else d for d, (old, new) in sizes)[::-1], op, made)
    arguments = [given.get(s.name, v) for s, v in zip(op.schema.args, op.args(), strict=True)]
    product = type(op).call(arguments, [t.with_(shape=(new_m, new_n), strides=None)], op.location)
    value = _before(op, product)
    if high:  # rows in front of others are where they would be without these
        value = _before(op, _call("aten.slice.Tensor", op, [value, 0, 0, m], t.with_(shape=(m, new_n), strides=None)))
    if wide:
        cut = t.with_(shape=(m, n), strides=(new_n, 1))
        value = _before(op, _call("aten.slice.Tensor", op, [value, 1, 0, n], cut))
        value = _before(op, _call("aten.clone", op, [value, "contiguous_format"], t))
    value.name_hint = result.name_hint
    result.replace_all_uses_with(value)
    op.detach()
    op.erase()
    return True


def _rows_contiguous(t: TensorType) -> bool:
    """Whether rows, not columns, are the contiguous dim of a matrix."""
    return t.strides[0] == 1 and t.strides[1] != 1


def _contiguous(t: TensorType, rows: Dim, columns: Dim) -> Dim | None:
    """The size along which a matrix is contiguous."""
    return columns if t.strides[1] == 1 else rows if t.strides[0] == 1 else None


def _rounded(size: Dim, unit: int) -> int:
    assert isinstance(size, int)
    return -(-size // unit) * unit


def _transposed(v: SSAValue) -> SSAValue | None:
    """The matrix of which this is the transpose."""
    op = v.owner
    if not isinstance(op, AtenOp):
        return None
    is_transpose = op.name == "aten.t" or (op.name == "aten.permute" and op.arg("dims") == (1, 0))
    return cast(SSAValue, op.arg("self")) if is_transpose else None


def _key(v: SSAValue, shape: tuple[Dim, ...]) -> tuple[SSAValue, tuple[Dim, ...]]:
    """What is padded for a matrix to have this shape."""
    source = _transposed(v)
    return (v, shape) if source is None else (source, shape[::-1])


def _padded(v: SSAValue, shape: tuple[Dim, ...], op: AtenOp, made: _Made) -> SSAValue:
    """The tensor with zeros behind it in the dims that grow; in the same order in memory."""
    t = cast(TensorType, v.type)
    if t.shape == shape:
        return v
    source = _transposed(v)
    if source is not None:
        padded = _padded(source, shape[::-1], op, made)
        strides = cast(TensorType, padded.type).strides[::-1]
        return _before(op, _call("aten.t", op, [padded], t.with_(shape=shape, strides=strides)))
    if (v, shape) not in made:
        made[v, shape] = _pad_behind(v, t, shape, op)
    return made[v, shape]


def _pad_behind(v: SSAValue, t: TensorType, shape: tuple[Dim, ...], op: AtenOp) -> SSAValue:
    behind: list[Dim] = []
    for old, new in zip(reversed(t.shape), reversed(shape), strict=True):
        behind += [0, expr.normal(new - old)]  # pyright: ignore[reportOperatorIssue]
    transposed = t.rank == 2 and t.strides[0] == 1 and t.strides[1] != 1
    strides = (1, shape[0]) if transposed else None
    wide = t.with_(shape=shape, strides=strides)
    padded = _before(op, _call("aten.constant_pad_nd", op, [v, tuple(behind)], wide))
    if others := _read_later(v, op):
        # where a kernel makes it, others read the padded tensor once the product has it: it is the only one in memory
        cut, after = padded, cast(Operation, op)
        for dim, (old, new) in enumerate(zip(t.shape, shape, strict=True)):
            if new != old:
                part = t.with_(shape=(*t.shape[: dim + 1], *shape[dim + 1 :]), strides=wide.strides)
                call = _call("aten.slice.Tensor", op, [cut, dim, 0, old], part)
                cast(Block, op.parent).insert_op_after(call, after)
                cut, after = call.results[0], call
        for user in others:
            user.operands = [cut if operand is v else operand for operand in user.operands]
    return padded


def _read_later(v: SSAValue, op: AtenOp) -> list[Operation]:
    """Kernels after `op` that read a tensor which a kernel makes."""
    if not _of_kernel(v):
        return []
    users = dict.fromkeys(use.operation for use in v.uses)
    return [u for u in users if u.parent is op.parent and _is_kernel(u) and op.is_before_in_block(u)]


def _of_kernel(v: SSAValue) -> bool:
    """Whether a kernel makes a tensor, or what it is a view of."""
    op = v.owner
    while isinstance(op, AtenOp) and (rule := RULES.get(op.name)) is not None and rule.alias:
        op = op.operands[0].owner
    return isinstance(op, Operation) and _is_kernel(op)


def _is_kernel(op: Operation) -> bool:
    rule = RULES.get(op.name) if isinstance(op, AtenOp) else None
    return rule is not None and not rule.costly and not rule.alias


def _call(name: str, op: AtenOp, arguments: list[object], t: TensorType) -> AtenOp:
    cls = lookup(name)
    assert cls is not None
    return cls.call(cast("list[int]", arguments), [t], op.location)


def _before(op: AtenOp, made: Operation) -> SSAValue:
    block = op.parent
    assert block is not None
    block.insert_op_before(made, op)
    return made.results[0]
