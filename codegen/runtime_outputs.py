"""The native functions for outputs that are recycled, as LLVM IR.

An output lies on a storage of the pool only when the count of that storage says that nobody else holds it. Before new
memory is taken, what is idle goes as far as there would otherwise be much more than was ever in use at once, with what
programs say that they hold beside the pool: keeping memory must not raise the peak.

Torch takes memory between programs of which nobody tells the pool before the next one begins: large arguments that are
there for a call (the gradient of a loss that is computed elsewhere, or one that is made contiguous). As much as the
most of these is left free until such a program begins, if it is no more than an eighth (to take it anew in each step
would take longer than small programs). Where the pool grows, which is not so in call after call, it stays under 15/16.

A storage that somebody has asked for as a Python object, or refers to weakly, is not used again (who has such a
reference may tell storages apart by it): once nobody else holds it, it goes.
"""

TEXT = r"""
@outputs = private global [$OUTPUTS$ x %entry] zeroinitializer
@outputs_next = private global i64 0
@outputs_bytes = private global i64 0
@in_use_most = private global i64 0                       ; bytes in use at once, at most: of the pool, and beside it
@given_most = private global i64 0                        ; bytes of such arguments of a program, at most
@ahead = private global i64 0                             ; of these, what torch may yet take
@least = private global i64 1048576                       ; smaller outputs are not recycled
@most = private global i64 536870912                      ; nor kept beyond this in all

define void @lamella_recycle_limits(i64 %least, i64 %most) {
  store i64 %least, ptr @least
  store i64 %most, ptr @most
  ret void
}

define private void @forget(ptr %e) {
  %h = load ptr, ptr %e
  %none = icmp eq ptr %h, null
  br i1 %none, label %done, label %release
release:
  store ptr null, ptr %e
  %b_at = getelementptr %entry, ptr %e, i64 0, i32 1
  %b = load i64, ptr %b_at
  %sum = load i64, ptr @outputs_bytes
  %less = sub i64 %sum, %b
  store i64 %less, ptr @outputs_bytes
  %r = call i32 @aoti_torch_delete_tensor_object(ptr %h)
  br label %done
done:
  ret void
}

; The bytes of an entry that nobody but the pool holds, 0 for any other.
define private i64 @idle_bytes(ptr %e) {
  %h = load ptr, ptr %e
  %none = icmp eq ptr %h, null
  br i1 %none, label %no, label %count
count:
  %w_at = getelementptr %entry, ptr %e, i64 0, i32 3
  %w = load ptr, ptr %w_at
  %c = load i64, ptr %w
  %alone = icmp eq i64 %c, $FRESH$
  br i1 %alone, label %yes, label %no
yes:
  %b_at = getelementptr %entry, ptr %e, i64 0, i32 1
  %b = load i64, ptr %b_at
  ret i64 %b
no:
  ret i64 0
}

; Whether nobody but the pool owns the storage of an entry, and the Python object that the storage itself owns, where it
; is not as new.
define private i1 @is_left(ptr %e) {
  %h = load ptr, ptr %e
  %none = icmp eq ptr %h, null
  br i1 %none, label %no, label %count
count:
  %w_at = getelementptr %entry, ptr %e, i64 0, i32 3
  %w = load ptr, ptr %w_at
  %c = load i64, ptr %w
  %owners = trunc i64 %c to i32
  %one = icmp eq i32 %owners, 1
  br i1 %one, label %weakly, label %look
weakly:
  %referred = icmp ne i64 %c, $FRESH$
  ret i1 %referred
look:
  %two = icmp eq i32 %owners, 2
  %has = icmp slt i64 %c, 0
  %known = icmp ne i64 $OBJECT_AT$, 0
  %has_two = and i1 %two, %has
  %ask = and i1 %has_two, %known
  br i1 %ask, label %object, label %no
object:
  %storage = getelementptr i8, ptr %w, i64 -8
  %o_at = getelementptr i8, ptr %storage, i64 $OBJECT_AT$
  %o = load ptr, ptr %o_at
  %there = icmp ne ptr %o, null
  br i1 %there, label %asked, label %no
asked:
  %its = load i32, ptr %o
  %left = icmp eq i32 %its, 1
  ret i1 %left
no:
  ret i1 false
}

; Lets go of what is left to the pool, and of what is idle, arenas but the one that is about to be taken first, then the
; oldest, as far as it is too much beside `bytes` new ones, arenas and `beside` of others.
define private void @make_room(i64 %bytes, i64 %beside, ptr %arena) {
  %arenas_bytes = load i64, ptr @arenas_bytes
  %arenas_idle = call i64 @idle_arenas(ptr %arena, i1 false)
  %arenas_taken = sub i64 %arenas_bytes, %arenas_idle
  %others = add i64 %arenas_taken, %beside
  %taken = add i64 %bytes, %others
  br label %each
each:
  %i = phi i64 [ 0, %0 ], [ %i1, %count ]
  %held = phi i64 [ %taken, %0 ], [ %held1, %count ]
  %more = icmp ult i64 %i, $OUTPUTS$
  br i1 %more, label %one, label %bound
one:
  %e = getelementptr [$OUTPUTS$ x %entry], ptr @outputs, i64 0, i64 %i
  %left = call i1 @is_left(ptr %e)
  br i1 %left, label %useless, label %count
useless:
  call void @forget(ptr %e)
  br label %count
count:
  %h = load ptr, ptr %e
  %there = icmp ne ptr %h, null
  %b_at = getelementptr %entry, ptr %e, i64 0, i32 1
  %b = load i64, ptr %b_at
  %all = select i1 %there, i64 %b, i64 0
  %idle_bytes = call i64 @idle_bytes(ptr %e)
  %in_use = sub i64 %all, %idle_bytes
  %held1 = add i64 %held, %in_use
  %i1 = add i64 %i, 1
  br label %each
bound:
  %most_0 = load i64, ptr @in_use_most
  %grown = icmp sgt i64 %held, %most_0
  %most = select i1 %grown, i64 %held, i64 %most_0
  store i64 %most, ptr @in_use_most
  %more_0 = lshr i64 %most, 5
  %less_0 = lshr i64 %most, 4
  %ahead = load i64, ptr @ahead
  %little = lshr i64 %most, 3
  %is_little = icmp sle i64 %ahead, %little
  %free = select i1 %is_little, i64 %ahead, i64 0
  %loose_0 = add i64 %most, %more_0
  %loose = sub i64 %loose_0, %free
  %tight_0 = sub i64 %most, %less_0
  %tighter = icmp slt i64 %tight_0, %loose
  %tight = select i1 %tighter, i64 %tight_0, i64 %loose
  %begins = icmp eq i64 %bytes, 0
  %allowed = select i1 %begins, i64 %loose, i64 %tight
  %oldest = load i64, ptr @outputs_next
  %kept_0 = load i64, ptr @outputs_bytes
  %kept_1 = add i64 %kept_0, %arenas_idle
  %after_0 = add i64 %kept_1, %taken
  %too_much_0 = icmp sgt i64 %after_0, %allowed
  br i1 %too_much_0, label %no_arenas, label %done
no_arenas:
  %gone = call i64 @idle_arenas(ptr %arena, i1 true)
  br label %idle
idle:
  %v = phi i64 [ 0, %no_arenas ], [ %v1, %next ]
  %v_more = icmp ult i64 %v, $OUTPUTS$
  %kept = load i64, ptr @outputs_bytes
  %after = add i64 %kept, %taken
  %too_much = icmp sgt i64 %after, %allowed
  %go_on = and i1 %v_more, %too_much
  br i1 %go_on, label %look, label %done
look:
  %v_0 = add i64 %oldest, %v
  %v_at = and i64 %v_0, $LAST_OUTPUT$
  %v_e = getelementptr [$OUTPUTS$ x %entry], ptr @outputs, i64 0, i64 %v_at
  %v_bytes = call i64 @idle_bytes(ptr %v_e)
  %v_idle = icmp ne i64 %v_bytes, 0
  br i1 %v_idle, label %go, label %next
go:
  call void @forget(ptr %v_e)
  br label %next
next:
  %v1 = add i64 %v, 1
  br label %idle
done:
  ret void
}

; The bytes of a tensor that does not lie on a storage of the pool, 0 for one that does.
define i64 @lamella_not_recycled(ptr %data, i64 %bytes) {
  %at = ptrtoint ptr %data to i64
  br label %each
each:
  %i = phi i64 [ 0, %0 ], [ %i1, %next ]
  %more = icmp ult i64 %i, $OUTPUTS$
  br i1 %more, label %look, label %no
look:
  %e = getelementptr [$OUTPUTS$ x %entry], ptr @outputs, i64 0, i64 %i
  %h = load ptr, ptr %e
  %there = icmp ne ptr %h, null
  %b_at = getelementptr %entry, ptr %e, i64 0, i32 1
  %b = load i64, ptr %b_at
  %d_at = getelementptr %entry, ptr %e, i64 0, i32 2
  %d = load ptr, ptr %d_at
  %from = ptrtoint ptr %d to i64
  %offset = sub i64 %at, %from
  %inside = icmp ult i64 %offset, %b
  %here = and i1 %there, %inside
  br i1 %here, label %yes, label %next
next:
  %i1 = add i64 %i, 1
  br label %each
yes:
  ret i64 0
no:
  ret i64 %bytes
}

; A program begins. It is about to hold an arena of `arena` bytes, and, not of the pool, `beside` bytes and `given` ones
; of arguments that are there for the call.
define void @lamella_begin(i64 %beside, i64 %given, i64 %arena) {
  %most_0 = load i64, ptr @given_most
  %grown = icmp sgt i64 %given, %most_0
  %most = select i1 %grown, i64 %given, i64 %most_0
  store i64 %most, ptr @given_most
  %here = icmp sgt i64 %given, 0
  %free = select i1 %here, i64 0, i64 %most
  store i64 %free, ptr @ahead
  %all = add i64 %beside, %given
  %taken = add i64 %all, %arena
  %asked = add i64 %taken, %free
  %any = icmp ne i64 %asked, 0
  br i1 %any, label %room, label %done
room:
  call void @lamella_room(i64 %all, i64 %arena)
  br label %done
done:
  ret void
}

; A program is about to hold an arena of `arena` bytes, and `beside` bytes that are not of the pool.
define void @lamella_room(i64 %beside, i64 %arena) {
  %one = icmp ne i64 %arena, 0
  br i1 %one, label %look, label %room
look:
  %found = call ptr @arena_for(i64 %arena)
  br label %room
room:
  %taken = phi ptr [ null, %0 ], [ %found, %look ]
  %none = icmp eq ptr %taken, null
  %new = select i1 %none, i64 %arena, i64 0
  %all = add i64 %beside, %new
  call void @make_room(i64 0, i64 %all, ptr %taken)
  ret void
}

; Bytes of the outputs that the pool holds and of arenas, in use or not.
define i64 @lamella_recycle_bytes() {
  %outputs = load i64, ptr @outputs_bytes
  %arenas = load i64, ptr @arenas_bytes
  %b = add i64 %outputs, %arenas
  ret i64 %b
}

; A tensor of these sizes and strides, uninitialized. Large ones lie, where possible, on a storage that an earlier
; call returned and that nobody but the pool holds any more: its count says so, and its data is where it was. `beside`
; bytes are what the program holds at that time that is neither of the pool nor an arena.
define i32 @lamella_empty(
  i64 %nd, ptr %sizes, ptr %strides, i32 %dtype, i64 %bytes, i64 %beside, ptr %owned, ptr %data) {
  %size = alloca i64
  %stride = alloca i64
  %base = alloca ptr
  %there_now = alloca i64
  %least = load i64, ptr @least
  %most = load i64, ptr @most
  %large = icmp sge i64 %bytes, %least
  %fits = icmp sle i64 %bytes, %most
  %recycle0 = and i1 %large, %fits
  %possible = icmp ne i64 $FRESH$, 0
  %recycle = and i1 %recycle0, %possible
  br i1 %recycle, label %each, label %plain
each:
  %i = phi i64 [ 0, %0 ], [ %i1, %next ]
  %more = icmp ult i64 %i, $OUTPUTS$
  br i1 %more, label %look, label %grow
look:
  %e = getelementptr [$OUTPUTS$ x %entry], ptr @outputs, i64 0, i64 %i
  %h = load ptr, ptr %e
  %there = icmp ne ptr %h, null
  br i1 %there, label %measure, label %next
measure:
  %b_at = getelementptr %entry, ptr %e, i64 0, i32 1
  %b = load i64, ptr %b_at
  %same = icmp eq i64 %b, %bytes
  br i1 %same, label %count, label %next
count:
  %w_at = getelementptr %entry, ptr %e, i64 0, i32 3
  %w = load ptr, ptr %w_at
  %c = load i64, ptr %w
  %alone = icmp eq i64 %c, $FRESH$
  br i1 %alone, label %mode, label %next
mode:
  %ok = call i1 @usable(ptr %h)
  br i1 %ok, label %where, label %next
where:
  ; asking for the data also undoes copy-on-write sharing; a moved or resized storage is forgotten
  %r0 = call i32 @aoti_torch_get_data_ptr(ptr %h, ptr %base)
  %now = load ptr, ptr %base
  %d_at = getelementptr %entry, ptr %e, i64 0, i32 2
  %then = load ptr, ptr %d_at
  %still = icmp eq ptr %now, %then
  %r0_ok = icmp eq i32 %r0, 0
  %good0 = and i1 %still, %r0_ok
  %r00 = call i32 @aoti_torch_get_storage_size(ptr %h, ptr %there_now)
  %bytes_now = load i64, ptr %there_now
  %whole = icmp eq i64 %bytes_now, %bytes
  %good = and i1 %good0, %whole
  br i1 %good, label %alias, label %moved
moved:
  call void @forget(ptr %e)
  br label %next
next:
  %i1 = add i64 %i, 1
  br label %each

grow:
  call void @make_room(i64 %bytes, i64 %beside, ptr null)
  store i64 %bytes, ptr %size
  store i64 1, ptr %stride
  %r1 = call i32 @new(i64 1, ptr %size, ptr %stride, i32 0, i32 0, i32 0, ptr %base)
  %r1_bad = icmp ne i32 %r1, 0
  br i1 %r1_bad, label %fail, label %room
room:
  %new = load ptr, ptr %base
  %next_i = load i64, ptr @outputs_next
  %next_1 = add i64 %next_i, 1
  %next_m = and i64 %next_1, $LAST_OUTPUT$
  store i64 %next_m, ptr @outputs_next
  %slot = getelementptr [$OUTPUTS$ x %entry], ptr @outputs, i64 0, i64 %next_i
  call void @forget(ptr %slot)
  br label %shrink
shrink:
  ; the oldest go until the new one fits under the limit
  %k = phi i64 [ %next_m, %room ], [ %k1, %shrink_one ]
  %sum = load i64, ptr @outputs_bytes
  %after = add i64 %sum, %bytes
  %over = icmp sgt i64 %after, %most
  br i1 %over, label %shrink_one, label %put
shrink_one:
  %victim = getelementptr [$OUTPUTS$ x %entry], ptr @outputs, i64 0, i64 %k
  call void @forget(ptr %victim)
  %k_1 = add i64 %k, 1
  %k1 = and i64 %k_1, $LAST_OUTPUT$
  br label %shrink
put:
  store ptr %new, ptr %slot
  %slot_b = getelementptr %entry, ptr %slot, i64 0, i32 1
  store i64 %bytes, ptr %slot_b
  store i64 %after, ptr @outputs_bytes
  %slot_d = getelementptr %entry, ptr %slot, i64 0, i32 2
  %r2 = call i32 @aoti_torch_get_data_ptr(ptr %new, ptr %slot_d)
  %slot_w = getelementptr %entry, ptr %slot, i64 0, i32 3
  %new_w = call ptr @count_of(ptr %new)
  store ptr %new_w, ptr %slot_w
  br label %alias

alias:
  %from = phi ptr [ %h, %where ], [ %new, %put ]
  %reused = phi i1 [ true, %where ], [ false, %put ]
  %r3 = call i32 @aoti_torch__alloc_from_pool(
    ptr %from, i64 0, i32 %dtype, i64 %nd, ptr %sizes, ptr %strides, ptr %owned)
  %r3_bad = icmp ne i32 %r3, 0
  br i1 %r3_bad, label %fail, label %made_one
made_one:
  ; what comes after one that was there already has not been made room for
  %others = icmp ne i64 %beside, 0
  %ask = and i1 %reused, %others
  br i1 %ask, label %around, label %pointer
around:
  call void @make_room(i64 0, i64 %beside, ptr null)
  br label %pointer
plain:
  %r4 = call i32 @new(i64 %nd, ptr %sizes, ptr %strides, i32 %dtype, i32 0, i32 0, ptr %owned)
  %r4_bad = icmp ne i32 %r4, 0
  br i1 %r4_bad, label %fail, label %pointer
pointer:
  %t = load ptr, ptr %owned
  %r5 = call i32 @aoti_torch_get_data_ptr(ptr %t, ptr %data)
  ret i32 0
fail:
  store ptr null, ptr %owned
  call void @lamella_raise()
  ret i32 1
}
"""
