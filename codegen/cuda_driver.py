"""What compiled code needs of CUDA: addresses of the driver's and torch's functions, and kernels loaded onto a GPU.

`libcuda.so.1` is called through ctypes, with the GPU's primary context, which is the one torch uses. `use` puts
another driver in its place for tests without a GPU.
"""

from __future__ import annotations

import ctypes
import hashlib
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Protocol

from .errors import CodegenError
from .runtime_support import plain_keys
from .triton_compile import Begun, CompiledKernel, KernelSource, begin_kernels

if TYPE_CHECKING:
    import torch

_MAX_DYNAMIC_SHARED = 8
"""CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES."""
_FREE_SHARED = 48 << 10
"""Shared memory that a kernel may use without asking."""


class Driver(Protocol):
    """The functions that code is linked with (over those of `imports.IMPORTS`), and ways to make and load kernels."""

    @property
    def imports(self) -> Mapping[str, int]: ...

    def begin(self, sources: Sequence[KernelSource], sm: int) -> Begun:
        """Has the code of each source made, by others; what it gives waits for them."""
        ...

    def load(self, kernel: CompiledKernel, device: int) -> int:
        """A handle of the kernel, which `cuLaunchKernel` takes."""
        ...

    def upload(self, number: torch.Tensor, device: str) -> torch.Tensor:
        """A number of the CPU on a GPU, which nobody waits for."""
        ...

    def plain_keys(self) -> int:
        """All dispatch keys of plain tensors of its GPUs."""
        ...


class Cuda:
    """The real one. CodegenError where there is none, or it refuses."""

    imports: Mapping[str, int]

    def __init__(self) -> None:
        try:
            self.library = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise CodegenError(f"there is no CUDA driver here: {error}") from error
        self.imports = {}
        self._loaded: dict[tuple[int, bytes], int] = {}
        self._contexts: dict[int, ctypes.c_void_p] = {}
        self._lock = threading.Lock()

    def upload(self, number: torch.Tensor, device: str) -> torch.Tensor:
        import torch

        return torch.full((), number.item(), dtype=number.dtype, device=device)

    def plain_keys(self) -> int:
        return plain_keys("cuda")

    def begin(self, sources: Sequence[KernelSource], sm: int) -> Begun:
        return begin_kernels(sources, sm)

    def load(self, kernel: CompiledKernel, device: int) -> int:
        """Equal code is loaded onto a GPU once, and stays: a graph that is gone may still run there."""
        key = device, hashlib.sha256(kernel.cubin).digest()
        with self._lock:
            if key not in self._loaded:
                self._loaded[key] = self._load(kernel, device)
            return self._loaded[key]

    def _load(self, kernel: CompiledKernel, device: int) -> int:
        import torch

        torch.cuda.init()
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        with self._context(device):
            self._call("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(kernel.cubin))
            self._call("cuModuleGetFunction", ctypes.byref(function), module, kernel.name.encode())
            if kernel.shared > _FREE_SHARED:
                self._call("cuFuncSetAttribute", function, _MAX_DYNAMIC_SHARED, kernel.shared)
        assert function.value is not None
        return function.value

    @contextmanager
    def _context(self, device: int) -> Generator[None]:
        if device not in self._contexts:  # held for good: what is loaded goes with it
            context = ctypes.c_void_p()
            self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
            self._contexts[device] = context
        self._call("cuCtxPushCurrent_v2", self._contexts[device])
        try:
            yield
        finally:
            self._call("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))

    def _call(self, name: str, *arguments: object) -> None:
        if code := self.library[name](*arguments):
            text = ctypes.c_char_p()
            self.library.cuGetErrorString(code, ctypes.byref(text))
            raise CodegenError(f"{name}: {(text.value or b'unknown error').decode()} (CUDA error {code})")


_used: list[Driver] = []


def driver() -> Driver:
    """The driver of this process."""
    return _used[-1] if _used else _cuda()


def compiler() -> Callable[[Sequence[KernelSource], int], Begun]:
    """What makes code of sources: Triton, without a GPU too, or the driver that is used instead."""
    return _used[-1].begin if _used else begin_kernels


@cache
def _cuda() -> Cuda:
    return Cuda()


@contextmanager
def use(other: Driver) -> Generator[None]:
    """Graphs that are loaded meanwhile run on `other`."""
    _used.append(other)
    try:
        yield
    finally:
        _used.remove(other)
