"""The native functions for memory that arenas (`runtime_arenas`) and outputs (`runtime_outputs`) share, as LLVM IR.

Both have a pool, guarded by the GIL, which is held throughout. Where there is no memory the C shim says only that it
failed: what is idle goes, and Python asks torch once more, so that the error is torch's (`torch.OutOfMemoryError`).
"""

from __future__ import annotations

import ctypes


def allocate_again(rank: int, sizes: int, strides: int, code: int, device: int, index: int) -> None:
    """Makes and drops a tensor as the C shim was asked to: of `rank` sizes and strides at these addresses, and of
    c10's dtype and device type by their numbers. Raises what torch does.
    """
    import torch

    from ..dialects.tensor import TORCH_DTYPES
    from ..lowering.host_arguments import DTYPE_CODES

    dtype = next(name for name, number in DTYPE_CODES.items() if number == code)
    words = ctypes.c_int64 * rank
    shape, stride = (list(words.from_address(at)) if rank else [] for at in (sizes, strides))
    torch.empty_strided(
        shape, stride, dtype=getattr(torch, TORCH_DTYPES[dtype]), device=f"cuda:{index}" if device else "cpu"
    )


TEXT = r"""
@again_format = private constant [7 x i8] c"LLLiii\00"

%entry = type { ptr, i64, ptr, ptr }                      ; tensor, bytes, data, count word of its storage

define private i64 @keys_of(ptr %h) alwaysinline {
  %impl = load ptr, ptr %h
  %at = getelementptr i8, ptr %impl, i64 $KEYS_AT$
  %keys = load i64, ptr %at
  ret i64 %keys
}

define private ptr @count_of(ptr %h) alwaysinline {
  %impl = load ptr, ptr %h
  %at = getelementptr i8, ptr %impl, i64 $STORAGE_AT$
  %storage = load ptr, ptr %at
  %word = getelementptr i8, ptr %storage, i64 8
  ret ptr %word
}

; A tensor made in inference mode is for inference mode only; the others are for both.
define private i1 @usable(ptr %h) {
  %keys = call i64 @keys_of(ptr %h)
  %normal = icmp eq i64 %keys, $NORMAL$
  br i1 %normal, label %yes, label %ask
ask:
  %mode = call zeroext i1 @lamella_inference()
  ret i1 %mode
yes:
  ret i1 true
}

; 0 where the C shim has made the tensor `owned`; an error and 1, and no tensor, where it failed with `r`.
define private i32 @made(i32 %r, ptr %owned) alwaysinline {
  %bad = icmp ne i32 %r, 0
  br i1 %bad, label %fail, label %good
good:
  ret i32 0
fail:
  store ptr null, ptr %owned
  call void @lamella_raise()
  ret i32 1
}

; After the shim could not make a tensor: 0 where it can be tried again, else an error.
define i32 @lamella_no_memory(i64 %nd, ptr %sizes, ptr %strides, i32 %dtype, i32 %device, i32 %index) {
  %cpu = icmp eq i32 %device, 0
  br i1 %cpu, label %clear, label %ask
clear:
  call void @lamella_recycle_clear()
  br label %ask
ask:
  %none = call ptr (ptr, ptr, ...) @PyObject_CallFunction(
    ptr @lamella_allocate_again, ptr @again_format, i64 %nd, ptr %sizes, ptr %strides,
    i32 %dtype, i32 %device, i32 %index)
  %raised = icmp eq ptr %none, null
  br i1 %raised, label %fail, label %good
good:
  call void @Py_DecRef(ptr %none)
  ret i32 0
fail:
  ret i32 1
}

; A tensor of the C shim, uninitialized: 0, or not, then perhaps with an error.
define private i32 @new(
  i64 %nd, ptr %sizes, ptr %strides, i32 %dtype, i32 %device, i32 %index, ptr %owned) {
  %r = call i32 @aoti_torch_empty_strided(
    i64 %nd, ptr %sizes, ptr %strides, i32 %dtype, i32 %device, i32 %index, ptr %owned)
  %good = icmp eq i32 %r, 0
  br i1 %good, label %done, label %ask
done:
  ret i32 0
ask:
  store ptr null, ptr %owned
  %no = call i32 @lamella_no_memory(i64 %nd, ptr %sizes, ptr %strides, i32 %dtype, i32 %device, i32 %index)
  %raised = icmp ne i32 %no, 0
  br i1 %raised, label %fail, label %again
again:
  %r1 = call i32 @aoti_torch_empty_strided(
    i64 %nd, ptr %sizes, ptr %strides, i32 %dtype, i32 %device, i32 %index, ptr %owned)
  ret i32 %r1
fail:
  ret i32 1
}

; Part of a tensor, as an alias: `offset` elements after its first (the shim adds the offset that the tensor has).
define i32 @lamella_view(ptr %h, i64 %offset, i64 %nd, ptr %sizes, ptr %strides, ptr %owned) {
  %r = call i32 @aoti_torch__reinterpret_tensor(ptr %h, i64 %nd, ptr %sizes, ptr %strides, i64 %offset, ptr %owned)
  %done = call i32 @made(i32 %r, ptr %owned)
  ret i32 %done
}

; Lets go of everything that both pools hold.
define void @lamella_recycle_clear() {
  store i64 0, ptr @in_use_most
  store i64 0, ptr @given_most
  store i64 0, ptr @ahead
  br label %each
each:
  %i = phi i64 [ 0, %0 ], [ %i1, %one ]
  %more = icmp ult i64 %i, $OUTPUTS$
  br i1 %more, label %one, label %arenas
one:
  %e = getelementptr [$OUTPUTS$ x %entry], ptr @outputs, i64 0, i64 %i
  call void @forget(ptr %e)
  %i1 = add i64 %i, 1
  br label %each
arenas:
  %j = phi i64 [ 0, %each ], [ %j1, %next ]
  %j_more = icmp ult i64 %j, 4
  br i1 %j_more, label %arena, label %done
arena:
  %a = getelementptr [4 x %entry], ptr @arenas, i64 0, i64 %j
  %h = load ptr, ptr %a
  store ptr null, ptr %a
  %none = icmp eq ptr %h, null
  br i1 %none, label %next, label %release
release:
  %b_at = getelementptr %entry, ptr %a, i64 0, i32 1
  %b = load i64, ptr %b_at
  call void @arena_goes(ptr %h, i64 %b)
  br label %next
next:
  %j1 = add i64 %j, 1
  br label %arenas
done:
  ret void
}
"""
