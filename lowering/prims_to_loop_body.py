"""Scalar bodies: ops of arith, math and loop appended to one block, with the location of the op they come from."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any, NoReturn

from xdsl.dialects import arith
from xdsl.dialects.builtin import DenseArrayBase, FloatAttr, IntegerAttr, IntegerType, StringAttr, i1, i32, i64
from xdsl.ir import Attribute, Block, Operation, SSAValue

from ..dialects.errors import LamellaError, describe_location
from ..dialects.expr import Dim
from ..dialects.loop import AssertOp, FnOp, IndexAttr, IndexOp, LoadOp, PredAttr, PredOp, YieldOp
from ..dialects.tensor import is_complex, is_float, is_unsigned, scalar_type
from .index_simplify import is_plain
from .prims_to_loop_access import Access, Case, Constant, Load, Position


class UnsupportedDtype(LamellaError):
    """A scalar computation in a dtype that arith and math do not know."""


def is_computable(dtype: str) -> bool:
    """Whether arith and math compute in the dtype (or in one of its width)."""
    return not is_complex(dtype) and not dtype.startswith(("f8", "f4", "q"))


def dtype_class(dtype: str) -> int:
    """The column of a scalar table: 0 floats, 1 signed integers, 2 unsigned, 3 bool."""
    return 0 if is_float(dtype) else 3 if dtype == "i1" else 2 if is_unsigned(dtype) else 1


@cache
def default_properties(op: type[Operation]) -> dict[str, Attribute]:
    """The properties that an arith or math op has unless told otherwise (fast-math flags, overflow flags)."""
    definition = op.get_irdl_definition()  # pyright: ignore
    return {name: p.default_value for name, p in definition.properties.items() if p.default_value is not None}


@cache
def segments(*sizes: int) -> Attribute:
    return DenseArrayBase.from_list(i32, sizes)


@lru_cache(maxsize=1 << 14)
def index_attr(index: tuple[Dim, ...]) -> tuple[IndexAttr, bool]:
    """The attribute, and whether all expressions are free of floordiv and mod."""
    return IndexAttr.get(index), all(map(is_plain, index))


@lru_cache(maxsize=1 << 12)
def _integer_attr(value: int, width: int) -> Attribute:
    type = scalar_type(f"i{width}")
    if width == 1:
        return IntegerAttr(int(bool(value)), type)  # pyright: ignore[reportArgumentType, reportCallIssue]
    value &= (1 << width) - 1
    return IntegerAttr(value - (1 << width) if value >> (width - 1) else value, type)  # pyright: ignore


_float_attrs: dict[tuple[str, Attribute], Attribute] = {}


def number(value: Any, t: Attribute) -> Attribute:
    """The attribute of a number in a scalar type; integers wrap."""
    if isinstance(t, IntegerType):
        return _integer_attr(int(value), t.width.data)
    key = (repr(float(value)), t)  # -0.0 == 0.0 and nan != nan
    known = _float_attrs.get(key)
    if known is None:
        known = _float_attrs[key] = FloatAttr(float(value), t)  # pyright: ignore[reportArgumentType, reportCallIssue]
    return known


class Body:
    """The ops of one point."""

    def __init__(self, op: Operation) -> None:
        self.op = op
        self.location = op.location
        self.ops: list[Operation] = []
        self.plain = True
        """Whether no index needs floordiv or mod."""
        self._known: dict[Any, SSAValue] = {}

    def add(
        self, op: type[Operation], *operands: SSAValue, type: Attribute | None = None, **properties: Attribute
    ) -> SSAValue:
        """Append an op with one result, of the type of the first operand unless one is given."""
        new = op.create(
            operands=operands,
            result_types=(operands[0].type if type is None else type,),
            properties=default_properties(op) | properties if properties else default_properties(op),
            location=self.location,
        )
        self.ops.append(new)
        return new.results[0]

    def once(self, key: Any, op: type[Operation], type: Attribute, **properties: Attribute) -> SSAValue:
        """As `add` without operands, but one op for equal keys."""
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self.add(op, type=type, **properties)
        return known

    def constant(self, value: Any, t: Attribute) -> SSAValue:
        # keyed by text: -0.0 == 0.0
        return self.once((repr(value), t), arith.ConstantOp, t, value=number(value, t))

    def function(self, name: str, *operands: SSAValue) -> SSAValue:
        """A `loop.fn`."""
        return self.add(FnOp, *operands, fn=StringAttr(name))

    def compare(self, predicate: str, a: SSAValue, b: SSAValue) -> SSAValue:
        """arith.cmpf for float predicates (`oeq`, `olt`, `une`, …), else arith.cmpi (`eq`, `slt`, `ult`, …)."""
        if isinstance(a.type, IntegerType):
            return self.add(arith.CmpiOp, a, b, type=i1, predicate=_predicate(arith.CmpiOp, predicate))
        return self.add(arith.CmpfOp, a, b, type=i1, predicate=_predicate(arith.CmpfOp, predicate))

    def select(self, condition: SSAValue, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.add(arith.SelectOp, condition, a, b, type=a.type)

    def index(self, e: Dim) -> SSAValue:
        """An index expression as i64."""
        attribute, plain = index_attr((e,))
        self.plain &= plain
        return self.once(attribute, IndexOp, i64, value=attribute)

    def holds(self, relations: tuple[Any, ...]) -> SSAValue:
        """Whether all predicates hold, as i1."""
        self.plain &= all(map(is_plain, relations))
        return self.once(relations, PredOp, i1, value=PredAttr.get(relations))

    def convert(self, x: SSAValue, source: str, target: str) -> SSAValue:
        """`x` of one dtype in another, as C casts. Raises UnsupportedDtype."""
        for dtype in (source, target):
            if not is_computable(dtype):
                self.reject(dtype)
        return _convert(self, x, source, target)

    def check(self, ok: SSAValue, message: str) -> None:
        """Raise what `message` says where `ok` does not hold."""
        self.ops.append(
            AssertOp.create(operands=(ok,), properties={"message": StringAttr(message)}, location=self.location)
        )

    def reject(self, dtype: str) -> NoReturn:
        place = describe_location(self.location)
        raise UnsupportedDtype(
            f"'{self.op.name}' op on {dtype} has no scalar form; leave it to ATen{f' ({place})' if place else ''}"
        )

    # Elements of values

    def element(self, access: Access) -> SSAValue:
        """The element of a value at this point."""
        cases = access.cases
        last = cases[-1]
        first = len(cases) - 2
        if first >= 0 and isinstance(last.leaf, Constant) and isinstance(cases[first].leaf, Load):
            value = self._leaf(cases[first], access.dtype, last.leaf)
            first -= 1
        else:
            value = self._leaf(last, access.dtype)
        for case in reversed(cases[: first + 1]):
            value = self.select(self.holds(case.when), self._leaf(case, access.dtype), value)
        return value

    def _leaf(self, case: Case, dtype: str, other: Constant | None = None) -> SSAValue:
        match case.leaf:
            case Load(source, index):
                key = (case, other)
                known = self._known.get(key)
                if known is None:
                    default = None if other is None else self._number(other, dtype)
                    known = self._known[key] = self.load(source, index, mask=case.when, other=default)
                return known
            case Constant(value):
                t = scalar_type(dtype)
                return self.once((repr(value.value), t), arith.ConstantOp, t, value=self._number(case.leaf, dtype))
            case Position(value):
                return self.convert(self.index(value), "i64", dtype)

    def _number(self, constant: Constant, dtype: str) -> Attribute:
        """Of a dtype that is not computed in, whose elements are integers here, only zero is known to be that of 0."""
        value = constant.value.value
        if not is_computable(dtype) and (is_complex(dtype) or value != 0):
            self.reject(dtype)
        return number(value, scalar_type(dtype))

    def load(
        self,
        source: SSAValue,
        index: tuple[Dim, ...],
        vs: Sequence[SSAValue] = (),
        *,
        mask: Sequence[Any] = (),
        ok: SSAValue | None = None,
        other: Attribute | None = None,
    ) -> SSAValue:
        attribute, plain = index_attr(index)
        self.plain &= plain and (not mask or all(map(is_plain, mask)))
        properties: dict[str, Attribute] = {
            "index": attribute,
            "operandSegmentSizes": segments(1, len(vs), int(ok is not None)),
        }
        if mask:
            properties["mask"] = PredAttr.get(mask)
        if other is not None:
            properties["other"] = other
        new = LoadOp.create(
            operands=(source, *vs) if ok is None else (source, *vs, ok),
            result_types=(source.type.element,),  # pyright: ignore
            properties=properties,
            location=self.location,
        )
        self.ops.append(new)
        return new.results[0]

    def block(self, *values: SSAValue) -> Block:
        """The block of all ops, ending in a yield of `values`."""
        self.ops.append(YieldOp.create(operands=values, location=self.location))
        return Block(self.ops)


@cache
def _predicate(op: type[arith.CmpfOp] | type[arith.CmpiOp], name: str) -> Attribute:
    names = arith.CMPF_COMPARISON_OPERATIONS if op is arith.CmpfOp else arith.CMPI_COMPARISON_OPERATIONS
    return IntegerAttr(names.index(name), i64)


def _convert(b: Body, x: SSAValue, source: str, target: str) -> SSAValue:
    s, t = scalar_type(source), scalar_type(target)
    if source == target:
        return x
    if target == "i1":
        return b.compare("une" if is_float(source) else "ne", x, b.constant(0, s))
    if is_float(source):
        return _from_float(b, x, source, target)
    if is_float(target):
        op = arith.UIToFPOp if source == "i1" or is_unsigned(source) else arith.SIToFPOp
        # a half is rounded from an f32, as in eager
        return b.add(op, x, type=t) if target in ("f32", "f64") else _resize(b, b.add(op, x, type=_F32), t)
    assert isinstance(s, IntegerType) and isinstance(t, IntegerType)
    if t.width.data == s.width.data:
        return x
    if t.width.data < s.width.data:
        return b.add(arith.TruncIOp, x, type=t)
    return b.add(arith.ExtUIOp if source == "i1" or is_unsigned(source) else arith.ExtSIOp, x, type=t)


_F32 = scalar_type("f32")
_WIDTHS = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64}


def _from_float(b: Body, x: SSAValue, source: str, target: str) -> SSAValue:
    t = scalar_type(target)
    if is_float(target):
        if 16 in (_WIDTHS[source], _WIDTHS[target]):  # halves convert by way of f32, as in eager
            x = _resize(b, x, _F32)
        return _resize(b, x, t)
    if target == "u64":
        return b.add(arith.FPToUIOp, x, type=t)
    # narrow integers wrap from the wide one that ATen takes: -1.0 is 255 in u8
    wide = i64 if target in ("i64", "u8", "u32") else i32
    x = b.add(arith.FPToSIOp, x, type=wide)
    return x if t == wide else b.add(arith.TruncIOp, x, type=t)


def _resize(b: Body, x: SSAValue, t: Attribute) -> SSAValue:
    """A float in a wider or narrower float type."""
    if x.type == t:
        return x
    wider = t.bitwidth > x.type.bitwidth  # pyright: ignore
    return b.add(arith.ExtFOp if wider else arith.TruncFOp, x, type=t)
