// RUN: lamella-opt %s -p 'host-to-llvm{deterministic=true}' | filecheck %s
// Calls that add up run with one thread, those that move elements with all.

// CHECK-LABEL: llvm.func @main(
// CHECK: [[BEFORE:%\w+]] = llvm.call @lamella_one_thread() : () -> i64
// CHECK-NEXT: llvm.call @aoti_torch_cpu_mm_out
// CHECK-NEXT: llvm.call @lamella_threads_restore([[BEFORE]])
// CHECK: [[PYTHON:%\w+]] = llvm.call @lamella_one_thread() : () -> i64
// CHECK-NEXT: llvm.call @lamella_call
// CHECK-NEXT: llvm.call @lamella_threads_restore([[PYTHON]])
// CHECK: llvm.call @aoti_torch_cpu_cat
// CHECK-NOT: lamella_threads_restore
// CHECK: llvm.call @lamella_result
host.func @main(%x: !sym.t<[4, 4], f32>, %v: !sym.t<[4], f32>) -> (!sym.t<[4, 4], f32>, !sym.t<[8], f32>) {
  %y = host.empty : !sym.t<[4, 4], f32>
  %0 = aten.mm.out(%x, %x, out = %y) : (!sym.t<[4, 4], f32>, !sym.t<[4, 4], f32>, !sym.t<[4, 4], f32>) -> !sym.t<[4, 4], f32>
  %1 = aten.mv(%y, %v) : (!sym.t<[4, 4], f32>, !sym.t<[4], f32>) -> !sym.t<[4], f32>
  %2 = aten.cat([%1, %v], 0) : (!sym.t<[4], f32>, !sym.t<[4], f32>) -> !sym.t<[8], f32>
  host.return %y, %2 : !sym.t<[4, 4], f32>, !sym.t<[8], f32>
}
