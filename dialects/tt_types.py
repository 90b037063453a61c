"""Types of the tt dialect, and the small questions asked of types everywhere at that level.

Values are scalars, pointers `!tt.ptr<f32>`, tensor descriptors `!tt.tensordesc<tensor<128x64xbf16>>`, and builtin
tensors of scalars or pointers, `tensor<1024x!tt.ptr<f32>>`, whose sizes are powers of two.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import cast

from xdsl.dialects.builtin import (
    DenseArrayBase,
    FixedBitwidthType,
    IntAttr,
    IntegerAttr,
    IntegerType,
    NoneAttr,
    TensorType,
    i1,
    i32,
)
from xdsl.ir import Attribute, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

MAX_ELEMENTS = 1 << 20
"""Elements of a tensor at most: `TRITON_MAX_TENSOR_NUMEL`."""

GLOBAL = 1
"""The address space of device memory, which Triton leaves out when it prints a pointer type."""


@irdl_attr_definition
class PtrType(ParametrizedAttribute, TypeAttribute):
    """`!tt.ptr<f32>`: the address of a scalar in global memory; `!tt.ptr<f32, 3>` names another address space."""

    name = "tt.ptr"
    pointee: Attribute
    space: IntAttr

    def __init__(self, pointee: Attribute, space: int | IntAttr = GLOBAL) -> None:
        super().__init__(pointee, IntAttr(space) if isinstance(space, int) else space)

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_attribute(self.pointee)
            if self.space.data != GLOBAL:
                printer.print_string(f", {self.space.data}")

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            pointee = parser.parse_type()
            space = parser.parse_integer() if parser.parse_optional_punctuation(",") is not None else GLOBAL
        return (pointee, IntAttr(space))


@irdl_attr_definition
class TensorDescType(ParametrizedAttribute, TypeAttribute):
    """A TMA descriptor of a tensor in global memory that is moved in blocks of type `block`.

    Triton 3.6 and 3.7 write `!tt.tensordesc<tensor<128x64xbf16>>`, later ones `!tt.tensordesc<128x64xbf16>`. Both are
    read; the first is printed unless the printer knows better (`tt_text.py`).
    """

    name = "tt.tensordesc"
    block: TensorType[Attribute]

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            if (type := parser.parse_optional_type()) is not None:
                return (type,)
            shape, element = parser.parse_ranked_shape()
            return (TensorType(element, shape, NoneAttr()),)

    def verify(self) -> None:
        if not 1 <= len(self.block.get_shape()) <= 5:
            raise VerifyException(f"blocks have one to five dimensions, not those of {self.block}")
        if self.block.element_type == i1 or isinstance(self.block.element_type, PtrType):
            raise VerifyException(f"no tensor descriptor moves {self.block.element_type}")


@cache
def pointer(pointee: Attribute) -> PtrType:
    """`!tt.ptr<pointee>`."""
    return PtrType(pointee)


@cache
def tensor(element: Attribute, shape: tuple[int, ...]) -> Attribute:
    """`tensor<shape x element>`, or the scalar `element` for no dimensions at all."""
    return TensorType(element, shape) if shape else element


def shape_of(type: Attribute) -> tuple[int, ...]:
    """Sizes of a tensor type; a scalar has none."""
    return cast(TensorType[Attribute], type).get_shape() if isinstance(type, TensorType) else ()


def element_of(type: Attribute) -> Attribute:
    """The element type of a tensor, or the scalar type itself."""
    return cast(TensorType[Attribute], type).element_type if isinstance(type, TensorType) else type


def with_element(type: Attribute, element: Attribute) -> Attribute:
    """`type` with another element type."""
    return tensor(element, shape_of(type))


def pointee_of(type: Attribute) -> Attribute:
    """The type of what a pointer, or a tensor of pointers, points to: of what a load through it gives."""
    pointed = element_of(type)
    if not isinstance(pointed, PtrType):
        raise VerifyException(f"expected a pointer or a tensor of pointers, got {type}")
    return with_element(type, pointed.pointee)


def mask_of(type: Attribute) -> Attribute:
    """i1 in the shape of `type`."""
    return with_element(type, i1)


def bits_of(type: Attribute) -> int:
    """Bits of a scalar; a pointer has 64."""
    if isinstance(type, PtrType):
        return 64
    if isinstance(type, FixedBitwidthType):
        return type.bitwidth
    raise VerifyException(f"{type} has no fixed number of bits")


@cache
def i32_attr(value: int) -> IntegerAttr[IntegerType]:
    """`value : i32`."""
    return IntegerAttr(value, i32)


@cache
def bool_attr(value: bool) -> IntegerAttr[IntegerType]:
    """`true` or `false`."""
    return IntegerAttr(int(value), i1)


@cache
def i32_array(*values: int) -> DenseArrayBase[IntegerType]:
    """`array<i32: …>`."""
    return DenseArrayBase.from_list(i32, values)
