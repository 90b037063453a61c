// RUN: lamella-opt %s -p 'aten-to-prims' | filecheck %s
// Comparisons in the promoted dtype of the operands, choices in the dtype of the result.

// CHECK-LABEL: func.func @gt_promotes(
// CHECK-NEXT: [[V0:%\w+]] = prims.convert %x : !sym.t<[4], i64> -> !sym.t<[4], f32>
// CHECK-NEXT: [[V1:%\w+]] = prims.full {value = 0.5} : !sym.t<[4], f32>
// CHECK-NEXT: [[V2:%\w+]] = prims.gt [[V0]], [[V1]] : !sym.t<[4], f32> -> !sym.t<[4], i1>
// CHECK-NEXT: func.return [[V2]] : !sym.t<[4], i1>
func.func @gt_promotes(%x: !sym.t<[4], i64>) -> !sym.t<[4], i1> {
  %r = aten.gt.Scalar(%x, 0.5) : (!sym.t<[4], i64>) -> !sym.t<[4], i1>
  func.return %r : !sym.t<[4], i1>
}

// CHECK-LABEL: func.func @where(
// CHECK-NEXT: [[V0:%\w+]] = prims.broadcast %c {dims = [0, 1]} : !sym.t<[s0, 1], i1> -> !sym.t<[s0, 16], i1>
// CHECK-NEXT: [[V1:%\w+]] = prims.broadcast %y {dims = []} : !sym.t<[], f32> -> !sym.t<[s0, 16], f32>
// CHECK-NEXT: [[V2:%\w+]] = prims.select [[V0]], %x, [[V1]] : !sym.t<[s0, 16], i1>, !sym.t<[s0, 16], f32>, !sym.t<[s0, 16], f32> -> !sym.t<[s0, 16], f32>
// CHECK-NEXT: func.return [[V2]] : !sym.t<[s0, 16], f32>
func.func @where(%c: !sym.t<[s0, 1], i1>, %x: !sym.t<[s0, 16], f32>, %y: !sym.t<[], f32>) -> !sym.t<[s0, 16], f32> {
  %r = aten.where.self(%c, %x, %y) : (!sym.t<[s0, 1], i1>, !sym.t<[s0, 16], f32>, !sym.t<[], f32>) -> !sym.t<[s0, 16], f32>
  func.return %r : !sym.t<[s0, 16], f32>
}

// CHECK-LABEL: func.func @masked_fill(
// CHECK-NEXT: [[V0:%\w+]] = prims.full {value = -inf} : !sym.t<[s0, 16], f32>
// CHECK-NEXT: [[V1:%\w+]] = prims.broadcast %m {dims = [1]} : !sym.t<[16], i1> -> !sym.t<[s0, 16], i1>
// CHECK-NEXT: [[V2:%\w+]] = prims.select [[V1]], [[V0]], %x : !sym.t<[s0, 16], i1>, !sym.t<[s0, 16], f32>, !sym.t<[s0, 16], f32> -> !sym.t<[s0, 16], f32>
// CHECK-NEXT: func.return [[V2]] : !sym.t<[s0, 16], f32>
func.func @masked_fill(%x: !sym.t<[s0, 16], f32>, %m: !sym.t<[16], i1>) -> !sym.t<[s0, 16], f32> {
  %r = aten.masked_fill.Scalar(%x, %m, -inf) : (!sym.t<[s0, 16], f32>, !sym.t<[16], i1>) -> !sym.t<[s0, 16], f32>
  func.return %r : !sym.t<[s0, 16], f32>
}

// Exact, so bf16 stays bf16.
// CHECK-LABEL: func.func @clamp(
// CHECK-NEXT: [[V0:%\w+]] = prims.full {value = 0.0} : !sym.t<[4], bf16>
// CHECK-NEXT: [[B:%\w+]] = prims.lt %x, [[V0]]
// CHECK-NEXT: [[V1:%\w+]] = prims.select [[B]], [[V0]], %x : {{.*}} -> !sym.t<[4], bf16>
// CHECK-NEXT: [[V2:%\w+]] = prims.full {value = 6.0} : !sym.t<[4], bf16>
// CHECK-NEXT: [[A:%\w+]] = prims.gt [[V1]], [[V2]]
// CHECK-NEXT: [[V3:%\w+]] = prims.select [[A]], [[V2]], [[V1]] : {{.*}} -> !sym.t<[4], bf16>
// CHECK-NEXT: func.return [[V3]] : !sym.t<[4], bf16>
func.func @clamp(%x: !sym.t<[4], bf16>) -> !sym.t<[4], bf16> {
  %r = aten.clamp(%x, 0.0, 6.0) : (!sym.t<[4], bf16>) -> !sym.t<[4], bf16>
  func.return %r : !sym.t<[4], bf16>
}

// CHECK-LABEL: func.func @logical_and(
// CHECK-NEXT: [[V0:%\w+]] = prims.convert %x : !sym.t<[4], f32> -> !sym.t<[4], i1>
// CHECK-NEXT: [[V1:%\w+]] = prims.convert %y : !sym.t<[4], i64> -> !sym.t<[4], i1>
// CHECK-NEXT: [[V2:%\w+]] = prims.and [[V0]], [[V1]] : !sym.t<[4], i1>
// CHECK-NEXT: func.return [[V2]] : !sym.t<[4], i1>
func.func @logical_and(%x: !sym.t<[4], f32>, %y: !sym.t<[4], i64>) -> !sym.t<[4], i1> {
  %r = aten.logical_and(%x, %y) : (!sym.t<[4], f32>, !sym.t<[4], i64>) -> !sym.t<[4], i1>
  func.return %r : !sym.t<[4], i1>
}
