"""A contraction at tiles: `tt.dot` of two tiles of factors for each tile of the sum, added up in registers.

    %s = loop.for [r0 = K] reduce [add] attributes {tile = {r0 = 64}, dot = "ieee"} { x(d0, r0) * y(d1, r0) }

The first factor is a tile of rows and depth, the second one of depth and columns: each is computed on axes of its own,
with what is fused into it, and zero beyond the end of the sum. Rows and columns are the two axes that there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import sympy
from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerType, StringAttr, TensorType, bf16, f32, i32, i64
from xdsl.ir import Attribute, Operation, SSAValue

from ..dialects import expr, tt
from ..dialects import tensor as tensors
from ..dialects.expr import Dim
from ..dialects.loop import ForOp, KernelOp, LoadOp, LoopDim, YieldOp, op_symbols
from ..dialects.tensor import HALF_TYPES
from ..dialects.tt_dot import SUMS
from ..dialects.tt_enums import PADDING
from ..dialects.tt_types import element_of, shape_of
from .address import multiple_of
from .llvm_properties import KernelError
from .tt_index import Index, Number, Place
from .tt_loops import TileLoop
from .tt_scalar import narrowed, same

if TYPE_CHECKING:
    from .tt_access import Axis
    from .tt_body import KernelBody

DOT = "dot"
"""The attribute of a loop that is a product of tiles: how floats of 32 bits are multiplied, `ieee` or one of these."""

SPLIT, PAIRS = "bf16x6", "bf16x3"
"""As sums of three bf16, by six products: as exact as f32; as sums of two, by three: 16 bits, where tf32 has 11."""

PARTS = {SPLIT: 3, PAIRS: 2}
"""How many bf16 such a sum has."""

DESCRIPTORS = "descriptors"
"""The attribute of a loop whose factors the tensor memory accelerator copies, where it can."""

ROW_BYTES = 16
"""Lines of a matrix that it reads begin at multiples of this."""

_EXACT = (arith.ExtFOp, arith.ExtSIOp)


def factors(op: ForOp) -> list[tuple[SSAValue, SSAValue]]:
    """What the loop multiplies for each sum, without the conversions that change no value; nothing if it does more."""
    found: list[tuple[SSAValue, SSAValue]] = []
    for kind, value in zip(op.reduce.data, cast(YieldOp, op.body.block.last_op).values, strict=True):
        product = value.owner
        if kind.data != "add" or not isinstance(product, (arith.MulfOp, arith.MuliOp)):
            return []
        x, y = _unwidened(product.lhs), _unwidened(product.rhs)
        narrow = x.type == y.type and _is_summed(x.type, _sum_type(value.type))
        found.append((x, y) if narrow else (product.lhs, product.rhs))
    return found


def _sum_type(t: Attribute) -> Attribute:
    """The type that values of a type are added up in."""
    return f32 if isinstance(t, HALF_TYPES) else t


def _is_summed(factor: Attribute, total: Attribute) -> bool:
    """Whether there is a `tt.dot` of factors of one type with sums of another."""
    return str(total) in SUMS.get(str(factor), ())


def _unwidened(v: SSAValue) -> SSAValue:
    while isinstance(v.owner, _EXACT):
        v = v.owner.operands[0]
    return v


def is_of_bytes(v: SSAValue) -> bool:
    """Whether a factor is made of integers that bf16 has."""
    op = v.owner
    whole = op.operands[0].type if isinstance(op, (arith.SIToFPOp, arith.UIToFPOp)) else None
    return isinstance(whole, IntegerType) and whole.width.data <= 8


def symbols_of(v: SSAValue) -> set[str]:
    """Names of the dims and sizes that a value depends on."""
    op = v.owner
    if not isinstance(op, Operation):
        return set()
    return op_symbols(op).union(*map(symbols_of, op.operands))


@dataclass(frozen=True)
class StoredMatrix:
    """A factor that is read as it lies in memory: its load, the element at its corner, and how far its lines are apart;
    `depth_last`: its lines run along the depth.
    """

    load: LoadOp
    type: tensors.TensorType
    first: tuple[Dim, ...]
    stride: Dim
    depth_last: bool


def stored_matrix(value: SSAValue, axis: sympy.Symbol, depth: sympy.Symbol) -> StoredMatrix | None:
    """The factor as the tensor memory accelerator sees it; None where it must be computed, or is not aligned."""
    load = value.owner
    if not isinstance(load, LoadOp) or load.mask is not None or load.ok is not None or load.indices:
        return None
    t = cast(tensors.TensorType, load.source.type)
    index, at = list(load.index), {}
    for symbol in (axis, depth):
        places = [i for i, e in enumerate(index) if symbol in expr.symbols(e)]
        if len(places) != 1 or index[places[0]] != symbol:
            return None
        at[symbol] = places[0]
        index[places[0]] = 0
    unit = ROW_BYTES // tensors.itemsize(t.dtype)
    strides = [s for i, s in enumerate(t.strides) if i not in at.values()] + [t.strides[at[axis]], t.strides[at[depth]]]
    last = [s for s in (axis, depth) if t.strides[at[s]] == 1]
    if len(last) != 1 or not all(s == 1 or multiple_of(s, unit) for s in strides):
        return None
    other = axis if last[0] == depth else depth
    return StoredMatrix(load, t, tuple(index), t.strides[at[other]], last[0] == depth)


class ContractionLoop(TileLoop):
    """One such loop under construction."""

    def __init__(self, body: KernelBody, op: ForOp) -> None:
        super().__init__(body, op)
        self.precision = cast(StringAttr, op.attributes[DOT]).data
        self.factors = factors(op)
        deep = [d for d in self.dims if self.tiles[d.name] > 1]
        if len(body.axes) != 2 or len(deep) != 1 or not self.factors:
            raise KernelError(f"loop.for {op.dims.text} is no product of matrices at these tiles")
        for (x, _), value in zip(self.factors, self.yields, strict=True):
            if not _is_summed(x.type, total := _sum_type(value.type)):
                raise KernelError(f"there is no product of matrices of {x.type} that adds up in {total}")
        self.depth = deep[0]
        self.rows, self.columns = body.axes
        self.dims.sort(key=lambda d: d is self.depth)

    def run(self) -> list[SSAValue]:
        """The sums of a tile."""
        body, b, env = self.body, self.b, dict(self.body.env)
        types = [_sum_type(v.type) for v in self.yields]
        values = self._nest(0, [b.fit(b.constant(0, t), body.shape) for t in types], True)
        body.env = env
        return [narrowed(b, v, r.type) for v, r in zip(values, self.op.res, strict=True)]

    def _rest(self, d: LoopDim) -> int | None:
        return None

    def _enter(self, d: LoopDim, start: Number, tile: int, whole: bool = False) -> None:
        """The sum has no lanes, only its factors have."""
        self.body.env[d.symbol] = Place(start)
        if d is self.depth:
            self.start = start

    def _innermost(self, values: Sequence[SSAValue], looped: bool) -> list[SSAValue]:
        return [self._product(x, y, so_far) for (x, y), so_far in zip(self.factors, values, strict=True)]

    def _product(self, x: SSAValue, y: SSAValue, so_far: SSAValue) -> SSAValue:
        if self.rows.symbol.name not in symbols_of(x):
            x, y = y, x
        size = self.tiles[self.depth.name]
        left = self.tile(x, (self.rows, None), (self.rows.size, size))
        right = self.tile(y, (None, self.columns), (size, self.columns.size))
        if self.precision in PARTS and (is_of_bytes(x) or is_of_bytes(y)):
            return self._of_bytes(left, right, is_of_bytes(x), so_far)
        return self.b.insert(tt.DotOp.make(left, right, so_far, self.precision)).results[0]

    def _of_bytes(self, left: SSAValue, right: SSAValue, first: bool, so_far: SSAValue) -> SSAValue:
        """Products with a factor that bf16 has, the first or the second: the other one is a sum of bf16."""
        b = self.b
        whole, rest = (left, right) if first else (right, left)
        whole = b.cast(arith.TruncFOp, whole, bf16)
        parts: list[SSAValue] = []
        for _ in range(PARTS[self.precision]):
            parts.append(b.cast(arith.TruncFOp, rest, bf16))
            rest = b.float(arith.SubfOp, rest, b.cast(arith.ExtFOp, parts[-1], f32))
            # nothing is left of what is infinite
            rest = b.select(b.compare("oeq", rest, rest), rest, same(b, 0.0, rest))
        # tensor cores cut off what they add up: long sums are not theirs
        total = b.fit(b.constant(0.0, f32), shape_of(so_far.type))
        for part in reversed(parts):
            sides = (whole, part) if first else (part, whole)
            total = b.insert(tt.DotOp.make(*sides, total)).results[0]
        return b.float(arith.AddfOp, so_far, total)

    def tile(self, value: SSAValue, axes: Sequence[Axis | None], shape: tuple[int, int]) -> SSAValue:
        """A factor on two axes, of which one is the depth (None)."""
        body, b, d = self.body, self.b, self.depth
        if DESCRIPTORS in self.op.attributes:
            axis = next(a for a in axes if a is not None)
            matrix = stored_matrix(value, axis.symbol, d.symbol)
            if matrix is not None:
                return self._described(matrix, axis, shape[axes.index(None)], axes[0] is None)
        kept = body.axes, body.env, body.values, body.zero_beyond
        body.axes, body.env, body.values, body.zero_beyond = [], dict(body.env), {}, True
        beyond: SSAValue | None = None
        for axis, size in zip(axes, shape, strict=True):
            if axis is not None:
                place = kept[1][axis.symbol]
                body.add_axis(self._dim(axis), place.base, size, axis.end, place.multiple)
                continue
            end = None if multiple_of(d.extent, size) else Index(b, body.env).scalar(d.hi)
            body.add_axis(d, self.start, size, end, size if d.lo == 0 else 1)
            beyond = body.axes[-1].valid
        result = b.fit(self._value(value), shape)
        if beyond is not None and not _is_zero_beyond(value):
            result = b.select(b.fit(beyond, shape), result, b.constant(0, element_of(result.type)))
        body.axes, body.env, body.values, body.zero_beyond = kept
        return result

    def _described(self, matrix: StoredMatrix, axis: Axis, depth: int, depth_first: bool) -> SSAValue:
        """A tile that the tensor memory accelerator copies; beyond the end it gives zeros."""
        body, b, index = self.body, self.b, Index(self.b, self.body.env)
        base = index.pointer(body.buffers[matrix.load.source], matrix.type, matrix.first)
        ends = [index.scalar(self._dim(axis).hi), index.scalar(self.depth.hi)]
        starts, sizes = [body.env[axis.symbol].base, self.start], [axis.size, depth]
        if not matrix.depth_last:
            ends, starts, sizes = ends[::-1], starts[::-1], sizes[::-1]
        strides = [index.ssa(index.scalar(matrix.stride), i64), b.constant(1, i64)]
        block = TensorType(matrix.type.element, sizes)
        operands = [base, *(index.ssa(n, i32) for n in ends), *strides]
        descriptor = b.pure(tt.MakeTensorDescriptorOp, operands, tt.TensorDescType(block), {"padding": PADDING["zero"]})
        key = (tt.DescriptorLoadOp, descriptor, *(index.ssa(n, i32) for n in starts))
        found = b.recall(key)
        if found is None:
            found = b.insert(tt.DescriptorLoadOp.make(descriptor, key[2:])).results[0]
            b.remember(key, found)
        return found if depth_first != matrix.depth_last else b.reorder(found, (1, 0), 2)

    def _dim(self, axis: Axis) -> LoopDim:
        around: Any = self.op.parent_op()
        while around is not None:
            dims = around.grid if isinstance(around, KernelOp) else around.dims
            for d in dims:
                if d.symbol == axis.symbol:
                    return d
            around = around.parent_op()
        raise KernelError(f"{axis.symbol} is no dim here")

    def _value(self, v: SSAValue) -> SSAValue:
        """The value on the axes of a factor, with all that it is made of."""
        body = self.body
        if v not in body.values:
            op = v.owner
            if not isinstance(op, Operation) or op.regions:
                raise KernelError("a factor of a product is the result of a loop")
            for operand in op.operands:
                if operand not in body.buffers:
                    self._value(operand)
            body.op(op)
        return body.values[v]


def _is_zero_beyond(v: SSAValue) -> bool:
    """Whether the value is zero where its loads read nothing."""
    op = v.owner
    if isinstance(op, LoadOp):
        return (op.mask is None and op.ok is None) or op.other is None or cast(Any, op.other).value.data == 0
    return isinstance(op, (*_EXACT, arith.TruncFOp, arith.SIToFPOp)) and _is_zero_beyond(op.operands[0])
