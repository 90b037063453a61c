"""How reductions are accumulated: what each kind carries, how a value joins, how partial results and lanes merge.

A reduction runs in groups: the unrolled copies of a vector loop, its masked remainder, or a scalar loop. Each group has
its own states; they are merged at the end in a fixed order, which does not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from xdsl.dialects import llvm
from xdsl.dialects.builtin import IntegerType, f64, i1, i32, i64
from xdsl.ir import Attribute, SSAValue

from .cascade import BLOCK, LONG_BLOCK
from .llvm_builder import REASSOCIATE, FunctionBuilder, KernelError, bits_of, element_of, lanes_of, vector
from .scalar_to_llvm import ScalarCode

State = list[SSAValue]


class Reduction(Protocol):
    """One kind for one value type. A state is a list of values with one number of lanes."""

    block: int
    """How many values are joined before a new partial result is begun; 0: any number."""

    def initial(self, lanes: int, masked: bool) -> State:
        """The state that changes nothing, of a group that is `masked` or not."""
        ...

    def carried(self, states: Sequence[State], masked: bool) -> State:
        """What a loop carries for the states of the copies in a group."""
        ...

    def restored(self, values: Sequence[SSAValue], copies: int) -> list[State]:
        """The inverse of `carried`."""
        ...

    def settle(self, state: State) -> State:
        """The state in the form that `merge` and `across` take."""
        ...

    def join(self, state: State, value: SSAValue, mask: SSAValue | None, point: Point) -> State:
        """The state with one more value in each lane (where `mask`)."""
        ...

    def merge(self, a: State, b: State) -> State:
        """Two states of the same lanes as one; `a` came first."""
        ...

    def across(self, states: Sequence[State]) -> State:
        """Several vector states as one scalar state."""
        ...

    def results(self, state: State) -> list[SSAValue]:
        """What the reduction yields."""
        ...


class Point(Protocol):
    """Where in the reduce domain the body is."""

    def position(self, type: IntegerType) -> SSAValue:
        """The row-major position, per lane."""
        ...


def make(s: ScalarCode, kind: str, type: Attribute, small: bool) -> Reduction:
    """The reduction of a kind on values of a register type; `small`: positions fit in i32."""
    if kind in ("argmax", "argmin"):
        return Best(s, kind, type, i32 if small else i64)
    if kind == "welford":
        return Welford(s, type)
    return Fold(s, kind, type)


def identity(s: ScalarCode, kind: str, type: Attribute) -> SSAValue:
    """The value that changes nothing. Integers are signed, but for bool, where max is or and min is and."""
    if isinstance(type, IntegerType):
        bits = type.width.data
        least, most = (0, 1) if bits == 1 else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
        table: dict[str, float | int] = {"add": 0, "mul": 1, "max": least, "min": most, "and": -1, "or": 0, "xor": 0}
    else:
        table = {"add": 0.0, "mul": 1.0, "max": float("-inf"), "min": float("inf")}
        table["max_number"] = table["max"]
    if kind not in table:
        raise KernelError(f"no {kind} reduction of {type}")
    return s.b.constant(table[kind], type)


def combine(s: ScalarCode, kind: str, a: SSAValue, b: SSAValue) -> SSAValue:
    """Two values as one; NaN wins in max and min. A `max_number` so far is none."""
    builder, is_int = s.b, isinstance(element_of(a), IntegerType)
    match kind:
        case "add":
            return builder.add(a, b) if is_int else builder.fadd(a, b)
        case "mul":
            return builder.mul(a, b) if is_int else builder.fmul(a, b)
        case "and" | "or" | "xor":
            return builder.binary({"and": llvm.AndOp, "or": llvm.OrOp, "xor": llvm.XOrOp}[kind], a, b)
        case "max" | "min":
            if is_int and bits_of(a) == 1:
                return builder.binary(llvm.OrOp if kind == "max" else llvm.AndOp, a, b)
            if is_int:
                return s.extreme(a, b, "sgt" if kind == "max" else "slt")
            a, b = builder.same_lanes(a, b)
            # `b` is the new value: the compare that looks for NaN is then not part of the loop's chain.
            return s.maximum(b, a, "ogt" if kind == "max" else "olt")
        case "max_number":
            a, b = builder.same_lanes(a, b)
            return builder.select(builder.fcmp("ogt", b, a), b, a)
        case "logaddexp":
            a, b = builder.same_lanes(a, b)
            high, low = s.maximum(a, b), s.maximum(a, b, "olt")
            grown = builder.fadd(high, s.math("log1p", s.math("exp", builder.fsub(low, high))))
            # Equal infinities have no difference.
            return builder.select(builder.fcmp("oeq", builder.intrinsic("fabs", (high,), high.type),
                                               s.same(float("inf"), high)), high, grown)  # fmt: skip
        case _:
            raise KernelError(f"unknown combine kind {kind}")


class _Plain:
    """A reduction whose state is carried as it is."""

    def carried(self, states: Sequence[State], masked: bool) -> State:
        return [v for state in states for v in state]

    def restored(self, values: Sequence[SSAValue], copies: int) -> list[State]:
        size = len(values) // copies
        return [list(values[k * size : (k + 1) * size]) for k in range(copies)]

    def settle(self, state: State) -> State:
        return state


class Fold(_Plain):
    """add, mul, max, min, and, or: the state is the value so far."""

    def __init__(self, s: ScalarCode, kind: str, type: Attribute):
        self.s, self.kind, self.type = s, kind, type
        self.block = BLOCK if kind == "add" and not isinstance(type, IntegerType) else 0

    def initial(self, lanes: int, masked: bool) -> State:
        return [self.s.b.splat(identity(self.s, self.kind, self.type), lanes)]

    def join(self, state: State, value: SSAValue, mask: SSAValue | None, point: Point) -> State:
        new = combine(self.s, self.kind, state[0], value)
        return [new if mask is None else self.s.b.select(mask, new, state[0])]

    def merge(self, a: State, b: State) -> State:
        return [combine(self.s, self.kind, a[0], b[0])]

    def across(self, states: Sequence[State]) -> State:
        """Halves are folded onto each other; sums by LLVM's own reduction, which does the same."""
        b = self.s.b
        state = tree(self, states)
        is_int = isinstance(self.type, IntegerType)
        if is_int and self.kind in ("add", "mul", "and", "or", "xor"):
            return [b.intrinsic(f"vector.reduce.{self.kind}", state, self.type)]
        if not is_int and self.kind == "add":
            return [sum_of_lanes(b, state[0])]
        return _halve(self, b, state)

    def results(self, state: State) -> list[SSAValue]:
        return state


class Best(_Plain):
    """argmax, argmin: the best value so far and where it was; NaN is best, the first of equals wins."""

    block = 0

    def __init__(self, s: ScalarCode, kind: str, type: Attribute, index: IntegerType):
        self.s, self.type, self.index = s, type, index
        self.is_int = isinstance(type, IntegerType)
        self.is_bool = type == i1
        self.predicate = ("ogt", "sgt") if kind == "argmax" else ("olt", "slt")
        self.kind = "max" if kind == "argmax" else "min"

    def initial(self, lanes: int, masked: bool) -> State:
        """The worst value at 0. It stays where no value is better: then 0 is right, or another lane wins."""
        b = self.s.b
        return [b.splat(identity(self.s, self.kind, self.type), lanes), b.constant(0, vector(self.index, lanes))]

    def _better(self, value: SSAValue, than: SSAValue) -> SSAValue:
        b = self.s.b
        if self.is_int:
            predicate = self.predicate[1]
            return b.icmp(predicate.replace("s", "u") if self.is_bool else predicate, value, than)
        # Unordered or greater, unless the best so far is NaN itself.
        greater = b.fcmp(self.predicate[0].replace("o", "u", 1), value, than)
        return b.binary(llvm.AndOp, greater, b.fcmp("ord", than, than))

    def _equal(self, a: SSAValue, b: SSAValue) -> SSAValue:
        builder = self.s.b
        if self.is_int:
            return builder.icmp("eq", a, b)
        both = builder.binary(llvm.AndOp, self.s.is_nan(a), self.s.is_nan(b))
        return builder.binary(llvm.OrOp, builder.fcmp("oeq", a, b), both)

    def join(self, state: State, value: SSAValue, mask: SSAValue | None, point: Point) -> State:
        """Positions grow within a lane, so that only a strictly better value replaces."""
        b = self.s.b
        best, where = state
        value = b.splat(value, lanes_of(best))
        position = b.splat(point.position(self.index), lanes_of(best))
        better = self._better(value, best)
        if mask is not None:
            better = b.binary(llvm.AndOp, better, mask)
        return [b.select(better, value, best), b.select(better, position, where)]

    def merge(self, a: State, b: State) -> State:
        builder = self.s.b
        earlier = builder.binary(llvm.AndOp, self._equal(a[0], b[0]), builder.icmp("slt", b[1], a[1]))
        take = builder.binary(llvm.OrOp, self._better(b[0], a[0]), earlier)
        return [builder.select(take, b[0], a[0]), builder.select(take, b[1], a[1])]

    def across(self, states: Sequence[State]) -> State:
        return _halve(self, self.s.b, tree(self, states))

    def results(self, state: State) -> list[SSAValue]:
        return [self.s.b.resize(state[1], i64)]


class Welford:
    """Mean and sum of squared deviations, and how many values there were: (mean, m2, count).

    In masked groups the count is a float per lane. In others all lanes and copies share one, an f64 scalar that is
    carried once: there is one division a step. `settle` makes the two alike.
    """

    block = LONG_BLOCK

    def __init__(self, s: ScalarCode, type: Attribute):
        if isinstance(type, IntegerType):
            raise KernelError(f"no welford reduction of {type}")
        self.s, self.type = s, type

    def initial(self, lanes: int, masked: bool) -> State:
        b = self.s.b
        zero = b.constant(0.0, vector(self.type, lanes))
        return [zero, zero, zero if masked else b.constant(0.0, f64)]

    def carried(self, states: Sequence[State], masked: bool) -> State:
        return [v for state in states for v in state[:2]] + ([s[2] for s in states] if masked else [states[0][2]])

    def restored(self, values: Sequence[SSAValue], copies: int) -> list[State]:
        counts = values[2 * copies :]
        return [[*values[2 * k : 2 * k + 2], counts[k % len(counts)]] for k in range(copies)]

    def join(self, state: State, value: SSAValue, mask: SSAValue | None, point: Point) -> State:
        b = self.s.b
        mean, m2, count = state
        lanes = lanes_of(mean)
        grown = b.fadd(count, self.s.same(1.0, count))
        share = b.fdiv(self.s.same(1.0, grown), grown)
        if bits_of(share) > bits_of(mean):
            share = b.cast(llvm.FPTruncOp, share, self.type)
        value, share = b.splat(value, lanes), b.splat(share, lanes)
        delta = b.fsub(value, mean)
        new_mean = b.fadd(mean, b.fmul(delta, share))
        new = [new_mean, b.fadd(m2, b.fmul(delta, b.fsub(value, new_mean))), grown]
        return new if mask is None else [b.select(mask, x, y) for x, y in zip(new, state, strict=True)]

    def settle(self, state: State) -> State:
        """The state with a count of the values' own type in each lane."""
        b, (mean, m2, count) = self.s.b, state
        if bits_of(count) > bits_of(mean):
            count = b.cast(llvm.FPTruncOp, count, self.type)
        return [mean, m2, b.splat(count, lanes_of(mean))]

    def merge(self, a: State, b: State) -> State:
        """Chan's formula; no values at all give 0."""
        f = self.s.b
        (mean_a, m2_a, n_a), (mean_b, m2_b, n_b) = a, b
        n, zero = f.fadd(n_a, n_b), self.s.same(0.0, n_a)
        share = f.fdiv(n_b, f.select(f.fcmp("ogt", n, zero), n, self.s.same(1.0, n)))
        weight = f.fmul(n_a, share)
        # A side without values must not turn the other's inf into NaN.
        moves = f.fcmp("ogt", n_b, zero)
        counts = f.binary(llvm.AndOp, f.fcmp("ogt", n_a, zero), moves)
        if bits_of(n) > bits_of(mean_a):
            share, weight = (f.cast(llvm.FPTruncOp, v, self.type) for v in (share, weight))
        delta, none = f.fsub(mean_b, mean_a), self.s.same(0.0, mean_a)
        moved = f.select(moves, f.fmul(delta, share), none)
        spread = f.select(counts, f.fmul(f.fmul(delta, delta), weight), none)
        return [f.fadd(mean_a, moved), f.fadd(f.fadd(m2_a, m2_b), spread), n]

    def across(self, states: Sequence[State]) -> State:
        """The mean of the lanes' means, mended by that of what they are off, then the spread around it."""
        b = self.s.b
        counts = [n for _, _, n in states]
        total = sum_of_lanes(b, _sum(b, counts))
        some = b.select(b.fcmp("ogt", total, self.s.same(0.0, total)), total, self.s.same(1.0, total))
        mean = b.fdiv(sum_of_lanes(b, _sum(b, [b.fmul(n, mean) for mean, _, n in states])), some)
        off = [b.fmul(n, b.fsub(lane_mean, mean)) for lane_mean, _, n in states]
        mean = b.fadd(mean, b.fdiv(sum_of_lanes(b, _sum(b, off)), some))
        spreads: list[SSAValue] = []
        for lane_mean, m2, n in states:
            delta = b.fsub(lane_mean, mean)
            spreads.append(b.fadd(m2, b.fmul(b.fmul(n, delta), delta)))
        return [mean, sum_of_lanes(b, _sum(b, spreads)), total]

    def results(self, state: State) -> list[SSAValue]:
        return state[:2]


def _sum(b: FunctionBuilder, values: Sequence[SSAValue]) -> SSAValue:
    result = values[0]
    for value in values[1:]:
        result = b.fadd(result, value)
    return result


def sum_of_lanes(b: FunctionBuilder, value: SSAValue) -> SSAValue:
    """The sum of a float vector's lanes, halves folded onto each other."""
    type = element_of(value)
    return b.intrinsic("vector.reduce.fadd", (b.constant(-0.0, type), value), type, REASSOCIATE)


def _halve(reduction: Reduction, b: FunctionBuilder, state: State) -> State:
    """All lanes as one: the upper half is merged into the lower until one is left."""
    lanes = lanes_of(state[0])
    while lanes > 2:
        lanes //= 2
        low, high = ([b.shuffle(v, v, range(k, k + lanes)) for v in state] for k in (0, lanes))
        state = reduction.merge(low, high)
    return reduction.merge(*([b.extract(v, k) for v in state] for k in (0, 1)))


class Accumulators:
    """The states of a loop's reductions in one group (`copies` of `lanes` lanes), as one list of values to carry."""

    def __init__(self, reductions: Sequence[Reduction], lanes: int, copies: int, masked: bool):
        self.reductions, self.lanes, self.copies, self.masked = reductions, lanes, copies, masked
        self.sizes = [len(r.carried([r.initial(lanes, masked)] * copies, masked)) for r in reductions]

    @property
    def size(self) -> int:
        return sum(self.sizes)

    def initial(self) -> State:
        values: State = []
        for r in self.reductions:
            values += r.carried([r.initial(self.lanes, self.masked)] * self.copies, self.masked)
        return values

    def states(self, values: Sequence[SSAValue]) -> list[list[State]]:
        """Per reduction, the state of each copy."""
        found: list[list[State]] = []
        at = 0
        for r, size in zip(self.reductions, self.sizes, strict=True):
            found.append(r.restored(values[at : at + size], self.copies))
            at += size
        return found

    def join(
        self,
        values: Sequence[SSAValue],
        yields: Sequence[Sequence[SSAValue]],
        mask: SSAValue | None,
        points: Sequence[Point],
    ) -> State:
        """The values to carry on, with one more yielded value per reduction and copy."""
        result: State = []
        for r, states, new in zip(self.reductions, self.states(values), yields, strict=True):
            joined = [r.join(s, v, mask, p) for s, v, p in zip(states, new, points, strict=True)]
            result += r.carried(joined, self.masked)
        return result

    def restart(self, values: Sequence[SSAValue]) -> State:
        """The carried values, those of reductions that cascade set back."""
        fresh = self.initial()
        return [f if c else v for v, f, c in zip(values, fresh, self._cascading(), strict=True)]

    def resume(self, before: Sequence[SSAValue], after: Sequence[SSAValue]) -> State:
        """What was carried before `restart` joined with what came of it."""
        result: State = []
        at = 0
        for r, size in zip(self.reductions, self.sizes, strict=True):
            old, new = before[at : at + size], after[at : at + size]
            if r.block:
                parts = (r.restored(values, self.copies) for values in (old, new))
                result += r.carried([r.merge(a, b) for a, b in zip(*parts, strict=True)], self.masked)
            else:
                result += new
            at += size
        return result

    def _cascading(self) -> list[bool]:
        return [r.block > 0 for r, size in zip(self.reductions, self.sizes, strict=True) for _ in range(size)]


def tree(reduction: Reduction, states: Sequence[State]) -> State:
    """Several states of the same lanes as one, neighbours first."""
    rest = list(states)
    while len(rest) > 1:
        pairs = [reduction.merge(a, b) for a, b in zip(rest[::2], rest[1::2], strict=False)]
        rest = pairs + ([rest[-1]] if len(rest) % 2 else [])
    return rest[0]
