"""The native functions for GPUs that host programs call: which one is current, memory, launches; as LLVM IR.

They run under the GIL. A launch takes little more than the driver's own call.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache

from .cache import cached_objects
from .cuda_driver import Driver
from .imports import IMPORTS
from .jit import LoadedObject, load_object
from .runtime_support import load_support
from .target import CpuTarget
from .triton_compile import CompiledKernel, for_any_address

SYMBOLS = (
    *("lamella_cuda_enter", "lamella_cuda_use", "lamella_cuda_leave", "lamella_cuda_empty", "lamella_cuda_launch"),
)


class KernelRecord(ctypes.Structure):
    """A kernel: the driver's function; threads, bytes of shared memory and of global memory for itself of a program;
    the GPU; how many bits each number has; whether it waits itself for the launch before; and the record for buffers
    that begin anywhere, or what makes it.
    """

    _fields_ = [
        ("function", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("threads", ctypes.c_int),
        ("shared", ctypes.c_int),
        ("device", ctypes.c_int),
        ("buffers", ctypes.c_int),
        ("bits", ctypes.c_char_p),
        ("overlaps", ctypes.c_int),
        ("scratch", ctypes.c_int64),
        ("other", ctypes.c_void_p),
        ("make_other", ctypes.py_object),
    ]


def kernel_record(
    driver: Driver, kernel: CompiledKernel, device: int, buffers: int, bits: Sequence[int]
) -> KernelRecord:
    """The record of a kernel, loaded, whose first `buffers` arguments are addresses; the others are numbers of so many
    `bits`.

    It is for buffers that begin at multiples of ALIGNMENT; when others are met first, Python is called to make a
    record for these.
    """
    function = driver.load(kernel, device)
    name, threads = kernel.name.encode(), 32 * kernel.warps
    record = KernelRecord(
        function, name, threads, kernel.shared, device, buffers, bytes(bits), kernel.overlaps, kernel.scratch
    )
    made: list[KernelRecord] = []

    def make_other() -> None:
        assert kernel.source is not None
        (other,) = driver.begin([for_any_address(kernel.source)], kernel.sm)()
        made.append(kernel_record(driver, other, device, 0, ()))
        record.other = ctypes.addressof(made[0])

    record.make_other = make_other
    return record


ALIGNMENT = 16
"""Bytes at whose multiples buffers begin, for most kernels."""


def load_cuda(driver: Driver) -> LoadedObject:
    """The functions in this process, on top of `driver`; from here on programs take tensors of its GPUs."""
    take = ctypes.PYFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p)(load_support()["lamella_cuda_tensors"])
    take(_signed(driver.plain_keys()), driver.imports.get("aoti_torch_get_device_index") or _device_index())
    return _load(driver)


@cache
def _load(driver: Driver) -> LoadedObject:
    return load_object(cached_objects([TEXT], CpuTarget.host())[0], SYMBOLS, driver.imports)


def _device_index() -> int:
    return IMPORTS.resolve(["aoti_torch_get_device_index"])["aoti_torch_get_device_index"]


def _signed(word: int) -> int:
    return word if word < 1 << 63 else word - (1 << 64)


TEXT = r"""
%record = type { ptr, ptr, i32, i32, i32, i32, ptr, i32, i64, ptr, ptr }    ; KernelRecord
%config = type { i32, i32, i32, i32, i32, i32, i32, ptr, ptr, i32 }    ; CUlaunchConfig

@PyExc_RuntimeError = external global ptr
@failed = private constant [41 x i8] c"CUDA error: %s; in a launch of kernel %s\00"
@refused = private constant [15 x i8] c"CUDA error: %s\00"
@unnamed = private constant [8 x i8] c"unknown\00"
@wide = private constant [72 x i8] c"kernel %s: a size of 2147483648 or more does not fit its 32-bit indices\00"
@large = private constant [75 x i8] c"kernel %s: %lld x %lld x %lld programs are more than CUDA launches at once\00"

declare ptr @PyErr_Format(ptr, ptr, ...)
declare i64 @llvm.abs.i64(i64, i1)
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare void @Py_DecRef(ptr)
declare void @lamella_raise()
declare i32 @lamella_no_memory(i64, ptr, ptr, i32, i32, i32)
declare i32 @aoti_torch_create_cuda_guard(i32, ptr)
declare i32 @aoti_torch_cuda_guard_set_index(ptr, i32)
declare i32 @aoti_torch_delete_cuda_guard(ptr)
declare i32 @aoti_torch_get_current_cuda_stream(i32, ptr)
declare i32 @aoti_torch_empty_strided(i64, ptr, ptr, i32, i32, i32, ptr)
declare i32 @aoti_torch_get_data_ptr(ptr, ptr)
declare i32 @aoti_torch_delete_tensor_object(ptr)
declare i32 @cuCtxGetCurrent(ptr)
declare i32 @cuCtxSetCurrent(ptr)
declare i32 @cuDevicePrimaryCtxRetain(ptr, i32)
declare i32 @cuGetErrorString(i32, ptr)
declare i32 @cuLaunchKernel(ptr, i32, i32, i32, i32, i32, i32, i32, ptr, ptr, ptr)
declare i32 @cuLaunchKernelEx(ptr, ptr, ptr, ptr)

; CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION = 1: the launch need not wait for the one before, as its
; programs do, once they are there.
@overlapped = private constant { i32, i32, i32, [60 x i8] } { i32 6, i32 0, i32 1, [60 x i8] zeroinitializer }

define private ptr @said(i32 %code) {
  %text = alloca ptr
  store ptr null, ptr %text
  %r = call i32 @cuGetErrorString(i32 %code, ptr %text)
  %found = load ptr, ptr %text
  %none = icmp eq ptr %found, null
  %words = select i1 %none, ptr @unnamed, ptr %found
  ret ptr %words
}

; The runtime makes a GPU current in a thread when it is first asked for another; the driver needs it to be so at once.
define private i32 @context(i32 %device) {
  %now = alloca ptr
  store ptr null, ptr %now
  %r0 = call i32 @cuCtxGetCurrent(ptr %now)
  %current = load ptr, ptr %now
  %none = icmp eq ptr %current, null
  br i1 %none, label %retain, label %good
retain:
  %r1 = call i32 @cuDevicePrimaryCtxRetain(ptr %now, i32 %device)
  %r1_ok = icmp eq i32 %r1, 0
  br i1 %r1_ok, label %set, label %fail
set:
  %primary = load ptr, ptr %now
  %r2 = call i32 @cuCtxSetCurrent(ptr %primary)
  %r2_ok = icmp eq i32 %r2, 0
  br i1 %r2_ok, label %good, label %fail
good:
  ret i32 0
fail:
  %code = phi i32 [ %r1, %retain ], [ %r2, %set ]
  %words = call ptr @said(i32 %code)
  %type = load ptr, ptr @PyExc_RuntimeError
  %r3 = call ptr (ptr, ptr, ...) @PyErr_Format(ptr %type, ptr @refused, ptr %words)
  ret i32 1
}

; Makes a GPU current until lamella_cuda_leave(guard). *guard is null at first.
define i32 @lamella_cuda_use(i32 %device, ptr %guard) {
  %g = load ptr, ptr %guard
  %first = icmp eq ptr %g, null
  br i1 %first, label %create, label %change
create:
  %r0 = call i32 @aoti_torch_create_cuda_guard(i32 %device, ptr %guard)
  %r0_ok = icmp eq i32 %r0, 0
  br i1 %r0_ok, label %ready, label %none
none:
  store ptr null, ptr %guard
  br label %fail
change:
  %r1 = call i32 @aoti_torch_cuda_guard_set_index(ptr %g, i32 %device)
  %r1_ok = icmp eq i32 %r1, 0
  br i1 %r1_ok, label %ready, label %fail
ready:
  %r2 = call i32 @context(i32 %device)
  ret i32 %r2
fail:
  call void @lamella_raise()
  ret i32 1
}

; The same, and the stream that torch uses there now.
define i32 @lamella_cuda_enter(i32 %device, ptr %guard, ptr %stream) {
  %r0 = call i32 @lamella_cuda_use(i32 %device, ptr %guard)
  %r0_ok = icmp eq i32 %r0, 0
  br i1 %r0_ok, label %ask, label %bad
ask:
  %r1 = call i32 @aoti_torch_get_current_cuda_stream(i32 %device, ptr %stream)
  %r1_ok = icmp eq i32 %r1, 0
  br i1 %r1_ok, label %good, label %fail
good:
  ret i32 0
fail:
  call void @lamella_raise()
  ret i32 1
bad:
  ret i32 1
}

define void @lamella_cuda_leave(ptr %guard) {
  %g = load ptr, ptr %guard
  store ptr null, ptr %guard
  %none = icmp eq ptr %g, null
  br i1 %none, label %done, label %delete
delete:
  %r = call i32 @aoti_torch_delete_cuda_guard(ptr %g)
  br label %done
done:
  ret void
}

; A tensor on a GPU, uninitialized.
define i32 @lamella_cuda_empty(i64 %nd, ptr %sizes, ptr %strides, i32 %dtype, i32 %device, ptr %owned, ptr %data) {
  %r0 = call i32 @aoti_torch_empty_strided(
    i64 %nd, ptr %sizes, ptr %strides, i32 %dtype, i32 1, i32 %device, ptr %owned)
  %r0_ok = icmp eq i32 %r0, 0
  br i1 %r0_ok, label %pointer, label %ask
ask:
  store ptr null, ptr %owned
  %no = call i32 @lamella_no_memory(i64 %nd, ptr %sizes, ptr %strides, i32 %dtype, i32 1, i32 %device)
  %raised = icmp ne i32 %no, 0
  br i1 %raised, label %fail, label %again
again:
  %r2 = call i32 @aoti_torch_empty_strided(
    i64 %nd, ptr %sizes, ptr %strides, i32 %dtype, i32 1, i32 %device, ptr %owned)
  %r2_ok = icmp eq i32 %r2, 0
  br i1 %r2_ok, label %pointer, label %fail
pointer:
  %t = load ptr, ptr %owned
  %r1 = call i32 @aoti_torch_get_data_ptr(ptr %t, ptr %data)
  ret i32 0
fail:
  call void @lamella_raise()
  ret i32 1
}

; The record for buffers that begin anywhere; null after an error.
define private ptr @other(ptr %kernel) {
  %none = alloca ptr
  %other_at = getelementptr %record, ptr %kernel, i64 0, i32 9
  %other = load ptr, ptr %other_at
  %made = icmp ne ptr %other, null
  br i1 %made, label %known, label %make
known:
  ret ptr %other
make:
  %make_at = getelementptr %record, ptr %kernel, i64 0, i32 10
  %maker = load ptr, ptr %make_at
  %r = call ptr @PyObject_Vectorcall(ptr %maker, ptr %none, i64 0, ptr null)
  %failed = icmp eq ptr %r, null
  br i1 %failed, label %bad, label %good
good:
  call void @Py_DecRef(ptr %r)
  %new = load ptr, ptr %other_at
  ret ptr %new
bad:
  ret ptr null
}

; Launches x * y * z programs. `arguments` are the addresses of the n arguments, and of two more words, which are
; what Triton appends: memory of the programs' own, and memory for a profiler.
define i32 @lamella_cuda_launch(ptr %given, ptr %stream, ptr %arguments, i64 %n, i64 %x, i64 %y, i64 %z) {
  %size = alloca i64
  %stride = alloca i64
  %tensor = alloca ptr
  %config = alloca %config
  %xy = mul i64 %x, %y
  %programs = mul i64 %xy, %z
  %some = icmp ne i64 %programs, 0
  br i1 %some, label %bounds, label %good
bounds:
  %x_fits = icmp ule i64 %x, 2147483647
  %y_fits = icmp ule i64 %y, 65535
  %z_fits = icmp ule i64 %z, 65535
  %yz_fits = and i1 %y_fits, %z_fits
  %fits = and i1 %x_fits, %yz_fits
  br i1 %fits, label %addresses, label %many
addresses:
  %buffers_at = getelementptr %record, ptr %given, i64 0, i32 5
  %buffers32 = load i32, ptr %buffers_at
  %buffers = zext i32 %buffers32 to i64
  br label %each
each:
  %i = phi i64 [ 0, %addresses ], [ %i1, %one ]
  %bits = phi i64 [ 0, %addresses ], [ %bits1, %one ]
  %more = icmp ult i64 %i, %buffers
  br i1 %more, label %one, label %aligned
one:
  %a_at = getelementptr ptr, ptr %arguments, i64 %i
  %a = load ptr, ptr %a_at
  %address = load i64, ptr %a
  %bits1 = or i64 %bits, %address
  %i1 = add i64 %i, 1
  br label %each
aligned:
  %widths_at = getelementptr %record, ptr %given, i64 0, i32 6
  %widths = load ptr, ptr %widths_at
  br label %sizes
sizes:
  %j = phi i64 [ %buffers, %aligned ], [ %j1, %size_one ]
  %all = phi i64 [ 0, %aligned ], [ %all1, %size_one ]
  %left = icmp ult i64 %j, %n
  br i1 %left, label %size_one, label %sizes_end
size_one:
  %s_at = getelementptr ptr, ptr %arguments, i64 %j
  %s = load ptr, ptr %s_at
  %number = load i64, ptr %s
  %k = sub i64 %j, %buffers
  %width_at = getelementptr i8, ptr %widths, i64 %k
  %width = load i8, ptr %width_at
  %narrow = icmp eq i8 %width, 32
  %magnitude = call i64 @llvm.abs.i64(i64 %number, i1 false)
  %checked = select i1 %narrow, i64 %magnitude, i64 0
  %all1 = or i64 %all, %checked
  %j1 = add i64 %j, 1
  br label %sizes
sizes_end:
  %size_fits = icmp ult i64 %all, 2147483648
  br i1 %size_fits, label %low_bits, label %wide
wide:
  %name2_at = getelementptr %record, ptr %given, i64 0, i32 1
  %name2 = load ptr, ptr %name2_at
  %type2 = load ptr, ptr @PyExc_RuntimeError
  %r5 = call ptr (ptr, ptr, ...) @PyErr_Format(ptr %type2, ptr @wide, ptr %name2)
  ret i32 1
low_bits:
  %low = and i64 %bits, 15
  %plain = icmp eq i64 %low, 0
  br i1 %plain, label %scratch, label %unaligned
unaligned:
  %other = call ptr @other(ptr %given)
  %other_none = icmp eq ptr %other, null
  br i1 %other_none, label %bad, label %scratch
scratch:
  %kernel = phi ptr [ %given, %low_bits ], [ %other, %unaligned ]
  %own_at = getelementptr ptr, ptr %arguments, i64 %n
  %own = load ptr, ptr %own_at
  store ptr null, ptr %own
  %n1 = add i64 %n, 1
  %profile_at = getelementptr ptr, ptr %arguments, i64 %n1
  %profile = load ptr, ptr %profile_at
  store ptr null, ptr %profile
  store ptr null, ptr %tensor
  %scratch_at = getelementptr %record, ptr %kernel, i64 0, i32 8
  %bytes = load i64, ptr %scratch_at
  %needs = icmp ne i64 %bytes, 0
  br i1 %needs, label %allocate, label %launch
allocate:
  %total = mul i64 %bytes, %programs
  store i64 %total, ptr %size
  store i64 1, ptr %stride
  %device_at = getelementptr %record, ptr %kernel, i64 0, i32 4
  %device = load i32, ptr %device_at
  %r1 = call i32 @lamella_cuda_empty(i64 1, ptr %size, ptr %stride, i32 0, i32 %device, ptr %tensor, ptr %own)
  %r1_ok = icmp eq i32 %r1, 0
  br i1 %r1_ok, label %launch, label %bad
launch:
  %function = load ptr, ptr %kernel
  %threads_at = getelementptr %record, ptr %kernel, i64 0, i32 2
  %threads = load i32, ptr %threads_at
  %shared_at = getelementptr %record, ptr %kernel, i64 0, i32 3
  %shared = load i32, ptr %shared_at
  %x32 = trunc i64 %x to i32
  %y32 = trunc i64 %y to i32
  %z32 = trunc i64 %z to i32
  %overlaps_at = getelementptr %record, ptr %kernel, i64 0, i32 7
  %overlaps32 = load i32, ptr %overlaps_at
  %overlaps = icmp ne i32 %overlaps32, 0
  br i1 %overlaps, label %early, label %late
late:
  %code0 = call i32 @cuLaunchKernel(ptr %function, i32 %x32, i32 %y32, i32 %z32, i32 %threads, i32 1, i32 1,
                                    i32 %shared, ptr %stream, ptr %arguments, ptr null)
  br label %launched
early:
  %c0 = insertvalue %config zeroinitializer, i32 %x32, 0
  %c1 = insertvalue %config %c0, i32 %y32, 1
  %c2 = insertvalue %config %c1, i32 %z32, 2
  %c3 = insertvalue %config %c2, i32 %threads, 3
  %c4 = insertvalue %config %c3, i32 1, 4
  %c5 = insertvalue %config %c4, i32 1, 5
  %c6 = insertvalue %config %c5, i32 %shared, 6
  %c7 = insertvalue %config %c6, ptr %stream, 7
  %c8 = insertvalue %config %c7, ptr @overlapped, 8
  %c9 = insertvalue %config %c8, i32 1, 9
  store %config %c9, ptr %config
  %code1 = call i32 @cuLaunchKernelEx(ptr %config, ptr %function, ptr %arguments, ptr null)
  br label %launched
launched:
  %code = phi i32 [ %code0, %late ], [ %code1, %early ]
  %t = load ptr, ptr %tensor
  %held = icmp ne ptr %t, null
  br i1 %held, label %release, label %check
release:
  %r2 = call i32 @aoti_torch_delete_tensor_object(ptr %t)
  br label %check
check:
  %ok = icmp eq i32 %code, 0
  br i1 %ok, label %good, label %failed
good:
  ret i32 0
many:
  %name0_at = getelementptr %record, ptr %given, i64 0, i32 1
  %name0 = load ptr, ptr %name0_at
  %type0 = load ptr, ptr @PyExc_RuntimeError
  %r3 = call ptr (ptr, ptr, ...) @PyErr_Format(ptr %type0, ptr @large, ptr %name0, i64 %x, i64 %y, i64 %z)
  ret i32 1
failed:
  %name_at = getelementptr %record, ptr %kernel, i64 0, i32 1
  %name = load ptr, ptr %name_at
  %words = call ptr @said(i32 %code)
  %type = load ptr, ptr @PyExc_RuntimeError
  %r4 = call ptr (ptr, ptr, ...) @PyErr_Format(ptr %type, ptr @failed, ptr %words, ptr %name)
  ret i32 1
bad:
  ret i32 1
}
"""
