"""LLVM's spelling of types, constants and symbol names."""

import re
import struct
from collections.abc import Iterable
from typing import cast

from xdsl.dialects import llvm
from xdsl.dialects.builtin import (
    AnyFloat,
    BFloat16Type,
    DenseIntOrFPElementsAttr,
    Float16Type,
    Float32Type,
    Float64Type,
    FloatAttr,
    IntAttr,
    IntegerAttr,
    IntegerType,
    VectorType,
)
from xdsl.ir import Attribute

from .errors import CodegenError

_NAMES: dict[type[Attribute], str] = {
    BFloat16Type: "bfloat",
    Float16Type: "half",
    Float32Type: "float",
    Float64Type: "double",
    llvm.LLVMVoidType: "void",
}


def type_text(type: Attribute) -> str:
    """LLVM's spelling of a type; CodegenError for a type that LLVM does not have."""
    if (name := _NAMES.get(type.__class__)) is not None:
        return name
    match type:
        case IntegerType():
            return f"i{type.width.data}"
        case VectorType():
            if type.get_num_dims() != 1 or type.get_num_scalable_dims():
                raise CodegenError(f"{type}: LLVM vectors have one fixed dimension")
            return f"<{type.get_shape()[0]} x {type_text(type.element_type)}>"
        case llvm.LLVMPointerType():
            return f"ptr addrspace({type.addr_space.data})" if isinstance(type.addr_space, IntAttr) else "ptr"
        case llvm.LLVMArrayType():
            return f"[{type.size.data} x {type_text(type.type)}]"
        case llvm.LLVMStructType():
            return "{ " + ", ".join(map(type_text, type.types)) + " }"
        case llvm.LLVMFunctionType():
            inputs = [type_text(t) for t in type.inputs] + (["..."] if type.is_variadic else [])
            return f"{type_text(type.output)} ({', '.join(inputs)})"
        case _:
            raise CodegenError(f"LLVM has no type {type}")


def float_text(value: float, type: Attribute) -> str:
    """The exact literal of `value` rounded to `type`: inf, NaN, -0.0 and denormals included."""
    match type:
        case Float64Type():
            return f"0x{_bits('d', value, 'Q'):016X}"
        case Float32Type():
            return f"0x{_bits('d', _rounded('f', value), 'Q'):016X}"
        case Float16Type():
            return f"0xH{_bits('e', _rounded('e', value), 'H'):04X}"
        case BFloat16Type():
            bits = _bits("f", _rounded("f", value), "I")
            rounded = (bits >> 16) | 0x40 if value != value else (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
            return f"0xR{rounded:04X}"
        case _:
            raise CodegenError(f"LLVM has no literal of type {type}")


def _bits(source: str, value: float, target: str) -> int:
    return struct.unpack(f"<{target}", struct.pack(f"<{source}", value))[0]


def _rounded(code: str, value: float) -> float:
    try:
        return struct.unpack(f"<{code}", struct.pack(f"<{code}", value))[0]
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def constant_text(value: Attribute, type: Attribute) -> str:
    """The literal of an attribute as a value of `type`; a scalar attribute of a vector type is a splat."""
    if isinstance(value, DenseIntOrFPElementsAttr):
        return _dense_text(cast("DenseIntOrFPElementsAttr[AnyFloat | IntegerType]", value), type)
    if isinstance(type, VectorType):
        element = cast(VectorType[Attribute], type).element_type
        return f"splat ({type_text(element)} {constant_text(value, element)})"
    if isinstance(value, IntegerAttr):
        if not isinstance(type, IntegerType):
            raise CodegenError(f"integer constant of type {type}")
        number = value.value.data
        return str(number) if type.width.data > 1 else ("true" if number else "false")
    if isinstance(value, FloatAttr):
        return float_text(value.value.data, type)
    raise CodegenError(f"no LLVM constant for {value}")


def _dense_text(value: "DenseIntOrFPElementsAttr[AnyFloat | IntegerType]", type: Attribute) -> str:
    element = value.type.get_element_type()
    prefix = type_text(element)
    if isinstance(element, IntegerType):
        lanes: Iterable[str] = (str(v) if element.width.data > 1 else str(bool(v)).lower() for v in value.get_values())
    else:
        lanes = (float_text(v, element) for v in cast(Iterable[float], value.get_values()))
    texts = [f"{prefix} {lane}" for lane in lanes]
    if not isinstance(type, VectorType):
        return f"[{', '.join(texts)}]"
    return f"splat ({texts[0]})" if texts.count(texts[0]) == len(texts) else f"<{', '.join(texts)}>"


def string_text(data: bytes) -> str:
    """`c"..."` for raw bytes."""
    return 'c"' + "".join(chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\{b:02X}" for b in data) + '"'


_PLAIN = re.compile(r"[-a-zA-Z$._][-a-zA-Z$._0-9]*")


def symbol_text(name: str) -> str:
    """`@name`, quoted where LLVM asks for it."""
    return f"@{name}" if _PLAIN.fullmatch(name) else f"@{quoted(name)}"


def quoted(text: str) -> str:
    """`text` in LLVM's double quotes."""
    return string_text(text.encode())[1:]
