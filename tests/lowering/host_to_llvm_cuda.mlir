// RUN: lamella-opt %s -p host-to-llvm | filecheck %s
// What is checked: a program on two GPUs: its arguments, guard and streams, memory, launches with their grid, and the way out.

// CHECK: builtin.module attributes {lamella.objects = [], lamella.arguments = ["x", !sym.t<[s7, 4], f32, device=cuda:0>, "y", !sym.t<[4], f32, device=cuda:1>], lamella.kernels = ["double", 0 : i64, 2 : i64, [32 : i64], "double_there", 1 : i64, 2 : i64, []]}
tt.func public @double(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>, %n: i32) attributes {lamella.grid = #loop.index<[floordiv(s0 + 127, 128)]>, lamella.sizes = #loop.index<[s0]>} {
  tt.return
}
tt.func public @double_there(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>) attributes {lamella.grid = #loop.index<[1, 2, 3]>, lamella.sizes = #loop.index<[]>} {
  tt.return
}

// A contiguous tensor on the first GPU (17), f32 (6), rank 2; one on the second (19).
// CHECK: llvm.mlir.global private constant @table_0(dense<[17, 6, 2, -2, 4, 19, 6, 1, 4]> : tensor<9xi64>)
// CHECK: llvm.mlir.global external @double.kernel()
// CHECK: llvm.func @main(
// CHECK-DAG: [[ONE:%\w+]] = llvm.mlir.constant(1 : i32) : i32
// CHECK-DAG: [[ZERO:%\w+]] = llvm.mlir.constant(0 : i32) : i32
// CHECK: llvm.call @lamella_enter
// The last one entered is the first one used.
// CHECK: llvm.call @lamella_cuda_enter([[ONE]], [[GUARD:%\w+]],
// CHECK: llvm.call @lamella_cuda_enter([[ZERO]], [[GUARD]],
// CHECK: [[STREAM:%\w+]] = llvm.load
// An arena is a tensor of bytes (0).
// CHECK: llvm.call @lamella_cuda_empty({{.*}}[[ZERO]], [[ZERO]],
// CHECK: llvm.ashr
// CHECK: [[KERNEL:%\w+]] = llvm.mlir.addressof @double.kernel :
// CHECK: llvm.call @lamella_cuda_launch([[KERNEL]], [[STREAM]],
// CHECK: llvm.call @lamella_cuda_empty(
// CHECK-NOT: lamella_cuda_use
// CHECK: llvm.call @lamella_cuda_launch([[KERNEL]], [[STREAM]],
// CHECK: llvm.call @lamella_cuda_empty(
// CHECK: llvm.call @lamella_cuda_use([[ONE]], [[GUARD]])
// CHECK: llvm.call @lamella_cuda_launch(
// CHECK: llvm.call @lamella_leave
// CHECK-NEXT: llvm.call @lamella_cuda_leave([[GUARD]])
// CHECK-NEXT: llvm.return
host.func @main(%x: !sym.t<[s7, 4], f32, device=cuda:0>, %y: !sym.t<[4], f32, device=cuda:1>) -> (!sym.t<[s7, 4], f32, device=cuda:0>, !sym.t<[4], f32, device=cuda:1>) {
  host.check %x "x" : !sym.t<[s7, 4], f32, device=cuda:0>
  host.check %y "y" : !sym.t<[4], f32, device=cuda:1>
  %a = host.arena [16*s7] "cuda:0"
  %t = host.slot %a [0] : !sym.t<[s7, 4], f32, device=cuda:0>
  host.launch @double(%x) outs(%t) sizes [4*s7] : !sym.t<[s7, 4], f32, device=cuda:0>, !sym.t<[s7, 4], f32, device=cuda:0>
  %z = host.empty : !sym.t<[s7, 4], f32, device=cuda:0>
  host.launch @double(%t) outs(%z) sizes [4*s7] : !sym.t<[s7, 4], f32, device=cuda:0>, !sym.t<[s7, 4], f32, device=cuda:0>
  %w = host.empty : !sym.t<[4], f32, device=cuda:1>
  host.launch @double_there(%y) outs(%w) sizes [] : !sym.t<[4], f32, device=cuda:1>, !sym.t<[4], f32, device=cuda:1>
  host.return %z, %w : !sym.t<[s7, 4], f32, device=cuda:0>, !sym.t<[4], f32, device=cuda:1>
}
