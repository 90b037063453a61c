"""Reductions, scans and maps of the tt dialect: ops with a region that says what to do with scalars."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import I32, IntegerAttr, LocationAttr, TensorType, i1
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    base,
    irdl_op_definition,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import IsTerminator, Pure
from xdsl.utils.exceptions import VerifyException

from .tt_types import bool_attr, element_of, i32_attr, shape_of, tensor

_TENSOR = base(TensorType)

Combine = Callable[[Sequence[SSAValue], Sequence[SSAValue]], tuple[Sequence[Operation], Sequence[SSAValue]]]
"""From values on the left and on the right to ops and the values that they combine to."""


class _YieldOp(IRDLOperation):
    result = var_operand_def()
    traits = traits_def(IsTerminator(), Pure())
    assembly_format = "$result attr-dict `:` type($result)"

    @classmethod
    def make(cls, values: Sequence[SSAValue], location: LocationAttr | None = None):
        return cls.create(operands=values, location=location)


@irdl_op_definition
class ReduceReturnOp(_YieldOp):
    name = "tt.reduce.return"


@irdl_op_definition
class ScanReturnOp(_YieldOp):
    name = "tt.scan.return"


@irdl_op_definition
class MapElementwiseReturnOp(_YieldOp):
    name = "tt.map_elementwise.return"


def _combine_region(elements: Sequence[Attribute], combine: Combine, end: type[_YieldOp]) -> Region:
    block = Block(arg_types=[*elements, *elements])
    ops, values = combine(block.args[: len(elements)], block.args[len(elements) :])
    block.add_ops([*ops, end.make(values)])
    return Region(block)


@irdl_op_definition
class ReduceOp(IRDLOperation):
    """All elements along `axis` combined by an associative and commutative `combineOp`; rank 0 is a scalar.

    The region takes the values on the left, then those on the right, one of each operand.
    """

    name = "tt.reduce"
    srcs = var_operand_def(_TENSOR)
    axis = prop_def(IntegerAttr[I32])
    result = var_result_def()
    combineOp = region_def("single_block")
    traits = traits_def(Pure())

    @classmethod
    def make(
        cls, srcs: Sequence[SSAValue], axis: int, combine: Combine | Region, location: LocationAttr | None = None
    ) -> ReduceOp:
        elements = [element_of(s.type) for s in srcs]
        shape = shape_of(srcs[0].type)
        return cls.create(
            operands=srcs,
            result_types=[tensor(e, (*shape[:axis], *shape[axis + 1 :])) for e in elements],
            properties={"axis": i32_attr(axis)},
            regions=[combine if isinstance(combine, Region) else _combine_region(elements, combine, ReduceReturnOp)],
            location=location,
        )

    def verify_(self) -> None:
        axis = _check_axis(self, self.axis.value.data)
        shape = shape_of(self.operand_types[0])
        left = (*shape[:axis], *shape[axis + 1 :])
        wanted = tuple(tensor(element_of(t), left) for t in self.operand_types)
        if tuple(self.result_types) != wanted:
            raise VerifyException(f"the results along axis {axis} are {_list(wanted)}, not {_list(self.result_types)}")
        _check_region(self, self.combineOp, 2, ReduceReturnOp)


@irdl_op_definition
class ScanOp(IRDLOperation):
    """Inclusive running combination along `axis`, from the end with `reverse`; `combineOp` is associative."""

    name = "tt.scan"
    srcs = var_operand_def(_TENSOR)
    axis = prop_def(IntegerAttr[I32])
    reverse = prop_def(IntegerAttr.constr(i1))
    result = var_result_def(_TENSOR)
    combineOp = region_def("single_block")
    traits = traits_def(Pure())

    @classmethod
    def make(
        cls,
        srcs: Sequence[SSAValue],
        axis: int,
        combine: Combine | Region,
        *,
        reverse: bool = False,
        location: LocationAttr | None = None,
    ) -> ScanOp:
        elements = [element_of(s.type) for s in srcs]
        return cls.create(
            operands=srcs,
            result_types=[s.type for s in srcs],
            properties={"axis": i32_attr(axis), "reverse": bool_attr(reverse)},
            regions=[combine if isinstance(combine, Region) else _combine_region(elements, combine, ScanReturnOp)],
            location=location,
        )

    def verify_(self) -> None:
        _check_axis(self, self.axis.value.data)
        if tuple(self.result_types) != tuple(self.operand_types):
            raise VerifyException(f"a scan gives the types of its operands, not {_list(self.result_types)}")
        _check_region(self, self.combineOp, 2, ScanReturnOp)


@irdl_op_definition
class MapElementwiseOp(IRDLOperation):
    """A scalar region on `pack` elements at a time: all values of the first operand, then of the next, …"""

    name = "tt.map_elementwise"
    srcs = var_operand_def(_TENSOR)
    pack = prop_def(IntegerAttr[I32])
    result = var_result_def(_TENSOR)
    scalarOp = region_def()
    traits = traits_def()


def _list(types: Sequence[Attribute]) -> str:
    return ", ".join(map(str, types))


def _check_axis(op: ReduceOp | ScanOp, axis: int) -> int:
    if not op.operand_types:
        raise VerifyException("needs at least one operand")
    shapes = {shape_of(t) for t in op.operand_types}
    if len(shapes) > 1:
        raise VerifyException(f"operands differ in shape: {_list(op.operand_types)}")
    rank = len(shapes.pop())
    if not 0 <= axis < rank:
        raise VerifyException(f"axis {axis} is outside of the {rank} dims of {op.operand_types[0]}")
    return axis


def _check_region(op: ReduceOp | ScanOp, region: Region, times: int, end: type[_YieldOp]) -> None:
    elements = tuple(element_of(t) for t in op.operand_types)
    block = region.block
    if tuple(block.arg_types) != elements * times:
        raise VerifyException(f"the region takes {_list(elements * times)}, not {_list(block.arg_types)}")
    last = block.last_op
    if not isinstance(last, end):
        raise VerifyException(f"the region ends in {end.name}")
    if tuple(last.operand_types) != elements:
        raise VerifyException(f"the region returns {_list(elements)}, not {_list(last.operand_types)}")
