"""The native functions that give back what a call of a host program holds, and make what it returns, and one that
tells whether a call may be made at once, as LLVM IR.
"""

TEXT = r"""
; Gives back all that a call still holds.
define void @lamella_leave(ptr %objects, i64 %n, ptr %owned, i64 %k) {
  br label %each
each:
  %i = phi i64 [ 0, %0 ], [ %i1, %next ]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %one, label %tensors
one:
  %at = getelementptr ptr, ptr %objects, i64 %i
  %o = load ptr, ptr %at
  %gone = icmp eq ptr %o, null
  br i1 %gone, label %next, label %release
release:
  call void @Py_DecRef(ptr %o)
  br label %next
next:
  %i1 = add i64 %i, 1
  br label %each
tensors:
  %j = phi i64 [ 0, %each ], [ %j1, %tensor_next ]
  %j_more = icmp slt i64 %j, %k
  br i1 %j_more, label %tensor, label %done
tensor:
  %t_at = getelementptr ptr, ptr %owned, i64 %j
  %t = load ptr, ptr %t_at
  %t_gone = icmp eq ptr %t, null
  br i1 %t_gone, label %tensor_next, label %delete
delete:
  %r = call i32 @aoti_torch_delete_tensor_object(ptr %t)
  br label %tensor_next
tensor_next:
  %j1 = add i64 %j, 1
  br label %tensors
done:
  ret void
}

; Releases *owned or *object now, if it is still held.
define void @lamella_drop(ptr %owned) {
  %t = load ptr, ptr %owned
  store ptr null, ptr %owned
  %gone = icmp eq ptr %t, null
  br i1 %gone, label %done, label %delete
delete:
  %r = call i32 @aoti_torch_delete_tensor_object(ptr %t)
  br label %done
done:
  ret void
}

define void @lamella_drop_object(ptr %object) {
  %o = load ptr, ptr %object
  store ptr null, ptr %object
  %gone = icmp eq ptr %o, null
  br i1 %gone, label %done, label %release
release:
  call void @Py_DecRef(ptr %o)
  br label %done
done:
  ret void
}

; The tuple of n objects, which are given up; null when one of them is.
define ptr @lamella_tuple(ptr %objects, i64 %n) {
  %tuple = call ptr @PyTuple_New(i64 %n)
  %none = icmp eq ptr %tuple, null
  br label %each
each:
  %i = phi i64 [ 0, %0 ], [ %i1, %next ]
  %bad = phi i1 [ %none, %0 ], [ %bad1, %next ]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %one, label %end
one:
  %at = getelementptr ptr, ptr %objects, i64 %i
  %o = load ptr, ptr %at
  %missing = icmp eq ptr %o, null
  %bad1 = or i1 %bad, %missing
  br i1 %none, label %lost, label %put
lost:
  call void @lamella_drop_object(ptr %at)
  br label %next
put:
  %r = call i32 @PyTuple_SetItem(ptr %tuple, i64 %i, ptr %o)
  br label %next
next:
  %i1 = add i64 %i, 1
  br label %each
end:
  br i1 %bad, label %fail, label %good
fail:
  br i1 %none, label %done, label %forget
forget:
  call void @Py_DecRef(ptr %tuple)
  br label %done
done:
  ret ptr null
good:
  ret ptr %tuple
}

; METH_NOARGS: True where no dispatch mode is on, and torch traces nothing. Torch returns the state of its trace by
; reference; if a version did by value, it would be in `room`.
define ptr @lamella_unobserved(ptr %self, ptr %none) {
  %room = alloca [2 x ptr]
  %modes = call i64 @lamella_modes()
  %quiet = icmp eq i64 %modes, 0
  br i1 %quiet, label %trace, label %no
trace:
  %at = call ptr @lamella_trace(ptr %room)
  %state = load ptr, ptr %at
  %idle = icmp eq ptr %state, null
  br i1 %idle, label %yes, label %no
yes:
  %true = call ptr @PyBool_FromLong(i64 1)
  ret ptr %true
no:
  %false = call ptr @PyBool_FromLong(i64 0)
  ret ptr %false
}
"""
