"""Ops of the tt dialect that make tensors and change their shape, but not their elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import I32, DenseArrayBase, IntegerAttr, LocationAttr, TensorType, UnitAttr, i32
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    AnyAttr,
    IRDLOperation,
    ParsePropInAttrDict,
    VarConstraint,
    base,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import NoMemoryEffect, Pure
from xdsl.utils.exceptions import VerifyException

from .tt_syntax import parse_type_after
from .tt_types import element_of, i32_array, i32_attr, shape_of, tensor

_TENSOR = base(TensorType)
_FROM_TO = "$src attr-dict `:` type($src) `->` type($result)"


def same_elements(op: IRDLOperation) -> None:
    """Operands and results have one element type."""
    types = {element_of(t) for t in (*op.operand_types, *op.result_types)}
    if len(types) > 1:
        raise VerifyException(f"element types differ: {', '.join(sorted(map(str, types)))}")


@irdl_op_definition
class MakeRangeOp(IRDLOperation):
    """[start, start + 1, …, end - 1] as i32."""

    name = "tt.make_range"
    start = prop_def(IntegerAttr[I32])
    end = prop_def(IntegerAttr[I32])
    result = result_def(TensorType.constr(base(I32)))
    traits = traits_def(Pure())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "attr-dict `:` type($result)"

    @classmethod
    def make(cls, start: int, end: int, location: LocationAttr | None = None) -> MakeRangeOp:
        return cls.create(
            result_types=[tensor(i32, (end - start,))],
            properties={"start": i32_attr(start), "end": i32_attr(end)},
            location=location,
        )

    def verify_(self) -> None:
        start, end = self.start.value.data, self.end.value.data
        if shape_of(self.result.type) != (end - start,):
            raise VerifyException(f"the range {start} to {end} is a tensor<{end - start}xi32>, not {self.result.type}")


@irdl_op_definition
class SplatOp(IRDLOperation):
    """A scalar in every element."""

    name = "tt.splat"
    src = operand_def()
    result = result_def(_TENSOR)
    traits = traits_def(Pure())
    assembly_format = _FROM_TO

    @classmethod
    def make(cls, src: SSAValue, shape: Sequence[int], location: LocationAttr | None = None) -> SplatOp:
        return cls.create(operands=[src], result_types=[tensor(src.type, tuple(shape))], location=location)

    def verify_(self) -> None:
        if isinstance(self.src.type, TensorType):
            raise VerifyException(f"a scalar is splatted, not {self.src.type}")
        same_elements(self)


@irdl_op_definition
class UnsplatOp(IRDLOperation):
    """The one element of a tensor of one."""

    name = "tt.unsplat"
    src = operand_def(_TENSOR)
    result = result_def()
    traits = traits_def(Pure())

    @classmethod
    def make(cls, src: SSAValue, location: LocationAttr | None = None) -> UnsplatOp:
        return cls.create(operands=[src], result_types=[element_of(src.type)], location=location)

    @classmethod
    def parse(cls, parser: Parser) -> UnsplatOp:
        src = parser.parse_unresolved_operand()
        attributes = parser.parse_optional_attr_dict()
        type = parse_type_after(parser, ":")
        return cls.create(
            operands=[parser.resolve_operand(src, type)], result_types=[element_of(type)], attributes=attributes
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.src)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.src.type)

    def verify_(self) -> None:
        if any(size != 1 for size in shape_of(self.src.type)) or isinstance(self.result.type, TensorType):
            raise VerifyException(f"a tensor of one element gives a scalar, not {self.src.type} a {self.result.type}")
        same_elements(self)


@irdl_op_definition
class ExpandDimsOp(IRDLOperation):
    """A new dim of size 1 at `axis`."""

    name = "tt.expand_dims"
    src = operand_def(_TENSOR)
    axis = prop_def(IntegerAttr[I32])
    result = result_def(_TENSOR)
    traits = traits_def(Pure())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = _FROM_TO

    @classmethod
    def make(cls, src: SSAValue, axis: int, location: LocationAttr | None = None) -> ExpandDimsOp:
        shape = shape_of(src.type)
        return cls.create(
            operands=[src],
            result_types=[tensor(element_of(src.type), (*shape[:axis], 1, *shape[axis:]))],
            properties={"axis": i32_attr(axis)},
            location=location,
        )

    def verify_(self) -> None:
        shape, axis = shape_of(self.src.type), self.axis.value.data
        if not 0 <= axis <= len(shape):
            raise VerifyException(f"axis {axis} is outside of 0 to {len(shape)}")
        if shape_of(self.result.type) != (*shape[:axis], 1, *shape[axis:]):
            raise VerifyException(f"{self.src.type} with a new axis {axis} is not {self.result.type}")
        same_elements(self)


@irdl_op_definition
class BroadcastOp(IRDLOperation):
    """Dims of size 1 repeated."""

    name = "tt.broadcast"
    src = operand_def(_TENSOR)
    result = result_def(_TENSOR)
    traits = traits_def(Pure())
    assembly_format = _FROM_TO

    @classmethod
    def make(cls, src: SSAValue, shape: Sequence[int], location: LocationAttr | None = None) -> BroadcastOp:
        return cls.create(operands=[src], result_types=[tensor(element_of(src.type), tuple(shape))], location=location)

    def verify_(self) -> None:
        old, new = shape_of(self.src.type), shape_of(self.result.type)
        if len(old) != len(new) or any(a not in (1, b) for a, b in zip(old, new, strict=True)):
            raise VerifyException(f"dims of size 1 are repeated: {self.src.type} is no {self.result.type}")
        same_elements(self)


@irdl_op_definition
class ReshapeOp(IRDLOperation):
    """The same elements in row-major order; in any order with `allow_reorder`."""

    name = "tt.reshape"
    src = operand_def(_TENSOR)
    allow_reorder = opt_prop_def(UnitAttr)
    efficient_layout = opt_prop_def(UnitAttr)
    result = result_def(_TENSOR)
    traits = traits_def(Pure())
    assembly_format = (
        "$src (`allow_reorder` $allow_reorder^)? (`efficient_layout` $efficient_layout^)? "
        "attr-dict `:` type($src) `->` type($result)"
    )

    @classmethod
    def make(
        cls, src: SSAValue, shape: Sequence[int], *, allow_reorder: bool = False, location: LocationAttr | None = None
    ) -> ReshapeOp:
        return cls.create(
            operands=[src],
            result_types=[tensor(element_of(src.type), tuple(shape))],
            properties={"allow_reorder": UnitAttr()} if allow_reorder else {},
            location=location,
        )

    def verify_(self) -> None:
        same_count(self, self.src.type, self.result.type)
        same_elements(self)


def same_count(op: IRDLOperation, source: Attribute, result: Attribute) -> None:
    """The two tensors have the same number of elements."""
    counts = [_count(t) for t in (source, result)]
    if counts[0] != counts[1]:
        raise VerifyException(f"{source} has {counts[0]} elements, {result} {counts[1]}")


def _count(type: Attribute) -> int:
    count = 1
    for size in shape_of(type):
        count *= size
    return count


@irdl_op_definition
class TransOp(IRDLOperation):
    """Dim k of the result is dim order[k] of `src`."""

    name = "tt.trans"
    src = operand_def(_TENSOR)
    order = prop_def(DenseArrayBase[I32])
    result = result_def(_TENSOR)
    traits = traits_def(Pure())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = _FROM_TO

    @classmethod
    def make(cls, src: SSAValue, order: Sequence[int], location: LocationAttr | None = None) -> TransOp:
        shape = shape_of(src.type)
        return cls.create(
            operands=[src],
            result_types=[tensor(element_of(src.type), tuple(shape[i] for i in order))],
            properties={"order": i32_array(*order)},
            location=location,
        )

    def verify_(self) -> None:
        shape, order = shape_of(self.src.type), self.order.get_values()
        if sorted(order) != list(range(len(shape))):
            raise VerifyException(f"order {list(order)} is no permutation of the {len(shape)} dims")
        if shape_of(self.result.type) != tuple(shape[i] for i in order):
            raise VerifyException(f"{self.src.type} in order {list(order)} is not {self.result.type}")
        same_elements(self)


@irdl_op_definition
class CatOp(IRDLOperation):
    """Elements of both, in an order that Triton chooses."""

    name = "tt.cat"
    T: ClassVar = VarConstraint("T", AnyAttr())
    lhs = operand_def(T)
    rhs = operand_def(T)
    result = result_def(_TENSOR)
    traits = traits_def(NoMemoryEffect())
    assembly_format = "$lhs `,` $rhs attr-dict `:` type($lhs) `->` type($result)"

    @classmethod
    def make(cls, lhs: SSAValue, rhs: SSAValue, location: LocationAttr | None = None) -> CatOp:
        (size,) = shape_of(lhs.type)
        return cls.create(
            operands=[lhs, rhs], result_types=[tensor(element_of(lhs.type), (2 * size,))], location=location
        )

    def verify_(self) -> None:
        if _count(self.result.type) != 2 * _count(self.lhs.type):
            raise VerifyException(f"two of {self.lhs.type} do not make a {self.result.type}")
        same_elements(self)


@irdl_op_definition
class JoinOp(IRDLOperation):
    """Both along a new last dim of size 2: result[…, 0] = lhs, result[…, 1] = rhs."""

    name = "tt.join"
    T: ClassVar = VarConstraint("T", AnyAttr())
    lhs = operand_def(T)
    rhs = operand_def(T)
    result = result_def(_TENSOR)
    traits = traits_def(NoMemoryEffect())
    assembly_format = "$lhs `,` $rhs attr-dict `:` type($lhs) `->` type($result)"

    @classmethod
    def make(cls, lhs: SSAValue, rhs: SSAValue, location: LocationAttr | None = None) -> JoinOp:
        type = tensor(element_of(lhs.type), (*shape_of(lhs.type), 2))
        return cls.create(operands=[lhs, rhs], result_types=[type], location=location)

    def verify_(self) -> None:
        if shape_of(self.result.type) != (*shape_of(self.lhs.type), 2):
            raise VerifyException(f"two of {self.lhs.type} joined are not {self.result.type}")
        same_elements(self)


@irdl_op_definition
class SplitOp(IRDLOperation):
    """src[…, 0] and src[…, 1] of a tensor whose last dim has size 2."""

    name = "tt.split"
    T: ClassVar = VarConstraint("T", AnyAttr())
    src = operand_def(_TENSOR)
    lhs = result_def(T)
    rhs = result_def(T)
    traits = traits_def(NoMemoryEffect())
    assembly_format = "$src attr-dict `:` type($src) `->` type($lhs)"

    @classmethod
    def make(cls, src: SSAValue, location: LocationAttr | None = None) -> SplitOp:
        half = tensor(element_of(src.type), shape_of(src.type)[:-1])
        return cls.create(operands=[src], result_types=[half, half], location=location)

    def verify_(self) -> None:
        if shape_of(self.src.type) != (*shape_of(self.lhs.type), 2):
            raise VerifyException(f"{self.src.type} does not split into two of {self.lhs.type}")
        same_elements(self)
