// RUN: lamella-opt %s --split-input-file -p 'aten-choose-products{choose=all target=avx512},aten-to-prims,prims-canonicalize,prims-to-loop,loop-fuse' | filecheck %s

// What is computed at the product's own points is part of its kernel: bias, activation, residual, a conversion.

// CHECK:      loop.kernel
// CHECK-SAME:   grid [d0 = 8, d1 = 64]
// CHECK-NEXT:   loop.for [r0 = 32] reduce [add] {
// CHECK:        arith.addf
// CHECK:        math.erf
// CHECK:        loop.store
// CHECK-NOT:  loop.kernel
// CHECK:      func.func @main
func.func @main(%b: !sym.t<[64], f32>, %x: !sym.t<[8, 32], f32>, %w: !sym.t<[32, 64], f32>, %r: !sym.t<[8, 64], f32>) -> !sym.t<[8, 64], f32> {
  %0 = aten.addmm(%b, %x, %w) : (!sym.t<[64], f32>, !sym.t<[8, 32], f32>, !sym.t<[32, 64], f32>) -> !sym.t<[8, 64], f32>
  %1 = aten.gelu(%0) : (!sym.t<[8, 64], f32>) -> !sym.t<[8, 64], f32>
  %2 = aten.add.Tensor(%1, %r) : (!sym.t<[8, 64], f32>, !sym.t<[8, 64], f32>) -> !sym.t<[8, 64], f32>
  func.return %2 : !sym.t<[8, 64], f32>
}

// -----

// A reduction of the product's rows is another kernel: in one, a point would be a whole row.

// CHECK:      lamella.decisions
// CHECK-SAME: beside a product of matrices stands only what is computed at its own points
// CHECK:      loop.kernel @{{.*}} grid [d0 = 8, d1 = 64]
// CHECK:      loop.kernel @{{.*}} grid [d0 = 8]
// CHECK-NOT:  loop.kernel
// CHECK:      func.func @main
func.func @main(%x: !sym.t<[8, 32], f32>, %w: !sym.t<[32, 64], f32>) -> !sym.t<[8, 64], f32> {
  %0 = aten.mm(%x, %w) : (!sym.t<[8, 32], f32>, !sym.t<[32, 64], f32>) -> !sym.t<[8, 64], f32>
  %1 = aten._softmax(%0, 1, false) : (!sym.t<[8, 64], f32>) -> !sym.t<[8, 64], f32>
  func.return %1 : !sym.t<[8, 64], f32>
}

// -----

// A product of a product: two kernels. What is cheap is computed where a factor is read, here a conversion of the weight.

// CHECK:      loop.kernel @{{.*}} grid [d0 = 8, d1 = 64]
// CHECK:        loop.load %x1[d1, r0] : !sym.t<[64, 32], i8>
// CHECK-NEXT:   arith.sitofp
// CHECK:      loop.kernel @{{.*}} grid [d0 = 8, d1 = 16]
// CHECK-NOT:  loop.kernel
// CHECK:      func.func @main
func.func @main(%x: !sym.t<[8, 32], f32>, %i: !sym.t<[64, 32], i8>, %v: !sym.t<[64, 16], f32>) -> !sym.t<[8, 16], f32> {
  %c = aten._to_copy(%i, dtype = f32) : (!sym.t<[64, 32], i8>) -> !sym.t<[64, 32], f32>
  %w = aten.t(%c) : (!sym.t<[64, 32], f32>) -> !sym.t<[32, 64], f32, strides=[1, 32]>
  %0 = aten.mm(%x, %w) : (!sym.t<[8, 32], f32>, !sym.t<[32, 64], f32, strides=[1, 32]>) -> !sym.t<[8, 64], f32>
  %1 = aten.mm(%0, %v) : (!sym.t<[8, 64], f32>, !sym.t<[64, 16], f32>) -> !sym.t<[8, 16], f32>
  func.return %1 : !sym.t<[8, 16], f32>
}

// -----

// The product of one row is in a kernel with what its conversion and bias make of it.

// CHECK:      loop.kernel @{{.*}} grid [d0 = 1, d1 = 64]
// CHECK-NEXT:   loop.for [r0 = 32] reduce [add] {
// CHECK:        arith.truncf
// CHECK-NOT:  loop.kernel
// CHECK:      func.func @main
func.func @main(%b: !sym.t<[64], bf16>, %x: !sym.t<[1, 32], bf16>, %w: !sym.t<[32, 64], bf16>) -> !sym.t<[1, 64], bf16> {
  %0 = aten.addmm(%b, %x, %w) : (!sym.t<[64], bf16>, !sym.t<[1, 32], bf16>, !sym.t<[32, 64], bf16>) -> !sym.t<[1, 64], bf16>
  func.return %0 : !sym.t<[1, 64], bf16>
}
