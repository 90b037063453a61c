"""The native functions that ask, before a recorded graph is replayed, whether its inputs lie where they did and whether
somebody has its results, as LLVM IR: builtins of a table of pairs of 64-bit numbers, which is the memory of bytes.
"""

import struct
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

Pairs = Iterable[tuple[int, int]]


def table(pairs: Pairs) -> bytes:
    """What the builtins take."""
    numbers = [number for pair in pairs for number in pair]
    return struct.pack(f"{len(numbers)}Q", *numbers)


@cache
def same_places() -> Callable[[list[Any], bytes], bool]:
    """Whether the data of each tensor of a list whose index the table has begins at the address beside it. Raises
    IndexError where the list ends before.
    """
    from .runtime import builtin
    from .runtime_support import load_support

    support = load_support()
    return builtin(support["lamella_same_places"], (support,))


@cache
def more_owners() -> Callable[[bytes], bool]:
    """Whether one of the storages whose `_cdata` the table has, all of which there are, has more owners than it says
    beside it.
    """
    from .runtime import builtin
    from .runtime_support import find_layout, load_support

    support = load_support()
    if not find_layout().fresh:  # torch keeps the count elsewhere
        return _more_owners
    return builtin(support["lamella_more_owners"], (support,))


def _more_owners(pairs: bytes) -> bool:
    from torch import _C

    owners: Any = _C._storage_Use_Count  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    return any(owners(storage) > count for storage, count in struct.iter_unpack("QQ", pairs))


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
  br i1 %none, label %error, label %type
type:
  %type_at = getelementptr i8, ptr %o, i64 8
  %kind = load ptr, ptr %type_at
  %is_tensor = icmp eq ptr %kind, @lamella_tensor_type
  %is_parameter = icmp eq ptr %kind, @lamella_parameter_type
  %plain = or i1 %is_tensor, %is_parameter
  br i1 %plain, label %tensor, label %subtype
subtype:
  %sub = call i32 @PyType_IsSubtype(ptr %kind, ptr @lamella_tensor_type)
  %is_sub = icmp ne i32 %sub, 0
  br i1 %is_sub, label %tensor, label %no
tensor:
  %h = getelementptr i8, ptr %o, i64 $HANDLE$
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
