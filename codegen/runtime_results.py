"""The native functions around calls into torch and Python, as LLVM IR: raising, checking results, wrapping, calling."""

TEXT = r"""
; RuntimeError with what the C shim says, unless Python has an error already.
define void @lamella_raise() {
  %set = call ptr @PyErr_Occurred()
  %has = icmp ne ptr %set, null
  br i1 %has, label %done, label %make
make:
  %type = load ptr, ptr @PyExc_RuntimeError
  %what = call ptr @lamella_what()
  %none = icmp eq ptr %what, null
  %text = select i1 %none, ptr @unknown, ptr %what
  call void @PyErr_SetString(ptr %type, ptr %text)
  br label %done
done:
  ret void
}

define private void @fail_with(ptr %text) {
  %type = load ptr, ptr @PyExc_RuntimeError
  call void @PyErr_SetString(ptr %type, ptr %text)
  ret void
}

; What a kernel's code means: MemoryError for -1, else the type and text in self[index][code - 1].
define void @lamella_assert(ptr %self, i64 %index, i32 %code) {
  %memory = icmp slt i32 %code, 0
  br i1 %memory, label %none, label %message
none:
  %r = call ptr @PyErr_NoMemory()
  ret void
message:
  %messages = call ptr @PyTuple_GetItem(ptr %self, i64 %index)
  %less = sub i32 %code, 1
  %k = sext i32 %less to i64
  %raised = call ptr @PyTuple_GetItem(ptr %messages, i64 %k)
  %missing = icmp eq ptr %raised, null
  br i1 %missing, label %done, label %raise
raise:
  %type = call ptr @PyTuple_GetItem(ptr %raised, i64 0)
  %text = call ptr @PyTuple_GetItem(ptr %raised, i64 1)
  call void @PyErr_SetObject(ptr %type, ptr %text)
  br label %done
done:
  ret void
}

; RuntimeError with `format`, in which %U is the name self[name].
define private void @fail_result(ptr %self, i64 %name, ptr %format) {
  %type = load ptr, ptr @PyExc_RuntimeError
  %text = call ptr @PyTuple_GetItem(ptr %self, i64 %name)
  %r = call ptr (ptr, ptr, ...) @PyErr_Format(ptr %type, ptr %format, ptr %text)
  ret void
}

; Whether *owned, a result of the operator named self[name], has that dtype and those sizes; when only the strides
; differ it is replaced by a copy that has them, as is one without elements of another dtype (ATen's native_dropout
; gives such a mask). Strides of elements that would overlap are an error, but those that are 0.
define i32 @lamella_result(ptr %self, i64 %name, ptr %owned, i64 %nd, ptr %sizes, ptr %strides, i32 %dtype, ptr %data) {
  %tmp = alloca ptr
  %h = load ptr, ptr %owned
  %missing = icmp eq ptr %h, null
  br i1 %missing, label %few, label %look
look:
  store ptr null, ptr %tmp
  %r0 = call i32 @aoti_torch_get_dtype(ptr %h, ptr %tmp)
  %d = load i32, ptr %tmp
  %d_ok = icmp eq i32 %d, %dtype
  %r1 = call i32 @aoti_torch_get_dim(ptr %h, ptr %tmp)
  %n = load i64, ptr %tmp
  %n_ok = icmp eq i64 %n, %nd
  br i1 %n_ok, label %layout, label %differ
layout:
  %r2 = call i32 @aoti_torch_get_sizes(ptr %h, ptr %tmp)
  %got_sizes = load ptr, ptr %tmp
  %r3 = call i32 @aoti_torch_get_strides(ptr %h, ptr %tmp)
  %got_strides = load ptr, ptr %tmp
  br label %each
each:
  %i = phi i64 [ 0, %layout ], [ %i1, %one ]
  %numel = phi i64 [ 1, %layout ], [ %numel1, %one ]
  %same = phi i1 [ true, %layout ], [ %same1, %one ]
  %apart = phi i64 [ 1, %layout ], [ %apart1, %one ]
  %reach = phi i64 [ 1, %layout ], [ %reach1, %one ]
  %more = icmp slt i64 %i, %nd
  br i1 %more, label %check, label %strided
check:
  %g_at = getelementptr i64, ptr %got_sizes, i64 %i
  %g = load i64, ptr %g_at
  %w_at = getelementptr i64, ptr %sizes, i64 %i
  %w = load i64, ptr %w_at
  %s_ok = icmp eq i64 %g, %w
  br i1 %s_ok, label %one, label %differ
one:
  %gs_at = getelementptr i64, ptr %got_strides, i64 %i
  %gs = load i64, ptr %gs_at
  %ws_at = getelementptr i64, ptr %strides, i64 %i
  %ws = load i64, ptr %ws_at
  %st_same = icmp eq i64 %gs, %ws
  %single = icmp eq i64 %g, 1
  %st_ok = or i1 %st_same, %single
  %same1 = and i1 %same, %st_ok
  %numel1 = mul i64 %numel, %g
  %repeated = icmp eq i64 %ws, 0
  %places = select i1 %repeated, i64 1, i64 %g
  %apart1 = mul i64 %apart, %places
  %last = sub i64 %places, 1
  %far = mul i64 %last, %ws
  %reach1 = add i64 %reach, %far
  %i1 = add i64 %i, 1
  br label %each
strided:
  %none = icmp eq i64 %numel, 0
  %any = or i1 %same, %none
  %fine = and i1 %any, %d_ok
  br i1 %fine, label %pointer, label %other
other:
  %may = or i1 %d_ok, %none
  br i1 %may, label %placed, label %type
placed:
  %narrow = icmp slt i64 %reach, %apart
  %meet = select i1 %none, i1 false, i1 %narrow
  br i1 %meet, label %overlap, label %copy
copy:
  %r4 = call i32 @lamella_restride(ptr %owned, i64 %nd, ptr %sizes, ptr %strides, i32 %dtype)
  %r4_ok = icmp eq i32 %r4, 0
  br i1 %r4_ok, label %pointer, label %fail
pointer:
  %t = load ptr, ptr %owned
  %r5 = call i32 @aoti_torch_get_data_ptr(ptr %t, ptr %data)
  %r5_ok = icmp eq i32 %r5, 0
  br i1 %r5_ok, label %good, label %shim
good:
  ret i32 0
few:
  call void @fail_result(ptr %self, i64 %name, ptr @missing)
  ret i32 1
type:
  call void @fail_result(ptr %self, i64 %name, ptr @bad_dtype)
  ret i32 1
overlap:
  call void @fail_result(ptr %self, i64 %name, ptr @bad_strides)
  ret i32 1
differ:
  call void @fail_result(ptr %self, i64 %name, ptr @bad_sizes)
  ret i32 1
shim:
  call void @lamella_raise()
  ret i32 1
fail:
  ret i32 1
}

; Replaces *owned by a copy with these strides. Along a dim of stride 0 one element is copied, as ATen writes none that
; are several.
define i32 @lamella_restride(ptr %owned, i64 %nd, ptr %sizes, ptr %strides, i32 %dtype) {
  %new = alloca ptr
  %from = alloca ptr
  %to = alloca ptr
  %old_strides = alloca ptr
  %type_at = alloca i32
  %index_at = alloca i32
  %once = alloca i64, i64 %nd
  store ptr null, ptr %from
  store ptr null, ptr %to
  %old = load ptr, ptr %owned
  %r0 = call i32 @aoti_torch_get_device_type(ptr %old, ptr %type_at)
  %r1 = call i32 @aoti_torch_get_device_index(ptr %old, ptr %index_at)
  %r2 = call i32 @aoti_torch_get_strides(ptr %old, ptr %old_strides)
  %type = load i32, ptr %type_at
  %index = load i32, ptr %index_at
  %given = load ptr, ptr %old_strides
  br label %each
each:
  %i = phi i64 [ 0, %0 ], [ %i1, %one ]
  %more = icmp slt i64 %i, %nd
  br i1 %more, label %one, label %make
one:
  %size_at = getelementptr i64, ptr %sizes, i64 %i
  %size = load i64, ptr %size_at
  %stride_at = getelementptr i64, ptr %strides, i64 %i
  %stride = load i64, ptr %stride_at
  %same = icmp eq i64 %stride, 0
  %n = select i1 %same, i64 1, i64 %size
  %n_at = getelementptr i64, ptr %once, i64 %i
  store i64 %n, ptr %n_at
  %i1 = add i64 %i, 1
  br label %each
make:
  %r = call i32 @new(
    i64 %nd, ptr %sizes, ptr %strides, i32 %dtype, i32 %type, i32 %index, ptr %new)
  %r_bad = icmp ne i32 %r, 0
  br i1 %r_bad, label %fail, label %view
view:
  %t = load ptr, ptr %new
  store ptr %t, ptr %owned
  %r3 = call i32 @aoti_torch__reinterpret_tensor(ptr %old, i64 %nd, ptr %once, ptr %given, i64 0, ptr %from)
  %r4 = call i32 @aoti_torch__reinterpret_tensor(ptr %t, i64 %nd, ptr %once, ptr %strides, i64 0, ptr %to)
  %r5 = call i32 @aoti_torch_delete_tensor_object(ptr %old)
  %a = load ptr, ptr %from
  %b = load ptr, ptr %to
  %no_a = icmp eq ptr %a, null
  %no_b = icmp eq ptr %b, null
  %no = or i1 %no_a, %no_b
  br i1 %no, label %fail, label %copy
copy:
  %r6 = call i32 @aoti_torch_copy_(ptr %b, ptr %a, i32 0)
  %r7 = call i32 @aoti_torch_delete_tensor_object(ptr %a)
  %r8 = call i32 @aoti_torch_delete_tensor_object(ptr %b)
  %r6_bad = icmp ne i32 %r6, 0
  br i1 %r6_bad, label %fail, label %good
good:
  ret i32 0
fail:
  call void @lamella_raise()
  ret i32 1
}

; A Python tensor for *owned, which is given up.
define ptr @lamella_wrap(ptr %owned) {
  %h = load ptr, ptr %owned
  store ptr null, ptr %owned
  %o = call ptr @THPVariable_Wrap(ptr %h)
  %r = call i32 @aoti_torch_delete_tensor_object(ptr %h)
  ret ptr %o
}

; As a tensor that is no view for autograd, which refuses writes to one that was made without it.
define ptr @lamella_detached(ptr %owned) {
  %o = call ptr @lamella_wrap(ptr %owned)
  %none = icmp eq ptr %o, null
  br i1 %none, label %fail, label %detach
detach:
  %d = call ptr (ptr, ptr, ptr, ...) @PyObject_CallMethod(ptr %o, ptr @detach_name, ptr null)
  call void @Py_DecRef(ptr %o)
  ret ptr %d
fail:
  ret ptr null
}

; A Python tensor for a tensor that is kept.
define ptr @lamella_object(ptr %h) {
  %new = alloca ptr
  %r = call i32 @aoti_torch_new_tensor_handle(ptr %h, ptr %new)
  %bad = icmp ne i32 %r, 0
  br i1 %bad, label %fail, label %wrap
wrap:
  %o = call ptr @lamella_wrap(ptr %new)
  ret ptr %o
fail:
  call void @lamella_raise()
  ret ptr null
}

; The number in a Python object, as the 64 bits of kind 2 int, 3 float, 4 bool.
define i32 @lamella_scalar(ptr %o, i64 %kind, ptr %out) {
  %ok = call i1 @check_scalar(ptr %o, i64 %kind, i64 -2, ptr %out)
  br i1 %ok, label %good, label %bad
good:
  ret i32 0
bad:
  call void @fail_with(ptr @unknown)
  ret i32 1
}

; self[index](*argv[1:1+n]) -> a tuple of m results: kinds[j] 0 is a tensor to owned[j] (None leaves null), others a
; number to scalars[j]. The arguments are given up; a null among them means that an error is set.
define i32 @lamella_call(ptr %self, i64 %index, ptr %argv, i64 %n, ptr %kinds, i64 %m, ptr %owned, ptr %scalars) {
  %first = getelementptr ptr, ptr %argv, i64 1
  br label %each
each:
  %i = phi i64 [ 0, %0 ], [ %i1, %one ]
  %whole = phi i1 [ true, %0 ], [ %whole1, %one ]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %one, label %ready
one:
  %a_at = getelementptr ptr, ptr %first, i64 %i
  %a = load ptr, ptr %a_at
  %a_ok = icmp ne ptr %a, null
  %whole1 = and i1 %whole, %a_ok
  %i1 = add i64 %i, 1
  br label %each
ready:
  br i1 %whole, label %invoke, label %release
invoke:
  call void @PyErr_Clear()  ; what a call of the shim that failed may have left, of which this one is the repetition
  %function = call ptr @PyTuple_GetItem(ptr %self, i64 %index)
  %flag = or i64 %n, -9223372036854775808
  %called = call ptr @PyObject_Vectorcall(ptr %function, ptr %first, i64 %flag, ptr null)
  br label %release
release:
  %result = phi ptr [ null, %ready ], [ %called, %invoke ]
  br label %give
give:
  %j = phi i64 [ 0, %release ], [ %j1, %give_next ]
  %j_more = icmp slt i64 %j, %n
  br i1 %j_more, label %give_one, label %results
give_one:
  %g_at = getelementptr ptr, ptr %first, i64 %j
  %g = load ptr, ptr %g_at
  %g_none = icmp eq ptr %g, null
  br i1 %g_none, label %give_next, label %give_back
give_back:
  call void @Py_DecRef(ptr %g)
  br label %give_next
give_next:
  %j1 = add i64 %j, 1
  br label %give
results:
  %raised = icmp eq ptr %result, null
  br i1 %raised, label %fail, label %count
count:
  %size = call i64 @PyTuple_Size(ptr %result)
  %size_ok = icmp eq i64 %size, %m
  br i1 %size_ok, label %unpack, label %few
few:
  call void @PyErr_Clear()
  call void @fail_with(ptr @short)
  br label %bad
unpack:
  %k = phi i64 [ 0, %count ], [ %k1, %unpack_next ]
  %k_more = icmp slt i64 %k, %m
  br i1 %k_more, label %item, label %good
item:
  %o = call ptr @PyTuple_GetItem(ptr %result, i64 %k)
  %kind_at = getelementptr i64, ptr %kinds, i64 %k
  %kind = load i64, ptr %kind_at
  %is_tensor = icmp eq i64 %kind, 0
  br i1 %is_tensor, label %type, label %scalar
type:
  %type_at = getelementptr i8, ptr %o, i64 8
  %o_type = load ptr, ptr %type_at
  %sub = call i32 @PyType_IsSubtype(ptr %o_type, ptr @lamella_tensor_type)
  %is_sub = icmp ne i32 %sub, 0
  br i1 %is_sub, label %tensor, label %unpack_next
tensor:
  %h = getelementptr i8, ptr %o, i64 $HANDLE$
  %owned_at = getelementptr ptr, ptr %owned, i64 %k
  %r = call i32 @aoti_torch_new_tensor_handle(ptr %h, ptr %owned_at)
  %r_ok = icmp eq i32 %r, 0
  br i1 %r_ok, label %unpack_next, label %shim
shim:
  call void @lamella_raise()
  br label %bad
scalar:
  %scalar_at = getelementptr i64, ptr %scalars, i64 %k
  %s = call i32 @lamella_scalar(ptr %o, i64 %kind, ptr %scalar_at)
  %s_ok = icmp eq i32 %s, 0
  br i1 %s_ok, label %unpack_next, label %bad
unpack_next:
  %k1 = add i64 %k, 1
  br label %unpack
good:
  call void @Py_DecRef(ptr %result)
  ret i32 0
bad:
  call void @Py_DecRef(ptr %result)
  br label %fail
fail:
  ret i32 1
}

; Calls into torch must not record for autograd: the graph is what autograd sees.
define i32 @lamella_grad_off() {
  %on = call zeroext i1 @aoti_torch_grad_mode_is_enabled()
  br i1 %on, label %off, label %done
off:
  call void @aoti_torch_grad_mode_set_enabled(i1 zeroext false)
  br label %done
done:
  %wide = zext i1 %on to i32
  ret i32 %wide
}

define void @lamella_grad_restore(i32 %on) {
  %was = icmp ne i32 %on, 0
  br i1 %was, label %set, label %done
set:
  call void @aoti_torch_grad_mode_set_enabled(i1 zeroext true)
  br label %done
done:
  ret void
}

; Lets other threads of Python run where there are `long` bytes or more; gives what lamella_retake takes.
define ptr @lamella_release(i64 %bytes, i64 %long) {
  %many = icmp sge i64 %bytes, %long
  br i1 %many, label %release, label %keep
release:
  %state = call ptr @PyEval_SaveThread()
  ret ptr %state
keep:
  ret ptr null
}

define void @lamella_retake(ptr %state) {
  %kept = icmp eq ptr %state, null
  br i1 %kept, label %done, label %take
take:
  call void @PyEval_RestoreThread(ptr %state)
  br label %done
done:
  ret void
}

; This thread's calls into torch run with one thread from here on: ATen and oneDNN ask OpenMP, MKL has a number of its
; own. Both as they were, for `lamella_threads_restore`.
define i64 @lamella_one_thread() {
  %most = call i32 @lamella_num_threads()
  call void @omp_set_num_threads(i32 1)
  %mkl = call i32 @lamella_mkl_threads(i32 1)
  %low = zext i32 %most to i64
  %wide = zext i32 %mkl to i64
  %high = shl i64 %wide, 32
  %both = or i64 %low, %high
  ret i64 %both
}

define void @lamella_threads_restore(i64 %both) {
  %most = trunc i64 %both to i32
  %high = lshr i64 %both, 32
  %mkl = trunc i64 %high to i32
  call void @omp_set_num_threads(i32 %most)
  %r = call i32 @lamella_mkl_threads(i32 %mkl)
  ret void
}

declare void @omp_set_num_threads(i32)
declare i32 @lamella_mkl_threads(i32)
"""
