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

// CHECK-LABEL: func.func @vector(
// CHECK-NEXT: [[V:%\w+]] = aten.unsqueeze(%v, 1) : (!sym.t<[8], f32>) -> !sym.t<[8, 1], f32>
// CHECK-NEXT: [[Y:%\w+]] = aten.mm(%x, [[V]]) : (!sym.t<[s0, 8], f32>, !sym.t<[8, 1], f32>) -> !sym.t<[s0, 1], f32>
// CHECK-NEXT: aten.squeeze.dim([[Y]], 1)
func.func @vector(%x: !sym.t<[s0, 8], f32>, %v: !sym.t<[8], f32>) -> !sym.t<[s0], f32> {
  %y = aten.mv(%x, %v) : (!sym.t<[s0, 8], f32>, !sym.t<[8], f32>) -> !sym.t<[s0], f32>
  func.return %y : !sym.t<[s0], f32>
}

// Images one by one.
// CHECK-LABEL: func.func @images(
// CHECK-NEXT: [[Y:%\w+]] = flow.scan(%x, %w) carried 0 over 1 : (!sym.t<[s0, 3, 10], f32>, !sym.t<[4, 3, 3], f32>) -> !sym.t<[s0, 4, 8], f32>
// CHECK-NEXT: do ([[X:%\w+]]: !sym.t<[3, 10], f32>, [[W:%\w+]]: !sym.t<[4, 3, 3], f32>) {
// CHECK-NEXT: [[I:%\w+]] = aten.unsqueeze([[X]], 0) : (!sym.t<[3, 10], f32>) -> !sym.t<[1, 3, 10], f32>
// CHECK-NEXT: [[C:%\w+]] = aten.convolution([[I]], [[W]], none, [1], [0], [1], false, [0], 1)
// CHECK-NEXT: [[P:%\w+]] = aten.select.int([[C]], 0, 0) : (!sym.t<[1, 4, 8], f32>) -> !sym.t<[4, 8], f32>
// CHECK-NEXT: flow.yield([[P]])
// CHECK: func.return [[Y]]
func.func @images(%x: !sym.t<[s0, 3, 10], f32>, %w: !sym.t<[4, 3, 3], f32>) -> !sym.t<[s0, 4, 8], f32> {
  %y = aten.convolution(%x, %w, none, [1], [0], [1], false, [0], 1) : (!sym.t<[s0, 3, 10], f32>, !sym.t<[4, 3, 3], f32>) -> !sym.t<[s0, 4, 8], f32>
  func.return %y : !sym.t<[s0, 4, 8], f32>
}

// Their gradients one by one, that of the weight of all.
// CHECK-LABEL: func.func @gradients(
// CHECK-NEXT: flow.scan(%g, %x, %w) carried 0 over 2
// CHECK: aten.convolution_backward({{.*}}, [true, false, false])
// CHECK: }
// CHECK-NEXT: aten.convolution_backward(%g, %x, %w, none, [1], [0], [1], false, [0], 1, [false, true, false])
func.func @gradients(%g: !sym.t<[s0, 4, 8], f32>, %x: !sym.t<[s0, 3, 10], f32>, %w: !sym.t<[4, 3, 3], f32>) -> (!sym.t<[s0, 3, 10], f32>, !sym.t<[4, 3, 3], f32>) {
  %a, %b, %c = aten.convolution_backward(%g, %x, %w, none, [1], [0], [1], false, [0], 1, [true, true, false]) : (!sym.t<[s0, 4, 8], f32>, !sym.t<[s0, 3, 10], f32>, !sym.t<[4, 3, 3], f32>) -> (!sym.t<[s0, 3, 10], f32>, !sym.t<[4, 3, 3], f32>, none)
  func.return %a, %b : !sym.t<[s0, 3, 10], f32>, !sym.t<[4, 3, 3], f32>
}
