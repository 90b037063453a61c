"""Symbolic index expressions at a tile of points: a scalar part and one that differs between lanes.

Every number knows how large it can become. Sums and products are in i32 while that is enough, and in i64 from there on:
the offset of a tile in a large buffer is one scalar in i64, those of its elements stay in i32.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import gcd
from typing import Any, TypeAlias, cast

import sympy
from xdsl.dialects import arith, math
from xdsl.dialects.builtin import IntegerType, f64, i1, i32, i64
from xdsl.ir import Operation, SSAValue

from ..dialects import expr, tt
from ..dialects.expr import Dim
from ..dialects.tensor import TensorType
from ..dialects.tt_types import element_of, shape_of, tensor
from .address import functions_of
from .llvm_properties import KernelError
from .size_code import root_of
from .tt_builder import TtBuilder

MOST = 2**31 - 1
"""The largest number of an i32."""


@dataclass(frozen=True, slots=True)
class Number:
    """An integer, known or in an i32 or i64, between `-bound` and `bound`, and a multiple of `multiple`."""

    value: int | SSAValue
    bound: int
    multiple: int = 1

    @property
    def is_zero(self) -> bool:
        return isinstance(self.value, int) and self.value == 0


@dataclass(frozen=True, slots=True)
class Place:
    """An index at a tile: `base` for all lanes, and `lane` on top of it (None: 0).

    `multiple`: `base` is a multiple of it, and `lane` is below it.
    """

    base: Number
    lane: Number | None = None
    multiple: int = 1


Env: TypeAlias = Mapping[sympy.Symbol, Place]
"""What each symbol of index expressions is."""


def known(n: int) -> Number:
    return Number(n, abs(n), abs(n) or 1 << 31)


def _divisor(n: Number) -> Number:
    """A divisor that is 0 is the size of a domain without points, where nothing is divided."""
    return known(1) if n.is_zero else n


class Index:
    """Evaluates index expressions where `env` says what their symbols are."""

    def __init__(self, b: TtBuilder, env: Env) -> None:
        self.b, self.env = b, env

    # Numbers

    def ssa(self, n: Number, type: IntegerType | None = None) -> SSAValue:
        """A number as a value, by itself in i32 if it fits."""
        if isinstance(n.value, int):
            return self.b.constant(n.value, type or (i32 if n.bound <= MOST else i64))
        return n.value if type is None else self.b.resize(n.value, type)

    def _type(self, numbers: Sequence[Number], bound: int) -> IntegerType:
        wide = bound > MOST or any(not isinstance(n.value, int) and element_of(n.value.type) == i64 for n in numbers)
        return i64 if wide else i32

    def _binary(self, cls: type[Operation], x: Number, y: Number, bound: int) -> Number:
        type = self._type((x, y), max(bound, x.bound, y.bound))
        return Number(self.b.integer(cls, self.ssa(x, type), self.ssa(y, type)), bound)

    def add(self, x: Number, y: Number) -> Number:
        if isinstance(x.value, int) and isinstance(y.value, int):
            return known(x.value + y.value)
        if x.is_zero or y.is_zero:
            return y if x.is_zero else x
        total = self._binary(arith.AddiOp, x, y, x.bound + y.bound)
        return Number(total.value, total.bound, gcd(x.multiple, y.multiple))

    def subtract(self, x: Number, y: Number) -> Number:
        if isinstance(y.value, int):
            return self.add(x, known(-y.value))
        rest = self._binary(arith.SubiOp, x, y, x.bound + y.bound)
        return Number(rest.value, rest.bound, gcd(x.multiple, y.multiple))

    def multiply(self, x: Number, y: Number) -> Number:
        if isinstance(x.value, int):
            x, y = y, x
        if isinstance(y.value, int):
            if isinstance(x.value, int):
                return known(x.value * y.value)
            if y.value in (0, 1):
                return x if y.value else known(0)
        product = self._binary(arith.MuliOp, x, y, x.bound * y.bound)
        return Number(product.value, product.bound, min(x.multiple * y.multiple, 1 << 31))

    def divide(self, x: Number, y: Number, nonnegative: bool = True) -> Number:
        """floor(x / y), y > 0."""
        y = _divisor(y)
        if isinstance(x.value, int) and isinstance(y.value, int):
            return known(x.value // y.value)
        if isinstance(y.value, int):
            if y.value == 1:
                return x
            return self._binary(arith.DivSIOp if nonnegative else arith.FloorDivSIOp, x, y, x.bound // y.value + 1)
        return self._binary(arith.DivSIOp if nonnegative else arith.FloorDivSIOp, x, y, x.bound)

    def remainder(self, x: Number, y: Number, nonnegative: bool = True) -> Number:
        """x - y * floor(x / y), y > 0."""
        y = _divisor(y)
        if isinstance(x.value, int) and isinstance(y.value, int):
            return known(x.value % y.value)
        if nonnegative:
            return self._binary(arith.RemSIOp, x, y, min(x.bound, y.bound))
        whole = self.multiply(self.divide(x, y, False), y)
        return Number(self.subtract(x, whole).value, y.bound)

    def extreme(self, cls: type[Operation], x: Number, y: Number) -> Number:
        if isinstance(x.value, int) and isinstance(y.value, int):
            return known(max(x.value, y.value) if cls is arith.MaxSIOp else min(x.value, y.value))
        return self._binary(cls, x, y, max(x.bound, y.bound))

    # Expressions

    def full(self, e: Dim) -> Number:
        """`e` in every lane, a scalar where all agree."""
        base, lane = self.split(e)
        return base if lane is None else self.add(base, lane)

    def scalar(self, e: Dim) -> Number:
        """`e`, which does not differ between lanes."""
        base, lane = self.split(e)
        if lane is not None:
            raise KernelError(f"{expr.text(e)} differs within a tile")
        return base

    def split(self, e: Dim) -> tuple[Number, Number | None]:
        """The scalar part of `e`, and what lanes add to it."""
        if isinstance(e, (int, sympy.Integer)):
            return known(int(e)), None
        if isinstance(e, sympy.Symbol):
            place = self.env[e]
            return place.base, place.lane
        if isinstance(e, sympy.Add):
            # scalars first: they are summed outside of loops where they can be
            parts = [self.split(cast(Dim, a)) for a in e.args]
            base, lane = known(0), None
            for b, _ in sorted(parts, key=lambda p: isinstance(p[0].value, int)):
                base = self.add(base, b)
            for _, more in parts:
                lane = more if lane is None else lane if more is None else self.add(lane, more)
            return base, lane
        if isinstance(e, sympy.Mul):
            return self._product([self.split(cast(Dim, a)) for a in e.args])
        if isinstance(e, sympy.Pow) and isinstance(e.exp, sympy.Integer) and e.exp > 0:
            return self._product([self.split(cast(Dim, e.base))] * int(e.exp))
        name, args = functions_of(e)
        if name not in _FUNCTIONS:
            raise KernelError(f"no code for the index expression {expr.text(e)}")
        kept = self._kept(name, args)
        if kept is not None:
            return kept
        value = _FUNCTIONS[name](self, args)
        return (known(0), value) if not isinstance(value.value, int) and shape_of(value.value.type) else (value, None)

    def _product(self, parts: Sequence[tuple[Number, Number | None]]) -> tuple[Number, Number | None]:
        base, lane = parts[0]
        for b, more in parts[1:]:
            if lane is not None and more is not None:
                base, lane = known(0), self.multiply(self.add(base, lane), self.add(b, more))
            elif more is not None:
                base, lane = self.multiply(base, b), self.multiply(base, more)
            else:
                base, lane = self.multiply(base, b), None if lane is None else self.multiply(lane, b)
        return base, lane

    def _kept(self, name: str, args: tuple[Any, ...]) -> tuple[Number, Number | None] | None:
        """floordiv and mod of a dim by a multiple of its tile: no lane passes a multiple of the divisor."""
        place = self.env.get(args[0]) if isinstance(args[0], sympy.Symbol) else None
        if place is None or place.lane is None or name not in ("floordiv", "mod"):
            return None
        if not isinstance(args[1], sympy.Integer) or place.multiple == 1 or int(args[1]) % place.multiple:
            return None
        divisor = known(int(args[1]))
        if name == "floordiv":
            return self.divide(place.base, divisor), None
        return self.remainder(place.base, divisor), place.lane

    # Relations

    def conjunction(self, relations: Sequence[Any]) -> SSAValue | None:
        """All of some relations, as i1; None for none."""
        result: SSAValue | None = None
        for r in relations:
            fixed = self.fixed(r)
            if fixed is not sympy.true:
                result = self.b.both(result, self.relation(fixed))
        return result

    def fixed(self, r: Any) -> Any:
        """A relation or an index with the numbers that are known here in it."""
        places = {s: self.env.get(s) for s in expr.symbols(r)}
        numbers = {s: p.base.value for s, p in places.items() if p is not None and p.lane is None}
        return expr.substitute(r, {s: n for s, n in numbers.items() if isinstance(n, int)})

    def relation(self, r: Any) -> SSAValue:
        """A relation, or an and, or, not of some, as i1."""
        b = self.b
        if isinstance(r, sympy.logic.boolalg.BooleanAtom):
            return b.constant(int(bool(r)), i1)
        name, args = functions_of(r)
        if name in ("and", "or"):
            result = self.relation(args[0])
            for a in args[1:]:
                result = b.integer(arith.AndIOp if name == "and" else arith.OrIOp, result, self.relation(a))
            return result
        if name == "not":
            return b.invert(self.relation(args[0]))
        return self.compare(name, *(self.split(expr.normal(a)) for a in args))

    def compare(self, name: str, x: tuple[Number, Number | None], y: tuple[Number, Number | None]) -> SSAValue:
        """`x <name> y` of two split numbers."""
        (x_base, x_lane), (y_base, y_lane) = x, y
        left = x_base if x_lane is None else self.add(x_base, x_lane)
        right = y_base if y_lane is None else self.add(y_base, y_lane)
        wide = max(left.bound, right.bound) > MOST
        if wide and (x_lane is None) != (y_lane is None):
            # lane <name> right - base: the difference, cut to where lanes are, is in i32
            lane, gap = (x_lane, self.subtract(y_base, x_base)) if y_lane is None else (
                y_lane, self.subtract(x_base, y_base))  # fmt: skip
            assert lane is not None
            if lane.bound < MOST:
                limit = self._cut(gap, lane.bound + 1)
                predicate = _INTEGER[name if y_lane is None else _SWAPPED[name]]
                return self.b.compare(predicate, self.ssa(lane, i32), limit)
        type = self._type((left, right), max(left.bound, right.bound))
        return self.b.compare(_INTEGER[name], self.ssa(left, type), self.ssa(right, type))

    def _cut(self, n: Number, most: int) -> SSAValue:
        """A scalar, taken to the range from -most to most, in i32."""
        b, value = self.b, self.ssa(n, i64)
        for predicate, limit in (("slt", most), ("sgt", -most)):
            end = b.constant(limit, i64)
            value = b.select(b.compare(predicate, value, end), value, end)
        value = b.resize(value, i32)
        step = gcd(n.multiple, most)
        if step % 16:
            return value
        # Triton does not see through the selects that a multiple stays one
        size = b.constant(step, i32)
        return b.integer(arith.MuliOp, b.integer(arith.DivSIOp, value, size), size)

    # Addresses

    def pointer(self, buffer: SSAValue, type: TensorType, index: Sequence[Dim]) -> SSAValue:
        """The address of an element per lane, a scalar where all read the same."""
        base, lane, last = known(0), None, known(0)
        for e, stride in zip(index, type.strides, strict=True):
            b, more, constant = self._terms(e)
            step = self.scalar(stride)
            base = self.add(base, self.multiply(b, step))
            last = self.add(last, self.multiply(constant, step))
            if more is not None:
                more = self.multiply(more, step)
                lane = more if lane is None else self.add(lane, more)
        late = isinstance(last.value, int) and last.bound <= MOST and lane is not None and not lane.is_zero
        if not late or isinstance(base.value, int):
            base, last = self.add(base, last), known(0)
        pointer = buffer if base.is_zero else self.b.elementwise(tt.AddPtrOp, self._first(buffer, base), buffer.type)
        if lane is None or lane.is_zero:
            return pointer
        offsets = self.ssa(lane)
        shape = shape_of(offsets.type)
        pointer = self.b.pure(tt.AddPtrOp, (self.b.fit(pointer, shape), offsets), tensor(buffer.type, shape))
        # addresses that are a known number apart are one in a register, the numbers are in the instructions
        return pointer if last.is_zero else self.b.elementwise(tt.AddPtrOp, (pointer, self.ssa(last)), buffer.type)

    def _terms(self, e: Dim) -> tuple[Number, Number | None, Number]:
        """The scalar part of `e` without what is known of it, what lanes add, and what is known."""
        base, lane, constant = known(0), None, known(0)
        for term in e.args if isinstance(e, sympy.Add) else (e,):
            b, more = self.split(term)
            if isinstance(b.value, int):
                constant = self.add(constant, b)
            else:
                base = self.add(base, b)
            lane = more if lane is None else lane if more is None else self.add(lane, more)
        return base, lane, constant

    def _first(self, buffer: SSAValue, base: Number) -> tuple[SSAValue, SSAValue]:
        return buffer, self.ssa(base)


def _divmod(build: Callable[[Index, Number, Number, bool], Number]) -> Callable[[Index, tuple[Any, ...]], Number]:
    def evaluate(index: Index, args: tuple[Any, ...]) -> Number:
        x, y = (index.full(expr.normal(a)) for a in args)
        return build(index, x, y, args[0].is_nonnegative is True)

    return evaluate


def _modular(index: Index, args: tuple[Any, ...]) -> Number:
    """floor(x / d) mod m."""
    x, d, m = (index.full(expr.normal(a)) for a in args)
    nonnegative = args[0].is_nonnegative is True
    return index.remainder(index.divide(x, d, nonnegative), m, nonnegative)


def _extreme(cls: type[Operation]) -> Callable[[Index, tuple[Any, ...]], Number]:
    def evaluate(index: Index, args: tuple[Any, ...]) -> Number:
        result, *rest = (index.full(expr.normal(a)) for a in args)
        for value in rest:
            result = index.extreme(cls, result, value)
        return result

    return evaluate


def _rounded(cls: type[Operation] | None) -> Callable[[Index, tuple[Any, ...]], Number]:
    """A size that is a real number, by an op or towards 0, as an integer."""

    def evaluate(index: Index, args: tuple[Any, ...]) -> Number:
        x = _real(index, args[0])
        whole = x if cls is None else index.b.float(cls, x)
        return Number(index.b.cast(arith.FPToSIOp, whole, i64), MOST)

    return evaluate


def _real(index: Index, e: Any) -> SSAValue:
    """The value of a product of numbers, sizes, quotients of sizes and square roots, as a scalar f64."""
    b = index.b
    if e.is_number:
        return b.constant(float(e), f64)
    if (square := root_of(e)) is not None:
        return b.float(math.SqrtOp, _real(index, square))
    if isinstance(e, sympy.Mul):
        first, *rest = (_real(index, a) for a in e.args)
        for factor in rest:
            first = b.float(arith.MulfOp, first, factor)
        return first
    match type(e).__name__:
        case "ToFloat":
            return _real(index, e.args[0])
        case "IntTrueDiv":
            return b.float(arith.DivfOp, *(_real(index, a) for a in e.args))
        case _:
            return b.cast(arith.SIToFPOp, index.ssa(index.scalar(e), i64), f64)


_FUNCTIONS: dict[str, Callable[[Index, tuple[Any, ...]], Number]] = {
    "TruncToInt": _rounded(None),
    "FloorToInt": _rounded(math.FloorOp),
    "CeilToInt": _rounded(math.CeilOp),
    "floordiv": _divmod(Index.divide),
    "CleanDiv": _divmod(Index.divide),
    "mod": _divmod(Index.remainder),
    "modular_indexing": _modular,
    "max": _extreme(arith.MaxSIOp),
    "min": _extreme(arith.MinSIOp),
}

_INTEGER = {"lt": "slt", "le": "sle", "gt": "sgt", "ge": "sge", "eq": "eq", "ne": "ne"}
_SWAPPED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le", "eq": "eq", "ne": "ne"}
