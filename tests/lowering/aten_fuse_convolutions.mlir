// RUN: lamella-opt %s -p 'aten-fuse-convolutions' | filecheck %s

// CHECK-LABEL: func.func @unary(
// CHECK-NEXT: [[Y:%\w+]] = mkldnn._convolution_pointwise(%x, %w, none, [1, 1], [1, 1], [1, 1], 1, "swish", [], "")
// CHECK-NEXT: func.return [[Y]]
func.func @unary(%x: !sym.t<[s0, 8, 16, 16], f32, strides=[2048, 1, 128, 8]>, %w: !sym.t<[8, 8, 3, 3], f32>) -> !sym.t<[s0, 8, 16, 16], f32, strides=[2048, 1, 128, 8]> {
  %c = aten.convolution(%x, %w, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1) : (!sym.t<[s0, 8, 16, 16], f32, strides=[2048, 1, 128, 8]>, !sym.t<[8, 8, 3, 3], f32>) -> !sym.t<[s0, 8, 16, 16], f32, strides=[2048, 1, 128, 8]>
  %r = aten.silu(%c) : (!sym.t<[s0, 8, 16, 16], f32, strides=[2048, 1, 128, 8]>) -> !sym.t<[s0, 8, 16, 16], f32, strides=[2048, 1, 128, 8]>
  func.return %r : !sym.t<[s0, 8, 16, 16], f32, strides=[2048, 1, 128, 8]>
}

// A frozen weight is reordered. A sum is part of the call, what follows it is not.
// CHECK-LABEL: func.func @sum(
// CHECK-NEXT: [[W:%\d+]] = mkldnn._reorder_convolution_weight(%w, [1, 1], input_size = [2, 8, 16, 16]) : (!sym.t<[8, 8, 3, 3], f32>) -> !sym.t<[8, 8, 3, 3], f32, device=mkldnn>
// CHECK-NEXT: [[A:%\w+]] = mkldnn._convolution_pointwise.binary(%x, %x, [[W]], %b, [1, 1], [1, 1], [1, 1], 1, "add", 1.0, none, [], none)
// CHECK-NEXT: [[R:%\w+]] = aten.leaky_relu([[A]], 0.1)
// CHECK-NEXT: func.return [[R]]
func.func @sum(%x: !sym.t<[2, 8, 16, 16], f32, strides=[2048, 1, 128, 8]>, %w: !sym.t<[8, 8, 3, 3], f32> {lamella.frozen}, %b: !sym.t<[8], f32>) -> !sym.t<[2, 8, 16, 16], f32, strides=[2048, 1, 128, 8]> {
  %c = aten.convolution(%x, %w, %b, [1, 1], [1, 1], [1, 1], false, [0, 0], 1) : (!sym.t<[2, 8, 16, 16], f32, strides=[2048, 1, 128, 8]>, !sym.t<[8, 8, 3, 3], f32>, !sym.t<[8], f32>) -> !sym.t<[2, 8, 16, 16], f32, strides=[2048, 1, 128, 8]>
  %a = aten.add.Tensor(%x, %c) : (!sym.t<[2, 8, 16, 16], f32, strides=[2048, 1, 128, 8]>, !sym.t<[2, 8, 16, 16], f32, strides=[2048, 1, 128, 8]>) -> !sym.t<[2, 8, 16, 16], f32, strides=[2048, 1, 128, 8]>
  %r = aten.leaky_relu(%a, 0.1) : (!sym.t<[2, 8, 16, 16], f32, strides=[2048, 1, 128, 8]>) -> !sym.t<[2, 8, 16, 16], f32, strides=[2048, 1, 128, 8]>
  func.return %r : !sym.t<[2, 8, 16, 16], f32, strides=[2048, 1, 128, 8]>
}

// Contiguous images, and results that are read twice, are left; so is relu, of which oneDNN's has no NaN.
// CHECK-LABEL: func.func @left(
// CHECK-NEXT: aten.convolution(
// CHECK-NEXT: aten.silu(
// CHECK-NEXT: aten.convolution(
// CHECK-NEXT: aten.silu(
// CHECK-NEXT: aten.convolution(
// CHECK-NEXT: aten.relu(
// CHECK-NEXT: func.return
func.func @left(%x: !sym.t<[2, 8, 16, 16], f32, strides=[2048, 1, 128, 8]>, %w: !sym.t<[8, 8, 3, 3], f32>, %y: !sym.t<[2, 8, 16, 16], f32>) -> (!sym.t<[2, 8, 16, 16], f32, strides=[2048, 1, 128, 8]>, !sym.t<[2, 8, 16, 16], f32, strides=[2048, 1, 128, 8]>, !sym.t<[2, 8, 16, 16], f32>) {
  %c = aten.convolution(%x, %w, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1) : (!sym.t<[2, 8, 16, 16], f32, strides=[2048, 1, 128, 8]>, !sym.t<[8, 8, 3, 3], f32>) -> !sym.t<[2, 8, 16, 16], f32, strides=[2048, 1, 128, 8]>
  %r = aten.silu(%c) : (!sym.t<[2, 8, 16, 16], f32, strides=[2048, 1, 128, 8]>) -> !sym.t<[2, 8, 16, 16], f32, strides=[2048, 1, 128, 8]>
  %d = aten.convolution(%y, %w, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1) : (!sym.t<[2, 8, 16, 16], f32>, !sym.t<[8, 8, 3, 3], f32>) -> !sym.t<[2, 8, 16, 16], f32>
  %s = aten.silu(%d) : (!sym.t<[2, 8, 16, 16], f32>) -> !sym.t<[2, 8, 16, 16], f32>
  %e = aten.convolution(%x, %w, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1) : (!sym.t<[2, 8, 16, 16], f32, strides=[2048, 1, 128, 8]>, !sym.t<[8, 8, 3, 3], f32>) -> !sym.t<[2, 8, 16, 16], f32, strides=[2048, 1, 128, 8]>
  %z = aten.relu(%e) : (!sym.t<[2, 8, 16, 16], f32, strides=[2048, 1, 128, 8]>) -> !sym.t<[2, 8, 16, 16], f32, strides=[2048, 1, 128, 8]>
  func.return %c, %z, %s : !sym.t<[2, 8, 16, 16], f32, strides=[2048, 1, 128, 8]>, !sym.t<[2, 8, 16, 16], f32, strides=[2048, 1, 128, 8]>, !sym.t<[2, 8, 16, 16], f32>
}
