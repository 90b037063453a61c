"""The native functions that take the arguments of a host program and check them, as LLVM IR.

Table of `lamella_enter`, i64: per argument its kind (0 tensor, 1 contiguous tensor, 2 int, 3 float, 4 bool, 5
object, 6 and 7 tensors as 0 and 1 on the CPU or a GPU, 16 + 2d and 17 + 2d such on GPU d), then for tensors dtype,
rank, sizes, and for an even kind strides; for scalars one code. A code is a number >= 0: exactly that; -1: anything;
-2 - 2k: stored in values[k]; -3 - 2k: equal to values[k].
"""

TEXT = r"""
@cuda_foreign = private global i64 -1                    ; dispatch keys that plain tensors of a GPU lack
@cuda_device = private global ptr @aoti_torch_get_device_index

; Tensors of GPUs are taken from now on: those with these dispatch keys; `device` gives the GPU's number.
define void @lamella_cuda_tensors(i64 %keys, ptr %device) {
  %foreign = xor i64 %keys, -1
  store i64 %foreign, ptr @cuda_foreign
  store ptr %device, ptr @cuda_device
  ret void
}

; One code of the table against one value: nonzero when it fits.
define private i1 @fits(i64 %code, i64 %value, ptr %values) alwaysinline {
  %literal = icmp sge i64 %code, 0
  br i1 %literal, label %exact, label %symbol
exact:
  %same = icmp eq i64 %code, %value
  ret i1 %same
symbol:
  %any = icmp eq i64 %code, -1
  br i1 %any, label %yes, label %known
known:
  %negative = sub i64 -2, %code
  %k = lshr i64 %negative, 1
  %at = getelementptr i64, ptr %values, i64 %k
  %compare = and i64 %negative, 1
  %c = icmp ne i64 %compare, 0
  br i1 %c, label %equal, label %bind
equal:
  %old = load i64, ptr %at
  %e = icmp eq i64 %old, %value
  ret i1 %e
bind:
  store i64 %value, ptr %at
  br label %yes
yes:
  ret i1 true
}

; The handle of a Python object that is a tensor, else null.
define private ptr @tensor_in(ptr %o) alwaysinline {
  %type_at = getelementptr i8, ptr %o, i64 8
  %type = load ptr, ptr %type_at
  %is_tensor = icmp eq ptr %type, @lamella_tensor_type
  %is_parameter = icmp eq ptr %type, @lamella_parameter_type
  %plain = or i1 %is_tensor, %is_parameter
  br i1 %plain, label %tensor, label %subtype
subtype:
  %sub = call i32 @PyType_IsSubtype(ptr %type, ptr @lamella_tensor_type)
  %is_sub = icmp ne i32 %sub, 0
  br i1 %is_sub, label %tensor, label %no
tensor:
  %h = getelementptr i8, ptr %o, i64 $HANDLE$
  %impl = load ptr, ptr %h
  %none = icmp eq ptr %impl, null
  %found = select i1 %none, ptr null, ptr %h
  ret ptr %found
no:
  ret ptr null
}

; Tensor o against its table entry: nonzero when it is what the entry says. Stores the handle and the data pointer.
define private i1 @check_tensor(ptr %o, ptr %entry, ptr %handle_out, ptr %data_out, ptr %values) {
  %tmp = alloca i64
  %h = call ptr @tensor_in(ptr %o)
  %none = icmp eq ptr %h, null
  br i1 %none, label %no, label %keys
keys:
  store ptr %h, ptr %handle_out
  %impl = load ptr, ptr %h
  %keys_at = getelementptr i8, ptr %impl, i64 $KEYS_AT$
  %set = load i64, ptr %keys_at
  %kind = load i64, ptr %entry
  %here = icmp ult i64 %kind, 16
  br i1 %here, label %cpu, label %gpu
cpu:
  %foreign = and i64 %set, $FOREIGN$
  %ours = icmp eq i64 %foreign, 0
  br i1 %ours, label %dtype, label %elsewhere
elsewhere:
  %any = icmp ugt i64 %kind, 5
  br i1 %any, label %anywhere, label %no
anywhere:
  %anywhere_mask = load i64, ptr @cuda_foreign
  %anywhere_foreign = and i64 %set, %anywhere_mask
  %anywhere_ours = icmp eq i64 %anywhere_foreign, 0
  br i1 %anywhere_ours, label %dtype, label %no
gpu:
  %cuda_mask = load i64, ptr @cuda_foreign
  %cuda_foreign = and i64 %set, %cuda_mask
  %cuda_ours = icmp eq i64 %cuda_foreign, 0
  br i1 %cuda_ours, label %which, label %no
which:
  %device_of = load ptr, ptr @cuda_device
  store i64 0, ptr %tmp
  %r5 = call i32 %device_of(ptr %h, ptr %tmp)
  %device = load i32, ptr %tmp
  %above = sub i64 %kind, 16
  %number = lshr i64 %above, 1
  %wanted = trunc i64 %number to i32
  %device_same = icmp eq i32 %device, %wanted
  br i1 %device_same, label %dtype, label %no
dtype:
  store i64 0, ptr %tmp
  %r0 = call i32 @aoti_torch_get_dtype(ptr %h, ptr %tmp)
  %d = load i64, ptr %tmp
  %dtype_at = getelementptr i64, ptr %entry, i64 1
  %want_dtype = load i64, ptr %dtype_at
  %dtype_any = icmp eq i64 %want_dtype, -1
  %dtype_same = icmp eq i64 %d, %want_dtype
  %dtype_ok = or i1 %dtype_any, %dtype_same
  br i1 %dtype_ok, label %rank, label %no
rank:
  %r1 = call i32 @aoti_torch_get_dim(ptr %h, ptr %tmp)
  %nd = load i64, ptr %tmp
  %rank_at = getelementptr i64, ptr %entry, i64 2
  %want_rank = load i64, ptr %rank_at
  %rank_ok = icmp eq i64 %nd, %want_rank
  br i1 %rank_ok, label %layout, label %no
layout:
  %r2 = call i32 @aoti_torch_get_sizes(ptr %h, ptr %tmp)
  %sizes = load ptr, ptr %tmp
  %r3 = call i32 @aoti_torch_get_strides(ptr %h, ptr %tmp)
  %strides = load ptr, ptr %tmp
  %size_codes = getelementptr i64, ptr %entry, i64 3
  %stride_codes = getelementptr i64, ptr %size_codes, i64 %nd
  %dense = trunc i64 %kind to i1
  br label %sizes_loop
sizes_loop:
  %i = phi i64 [ 0, %layout ], [ %i1, %size_next ]
  %empty = phi i1 [ false, %layout ], [ %empty1, %size_next ]
  %more = icmp slt i64 %i, %nd
  br i1 %more, label %size_one, label %strides_start
size_one:
  %size_at = getelementptr i64, ptr %sizes, i64 %i
  %size = load i64, ptr %size_at
  %code_at = getelementptr i64, ptr %size_codes, i64 %i
  %code = load i64, ptr %code_at
  %ok = call i1 @fits(i64 %code, i64 %size, ptr %values)
  %zero = icmp eq i64 %size, 0
  %empty1 = or i1 %empty, %zero
  br i1 %ok, label %size_next, label %no
size_next:
  %i1 = add i64 %i, 1
  br label %sizes_loop
strides_start:
  br label %strides_loop
strides_loop:
  %j = phi i64 [ %nd, %strides_start ], [ %j1, %stride_next ]
  %dense_stride = phi i64 [ 1, %strides_start ], [ %dense_stride1, %stride_next ]
  %left = icmp sgt i64 %j, 0
  br i1 %left, label %stride_one, label %pointer
stride_one:
  %j1 = sub i64 %j, 1
  %s_at = getelementptr i64, ptr %sizes, i64 %j1
  %s = load i64, ptr %s_at
  %st_at = getelementptr i64, ptr %strides, i64 %j1
  %st = load i64, ptr %st_at
  %dense_stride1 = mul i64 %dense_stride, %s
  %trivial0 = icmp eq i64 %s, 1
  %trivial = or i1 %trivial0, %empty
  br i1 %dense, label %stride_dense, label %stride_code
stride_dense:
  %st_same = icmp eq i64 %st, %dense_stride
  %st_ok = or i1 %st_same, %trivial
  br i1 %st_ok, label %stride_next, label %no
stride_code:
  %sc_at = getelementptr i64, ptr %stride_codes, i64 %j1
  %sc = load i64, ptr %sc_at
  %sc_ok0 = call i1 @fits(i64 %sc, i64 %st, ptr %values)
  %sc_ok = or i1 %sc_ok0, %trivial
  br i1 %sc_ok, label %stride_next, label %no
stride_next:
  br label %strides_loop
pointer:
  %r4 = call i32 @aoti_torch_get_data_ptr(ptr %h, ptr %data_out)
  %p_ok = icmp eq i32 %r4, 0
  ret i1 %p_ok
no:
  ret i1 false
}

; A scalar against its code.
define private i1 @check_scalar(ptr %o, i64 %kind, i64 %code, ptr %values) {
  switch i64 %kind, label %truth [ i64 2, label %int  i64 3, label %float ]
int:
  %n = call i64 @PyLong_AsLongLong(ptr %o)
  br label %convert
float:
  %f = call double @PyFloat_AsDouble(ptr %o)
  %bits = bitcast double %f to i64
  br label %convert
truth:
  %b = call i32 @PyObject_IsTrue(ptr %o)
  %wide = zext i32 %b to i64
  br label %convert
convert:
  %v = phi i64 [ %n, %int ], [ %bits, %float ], [ %wide, %truth ]
  %error = call ptr @PyErr_Occurred()
  %bad = icmp ne ptr %error, null
  br i1 %bad, label %clear, label %compare
clear:
  call void @PyErr_Clear()
  ret i1 false
compare:
  %ok = call i1 @fits(i64 %code, i64 %v, ptr %values)
  ret i1 %ok
}

; Takes the n arguments: of a call with one list these are what is in it, and are taken off it. On success objects[i]
; owns the Python object, handles[i] is its tensor, data[i] its first element, values[k] the bound sizes; owned[0..k) is
; cleared. Otherwise an exception is set by self[0](list of the arguments).
define i32 @lamella_enter(ptr %self, ptr %args, i64 %nargs, ptr %table, i64 %n, ptr %objects, ptr %handles, ptr %data,
                          ptr %values, ptr %owned, i64 %k) {
  %one = icmp eq i64 %nargs, 1
  br i1 %one, label %alone, label %given
alone:
  %only = load ptr, ptr %args
  %type_at = getelementptr i8, ptr %only, i64 8
  %type = load ptr, ptr %type_at
  %boxed = icmp eq ptr %type, @PyList_Type
  br i1 %boxed, label %listed, label %given
listed:
  %length = call i64 @PyList_Size(ptr %only)
  br label %given
given:
  %list = phi ptr [ null, %0 ], [ null, %alone ], [ %only, %listed ]
  %size = phi i64 [ %nargs, %0 ], [ %nargs, %alone ], [ %length, %listed ]
  %loose = icmp eq ptr %list, null
  %count_ok = icmp eq i64 %size, %n
  br i1 %count_ok, label %each, label %wrong
each:
  %i = phi i64 [ 0, %given ], [ %i1, %next ]
  %entry = phi ptr [ %table, %given ], [ %entry1, %next ]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %item, label %take
item:
  br i1 %loose, label %argument, label %element
argument:
  %a_at = getelementptr ptr, ptr %args, i64 %i
  %a = load ptr, ptr %a_at
  br label %look
element:
  %e = call ptr @PyList_GetItem(ptr %list, i64 %i)
  br label %look
look:
  %o = phi ptr [ %a, %argument ], [ %e, %element ]
  %object_at = getelementptr ptr, ptr %objects, i64 %i
  store ptr %o, ptr %object_at
  %kind = load i64, ptr %entry
  switch i64 %kind, label %tensor [ i64 2, label %scalar  i64 3, label %scalar  i64 4, label %scalar
                                   i64 5, label %object ]
tensor:
  %handle_at = getelementptr ptr, ptr %handles, i64 %i
  %data_at = getelementptr ptr, ptr %data, i64 %i
  %t_ok = call i1 @check_tensor(ptr %o, ptr %entry, ptr %handle_at, ptr %data_at, ptr %values)
  %rank_at = getelementptr i64, ptr %entry, i64 2
  %rank = load i64, ptr %rank_at
  %dense = trunc i64 %kind to i1
  %double = shl i64 %rank, 1
  %codes = select i1 %dense, i64 %rank, i64 %double
  %t_length = add i64 %codes, 3
  br i1 %t_ok, label %next, label %wrong
scalar:
  %code_at = getelementptr i64, ptr %entry, i64 1
  %code = load i64, ptr %code_at
  %s_ok = call i1 @check_scalar(ptr %o, i64 %kind, i64 %code, ptr %values)
  br i1 %s_ok, label %next, label %wrong
object:
  br label %next
next:
  %words = phi i64 [ %t_length, %tensor ], [ 2, %scalar ], [ 2, %object ]
  %entry1 = getelementptr i64, ptr %entry, i64 %words
  %i1 = add i64 %i, 1
  br label %each
take:
  %j = phi i64 [ 0, %each ], [ %j1, %own ]
  %j_more = icmp slt i64 %j, %n
  br i1 %j_more, label %own, label %clear
own:
  %own_at = getelementptr ptr, ptr %objects, i64 %j
  %own_object = load ptr, ptr %own_at
  call void @Py_IncRef(ptr %own_object)
  %j1 = add i64 %j, 1
  br label %take
clear:
  %bytes = shl i64 %k, 3
  call void @llvm.memset.p0.i64(ptr %owned, i8 0, i64 %bytes, i1 false)
  br i1 %loose, label %done, label %empty
empty:
  %cleared = call i32 @PyList_SetSlice(ptr %list, i64 0, i64 %n, ptr null)
  br label %done
done:
  ret i32 0
wrong:
  call void @PyErr_Clear()
  br i1 %loose, label %gather, label %tell
gather:
  call void @lamella_disagree(ptr %self, ptr %args, i64 %nargs)
  ret i32 1
tell:
  call void @explain(ptr %self, ptr %list)
  ret i32 1
}

; self[0](list), which raises.
define private void @explain(ptr %self, ptr %list) {
  %argv = alloca [2 x ptr]
  %first = getelementptr ptr, ptr %argv, i64 1
  store ptr %list, ptr %first
  %function = call ptr @PyTuple_GetItem(ptr %self, i64 0)
  %r = call ptr @PyObject_Vectorcall(ptr %function, ptr %first, i64 -9223372036854775807, ptr null)
  %none = icmp eq ptr %r, null
  br i1 %none, label %done, label %silent
silent:
  call void @Py_DecRef(ptr %r)
  call void @fail_with(ptr @unknown)
  br label %done
done:
  ret void
}

; The same for arguments that are in no list.
define void @lamella_disagree(ptr %self, ptr %objects, i64 %n) {
  %list = call ptr @PyList_New(i64 %n)
  %none = icmp eq ptr %list, null
  br i1 %none, label %done, label %each
each:
  %i = phi i64 [ 0, %0 ], [ %i1, %one ]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %one, label %ask
one:
  %at = getelementptr ptr, ptr %objects, i64 %i
  %o = load ptr, ptr %at
  call void @Py_IncRef(ptr %o)
  %r = call i32 @PyList_SetItem(ptr %list, i64 %i, ptr %o)
  %i1 = add i64 %i, 1
  br label %each
ask:
  call void @explain(ptr %self, ptr %list)
  call void @Py_DecRef(ptr %list)
  br label %done
done:
  ret void
}
"""
