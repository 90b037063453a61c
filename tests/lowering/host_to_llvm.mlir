// RUN: lamella-opt %s -p host-to-llvm | filecheck %s
// RUN: lamella-opt %s -p host-to-llvm | lamella-opt - | filecheck %s
// What is checked: the frame of a program, its checks, a launch with its message, a call through the C shim, one through Python.

// CHECK: builtin.module attributes {lamella.objects = [{messages = ["out of range"]}, {call = "aten.mm.out", arguments = #aten.lit<[?, ?, ?]>, results = 1 : i64}, {call = "aten.repeat", arguments = #aten.lit<[?, [?, 2]]>, results = 1 : i64}, {name = "aten.repeat"}], lamella.arguments = ["x", !sym.t<[s0, 4], f32>, "w", !sym.t<[4, 4], f32>]}
llvm.func internal @kernel(%x: !llvm.ptr, %y: !llvm.ptr, %n: i64) -> i32 attributes {lamella.messages = ["out of range"]} {
  %0 = llvm.mlir.constant(0 : i32) : i32
  llvm.return %0 : i32
}

// The table: a contiguous tensor of f32 (6) with rank 2, its first size stored in word 0, the second 4; then one of 4 by 4.
// CHECK: llvm.mlir.global private constant @table_0(dense<[1, 6, 2, -2, 4, 1, 6, 2, 4, 4]> : tensor<10xi64>)
// CHECK: llvm.func @main(
// CHECK: llvm.call @lamella_enter
// CHECK: llvm.call @lamella_grad_off
// CHECK: llvm.call @lamella_arena
// What may be long runs without Python's lock; how long it is the sizes say.
// CHECK: [[STATE:%\w+]] = llvm.call @lamella_release({{.*}}) : (i64, i64) -> !llvm.ptr
// CHECK-NEXT: [[CODE:%\w+]] = llvm.call @kernel
// CHECK-NEXT: llvm.call @lamella_retake([[STATE]]) : (!llvm.ptr) -> ()
// CHECK: [[OK:%\w+]] = llvm.icmp "eq" [[CODE]]
// CHECK-NEXT: llvm.cond_br [[OK]], {{.*}}([[CODE]] : i32)
// CHECK: ([[TOLD:%\w+]]: i32):
// CHECK: llvm.call @lamella_assert(%{{\w+}}, %{{\w+}}, [[TOLD]])
// CHECK: llvm.call @lamella_drop_object
// CHECK: llvm.call @lamella_empty
// CHECK: llvm.call @lamella_slot
// CHECK: llvm.call @aoti_torch_cpu_mm_out
// CHECK: llvm.call @lamella_object
// CHECK: llvm.call @PyLong_FromLongLong
// CHECK: llvm.call @lamella_call
// CHECK: llvm.call @lamella_result
// CHECK: llvm.call @lamella_wrap
// CHECK: llvm.call @lamella_tuple
// CHECK: llvm.call @lamella_leave
// CHECK-NEXT: llvm.call @lamella_arena_done
// CHECK-NEXT: llvm.call @lamella_grad_restore
// CHECK-NEXT: llvm.return
host.func @main(%x: !sym.t<[s0, 4], f32>, %w: !sym.t<[4, 4], f32>) -> (!sym.t<[s0*s0, 8], f32>) {
  host.check %x "x" : !sym.t<[s0, 4], f32>
  host.check %w "w" : !sym.t<[4, 4], f32>
  %a = host.arena [16*s0]
  %t = host.slot %a [0] : !sym.t<[s0, 4], f32>
  host.launch @kernel(%x) outs(%t) sizes [4*s0] : !sym.t<[s0, 4], f32>, !sym.t<[s0, 4], f32>
  host.drop %x : !sym.t<[s0, 4], f32>
  %y = host.empty : !sym.t<[s0, 4], f32>
  %0 = aten.mm.out(%t, %w, out = %y) : (!sym.t<[s0, 4], f32>, !sym.t<[4, 4], f32>, !sym.t<[s0, 4], f32>) -> !sym.t<[s0, 4], f32>
  %z = aten.repeat(%y, [s0, 2]) : (!sym.t<[s0, 4], f32>) -> !sym.t<[s0*s0, 8], f32>
  host.return %z : !sym.t<[s0*s0, 8], f32>
}
