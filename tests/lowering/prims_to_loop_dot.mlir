// RUN: lamella-opt %s --split-input-file -p prims-to-loop | filecheck %s

// Views are indices; products and sum are in the dtype of the result.

// CHECK:      loop.nest [d0 = s0, d1 = 8] reduce [r0 = 16] combine [add] {
// CHECK-NEXT:   [[A:%\w+]] = loop.load %a[d0, r0]
// CHECK-NEXT:   [[X:%\w+]] = arith.extf [[A]] : bf16 to f32
// CHECK-NEXT:   [[W:%\w+]] = loop.load %w[d1, r0]
// CHECK-NEXT:   [[Y:%\w+]] = arith.extf [[W]] : bf16 to f32
// CHECK-NEXT:   [[P:%\w+]] = arith.mulf [[X]], [[Y]] : f32
// CHECK-NEXT:   loop.yield [[P]] : f32
// CHECK-NEXT: } : !sym.t<[s0, 8], f32>
func.func @main(%a: !sym.t<[s0, 16], bf16>, %w: !sym.t<[8, 16], bf16>) -> !sym.t<[s0, 8], f32> {
  %t = prims.transpose %w {perm = [1, 0]} : !sym.t<[8, 16], bf16> -> !sym.t<[16, 8], bf16, strides=[1, 16]>
  %d = prims.dot %a, %t : !sym.t<[s0, 16], bf16>, !sym.t<[16, 8], bf16, strides=[1, 16]> -> !sym.t<[s0, 8], f32>
  func.return %d : !sym.t<[s0, 8], f32>
}

// -----

// One row moves no factor; one weight for each batch is a batch.

// CHECK:      loop.nest [d0 = 3, d1 = 1, d2 = 8] reduce [r0 = 16] combine [add] {
// CHECK-NEXT:   loop.load %a[d0, d1, r0]
// CHECK-NEXT:   loop.load %b[d0, r0, d2]
// CHECK:      arith.muli
// CHECK:      } : !sym.t<[3, 1, 8], i32>
func.func @main(%a: !sym.t<[3, 1, 16], i32>, %b: !sym.t<[3, 16, 8], i32>) -> !sym.t<[3, 1, 8], i32> {
  %d = prims.dot %a, %b : !sym.t<[3, 1, 16], i32>, !sym.t<[3, 16, 8], i32> -> !sym.t<[3, 1, 8], i32>
  func.return %d : !sym.t<[3, 1, 8], i32>
}

// -----

// Heads beside each other are copied: an inner dim that is two of memory has no step, and tiles go along one.

// CHECK:      [[C:%\w+]] = loop.nest [{{.*}}] {
// CHECK-NEXT:   loop.load %a[
// CHECK:      loop.nest [d0 = 10, d1 = 8] reduce [r0 = 12] combine [add] {
// CHECK-NEXT:   loop.load {{.*}}, r0]
func.func @main(%a: !sym.t<[3, 10, 4], f32>, %w: !sym.t<[12, 8], f32>) -> !sym.t<[10, 8], f32> {
  %t = prims.transpose %a {perm = [1, 0, 2]} : !sym.t<[3, 10, 4], f32> -> !sym.t<[10, 3, 4], f32, strides=[4, 40, 1]>
  %r = prims.reshape %t : !sym.t<[10, 3, 4], f32, strides=[4, 40, 1]> -> !sym.t<[10, 12], f32>
  %d = prims.dot %r, %w : !sym.t<[10, 12], f32>, !sym.t<[12, 8], f32> -> !sym.t<[10, 8], f32>
  func.return %d : !sym.t<[10, 8], f32>
}
