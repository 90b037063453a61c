"""Compiled graphs in this process: the object code of a host program as a Python function on a list of inputs."""

from __future__ import annotations

import ctypes
import threading
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import ArrayAttr, ModuleOp

from ..dialects import expr, literal
from ..dialects.tensor import SymType, TensorType
from .call_operator import CallSpec, ExpressionSpec, call_operator, evaluate_expression
from .jit import load_object
from .runtime_support import load_support
from .wrong_inputs import Argument, explainer

if TYPE_CHECKING:
    from .triton_compile import CompiledKernel

MAIN = "main"


@dataclass(frozen=True)
class GpuKernel:
    """A kernel that the program launches: its symbol, the number of the GPU, how many of its arguments are buffers,
    whether the others are 32-bit, and the code.
    """

    symbol: str
    device: int
    buffers: int
    narrow: int
    code: CompiledKernel


@dataclass(frozen=True)
class Metadata:
    """What a program needs besides its code; picklable."""

    arguments: tuple[Argument, ...]
    objects: tuple[Any, ...]
    """The Python objects it uses: names, tuples of messages, and specs of calls and expressions."""
    kernels: tuple[GpuKernel, ...] = ()

    @property
    def on_gpu(self) -> bool:
        """Whether it takes or makes tensors of a GPU."""
        return self.kernels != () or any(a.device != "cpu" for a in self.arguments)


def metadata(module: ModuleOp, kernels: Mapping[str, CompiledKernel] | None = None) -> Metadata:
    """Reads what host-to-llvm left on the module; `kernels` are those for GPUs, by symbol."""
    names_and_types = _array(module, "lamella.arguments")
    pairs = zip(names_and_types[::2], names_and_types[1::2], strict=True)
    objects = tuple(_spec(a) for a in _array(module, "lamella.objects"))
    arguments = tuple(_argument(name.data, type) for name, type in pairs)
    if "lamella.kernels" not in module.attributes:
        return Metadata(arguments, objects)
    words = _array(module, "lamella.kernels")
    names = [name.data for name in words[::4]]
    numbers = (tuple(n.value.data for n in words[i + 1 : i + 4]) for i in range(0, len(words), 4))
    used = (
        GpuKernel(name, device, buffers, narrow, (kernels or {})[name])
        for name, (device, buffers, narrow) in zip(names, numbers, strict=True)
    )
    return Metadata(arguments, objects, tuple(used))


def _array(module: ModuleOp, name: str) -> Sequence[Any]:
    attribute = module.attributes.get(name)
    if not isinstance(attribute, ArrayAttr):
        raise ValueError(f"the module has no {name}: it was not made by host-to-llvm")
    return attribute.data


def _text(value: Any) -> int | str:
    return value if isinstance(value, int) else expr.text(value)


def _argument(name: str, type: Any) -> Argument:
    if isinstance(type, TensorType):
        strides = None if type.is_contiguous else tuple(map(_text, type.strides))
        return Argument(name, type.dtype, tuple(map(_text, type.shape)), strides, device=type.device)
    if isinstance(type, SymType):
        return Argument(name, type.dtype, scalar=str(_text(type.expr)))
    return Argument(name, None)


def _spec(attribute: Any) -> Any:
    entries = attribute.data
    if "messages" in entries:
        return tuple(m.data for m in entries["messages"].data)
    if "name" in entries:
        return entries["name"].data
    if "expression" in entries:
        return ExpressionSpec(entries["expression"].data, tuple(s.data for s in entries["symbols"].data))
    return CallSpec(entries["call"].data, literal.text(entries["arguments"].value), entries["results"].value.data)


class NativeGraph:
    """A compiled host program. `graph(inputs)` empties the list `inputs` and returns a tuple of outputs.

    Picklable: the code is loaded on the first call in each process. Safe to call from several threads, and from within
    itself. Raises TypeError or ValueError for inputs that are not what the program was compiled for, IndexError for an
    index out of range in a kernel, and whatever a call into torch raises.
    """

    def __init__(self, code: bytes, meta: Metadata):
        self.code = code
        self.meta = meta
        self._function: Callable[[list[Any]], tuple[Any, ...]] | None = None
        self._lock = threading.Lock()

    def __call__(self, inputs: list[Any]) -> tuple[Any, ...]:
        return (self._function or self.function())(inputs)

    def function(self) -> Callable[[list[Any]], tuple[Any, ...]]:
        """The builtin function itself: the shortest way in."""
        with self._lock:
            if self._function is None:
                self._function = load_main(self.code, self.meta)
            return self._function

    def __getstate__(self) -> tuple[bytes, Metadata]:
        return self.code, self.meta

    def __setstate__(self, state: tuple[bytes, Metadata]) -> None:
        self.__init__(*state)


class _MethodDef(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]


_METH_O = 0x8


def load_main(code: bytes, meta: Metadata) -> Callable[[list[Any]], tuple[Any, ...]]:
    """The function in this process. What it needs lives as long as it does."""
    load_support()
    imports, records = gpu_imports(meta.kernels) if meta.on_gpu else (None, ())
    loaded = load_object(code, [MAIN], imports)
    method = _MethodDef(b"lamella", loaded[MAIN], _METH_O, None)
    objects = [_object(spec) for spec in meta.objects]
    self = (explainer(meta.arguments), *objects, method, loaded, records)
    prototype = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
    make = prototype(("PyCFunction_NewEx", ctypes.pythonapi))
    return make(ctypes.addressof(method), self, None)


def gpu_imports(kernels: Sequence[GpuKernel]) -> tuple[Mapping[str, int], Sequence[Any]]:
    """What code with GPU tensors is linked with, and what must live as long: the records of its kernels, loaded."""
    from .cuda_driver import driver
    from .cuda_runtime import kernel_record, load_cuda

    cuda = driver()
    functions = load_cuda(cuda)
    records = {k.symbol: kernel_record(cuda, k.code, k.device, k.buffers, k.narrow) for k in kernels}
    addresses = {f"{symbol}.kernel": ctypes.addressof(record) for symbol, record in records.items()}
    return ChainMap(addresses, functions.addresses, cuda.imports), (functions, *records.values())  # pyright: ignore


def _object(spec: Any) -> Any:
    if isinstance(spec, CallSpec):
        return call_operator(spec)
    return evaluate_expression(spec) if isinstance(spec, ExpressionSpec) else spec
