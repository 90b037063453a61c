"""Addresses of the native functions that compiled code calls, by name."""

import ctypes
import re
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path

from .errors import CodegenError

WRAP = "THPVariable_Wrap"
"""Stands for libtorch_python's function from at::Tensor* to PyObject*; its C++ name differs between torch versions."""

NUM_THREADS = "lamella_num_threads"
"""Stands for at::get_num_threads. OpenMP's own number is per thread, and torch sets it in a thread when ATen is first
used there: before that it is not what `torch.set_num_threads` said.
"""

MKL_THREADS = "lamella_mkl_threads"
"""Stands for MKL's function that sets the calling thread's number of threads, and returns the one before."""

# By reference, by rvalue and by value come to one ABI: a pointer to the tensor, which the caller still destroys.
_WRAP_NAMES = (
    "_Z16THPVariable_WrapON2at10TensorBaseE",
    "_Z16THPVariable_WrapRKN2at10TensorBaseE",
    "_Z16THPVariable_WrapN2at10TensorBaseE",
)

_CONVERSION = re.compile(r"__(trunc|extend)\w+f2")
_DRIVER = re.compile(r"cu[A-Z]\w+")
_OPENMP = re.compile(r"(GOMP|omp|kmp|__kmpc)_\w+")


class Imports:
    """Resolves symbol names to addresses in torch's libraries, its OpenMP runtime, CPython, libm and libc, and in the
    CUDA driver.
    """

    def __init__(self) -> None:
        self._known: dict[str, int] = {}
        self._libraries: dict[str, ctypes.CDLL] = {}
        self._lock = threading.RLock()

    def add(self, name: str, address: int) -> None:
        """Makes `name` resolve to `address` from now on."""
        with self._lock:
            self._known[name] = address

    def find(self, name: str) -> int | None:
        """The address of `name`, None when no library has it."""
        with self._lock:
            if (address := self._known.get(name)) is None and (address := self._search(name)) is not None:
                self._known[name] = address
            return address

    def resolve(self, names: Iterable[str], given: Mapping[str, int] | None = None) -> dict[str, int]:
        """Addresses of `names`, those `given` first; CodegenError that lists the names found nowhere."""
        found = {name: (given or {}).get(name) or self.find(name) for name in names}
        if missing := sorted(name for name, address in found.items() if address is None):
            raise CodegenError(f"compiled code calls {', '.join(missing)}, which no library here exports")
        return {name: address for name, address in found.items() if address is not None}

    def _search(self, name: str) -> int | None:
        if name == WRAP:
            found = (self._address(self._torch("libtorch_python.so"), mangled) for mangled in _WRAP_NAMES)
            return next((address for address in found if address is not None), None)
        if name == NUM_THREADS:
            return self._address(self._torch("libtorch_cpu.so"), "_ZN2at15get_num_threadsEv")
        if name == MKL_THREADS:
            mkl = self._address(self._torch("libtorch_cpu.so"), "MKL_Set_Num_Threads_Local")
            # without MKL nothing is set: a function of the same type that does nothing else
            return mkl or self._address(self._library("libc.so.6"), "abs")
        if name.startswith(("aoti_torch_", "aoti_record_", "Sleef_")):
            return self._address(self._torch("libtorch_cpu.so"), name) or self._cuda_shim(name)
        if _DRIVER.fullmatch(name):
            return self._address(self._library("libcuda.so.1"), name)
        if _OPENMP.match(name):
            # Torch's own runtime, so that its threads are shared: a second copy would fight it for the cores.
            return self._address(self._openmp(), name)
        if name.startswith(("Py", "_Py")):
            return self._address(ctypes.pythonapi, name)
        if _CONVERSION.fullmatch(name):
            from .float_runtime import runtime  # is compiled and loaded, through this module

            return runtime().addresses.get(name)
        if name.startswith("lamella_sort_"):
            from .sorting_runtime import sorting

            return sorting(name.rpartition("_")[2])[name]
        if name.startswith("lamella_special_"):
            from .special_runtime import special

            return special().addresses.get(name)
        return self._address(self._library("libm.so.6"), name) or self._address(self._library("libc.so.6"), name)

    @staticmethod
    def _address(library: ctypes.CDLL, name: str) -> int | None:
        try:
            return ctypes.cast(getattr(library, name), ctypes.c_void_p).value
        except AttributeError:
            return None

    def _library(self, path: str) -> ctypes.CDLL:
        if path not in self._libraries:
            self._libraries[path] = ctypes.CDLL(path)
        return self._libraries[path]

    def _torch(self, file: str) -> ctypes.CDLL:
        return self._library(str(_torch_libraries() / file))

    def _cuda_shim(self, name: str) -> int | None:
        found = (_torch_libraries() / "libtorch_cuda.so").exists() and "cuda" in name
        return self._address(self._torch("libtorch_cuda.so"), name) if found else None

    def _openmp(self) -> ctypes.CDLL:
        """The OpenMP runtime that libtorch_cpu has loaded into this process."""
        self._torch("libtorch_cpu.so")
        for line in Path("/proc/self/maps").read_text().splitlines():
            path = line.split(maxsplit=5)[-1]
            if re.fullmatch(r".*/lib(gomp|iomp5|omp)[-.\w]*\.so[.\d]*", path) and _is_torchs(path):
                return self._library(path)
        raise CodegenError("torch's OpenMP runtime is not loaded in this process")


def _torch_libraries() -> Path:
    import torch

    return Path(torch.__file__).parent / "lib"


def _is_torchs(path: str) -> bool:
    """Whether torch brought this runtime along, or it is the system's and torch brought none."""
    own = [p for p in (_torch_libraries(), _torch_libraries().parents[1] / "torch.libs") if p.is_dir()]
    bundled = any(list(p.glob("lib*omp*.so*")) for p in own)
    return not bundled or any(Path(path).is_relative_to(p) for p in own)


IMPORTS = Imports()
"""The registry `load_object` uses."""
