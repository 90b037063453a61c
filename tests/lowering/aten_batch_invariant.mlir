// RUN: lamella-opt %s -p 'aten-batch-invariant' | filecheck %s
// A product of one row is that of two, the second zeros.

// CHECK-LABEL: func.func @row(
// CHECK-NEXT: [[P:%\w+]] = aten.constant_pad_nd(%x, [0, 0, 0, 1]) : (!sym.t<[1, 8], f32>) -> !sym.t<[2, 8], f32>
// CHECK-NEXT: [[Y:%\w+]] = aten.addmm(%b, [[P]], %w) : (!sym.t<[4], f32>, !sym.t<[2, 8], f32>, !sym.t<[8, 4], f32>) -> !sym.t<[2, 4], f32>
// CHECK-NEXT: [[S:%\w+]] = aten.slice.Tensor([[Y]], start = 0, end = 1) : (!sym.t<[2, 4], f32>) -> !sym.t<[1, 4], f32>
// CHECK-NEXT: [[C:%\w+]] = aten.clone([[S]], memory_format = contiguous_format)
// CHECK-NEXT: func.return [[C]]
func.func @row(%b: !sym.t<[4], f32>, %x: !sym.t<[1, 8], f32>, %w: !sym.t<[8, 4], f32>) -> !sym.t<[1, 4], f32> {
  %y = aten.addmm(%b, %x, %w) : (!sym.t<[4], f32>, !sym.t<[1, 8], f32>, !sym.t<[8, 4], f32>) -> !sym.t<[1, 4], f32>
  func.return %y : !sym.t<[1, 4], f32>
}

// CHECK-LABEL: func.func @rows(
// CHECK-NEXT: aten.mm(%x, %w)
func.func @rows(%x: !sym.t<[3, 8], f32>, %w: !sym.t<[8, 4], f32>) -> !sym.t<[3, 4], f32> {
  %y = aten.mm(%x, %w) : (!sym.t<[3, 8], f32>, !sym.t<[8, 4], f32>) -> !sym.t<[3, 4], f32>
  func.return %y : !sym.t<[3, 4], f32>
}
