"""Symbolic index expressions as i64 code: values, how they move along the vector dim, predicates, and addresses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, cast

import sympy
from xdsl.dialects import llvm
from xdsl.dialects.builtin import f64, i1, i32, i64
from xdsl.ir import Attribute, SSAValue

from ..dialects import expr, llvm_ext
from ..dialects.expr import Dim
from ..dialects.tensor import TensorType
from .llvm_builder import FunctionBuilder, KernelError, Num, lanes_of
from .size_code import may_be_negative, root_of

Env: TypeAlias = Mapping[sympy.Symbol, Num]
"""What each symbol is at the point where code is being written: scalars, or vectors of i64 where lanes differ."""


def functions_of(e: Any) -> tuple[str, tuple[Any, ...]]:
    """The name of a non-sum, non-product expression, as `expr.text` writes it, and its arguments."""
    return expr.text(e).partition("(")[0], e.args


# ------------------------------------------------------------------------------------------------------------- values


def evaluate(b: FunctionBuilder, e: Dim, env: Env) -> Num:
    """The value of an integer expression."""
    if isinstance(e, int):
        return e
    if isinstance(e, sympy.Symbol):
        return env[e]
    if isinstance(e, sympy.Integer):
        return int(e)
    if isinstance(e, sympy.Add):
        return total(b, [evaluate(b, cast(Dim, a), env) for a in e.args])
    if isinstance(e, sympy.Mul):
        return product(b, [evaluate(b, cast(Dim, a), env) for a in e.args])
    if isinstance(e, sympy.Pow) and isinstance(e.exp, sympy.Integer) and e.exp > 0:
        return product(b, [evaluate(b, cast(Dim, e.base), env)] * int(e.exp))
    name, args = functions_of(e)
    if name not in _FUNCTIONS:
        raise KernelError(f"no code for the index expression {expr.text(e)}")
    return _FUNCTIONS[name](b, args, env)


def total(b: FunctionBuilder, terms: Sequence[Num]) -> Num:
    """The sum, of what stands furthest out first, so that partial sums can stand there too; constants last."""
    result: Num = 0
    constant = 0
    for term in sorted(terms, key=b.level):
        if isinstance(term, int):
            constant += term
        else:
            result = b.index_add(result, term)
    return b.index_add(result, constant)


def product(b: FunctionBuilder, factors: Sequence[Num]) -> Num:
    result: Num = 1
    for factor in sorted(factors, key=b.level):
        result = b.index_mul(result, factor)
    return result


def _nonnegative(e: Any) -> bool:
    return bool(e >= 0) if isinstance(e, int) else e.is_nonnegative is True


def _divide(b: FunctionBuilder, args: tuple[Any, ...], env: Env) -> Num:
    """floor(a / d)."""
    a, d = args
    if may_be_negative(d):
        return _signed(b, evaluate(b, a, env), evaluate(b, d, env))
    return _floordiv(b, evaluate(b, a, env), evaluate(b, d, env), _nonnegative(a))


def _floordiv(b: FunctionBuilder, x: Num, y: Num, nonnegative: bool) -> Num:
    if isinstance(x, int) and isinstance(y, int):
        return x // y
    if isinstance(y, int) and y == 1:
        return x
    x, y = b.number(x), _divisor(b, y)
    if isinstance(y, int) and y & (y - 1) == 0:
        return b.binary(llvm.AShrOp, x, b.constant(y.bit_length() - 1, i64))
    y = b.number(y)
    if nonnegative:
        return b.binary(llvm.UDivOp, x, y)
    quotient = b.binary(llvm.SDivOp, x, y)
    rest = b.sub(x, b.mul(quotient, y))
    down = b.binary(llvm.AShrOp, rest, b.constant(63, i64))
    return b.add(quotient, down)


def _signed(b: FunctionBuilder, x: Num, y: Num) -> Num:
    """floor(x / y) = floor(-x / -y), of any sign."""
    if isinstance(x, int) and isinstance(y, int):
        return x // y if y else 0
    negative = b.icmp("slt", b.number(y), b.constant(0, i64))
    x, y = (b.select(negative, b.number(b.index_sub(0, z)), b.number(z)) for z in (x, y))
    return _floordiv(b, x, y, False)


def _divisor(b: FunctionBuilder, y: Num) -> Num:
    """A divisor that cannot trap, as the division may be moved to where it is not needed."""
    if isinstance(y, int):
        return max(y, 1)
    return b.select(b.icmp("sgt", y, b.constant(0, i64)), y, b.constant(1, i64))


def _remainder(b: FunctionBuilder, args: tuple[Any, ...], env: Env) -> Num:
    """a - d * floor(a / d)."""
    a, d = args
    if may_be_negative(d):
        x, y = evaluate(b, a, env), evaluate(b, d, env)
        return b.index_sub(x, b.index_mul(_signed(b, x, y), y))
    return _mod(b, evaluate(b, a, env), evaluate(b, d, env), _nonnegative(a))


def _mod(b: FunctionBuilder, x: Num, y: Num, nonnegative: bool) -> Num:
    if isinstance(x, int) and isinstance(y, int):
        return x % y
    if isinstance(y, int) and y & (y - 1) == 0:
        return b.binary(llvm.AndOp, b.number(x), b.constant(y - 1, i64))
    if nonnegative:
        return b.binary(llvm.URemOp, b.number(x), b.number(_divisor(b, y)))
    return b.index_sub(x, b.index_mul(_floordiv(b, x, y, False), y))


def _modular(b: FunctionBuilder, args: tuple[Any, ...], env: Env) -> Num:
    """floor(a / d) mod m."""
    a, d, m = args
    nonnegative = _nonnegative(a)
    quotient = _floordiv(b, evaluate(b, a, env), evaluate(b, d, env), nonnegative)
    return _mod(b, quotient, evaluate(b, m, env), nonnegative)


def _extreme(predicate: str) -> Callable[[FunctionBuilder, tuple[Any, ...], Env], Num]:
    def build(b: FunctionBuilder, args: tuple[Any, ...], env: Env) -> Num:
        values = sorted((evaluate(b, a, env) for a in args), key=b.level)
        result = values[0]
        for value in values[1:]:
            if isinstance(result, int) and isinstance(value, int):
                result = max(result, value) if predicate == "sgt" else min(result, value)
            else:
                left, right = b.number(result), b.number(value)
                result = b.select(b.icmp(predicate, left, right), left, right)
        return result

    return build


def _rounded(function: str | None) -> Callable[[FunctionBuilder, tuple[Any, ...], Env], Num]:
    """A size that is a real number, by an intrinsic or towards 0, as an integer."""

    def build(b: FunctionBuilder, args: tuple[Any, ...], env: Env) -> Num:
        x = real(b, args[0], env)
        return b.cast(llvm_ext.FPToSIOp, x if function is None else b.intrinsic(function, [x], f64), i64)

    return build


def real(b: FunctionBuilder, e: Any, env: Env) -> SSAValue:
    """The value of a product of numbers, sizes, quotients of sizes and square roots, as a scalar f64."""
    if e.is_number:
        return b.constant(float(e), f64)
    if (square := root_of(e)) is not None:
        return b.intrinsic("sqrt", [real(b, square, env)], f64)
    if isinstance(e, sympy.Mul):
        first, *rest = (real(b, a, env) for a in e.args)
        for factor in rest:
            first = b.fmul(first, factor)
        return first
    match type(e).__name__:
        case "ToFloat":
            return real(b, e.args[0], env)
        case "IntTrueDiv":
            return b.fdiv(*(real(b, a, env) for a in e.args))
        case _:
            return b.cast(llvm.SIToFPOp, b.number(evaluate(b, e, env)), f64)


_FUNCTIONS: dict[str, Callable[[FunctionBuilder, tuple[Any, ...], Env], Num]] = {
    "TruncToInt": _rounded(None),
    "FloorToInt": _rounded("floor"),
    "CeilToInt": _rounded("ceil"),
    "floordiv": _divide,
    "CleanDiv": _divide,
    "mod": _remainder,
    "modular_indexing": _modular,
    "max": _extreme("sgt"),
    "min": _extreme("slt"),
}


# -------------------------------------------------------------------------------------------------- along the vector


def lane_step(e: Dim, d: sympy.Symbol, lanes: int, aligned: bool, varying: frozenset[sympy.Symbol]) -> Any:
    """By how much `e` grows from one lane to the next, where `d` grows by 1; None where that is not one expression.

    `aligned`: `d` is a multiple of `lanes` in lane 0, so that quotients and remainders by multiples of `lanes` keep
    their form within a vector. `varying` are other symbols that differ between lanes.
    """
    if isinstance(e, int) or e == d:
        return int(e == d)
    free = e.free_symbols
    if not varying.isdisjoint(free):
        return None
    if d not in free:
        return 0
    if isinstance(e, sympy.Add):
        steps = [lane_step(cast(Dim, a), d, lanes, aligned, varying) for a in e.args]
        return None if any(s is None for s in steps) else expr.normal(sum(steps))
    if isinstance(e, sympy.Mul):
        moving = [a for a in e.args if d in a.free_symbols]
        step = lane_step(cast(Dim, moving[0]), d, lanes, aligned, varying) if len(moving) == 1 else None
        return None if step is None else expr.product([step, *(a for a in e.args if a is not moving[0])])
    if not aligned or isinstance(e, sympy.Pow):
        return None
    name, args = functions_of(e)
    if name in ("floordiv", "mod") and _keeps_form(args[0], args[1], d, lanes):
        return int(name == "mod")
    if name == "modular_indexing" and args[1] == 1 and _keeps_form(args[0], args[2], d, lanes):
        return 1
    if name == "modular_indexing" and _keeps_form(args[0], args[1], d, lanes):
        return 0
    return None


def _keeps_form(e: Any, divisor: Any, d: sympy.Symbol, lanes: int) -> bool:
    """Whether `e` is d + g, with g and `divisor` multiples of `lanes`: then no lane passes a multiple of `divisor`."""
    if not isinstance(divisor, sympy.Integer) or int(divisor) % lanes:
        return False
    terms = list(sympy.Add.make_args(e))
    if d not in terms:
        return False
    terms.remove(d)
    return all(multiple_of(t, lanes) and d not in t.free_symbols for t in terms)


def multiple_of(e: Any, n: int) -> bool:
    """Whether `e` is known to be a multiple of `n`."""
    if isinstance(e, int):
        return e % n == 0
    return all(int(t.as_coeff_Mul()[0]) % n == 0 if t.as_coeff_Mul()[0].is_integer else False
               for t in sympy.Add.make_args(e))  # fmt: skip


# --------------------------------------------------------------------------------------------------------- predicates

_ICMP = {"lt": "slt", "le": "sle", "gt": "sgt", "ge": "sge", "eq": "eq", "ne": "ne"}
_SWAPPED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le", "eq": "eq", "ne": "ne"}


def relation(b: FunctionBuilder, r: Any, lanes: LaneIndex) -> SSAValue:
    """A relation (or and, or, not of some) as i1: a scalar where all lanes agree, else one per lane."""
    if isinstance(r, sympy.logic.boolalg.BooleanAtom):
        return b.constant(int(bool(r)), i1)
    name, args = functions_of(r)
    if name in ("and", "or"):
        cls = llvm.AndOp if name == "and" else llvm.OrOp
        result = relation(b, args[0], lanes)
        for a in args[1:]:
            result = b.binary(cls, result, relation(b, a, lanes))
        return result
    if name == "not":
        value = relation(b, args[0], lanes)
        return b.binary(llvm.XOrOp, value, b.constant(1, i1))
    left, right = (expr.normal(a) for a in args)
    steps = lanes.step(left), lanes.step(right)
    if steps[0] == 0 and steps[1] in (1, -1):
        name, left, right, steps = _SWAPPED[name], right, left, steps[::-1]
    if steps == (0, 0):
        return b.icmp(_ICMP[name], *(b.number(lanes.base(x)) for x in (left, right)))
    if steps in ((1, 0), (-1, 0)):
        # base + lane < right, so lane < right - base, which is cut to the range of a lane and compared in i32.
        sign = cast(int, steps[0])
        gap = b.index_sub(lanes.base(right), lanes.base(left))
        if sign < 0:
            name, gap = _SWAPPED[name], b.index_sub(0, gap)
        return lane_compare(b, name, gap, lanes.lanes)
    values = [b.number(lanes.value(x)) for x in (left, right)]
    return b.icmp(_ICMP[name], *values)


def lane_compare(b: FunctionBuilder, name: str, bound: Num, lanes: int) -> SSAValue:
    """`lane <name> bound` for every lane."""
    if not isinstance(bound, int):
        low, high = b.constant(-1, i64), b.constant(lanes, i64)
        bound = b.select(b.icmp("slt", bound, high), bound, high)
        bound = b.select(b.icmp("sgt", bound, low), bound, low)
        limit = b.resize(bound, i32)
    else:
        limit = b.constant(max(-1, min(bound, lanes)), i32)
    return b.icmp(_ICMP[name], b.iota(lanes, i32), b.splat(limit, lanes))


class LaneIndex:
    """Index expressions at a vector of lanes, or at one point: a scalar base and a step per lane, or a value each."""

    def __init__(
        self,
        b: FunctionBuilder,
        env: Env,
        dim: sympy.Symbol | None = None,
        lanes: int = 1,
        aligned: bool = False,
        varying: Mapping[sympy.Symbol, SSAValue] = {},
    ):
        """`env` has scalars: for `dim`, that of lane 0. `varying` has vectors for the symbols that differ otherwise."""
        self.b, self.env, self.dim, self.lanes, self.aligned = b, env, dim, lanes, aligned
        self.varying = varying
        self._names = frozenset(varying)
        self._full: Env | None = None

    def step(self, e: Dim) -> Any:
        """See `lane_step`; 0 at a single point."""
        if self.dim is None:
            return None if not self._names.isdisjoint(expr.symbols(e)) else 0
        return lane_step(e, self.dim, self.lanes, self.aligned, self._names)

    def base(self, e: Dim) -> Num:
        """`e` in lane 0."""
        return evaluate(self.b, e, self.env)

    def value(self, e: Dim) -> Num:
        """`e` in every lane: a scalar where all agree."""
        step = self.step(e)
        if step == 0:
            return self.base(e)
        if step is not None:
            offsets = self.offsets(step)
            return self.b.add(self.b.splat(self.b.number(self.base(e)), self.lanes), offsets)
        if self._full is None:
            full = dict(self.env)
            full.update(self.varying)
            if self.dim is not None:
                base = self.b.splat(self.b.number(self.env[self.dim]), self.lanes)
                full[self.dim] = self.b.add(base, self.b.iota(self.lanes))
            self._full = full
        return evaluate(self.b, e, self._full)

    def offsets(self, step: Any) -> SSAValue:
        """<0, step, 2 * step, …>."""
        if isinstance(step, int):
            return self.b.dense([i * step for i in range(self.lanes)], i64)
        return self.b.mul(self.b.splat(self.b.number(self.base(step)), self.lanes), self.b.iota(self.lanes))

    def address(
        self, pointer: SSAValue, type: TensorType, index: Sequence[Any], element: Attribute
    ) -> tuple[SSAValue, Any]:
        """The address of `pointer[index]` in lane 0 and its step per lane in elements; or all addresses and None."""
        b = self.b
        # along a dim of stride 0 it is no matter where
        steps = [0 if t == 0 else self.step(e) for e, t in zip(index, type.strides, strict=True)]
        if any(s is None for s in steps):
            offsets = [b.index_mul(self.value(e), self.base(s)) for e, s in zip(index, type.strides, strict=True)]
            return self._advance(pointer, offsets, element), None
        step = expr.normal(sum(s * t for s, t in zip(steps, type.strides, strict=True)))
        terms: dict[tuple[Any, Any], int] = {}
        for e, stride in zip(index, type.strides, strict=True):
            for term in (e,) if isinstance(e, int) else sympy.Add.make_args(e):
                number, rest = (term, 1) if isinstance(term, int) else _coefficient(term)
                factor, stride_rest = (stride, 1) if isinstance(stride, int) else _coefficient(stride)
                key = (rest, stride_rest)
                terms[key] = terms.get(key, 0) + number * factor
        offsets = [product(b, [self.base(r), self.base(s), n]) for (r, s), n in terms.items() if n]
        return self._advance(pointer, offsets, element), step

    def _advance(self, pointer: SSAValue, offsets: Sequence[Num], element: Attribute) -> SSAValue:
        """`pointer` moved by each offset in turn, what is known furthest out first."""
        b = self.b
        constant = sum(o for o in offsets if isinstance(o, int))
        groups: dict[tuple[int, int], list[Num]] = {}
        for offset in offsets:
            if not isinstance(offset, int):
                groups.setdefault((lanes_of(offset), b.level(offset)), []).append(offset)
        for key in sorted(groups):
            pointer = b.gep(pointer, total(b, groups[key]), element)
        return b.gep(pointer, constant, element)


def _coefficient(term: Any) -> tuple[int, Any]:
    """A product's integer factor and the rest."""
    number, rest = term.as_coeff_Mul()
    return int(number), expr.normal(rest)
