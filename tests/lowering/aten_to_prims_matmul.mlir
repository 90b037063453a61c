// RUN: lamella-opt %s --split-input-file -p 'aten-to-prims' | filecheck %s

// A row times a weight, as linear layers keep it: a sum along the rows of the weight.

// CHECK:      prims.broadcast {{.*}} -> !sym.t<[64, 32], f32>
// CHECK-NEXT: prims.transpose %w
// CHECK-NEXT: prims.mul
// CHECK-NEXT: prims.reduce
// CHECK-NOT:  aten.
// CHECK:      func.return
func.func @main(%b: !sym.t<[64], f32>, %x: !sym.t<[1, 32], f32>, %w: !sym.t<[32, 64], f32, strides=[1, 32]>) -> !sym.t<[1, 64], f32> {
  %0 = aten.addmm(%b, %x, %w) : (!sym.t<[64], f32>, !sym.t<[1, 32], f32>, !sym.t<[32, 64], f32, strides=[1, 32]>) -> !sym.t<[1, 64], f32>
  func.return %0 : !sym.t<[1, 64], f32>
}

// -----

// BLAS reads the rows of a matrix as fast, if it is one of f32; more rows are a product.

// CHECK: aten.mm(%x, %w)
// CHECK: aten.mm(%y, %v)
func.func @main(%x: !sym.t<[1, 32], f32>, %w: !sym.t<[32, 64], f32>, %y: !sym.t<[2, 32], f32>, %v: !sym.t<[32, 64], f32, strides=[1, 32]>) -> (!sym.t<[1, 64], f32>, !sym.t<[2, 64], f32>) {
  %0 = aten.mm(%x, %w) : (!sym.t<[1, 32], f32>, !sym.t<[32, 64], f32>) -> !sym.t<[1, 64], f32>
  %1 = aten.mm(%y, %v) : (!sym.t<[2, 32], f32>, !sym.t<[32, 64], f32, strides=[1, 32]>) -> !sym.t<[2, 64], f32>
  func.return %0, %1 : !sym.t<[1, 64], f32>, !sym.t<[2, 64], f32>
}

// -----

// In bf16 the sum is in f32.

// CHECK: prims.reduce {{.*}} f32
// CHECK: prims.convert {{.*}} -> !sym.t<[1, 64], bf16>
func.func @main(%x: !sym.t<[1, 32], bf16>, %w: !sym.t<[32, 64], bf16>) -> !sym.t<[1, 64], bf16> {
  %0 = aten.mm(%x, %w) : (!sym.t<[1, 32], bf16>, !sym.t<[32, 64], bf16>) -> !sym.t<[1, 64], bf16>
  func.return %0 : !sym.t<[1, 64], bf16>
}
