// RUN: lamella-opt %s -p 'prims-to-loop' --split-input-file | filecheck %s

// gather: the index is checked, and the load is guarded by the check.

func.func @main(%w: !sym.t<[100, 64], f32>, %i: !sym.t<[s0], i32>) -> !sym.t<[s0, 64], f32> {
  %b = prims.broadcast %i {dims = [0]} : !sym.t<[s0], i32> -> !sym.t<[s0, 64], i32>
  %0 = prims.gather %w[%b] {index = [i0, d1], message = "index out of range"} : !sym.t<[100, 64], f32>, !sym.t<[s0, 64], i32> -> !sym.t<[s0, 64], f32>
  func.return %0 : !sym.t<[s0, 64], f32>
}
// CHECK: loop.nest [d0 = s0, d1 = 64] {
// CHECK-NEXT: %[[I:.*]] = loop.load %i[d0] : !sym.t<[s0], i32>
// CHECK-NEXT: %[[V:.*]] = arith.extsi %[[I]] : i32 to i64
// CHECK-NEXT: %[[N:.*]] = loop.index [100]
// CHECK-NEXT: %[[OK:.*]] = arith.cmpi ult, %[[V]], %[[N]] : i64
// CHECK-NEXT: loop.assert %[[OK]], "index out of range"
// CHECK-NEXT: loop.load %w[v0, d1](%[[V]]) if %[[OK]] : !sym.t<[100, 64], f32>

// -----
// A gather through a view, with nothing to check.

func.func @main(%w: !sym.t<[4, 25, 64], f32>, %i: !sym.t<[s0, 64], i64>) -> !sym.t<[s0, 64], f32> {
  %t = prims.transpose %w {perm = [2, 1, 0]} : !sym.t<[4, 25, 64], f32> -> !sym.t<[64, 25, 4], f32, strides=[1, 64, 1600]>
  %0 = prims.gather %t[%i] {index = [d1, 2*i0 + 1, 3]} : !sym.t<[64, 25, 4], f32, strides=[1, 64, 1600]>, !sym.t<[s0, 64], i64> -> !sym.t<[s0, 64], f32>
  func.return %0 : !sym.t<[s0, 64], f32>
}
// CHECK: %[[V:.*]] = loop.load %i[d0, d1]
// CHECK-NEXT: loop.load %w[3, 2*v0 + 1, d1](%[[V]])

// -----
// scatter

func.func @main(%x: !sym.t<[s0, 8], f32>, %i: !sym.t<[4, 8], i64>, %v: !sym.t<[8], f32>) -> !sym.t<[s0, 8], f32> {
  %b = prims.broadcast %v {dims = [1]} : !sym.t<[8], f32> -> !sym.t<[4, 8], f32>
  %0 = prims.scatter %x[%i], %b {index = [i0, d1], combine = add, message = "out of range"} : !sym.t<[s0, 8], f32>, !sym.t<[4, 8], i64>, !sym.t<[4, 8], f32> -> !sym.t<[s0, 8], f32>
  func.return %0 : !sym.t<[s0, 8], f32>
}
// CHECK: loop.scatter %x [d0 = 4, d1 = 8] combine add {
// CHECK-NEXT: %[[I:.*]] = loop.load %i[d0, d1]
// CHECK: loop.assert %{{.*}}, "out of range"
// CHECK-NEXT: %[[V:.*]] = loop.load %v[d1]
// CHECK-NEXT: loop.yield_at %[[V]][v0, d1](%[[I]]) : f32
// CHECK-NEXT: } : !sym.t<[s0, 8], f32> -> !sym.t<[s0, 8], f32>
