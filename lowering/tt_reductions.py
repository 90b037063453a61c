"""How reductions go over tiles: what each kind carries, how two of these become one, and what comes out at the end.

A loop carries one state per lane; at its end the lanes are combined by `tt.reduce`. The same `combine` does both, on
tiles and on scalars. The order is fixed by the tile sizes, so a run gives the same bits as the next.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import IntegerType, i1, i32, i64
from xdsl.ir import Attribute, SSAValue

from ..dialects import tt
from ..dialects.tt_types import element_of, shape_of
from . import tt_math, tt_rounded
from .llvm_properties import KernelError
from .tt_builder import Shape, TtBuilder
from .tt_scalar import same

State = list[SSAValue]


class Reduction(Protocol):
    """One kind for one element type."""

    size: int
    """Values of a state."""
    folds: bool
    """Whether it can `fold`."""
    counts: bool
    """Whether the last value of a state is how many points it has."""

    def identity(self) -> State:
        """Scalars that change nothing."""
        ...

    def state(self, value: SSAValue, position: Callable[[], SSAValue]) -> State:
        """The state of one value at its position in the reduce domain."""
        ...

    def combine(self, a: Sequence[SSAValue], b: Sequence[SSAValue]) -> State:
        """Two states as one; in any order."""
        ...

    def join(self, state: Sequence[SSAValue], new: Sequence[SSAValue]) -> State:
        """A state with that of a later point."""
        ...

    def join_all(self, state: Sequence[SSAValue], new: Sequence[SSAValue], valid: SSAValue | None) -> State:
        """A state with that of a later point in all lanes, or where `valid` says so, with one count for many lanes."""
        ...

    def fold(self, state: Sequence[SSAValue], new: Sequence[SSAValue]) -> State:
        """A state with those of later points, of which the last axis has a multiple of its lanes."""
        ...

    def lanes(self, state: State) -> State:
        """A state whose last dim is combined into one."""
        ...

    def results(self, state: State) -> list[SSAValue]:
        """What the reduction yields."""
        ...


def make(b: TtBuilder, kind: str, type: Attribute, positions: IntegerType, rounded: bool = False) -> Reduction:
    """The reduction of a kind on f32, f64 or integers; `positions`: the type of positions in its domain. `rounded`:
    its results may be a few units off.
    """
    if kind in ("argmax", "argmin"):
        return _Best(b, kind, type, positions)
    if kind == "welford":
        return _Welford(b, type)
    if kind == "expsum":
        return _ExpSum(b, type, rounded)
    return _Fold(b, kind, type)


def identity(b: TtBuilder, kind: str, type: Attribute) -> SSAValue:
    """The value that changes nothing. Integers are signed, but for bool, where max is or and min is and."""
    if isinstance(type, IntegerType):
        bits = type.width.data
        least, most = (0, 1) if bits == 1 else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
        table: dict[str, float | int] = {"add": 0, "mul": 1, "max": least, "min": most, "and": -1, "or": 0, "xor": 0}
    else:
        infinity = float("inf")
        table = {"add": 0.0, "mul": 1.0, "max": -infinity, "min": infinity, "logaddexp": -infinity}
    if kind not in table:
        raise KernelError(f"no {kind} reduction of {type}")
    return b.constant(table[kind], type)


def combine(b: TtBuilder, kind: str, x: SSAValue, y: SSAValue) -> SSAValue:
    """Two values as one; NaN wins in max and min."""
    element = element_of(x.type)
    if isinstance(element, IntegerType):
        if kind in ("max", "min") and element.width.data == 1:
            kind = "or" if kind == "max" else "and"
        if kind in _INTEGER:
            return b.integer(_INTEGER[kind], x, y)
    elif kind in _FLOAT:
        return b.float(_FLOAT[kind], x, y)
    elif kind == "logaddexp":
        high, low = b.float(arith.MaximumfOp, x, y), b.float(arith.MinimumfOp, x, y)
        more = tt_math.MATH["log1p"](b, tt_math.MATH["exp"](b, b.float(arith.SubfOp, low, high)))
        # equal infinities have no difference
        infinite = b.compare("oeq", b.float(math.AbsFOp, high), same(b, float("inf"), high))
        return b.select(infinite, high, b.float(arith.AddfOp, high, more))
    raise KernelError(f"no {kind} reduction of {element}")


def running(b: TtBuilder, kind: str, x: SSAValue, y: SSAValue) -> SSAValue:
    """`combine` of a scan, `y` after `x`: of equal extremes, as 0 and -0 are, the later one stands, as in eager."""
    if kind in ("max", "min") and not isinstance(element_of(x.type), IntegerType):
        later = b.compare("uge" if kind == "max" else "ule", y, x)
        return b.select(b.integer(arith.AndIOp, later, b.compare("oeq", x, x)), y, x)
    return combine(b, kind, x, y)


_INTEGER = {"add": arith.AddiOp, "mul": arith.MuliOp, "max": arith.MaxSIOp, "min": arith.MinSIOp,
            "and": arith.AndIOp, "or": arith.OrIOp, "xor": arith.XOrIOp}  # fmt: skip
_FLOAT = {"add": arith.AddfOp, "mul": arith.MulfOp, "max": arith.MaximumfOp, "min": arith.MinimumfOp}


class _Plain:
    """A reduction that takes one point as it takes many."""

    b: TtBuilder
    folds = counts = False

    def combine(self, a: Sequence[SSAValue], b: Sequence[SSAValue]) -> State:
        raise NotImplementedError

    def join(self, state: Sequence[SSAValue], new: Sequence[SSAValue]) -> State:
        return self.combine(state, new)

    def join_all(self, state: Sequence[SSAValue], new: Sequence[SSAValue], valid: SSAValue | None) -> State:
        raise NotImplementedError

    def fold(self, state: Sequence[SSAValue], new: Sequence[SSAValue]) -> State:
        raise NotImplementedError

    def lanes(self, state: State) -> State:
        return over_last(self.b, state, self.combine)


def over_last(b: TtBuilder, values: State, combine: Callable[[Sequence[SSAValue], Sequence[SSAValue]], State]) -> State:
    """Tensors whose last dim is combined into one."""
    shape = shape_of(values[0].type)
    return over(b, values, len(shape) - 1, combine)


def over(
    b: TtBuilder, values: State, axis: int, combine: Callable[[Sequence[SSAValue], Sequence[SSAValue]], State]
) -> State:
    """Tensors of which a dim is combined into one."""
    shape = shape_of(values[0].type)
    types = [tt.tensor(element_of(v.type), (*shape[:axis], *shape[axis + 1 :])) for v in values]
    return b.across(tt.ReduceOp, tt.ReduceReturnOp, values, axis, types, combine)


class _Fold(_Plain):
    """add, mul, max, min, and, or: the state is the value so far. bool and narrow integers are folded in i32."""

    size = 1
    folds = True

    def __init__(self, b: TtBuilder, kind: str, type: Attribute) -> None:
        self.b, self.kind, self.type = b, kind, type
        if type == i1 and kind in ("max", "min"):
            self.kind = "or" if kind == "max" else "and"
        self.narrow = type if isinstance(type, IntegerType) and type.width.data < 32 else None

    def identity(self) -> State:
        value = identity(self.b, self.kind, self.type)
        return [value if self.narrow is None else self.b.resize(value, i32, self.type != i1)]

    def state(self, value: SSAValue, position: Callable[[], SSAValue]) -> State:
        return [value if self.narrow is None else self.b.resize(value, i32, self.type != i1)]

    def combine(self, a: Sequence[SSAValue], b: Sequence[SSAValue]) -> State:
        return [combine(self.b, self.kind, a[0], b[0])]

    def fold(self, state: Sequence[SSAValue], new: Sequence[SSAValue]) -> State:
        """The points of a thread first, then the state."""
        lanes = shape_of(state[0].type)
        values = [self.b.split_last(new[0], lanes[-1])]
        return self.combine(state, over(self.b, values, len(lanes) - 1, self.combine))

    def results(self, state: State) -> list[SSAValue]:
        return state if self.narrow is None else [self.b.resize(state[0], self.narrow)]


class _Best(_Plain):
    """argmax, argmin: the best value and where it was; NaN is best, the first of equals wins."""

    size = 2

    def __init__(self, b: TtBuilder, kind: str, type: Attribute, positions: IntegerType) -> None:
        self.b, self.kind, self.type, self.positions = b, kind[3:], type, positions
        self.is_int = isinstance(type, IntegerType)
        self.narrow = type if isinstance(type, IntegerType) and type.width.data < 32 else None

    def _wide(self, value: SSAValue) -> SSAValue:
        return value if self.narrow is None else self.b.resize(value, i32, self.type != i1)

    def identity(self) -> State:
        """The worst value at 0: it stays where no value is better, and then 0 is right."""
        return [self._wide(identity(self.b, self.kind, self.type)), self.b.constant(0, self.positions)]

    def state(self, value: SSAValue, position: Callable[[], SSAValue]) -> State:
        return [self._wide(value), position()]

    def _better(self, y: SSAValue, x: SSAValue) -> SSAValue:
        """Whether `y` replaces `x` wherever it is: greater, or NaN where `x` is not."""
        b = self.b
        if self.is_int:
            return b.compare("sgt" if self.kind == "max" else "slt", y, x)
        greater = b.compare("ugt" if self.kind == "max" else "ult", y, x)
        return b.integer(arith.AndIOp, greater, b.compare("oeq", x, x))

    def join(self, state: Sequence[SSAValue], new: Sequence[SSAValue]) -> State:
        """Positions grow within a lane, so that only a better value replaces."""
        take = self._better(new[0], state[0])
        return [self.b.select(take, n, s) for n, s in zip(new, state, strict=True)]

    def combine(self, a: Sequence[SSAValue], b: Sequence[SSAValue]) -> State:
        x, y = a[0], b[0]
        builder, earlier = self.b, self.b.compare("slt", b[1], a[1])
        # neither is better than the other: they are equal, or both NaN
        worse = self._better(x, y)
        equal = builder.integer(arith.AndIOp, earlier, builder.invert(worse))
        take = builder.integer(arith.OrIOp, self._better(y, x), equal)
        return [builder.select(take, y, x), builder.select(take, b[1], a[1])]

    def results(self, state: State) -> list[SSAValue]:
        return [self.b.resize(state[1], i64)]


class _ExpSum(_Plain):
    """The largest value m, and the sum of exp(x - m)."""

    size = 2
    folds = True

    def __init__(self, b: TtBuilder, type: Attribute, rounded: bool) -> None:
        if isinstance(type, IntegerType):
            raise KernelError(f"no expsum reduction of {type}")
        self.b, self.type, self.rounded = b, type, rounded

    def identity(self) -> State:
        return [self.b.constant(float("-inf"), self.type), self.b.constant(0.0, self.type)]

    def state(self, value: SSAValue, position: Callable[[], SSAValue]) -> State:
        return [value, self.b.constant(1.0, self.type)]

    def combine(self, a: Sequence[SSAValue], b: Sequence[SSAValue]) -> State:
        """max(m, n), and s exp(m - max) + t exp(n - max); what is the largest is not scaled, be it infinite."""
        s = self.b
        most = s.float(arith.MaximumfOp, a[0], b[0])
        zero = same(s, 0.0, most)
        scaled: State = []
        for m, total in (a, b):
            apart = s.select(s.compare("oeq", m, most), zero, s.float(arith.SubfOp, m, most))
            scaled.append(s.float(arith.MulfOp, total, self.exp(apart)))
        return [most, s.float(arith.AddfOp, *scaled)]

    def join(self, state: Sequence[SSAValue], new: Sequence[SSAValue]) -> State:
        """With e = exp(-|x - m|): s e + 1 where x is the larger one, else s + e."""
        s, add, mul = self.b, arith.AddfOp, arith.MulfOp
        (m, total), (x, one) = state, new
        equal = s.compare("oeq", x, m)
        apart = s.select(equal, same(s, 0.0, x), s.float(math.AbsFOp, s.float(arith.SubfOp, x, m)))
        scale = self.exp(tt_math.negate(s, apart))
        grown = s.float(add, s.float(mul, total, scale), one)
        kept = s.float(add, total, s.float(mul, one, scale))
        return [s.float(arith.MaximumfOp, m, x), s.select(s.compare("ogt", x, m), grown, kept)]

    def _most(self, x: Sequence[SSAValue], y: Sequence[SSAValue]) -> State:
        return [self.b.float(arith.MaximumfOp, x[0], y[0])]

    def _sum(self, x: Sequence[SSAValue], y: Sequence[SSAValue]) -> State:
        return [self.b.float(arith.AddfOp, x[0], y[0])]

    def _start(self, most: SSAValue) -> SSAValue:
        """What is subtracted where `most` is the largest: 0 for -inf, so that the sum is 0 while all are -inf."""
        none = self.b.compare("oeq", most, same(self.b, float("-inf"), most))
        return self.b.select(none, same(self.b, 0.0, most), most)

    def fold(self, state: Sequence[SSAValue], new: Sequence[SSAValue]) -> State:
        """n = max(m, the values x), s exp(m - n) + sum of exp(x - n): one exponential for each value."""
        s, lanes = self.b, shape_of(state[0].type)
        values, axis = s.split_last(new[0], lanes[-1]), len(lanes) - 1
        (most,) = over(s, [values], axis, self._most)
        most = s.float(arith.MaximumfOp, state[0], most)
        start = self._start(most)
        scale = self.exp(s.float(arith.SubfOp, state[0], start))
        below = s.float(arith.SubfOp, values, s.spread(start, shape_of(values.type)))
        (more,) = over(s, [self.exp(below)], axis, self._sum)
        return [most, s.float(arith.AddfOp, s.float(arith.MulfOp, state[1], scale), more)]

    def lanes(self, state: State) -> State:
        """The largest of all lanes first, so that each is scaled once."""
        (most,) = over_last(self.b, [state[0]], self._most)
        scale = self.exp(self.b.float(arith.SubfOp, state[0], self._start(most)))
        (total,) = over_last(self.b, [self.b.float(arith.MulfOp, state[1], scale)], self._sum)
        return [most, total]

    def exp(self, x: SSAValue) -> SSAValue:
        return tt_rounded.exp_of_sum(self.b, x) if self.rounded else tt_math.MATH["exp"](self.b, x)

    def results(self, state: State) -> list[SSAValue]:
        """Where the largest value is infinite, the difference to itself is NaN."""
        s = self.b
        infinite = s.compare("oeq", s.float(math.AbsFOp, state[0]), same(s, float("inf"), state[0]))
        return [state[0], s.select(infinite, same(s, float("nan"), state[0]), state[1])]


class _Welford(_Plain):
    """Mean, sum of squared deviations, and how many values there were (Chan et al., 1979)."""

    size = 3
    counts = True

    def __init__(self, b: TtBuilder, type: Attribute) -> None:
        if isinstance(type, IntegerType):
            raise KernelError(f"no welford reduction of {type}")
        self.b, self.type = b, type

    def identity(self) -> State:
        return [self.b.constant(0.0, self.type)] * 3

    def state(self, value: SSAValue, position: Callable[[], SSAValue]) -> State:
        return [value, self.b.constant(0.0, self.type), self.b.constant(1.0, self.type)]

    def combine(self, a: Sequence[SSAValue], b: Sequence[SSAValue]) -> State:
        """n = p + q, d = y - x:  x + d q/n,  a + b + d**2 p q/n. Counts are whole numbers, and those of nothing 0."""
        s = self.b
        add, mul = arith.AddfOp, arith.MulfOp
        n = s.float(add, a[2], b[2])
        share = s.float(arith.DivfOp, b[2], s.float(arith.MaximumfOp, n, same(s, 1.0, n)))
        apart = s.float(arith.SubfOp, b[0], a[0])
        mean = s.float(add, a[0], s.float(mul, apart, share))
        more = s.float(mul, s.float(mul, apart, apart), s.float(mul, a[2], share))
        return [mean, s.float(add, s.float(add, a[1], b[1]), more), n]

    def join(self, state: Sequence[SSAValue], new: Sequence[SSAValue]) -> State:
        """n + 1 points: mean + d / (n + 1) and m2 + d (x - the new mean), for d = x - mean."""
        s, add, mul = self.b, arith.AddfOp, arith.MulfOp
        (mean, m2, n), (x, _, one) = state, new
        count = s.float(add, n, one)
        share = s.float(arith.DivfOp, one, s.float(arith.MaximumfOp, count, same(s, 1.0, count)))
        apart = s.float(arith.SubfOp, x, mean)
        moved = s.float(add, mean, s.float(mul, apart, share))
        more = s.float(mul, s.float(mul, apart, s.float(arith.SubfOp, x, moved)), one)
        return [moved, s.float(add, m2, more), count]

    def join_all(self, state: Sequence[SSAValue], new: Sequence[SSAValue], valid: SSAValue | None) -> State:
        """As `join`, with a division for each count. Without a point x is the mean, which then stays. Where no lane has
        any, both are 0.
        """
        s, add, mul = self.b, arith.AddfOp, arith.MulfOp
        (mean, m2, n), x, one = state, new[0], s.constant(1.0, self.type)
        if valid is None:
            count = least = s.float(add, n, one)
        else:
            count = s.float(add, n, s.select(valid, one, s.constant(0.0, self.type)))
            least = s.float(arith.MaximumfOp, count, one)
            x = s.select(valid, x, mean)
        share = s.float(arith.DivfOp, one, least)
        apart = s.float(arith.SubfOp, x, mean)
        moved = s.float(add, mean, s.float(mul, apart, share))
        return [moved, s.float(add, m2, s.float(mul, apart, s.float(arith.SubfOp, x, moved))), count]

    def results(self, state: State) -> list[SSAValue]:
        return state[:2]


def across(b: TtBuilder, reduction: Reduction, state: State, axes: int) -> State:
    """A state whose last `axes` dims are combined into one."""
    for _ in range(axes):
        state = reduction.lanes(state)
    return state


def in_shape(b: TtBuilder, state: State, shape: Shape) -> State:
    """A state with a value in every lane."""
    return [b.fit(v, shape) for v in state]
