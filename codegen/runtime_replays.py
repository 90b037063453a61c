"""The native functions that ask, before a recorded graph is replayed, whether its inputs lie where they did and whether
somebody has its results, as LLVM IR: builtins of a table of pairs of 64-bit numbers, which is the memory of bytes.
"""

from collections.abc import Callable
from typing import Any


def native_questions() -> tuple[Callable[[list[Any], bytes], bool], Callable[[bytes], bool] | None]:
    """Those of `frontend/replay_questions.py`; None where this torch keeps the counts of owners elsewhere. The first
    raises IndexError where a list ends before.
    """
    from .runtime import builtin
    from .runtime_support import find_layout, load_support

    support = load_support()
    same, more = (builtin(support[name], (support,)) for name in ("lamella_same_places", "lamella_more_owners"))
    return same, more if find_layout().fresh else None


TEXT = r"""
declare ptr @PyBytes_AsString(ptr)
declare i64 @PyBytes_Size(ptr)

define ptr @lamella_same_places(ptr %self, ptr %args, i64 %nargs) {
  %tmp = alloca i64
  %list = load ptr, ptr %args
  %bytes_at = getelementptr ptr, ptr %args, i64 1
  %bytes = load ptr, ptr %bytes_at
  %table = call ptr @PyBytes_AsString(ptr %bytes)
  %size = call i64 @PyBytes_Size(ptr %bytes)
  %n = lshr i64 %size, 4
  br label %each
each:
  %i = phi i64 [ 0, %0 ], [ %i1, %next ]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %one, label %yes
one:
  %at = getelementptr [2 x i64], ptr %table, i64 %i
  %index = load i64, ptr %at
  %wanted_at = getelementptr i64, ptr %at, i64 1
  %wanted = load i64, ptr %wanted_at
  %o = call ptr @PyList_GetItem(ptr %list, i64 %index)
  %none = icmp eq ptr %o, null
  br i1 %none, label %error, label %object
object:
  %h = call ptr @tensor_in(ptr %o)
  %other = icmp eq ptr %h, null
  br i1 %other, label %no, label %tensor
tensor:
  %r = call i32 @aoti_torch_get_data_ptr(ptr %h, ptr %tmp)
  %address = load i64, ptr %tmp
  %read = icmp eq i32 %r, 0
  %there = icmp eq i64 %address, %wanted
  %same = and i1 %read, %there
  br i1 %same, label %next, label %no
next:
  %i1 = add i64 %i, 1
  br label %each
yes:
  %true = call ptr @PyBool_FromLong(i64 1)
  ret ptr %true
no:
  %false = call ptr @PyBool_FromLong(i64 0)
  ret ptr %false
error:
  ret ptr null
}

define ptr @lamella_more_owners(ptr %self, ptr %args, i64 %nargs) {
  %bytes = load ptr, ptr %args
  %table = call ptr @PyBytes_AsString(ptr %bytes)
  %size = call i64 @PyBytes_Size(ptr %bytes)
  %n = lshr i64 %size, 4
  br label %each
each:
  %i = phi i64 [ 0, %0 ], [ %i1, %next ]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %one, label %no
one:
  %at = getelementptr [2 x i64], ptr %table, i64 %i
  %storage = load ptr, ptr %at
  %known_at = getelementptr i64, ptr %at, i64 1
  %known = load i64, ptr %known_at
  %word_at = getelementptr i8, ptr %storage, i64 8
  %word = load i64, ptr %word_at
  %owners = and i64 %word, 4294967295
  %held = icmp ugt i64 %owners, %known
  br i1 %held, label %yes, label %next
next:
  %i1 = add i64 %i, 1
  br label %each
yes:
  %true = call ptr @PyBool_FromLong(i64 1)
  ret ptr %true
no:
  %false = call ptr @PyBool_FromLong(i64 0)
  ret ptr %false
}
"""
