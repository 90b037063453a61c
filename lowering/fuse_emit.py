"""From a plan to a `loop.kernel`: loops opened in order, bodies of nests written into them by substituting dims."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import sympy
from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, i1
from xdsl.ir import Attribute, Block, SSAValue
from xdsl.traits import IsTerminator

from ..dialects import expr
from ..dialects.expr import Dim
from ..dialects.loop import (
    AssertOp,
    DimsAttr,
    EndOp,
    ForOp,
    IndexAttr,
    IndexOp,
    KernelOp,
    LoadOp,
    LoopDim,
    PredAttr,
    PredOp,
    ScanOp,
    ScatterOp,
    SortOp,
    StoreOp,
    YieldAtOp,
)
from ..dialects.tensor import TensorType
from .fuse_body import ALWAYS, BodyBuilder, Guard, zero_of
from .fuse_graph import Binding, Index, Node, load_parts, tensor_type
from .fuse_index import invert
from .fuse_plan import Loop, Plan
from .fuse_scatter import UpdateOrder, update_order
from .fuse_symbols import canonical_sizes, symbols_of
from .sorting import candidates, room


@dataclass(eq=False, slots=True)
class EmittedKernel:
    """A kernel, the values it reads in the order of its arguments, and the expressions of its sizes in the function."""

    op: KernelOp
    ins: list[SSAValue]
    outs: list[SSAValue]
    sizes: list[Any]


class KernelEmitter:
    """Writes one kernel. `absorbed` are the pointwise nests that are computed where they are read."""

    def __init__(self, plan: Plan, absorbed: Mapping[SSAValue, Node], location: Any) -> None:
        self.plan, self.absorbed, self.location = plan, absorbed, location
        self.members = {r: n for n in plan.group.members for r in n.results}
        self.symbols = symbols_of(plan, absorbed)
        self.sizes = canonical_sizes(self.symbols)
        self.grid = self._dims(plan.group.grid)
        self.builder = BodyBuilder(self.grid)
        self.block = Block(arg_types=[self._type(tensor_type(v)) for v in plan.outs])
        self.ins: dict[SSAValue, SSAValue] = {}
        self.targets: dict[SSAValue, tuple[SSAValue, Index]] = {}
        self.ready: dict[SSAValue, tuple[SSAValue, tuple[Any, ...] | None]] = {}
        """Values that later loops read from a buffer; None for the axes of a buffer that has the tensor's shape."""
        self.scalars: dict[SSAValue, SSAValue] = {}

    # Names and types

    def _dims(self, axes: tuple[int, ...]) -> tuple[LoopDim, ...]:
        dims = self.plan.dims(axes)
        if not self.sizes:
            return dims
        return tuple(
            LoopDim(d.name, expr.substitute(d.lo, self.sizes), expr.substitute(d.hi, self.sizes)) for d in dims
        )

    def _type(self, t: TensorType) -> TensorType:
        if not self.sizes or not any(not isinstance(d, int) for d in (*t.shape, *t.strides)):
            return t
        strides = None if t.is_contiguous else [expr.substitute(s, self.sizes) for s in t.strides]
        return (
            t.with_(shape=[expr.substitute(d, self.sizes) for d in t.shape])
            if strides is None
            else TensorType.get([expr.substitute(d, self.sizes) for d in t.shape], t.dtype, strides, t.device)
        )

    def _binding(self, n: Node) -> Binding:
        return self.plan.binding(n) | self.sizes if self.sizes else self.plan.binding(n)

    def _buffer(self, source: SSAValue) -> SSAValue:
        """The argument that holds a tensor from outside."""
        arg = self.ins.get(source)
        if arg is None:
            arg = self.block.insert_arg(self._type(tensor_type(source)), len(self.ins), self.location)
            arg.name_hint = f"x{len(self.ins)}"
            self.ins[source] = arg
        return arg

    # The kernel

    def emit(self, name: str, attributes: dict[str, Attribute]) -> EmittedKernel:
        """The kernel `name` with the plan's loops."""
        plan = self.plan
        for i, (v, arg) in enumerate(zip(plan.outs, self.block.args, strict=True)):
            arg.name_hint = f"y{i}"
            self.targets[v] = (arg, ())
        turns = plan.group.turns
        if turns:
            self._start_sums()
            self.builder.open(self._dims(turns))
        for v in plan.scratch:
            self._make_scratch(v)
        for loop in plan.loops:
            self._loop(loop)
        if turns:
            self.builder.close((), (), (), self.location)
        scope = self.builder.scopes[0]
        self.block.add_ops([*scope.ops, EndOp.create(location=self.location)])
        drop_unused(self.block)
        sizes = IndexAttr.get(self.sizes.get(s, s) for s in self.symbols)
        kernel = KernelOp.make(
            name,
            self.block,
            len(self.ins),
            sizes,
            DimsAttr.get(self.grid),
            attributes=attributes,
            location=self.location,
        )
        return EmittedKernel(kernel, list(self.ins), plan.outs, self.symbols)

    def _start_sums(self) -> None:
        """Set what the rows are added up in to 0."""
        b, group = self.builder, self.plan.group
        loops: dict[tuple[int, ...], list[Node]] = {}
        for n in group.members:
            if group.adds_up(n):
                loops.setdefault(group.inner(n), []).append(n)
        for inner, nodes in loops.items():
            if inner:
                b.open(self._dims(inner))
            for n in nodes:
                self._store(n, (b.zero(tensor_type(n.results[0]).element, n.op.location),))
            if inner:
                b.close((), (), (), nodes[0].op.location)

    def _make_scratch(self, v: SSAValue) -> None:
        n = self.members[v]
        axes = self.plan.group.inner(n)
        shape = [cast(int, self.plan.group.extent(a)) for a in axes]
        buffer = self.builder.scratch(TensorType.get(shape, tensor_type(v).dtype), n.op.location)
        self.targets[v] = (buffer, tuple(self.plan.symbol(a) for a in axes))

    def _loop(self, loop: Loop) -> None:
        if isinstance(loop.nodes[0].op, ScatterOp):
            self._scatter(loop.nodes[0])
            return
        if loop.nodes[0].sorts:
            for n in loop.nodes:
                self._sort(n)
            return
        b, group = self.builder, self.plan.group
        if loop.axes:
            b.open(self._dims(loop.axes))
        if loop.nested:
            b.open(self._dims(loop.nested))
        stores: list[tuple[Node, tuple[SSAValue, ...]]] = []
        reduced: list[tuple[Node, tuple[SSAValue, ...]]] = []
        for n in loop.nodes:
            values = self._inline(n, self._binding(n), ALWAYS)
            if n.scan is not None:
                values = tuple(self._scan(n, kind, v) for kind, v in zip(n.combine, values, strict=True))
            (reduced if n.reduce and not group.adds_up(n) else stores).append((n, values))
        for n, values in stores:
            self._store(n, values, "add" if group.adds_up(n) else None)
        results = iter(self._close(loop, reduced))
        for n, _ in reduced:
            values = tuple(next(results) for _ in n.results)
            if not group.inner(n):
                self.scalars.update(zip(n.results, values, strict=True))
            self._store(n, values)
        if loop.nested:
            b.close((), (), (), loop.nodes[0].op.location)
        for n in loop.nodes:
            self._publish(n)

    def _close(self, loop: Loop, reduced: list[tuple[Node, tuple[SSAValue, ...]]]) -> tuple[SSAValue, ...]:
        """End the loop over the reduced axes, or over all where nothing is nested; its reductions' results."""
        if not loop.axes:
            return tuple(v for _, values in reduced for v in values)
        kinds = [k for n, _ in reduced for k in n.combine]
        values = [v for _, vs in reduced for v in vs]
        types = [tensor_type(r).element for n, _ in reduced for r in n.results]
        return tuple(self.builder.close(kinds, values, types, loop.nodes[0].op.location).results)

    def _scan(self, n: Node, kind: str, v: SSAValue) -> SSAValue:
        axis = next(a for a, d in zip(self.plan.group.axes[n], n.dims, strict=False) if d.name == n.scan)
        return self.builder.scan(kind, v, self.plan.names[axis], n.op.location)

    def _sort(self, n: Node) -> None:
        """Order what the nest yields in a buffer of its own, then store its first elements where they are read."""
        b, group, location = self.builder, self.plan.group, n.op.location
        (result,), binding = n.results, self._binding(n)
        (places,) = (a for a, d in zip(group.axes[n], n.dims, strict=False) if d.name == n.scan)
        (row,) = self._dims(group.reduced(n))
        dtype, (place,) = tensor_type(result).dtype, self._dims((places,))
        size = room(candidates(row.extent, place.extent, dtype), dtype)
        buffer = b.scratch(TensorType.get([expr.normal(size)], dtype), location)
        b.open((row,))
        (value,) = self._inline(n, binding, ALWAYS)
        b.sort(value, buffer, row.name, place.extent, location)
        b.close((), (), (), location)
        b.open((place,))
        self._store(n, (b.load(buffer, (place.symbol,), ALWAYS, None, location),))
        b.close((), (), (), location)
        self._publish(n)

    def _store(self, n: Node, values: tuple[SSAValue, ...], combine: str | None = None) -> None:
        for r, v in zip(n.results, values, strict=True):
            target = self.targets.get(r)
            if target is not None:
                buffer, axes = target
                index = axes or tuple(expr.substitute(e, self._binding(n)) for e in n.index)
                index = index if tensor_type(buffer).rank else ()
                self.builder.store(v, buffer, index, n.op.location, combine=combine)

    def _publish(self, n: Node) -> None:
        """From now on read from buffers what has been stored, unless it is a scalar of the grid point."""
        for r in n.results:
            target = self.targets.get(r)
            if target is not None and r not in self.scalars and self.plan.group.inner(n):
                self.ready[r] = (target[0], target[1] or None)

    def _scatter(self, n: Node) -> None:
        """Copy the base, then apply the updates; a grid point copies what it updates."""
        op = cast(ScatterOp, n.op)
        b, out, order = self.builder, self.block.args[-1], update_order(n)
        axes = self.plan.group.axes[n]
        index, dims = self._target_dims(n, order)
        if dims:
            b.open(dims)
        b.store(self._read(op.base, index, ALWAYS, ALWAYS, None, op.location), out, index, op.location)
        if dims:
            b.close((), (), (), op.location)
        loops = [self._dims(tuple(axes[i] for i in part)) for part in (order.ordered, order.free) if part]
        for dims in loops:
            b.open(dims)
        binding = self._binding(n)
        (value,) = self._inline(n, binding, ALWAYS)
        at = cast(YieldAtOp, op.body.block.last_op)
        index = self._bound(at.index.data.items, binding, [self._last_values[i] for i in at.indices])
        b.store(value, out, index, op.location, combine=None if op.combine.data == "none" else op.combine.data)
        for _ in loops:
            b.close((), (), (), op.location)

    def _target_dims(self, n: Node, order: UpdateOrder) -> tuple[Index, list[LoopDim]]:
        """An index that runs over a scatter's target, along its own dims where they do, and the loops for it."""
        axes = self.plan.group.axes[n]
        shape = tensor_type(self.block.args[-1]).shape
        taken = {self.plan.names[a] for a in axes}
        unused = iter(name for name in (f"d{i}" for i in range(len(shape) + len(taken))) if name not in taken)
        index: list[Dim] = []
        dims: list[LoopDim] = []
        for place, size in enumerate(shape):
            i = order.places.get(place)
            d = LoopDim(next(unused), 0, size) if i is None else self._dims((axes[i],))[0]
            index.append(d.symbol)
            if i not in order.grid:
                dims.append(d)
        return tuple(index), dims

    # Bodies

    def _bound(self, index: Index, binding: Binding, operands: list[SSAValue]) -> Index:
        """Index expressions of a nest's body, in the kernel's dims and index symbols."""
        if operands:
            binding = binding | {expr.symbol(f"v{i}"): self.builder.symbol_of(v) for i, v in enumerate(operands)}
        if not binding:
            return index
        return tuple(self.builder.facts.simplify(expr.substitute(e, binding)) for e in index)

    def _inline(self, n: Node, binding: Binding, guard: Guard) -> tuple[SSAValue, ...]:
        """The values that a nest's body yields at the point that `binding` says."""
        b = self.builder
        key = (n, tuple(binding.get(d.symbol, d.symbol) for d in n.domain))
        found = b.recall(key) or b.recall((key, guard))
        if found is not None:
            return found
        values: dict[SSAValue, SSAValue] = {}
        for op in n.op.body.block.ops:
            if isinstance(op, LoadOp):
                values[op.results[0]] = self._load(op, values, binding, guard)
            elif isinstance(op, IndexOp):
                e = b.facts.simplify(expr.substitute(op.value[0], binding))
                values[op.res] = b.integer(e, op.location)
            elif isinstance(op, PredOp):
                values[op.res] = self._predicate(op, binding)
            elif isinstance(op, AssertOp):
                # checks that do not change along a loop move before it: no element may be there to be checked
                extents = (expr.substitute(d.extent, self.sizes) for d in n.domain)
                there = [sympy.Ge(e, 1) for e in extents]
                if sympy.false not in there:
                    relations = (*guard.relations, *(r for r in there if r != sympy.true))
                    b.check(values[op.ok], op.message, replace(guard, relations=relations), op.location)
            elif op.has_trait(IsTerminator):
                break
            else:
                operands = [values[o] for o in op.operands]
                types = [r.type for r in op.results]
                new = b.op(type(op), operands, types, op.properties, op.location, attributes=op.attributes)
                values.update(zip(op.results, new.results, strict=True))
        self._last_values = values
        last = n.op.body.block.last_op
        assert last is not None
        yields = last.operands[:1] if isinstance(last, YieldAtOp) else last.operands
        result = tuple(values[v] for v in yields)
        b.remember(key if guard.always else (key, guard), result)
        return result

    def _predicate(self, op: PredOp, binding: Binding) -> SSAValue:
        b = self.builder
        relations = b.facts.conjunction(expr.substitute(r, binding) for r in op.value)
        if not relations:
            return b.constant(IntegerAttr(int(relations is not None), i1), op.location)
        return cast(SSAValue, b.test(relations, op.location))

    def _load(self, op: LoadOp, values: dict[SSAValue, SSAValue], binding: Binding, guard: Guard) -> SSAValue:
        b, properties = self.builder, op.properties
        source, indices, ok = load_parts(op)
        at = cast(IndexAttr, properties["index"])
        index = self._bound(at.data.items, binding, [values[i] for i in indices])
        mask = cast("PredAttr | None", properties.get("mask"))
        if mask is None and ok is None:
            return self._read(source, index, guard, ALWAYS, None, op.location)
        relations = [expr.substitute(r, binding) for r in mask or ()]
        own = b.guard(relations, values[ok] if ok is not None else None, op.location)
        other = properties.get("other") or zero_of(op.results[0].type)
        if own is None:
            return b.constant(other, op.location)
        return self._read(source, index, guard, own, other, op.location)

    def _read(
        self, source: SSAValue, index: Index, guard: Guard, own: Guard, other: Attribute | None, location: Any
    ) -> SSAValue:
        """An element of a tensor, from wherever the kernel has it: `other` where `own` does not hold."""
        b = self.builder
        n = self.members.get(source) or self.absorbed.get(source)
        if n is None or source in self.ready:
            buffer, at = (self._buffer(source), index) if n is None else self._place(n, source, index)
            return b.load(buffer, at, b.meet(guard, own, location), None if own.always else other, location)
        value = self.scalars.get(source)
        if value is None:
            values = self._inline(n, self._rebind(n, index), b.meet(guard, own, location))
            value = values[n.results.index(source)]
        if own.always:
            return value
        holds = b.both(b.test(own.relations, location), own.ok, location)
        assert holds is not None and other is not None
        return b.value(arith.SelectOp, (holds, value, b.constant(other, location)), value.type, location)

    def _place(self, n: Node, source: SSAValue, index: Index) -> tuple[SSAValue, Index]:
        """Where a stored value of this grid point lies: in its tensor, or in a scratch buffer over its inner axes."""
        buffer, axes = self.ready[source]
        if axes is None:
            return buffer, index
        point = self._rebind(n, index)
        named = {self.plan.symbol(a): d.symbol for a, d in zip(self.plan.group.axes[n], n.dims, strict=False)}
        return buffer, tuple(point.get(named[s], named[s]) for s in axes)

    def _rebind(self, n: Node, index: Index) -> Binding:
        """The dims of a nest for which its value lies at `index`."""
        binding = invert(n, index, self.sizes)
        assert binding is not None
        if self.sizes:
            binding |= self.sizes
        return {d: self.builder.facts.simplify(e) for d, e in binding.items() if d is not e}


def drop_unused(block: Block) -> None:
    """Remove pure ops without uses, last first."""
    for op in reversed(list(block.ops)):
        if isinstance(op, ForOp):
            drop_unused(op.body.block)
        elif isinstance(op, (StoreOp, AssertOp, ScanOp, SortOp)) or op.has_trait(IsTerminator):
            continue
        elif all(r.first_use is None for r in op.results):
            op.detach()
            op.erase()
