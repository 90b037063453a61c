"""What host-to-llvm left on a module for the program's life in Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import sympy
from xdsl.dialects import llvm
from xdsl.dialects.builtin import ArrayAttr, ModuleOp
from xdsl.ir import Operation

from ..dialects import expr, literal
from ..dialects.aten import lookup
from ..dialects.raised import raised
from ..dialects.schema import Argument as SchemaArgument
from ..dialects.tensor import PACKED, SymType, TensorType
from ..lowering.upload_numbers import UPLOADS
from .errors import CodegenError
from .interpret_aten import word
from .metadata import Argument, CallSpec, ExpressionSpec, GpuKernel, Hole, Metadata

if TYPE_CHECKING:
    from .triton_compile import CompiledKernel


def metadata(module: ModuleOp, kernels: Mapping[str, CompiledKernel] | None = None) -> Metadata:
    """The metadata of a module; `kernels` are those for GPUs, by symbol."""
    names_and_types = _array(module, "lamella.arguments")
    pairs = zip(names_and_types[::2], names_and_types[1::2], strict=True)
    objects = tuple(_spec(a) for a in _array(module, "lamella.objects"))
    arguments = tuple(_argument(name.data, type) for name, type in pairs)
    uploads = tuple(i.value.data for i in _array(module, UPLOADS)) if UPLOADS in module.attributes else ()
    on_gpu = any(a.device != "cpu" for a in arguments) or any(map(_is_of_gpus, module.ops))
    if "lamella.kernels" not in module.attributes:
        return Metadata(arguments, objects, uploads=uploads, on_gpu=on_gpu)
    words = _array(module, "lamella.kernels")
    used: list[GpuKernel] = []
    for symbol, device, buffers, bits in (words[i : i + 4] for i in range(0, len(words), 4)):
        code = (kernels or {})[symbol.data]
        widths = tuple(n.value.data for n in bits)
        used.append(GpuKernel(symbol.data, device.value.data, buffers.value.data, widths, code))
    return Metadata(arguments, objects, tuple(used), uploads, on_gpu=on_gpu or bool(used))


def _is_of_gpus(op: Operation) -> bool:
    """Whether it declares a function of the host program for GPUs, which may make tensors there without kernels."""
    return isinstance(op, llvm.FuncOp) and op.sym_name.data.startswith("lamella_cuda_")


def _array(module: ModuleOp, name: str) -> Sequence[Any]:
    attribute = module.attributes.get(name)
    if not isinstance(attribute, ArrayAttr):
        raise CodegenError(f"the module has no {name}: it was not made by host-to-llvm")
    return attribute.data


def _text(value: Any) -> int | str:
    return value if isinstance(value, int) else expr.text(value)


def _argument(name: str, type: Any) -> Argument:
    if isinstance(type, TensorType) and type.device != PACKED:
        strides = None if type.is_contiguous else tuple(map(_text, type.strides))
        return Argument(name, type.dtype, tuple(map(_text, type.shape)), strides, device=type.device)
    if isinstance(type, SymType):
        return Argument(name, type.dtype, scalar=str(_text(type.expr)))
    return Argument(name, None)


def _spec(attribute: Any) -> Any:
    entries = attribute.data
    if "messages" in entries:
        return tuple(raised(m.data) for m in entries["messages"].data)
    if "name" in entries:
        return entries["name"].data
    if "expression" in entries:
        return ExpressionSpec(entries["expression"].data, tuple(s.data for s in entries["symbols"].data))
    return _call(entries["call"].data, entries["arguments"].value, entries["results"].value.data)


def _call(operator: str, template: literal.Value, results: int) -> CallSpec:
    cls = lookup(operator)
    if cls is None:
        raise CodegenError(f"this torch has no operator {operator}")
    assert isinstance(template, tuple)
    schema, overload = cls.schema, cls.overload
    values = [(a, _value(v, a)) for a, v in zip(schema.args, template, strict=True)]
    positional = tuple(v for a, v in values if not a.kwarg_only)
    named = tuple((a.name, v) for a, v in values if a.kwarg_only)
    return CallSpec(operator, overload._schema.name, overload._overloadname, positional, named, results)


def _value(value: literal.Value, a: SchemaArgument) -> Any:
    """A literal as torch takes it."""
    if value is literal.HOLE:
        return Hole.GIVEN
    if isinstance(value, tuple):
        return [_value(v, a) for v in value]
    if isinstance(value, str):
        return word(value, a)
    if isinstance(value, sympy.Basic):
        return int(value) if value.is_Integer else float(value)  # pyright: ignore[reportArgumentType]
    return value
