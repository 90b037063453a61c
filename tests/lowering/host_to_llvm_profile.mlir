// RUN: lamella-opt %s -p 'kernel-to-llvm{target=avx512},host-to-llvm{profile=true}' | filecheck %s
// RUN: lamella-opt %s -p 'kernel-to-llvm{target=avx512},host-to-llvm' | filecheck %s --check-prefix WITHOUT
// torch.profiler is told of launches and of calls of the C shim, which it cannot see, by name: "double" and
// "aten::mm.out". The lock is given away inside, and taken again; an error is raised outside.

// WITHOUT-NOT: record_function

// CHECK: llvm.mlir.global private constant @[[TEXT:table_\d+]](dense<111516182736740> : tensor<1xi64>)
// CHECK: llvm.func @main(
// CHECK: [[NAME:%\w+]] = llvm.mlir.addressof @[[TEXT]] : !llvm.ptr
// CHECK-NEXT: llvm.call @aoti_record_function_start([[NAME]], [[NULL:%\w+]], [[NULL]], {{%\w+}}, [[PLACE:%\w+]])
// CHECK: llvm.call @PyEval_SaveThread
// CHECK: [[CODE:%\w+]] = llvm.call @double(
// CHECK: llvm.call @PyEval_RestoreThread
// CHECK-NEXT: [[EVENT:%\w+]] = llvm.load [[PLACE]]
// CHECK-NEXT: llvm.call @aoti_record_function_end([[EVENT]])
// CHECK: llvm.icmp "eq" [[CODE]]
// CHECK: llvm.call @aoti_record_function_start(
// CHECK: llvm.call @aoti_torch_cpu_mm_out
// CHECK: llvm.call @aoti_record_function_end(
// CHECK-NOT: aoti_record_function
loop.kernel @double(%x: !sym.t<[512, 512], f32>) outs(%y: !sym.t<[512, 512], f32>) sizes [] grid [d0 = 512, d1 = 512] {
  %0 = loop.load %x[d0, d1] : !sym.t<[512, 512], f32>
  %1 = arith.addf %0, %0 : f32
  loop.store %1, %y[d0, d1] : !sym.t<[512, 512], f32>
  loop.end
}
host.func @main(%x: !sym.t<[512, 512], f32>) -> (!sym.t<[512, 512], f32>) {
  %y = host.empty : !sym.t<[512, 512], f32>
  host.launch @double(%x) outs(%y) sizes [] : !sym.t<[512, 512], f32>, !sym.t<[512, 512], f32>
  %z = host.empty : !sym.t<[512, 512], f32>
  %0 = aten.mm.out(%x, %y, out = %z) : (!sym.t<[512, 512], f32>, !sym.t<[512, 512], f32>, !sym.t<[512, 512], f32>) -> !sym.t<[512, 512], f32>
  host.return %z : !sym.t<[512, 512], f32>
}
