"""The native functions for arenas, as LLVM IR: their pool, and tensors over parts of them.

An arena is taken out of the pool for as long as a call uses it. The bytes of those that are taken are beside the
outputs that are recycled (`runtime_outputs`); those in the pool are kept, or go, as they are.
"""

TEXT = r"""
@arenas = private global [4 x %entry] zeroinitializer
@arenas_bytes = private global i64 0                      ; of those in the pool, and of those in use

define private void @arena_goes(ptr %h, i64 %bytes) {
  %sum = load i64, ptr @arenas_bytes
  %less = sub i64 %sum, %bytes
  store i64 %less, ptr @arenas_bytes
  %r = call i32 @aoti_torch_delete_tensor_object(ptr %h)
  ret void
}

; Whether an arena serves for so many bytes, and is not so much larger that the rest of it had better be free.
define private i1 @serves(i64 %b, i64 %bytes) {
  %enough = icmp uge i64 %b, %bytes
  %twice = shl i64 %bytes, 1
  %most = add i64 %twice, 1048576
  %not_more = icmp ule i64 %b, %most
  %r = and i1 %enough, %not_more
  ret i1 %r
}

; The smallest arena of the pool that serves for so many bytes, null without one.
define private ptr @arena_for(i64 %bytes) {
  br label %each
each:
  %i = phi i64 [ 0, %0 ], [ %i1, %next ]
  %best = phi ptr [ null, %0 ], [ %best1, %next ]
  %best_bytes = phi i64 [ 9223372036854775807, %0 ], [ %best_bytes1, %next ]
  %more = icmp ult i64 %i, 4
  br i1 %more, label %look, label %chosen
look:
  %e = getelementptr [4 x %entry], ptr @arenas, i64 0, i64 %i
  %h = load ptr, ptr %e
  %there = icmp ne ptr %h, null
  br i1 %there, label %measure, label %next
measure:
  %b_at = getelementptr %entry, ptr %e, i64 0, i32 1
  %b = load i64, ptr %b_at
  %enough = call i1 @serves(i64 %b, i64 %bytes)
  %smaller = icmp ult i64 %b, %best_bytes
  %better = and i1 %enough, %smaller
  br i1 %better, label %mode, label %next
mode:
  %fit = call i1 @usable(ptr %h)
  %take = select i1 %fit, ptr %e, ptr %best
  %take_bytes = select i1 %fit, i64 %b, i64 %best_bytes
  br label %next
next:
  %best1 = phi ptr [ %best, %look ], [ %best, %measure ], [ %take, %mode ]
  %best_bytes1 = phi i64 [ %best_bytes, %look ], [ %best_bytes, %measure ], [ %take_bytes, %mode ]
  %i1 = add i64 %i, 1
  br label %each
chosen:
  ret ptr %best
}

; The bytes of the arenas of the pool but one, or null; they go where `go`.
define private i64 @idle_arenas(ptr %but, i1 %go) {
  br label %each
each:
  %i = phi i64 [ 0, %0 ], [ %i1, %next ]
  %sum = phi i64 [ 0, %0 ], [ %sum1, %next ]
  %more = icmp ult i64 %i, 4
  br i1 %more, label %look, label %done
look:
  %e = getelementptr [4 x %entry], ptr @arenas, i64 0, i64 %i
  %h = load ptr, ptr %e
  %there = icmp ne ptr %h, null
  %other = icmp ne ptr %e, %but
  %counts = and i1 %there, %other
  br i1 %counts, label %one, label %next
one:
  %b_at = getelementptr %entry, ptr %e, i64 0, i32 1
  %b = load i64, ptr %b_at
  %with = add i64 %sum, %b
  br i1 %go, label %release, label %next
release:
  store ptr null, ptr %e
  call void @arena_goes(ptr %h, i64 %b)
  br label %next
next:
  %sum1 = phi i64 [ %sum, %look ], [ %with, %one ], [ %with, %release ]
  %i1 = add i64 %i, 1
  br label %each
done:
  ret i64 %sum
}

; An arena of at least that many bytes: the smallest of the pool that serves, or a new one.
define i32 @lamella_arena(i64 %bytes, ptr %owned, ptr %data) {
  %size = alloca i64
  %stride = alloca i64
  %best = call ptr @arena_for(i64 %bytes)
  %found = icmp ne ptr %best, null
  br i1 %found, label %reuse, label %make
reuse:
  %old = load ptr, ptr %best
  store ptr null, ptr %best
  store ptr %old, ptr %owned
  %d_at = getelementptr %entry, ptr %best, i64 0, i32 2
  %d = load ptr, ptr %d_at
  store ptr %d, ptr %data
  ret i32 0
make:
  ; what was too small is not kept beside the larger one that serves for it too
  %n = phi i64 [ 0, %0 ], [ %n1, %make_next ]
  %n_more = icmp ult i64 %n, 4
  br i1 %n_more, label %small, label %new_one
small:
  %s_e = getelementptr [4 x %entry], ptr @arenas, i64 0, i64 %n
  %s_h = load ptr, ptr %s_e
  %s_b_at = getelementptr %entry, ptr %s_e, i64 0, i32 1
  %s_b = load i64, ptr %s_b_at
  %s_there = icmp ne ptr %s_h, null
  %s_less = icmp ult i64 %s_b, %bytes
  %s_serves = call i1 @serves(i64 %bytes, i64 %s_b)
  %s_both = and i1 %s_less, %s_serves
  %s_drop = and i1 %s_there, %s_both
  br i1 %s_drop, label %release, label %make_next
release:
  store ptr null, ptr %s_e
  call void @arena_goes(ptr %s_h, i64 %s_b)
  br label %make_next
make_next:
  %n1 = add i64 %n, 1
  br label %make
new_one:
  %few = icmp eq i64 %bytes, 0
  %at_least = select i1 %few, i64 64, i64 %bytes
  store i64 %at_least, ptr %size
  store i64 1, ptr %stride
  %r = call i32 @new(i64 1, ptr %size, ptr %stride, i32 0, i32 0, i32 0, ptr %owned)
  %bad = icmp ne i32 %r, 0
  br i1 %bad, label %fail, label %pointer
pointer:
  %new = load ptr, ptr %owned
  %r2 = call i32 @aoti_torch_get_data_ptr(ptr %new, ptr %data)
  %sum = load i64, ptr @arenas_bytes
  %grown = add i64 %sum, %at_least
  store i64 %grown, ptr @arenas_bytes
  ret i32 0
fail:
  store ptr null, ptr %owned
  call void @lamella_raise()
  ret i32 1
}

; Puts the arena into the pool, in place of the smallest one when it is full. One that somebody else still holds is
; let go.
define void @lamella_arena_done(ptr %owned) {
  %sizes = alloca ptr
  %data = alloca ptr
  %t = load ptr, ptr %owned
  store ptr null, ptr %owned
  %taken = icmp ne ptr %t, null
  br i1 %taken, label %given, label %done
given:
  %r = call i32 @aoti_torch_get_sizes(ptr %t, ptr %sizes)
  %sizes_at = load ptr, ptr %sizes
  %bytes = load i64, ptr %sizes_at
  %word = call ptr @count_of(ptr %t)
  %count = load i64, ptr %word
  %alone = icmp eq i64 %count, $FRESH$
  br i1 %alone, label %keep, label %drop
keep:
  %r2 = call i32 @aoti_torch_get_data_ptr(ptr %t, ptr %data)
  %d = load ptr, ptr %data
  br label %each
each:
  %i = phi i64 [ 0, %keep ], [ %i1, %next ]
  %least = phi ptr [ null, %keep ], [ %least1, %next ]
  %least_bytes = phi i64 [ 9223372036854775807, %keep ], [ %least_bytes1, %next ]
  %more = icmp ult i64 %i, 4
  br i1 %more, label %look, label %place
look:
  %e = getelementptr [4 x %entry], ptr @arenas, i64 0, i64 %i
  %h = load ptr, ptr %e
  %free = icmp eq ptr %h, null
  %b_at = getelementptr %entry, ptr %e, i64 0, i32 1
  %b = load i64, ptr %b_at
  %size = select i1 %free, i64 -1, i64 %b
  %smaller = icmp slt i64 %size, %least_bytes
  %least1 = select i1 %smaller, ptr %e, ptr %least
  %least_bytes1 = select i1 %smaller, i64 %size, i64 %least_bytes
  br label %next
next:
  %i1 = add i64 %i, 1
  br label %each
place:
  %old = load ptr, ptr %least
  store ptr %t, ptr %least
  %new_b = getelementptr %entry, ptr %least, i64 0, i32 1
  store i64 %bytes, ptr %new_b
  %new_d = getelementptr %entry, ptr %least, i64 0, i32 2
  store ptr %d, ptr %new_d
  %none = icmp eq ptr %old, null
  br i1 %none, label %done, label %evict
evict:
  call void @arena_goes(ptr %old, i64 %least_bytes)
  br label %done
drop:
  call void @arena_goes(ptr %t, i64 %bytes)
  br label %done
done:
  ret void
}

; Part of an arena as a tensor.
define i32 @lamella_slot(ptr %arena, i64 %offset, i64 %nd, ptr %sizes, ptr %strides, i32 %dtype, ptr %owned) {
  %r = call i32 @aoti_torch__alloc_from_pool(
    ptr %arena, i64 %offset, i32 %dtype, i64 %nd, ptr %sizes, ptr %strides, ptr %owned)
  %done = call i32 @made(i32 %r, ptr %owned)
  ret i32 %done
}
"""
