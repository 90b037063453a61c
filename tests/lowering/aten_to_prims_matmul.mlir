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

// -----

// A bias that a kernel can add is left to it; what leaves or goes into another product is ATen's with its bias.

// CHECK:      [[P:%\w+]] = aten.mm(%x, %w) : {{.*}} -> !sym.t<[8, 64], f32>
// CHECK-NEXT: [[B:%\w+]] = prims.broadcast %b
// CHECK-NEXT: [[S:%\w+]] = prims.add [[P]], [[B]] : !sym.t<[8, 64], f32>
// CHECK:      aten.addmm(%c, {{.*}}, %v)
// CHECK-NEXT: func.return
func.func @main(%b: !sym.t<[64], f32>, %x: !sym.t<[8, 32], f32>, %w: !sym.t<[32, 64], f32>, %c: !sym.t<[4], f32>, %v: !sym.t<[64, 4], f32>) -> !sym.t<[8, 4], f32> {
  %0 = aten.addmm(%b, %x, %w) : (!sym.t<[64], f32>, !sym.t<[8, 32], f32>, !sym.t<[32, 64], f32>) -> !sym.t<[8, 64], f32>
  %1 = aten.view(%0, [2, 4, 64]) : (!sym.t<[8, 64], f32>) -> !sym.t<[2, 4, 64], f32>
  %2 = aten.relu(%1) : (!sym.t<[2, 4, 64], f32>) -> !sym.t<[2, 4, 64], f32>
  %3 = aten.view(%2, [8, 64]) : (!sym.t<[2, 4, 64], f32>) -> !sym.t<[8, 64], f32>
  %4 = aten.addmm(%c, %3, %v) : (!sym.t<[4], f32>, !sym.t<[8, 64], f32>, !sym.t<[64, 4], f32>) -> !sym.t<[8, 4], f32>
  func.return %4 : !sym.t<[8, 4], f32>
}
