"""Building prims with operators on values: `x * (1 + (-x).exp()).reciprocal()`.

A `Value` is an SSA value and the builder that appends ops. Operands of one operator are broadcast against each other
and must have one dtype; a number takes the dtype of the value beside it. Nothing else is implicit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, cast

import sympy
from xdsl.dialects.builtin import LocationAttr
from xdsl.ir import Operation, SSAValue

from ..dialects import expr, prims
from ..dialects.expr import Dim
from ..dialects.prims import Number, PrimsOp, Scalar
from ..dialects.tensor import HALVES, TensorType, is_float, is_integer
from .numbers import number_as
from .promotion import opmath
from .sizes import SizeHints
from .storage import overlaps

Operand: TypeAlias = "Value | Number"


class Builder(SizeHints):
    """Appends prims to `ops`, all at `location`. Constants are made once."""

    __slots__ = ("_constants", "floats", "halves", "location", "ops", "rounds")

    def __init__(self, hints: Mapping[str, int] | None = None, halves: bool = False, rounds: bool = False) -> None:
        super().__init__(hints or {})
        self.halves = halves
        """Whether GPUs add f16 and bf16 in memory at once."""
        self.rounds = rounds
        """Whether f16 and bf16 are rounded where eager does, and nowhere else."""
        self.ops: list[Operation] = []
        self.location: LocationAttr | None = None
        self.floats: dict[tuple[sympy.Symbol, str], Value] = {}
        """The tensors of one element that floats are read from, by the devices that they are on."""
        self._constants: dict[tuple[Scalar, TensorType], Value] = {}

    def add(self, op: PrimsOp) -> Value:
        """Append an op; its first result. What is made has a place for each element, also where an operand has not."""
        made = cast(TensorType, op.results[0].type)
        if overlaps(made) and not isinstance(op, prims.ALIASING):
            op.results[0]._type = made.with_(shape=made.shape)  # pyright: ignore[reportPrivateUsage]
        if self.location is not None:
            op.location = self.location
        self.ops.append(op)
        return Value(self, op.results[0])

    @property
    def constants(self) -> int:
        """How many constants there are: `rewind` takes it."""
        return len(self._constants)

    def rewind(self, ops: int, constants: int) -> None:
        """Drop all that was appended after there were so many ops and constants."""
        while len(self.ops) > ops:
            self.ops.pop().erase()
        while len(self._constants) > constants:
            self._constants.popitem()

    def full(self, value: Number, type: TensorType) -> Value:
        """A tensor of one number, converted to the dtype as C does. The layout of `type` does not matter."""
        constant = Scalar.get(number_as(value, type.dtype))
        key = (constant, type)
        known = self._constants.get(key)
        if known is None:
            known = self._constants[key] = self.add(prims.FullOp.make(constant, type))
        return known

    def iota(self, dim: int, type: TensorType) -> Value:
        """The index along `dim`."""
        return self.add(prims.IotaOp.make(dim, type))

    def cat(self, values: Sequence[Value], dim: int, type: TensorType) -> Value:
        """Values one after the other; `type` is the result's."""
        return self.add(prims.CatOp.make([v.ssa for v in values], dim, type))


class Value:
    """An SSA value of tensor type with operators. Immutable."""

    __slots__ = ("b", "ssa", "type")

    def __init__(self, b: Builder, ssa: SSAValue) -> None:
        self.b = b
        self.ssa = ssa
        self.type = cast(TensorType, ssa.type)

    @property
    def shape(self) -> tuple[Dim, ...]:
        return self.type.shape

    @property
    def rank(self) -> int:
        return len(self.type.shape)

    @property
    def dtype(self) -> str:
        return self.type.dtype

    @property
    def is_float(self) -> bool:
        return is_float(self.type.dtype)

    @property
    def is_bool(self) -> bool:
        return self.type.dtype == "i1"

    @property
    def is_integer(self) -> bool:
        """Integers without bool."""
        return is_integer(self.type.dtype)

    def full(self, value: Value | Number) -> Value:
        """`value` everywhere, of this type. A number that the program reads from data is a value of rank 0."""
        if isinstance(value, Value):
            return value.to(self.dtype).expand(self.type.shape)
        return self.b.full(value, self.type)

    # Conversion

    def to(self, dtype: str, *, rounding: bool = False) -> Value:
        """The value in another dtype; itself where it has that dtype."""
        if dtype == self.dtype:
            return self
        t = self.type.with_(dtype=dtype)
        return self.b.add(prims.ConvertOp.make(self.ssa, t, rounding=rounding and dtype in HALVES))

    def opmath(self) -> Value:
        """The value in the dtype that eager computes in."""
        return self.to(opmath(self.dtype))

    def copy(self, type: TensorType) -> Value:
        """A new tensor with the same elements, in the dtype and layout of `type`."""
        return self.b.add(prims.ConvertOp.make(self.ssa, type))

    def bitcast(self, type: TensorType) -> Value:
        return self.b.add(prims.BitcastOp.make(self.ssa, type))

    # Shape

    def broadcast(self, shape: Sequence[Dim], dims: Sequence[int], type: TensorType | None = None) -> Value:
        """Dim k becomes dim `dims[k]` of a tensor of `shape`."""
        t = type or TensorType.get(shape, self.dtype, None, self.type.device)
        return self.b.add(prims.BroadcastOp.make(self.ssa, dims, t))

    def expand(self, shape: Sequence[Dim]) -> Value:
        """Broadcast as torch does: dims are aligned at the right. Itself where it has that shape."""
        shape = tuple(shape)
        own = self.type.shape
        if own == shape:
            return self
        lead = len(shape) - len(own)
        targets = shape[lead:]
        for dim, (size, target) in enumerate(zip(own, targets, strict=True)):
            if not isinstance(size, int) and size != target and self.b.is_one(size) and not self.b.is_one(target):
                return self.slice(dim, 0, 1).expand(shape)
        fitted = tuple(size if size == 1 else target for size, target in zip(own, targets, strict=True))
        if fitted == shape:
            return self.reshape(shape)
        source = self if fitted == own else self.reshape(fitted)
        return source.broadcast(shape, range(lead, len(shape)))

    def reshape(self, shape: Sequence[Dim], type: TensorType | None = None) -> Value:
        """The same elements in another shape. Itself where it has that shape and type."""
        shape = tuple(shape)
        if self.type.shape == shape and (type is None or type == self.type):
            return self
        t = type or TensorType.get(shape, self.dtype, None, self.type.device)
        return self.b.add(prims.ReshapeOp.make(self.ssa, t))

    def unsqueeze(self, *dims: int) -> Value:
        """New dims of size 1 at these positions of the result."""
        rank = self.rank + len(dims)
        kept = [d for d in range(rank) if d not in dims]
        sizes = iter(self.shape)
        return self.broadcast([1 if d in dims else next(sizes) for d in range(rank)], kept)

    def transpose(self, perm: Sequence[int], type: TensorType | None = None) -> Value:
        t = type or TensorType.get([self.shape[p] for p in perm], self.dtype, None, self.type.device)
        return self.b.add(prims.TransposeOp.make(self.ssa, perm, t))

    def slice(self, dim: int, start: Dim, size: Dim, step: Dim = 1, type: TensorType | None = None) -> Value:
        """`size` elements along `dim`: start, start + step, …"""
        starts: list[Dim] = [0] * self.rank
        stops = list(self.shape)
        steps: list[Dim] = [1] * self.rank
        starts[dim], steps[dim] = start, step
        stops[dim] = start if size == 0 else expr.normal(cast(Any, start) + (cast(Any, size) - 1) * step + 1)
        shape = [*self.shape[:dim], size, *self.shape[dim + 1 :]]
        t = type or TensorType.get(shape, self.dtype, None, self.type.device)
        return self.b.add(prims.SliceOp.make(self.ssa, starts, stops, steps, t))

    def flip(self, dims: Sequence[int], type: TensorType | None = None) -> Value:
        return self.b.add(prims.FlipOp.make(self.ssa, dims, type or self.type.with_(shape=self.shape)))

    def pad(self, low: Sequence[Dim], high: Sequence[Dim], value: Number, type: TensorType | None = None) -> Value:
        shape = [expr.normal(cast(Any, a) + n + b) for a, n, b in zip(low, self.shape, high, strict=True)]
        t = type or TensorType.get(shape, self.dtype, None, self.type.device)
        return self.b.add(prims.PadOp.make(self.ssa, low, high, number_as(value, self.dtype), t))

    # Indexing

    def gather(
        self, indices: Sequence[Value], index: Sequence[Any], type: TensorType, message: str | None = None
    ) -> Value:
        """Elements at `index`, expressions over dims `d<k>` and `indices` `i<k>`, which have the result's shape."""
        return self.b.add(prims.GatherOp.make(self.ssa, [i.ssa for i in indices], index, type, message))

    def subview(self, index: Sequence[Any], type: TensorType) -> Value:
        """Elements at `index`, expressions over dims `d<k>`, in the memory of this value."""
        return self.b.add(prims.SubviewOp.make(self.ssa, index, type))

    def scatter(
        self,
        indices: Sequence[Value],
        source: Value,
        index: Sequence[Any],
        combine: str = "none",
        message: str | None = None,
    ) -> Value:
        """This value with the elements of `source` written at `index`."""
        ssa = [i.ssa for i in indices]
        return self.b.add(prims.ScatterOp.make(self.ssa, ssa, source.ssa, index, combine, message))

    # Reduction

    def reduce(self, kind: str, dims: Sequence[int], *, keepdim: bool = False) -> Value:
        """Combine over `dims`, each in 0..rank-1."""
        gone = frozenset(dims)
        kept = [d for d in range(self.rank) if d not in gone]
        shape = [self.shape[d] for d in kept]
        dtype = "i64" if kind.startswith("arg") else self.dtype
        t = TensorType.get(shape, dtype, None, self.type.device)
        result = self.b.add(prims.ReduceOp.make(self.ssa, kind, sorted(gone), t))
        return result.keep(self, kept) if keepdim else result

    def keep(self, operand: Value, kept: Sequence[int]) -> Value:
        """A reduction of `operand` to its dims `kept`, with size 1 in place of the others."""
        if len(kept) == operand.rank:
            return self
        return self.broadcast([operand.shape[d] if d in kept else 1 for d in range(operand.rank)], kept)

    def var_mean(self, dims: Sequence[int], *, keepdim: bool = False) -> tuple[Value, Value]:
        """Biased variance and mean over `dims`."""
        gone = frozenset(dims)
        kept = [d for d in range(self.rank) if d not in gone]
        t = TensorType.get([self.shape[d] for d in kept], self.dtype, None, self.type.device)
        mean = self.b.add(op := prims.VarMeanOp.make(self.ssa, sorted(gone), t))
        variance = Value(self.b, op.results[1])
        return (variance.keep(self, kept), mean.keep(self, kept)) if keepdim else (variance, mean)

    def count(self, dims: Sequence[int]) -> Dim:
        """How many elements a reduction over `dims` combines."""
        return expr.product(self.shape[d] for d in dims)

    def dot(self, matrix: Value, dtype: str | None = None) -> Value:
        """self @ matrix; products and sum in `dtype`, which is that of computation where it is left out."""
        t = TensorType.get((*self.shape[:-1], matrix.shape[-1]), dtype or opmath(self.dtype), None, self.type.device)
        # the sizes are equal, perhaps in other words
        matrix = matrix.reshape([*self.shape[:-2], self.shape[-1], matrix.shape[-1]])
        return self.b.add(prims.DotOp.make(self.ssa, matrix.ssa, t))

    def scan(self, kind: str, dim: int) -> Value:
        return self.b.add(prims.ScanOp.make(self.ssa, kind, dim))

    def sort(self, dim: int, count: Dim) -> Value:
        """The first `count` places of the order of this i32 or i64 along `dim`."""
        shape = [count if d == dim else n for d, n in enumerate(self.shape)]
        t = TensorType.get(shape, self.dtype, None, self.type.device)
        return self.b.add(prims.SortOp.make(self.ssa, dim, t))

    # Elementwise

    def unary(self, op: Callable[[SSAValue], PrimsOp]) -> Value:
        return self.b.add(op(self.ssa))

    def align(self, other: Operand) -> tuple[Value, Value]:
        """This value and the other, broadcast against each other."""
        if not isinstance(other, Value):
            return self, self.full(other)
        assert other.dtype == self.dtype, f"operands of {self.dtype} and {other.dtype}"
        if other.type.shape == self.type.shape:
            return self, other
        shape = self.b.broadcast_shapes(self.shape, other.shape)
        return self.expand(shape), other.expand(shape)

    def binary(self, op: Callable[[SSAValue, SSAValue], PrimsOp], other: Operand) -> Value:
        lhs, rhs = self.align(other)
        return self.b.add(op(lhs.ssa, rhs.ssa))

    def reversed_binary(self, op: Callable[[SSAValue, SSAValue], PrimsOp], other: Number) -> Value:
        return self.b.add(op(self.full(other).ssa, self.ssa))

    def __add__(self, other: Operand) -> Value:
        return self.binary(prims.OrOp.make if self.is_bool else prims.AddOp.make, other)

    def __radd__(self, other: Number) -> Value:
        return self + other

    def __sub__(self, other: Operand) -> Value:
        return self.binary(prims.SubOp.make, other)

    def __rsub__(self, other: Number) -> Value:
        return self.reversed_binary(prims.SubOp.make, other)

    def __mul__(self, other: Operand) -> Value:
        return self.binary(prims.AndOp.make if self.is_bool else prims.MulOp.make, other)

    def __rmul__(self, other: Number) -> Value:
        return self * other

    def __truediv__(self, other: Operand) -> Value:
        return self.binary(prims.DivOp.make, other)

    def __rtruediv__(self, other: Number) -> Value:
        return self.reversed_binary(prims.DivOp.make, other)

    def __neg__(self) -> Value:
        return self.unary(prims.NegOp.make)

    def __and__(self, other: Operand) -> Value:
        return self.binary(prims.AndOp.make, other)

    def __or__(self, other: Operand) -> Value:
        return self.binary(prims.OrOp.make, other)

    def __xor__(self, other: Operand) -> Value:
        return self.binary(prims.XorOp.make, other)

    def __invert__(self) -> Value:
        return self.unary(prims.NotOp.make)

    def __lt__(self, other: Operand) -> Value:
        return self.binary(prims.LtOp.make, other)

    def __le__(self, other: Operand) -> Value:
        return self.binary(prims.LeOp.make, other)

    def __gt__(self, other: Operand) -> Value:
        return self.binary(prims.GtOp.make, other)

    def __ge__(self, other: Operand) -> Value:
        return self.binary(prims.GeOp.make, other)

    # `==` stays identity, so that values can be compared and be keys
    def eq(self, other: Operand) -> Value:
        return self.binary(prims.EqOp.make, other)

    def ne(self, other: Operand) -> Value:
        return self.binary(prims.NeOp.make, other)

    def maximum(self, other: Operand) -> Value:
        return self.binary(prims.MaximumOp.make, other)

    def minimum(self, other: Operand) -> Value:
        return self.binary(prims.MinimumOp.make, other)

    def abs(self) -> Value:
        return self.unary(prims.AbsOp.make)

    def exp(self) -> Value:
        return self.unary(prims.ExpOp.make)

    def log(self) -> Value:
        return self.unary(prims.LogOp.make)

    def log1p(self) -> Value:
        return self.unary(prims.Log1pOp.make)

    def sqrt(self) -> Value:
        return self.unary(prims.SqrtOp.make)

    def rsqrt(self) -> Value:
        return self.unary(prims.RsqrtOp.make)

    def reciprocal(self) -> Value:
        return self.unary(prims.ReciprocalOp.make)

    def tanh(self) -> Value:
        return self.unary(prims.TanhOp.make)

    def erf(self) -> Value:
        return self.unary(prims.ErfOp.make)

    def floor(self) -> Value:
        return self.unary(prims.FloorOp.make)

    def trunc(self) -> Value:
        return self.unary(prims.TruncOp.make)

    def checked(self, condition: Value, message: str) -> Value:
        """This value; raises what the message says where the condition does not hold."""
        return self.b.add(prims.CheckedOp.make(condition.expand(self.shape).ssa, self.ssa, message))

    def isnan(self) -> Value:
        return self.unary(prims.IsnanOp.make)

    def isinf(self) -> Value:
        return self.unary(prims.IsinfOp.make)

    def fma(self, factor: Operand, term: Value) -> Value:
        """self * factor + term, rounded once."""
        a, b = self.align(factor)
        return self.b.add(prims.FmaOp.make(a.ssa, b.ssa, term.ssa))

    def sigmoid(self) -> Value:
        """1 / (1 + e^-x)."""
        return 1.0 / (1.0 + (-self).exp())

    def where(self, on_true: Operand, on_false: Operand) -> Value:
        """This truth value's choice; one of the others must be a value."""
        if not isinstance(on_true, Value):
            assert isinstance(on_false, Value)
            on_true, on_false = reversed(on_false.align(on_true))
        else:
            on_true, on_false = on_true.align(on_false)
        shape = self.b.broadcast_shapes(self.shape, on_true.shape)
        condition, a, b = (v.expand(shape) for v in (self, on_true, on_false))
        return self.b.add(prims.SelectOp.make(condition.ssa, a.ssa, b.ssa))
