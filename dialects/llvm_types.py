"""Types of the llvm dialect that are scalars or vectors of one dimension, and the constraints on them."""

from functools import cache
from typing import cast

from xdsl.dialects.builtin import (
    I1,
    AnyFloatConstr,
    DenseArrayBase,
    IntegerType,
    SignlessIntegerConstraint,
    VectorType,
    i32,
)
from xdsl.dialects.llvm import LLVMPointerType
from xdsl.ir import Attribute
from xdsl.irdl import base

PTR = LLVMPointerType()
POINTERS = base(LLVMPointerType) | VectorType.constr(base(LLVMPointerType))
INTEGERS = SignlessIntegerConstraint | VectorType.constr(SignlessIntegerConstraint)
FLOATS = AnyFloatConstr | VectorType.constr(AnyFloatConstr)
BOOLS = base(I1) | VectorType.constr(base(I1))


@cache
def vector_of(element: Attribute, width: int) -> Attribute:
    """`element` for a width of 1, else `vector<width x element>`."""
    return element if width == 1 else VectorType(element, [width])


def element_of(type: Attribute) -> Attribute:
    """The element type of a vector, or the scalar type itself."""
    return cast(VectorType[Attribute], type).element_type if isinstance(type, VectorType) else type


def width_of(type: Attribute) -> int:
    """Lanes of a vector type, 1 for a scalar."""
    return cast(VectorType[Attribute], type).get_shape()[0] if isinstance(type, VectorType) else 1


@cache
def segments(*sizes: int) -> DenseArrayBase[IntegerType]:
    """`operandSegmentSizes` and the like."""
    return DenseArrayBase.from_list(i32, sizes)
