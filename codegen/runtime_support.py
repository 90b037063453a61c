"""The native functions that every host program calls: where torch keeps what they look at, and their code in this
process.

They hold what is the same for all graphs, as LLVM IR that is compiled once per process (and kept in the cache on
disk): taking the arguments (`runtime_arguments`) and giving them back (`runtime_leave`), memory (`runtime_memory`,
`runtime_arenas`, `runtime_outputs`, `runtime_passed`), calls and results (`runtime_results`), kernels that run as one
(`runtime_together`), and whether a recorded graph may be replayed (`runtime_replays`). All but kernels run under the
GIL.

Where torch keeps a tensor inside its Python object, the dispatch keys and the storage inside a tensor and the
reference count inside a storage is found by looking (`find_layout`), not assumed.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache

from . import (
    runtime_arenas,
    runtime_arguments,
    runtime_leave,
    runtime_memory,
    runtime_outputs,
    runtime_passed,
    runtime_replays,
    runtime_results,
    runtime_together,
)
from .cache import cached_objects
from .errors import CodegenError
from .heap import keep_heap
from .imports import IMPORTS
from .jit import LoadedObject, load_object
from .runtime_memory import allocate_again
from .target import CpuTarget

SYMBOLS = (
    *("lamella_enter", "lamella_leave", "lamella_empty", "lamella_empty_over", "lamella_arena", "lamella_arena_done"),
    *("lamella_result", "lamella_restride", "lamella_raise", "lamella_assert", "lamella_call", "lamella_object"),
    *("lamella_wrap", "lamella_drop", "lamella_drop_object", "lamella_tuple", "lamella_view", "lamella_slot"),
    *("lamella_grad_off", "lamella_grad_restore", "lamella_one_thread", "lamella_threads_restore", "lamella_scalar"),
    *("lamella_disagree", "lamella_release", "lamella_retake", "lamella_detached"),
    *("lamella_recycle_limits", "lamella_recycle_clear", "lamella_recycle_bytes", "lamella_room", "lamella_begin"),
    *("lamella_no_memory", "lamella_not_recycled", "lamella_together", "lamella_unobserved", "lamella_cuda_tensors"),
    *("lamella_same_places", "lamella_more_owners"),
)


@dataclass(frozen=True)
class Layout:
    """Byte offsets in torch's objects, and the words that plain ones hold there."""

    handle: int
    """Of the at::Tensor in a Python tensor."""
    keys_at: int
    """Of the dispatch keys in a tensor."""
    storage_at: int
    """Of the storage in a tensor."""
    keys: int
    """All dispatch keys of plain CPU tensors, made in inference mode or not."""
    normal: int
    """The keys of those not made in inference mode."""
    fresh: int
    """The word with the reference counts of a storage that has one owner; 0 when it was not found: then nothing is
    pooled.
    """
    alone: int
    """The same word of a tensor that its Python object alone owns, -1 when it was not found."""
    deleter_at: int
    """Of the function that frees the data, in a storage, between two times its address; -1 when it was not found."""
    object_at: int
    """Of the Python object in a storage, which owns it too once it has been asked for, and is owned by it as long as
    there are others; 0 when it was not found.
    """


def _words(address: int, count: int) -> list[int]:
    return list((ctypes.c_uint64 * count).from_address(address))


def _offset(found: list[int], what: str) -> int:
    if len(found) != 1:
        raise CodegenError(f"cannot find {what} in this version of torch: {len(found)} candidates")
    return found[0] * 8


def find_layout() -> Layout:
    """Looks the offsets up in live tensors. CodegenError when this torch keeps them somewhere else."""
    import torch
    from torch.utils._python_dispatch import _disable_current_modes

    with _disable_current_modes(), torch.inference_mode(False):
        tensors = [torch.empty(3, device="cpu"), torch.empty(2, 5, dtype=torch.int64, device="cpu")]
        masks = [torch._C._dispatch_keys(t).raw_repr() for t in tensors]
        inside = [_words(t._cdata, 32) for t in tensors]

        def places(wanted: list[int], found: list[list[int]]) -> list[int]:
            return [i for i in range(len(found[0])) if all(f[i] == w for f, w in zip(found, wanted, strict=True))]

        storage_at = _offset(places([t.untyped_storage()._cdata for t in tensors], inside), "the storage of a tensor")
        return Layout(
            handle=_offset(
                places([t._cdata for t in tensors], [_words(id(t), 8) for t in tensors]),
                "the tensor of a Python tensor",
            ),
            keys_at=_offset(places(masks, inside), "the dispatch keys of a tensor"),
            storage_at=storage_at,
            keys=plain_keys("cpu"),
            normal=masks[0],
            fresh=_fresh_count(storage_at),
            alone=_count_alone(),
            deleter_at=_deleter_in_storage(storage_at),
            object_at=_object_in_storage(storage_at),
        )


def plain_keys(device: str) -> int:
    """All dispatch keys of plain tensors on `device`, made in inference mode or not."""
    import torch
    from torch.utils._python_dispatch import _disable_current_modes

    with _disable_current_modes():
        found = 0
        for mode in (False, True):
            with torch.inference_mode(mode):
                found |= torch._C._dispatch_keys(torch.empty(1, device=device)).raw_repr()
    return found


def _fresh_count(storage_at: int) -> int:
    """The count word of a storage that one tensor owns, if it is where it is expected: it grows by 1 with each
    owner.
    """
    import torch

    # New tensors: asking Python for a storage makes an object that marks its count word.
    owner = torch.empty(7, device="cpu")
    storage = _words(owner._cdata + storage_at, 1)[0]
    before = _words(storage, 2)[1]
    second = owner.detach()
    during = _words(storage, 2)[1]
    del second
    counts = before & 0xFFFFFFFF == 1 and during == before + 1 and _words(storage, 2)[1] == before
    return before if counts else 0


def _count_alone() -> int:
    import torch

    tensor = torch.empty(7, device="cpu")
    word = _words(tensor._cdata, 2)[1]
    return word if word & 0xFFFFFFFF == 1 else -1


def _deleter_in_storage(storage_at: int) -> int:
    import torch

    tensor = torch.empty(7, device="cpu")
    words = _words(_words(tensor._cdata + storage_at, 1)[0], 8)
    at = [i for i in range(1, 7) if words[i - 1] == words[i + 1] == tensor.data_ptr()]
    return at[0] * 8 if len(at) == 1 else -1


def _deleter(layout: Layout) -> int:
    """The function by which torch frees the data of tensors that it has allocated."""
    import torch

    tensor = torch.empty(7, device="cpu")
    storage = _words(tensor._cdata + layout.storage_at, 1)[0]
    return _words(storage + max(layout.deleter_at, 0), 1)[0]


def _object_in_storage(storage_at: int) -> int:
    """Where a storage has its Python object, if they own each other as is expected: the sign of the count word tells of
    the object, which is an owner more, and has one itself when nobody else asks for it any more.
    """
    import torch

    tensor = torch.empty(7, device="cpu")
    storage = _words(tensor._cdata + storage_at, 1)[0]
    before = _words(storage, 2)[1]
    asked = tensor.untyped_storage()
    address, words = id(asked), _words(storage, 12)
    del asked
    owners = ctypes.c_uint32.from_address(address).value if address in words else 0
    expected = owners == 1 and words[1] == before + 1 + (1 << 63)
    return words.index(address) * 8 if expected else 0


OUTPUTS = 256
"""How many large outputs the pool knows, held or not; a power of two. A step of training holds some hundred, and what
is not known is neither recycled nor counted as in use.
"""


def support_text(layout: Layout) -> str:
    """The LLVM IR of all functions."""
    memory = (runtime_memory, runtime_arenas, runtime_outputs, runtime_passed)
    parts = (runtime_arguments, runtime_leave, *memory, runtime_results, runtime_together, runtime_replays)
    text = "\n".join((DECLARATIONS, *(part.TEXT for part in parts)))
    for name, value in {
        "HANDLE": layout.handle,
        "KEYS_AT": layout.keys_at,
        "FOREIGN": ~layout.keys & 0xFFFFFFFFFFFFFFFF,
        "NORMAL": layout.normal,
        "STORAGE_AT": layout.storage_at,
        "FRESH": layout.fresh,
        "OBJECT_AT": layout.object_at,
        "ALONE": layout.alone,
        "DELETER_AT": layout.deleter_at,
        "OUTPUTS": OUTPUTS,
        "LAST_OUTPUT": OUTPUTS - 1,
    }.items():
        text = text.replace(f"${name}$", str(value if value < 1 << 63 else value - (1 << 64)))
    return text


_lock = threading.Lock()


def load_support() -> LoadedObject:
    """The functions in this process, known to `IMPORTS` under their names. CodegenError where Python has no GIL."""
    with _lock:
        return _load_support()


@contextmanager
def loading_support() -> Generator[None]:
    """Loads the functions in a thread meanwhile: where they must be compiled, LLVM does so while Python goes on.

    What fails is left to `load_support`, which tries again: this torch or Python is not supported, LLVM refuses, or a
    library or the disk does.
    """

    def load() -> None:
        with suppress(CodegenError, OSError):
            load_support()

    if _load_support.cache_info().currsize:
        yield
        return
    thread = threading.Thread(target=load, name="lamella-support")
    thread.start()
    try:
        yield
    finally:
        thread.join()


@cache
def _load_support() -> LoadedObject:
    import torch

    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        raise CodegenError("host programs need Python's global lock; this Python runs without it")
    imports = {
        "lamella_tensor_type": id(torch.Tensor),
        "lamella_parameter_type": id(torch.nn.Parameter),
        "lamella_what": _what(),
        "lamella_allocate_again": id(allocate_again),
        "lamella_inference": _exported("libc10.so", "_ZN3c1013InferenceMode10is_enabledEv"),
        "lamella_modes": _exported("libc10.so", "_ZN3c104impl20TorchDispatchModeTLS9stack_lenEv"),
        "lamella_trace": _exported("libtorch_cpu.so", "_ZN5torch3jit6tracer15getTracingStateEv"),
    }
    keep_heap()
    layout = find_layout()
    imports["lamella_deleter"] = _deleter(layout)
    loaded = load_object(cached_objects([support_text(layout)], CpuTarget.host())[0], SYMBOLS, imports)
    for name in SYMBOLS:
        IMPORTS.add(name, loaded[name])
    return loaded


def _what() -> int:
    """torch's function for the message of the last failed call of its C shim."""
    for name in ("torch_exception_get_what_without_backtrace", "torch_exception_get_what"):
        if (address := _address("libtorch_cpu.so", name)) is not None:
            return address
    return IMPORTS.resolve(["PyErr_Occurred"])["PyErr_Occurred"]  # older torch has no message; this one gives null


def _exported(library: str, name: str) -> int:
    """The address of a function of torch."""
    if (address := _address(library, name)) is None:
        raise CodegenError(f"this version of torch does not export {name}")
    return address


def _address(library: str, name: str) -> int | None:
    import torch

    loaded = ctypes.CDLL(f"{torch.__path__[0]}/lib/{library}")
    return ctypes.cast(loaded[name], ctypes.c_void_p).value if hasattr(loaded, name) else None


def recycle_outputs(least: int = 1 << 20, most: int = 512 << 20) -> None:
    """Outputs of `least` bytes and more are put, where possible, on memory of earlier outputs that nobody holds any
    more.

    Of such memory at most `most` bytes are kept (in all graphs together); 0 keeps none. A storage counts as held as
    long as anything in this process owns it: a tensor, a view, an array of numpy.
    """
    signature = ctypes.PYFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64)
    signature(load_support()["lamella_recycle_limits"])(least, most)


def recycled_bytes() -> int:
    """Bytes that are kept for coming calls: outputs, held by others at the moment or not, and arenas."""
    return ctypes.PYFUNCTYPE(ctypes.c_int64)(load_support()["lamella_recycle_bytes"])()


def release_memory() -> None:
    """Gives back the memory that is kept for coming calls: arenas, and outputs that nobody holds."""
    ctypes.PYFUNCTYPE(None)(load_support()["lamella_recycle_clear"])()


DECLARATIONS = r"""
@lamella_tensor_type = external global i8
@lamella_parameter_type = external global i8
@lamella_deleter = external global i8
@lamella_allocate_again = external global i8
@PyList_Type = external global i8
@PyExc_RuntimeError = external global ptr
@unknown = private constant [60 x i8] c"a call of torch failed; what it wrote to stderr may say why\00"
@detach_name = private constant [7 x i8] c"detach\00"
@short = private constant [37 x i8] c"an operator returned too few results\00"
@missing = private constant [22 x i8] c"%U returned no tensor\00"
@bad_sizes = private constant [69 x i8] c"%U returned a tensor whose sizes are not those the compiler was told\00"
@bad_strides = private constant [72 x i8] c"%U returned a tensor that lies otherwise than told: elements would meet\00"
@bad_dtype = private constant [70 x i8] c"%U returned a tensor whose dtype is not the one the compiler was told\00"

declare i64 @PyList_Size(ptr)
declare ptr @PyList_GetItem(ptr, i64)
declare ptr @PyList_New(i64)
declare i32 @PyList_SetItem(ptr, i64, ptr)
declare i32 @PyList_SetSlice(ptr, i64, i64, ptr)
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
declare i32 @PyType_IsSubtype(ptr, ptr)
declare i64 @PyLong_AsLongLong(ptr)
declare double @PyFloat_AsDouble(ptr)
declare i32 @PyObject_IsTrue(ptr)
declare ptr @PyErr_Occurred()
declare void @PyErr_Clear()
declare ptr @PyErr_NoMemory()
declare ptr @PyErr_Format(ptr, ptr, ...)
declare void @PyErr_SetString(ptr, ptr)
declare void @PyErr_SetObject(ptr, ptr)
declare ptr @PyTuple_GetItem(ptr, i64)
declare ptr @PyObject_CallMethod(ptr, ptr, ptr, ...)
declare ptr @PyObject_CallFunction(ptr, ptr, ...)
declare i64 @PyTuple_Size(ptr)
declare ptr @PyTuple_New(i64)
declare i32 @PyTuple_SetItem(ptr, i64, ptr)
declare i32 @aoti_torch__reinterpret_tensor(ptr, i64, ptr, ptr, i64, ptr)
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare ptr @THPVariable_Wrap(ptr)
declare i32 @aoti_torch_get_dtype(ptr, ptr)
declare i32 @aoti_torch_get_dim(ptr, ptr)
declare i32 @aoti_torch_get_sizes(ptr, ptr)
declare i32 @aoti_torch_get_strides(ptr, ptr)
declare i32 @aoti_torch_get_data_ptr(ptr, ptr)
declare i32 @aoti_torch_get_storage_size(ptr, ptr)
declare i32 @aoti_torch_get_storage_offset(ptr, ptr)
declare i32 @aoti_torch_get_device_type(ptr, ptr)
declare i32 @aoti_torch_get_device_index(ptr, ptr)
declare i32 @aoti_torch_empty_strided(i64, ptr, ptr, i32, i32, i32, ptr)
declare i32 @aoti_torch_delete_tensor_object(ptr)
declare i32 @aoti_torch_new_tensor_handle(ptr, ptr)
declare i32 @aoti_torch_copy_(ptr, ptr, i32)
declare i32 @aoti_torch__alloc_from_pool(ptr, i64, i32, i64, ptr, ptr, ptr)
declare zeroext i1 @aoti_torch_grad_mode_is_enabled()
declare void @aoti_torch_grad_mode_set_enabled(i1 zeroext)
declare ptr @lamella_what()
declare zeroext i1 @lamella_inference()
declare i64 @lamella_modes()
declare ptr @lamella_trace(ptr)
declare ptr @PyBool_FromLong(i64)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
"""
