"""A GPU that is not there: tensors lie in the CPU's memory, and each launch runs the kernel's text by the interpreter.

For tests of whole programs without a GPU, and to find accesses beyond a buffer, which a GPU may hide:

    gpu = InterpretedGpu()
    with gpu.used():
        graph = driver.native(module, target, gpu_target)
        outputs = gpu.run(graph, inputs)
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from xdsl.dialects.builtin import ModuleOp

from ..dialects.text import parse_module
from ..dialects.tt import FuncOp, PtrType
from . import cuda_driver
from .imports import IMPORTS, WRAP
from .interpret_tt import interpret
from .interpret_tt_ops import dtype_of
from .jit import compile_object, load_object
from .runtime_support import plain_keys
from .target import CpuTarget
from .triton_compile import Begun, CompiledKernel, KernelSource

_P, _I, _L = ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64
_CPU, _CUDA = 0, 1
_FAILED = 999
_UNKNOWN = 1 << 32
"""Bytes that a buffer may have of which nobody has said how large it is."""


_GUARDS = ("aoti_torch_create_cuda_guard", "aoti_torch_cuda_guard_set_index", "aoti_torch_delete_cuda_guard")
GUARDS = r"""
@log = global [65536 x i32] zeroinitializer
@count = global i64 0

define private i32 @note(i32 %device) {
  %n = load i64, ptr @count
  %k = and i64 %n, 65535
  %at = getelementptr i32, ptr @log, i64 %k
  store i32 %device, ptr %at
  %more = add i64 %n, 1
  store i64 %more, ptr @count
  ret i32 0
}
define i32 @aoti_torch_create_cuda_guard(i32 %device, ptr %out) {
  store ptr @log, ptr %out
  %r = call i32 @note(i32 %device)
  ret i32 %r
}
define i32 @aoti_torch_cuda_guard_set_index(ptr %guard, i32 %device) {
  %r = call i32 @note(i32 %device)
  ret i32 %r
}
define i32 @aoti_torch_delete_cuda_guard(ptr %guard) {
  %r = call i32 @note(i32 -1)
  ret i32 %r
}
"""
"""Functions that write down what they are asked."""


@dataclass(frozen=True)
class Launch:
    """What the driver was asked to launch."""

    kernel: str
    device: int
    grid: tuple[int, int, int]
    threads: int
    shared: int
    stream: int


class InterpretedGpu:
    """A driver for `cuda_driver.use`; `launches` and `guards` tell what it was asked."""

    def __init__(self, overlaps: bool = False) -> None:
        self.overlaps = overlaps
        """Whether kernels count as waiting by themselves for the launch before."""
        self.early = 0
        """How many launches need not wait."""
        self.uploaded = 0
        """How many numbers were copied to it."""
        self.launches: list[Launch] = []
        self.devices: dict[int, int] = {}
        """The GPU that a tensor counts as being on, by `_cdata`; the first, if it is not here."""
        self._kernels: list[tuple[CompiledKernel, int, list[FuncOp]]] = []
        self._storages: dict[int, StorageWeakRef] = {}
        """Those whose size counts, as long as they live and where they are: their places are given again."""
        self._error: ctypes.Array[ctypes.c_char] = ctypes.create_string_buffer(b"none")
        functions: dict[str, tuple[Callable[..., int], tuple[Any, ...]]] = {
            "cuLaunchKernel": (self._launch, (_P, *(_I,) * 7, _P, _P, _P)),
            "cuLaunchKernelEx": (self._launch_early, (_P, _P, _P, _P)),
            "cuCtxGetCurrent": (self._context, (_P,)),
            "cuCtxSetCurrent": (lambda context: 0, (_P,)),
            "cuDevicePrimaryCtxRetain": (lambda out, device: 0, (_P, _I)),
            "cuGetErrorString": (self._words, (_I, _P)),
            "aoti_torch_get_current_cuda_stream": (self._stream, (_I, _P)),
            "aoti_torch_get_device_index": (self._device, (_P, _P)),
            "aoti_torch_empty_strided": (self._empty, (_L, _P, _P, _I, _I, _I, _P)),
        }
        self._callbacks = {name: ctypes.CFUNCTYPE(_I, *types)(f) for name, (f, types) in functions.items()}
        address = {name: ctypes.cast(f, _P).value or 0 for name, f in self._callbacks.items()}
        # Without Python: the way out of a program runs with an error set.
        self._native = load_object(compile_object(GUARDS, CpuTarget.host()), [*_GUARDS, "log", "count"])
        self.imports: Mapping[str, int] = _Imports(address | {name: self._native[name] for name in _GUARDS})

    @property
    def guards(self) -> list[int | None]:
        """Devices that were made current, None for back."""
        count = _L.from_address(self._native["count"]).value
        log = (_I * count).from_address(self._native["log"])
        return [None if device < 0 else device for device in log]

    @contextmanager
    def used(self) -> Generator[None]:
        """Graphs that are compiled and loaded meanwhile run here."""
        with cuda_driver.use(self):
            yield

    def run(self, graph: Callable[[list[Any]], Any], inputs: Sequence[Any]) -> Any:
        """Calls `graph`; the inputs' storages are all that it may touch of them."""
        for value in inputs:
            if isinstance(value, torch.Tensor):
                self._note(value)
        return graph(list(inputs))

    # --------------------------------------------------------------------------------------------------- as the Driver

    def upload(self, number: torch.Tensor, device: str) -> torch.Tensor:
        self.uploaded += 1
        return number.clone()

    def plain_keys(self) -> int:
        return plain_keys("cpu")

    def begin(self, sources: Sequence[KernelSource], sm: int) -> Begun:
        made = [
            CompiledKernel(s.name, s.text.encode(), s.warps, 0, sm=sm, source=s, overlaps=self.overlaps)
            for s in sources
        ]
        return lambda: made

    def load(self, kernel: CompiledKernel, device: int) -> int:
        self._kernels.append((kernel, device, []))
        return len(self._kernels)

    # ------------------------------------------------------------------------------------------------- what code calls

    def _launch(self, function: int, x: int, y: int, z: int, *rest: int) -> int:
        threads, _, _, shared, stream, arguments, _ = rest
        kernel, device, parsed = self._kernels[function - 1]
        self.launches.append(Launch(kernel.name, device, (x, y, z), threads, shared, stream or 0))
        try:
            if not parsed:
                parsed += _functions(parse_module(kernel.cubin.decode()))
            interpret(parsed[0], (x, y, z), self._arguments(parsed[0], arguments))
        except Exception as error:  # nothing but a code gets through to the caller
            self._error = ctypes.create_string_buffer(str(error).encode())
            return _FAILED
        return 0

    def _launch_early(self, config: int, function: int, arguments: int, extra: int) -> int:
        """The same, as a CUlaunchConfig says: sizes, the stream, and that it need not wait for the launch before."""
        x, y, z, threads, _, _, shared = (_I * 7).from_address(config)
        stream, attributes = (_P * 2).from_address(config + 32)
        count = _I.from_address(config + 48).value
        if count != 1 or list((_I * 3).from_address(attributes or 0)) != [6, 0, 1]:
            return _FAILED
        self.early += 1
        return self._launch(function, x, y, z, threads, 1, 1, shared, stream or 0, arguments, 0)

    def _arguments(self, func: FuncOp, arguments: int) -> list[Any]:
        found: list[Any] = []
        for i, type in enumerate(func.function_type.inputs.data):
            word = _P.from_address(arguments + 8 * i).value or 0
            if isinstance(type, PtrType):
                address = _P.from_address(word).value or 0
                found.append(self._buffer(address, dtype_of(type.pointee)))
            else:
                found.append((_L if dtype_of(type).itemsize == 8 else _I).from_address(word).value)
        return found

    def _buffer(self, address: int, dtype: torch.dtype) -> torch.Tensor:
        """The memory from an address to the end of what lies there."""
        ends = [start + size for start, size in self._ranges() if start <= address < start + size]
        size = (max(ends) - address if ends else _UNKNOWN) // dtype.itemsize * dtype.itemsize
        if address == 0 or size == 0:
            return torch.empty(0, dtype=dtype)
        return torch.frombuffer((ctypes.c_ubyte * size).from_address(address), dtype=dtype)

    def _note(self, tensor: torch.Tensor) -> None:
        ref = StorageWeakRef(tensor.untyped_storage())
        self._storages[ref.cdata] = ref  # no other has this name before the reference is dropped

    def _ranges(self) -> list[tuple[int, int]]:
        """Where storages that are alive begin, and their bytes."""
        found: list[tuple[int, int]] = []
        for key, ref in list(self._storages.items()):
            storage: torch.UntypedStorage | None = torch.UntypedStorage._new_with_weak_ptr(ref.cdata)
            if storage:
                found.append((storage.data_ptr(), storage.nbytes()))
            else:
                del self._storages[key]
        return found

    def _context(self, out: int) -> int:
        _P.from_address(out).value = 1
        return 0

    def _words(self, code: int, out: int) -> int:
        _P.from_address(out).value = ctypes.addressof(self._error)
        return 0

    def _stream(self, device: int, out: int) -> int:
        _P.from_address(out).value = 100 + device
        return 0

    def _device(self, tensor: int, out: int) -> int:
        _I.from_address(out).value = self.devices.get(_P.from_address(tensor).value or 0, 0)
        return 0

    def _empty(self, rank: int, sizes: int, strides: int, dtype: int, kind: int, device: int, out: int) -> int:
        assert kind == _CUDA, "programs ask the runtime for the CPU's memory"
        code = _shim("aoti_torch_empty_strided", _L, _P, _P, _I, _I, _I, _P)(rank, sizes, strides, dtype, _CPU, 0, out)
        if code == 0:
            self._note(_tensor(_P.from_address(out)))
        return code


def _functions(module: ModuleOp) -> list[FuncOp]:
    return [op for op in module.ops if isinstance(op, FuncOp)]


def _shim(name: str, *types: Any) -> Callable[..., int]:
    """A function of torch's C shim."""
    return ctypes.CFUNCTYPE(_I, *types)(IMPORTS.resolve([name])[name])


def _tensor(kept: ctypes.c_void_p) -> torch.Tensor:
    """For a handle, which stays. (torch._C._aoti has a function for it, which never lets go of what it makes.)"""
    handle = _P()
    _shim("aoti_torch_new_tensor_handle", _P, _P)(kept, ctypes.byref(handle))
    tensor = ctypes.PYFUNCTYPE(ctypes.py_object, _P)(IMPORTS.resolve([WRAP])[WRAP])(handle)
    _shim("aoti_torch_delete_tensor_object", _P)(handle)
    return tensor


class _Imports(Mapping[str, int]):
    """Functions by name; those of torch's shim for GPUs are the CPU's."""

    def __init__(self, known: Mapping[str, int]) -> None:
        self._known = known

    def __getitem__(self, name: str) -> int:
        if name in self._known:
            return self._known[name]
        if name.startswith("aoti_torch_cuda_"):
            found = IMPORTS.find(name.replace("_cuda_", "_cpu_", 1))
            if found is not None:
                return found
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)
