"""The native functions for results that lie over arguments which are there for one call alone, as LLVM IR.

A program that is given its arguments in a list takes them out of it. What AOTAutograd has made for the call, as a
gradient that was not contiguous, then has no other owner, which the counts of its Python object, its tensor and its
storage say; others may own what an array of numpy or another process has allocated, so that its data must be torch's.
"""

TEXT = r"""
; Whether an argument is there for this call alone: a tensor that nobody holds but its Python object, which nobody has
; but the program, over all of a storage of its own of that many bytes, whose data torch has allocated.
define private i1 @is_for_this_call(ptr %object, i64 %bytes) {
  %at = alloca i64
  %possible = icmp sge i64 $DELETER_AT$, 0
  %owners = load i32, ptr %object
  %one = icmp eq i32 %owners, 1
  %ask = and i1 %possible, %one
  br i1 %ask, label %tensor, label %no
tensor:
  %h = getelementptr i8, ptr %object, i64 $HANDLE$
  %impl = load ptr, ptr %h
  %count_at = getelementptr i8, ptr %impl, i64 8
  %count = load i64, ptr %count_at
  %tensor_alone = icmp eq i64 %count, $ALONE$
  %word = call ptr @count_of(ptr %h)
  %storage_count = load i64, ptr %word
  %storage_alone = icmp eq i64 %storage_count, $FRESH$
  %alone = and i1 %tensor_alone, %storage_alone
  br i1 %alone, label %memory, label %no
memory:
  %storage = getelementptr i8, ptr %word, i64 -8
  %deleter_at = getelementptr i8, ptr %storage, i64 $DELETER_AT$
  %deleter = load ptr, ptr %deleter_at
  %data_at = getelementptr i8, ptr %deleter_at, i64 -8
  %data = load ptr, ptr %data_at
  %context_at = getelementptr i8, ptr %deleter_at, i64 8
  %context = load ptr, ptr %context_at
  %torchs_0 = icmp eq ptr %deleter, @lamella_deleter
  %torchs_1 = icmp eq ptr %data, %context
  %torchs = and i1 %torchs_0, %torchs_1
  %r0 = call i32 @aoti_torch_get_storage_size(ptr %h, ptr %at)
  %size = load i64, ptr %at
  %fits = icmp eq i64 %size, %bytes
  %r1 = call i32 @aoti_torch_get_storage_offset(ptr %h, ptr %at)
  %offset = load i64, ptr %at
  %first = icmp eq i64 %offset, 0
  %whole = and i1 %fits, %first
  %usable = call i1 @usable(ptr %h)
  %good = and i1 %torchs, %whole
  %yes = and i1 %good, %usable
  ret i1 %yes
no:
  ret i1 false
}

; The same as lamella_empty, or a tensor over an argument that is there for this call alone.
define i32 @lamella_empty_over(
  ptr %object, i64 %nd, ptr %sizes, ptr %strides, i32 %dtype, i64 %bytes, i64 %beside, ptr %owned, ptr %data) {
  %ours = call i1 @is_for_this_call(ptr %object, i64 %bytes)
  br i1 %ours, label %over, label %fresh
over:
  %h = getelementptr i8, ptr %object, i64 $HANDLE$
  %r = call i32 @aoti_torch__alloc_from_pool(ptr %h, i64 0, i32 %dtype, i64 %nd, ptr %sizes, ptr %strides, ptr %owned)
  %bad = call i32 @made(i32 %r, ptr %owned)
  %failed = icmp ne i32 %bad, 0
  br i1 %failed, label %no, label %pointer
pointer:
  %t = load ptr, ptr %owned
  %r1 = call i32 @aoti_torch_get_data_ptr(ptr %t, ptr %data)
  ret i32 0
no:
  ret i32 1
fresh:
  %made = call i32 @lamella_empty(
    i64 %nd, ptr %sizes, ptr %strides, i32 %dtype, i64 %bytes, i64 %beside, ptr %owned, ptr %data)
  ret i32 %made
}
"""
