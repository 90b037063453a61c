"""A function rebuilt at the loop level: the map from old values to new ones, and to accesses for what has no buffer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import cast

from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.ir import Attribute, BlockArgument, Operation, Region, SSAValue

from ..dialects import prims
from ..dialects.flow import FlowOp
from ..dialects.loop import DimsAttr, NestOp, ViewOp
from ..dialects.loop_syntax import kinds
from ..dialects.tensor import TensorType
from .index_polynomial import polynomial
from .index_simplify import is_plain
from .index_split import split_dims
from .prims_memory import is_alias
from .prims_to_loop_access import (
    Access,
    Layout,
    Load,
    alias,
    compose,
    dim_symbols,
    domain,
    layout,
    lies_in_order,
    of_value,
    tensor_type,
)
from .prims_to_loop_body import Body, index_attr

NO_DIMS = DimsAttr.get(())


@cache
def _kinds(names: tuple[str, ...]) -> ArrayAttr[StringAttr]:
    return kinds(names)


class Rebuild:
    """New ops in order, and what stands for each old value."""

    def __init__(self, split: bool, last_uses: Mapping[SSAValue, int]) -> None:
        """`last_uses`: the position of the last op that uses an old value."""
        self.ops: list[Operation] = []
        self.split = split
        self.position = 0
        """That of the old op that is being rebuilt."""
        self._last_uses = last_uses
        self._values: dict[SSAValue, SSAValue] = {}
        self._accesses: dict[SSAValue, Access] = {}
        self._storage: dict[SSAValue, SSAValue] = {}
        """What each new `loop.view`, or view that ATen makes, is a view of."""
        self._views: dict[SSAValue, list[SSAValue]] = {}
        """The old views over a new value."""

    # The map

    def define(self, old: SSAValue, new: SSAValue) -> None:
        """`new` stands for `old`."""
        self._values[old] = new
        self._accesses.pop(old, None)
        if new.name_hint is None:
            new.name_hint = old.name_hint

    def define_access(self, old: SSAValue, access: Access) -> None:
        """`old` is a view, of which there need not be a buffer."""
        self._accesses[old] = access
        for source in _sources(access):
            for storage in {source, self._storage.get(source, source)}:
                self._views.setdefault(storage, []).append(old)

    def access(self, old: SSAValue) -> Access:
        """The elements of a tensor."""
        known = self._accesses.get(old)
        if known is None:
            known = self._accesses[old] = of_value(self._values[old])
        return known

    def value(self, old: SSAValue, user: Operation, *, fresh: bool = False) -> SSAValue:
        """A new value for `old`, of its type: as it is, a strided view of another, or else a copy.

        With `fresh` a copy in the program (such as clone) is one: the result shares no storage with what was copied.
        """
        known = self._values.get(old)
        if known is not None:
            return known
        access = self._accesses[old]
        found = None if fresh and access.copied else alias(access, tensor_type(old))
        if found is None and not access.copied:
            found = self._reshaped(old, user)
        if found is None and not fresh:
            found = self._turned(old, user)
        if found is None:
            return self.copied(old, user)
        new = self._view(found, old, tensor_type(old), user)
        if not access.copied:  # another use may want it fresh
            self._values[old] = new
        return new

    def _turned(self, old: SSAValue, user: Operation) -> Layout | None:
        """Where the elements of a transposed tensor lie, if it is copied as what it transposes is, once for both."""
        op = old.owner
        if not isinstance(op, prims.TransposeOp):
            return None
        type, source = tensor_type(old), tensor_type(op.operand)
        if type.strides != tuple(source.strides[d] for d in cast("tuple[int, ...]", op.perm.data)):
            return None
        return Layout(self.value(op.operand, user), 0, type.strides)

    def _reshaped(self, old: SSAValue, user: Operation) -> Layout | None:
        """Where the elements of a tensor without gaps lie in another shape, of which no expression says that it has as
        many, or of one whose dims no expression says to follow one another: a guard of torch's does. What is copied has
        no steps between its elements.
        """
        op = old.owner
        if not isinstance(op, prims.ReshapeOp):
            return None
        type, source = tensor_type(old), tensor_type(op.operand)
        if source.is_contiguous:
            known = polynomial(type.numel) == polynomial(source.numel) or not lies_in_order(type)
        else:
            step = source.strides[-1] if source.rank else 1
            known = step in (0, 1) or not lies_in_order(type, step)
        if known:
            return None
        return Layout(self.value(op.operand, user), 0, type.strides)

    def copied(self, old: SSAValue, user: Operation) -> SSAValue:
        """A new value for the view `old` that shares no storage with anything."""
        body = Body(old.owner if isinstance(old.owner, Operation) else user)
        access, t = self._accesses[old], tensor_type(old)
        expanded = [stride == 0 and n not in (0, 1) for n, stride in zip(t.shape, t.strides, strict=True)]
        if not any(expanded):
            (new,) = self.nest(body, (body.element(access),), (t,))
        else:  # what expand repeats is computed once
            shape = tuple(1 if e else n for n, e in zip(t.shape, expanded, strict=True))
            index = tuple(0 if e else d for d, e in zip(dim_symbols(t.rank), expanded, strict=True))
            cases = compose(access, index, domain(shape).facts) or access.cases
            (once,) = self.nest(
                body,
                (body.element(access._replace(shape=shape, cases=cases)),),
                (TensorType.get(shape, t.dtype, t.strides, t.device),),
            )
            new = self._view(Layout(once, 0, t.strides), old, t, user)
        self.define(old, new)
        return new

    def merge(self, op: prims.ReshapeOp) -> None:
        """Make the reshape a `loop.view` where that spares floordiv and mod.

        Not of a nest's result: the nest may be fused, and then there is no tensor.
        """
        access = self._accesses[op.result]
        load = access.load
        if load is None or all(map(is_plain, load.at)) or isinstance(load.source.owner, NestOp):
            return
        found = layout(access)
        if found is None:
            return
        t = tensor_type(op.result)
        t = TensorType.get(t.shape, t.dtype, found.strides, t.device)
        new = self._view(found, op.result, t, op)
        self._accesses[op.result] = of_value(new)._replace(copied=access.copied)

    def _view(self, found: Layout, old: SSAValue, t: TensorType, user: Operation) -> SSAValue:
        """The elements of a storage that stand for `old`, as a tensor of type `t`."""
        if found.offset == 0 and found.source.type == t:
            return found.source
        view = ViewOp.create(
            operands=(found.source,),
            result_types=(t,),
            properties={"offset": index_attr((found.offset,))[0]},
            location=(old.owner if isinstance(old.owner, Operation) else user).location,
        )
        self.ops.append(view)
        self._storage[view.results[0]] = self._storage.get(found.source, found.source)
        view.results[0].name_hint = old.name_hint
        return view.results[0]

    def used_views(self, written: Iterable[SSAValue]) -> list[SSAValue]:
        """The old views over these new values, or over what they are parts of, that are not materialised, are used by
        this op or a later one, and must keep what was there: those that do not lie there, copies in the program among
        them, and all over an argument, which graphs write last, with no view of it as it is then.
        """
        found: dict[SSAValue, None] = {}
        for v in written:
            root = self._storage.get(v, v)
            given = isinstance(root, BlockArgument)
            views = (w for s in dict.fromkeys((v, root)) for w in self._views.get(s, ()))
            found.update((w, None) for w in views if given or not self._lies_there(w))
        return [v for v in found if v not in self._values and self._last_uses.get(v, -1) >= self.position]

    def _lies_there(self, old: SSAValue) -> bool:
        access = self._accesses.get(old)
        return access is None or (not access.copied and alias(access, tensor_type(old)) is not None)

    # Nests

    def nest(
        self,
        body: Body,
        values: Sequence[SSAValue],
        types: Sequence[TensorType],
        *,
        dims: DimsAttr | None = None,
        reduce: DimsAttr = NO_DIMS,
        combine: tuple[str, ...] = (),
        scan: str | None = None,
    ) -> Sequence[SSAValue]:
        """A nest that yields `values`; its dims are d0, d1, … over the shape of the results unless given."""
        properties: dict[str, Attribute] = {
            "dims": domain(types[0].shape).dims if dims is None else dims,
            "reduce": reduce,
            "combine": _kinds(combine),
        }
        if scan is not None:
            properties["scan"] = StringAttr(scan)
        nest = NestOp.create(
            result_types=types, properties=properties, regions=[Region(body.block(*values))], location=body.location
        )
        if self.split and (parts := split_dims(nest, body.plain)) is not nest:
            nest.erase()  # what it reads is not used by it
            nest = parts
        self.ops.append(nest)
        return nest.results

    def copy_op(self, op: Operation, operands: Sequence[SSAValue]) -> None:
        """The op as it is, on new operands."""
        if isinstance(op, FlowOp):
            new: Operation = op.rebuilt(operands)
        elif op.regions:
            for inner in (i for region in op.regions for i in region.walk()):
                for v in inner.operands:
                    if v in self._accesses or v in self._values:
                        self._values[v] = self.value(v, op)
            new = op.clone(dict(self._values))
        else:
            new = type(op).create(
                operands=operands,
                result_types=op.result_types,
                properties=op.properties,
                attributes=op.attributes,
                location=op.location,
            )
        self.ops.append(new)
        for old, result in zip(op.results, new.results, strict=True):
            self.define(old, result)
            if is_alias(op):
                self._storage[result] = self._storage.get(operands[0], operands[0])


def _sources(access: Access) -> list[SSAValue]:
    """The new values that an access reads."""
    return list(dict.fromkeys(case.leaf.source for case in access.cases if isinstance(case.leaf, Load)))
