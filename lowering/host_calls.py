"""Calls into torch from the host program: through the C shim where it has the operator, else through a Python
callable.

The shim takes arguments in a C form that follows from the schema: a tensor is a handle, a list a pointer and a
length, an option a pointer that may be null, a bool an int32, a Scalar a double. The last makes it wrong for integer
tensors, so calls with numbers of that kind go to the shim for floating point tensors only. A call of the shim that
fails is made once more through Python, which raises what eager raises: the shim knows no types, and in torch 2.11 no
message either.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import sympy
from xdsl.dialects import llvm
from xdsl.dialects.builtin import (
    DictionaryAttr,
    IntegerAttr,
    IntegerType,
    NoneType,
    StringAttr,
    f32,
    f64,
    i8,
    i16,
    i32,
    i64,
)
from xdsl.ir import Attribute, SSAValue

from ..dialects.aten import AtenOp
from ..dialects.host import DropOp
from ..dialects.literal import HOLE, Literal, Value
from ..dialects.llvm_ext import PTR
from ..dialects.schema import Argument
from ..dialects.tensor import SymType, TensorType, is_float
from .host_arguments import DTYPE_CODES, SCALAR_KINDS
from .host_gil import released
from .host_profile import event_of, recorded
from .host_tensors import Buffer
from .host_threads import one_thread

if TYPE_CHECKING:
    from .host_to_llvm import HostLowering

_CPU, _CUDA = "aoti_torch_cpu_", "aoti_torch_cuda_"
SHIMS: dict[str, str] = {
    "aten.copy_": "aoti_torch_copy_",
    "aten.mm.out": _CPU + "mm_out",
    "aten.addmm.out": _CPU + "addmm_out",
    "aten.bmm.out": _CPU + "bmm_out",
    "aten.baddbmm.out": _CPU + "baddbmm_out",
    "aten.randint.low_out": _CPU + "randint_low_out",
    "aten.convolution": _CPU + "convolution",
    "aten._scaled_dot_product_flash_attention_for_cpu": _CPU + "_scaled_dot_product_flash_attention_for_cpu",
    "aten.max_pool2d_with_indices": _CPU + "max_pool2d_with_indices",
    "aten.avg_pool2d": _CPU + "avg_pool2d",
    "aten._adaptive_avg_pool2d": _CPU + "_adaptive_avg_pool2d",
    "aten.sort": _CPU + "sort",
    "aten.sort.stable": _CPU + "sort_stable",
    "aten.topk": _CPU + "topk",
    "aten.cat": _CPU + "cat",
    "aten.cumsum": _CPU + "cumsum",
    "aten.nonzero": _CPU + "nonzero",
    "aten.convolution_backward": _CPU + "convolution_backward",
    "aten._scaled_dot_product_flash_attention": _CUDA + "_scaled_dot_product_flash_attention",
    "aten._scaled_dot_product_efficient_attention": _CUDA + "_scaled_dot_product_efficient_attention",
    "aten._scaled_dot_product_cudnn_attention": _CUDA + "_scaled_dot_product_cudnn_attention",
}
"""Operators that are called through the shim, whose C form is that of the schema; on a GPU by the name for that."""


@cache
def _exists(symbol: str) -> bool:
    import torch

    if symbol.startswith(_CUDA):
        library = Path(torch.__path__[0], "lib", "libtorch_cuda.so")
        # without one, code for a GPU is made for another machine, whose torch is taken to have what this table names
        return not library.exists() or hasattr(ctypes.CDLL(str(library)), symbol)
    return hasattr(ctypes.CDLL(f"{torch.__path__[0]}/lib/libtorch_cpu.so"), symbol)


def _shim_of(op: AtenOp) -> str | None:
    """The function of the shim for the device of the op's tensors; None where they have several, or it lacks the op."""
    shim = SHIMS.get(op.name)
    values = (v for v in (*op.operands, *op.results) if isinstance(v.type, TensorType))
    devices = {cast(TensorType, v.type).device for v in values}
    if shim is None or not shim.startswith((_CPU, _CUDA)) or devices <= {"cpu"}:
        return shim
    one = len(devices) == 1 and "cuda" in next(iter(devices))
    return _CUDA + shim.removeprefix(_CPU).removeprefix(_CUDA) if one else None


def lower_call(host: HostLowering, op: AtenOp) -> None:
    """Writes the call of one op, and checks and names its results."""
    if is_read(op):
        _read(host, op)
        return
    shim = _shim_of(op)
    if shim is not None and _exists(shim) and _fits_shim(op):
        _call_shim(host, op, shim)
    else:
        _call_python(host, op)


_ELEMENTS: dict[str, Attribute] = {
    "i1": i8,
    "i8": i8,
    "i16": i16,
    "i32": i32,
    "i64": i64,
    "u8": i8,
    "f32": f32,
    "f64": f64,
}
"""Dtypes whose numbers are read from memory, and what is loaded."""


def is_read(op: AtenOp) -> bool:
    """Whether an op is the number that is a tensor's one element, where that lies on the CPU: no call is made of it."""
    if op.name != "aten._local_scalar_dense" or not isinstance(t := op.operands[0].type, TensorType):
        return False
    return t.device == "cpu" and t.dtype in _ELEMENTS


def _read(host: HostLowering, op: AtenOp) -> None:
    frame, b = host.frame, host.frame.b
    dtype = cast(TensorType, op.operands[0].type).dtype
    element = _ELEMENTS[dtype]
    value = b.load(host.data(op.operands[0]), element, 1)
    if isinstance(element, IntegerType):
        value = b.resize(value, i64, signed=dtype[0] == "i" and dtype != "i1")
    elif dtype == "f32":
        value = b.cast(llvm.FPExtOp, value, f64)
    word = frame.words(1)
    frame.store(value, word)
    if isinstance(t := op.results[0].type, SymType):
        bind_scalar(host, t, word)


# ------------------------------------------------------------------------------------------------------------ results


def _prepare_results(host: HostLowering, op: AtenOp) -> int:
    """The first of the frame's places for the tensors that come back."""
    return host.frame.own(len(op.results))


def finish_results(host: HostLowering, operator: str, results: Sequence[SSAValue], first: int) -> None:
    """Names what came back from an operator, binds symbols that its sizes introduce, and compares it with the types."""
    frame = host.frame
    name = frame.object_index(DictionaryAttr({"name": StringAttr(operator)}))
    for i, result in enumerate(results):
        if not isinstance(type := result.type, TensorType):
            continue
        place = frame.owned_at(first + i)
        bind_sizes(host, type, place)
        buffer = host.buffers[result] = Buffer(type)
        buffer.owned = first + i
        if all(isinstance(use.operation, DropOp) for use in result.uses):
            continue  # nobody sees it, and torch's tracing is wrong about some that are for the derivative alone
        data = frame.words(1)
        layout, dtype = host.layout(type), frame.i32(DTYPE_CODES[type.dtype])
        frame.checked("lamella_result", frame.self_, name, place, *layout, dtype, data)
        buffer.handle, buffer.data = frame.load(place), frame.load(data)


def bind_sizes(host: HostLowering, type: TensorType, place: SSAValue) -> None:
    """Give the symbols that stand alone in a type their value, from the tensor in a place of the frame."""
    frame, b = host.frame, host.frame.b
    for what, dims in (("aoti_torch_get_size", type.shape), ("aoti_torch_get_stride", type.strides)):
        for i, d in enumerate(dims):
            if isinstance(d, sympy.Symbol) and d not in frame.env:
                word = frame.words(1)
                frame.shim(what, frame.load(place), b.constant(i, i64), word)
                frame.env[d] = frame.load(word, i64)


# ------------------------------------------------------------------------------------------------------------ the shim


def _fits_shim(op: AtenOp) -> bool:
    """Whether every argument has a C form, and none loses its meaning in it."""
    known = (TensorType, NoneType, SymType)
    if any(not isinstance(t, known) or (isinstance(t, SymType) and t.dtype != "i64") for t in op.result_types):
        return False
    scalars = any(a.element == "number" for a in op.schema.args)
    if scalars and not all(is_float(v.type.dtype) for v in op.operands if isinstance(v.type, TensorType)):
        return False
    return all(_has_form(a, v) for a, v in zip(op.schema.args, op.args(), strict=True))


def _has_form(a: Argument, value: Value) -> bool:
    if a.nested or (a.is_list and (a.optional or a.elements_optional)) or isinstance(value, complex):
        return False
    if a.element == "number" and isinstance(value, sympy.Basic):
        return False
    if a.element == "Tensor" and value is None and not a.optional:
        return False
    return a.element in _FORMS


def _call_shim(host: HostLowering, op: AtenOp, shim: str) -> None:
    frame = host.frame
    schema = op.schema
    pairs = list(zip(schema.args, op.args(), strict=True))
    if schema.args[-1].name == "out":  # outputs come first in the shim
        pairs = [pairs[-1], *pairs[:-1]]
    operands: list[SSAValue] = []
    signature = "i"
    for a, value in pairs:
        for letter, operand in _forms(host, a, value):
            signature += letter
            operands.append(operand)
    first = None if schema.mutates else _prepare_results(host, op)
    numbers: dict[int, SSAValue] = {}
    if first is not None:
        numbers = {i: frame.words(1) for i, r in enumerate(op.results) if isinstance(r.type, SymType)}
        operands += [numbers.get(i) or frame.owned_at(first + i) for i in range(len(op.results))]
        signature += "p" * len(op.results)
    types = (*op.operand_types, *op.result_types)
    with recorded(frame, event_of(op.name), host.profile), released(frame, types), one_thread(host, op):
        code = frame.call(shim, *operands, signature=signature)
    assert code is not None
    _or_again(host, op, code)
    if first is not None:
        for i, word in numbers.items():
            bind_scalar(host, cast(SymType, op.results[i].type), word)
        finish_results(host, op.name, op.results, first)
        return
    for i, result in enumerate(op.results):
        written = [v for j in schema.aliases(i) for v in [op.args()[j]]]
        host.buffers[result] = host.buffers[written[0]]


_FORMS = {"Tensor": "p", "int": "l", "float": "d", "number": "d", "bool": "i", "ScalarType": "i"}


def _forms(host: HostLowering, a: Argument, value: Value) -> list[tuple[str, SSAValue]]:
    """The C arguments for one argument of the schema, each with the letter of its type."""
    frame, b = host.frame, host.frame.b
    if a.is_list:
        items = cast(tuple[Value, ...], value)
        if a.element == "int":
            pointer = frame.array(_integers(items))
        else:
            values = [_form(host, a, item) for item in items]
            pointer = frame.words(len(values))
            width = 4 if a.element == "bool" else 8
            for i, v in enumerate(values):
                frame.store(v, b.gep(pointer, i, i32 if width == 4 else i64))
        return [("p", pointer), ("l", b.constant(len(items), i64))]
    if not a.optional:
        return [(_FORMS[a.element], _form(host, a, value))]
    if value is None:
        return [("p", frame.null)]
    word = frame.words(1)
    frame.store(_form(host, a, value), word)
    return [("p", word)]


def _integers(items: Sequence[Value]) -> list[Any]:
    return [item.type.expr if isinstance(item, SSAValue) else item for item in items]


def _form(host: HostLowering, a: Argument, value: Value) -> SSAValue:
    frame, b = host.frame, host.frame.b
    if a.element == "Tensor":
        return host.handle(value)
    if isinstance(value, SSAValue):
        value = cast(SymType, value.type).expr
    match a.element:
        case "int":
            return frame.number(value)
        case "bool":
            return b.constant(int(value), i32) if isinstance(value, bool) else b.resize(frame.condition(value), i32)
        case "ScalarType":
            return frame.i32(DTYPE_CODES[value])
        case _:
            return host.frame.float(value)


# --------------------------------------------------------------------------------------------------------------- Python


def _call_python(host: HostLowering, op: AtenOp) -> None:
    spec, dynamic = _python_form(op)
    first, scalars = _python_results(host, op, spec, [_python_argument(host, value) for value in dynamic])
    for i, result in enumerate(op.results):
        if isinstance(type := result.type, SymType):
            bind_scalar(host, type, host.frame.b.gep(scalars, i, i64))
    finish_results(host, op.name, op.results, first)


def _or_again(host: HostLowering, op: AtenOp, code: SSAValue) -> None:
    """Where a call of the shim has failed, the same through Python; what that does not raise is the shim's to say."""
    frame = host.frame
    spec, dynamic = _python_form(op)
    are_tensors = [isinstance(v, SSAValue) and isinstance(v.type, TensorType) for v in dynamic]
    handles = [host.handle(cast(SSAValue, v)) for v, is_tensor in zip(dynamic, are_tensors, strict=True) if is_tensor]

    def write(given: Sequence[SSAValue]) -> None:
        left = iter(given)
        arguments = [
            frame.get("lamella_object", next(left)) if is_tensor else _python_argument(host, v)
            for v, is_tensor in zip(dynamic, are_tensors, strict=True)
        ]
        _python_results(host, op, spec, arguments)
        frame.call("lamella_raise")

    frame.or_leave(code, handles, spec if all(are_tensors) else op, write)


def _python_form(op: AtenOp) -> tuple[Attribute, list[Value]]:
    """The overload as a Python function of what is not known before the call: tensors and symbolic numbers."""
    dynamic: list[Value] = []

    def template(value: Value) -> Value:
        if isinstance(value, SSAValue) or (isinstance(value, sympy.Basic) and not value.is_number):
            dynamic.append(value)
            return HOLE
        return tuple(template(v) for v in value) if isinstance(value, tuple) else value

    templates = tuple(template(v) for v in op.args())
    results: Attribute = IntegerAttr(len(op.results), i64)
    spec = {"call": StringAttr(op.name), "arguments": Literal.get(templates), "results": results}
    return DictionaryAttr(spec), dynamic


def _python_results(
    host: HostLowering, op: AtenOp, spec: Attribute, arguments: Sequence[SSAValue]
) -> tuple[int, SSAValue]:
    """Calls that function. The first place of the tensors that come back, and the address of the numbers."""
    frame, b = host.frame, host.frame.b
    index = frame.object_index(spec)
    kinds = [_result_kind(r) for r in op.results]
    argv = frame.words(len(arguments) + 1)
    for i, argument in enumerate(arguments):
        frame.store(argument, b.gep(argv, i + 1, PTR))
    first, scalars = _prepare_results(host, op), frame.words(len(op.results))
    count = b.constant(len(arguments), i64)
    into = (frame.table(kinds), b.constant(len(kinds), i64), frame.owned_at(first), scalars)
    with one_thread(host, op):
        code = frame.get("lamella_call", frame.self_, index, argv, count, *into)
    frame.succeed(b.icmp("eq", code, b.constant(0, i32)))
    return first, scalars


def _result_kind(result: SSAValue) -> int:
    return SCALAR_KINDS[result.type.dtype] if isinstance(result.type, SymType) else 0


def bind_scalar(host: HostLowering, type: SymType, word: SSAValue) -> None:
    """Give the symbol of a scalar the value in a word of the frame."""
    frame = host.frame
    symbol = type.expr
    if isinstance(symbol, sympy.Eq) and symbol.rhs == 1:
        symbol = symbol.lhs  # how torch writes a truth value read from data
    if not isinstance(symbol, sympy.Symbol):
        return
    if type.dtype == "f64":
        frame.floats.setdefault(symbol, frame.load(word, f64))
    else:
        frame.env.setdefault(symbol, frame.load(word, i64))


def _python_argument(host: HostLowering, value: Value) -> SSAValue:
    if isinstance(value, SSAValue):
        return host.object(value)
    frame = host.frame
    if isinstance(value, (sympy.Rel, sympy.logic.boolalg.BooleanFunction)):
        return frame.get("PyBool_FromLong", frame.condition(value))
    if value.is_integer:
        return frame.get("PyLong_FromLongLong", frame.number(value))
    return frame.get("PyFloat_FromDouble", frame.float(value))
