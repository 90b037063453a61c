"""Compiled graphs in this process: the object code of a host program as a Python function of its inputs."""

from __future__ import annotations

import ctypes
import hashlib
import pickle
import threading
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .errors import CodegenError
from .jit import load_object
from .metadata import CallSpec, ExpressionSpec, GpuKernel, Metadata
from .runtime_support import load_support
from .wrong_inputs import explainer

MAIN = "main"


class NativeGraph:
    """A compiled host program. `graph(inputs)` empties the list `inputs` and returns a tuple of outputs.

    Picklable: the code is loaded on the first call in each process. Safe to call from several threads, and from within
    itself. Raises TypeError or ValueError for inputs that are not what the program was compiled for, what a
    message says for an index out of range in a kernel, and whatever a call into torch raises.
    """

    def __init__(self, code: bytes, meta: Metadata):
        self.code = code
        self.meta = meta
        self._function: Callable[..., tuple[Any, ...]] | None = None
        self._main: Callable[..., tuple[Any, ...]] | None = None
        self._lock = threading.Lock()

    def __call__(self, inputs: list[Any]) -> tuple[Any, ...]:
        return (self._function or self.function())(inputs)

    def function(self) -> Callable[..., tuple[Any, ...]]:
        """The shortest way in, the builtin function itself where no number is to be copied to a GPU before: of the
        inputs, or of a list of them, which it empties.
        """
        if self._function is None:
            main = self.main()
            self._function = _uploading(main, self.meta) if self.meta.uploads else main
        return self._function

    def main(self) -> Callable[..., tuple[Any, ...]]:
        """The builtin function, which takes numbers where its kernels read them."""
        with self._lock:
            if self._main is None:
                self._main = load_main(self.code, self.meta)
            return self._main

    @property
    def uploads(self) -> tuple[int, ...]:
        """Inputs that are numbers of the CPU, which `main` takes on the GPU."""
        return self.meta.uploads

    def __getstate__(self) -> tuple[bytes, bytes]:
        state = pickle.dumps((self.code, self.meta))
        return state, hashlib.sha256(state).digest()

    def __setstate__(self, kept: tuple[bytes, bytes]) -> None:
        state, digest = kept
        if hashlib.sha256(state).digest() != digest:  # AOTAutograd's cache does not look
            raise CodegenError("the code of a compiled graph is damaged")
        self.__init__(*pickle.loads(state))


class _MethodDef(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]


_METH_NOARGS, _METH_FASTCALL = 0x4, 0x80


def builtin(address: int, self: Sequence[Any], flags: int = _METH_FASTCALL) -> Callable[..., Any]:
    """Native code as a builtin function, which holds `self`: what it needs lives as long as it does."""
    method = _MethodDef(b"lamella", address, flags, None)
    prototype = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
    make = prototype(("PyCFunction_NewEx", ctypes.pythonapi))
    return make(ctypes.addressof(method), (*self, method), None)


def load_main(code: bytes, meta: Metadata) -> Callable[..., tuple[Any, ...]]:
    """The function in this process."""
    load_support()
    imports, records = gpu_imports(meta.kernels) if meta.on_gpu else (None, ())
    loaded = load_object(code, [MAIN], imports)
    objects = [_object(spec) for spec in meta.objects]
    return builtin(loaded[MAIN], (explainer(meta.arguments), *objects, loaded, records))


def _uploading(main: Callable[..., tuple[Any, ...]], meta: Metadata) -> Callable[..., tuple[Any, ...]]:
    from .cuda_driver import driver

    copied, places = driver().upload, [(i, meta.arguments[i].device) for i in meta.uploads]

    def run(*inputs: Any) -> tuple[Any, ...]:
        given: list[Any] = inputs[0] if len(inputs) == 1 and isinstance(inputs[0], list) else list(inputs)
        for i, device in places:
            given[i] = copied(given[i], device)
        return main(given)

    return run


def unobserved() -> Callable[[], bool]:
    """Whether nothing in this thread looks at what operators do: no dispatch mode is on, and torch traces nothing."""
    support = load_support()
    return builtin(support["lamella_unobserved"], (support,), _METH_NOARGS)


def gpu_imports(kernels: Sequence[GpuKernel]) -> tuple[Mapping[str, int], Sequence[Any]]:
    """What code with GPU tensors is linked with, and what must live as long: the records of its kernels, loaded."""
    from .cuda_driver import driver
    from .cuda_runtime import kernel_record, load_cuda

    cuda = driver()
    functions = load_cuda(cuda)
    records = {k.symbol: kernel_record(cuda, k.code, k.device, k.buffers, k.bits) for k in kernels}
    addresses = {f"{symbol}.kernel": ctypes.addressof(record) for symbol, record in records.items()}
    return ChainMap(addresses, functions.addresses, cuda.imports), (functions, *records.values())  # pyright: ignore


def _object(spec: Any) -> Any:
    if isinstance(spec, (CallSpec, ExpressionSpec)):
        from .call_operator import call_operator, evaluate_expression

        return call_operator(spec) if isinstance(spec, CallSpec) else evaluate_expression(spec)
    return spec
