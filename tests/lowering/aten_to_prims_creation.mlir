// RUN: lamella-opt %s -p 'aten-to-prims' | filecheck %s
// Tensors from numbers; copies and conversions.

// CHECK-LABEL: func.func @zeros(
// CHECK-NEXT: [[V0:%\w+]] = prims.full {value = 0.0} : !sym.t<[s0, 16], f32>
// CHECK-NEXT: [[V1:%\w+]] = prims.full {value = 0.0} : !sym.t<[s0, 16], f32>
// CHECK-NEXT: func.return [[V1]] : !sym.t<[s0, 16], f32>
func.func @zeros(%x: !sym.t<[s0, 16], f32>) -> !sym.t<[s0, 16], f32> {
  %r = aten.zeros_like(%x) : (!sym.t<[s0, 16], f32>) -> !sym.t<[s0, 16], f32>
  func.return %r : !sym.t<[s0, 16], f32>
}

// CHECK-LABEL: func.func @arange(
// CHECK-NEXT: [[V0:%\w+]] = prims.iota {dim = 0} : !sym.t<[s0], i64>
// CHECK-NEXT: [[V1:%\w+]] = prims.full {value = 1} : !sym.t<[s0], i64>
// CHECK-NEXT: [[V2:%\w+]] = prims.add [[V0]], [[V1]] : !sym.t<[s0], i64>
// CHECK-NEXT: func.return [[V2]] : !sym.t<[s0], i64>
func.func @arange(%x: !sym.t<[s0, 16], f32>) -> !sym.t<[s0], i64> {
  %r = aten.arange.start(1, s0 + 1) : () -> !sym.t<[s0], i64>
  func.return %r : !sym.t<[s0], i64>
}

// Asked for, so it is not marked as eager's rounding.
// CHECK-LABEL: func.func @to_copy(
// CHECK-NEXT: [[V0:%\w+]] = prims.convert %x : !sym.t<[s0, 16], f32> -> !sym.t<[s0, 16], bf16>
// CHECK-NEXT: func.return [[V0]] : !sym.t<[s0, 16], bf16>
func.func @to_copy(%x: !sym.t<[s0, 16], f32>) -> !sym.t<[s0, 16], bf16> {
  %r = aten._to_copy(%x, dtype = bf16) : (!sym.t<[s0, 16], f32>) -> !sym.t<[s0, 16], bf16>
  func.return %r : !sym.t<[s0, 16], bf16>
}

// x itself.
// CHECK-LABEL: func.func @to_same(
// CHECK-NEXT: func.return %x : !sym.t<[s0, 16], f32>
func.func @to_same(%x: !sym.t<[s0, 16], f32>) -> !sym.t<[s0, 16], f32> {
  %r = aten.to.dtype(%x, f32) : (!sym.t<[s0, 16], f32>) -> !sym.t<[s0, 16], f32>
  func.return %r : !sym.t<[s0, 16], f32>
}

// CHECK-LABEL: func.func @tril(
// CHECK-NEXT: [[V0:%\w+]] = prims.iota {dim = 1} : !sym.t<[4, 4], i64>
// CHECK-NEXT: [[V1:%\w+]] = prims.iota {dim = 0} : !sym.t<[4, 4], i64>
// CHECK-NEXT: [[V2:%\w+]] = prims.sub [[V0]], [[V1]] : !sym.t<[4, 4], i64>
// CHECK-NEXT: [[V3:%\w+]] = prims.full {value = 1} : !sym.t<[4, 4], i64>
// CHECK-NEXT: [[V4:%\w+]] = prims.le [[V2]], [[V3]] : !sym.t<[4, 4], i64> -> !sym.t<[4, 4], i1>
// CHECK-NEXT: [[V5:%\w+]] = prims.full {value = 0.0} : !sym.t<[4, 4], f32>
// CHECK-NEXT: [[V6:%\w+]] = prims.select [[V4]], %x, [[V5]] : !sym.t<[4, 4], i1>, !sym.t<[4, 4], f32>, !sym.t<[4, 4], f32> -> !sym.t<[4, 4], f32>
// CHECK-NEXT: func.return [[V6]] : !sym.t<[4, 4], f32>
func.func @tril(%x: !sym.t<[4, 4], f32>) -> !sym.t<[4, 4], f32> {
  %r = aten.tril(%x, 1) : (!sym.t<[4, 4], f32>) -> !sym.t<[4, 4], f32>
  func.return %r : !sym.t<[4, 4], f32>
}
