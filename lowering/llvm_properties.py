"""Types and properties of llvm ops, made once: what an op is told apart by when equal ones are looked for."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import TypeAlias, cast

from xdsl.dialects import llvm
from xdsl.dialects.builtin import (
    AnyFloat,
    DenseArrayBase,
    Float32Type,
    Float64Type,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    StringAttr,
    SymbolRefAttr,
    UnitAttr,
    VectorType,
    f32,
    f64,
    i1,
    i8,
    i16,
    i32,
    i64,
)
from xdsl.dialects.utils import FastMathFlag
from xdsl.ir import Attribute, Operation, SSAValue

from ..dialects.errors import LamellaError, LamellaVerifyError


class KernelError(LamellaError):
    """A kernel that cannot be turned into code; the message names the op or expression and where it comes from."""


@contextmanager
def code_of(kernel: Operation) -> Generator[None]:
    """What has no code is the kernel's error, with its place."""
    try:
        yield
    except KernelError as error:
        raise LamellaVerifyError(kernel, f"cannot be turned into code: {error}") from error


Properties: TypeAlias = Mapping[str, Attribute]

NOTHING: Properties = {}

NO_FLAGS: Properties = {"fastmathFlags": llvm.FastMathAttr(None)}
CONTRACT: Properties = {"fastmathFlags": llvm.FastMathAttr([FastMathFlag.ALLOW_CONTRACT])}
REASSOCIATE: Properties = {"fastmathFlags": llvm.FastMathAttr([FastMathFlag.REASSOC])}
WRAP: Properties = {"overflowFlags": IntegerAttr(0, i32)}
_NO_SEGMENTS = DenseArrayBase.from_list(i32, ())
_ORDERING = IntegerAttr(0, i64)
ICMP: Mapping[str, Properties] = {
    name: {"predicate": IntegerAttr(i, i64)} for i, name in enumerate(llvm.ALL_ICMP_FLAGS)
}
FCMP: Mapping[str, Properties] = {
    name.strip("_"): {"predicate": IntegerAttr(i, i64), **NO_FLAGS} for i, name in enumerate(llvm.ALL_FCMP_FLAGS)
}


@cache
def vector(element: Attribute, lanes: int) -> Attribute:
    """`vector<lanes x element>`, the element itself for one lane; one object per type, for comparison by identity."""
    return intern(element) if lanes == 1 else VectorType(intern(element), [lanes])


_TYPES: dict[Attribute, Attribute] = {t: t for t in (i1, i8, i16, i32, i64, f32, f64)}


_INTERNED: dict[int, Attribute] = {}
"""Those types by identity, which is told without comparing their parts."""


def intern(type: Attribute) -> Attribute:
    found = _INTERNED.get(id(type))
    if found is None:
        found = _TYPES.setdefault(type, type)
        _INTERNED[id(found)] = found
    return found


def lanes_of(value: SSAValue) -> int:
    """Lanes of a value; 1 for a scalar."""
    type = value.type
    return cast(VectorType[Attribute], type).shape.data[0].data if isinstance(type, VectorType) else 1


def element_of(value: SSAValue) -> Attribute:
    """The type of a value's lanes."""
    type = value.type
    return cast(VectorType[Attribute], type).element_type if isinstance(type, VectorType) else type


def bits_of(value: SSAValue) -> int:
    """Bits of one lane."""
    match element_of(value):
        case IntegerType(width=width):
            return width.data
        case Float64Type():
            return 64
        case Float32Type():
            return 32
        case _:
            return 16


def wrapped(value: int, bits: int) -> int:
    """`value` as a signed integer of that many bits (i1 stays 0 or 1)."""
    if bits == 1:
        return value & 1
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


@cache
def shuffle_mask(lanes: tuple[int, ...]) -> Properties:
    return {"mask": DenseArrayBase.from_list(i32, lanes)}


@cache
def branch_segments(then: int, other: int) -> Properties:
    return {"operandSegmentSizes": DenseArrayBase.from_list(i32, (1, then, other))}


_NO_WRAP_FLAGS = IntegerAttr(0, i32)


def gep_index(index: int, element: Attribute) -> Properties:
    """`element` is one of `intern`'s."""
    found = _GEP_INDICES.get((index, id(element)))
    if found is None:
        array = DenseArrayBase.from_list(i32, (index,))
        found = {"rawConstantIndices": array, "elem_type": element, "noWrapFlags": _NO_WRAP_FLAGS}
        _GEP_INDICES[index, id(element)] = found
    return found


_GEP_INDICES: dict[tuple[int, int], Properties] = {}


@cache
def integer_attribute(value: int, bits: int) -> IntegerAttr[IntegerType]:
    return IntegerAttr(wrapped(value, bits), IntegerType(bits))


@cache
def float_attribute(text: str, type: Attribute) -> FloatAttr[AnyFloat]:
    """Of the text, as numbers that are equal differ in the sign of zero."""
    return FloatAttr(float(text), cast(AnyFloat, type))


@cache
def address_of(name: str) -> Properties:
    return {"global_name": SymbolRefAttr(name)}


@cache
def memory_access(alignment: int) -> Properties:
    return {"alignment": IntegerAttr(alignment, i64), "ordering": _ORDERING}


@cache
def streaming_access(alignment: int) -> Properties:
    return {**memory_access(alignment), "nontemporal": UnitAttr()}


_intrinsics: dict[tuple[str, int, int], Properties] = {}


def intrinsic_call(name: str, operands: int, key: int, flags: Properties) -> Properties:
    known = _intrinsics.get((name, operands, key))
    if known is None:
        known = _intrinsics[name, operands, key] = {
            "intrin": StringAttr(f"llvm.{name}"),
            "op_bundle_sizes": _NO_SEGMENTS,
            "operandSegmentSizes": DenseArrayBase.from_list(i32, (operands, 0)),
            **flags,
        }
    return known


@cache
def function_call(name: str | None, operands: int) -> Properties:
    properties: dict[str, Attribute] = {
        "op_bundle_sizes": _NO_SEGMENTS,
        "operandSegmentSizes": DenseArrayBase.from_list(i32, (operands, 0)),
        "CConv": llvm.CallingConventionAttr("ccc"),
        "TailCallKind": llvm.TailCallKindAttr(llvm.TailCallKind.NONE),
        **NO_FLAGS,
    }
    if name is not None:
        properties["callee"] = SymbolRefAttr(name)
    return properties
