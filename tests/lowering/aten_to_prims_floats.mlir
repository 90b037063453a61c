// RUN: lamella-opt %s -p aten-to-prims | filecheck %s
// What is checked: a float that the program reads from a tensor is an operand of kernels, as are expressions of it; kernels of a GPU get a copy that they can read.

// CHECK-LABEL: func.func @on_the_cpu
// CHECK-NEXT: aten._local_scalar_dense(%rate)
// CHECK-NOT: aten._to_copy
// CHECK: prims.mul
func.func @on_the_cpu(%x: !sym.t<[8], f32>, %rate: !sym.t<[], f64>) -> !sym.t<[8], f32> {
  %n = aten._local_scalar_dense(%rate) : (!sym.t<[], f64>) -> !sym.int<zf0, f64>
  %y = aten.mul.Tensor(%x, 1.0 - 0.5*zf0) : (!sym.t<[8], f32>) -> !sym.t<[8], f32>
  func.return %y : !sym.t<[8], f32>
}

// CHECK-LABEL: func.func @a_function_of_it
// CHECK: [[Q:%\w+]] = prims.div {{%\w+}}, %number : !sym.t<[], f64>
// CHECK-NEXT: [[S:%\w+]] = prims.sqrt [[Q]] : !sym.t<[], f64>
// CHECK-NEXT: [[F:%\w+]] = prims.convert [[S]] : !sym.t<[], f64> -> !sym.t<[], f32>
// CHECK: prims.mul
func.func @a_function_of_it(%x: !sym.t<[8], f32>, %number: !sym.t<[], f64>) -> !sym.t<[8], f32> {
  %n = aten._local_scalar_dense(%number) : (!sym.t<[], f64>) -> !sym.int<zf0, f64>
  %y = aten.mul.Tensor(%x, OpaqueUnaryFn_sqrt(FloatTrueDiv(2.0, zf0))) : (!sym.t<[8], f32>) -> !sym.t<[8], f32>
  func.return %y : !sym.t<[8], f32>
}

// CHECK-LABEL: func.func @on_a_gpu
// CHECK-NEXT: aten._local_scalar_dense(%rate)
// CHECK-NEXT: [[R:%\w+]] = aten._to_copy(%rate, device = "cuda:0") : (!sym.t<[], f64>) -> !sym.t<[], f64, device=cuda:0>
// CHECK-NEXT: [[F:%\w+]] = prims.convert [[R]] : !sym.t<[], f64, device=cuda:0> -> !sym.t<[], f32, device=cuda:0>
// CHECK-NEXT: [[B:%\w+]] = prims.broadcast [[F]]
// CHECK-NEXT: prims.mul %x, [[B]] : !sym.t<[8], f32, device=cuda:0>
// CHECK-NEXT: [[C:%\w+]] = prims.convert %rate : !sym.t<[], f64> -> !sym.t<[], f32>
// CHECK-NEXT: prims.mul %c, [[C]] : !sym.t<[], f32>
func.func @on_a_gpu(%x: !sym.t<[8], f32, device=cuda:0>, %c: !sym.t<[], f32>, %rate: !sym.t<[], f64>) -> (!sym.t<[8], f32, device=cuda:0>, !sym.t<[], f32>) {
  %n = aten._local_scalar_dense(%rate) : (!sym.t<[], f64>) -> !sym.int<zf0, f64>
  %y = aten.mul.Tensor(%x, zf0) : (!sym.t<[8], f32, device=cuda:0>) -> !sym.t<[8], f32, device=cuda:0>
  %z = aten.mul.Tensor(%c, zf0) : (!sym.t<[], f32>) -> !sym.t<[], f32>
  func.return %y, %z : !sym.t<[8], f32, device=cuda:0>, !sym.t<[], f32>
}
