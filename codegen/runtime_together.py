"""The native function that runs several kernels as one, as LLVM IR: one fork of torch's threads for all their points.

A launch of the table is the number of the word that has its kernel's `.prepare`, how many arguments follow, and these:
2k for what word k has, 2k + 1 for the number k. What becomes of it is a context, eight bytes each of: the next context,
its work, its points, the kernel's body, the arguments. `.prepare` fills in the three in the middle.
"""

UNIT = 64
"""Work that is worth a thread, as in `lowering/parallel.py`."""

PIECES = 16
"""Pieces of all work for each thread: what others take of them when they are done is small."""

TEXT = r"""
; the highest code, launches, the work of a piece, the first context, threads, the range of pieces of each
%group = type { i32, i64, i64, ptr, i64, ptr }
%range = type { i64, i64, [6 x i64] }                       ; the next piece, the end; a line of memory

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
  %piece_at = getelementptr %group, ptr %group, i64 0, i32 2
  %first_at = getelementptr %group, ptr %group, i64 0, i32 3
  store ptr %contexts, ptr %first_at
  %wanted = udiv i64 %work, $UNIT$
  %several = icmp ugt i64 %wanted, 1
  br i1 %several, label %ask, label %ready_all
ask:
  %most32 = call i32 @lamella_num_threads()
  %most = sext i32 %most32 to i64
  %fewer = icmp slt i64 %wanted, %most
  %found = select i1 %fewer, i64 %wanted, i64 %most
  br label %ready_all
ready_all:
  %threads = phi i64 [ 1, %all ], [ %found, %ask ]
  %threads_at = getelementptr %group, ptr %group, i64 0, i32 4
  store i64 %threads, ptr %threads_at
  %ranges = alloca %range, i64 %threads, align 64
  %ranges_at = getelementptr %group, ptr %group, i64 0, i32 5
  store ptr %ranges, ptr %ranges_at
  %many = icmp ugt i64 %threads, 1
  %parts = mul i64 %threads, $PIECES$
  %even = udiv i64 %work, %parts
  %least = call i64 @llvm.umax.i64(i64 %even, i64 $UNIT$)
  %piece = select i1 %many, i64 %least, i64 -1
  store i64 %piece, ptr %piece_at
  store i64 0, ptr %ranges
  br label %lay
lay:
  %k = phi i64 [ 0, %ready_all ], [ %k1, %laid ]
  %laying = phi ptr [ %contexts, %ready_all ], [ %laying1, %laid ]
  %before = phi i64 [ 0, %ready_all ], [ %before1, %laid ]
  %pieces = phi i64 [ 0, %ready_all ], [ %pieces1, %laid ]
  %thread = phi i64 [ 1, %ready_all ], [ %thread1, %laid ]
  %some = icmp ult i64 %k, %n
  br i1 %some, label %measure, label %fork
measure:
  %measured = getelementptr i64, ptr %laying, i64 1
  %part = load i64, ptr %measured
  %own_pieces = call i64 @pieces(ptr %measured, i64 %piece)
  %before1 = add i64 %before, %part
  %pieces1 = add i64 %pieces, %own_pieces
  br label %cut
cut:
  %thread1 = phi i64 [ %thread, %measure ], [ %thread2, %put_range ]
  %missing = icmp ult i64 %thread1, %threads
  %up_to = mul i64 %work, %thread1
  %start = udiv i64 %up_to, %threads
  %inside = icmp ule i64 %start, %before1
  %here = select i1 %missing, i1 %inside, i1 false
  br i1 %here, label %put_range, label %laid
put_range:                                               ; to the nearest piece
  %past = sub i64 %start, %before
  %scaled = mul i64 %past, %own_pieces
  %doubled = shl i64 %scaled, 1
  %rounded = add i64 %doubled, %part
  %whole = shl i64 %part, 1
  %nearest = udiv i64 %rounded, %whole
  %from = add i64 %pieces, %nearest
  %range = getelementptr %range, ptr %ranges, i64 %thread1
  store i64 %from, ptr %range
  %end_at = getelementptr %range, ptr %range, i64 -1, i32 1
  store i64 %from, ptr %end_at
  %thread2 = add i64 %thread1, 1
  br label %cut
laid:
  %laying1 = load ptr, ptr %laying
  %k1 = add i64 %k, 1
  br label %lay
fork:
  %last = sub i64 %threads, 1
  %last_end = getelementptr %range, ptr %ranges, i64 %last, i32 1
  store i64 %pieces, ptr %last_end
  br i1 %many, label %parallel, label %alone
parallel:
  %threads32 = trunc i64 %threads to i32
  call void @GOMP_parallel(ptr @share, ptr %group, i32 %threads32, i32 0)
  br label %done
alone:
  call void @part(ptr %group, i64 0)
  br label %done
done:
  %result = load i32, ptr %group
  ret i32 %result
}

; Of a launch that is large, or has few points, a piece is a part of these. What has no work by its own account is one.
define private i64 @pieces(ptr %shape, i64 %piece) alwaysinline {
  %own = load i64, ptr %shape
  %points_at = getelementptr i64, ptr %shape, i64 1
  %points = load i64, ptr %points_at
  %fitting = udiv i64 %own, %piece
  %some = call i64 @llvm.umax.i64(i64 %fitting, i64 1)
  %twice = shl i64 %some, 1
  %few = icmp ule i64 %points, %twice
  %least = call i64 @llvm.umin.i64(i64 %points, i64 1)
  %shared = select i1 %few, i64 %points, i64 %some
  %serial = icmp eq i64 %own, 0
  %pieces = select i1 %serial, i64 %least, i64 %shared
  ret i64 %pieces
}

define private void @share(ptr %group) {
  %number32 = call i32 @omp_get_thread_num()
  %number = sext i32 %number32 to i64
  call void @part(ptr %group, i64 %number)
  ret void
}

; A thread takes the pieces of its own range, one after the other, which are in its caches if the caller comes again.
; Then it takes those that others have left: what a piece takes is not known before.
define private void @part(ptr %group, i64 %number) {
  %n_at = getelementptr %group, ptr %group, i64 0, i32 1
  %n = load i64, ptr %n_at
  %piece_at = getelementptr %group, ptr %group, i64 0, i32 2
  %piece = load i64, ptr %piece_at
  %first_at = getelementptr %group, ptr %group, i64 0, i32 3
  %first = load ptr, ptr %first_at
  %threads_at = getelementptr %group, ptr %group, i64 0, i32 4
  %threads = load i64, ptr %threads_at
  %ranges_at = getelementptr %group, ptr %group, i64 0, i32 5
  %ranges = load ptr, ptr %ranges_at
  br label %owner
owner:
  %helped = phi i64 [ 0, %0 ], [ %helped1, %emptied ]
  %any = icmp ult i64 %helped, %threads
  br i1 %any, label %open, label %done
open:
  %other = add i64 %number, %helped
  %index = urem i64 %other, %threads
  %range = getelementptr %range, ptr %ranges, i64 %index
  %end_at = getelementptr %range, ptr %range, i64 0, i32 1
  %end = load i64, ptr %end_at
  br label %take
take:
  %context = phi ptr [ %first, %open ], [ %context1, %next ]
  %base = phi i64 [ 0, %open ], [ %base1, %next ]
  %taken = atomicrmw add ptr %range, i64 1 monotonic
  %there = icmp ult i64 %taken, %end
  br i1 %there, label %look, label %emptied
look:
  %context1 = phi ptr [ %context, %take ], [ %context2, %later ]
  %base1 = phi i64 [ %base, %take ], [ %base2, %later ]
  %shape = getelementptr i64, ptr %context1, i64 1
  %pieces = call i64 @pieces(ptr %shape, i64 %piece)
  %base2 = add i64 %base1, %pieces
  %here = icmp ult i64 %taken, %base2
  br i1 %here, label %run, label %later
later:
  %context2 = load ptr, ptr %context1
  br label %look
run:
  %points_at = getelementptr i64, ptr %context1, i64 2
  %points = load i64, ptr %points_at
  %k = sub i64 %taken, %base1
  %k1 = add i64 %k, 1
  %before = mul i64 %points, %k
  %lo = udiv i64 %before, %pieces
  %after = mul i64 %points, %k1
  %hi = udiv i64 %after, %pieces
  %body_at = getelementptr i64, ptr %context1, i64 3
  %body = load ptr, ptr %body_at
  %code = call i32 %body(ptr %shape, i64 %lo, i64 %hi)
  %bad = icmp ne i32 %code, 0
  br i1 %bad, label %report, label %next
report:
  %old = atomicrmw umax ptr %group, i32 %code monotonic
  br label %next
next:
  br label %take
emptied:
  %helped1 = add i64 %helped, 1
  br label %owner
done:
  ret void
}

declare i64 @llvm.umax.i64(i64, i64)
declare i64 @llvm.umin.i64(i64, i64)
declare i32 @lamella_num_threads()
declare i32 @omp_get_thread_num()
declare void @GOMP_parallel(ptr, ptr, i32, i32)
""".replace("$UNIT$", str(UNIT)).replace("$PIECES$", str(PIECES))
