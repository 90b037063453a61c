// RUN: lamella-opt %s --split-input-file -p 'aten-to-prims' | filecheck %s
// RUN: lamella-opt %s --split-input-file -p 'aten-to-prims{numerics=eager}' | filecheck %s --check-prefix=EAGER

// A product without the mark is a call; with it, a sum in the dtype of computation.

// CHECK:      aten.mm(%x, %w) :
// CHECK-NEXT: [[P:%\w+]] = prims.dot %x, %w : {{.*}} -> !sym.t<[2, 64], f32>
// CHECK-NEXT: prims.convert [[P]] {rounding} : !sym.t<[2, 64], f32> -> !sym.t<[2, 64], bf16>
func.func @main(%x: !sym.t<[2, 32], bf16>, %w: !sym.t<[32, 64], bf16>) -> (!sym.t<[2, 64], bf16>, !sym.t<[2, 64], bf16>) {
  %0 = aten.mm(%x, %w) : (!sym.t<[2, 32], bf16>, !sym.t<[32, 64], bf16>) -> !sym.t<[2, 64], bf16>
  %1 = aten.mm(%x, %w) {lamella.product = "generated"} : (!sym.t<[2, 32], bf16>, !sym.t<[32, 64], bf16>) -> !sym.t<[2, 64], bf16>
  func.return %0, %1 : !sym.t<[2, 64], bf16>, !sym.t<[2, 64], bf16>
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

// -----

// In bf16 too: the product is rounded, its sum with the bias is not. Not in f16, nor where the sum leaves or
// what reads it does not round.

// CHECK:      [[P:%\w+]] = aten.mm(%x, %w) : {{.*}} -> !sym.t<[8, 64], bf16>
// CHECK-NEXT: [[F:%\w+]] = prims.convert [[P]] : !sym.t<[8, 64], bf16> -> !sym.t<[8, 64], f32>
// CHECK:      [[S:%\w+]] = prims.add [[F]], {{%\w+}} : !sym.t<[8, 64], f32>
// CHECK:      aten.addmm({{.*}}) : {{.*}} -> !sym.t<[8, 64], f16>
// CHECK:      aten.addmm({{.*}}) : {{.*}} -> !sym.t<[8, 64], bf16>
// CHECK:      aten.addmm({{.*}}) : {{.*}} -> !sym.t<[8, 64], bf16>
// CHECK:      func.return
// EAGER: aten.addmm({{.*}}) : {{.*}} -> !sym.t<[8, 64], bf16>
// EAGER: aten.addmm({{.*}}) : {{.*}} -> !sym.t<[8, 64], f16>
// EAGER: aten.addmm({{.*}}) : {{.*}} -> !sym.t<[8, 64], bf16>
func.func @main(%b: !sym.t<[64], bf16>, %x: !sym.t<[8, 32], bf16>, %w: !sym.t<[32, 64], bf16>, %c: !sym.t<[64], f16>, %y: !sym.t<[8, 32], f16>, %v: !sym.t<[32, 64], f16>) -> (!sym.t<[8, 64], bf16>, !sym.t<[8, 64], f16>, !sym.t<[8, 64], bf16>, !sym.t<[64, 8], bf16>) {
  %0 = aten.addmm(%b, %x, %w) : (!sym.t<[64], bf16>, !sym.t<[8, 32], bf16>, !sym.t<[32, 64], bf16>) -> !sym.t<[8, 64], bf16>
  %1 = aten.sigmoid(%0) : (!sym.t<[8, 64], bf16>) -> !sym.t<[8, 64], bf16>
  %2 = aten.addmm(%c, %y, %v) : (!sym.t<[64], f16>, !sym.t<[8, 32], f16>, !sym.t<[32, 64], f16>) -> !sym.t<[8, 64], f16>
  %3 = aten.relu(%2) : (!sym.t<[8, 64], f16>) -> !sym.t<[8, 64], f16>
  %4 = aten.addmm(%b, %x, %w) : (!sym.t<[64], bf16>, !sym.t<[8, 32], bf16>, !sym.t<[32, 64], bf16>) -> !sym.t<[8, 64], bf16>
  %5 = aten.addmm(%b, %x, %w) : (!sym.t<[64], bf16>, !sym.t<[8, 32], bf16>, !sym.t<[32, 64], bf16>) -> !sym.t<[8, 64], bf16>
  %6 = aten.view(%5, [64, 8]) : (!sym.t<[8, 64], bf16>) -> !sym.t<[64, 8], bf16>
  %7 = aten.relu(%6) : (!sym.t<[64, 8], bf16>) -> !sym.t<[64, 8], bf16>
  func.return %1, %3, %4, %7 : !sym.t<[8, 64], bf16>, !sym.t<[8, 64], f16>, !sym.t<[8, 64], bf16>, !sym.t<[64, 8], bf16>
}

// -----

// beta * bias + alpha * product, each a prim.

// CHECK:      [[P:%\w+]] = prims.dot %x, %w
// CHECK:      prims.mul [[P]]
// CHECK:      prims.add
func.func @main(%b: !sym.t<[64], f32>, %x: !sym.t<[8, 32], f32>, %w: !sym.t<[32, 64], f32>) -> !sym.t<[8, 64], f32> {
  %0 = aten.addmm(%b, %x, %w, alpha = 2) {lamella.product = "generated"} : (!sym.t<[64], f32>, !sym.t<[8, 32], f32>, !sym.t<[32, 64], f32>) -> !sym.t<[8, 64], f32>
  func.return %0 : !sym.t<[8, 64], f32>
}

// -----

// Rows that are a view of several dims keep them where the result goes back to these, so that what follows has them too.

// CHECK:      [[X:%\w+]] = prims.reshape {{.*}} -> !sym.t<[2, 4, 32], f32>
// CHECK-NEXT: [[W:%\w+]] = prims.broadcast %w {dims = [1, 2]}
// CHECK-NEXT: prims.dot [[X]], [[W]] : {{.*}} -> !sym.t<[2, 4, 64], f32>
func.func @main(%x: !sym.t<[2, 4, 32], f32>, %w: !sym.t<[32, 64], f32>) -> !sym.t<[2, 4, 64], f32> {
  %y = aten.view(%x, [8, 32]) : (!sym.t<[2, 4, 32], f32>) -> !sym.t<[8, 32], f32>
  %0 = aten.mm(%y, %w) {lamella.product = "generated"} : (!sym.t<[8, 32], f32>, !sym.t<[32, 64], f32>) -> !sym.t<[8, 64], f32>
  %1 = aten.view(%0, [2, 4, 64]) : (!sym.t<[8, 64], f32>) -> !sym.t<[2, 4, 64], f32>
  func.return %1 : !sym.t<[2, 4, 64], f32>
}

// -----

// Vectors are matrices of one column; i8 is summed in i32.

// CHECK:      prims.broadcast %v {dims = [0]}
// CHECK-NEXT: prims.dot %x, {{.*}} -> !sym.t<[8, 1], f32>
// CHECK:      prims.dot %i, %j : !sym.t<[8, 32], i8>, !sym.t<[32, 4], i8> -> !sym.t<[8, 4], i32>
func.func @main(%x: !sym.t<[8, 32], f32>, %v: !sym.t<[32], f32>, %i: !sym.t<[8, 32], i8>, %j: !sym.t<[32, 4], i8>) -> (!sym.t<[8], f32>, !sym.t<[8, 4], i32>) {
  %0 = aten.mv(%x, %v) {lamella.product = "generated"} : (!sym.t<[8, 32], f32>, !sym.t<[32], f32>) -> !sym.t<[8], f32>
  %1 = aten._int_mm(%i, %j) {lamella.product = "generated"} : (!sym.t<[8, 32], i8>, !sym.t<[32, 4], i8>) -> !sym.t<[8, 4], i32>
  func.return %0, %1 : !sym.t<[8], f32>, !sym.t<[8, 4], i32>
}

// -----

// A sum over the batch is a longer inner dim; a product of vectors is a plain sum.

// CHECK:      [[A:%\w+]] = prims.reshape {{.*}} -> !sym.t<[5, 12], f32>
// CHECK:      [[B:%\w+]] = prims.reshape {{.*}} -> !sym.t<[12, 7], f32>
// CHECK-NEXT: prims.dot [[A]], [[B]]
// CHECK:      [[P:%\w+]] = prims.mul %v, %v
// CHECK-NEXT: prims.reduce [[P]] {kind = sum, dims = [0]}
func.func @main(%c: !sym.t<[5, 7], f32>, %x: !sym.t<[3, 5, 4], f32>, %y: !sym.t<[3, 4, 7], f32>, %v: !sym.t<[12], f32>) -> (!sym.t<[5, 7], f32>, !sym.t<[], f32>) {
  %0 = aten.addbmm(%c, %x, %y) {lamella.product = "generated"} : (!sym.t<[5, 7], f32>, !sym.t<[3, 5, 4], f32>, !sym.t<[3, 4, 7], f32>) -> !sym.t<[5, 7], f32>
  %1 = aten.dot(%v, %v) {lamella.product = "generated"} : (!sym.t<[12], f32>, !sym.t<[12], f32>) -> !sym.t<[], f32>
  func.return %0, %1 : !sym.t<[5, 7], f32>, !sym.t<[], f32>
}

// -----

// Halves that are widened: factors become f32 as they lie, ATen multiplies, and what follows rounds once.

// CHECK:      [[X:%\w+]] = prims.convert %x : !sym.t<[8, 32], bf16> -> !sym.t<[8, 32], f32>
// CHECK-NEXT: [[W:%\w+]] = prims.convert %w : {{.*}} -> !sym.t<[32, 64], f32, strides=[1, 32]>
// CHECK-NEXT: [[P:%\w+]] = aten.mm([[X]], [[W]]) : {{.*}} -> !sym.t<[8, 64], f32>
// CHECK:      [[S:%\w+]] = prims.add [[P]], {{.*}} : !sym.t<[8, 64], f32>
// CHECK-NEXT: prims.convert [[S]] {rounding} : !sym.t<[8, 64], f32> -> !sym.t<[8, 64], bf16>
// CHECK:      aten.bmm({{.*}}) : {{.*}} -> !sym.t<[3, 8, 8], f32>
func.func @main(%b: !sym.t<[64], bf16>, %x: !sym.t<[8, 32], bf16>, %w: !sym.t<[32, 64], bf16, strides=[1, 32]>, %y: !sym.t<[3, 8, 4], f16, strides=[64, 8, 2]>, %z: !sym.t<[3, 4, 8], f16>) -> (!sym.t<[8, 64], bf16>, !sym.t<[3, 8, 8], f16>) {
  %0 = aten.addmm(%b, %x, %w) {lamella.product = "widened"} : (!sym.t<[64], bf16>, !sym.t<[8, 32], bf16>, !sym.t<[32, 64], bf16, strides=[1, 32]>) -> !sym.t<[8, 64], bf16>
  %1 = aten.bmm(%y, %z) {lamella.product = "widened"} : (!sym.t<[3, 8, 4], f16, strides=[64, 8, 2]>, !sym.t<[3, 4, 8], f16>) -> !sym.t<[3, 8, 8], f16>
  func.return %0, %1 : !sym.t<[8, 64], bf16>, !sym.t<[3, 8, 8], f16>
}
