"""Scalar code of a kernel under construction: every value once, in the outermost loop where it does not change.

A builder holds a stack of scopes, the kernel's own block and the bodies of open `loop.for`s. An op goes to the deepest
scope that its operands and index symbols need, and an equal op of that scope is reused: fusion by substitution gets
common subexpressions, forwarding and loop-invariant motion from this one place.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sympy
from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, StringAttr, i1, i64
from xdsl.ir import Attribute, Block, Operation, SSAValue

from ..dialects import expr
from ..dialects.expr import Dim
from ..dialects.loop import (
    AssertOp,
    DimsAttr,
    ForOp,
    IndexAttr,
    IndexOp,
    LoadOp,
    LoopDim,
    PredAttr,
    PredOp,
    ScanOp,
    ScratchOp,
    SortOp,
    StoreOp,
    YieldOp,
)
from ..dialects.tensor import TensorType
from .fuse_graph import Index, is_index_operand
from .index_simplify import Facts, facts


@dataclass(frozen=True)
class Guard:
    """Where a read may touch memory: all `relations` hold, and `ok` where there is one."""

    relations: tuple[Any, ...] = ()
    ok: SSAValue | None = None

    @property
    def always(self) -> bool:
        return not self.relations and self.ok is None


ALWAYS = Guard()


@dataclass(eq=False, slots=True)
class _Scope:
    """A block under construction: its ops, the values that are known in it, and the dims of its loop."""

    dims: tuple[LoopDim, ...]
    ops: list[Operation] = field(default_factory=list[Operation])
    known: dict[Any, Any] = field(default_factory=dict[Any, Any])


class BodyBuilder:
    """Builds the nested blocks of one kernel."""

    def __init__(self, grid: tuple[LoopDim, ...]) -> None:
        self.scopes = [_Scope(grid)]
        self._depth: dict[SSAValue, int] = {}
        self._dim_depth: dict[sympy.Symbol, int] = {}
        self._operand_symbols: dict[SSAValue, sympy.Symbol] = {}
        self._operands: dict[sympy.Symbol, SSAValue] = {}
        self.facts: Facts = facts(grid)

    # Scopes

    def open(self, dims: Sequence[LoopDim]) -> None:
        """Start the body of a loop over `dims`."""
        for d in dims:
            self._dim_depth[d.symbol] = len(self.scopes)
        self.scopes.append(_Scope(tuple(dims)))
        self.facts = facts(tuple(d for s in self.scopes for d in s.dims))

    def close(self, kinds: Sequence[str], values: Sequence[SSAValue], types: Sequence[Attribute], loc: Any) -> ForOp:
        """End the innermost loop; it yields `values`, and its results have `types`."""
        scope = self.scopes.pop()
        for d in scope.dims:
            del self._dim_depth[d.symbol]
        scope.ops.append(YieldOp.create(operands=values, location=loc))
        loop = ForOp.make(DimsAttr.get(scope.dims), Block(scope.ops), reduce=kinds, result_types=types, location=loc)
        self._append(loop, len(self.scopes) - 1)
        self.facts = facts(tuple(d for s in self.scopes for d in s.dims))
        return loop

    def _append(self, op: Operation, depth: int) -> None:
        self.scopes[depth].ops.append(op)
        for r in op.results:
            self._depth[r] = depth

    def depth_of(self, values: Iterable[SSAValue], symbols: Iterable[sympy.Symbol] = ()) -> int:
        """The outermost scope in which something made of these does not change."""
        depth = 0
        for v in values:
            depth = max(depth, self._depth.get(v, 0))
        for s in symbols:
            depth = max(depth, self._dim_depth.get(s, 0))
        return depth

    def recall(self, key: Any) -> Any:
        """What was remembered under `key` in an open scope."""
        for scope in self.scopes:
            found = scope.known.get(key)
            if found is not None:
                return found
        return None

    def remember(self, key: Any, values: tuple[SSAValue, ...]) -> None:
        """Remember `values` under `key`, as long as all of them live."""
        self.scopes[self.depth_of(values)].known[key] = values

    # Ops

    def op(
        self,
        cls: type[Operation],
        operands: Sequence[SSAValue],
        types: Sequence[Attribute],
        properties: Mapping[str, Attribute],
        location: Any,
        symbols: Iterable[sympy.Symbol] = (),
        attributes: Mapping[str, Attribute] | None = None,
    ) -> Operation:
        """The op with these parts, new or known."""
        key = (cls, *operands, *properties.values(), *types)
        depth = self.depth_of(operands, symbols)
        known = self.scopes[depth].known
        found = known.get(key)
        if found is not None:
            return found
        new = cls.create(
            operands=operands,
            result_types=types,
            properties=properties,
            attributes=attributes or {},
            location=location,
        )
        self._append(new, depth)
        known[key] = new
        return new

    def value(
        self, cls: type[Operation], operands: Sequence[SSAValue], t: Attribute, location: Any, **p: Attribute
    ) -> SSAValue:
        """The result of an op with one result."""
        return self.op(cls, operands, (t,), p, location).results[0]

    def constant(self, value: Attribute, location: Any) -> SSAValue:
        return self.value(arith.ConstantOp, (), value.type, location, value=value)  # pyright: ignore

    def zero(self, t: Attribute, location: Any) -> SSAValue:
        return self.constant(zero_of(t), location)

    # Index operands: an i64 value used in an index expression has one symbol for the whole kernel

    def symbol_of(self, v: SSAValue) -> Any:
        """How index expressions name a value: by what it is known to be, or by a symbol of its own."""
        if isinstance(v.owner, IndexOp):
            return v.owner.value[0]
        s = self._operand_symbols.get(v)
        if s is None:
            s = self._operand_symbols[v] = expr.symbol(f"v{len(self._operands)}")
            self._operands[s] = v
        return s

    def _index_operands(self, index: Index) -> tuple[IndexAttr, list[SSAValue], set[sympy.Symbol]]:
        """The attribute with its operands numbered from v0, the operands, and all symbols."""
        symbols: set[sympy.Symbol] = set()
        for e in index:
            symbols |= expr.symbols(e)
        used = sorted((s for s in symbols if is_index_operand(s)), key=lambda s: int(s.name[1:]))
        if not used:
            return IndexAttr.get(index), [], symbols
        renamed = {s: expr.symbol(f"v{i}") for i, s in enumerate(used)}
        if any(a is not b for a, b in renamed.items()):
            index = tuple(expr.substitute(e, renamed) for e in index)
        return IndexAttr.get(index), [self._operands[s] for s in used], symbols

    def integer(self, e: Dim, location: Any) -> SSAValue:
        """An index expression as an i64; where index operands are part of it, in arithmetic."""
        symbols = expr.symbols(e)
        if not any(map(is_index_operand, symbols)):
            return self.op(IndexOp, (), (i64,), {"value": IndexAttr.get([e])}, location, symbols).results[0]
        if e in self._operands:
            return self._operands[e]  # pyright: ignore[reportArgumentType]
        if isinstance(e, (sympy.Add, sympy.Mul)):
            cls = arith.AddiOp if isinstance(e, sympy.Add) else arith.MuliOp
            dynamic = [a for a in e.args if any(map(is_index_operand, expr.symbols(a)))]
            fixed = expr.normal(e.func(*(a for a in e.args if a not in dynamic)))
            parts = [self.integer(a, location) for a in dynamic]  # pyright: ignore[reportArgumentType]
            if fixed != (0 if cls is arith.AddiOp else 1):
                parts.append(self.integer(fixed, location))
            result = parts[0]
            for part in parts[1:]:
                result = self.value(cls, (result, part), i64, location)
            return result
        assert isinstance(e, sympy.Basic)
        a, b = (self.integer(expr.normal(x), location) for x in e.args)
        match type(e).__name__:
            case "FloorDiv":
                return self.value(arith.FloorDivSIOp, (a, b), i64, location)
            case "Mod" | "PythonMod":
                whole = self.value(
                    arith.MuliOp, (self.value(arith.FloorDivSIOp, (a, b), i64, location), b), i64, location
                )
                return self.value(arith.SubiOp, (a, whole), i64, location)
            case "Max":
                return self.value(arith.MaxSIOp, (a, b), i64, location)
            case "Min":
                return self.value(arith.MinSIOp, (a, b), i64, location)
            case other:
                raise AssertionError(f"no arithmetic for {other} in {expr.text(e)}")

    # Predicates

    def test(self, relations: tuple[Any, ...], location: Any) -> SSAValue | None:
        """The truth of a conjunction as an i1; None if it is empty."""
        fixed = [r for r in relations if not any(map(is_index_operand, r.free_symbols))]
        result: SSAValue | None = None
        if fixed:
            symbols = {s for r in fixed for s in r.free_symbols}
            result = self.op(PredOp, (), (i1,), {"value": PredAttr.get(fixed)}, location, symbols).results[0]
        for r in relations:
            if r not in fixed:
                result = self.both(result, self._compare(r, location), location)
        return result

    def _compare(self, r: Any, location: Any) -> SSAValue:
        if isinstance(r, (sympy.And, sympy.Or)):
            cls = arith.AndIOp if isinstance(r, sympy.And) else arith.OrIOp
            first, *rest = (self._compare(a, location) for a in r.args)
            for part in rest:
                first = self.value(cls, (first, part), i1, location)
            return first
        predicate = {sympy.Eq: 0, sympy.Ne: 1, sympy.Lt: 2, sympy.Le: 3, sympy.Gt: 4, sympy.Ge: 5}[type(r)]
        operands = (self.integer(expr.normal(r.lhs), location), self.integer(expr.normal(r.rhs), location))
        return self.value(arith.CmpiOp, operands, i1, location, predicate=IntegerAttr(predicate, 64))

    def both(self, a: SSAValue | None, b: SSAValue | None, location: Any) -> SSAValue | None:
        """`a and b`, None being true."""
        if a is None or b is None or a is b:
            return a or b
        return self.value(arith.AndIOp, (a, b), i1, location)

    def meet(self, a: Guard, b: Guard, location: Any) -> Guard:
        """Both guards."""
        if a.always or b.always:
            return b if a.always else a
        return Guard(tuple(dict.fromkeys((*a.relations, *b.relations))), self.both(a.ok, b.ok, location))

    def guard(self, relations: Sequence[Any], ok: SSAValue | None, location: Any) -> Guard | None:
        """A guard with what is known decided; None if it never holds."""
        left = self.facts.conjunction(relations) if relations else ()
        if left is None:
            return None
        dynamic = tuple(r for r in left if any(map(is_index_operand, r.free_symbols)))
        if dynamic:
            left = tuple(r for r in left if r not in dynamic)
            ok = self.both(ok, self.test(dynamic, location), location)
        return Guard(left, ok)

    # Memory

    def load(self, buffer: SSAValue, index: Index, guard: Guard, other: Attribute | None, location: Any) -> SSAValue:
        """An element of a buffer."""
        t = buffer.type
        assert isinstance(t, TensorType)
        attribute, operands, symbols = self._index_operands(index)
        for r in guard.relations:
            symbols |= r.free_symbols
        mask = PredAttr.get(guard.relations) if guard.relations else None
        parts = [buffer, *operands] if guard.ok is None else [buffer, *operands, guard.ok]
        key = (LoadOp, *parts, attribute, mask, guard.ok is None, other)
        depth = self.depth_of(parts, symbols)
        known = self.scopes[depth].known
        found = known.get(key)
        if found is None:
            found = known[key] = LoadOp.make(
                buffer, attribute, operands, mask=mask, ok=guard.ok, other=other, location=location
            )
            self._append(found, depth)
        return found.results[0]

    def store(
        self,
        value: SSAValue,
        buffer: SSAValue,
        index: Index,
        location: Any,
        ok: SSAValue | None = None,
        combine: str | None = None,
    ) -> None:
        """Write an element in the innermost scope."""
        attribute, operands, _ = self._index_operands(index)
        self._append(
            StoreOp.make(value, buffer, attribute, operands, ok=ok, combine=combine, location=location),
            len(self.scopes) - 1,
        )

    def check(self, ok: SSAValue, message: StringAttr, guard: Guard, location: Any) -> None:
        """`loop.assert`, wherever `guard` holds."""
        if not guard.always:
            holds = self.both(self.test(guard.relations, location), guard.ok, location)
            assert holds is not None
            true = self.constant(IntegerAttr(1, i1), location)
            fails = self.value(arith.XOrIOp, (holds, true), i1, location)
            ok = self.value(arith.OrIOp, (ok, fails), i1, location)
        self.op(AssertOp, (ok,), (), {"message": message}, location)

    def scan(self, kind: str, v: SSAValue, dim: str, location: Any) -> SSAValue:
        """The running value along a dim of the innermost loop."""
        op = ScanOp.create(
            operands=[v],
            result_types=[v.type],
            properties={"kind": StringAttr(kind), "dim": StringAttr(dim)},
            location=location,
        )
        self._append(op, len(self.scopes) - 1)
        return op.res

    def sort(self, v: SSAValue, buffer: SSAValue, dim: str, count: Dim, location: Any) -> None:
        """The `count` least values along the dim of the innermost loop, into a buffer."""
        properties = {"dim": StringAttr(dim), "first": IndexAttr.get([count])}
        self._append(
            SortOp.create(operands=[v, buffer], properties=properties, location=location), len(self.scopes) - 1
        )

    def scratch(self, t: TensorType, location: Any) -> SSAValue:
        """A buffer of one point of the innermost loop."""
        op = ScratchOp.create(result_types=[t], location=location)
        self._append(op, len(self.scopes) - 1)
        return op.res


def zero_of(t: Attribute) -> Attribute:
    """The 0 of a scalar type."""
    return IntegerAttr(0, t) if t.name == "integer_type" else FloatAttr(0.0, t)  # pyright: ignore
