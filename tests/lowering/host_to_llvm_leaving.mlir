// RUN: lamella-opt %s -p host-to-llvm | filecheck %s
// What is done where something fails is written once for all launches of a kernel and all calls of an operator: calls of
// the C shim give the handles of their tensors to the block that calls again, through Python.
llvm.func internal @kernel(%x: !llvm.ptr, %y: !llvm.ptr, %n: i64) -> i32 attributes {lamella.messages = ["out of range"]} {
  %0 = llvm.mlir.constant(0 : i32) : i32
  llvm.return %0 : i32
}

// CHECK: llvm.func @main(
// CHECK: [[ONE:%\w+]] = llvm.call @kernel
// CHECK: llvm.cond_br {{%\w+}}, ^{{\w+}}, ^[[FAILED:\w+]]([[ONE]] : i32)
// CHECK: ^[[FAILED]]([[CODE:%\w+]]: i32):
// CHECK: llvm.call @lamella_assert({{.*}}, [[CODE]])
// CHECK: llvm.call @aoti_torch_cpu_mm_out([[OUT:%\w+]], [[X:%\w+]], [[W:%\w+]])
// CHECK: llvm.cond_br {{%\w+}}, ^{{\w+}}, ^[[AGAIN:\w+]]([[X]], [[W]], [[OUT]] : !llvm.ptr, !llvm.ptr, !llvm.ptr)
// CHECK: ^[[AGAIN]]([[A:%\w+]]: !llvm.ptr, [[B:%\w+]]: !llvm.ptr, [[C:%\w+]]: !llvm.ptr):
// CHECK: llvm.call @lamella_object([[A]])
// CHECK: llvm.call @lamella_object([[B]])
// CHECK: llvm.call @lamella_object([[C]])
// CHECK: llvm.call @lamella_call
// CHECK: llvm.call @lamella_raise
// CHECK: [[TWO:%\w+]] = llvm.call @kernel
// CHECK: llvm.cond_br {{%\w+}}, ^{{\w+}}, ^[[FAILED]]([[TWO]] : i32)
// CHECK: llvm.call @aoti_torch_cpu_mm_out
// CHECK: llvm.cond_br {{%\w+}}, ^{{\w+}}, ^[[AGAIN]](
// CHECK-NOT: llvm.call @lamella_assert
// CHECK-NOT: llvm.call @lamella_call
// CHECK: llvm.call @lamella_tuple
host.func @main(%x: !sym.t<[4, 4], f32>, %w: !sym.t<[4, 4], f32>) -> (!sym.t<[4, 4], f32>) {
  host.check %x "x" : !sym.t<[4, 4], f32>
  host.check %w "w" : !sym.t<[4, 4], f32>
  %t = host.empty : !sym.t<[4, 4], f32>
  %y = host.empty : !sym.t<[4, 4], f32>
  host.launch @kernel(%x) outs(%t) sizes [16] : !sym.t<[4, 4], f32>, !sym.t<[4, 4], f32>
  %0 = aten.mm.out(%t, %w, out = %y) : (!sym.t<[4, 4], f32>, !sym.t<[4, 4], f32>, !sym.t<[4, 4], f32>) -> !sym.t<[4, 4], f32>
  host.launch @kernel(%y) outs(%t) sizes [16] : !sym.t<[4, 4], f32>, !sym.t<[4, 4], f32>
  %1 = aten.mm.out(%t, %w, out = %y) : (!sym.t<[4, 4], f32>, !sym.t<[4, 4], f32>, !sym.t<[4, 4], f32>) -> !sym.t<[4, 4], f32>
  host.return %y : !sym.t<[4, 4], f32>
}
