"""Code of one Triton program under construction: tiles of values, each once, in the outermost place it may stand.

A value is a scalar, or a tensor whose dims are the axes of the loops around it, outermost first, with size 1 where it
does not change. Axes are only ever added at the end, so a value from further out is made to fit by dims of size 1.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import UNKNOWN_LOC, FloatAttr, IntegerAttr, IntegerType, LocationAttr, i1, i32
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from ..dialects import tt
from ..dialects.arith_tensors import predicate_attr
from ..dialects.tt_types import element_of, i32_array, shape_of, tensor

Shape = tuple[int, ...]


@cache
def flags() -> Attribute:
    """No fast-math."""
    return arith.FastMathFlagsAttr("none")


def joint(shapes: Iterable[Shape]) -> Shape:
    """The shape that values of all these shapes fit."""
    result: list[int] = []
    for shape in shapes:
        result += [1] * (len(shape) - len(result))
        for i, n in enumerate(shape):
            result[i] = max(result[i], n)
    return tuple(result)


@dataclass(eq=False, slots=True)
class _Scope:
    """A block under construction and what is known in it; code of an isolated one sees nothing outside."""

    block: Block
    isolated: bool = False
    known: dict[Any, Any] = field(default_factory=dict[Any, Any])


class TtBuilder:
    """Appends ops to the blocks of one function."""

    def __init__(self, block: Block) -> None:
        self.scopes = [_Scope(block)]
        self.depths: dict[SSAValue, int] = {}
        self.location: LocationAttr = UNKNOWN_LOC

    # Scopes

    @contextmanager
    def scope(self, block: Block, isolated: bool = False) -> Generator[None]:
        """Write in `block`."""
        self.scopes.append(_Scope(block, isolated))
        for a in block.args:
            self.depths[a] = len(self.scopes) - 1
        try:
            yield
        finally:
            self.scopes.pop()

    def recall(self, key: Any) -> Any:
        """What was remembered under `key` in a scope that is open."""
        for scope in reversed(self.scopes):
            found = scope.known.get(key)
            if found is not None:
                return found
            if scope.isolated:
                break
        return None

    def remember(self, key: Any, value: Any) -> None:
        """Keep `value` under `key` as long as the innermost scope is open."""
        self.scopes[-1].known[key] = value

    def _depth(self, operands: Sequence[SSAValue]) -> int:
        floor = next((i for i in range(len(self.scopes) - 1, -1, -1) if self.scopes[i].isolated), 0)
        return max([floor, *(self.depths.get(v, 0) for v in operands)])

    # Ops

    def effect(
        self,
        cls: type[Operation],
        operands: Sequence[SSAValue],
        types: Sequence[Attribute] = (),
        properties: Mapping[str, Attribute] = {},
        regions: Sequence[Region] = (),
    ) -> Operation:
        """An op that stands where it is written."""
        return self._append(cls, operands, types, properties, regions, len(self.scopes) - 1)

    def insert(self, op: Operation) -> Operation:
        """The same for an op that is made already."""
        op.location = self.location
        self.scopes[-1].block.add_op(op)
        for r in op.results:
            self.depths[r] = len(self.scopes) - 1
        return op

    def _append(
        self,
        cls: type[Operation],
        operands: Sequence[SSAValue],
        types: Sequence[Attribute],
        properties: Mapping[str, Attribute],
        regions: Sequence[Region],
        depth: int,
    ) -> Operation:
        op = cls.create(
            operands=operands, result_types=types, properties=properties, regions=regions, location=self.location
        )
        self.scopes[depth].block.add_op(op)
        for r in op.results:
            self.depths[r] = depth
        return op

    def pure(
        self,
        cls: type[Operation],
        operands: Sequence[SSAValue],
        type: Attribute,
        properties: Mapping[str, Attribute] = {},
    ) -> SSAValue:
        """The result of an op without effects: an equal one's, or a new one's, as far out as it can stand."""
        key = (cls, *operands, type, *properties.values())
        depth = self._depth(operands)
        found = self.scopes[depth].known.get(key)
        if found is None:
            op = self._append(cls, operands, (type,), properties, (), depth)
            found = self.scopes[depth].known[key] = op.results[0]
        return found

    def constant(self, value: float | int, type: Attribute) -> SSAValue:
        """A scalar constant."""
        if isinstance(type, IntegerType):
            bits = type.width.data
            wrapped = (
                ((int(value) + (1 << (bits - 1))) % (1 << bits)) - (1 << (bits - 1)) if bits > 1 else int(value) & 1
            )
            attribute: Attribute = IntegerAttr(wrapped, type)
        else:
            attribute = FloatAttr(value, type)  # pyright: ignore
        return self.pure(arith.ConstantOp, (), type, {"value": attribute})

    def literal(self, attribute: IntegerAttr[IntegerType] | FloatAttr[Any]) -> SSAValue:
        """A scalar constant of an attribute."""
        return self.constant(attribute.value.data, attribute.type)

    # Shapes

    def fit(self, v: SSAValue, shape: Shape) -> SSAValue:
        """`v` in a larger shape."""
        own = shape_of(v.type)
        if own == shape:
            return v
        if not own:
            return self.pure(tt.SplatOp, (v,), tensor(v.type, shape))
        for axis in range(len(own), len(shape)):
            own = (*own, 1)
            type = tensor(element_of(v.type), own)
            v = self.pure(tt.ExpandDimsOp, (v,), type, {"axis": IntegerAttr(axis, i32)})
        return v if own == shape else self.pure(tt.BroadcastOp, (v,), tensor(element_of(v.type), shape))

    def together(self, values: Sequence[SSAValue]) -> list[SSAValue]:
        """Values in one shape."""
        shape = joint(shape_of(v.type) for v in values)
        return [self.fit(v, shape) for v in values]

    def elementwise(
        self,
        cls: type[Operation],
        operands: Sequence[SSAValue],
        element: Attribute | None = None,
        properties: Mapping[str, Attribute] = {},
    ) -> SSAValue:
        """An op on elements of values that are made to fit; `element` is the result's, else the last operand's."""
        operands = self.together(operands)
        shape = shape_of(operands[0].type)
        return self.pure(cls, operands, tensor(element or element_of(operands[-1].type), shape), properties)

    def reorder(self, v: SSAValue, order: Sequence[int], rank: int) -> SSAValue:
        """A tensor whose dim k is dim order[k] of `v`, without dims of size 1 from `rank` on."""
        shape, element = shape_of(v.type), element_of(v.type)
        if list(order) != list(range(len(shape))):
            shape = tuple(shape[i] for i in order)
            v = self.pure(tt.TransOp, (v,), tensor(element, shape), {"order": i32_array(*order)})
        return v if rank >= len(shape) else self.pure(tt.ReshapeOp, (v,), tensor(element, shape[:rank]))

    def split_last(self, v: SSAValue, size: int) -> SSAValue:
        """A tensor whose last dim is split in two, of which the last has `size` elements."""
        shape = shape_of(v.type)
        return self.pure(tt.ReshapeOp, (v,), tensor(element_of(v.type), (*shape[:-1], shape[-1] // size, size)))

    def spread(self, v: SSAValue, shape: Shape) -> SSAValue:
        """A tensor repeated along a new dim before its last one."""
        own, element = shape_of(v.type), element_of(v.type)
        wide = (*own[:-1], 1, own[-1])
        v = self.pure(tt.ExpandDimsOp, (v,), tensor(element, wide), {"axis": IntegerAttr(len(own) - 1, i32)})
        return v if wide == shape else self.pure(tt.BroadcastOp, (v,), tensor(element, shape))

    def lanes(self, size: int, axis: int) -> SSAValue:
        """0 to `size` - 1 along an axis, with size 1 along those before it."""
        ends = {"start": IntegerAttr(0, i32), "end": IntegerAttr(size, i32)}
        v = self.pure(tt.MakeRangeOp, (), tensor(i32, (size,)), ends)
        own: Shape = (size,)
        for _ in range(axis):
            own = (1, *own)
            v = self.pure(tt.ExpandDimsOp, (v,), tensor(i32, own), {"axis": IntegerAttr(0, i32)})
        return v

    # Arithmetic

    def integer(self, cls: type[Operation], x: SSAValue, y: SSAValue) -> SSAValue:
        """An op of `arith` on two integers of one type."""
        properties: dict[str, Attribute] = {}
        if cls in _OVERFLOW:
            properties["overflowFlags"] = arith.IntegerOverflowAttr("none")
        return self.elementwise(cls, (x, y), properties=properties)

    def float(self, cls: type[Operation], *operands: SSAValue) -> SSAValue:
        """An op of `arith` or `math` on floats of one type."""
        return self.elementwise(cls, operands, properties={"fastmath": flags()})

    def compare(self, predicate: str, x: SSAValue, y: SSAValue) -> SSAValue:
        """i1: `slt` and the like of integers, `olt` and the like of floats."""
        if isinstance(element_of(x.type), IntegerType):
            properties: dict[str, Attribute] = {"predicate": predicate_attr(INTEGER_PREDICATES.index(predicate))}
            return self.elementwise(arith.CmpiOp, (x, y), i1, properties)
        properties = {"predicate": predicate_attr(FLOAT_PREDICATES.index(predicate)), "fastmath": flags()}
        return self.elementwise(arith.CmpfOp, (x, y), i1, properties)

    def select(self, condition: SSAValue, x: SSAValue, y: SSAValue) -> SSAValue:
        return x if x is y else self.elementwise(arith.SelectOp, (condition, x, y))

    def both(self, x: SSAValue | None, y: SSAValue | None) -> SSAValue | None:
        """`x and y` of i1, None being true."""
        if x is None or y is None or x is y:
            return y if x is None else x
        return self.integer(arith.AndIOp, x, y)

    def invert(self, x: SSAValue) -> SSAValue:
        """`not x` of i1."""
        return self.integer(arith.XOrIOp, x, self.constant(1, i1))

    def cast(self, cls: type[Operation], x: SSAValue, element: Attribute) -> SSAValue:
        """A conversion by an op of `arith` or `tt`."""
        return x if element_of(x.type) == element else self.elementwise(cls, (x,), element)

    def resize(self, x: SSAValue, type: IntegerType, signed: bool = True) -> SSAValue:
        """An integer of another width."""
        old = element_of(x.type)
        assert isinstance(old, IntegerType)
        if old.width.data > type.width.data:
            return self.cast(arith.TruncIOp, x, type)
        return self.cast(arith.ExtSIOp if signed else arith.ExtUIOp, x, type)

    # Loops

    def loop(
        self,
        start: SSAValue,
        end: SSAValue,
        step: SSAValue,
        initial: Sequence[SSAValue],
        body: Callable[[SSAValue, Sequence[SSAValue]], Sequence[SSAValue]],
        stages: Attribute | None = None,
    ) -> list[SSAValue]:
        """`scf.for`: `body(i, values)` gives the next values, which have the types of the first ones. Triton has loads
        of so many turns, less one, under way where `stages` are said: elsewhere those of factors of products alone.
        """
        block = Block(arg_types=[start.type, *(v.type for v in initial)])
        with self.scope(block):
            results = body(block.args[0], block.args[1:])
            self.effect(scf.YieldOp, results)
        types = [v.type for v in initial]
        loop = self.effect(scf.ForOp, [start, end, step, *initial], types, {}, [Region(block)])
        if isinstance(stages, IntegerAttr):
            loop.attributes["tt.num_stages"] = IntegerAttr(stages.value.data, i32)
        return list(loop.results)

    def across(
        self,
        cls: type[Operation],
        end: type[Operation],
        values: Sequence[SSAValue],
        axis: int,
        types: Sequence[Attribute],
        combine: Callable[[Sequence[SSAValue], Sequence[SSAValue]], Sequence[SSAValue]],
        properties: Mapping[str, Attribute] = {},
    ) -> list[SSAValue]:
        """`tt.reduce` or `tt.scan` along an axis: `combine(a, b)` of two lists of scalars, `a` coming first."""
        elements = [element_of(v.type) for v in values]
        block = Block(arg_types=[*elements, *elements])
        with self.scope(block, isolated=True):
            self.effect(end, combine(block.args[: len(values)], block.args[len(values) :]))
        properties = {"axis": IntegerAttr(axis, i32), **properties}
        return list(self.effect(cls, values, types, properties, [Region(block)]).results)


_OVERFLOW = (arith.AddiOp, arith.SubiOp, arith.MuliOp, arith.ShLIOp)
INTEGER_PREDICATES = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
FLOAT_PREDICATES = (
    *("false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord"),
    *("ueq", "ugt", "uge", "ult", "ule", "une", "uno", "true"),
)
