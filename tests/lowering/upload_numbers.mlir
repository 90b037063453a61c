// RUN: lamella-opt %s -p aten-devices,aten-to-prims,prims-to-loop,loop-fuse,upload-numbers | filecheck %s
// What is checked: numbers of the CPU that only kernels of one GPU read are arguments there; what else reads one keeps it where it is.

// CHECK: builtin.module attributes {{.*}}lamella.uploads = [2 : i64, 3 : i64]
// CHECK: func.func @main(%x: !sym.t<[8], f32, device=cuda:0>, %n: !sym.t<[], f64>, %rate: !sym.t<[], f64, device=cuda:0>, %decay: !sym.t<[], f32, device=cuda:0>, %both: !sym.t<[], f32>, %given: !sym.t<[], f32>, %large: !sym.t<[], u64>)
// CHECK-NEXT: aten._local_scalar_dense(%n)
// CHECK: aten._to_copy(%n, device = "cuda:0")
// CHECK-NOT: aten._local_scalar_dense(%rate)
// CHECK-NOT: aten._to_copy(%rate
// CHECK-NOT: aten._to_copy(%decay
// CHECK-DAG: aten._to_copy(%both, device = "cuda:0")
// CHECK-DAG: aten._to_copy(%given, device = "cuda:0")
// CHECK-DAG: aten._to_copy(%large, device = "cuda:0")
func.func @main(%x: !sym.t<[8], f32, device=cuda:0>, %n: !sym.t<[], f64>, %rate: !sym.t<[], f64>, %decay: !sym.t<[], f32>, %both: !sym.t<[], f32>, %given: !sym.t<[], f32>, %large: !sym.t<[], u64>) -> (!sym.t<[8], f32, device=cuda:0>, !sym.t<[], f32>, !sym.t<[], f32>, !sym.int<zf0, f64>) {
  %f0 = aten._local_scalar_dense(%n) : (!sym.t<[], f64>) -> !sym.int<zf0, f64>
  %f1 = aten._local_scalar_dense(%rate) : (!sym.t<[], f64>) -> !sym.int<zf1, f64>
  %0 = aten.mul.Tensor(%x, 1.0 - 0.5*zf1) : (!sym.t<[8], f32, device=cuda:0>) -> !sym.t<[8], f32, device=cuda:0>
  %1 = aten.mul.Tensor(%0, zf0) : (!sym.t<[8], f32, device=cuda:0>) -> !sym.t<[8], f32, device=cuda:0>
  %2 = aten.add.Tensor(%1, %decay) : (!sym.t<[8], f32, device=cuda:0>, !sym.t<[], f32>) -> !sym.t<[8], f32, device=cuda:0>
  %3 = aten.add.Tensor(%2, %both) : (!sym.t<[8], f32, device=cuda:0>, !sym.t<[], f32>) -> !sym.t<[8], f32, device=cuda:0>
  %4 = aten.neg(%both) : (!sym.t<[], f32>) -> !sym.t<[], f32>
  %5 = aten.add.Tensor(%3, %given) : (!sym.t<[8], f32, device=cuda:0>, !sym.t<[], f32>) -> !sym.t<[8], f32, device=cuda:0>
  %6 = aten.add.Tensor(%5, %large) : (!sym.t<[8], f32, device=cuda:0>, !sym.t<[], u64>) -> !sym.t<[8], f32, device=cuda:0>
  func.return %6, %4, %given, %f0 : !sym.t<[8], f32, device=cuda:0>, !sym.t<[], f32>, !sym.t<[], f32>, !sym.int<zf0, f64>
}
