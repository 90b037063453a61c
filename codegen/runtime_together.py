"""The native function that runs several kernels as one, as LLVM IR: one fork of torch's threads for all their points.

A launch of the table is the number of the word that has its kernel's `.prepare`, how many arguments follow, and these:
2k for what word k has, 2k + 1 for the number k. What becomes of it is a context, eight bytes each of: the next context,
its work, its points, the kernel's body, the arguments. `.prepare` fills in the three in the middle.
"""

UNIT = 64
"""Work that is worth a thread, as in `lowering/parallel.py`."""

TEXT = r"""
%group = type { i32, i64, i64, ptr }                      ; the highest code, launches, work, the first context

define i32 @lamella_together(ptr %table, i64 %n, ptr %words, ptr %contexts) {
  %group = alloca %group
  br label %launch
launch:
  %i = phi i64 [ 0, %0 ], [ %i1, %ready ]
  %at = phi ptr [ %table, %0 ], [ %at1, %ready ]
  %context = phi ptr [ %contexts, %0 ], [ %next, %ready ]
  %work = phi i64 [ 0, %0 ], [ %work1, %ready ]
  %more = icmp ult i64 %i, %n
  br i1 %more, label %kernel, label %all
kernel:
  %place = load i64, ptr %at
  %prepare_at = getelementptr ptr, ptr %words, i64 %place
  %prepare = load ptr, ptr %prepare_at
  %count_at = getelementptr i64, ptr %at, i64 1
  %count = load i64, ptr %count_at
  %codes = getelementptr i64, ptr %at, i64 2
  %arguments = getelementptr i64, ptr %context, i64 4
  br label %each
each:
  %j = phi i64 [ 0, %kernel ], [ %j1, %put ]
  %left = icmp ult i64 %j, %count
  br i1 %left, label %argument, label %ready
argument:
  %code_at = getelementptr i64, ptr %codes, i64 %j
  %code = load i64, ptr %code_at
  %number = ashr i64 %code, 1
  %odd = trunc i64 %code to i1
  br i1 %odd, label %put, label %look
look:
  %word_at = getelementptr i64, ptr %words, i64 %number
  %word = load i64, ptr %word_at
  br label %put
put:
  %value = phi i64 [ %number, %argument ], [ %word, %look ]
  %to = getelementptr i64, ptr %arguments, i64 %j
  store i64 %value, ptr %to
  %j1 = add i64 %j, 1
  br label %each
ready:
  %next = getelementptr i64, ptr %arguments, i64 %count
  store ptr %next, ptr %context
  %shape = getelementptr i64, ptr %context, i64 1
  call void %prepare(ptr %shape)
  %own = load i64, ptr %shape
  %work1 = add i64 %work, %own
  %at1 = getelementptr i64, ptr %codes, i64 %count
  %i1 = add i64 %i, 1
  br label %launch
all:
  store i32 0, ptr %group
  %n_at = getelementptr %group, ptr %group, i64 0, i32 1
  store i64 %n, ptr %n_at
  %work_at = getelementptr %group, ptr %group, i64 0, i32 2
  store i64 %work, ptr %work_at
  %first_at = getelementptr %group, ptr %group, i64 0, i32 3
  store ptr %contexts, ptr %first_at
  %wanted = udiv i64 %work, $UNIT$
  %several = icmp ugt i64 %wanted, 1
  br i1 %several, label %ask, label %alone
ask:
  %most32 = call i32 @lamella_num_threads()
  %most = sext i32 %most32 to i64
  %fewer = icmp slt i64 %wanted, %most
  %threads = select i1 %fewer, i64 %wanted, i64 %most
  %many = icmp sgt i64 %threads, 1
  br i1 %many, label %fork, label %alone
fork:
  %threads32 = trunc i64 %threads to i32
  call void @GOMP_parallel(ptr @share, ptr %group, i32 %threads32, i32 0)
  br label %done
alone:
  call void @part(ptr %group, i64 0, i64 1)
  br label %done
done:
  %result = load i32, ptr %group
  ret i32 %result
}

define private void @share(ptr %group) {
  %number32 = call i32 @omp_get_thread_num()
  %count32 = call i32 @omp_get_num_threads()
  %number = sext i32 %number32 to i64
  %count = sext i32 %count32 to i64
  call void @part(ptr %group, i64 %number, i64 %count)
  ret void
}

; Of all work laid end to end, the part of one thread. What has no work by its own account is for the first one.
define private void @part(ptr %group, i64 %number, i64 %count) {
  %n_at = getelementptr %group, ptr %group, i64 0, i32 1
  %n = load i64, ptr %n_at
  %work_at = getelementptr %group, ptr %group, i64 0, i32 2
  %work = load i64, ptr %work_at
  %first_at = getelementptr %group, ptr %group, i64 0, i32 3
  %first = load ptr, ptr %first_at
  %before = mul i64 %work, %number
  %start = udiv i64 %before, %count
  %following = add i64 %number, 1
  %after = mul i64 %work, %following
  %end = udiv i64 %after, %count
  %leader = icmp eq i64 %number, 0
  br label %each
each:
  %i = phi i64 [ 0, %0 ], [ %i1, %next ]
  %context = phi ptr [ %first, %0 ], [ %context1, %next ]
  %base = phi i64 [ 0, %0 ], [ %base1, %next ]
  %more = icmp ult i64 %i, %n
  br i1 %more, label %launch, label %done
launch:
  %shape = getelementptr i64, ptr %context, i64 1
  %own = load i64, ptr %shape
  %points_at = getelementptr i64, ptr %context, i64 2
  %points = load i64, ptr %points_at
  %base1 = add i64 %base, %own
  %serial = icmp eq i64 %own, 0
  br i1 %serial, label %whole, label %shared
whole:
  %mine = select i1 %leader, i64 %points, i64 0
  br label %range
shared:
  %from = sub i64 %start, %base
  %from_low = call i64 @llvm.smax.i64(i64 %from, i64 0)
  %from_own = call i64 @llvm.smin.i64(i64 %from_low, i64 %own)
  %to = sub i64 %end, %base
  %to_low = call i64 @llvm.smax.i64(i64 %to, i64 0)
  %to_own = call i64 @llvm.smin.i64(i64 %to_low, i64 %own)
  %from_points = mul i64 %from_own, %points
  %lo_shared = udiv i64 %from_points, %own
  %to_points = mul i64 %to_own, %points
  %hi_shared = udiv i64 %to_points, %own
  br label %range
range:
  %lo = phi i64 [ 0, %whole ], [ %lo_shared, %shared ]
  %hi = phi i64 [ %mine, %whole ], [ %hi_shared, %shared ]
  %some = icmp ult i64 %lo, %hi
  br i1 %some, label %run, label %next
run:
  %body_at = getelementptr ptr, ptr %context, i64 3
  %body = load ptr, ptr %body_at
  %code = call i32 %body(ptr %shape, i64 %lo, i64 %hi)
  %bad = icmp ne i32 %code, 0
  br i1 %bad, label %report, label %next
report:
  %old = atomicrmw umax ptr %group, i32 %code monotonic
  br label %next
next:
  %i1 = add i64 %i, 1
  %context1 = load ptr, ptr %context
  br label %each
done:
  ret void
}

declare i64 @llvm.smax.i64(i64, i64)
declare i64 @llvm.smin.i64(i64, i64)
declare i32 @lamella_num_threads()
declare i32 @omp_get_thread_num()
declare i32 @omp_get_num_threads()
declare void @GOMP_parallel(ptr, ptr, i32, i32)
""".replace("$UNIT$", str(UNIT))
