// RUN: lamella-opt %s -p 'aten-unfold-convolutions{target=avx512}' | filecheck %s
// Windows side by side: the patches are copied in the order of the weight, and the product is channels last.

// CHECK: "convolution of windows side by side is a matrix product"
// CHECK-LABEL: func.func @patches(
// CHECK-NEXT: [[V:%\w+]] = aten.view(%x, [s0, 3, 4, 8, 4, 8])
// CHECK-NEXT: [[P:%\w+]] = aten.permute([[V]], [0, 2, 4, 1, 3, 5])
// CHECK-NEXT: [[C:%\w+]] = aten.clone([[P]], memory_format = contiguous_format)
// CHECK-NEXT: [[M:%\w+]] = aten.view([[C]], [16*s0, 192])
// CHECK-NEXT: [[W:%\w+]] = aten.view(%w, [64, 192])
// CHECK-NEXT: [[T:%\w+]] = aten.transpose.int([[W]], -2, -1)
// CHECK-NEXT: [[A:%\w+]] = aten.addmm(%b, [[M]], [[T]])
// CHECK-NEXT: [[Y:%\w+]] = aten.view([[A]], [s0, 4, 4, 64])
// CHECK-NEXT: [[R:%\w+]] = aten.permute([[Y]], [0, 3, 1, 2])
// CHECK-NEXT: %r = aten.clone([[R]], memory_format = contiguous_format)
// CHECK-NEXT: func.return %r
func.func @patches(%x: !sym.t<[s0, 3, 32, 32], bf16, device=cuda:0>, %w: !sym.t<[64, 3, 8, 8], bf16, device=cuda:0>, %b: !sym.t<[64], bf16, device=cuda:0>) -> !sym.t<[s0, 64, 4, 4], bf16, device=cuda:0> {
  %r = aten.convolution(%x, %w, %b, [8, 8], [0, 0], [1, 1], false, [0, 0], 1) : (!sym.t<[s0, 3, 32, 32], bf16, device=cuda:0>, !sym.t<[64, 3, 8, 8], bf16, device=cuda:0>, !sym.t<[64], bf16, device=cuda:0>) -> !sym.t<[s0, 64, 4, 4], bf16, device=cuda:0>
  func.return %r : !sym.t<[s0, 64, 4, 4], bf16, device=cuda:0>
}

// Channels last: as the weight lies, and the result is not copied.
// CHECK-LABEL: func.func @last(
// CHECK: aten.permute({{%\w+}}, [0, 2, 4, 3, 5, 1])
// CHECK: [[T:%\w+]] = aten.transpose.int(
// CHECK-NEXT: [[A:%\w+]] = aten.mm({{%\w+}}, [[T]])
// CHECK-NEXT: [[Y:%\w+]] = aten.view([[A]], [2, 4, 4, 64])
// CHECK-NEXT: %r = aten.permute([[Y]], [0, 3, 1, 2])
// CHECK-NEXT: func.return %r
func.func @last(%x: !sym.t<[2, 3, 32, 32], f16, strides=[3072, 1, 96, 3], device=cuda:0>, %w: !sym.t<[64, 3, 8, 8], f16, strides=[192, 1, 24, 3], device=cuda:0>) -> !sym.t<[2, 64, 4, 4], f16, strides=[1024, 1, 256, 64], device=cuda:0> {
  %r = aten.convolution(%x, %w, none, [8], [0], [1], false, [0], 1) : (!sym.t<[2, 3, 32, 32], f16, strides=[3072, 1, 96, 3], device=cuda:0>, !sym.t<[64, 3, 8, 8], f16, strides=[192, 1, 24, 3], device=cuda:0>) -> !sym.t<[2, 64, 4, 4], f16, strides=[1024, 1, 256, 64], device=cuda:0>
  func.return %r : !sym.t<[2, 64, 4, 4], f16, strides=[1024, 1, 256, 64], device=cuda:0>
}

// Windows that overlap, padding, a rest that no window has, windows of a point, groups, f32, and the CPU.
// CHECK-LABEL: func.func @left(
// CHECK-COUNT-7: aten.convolution(
func.func @left(%x: !sym.t<[2, 4, 8, 8], bf16, device=cuda:0>, %w: !sym.t<[4, 4, 2, 2], bf16, device=cuda:0>, %o: !sym.t<[4, 4, 1, 1], bf16, device=cuda:0>, %g: !sym.t<[4, 2, 2, 2], bf16, device=cuda:0>, %t: !sym.t<[4, 4, 3, 3], bf16, device=cuda:0>, %f: !sym.t<[2, 4, 8, 8], f32, device=cuda:0>, %h: !sym.t<[4, 4, 2, 2], f32, device=cuda:0>, %c: !sym.t<[2, 4, 8, 8], bf16>, %d: !sym.t<[4, 4, 2, 2], bf16>) -> (!sym.t<[2, 4, 7, 7], bf16, device=cuda:0>, !sym.t<[2, 4, 5, 5], bf16, device=cuda:0>, !sym.t<[2, 4, 2, 2], bf16, device=cuda:0>, !sym.t<[2, 4, 8, 8], bf16, device=cuda:0>, !sym.t<[2, 4, 4, 4], bf16, device=cuda:0>, !sym.t<[2, 4, 4, 4], f32, device=cuda:0>, !sym.t<[2, 4, 4, 4], bf16>) {
  %1 = aten.convolution(%x, %w, none, [1], [0], [1], false, [0], 1) : (!sym.t<[2, 4, 8, 8], bf16, device=cuda:0>, !sym.t<[4, 4, 2, 2], bf16, device=cuda:0>) -> !sym.t<[2, 4, 7, 7], bf16, device=cuda:0>
  %2 = aten.convolution(%x, %w, none, [2], [1], [1], false, [0], 1) : (!sym.t<[2, 4, 8, 8], bf16, device=cuda:0>, !sym.t<[4, 4, 2, 2], bf16, device=cuda:0>) -> !sym.t<[2, 4, 5, 5], bf16, device=cuda:0>
  %3 = aten.convolution(%x, %t, none, [3], [0], [1], false, [0], 1) : (!sym.t<[2, 4, 8, 8], bf16, device=cuda:0>, !sym.t<[4, 4, 3, 3], bf16, device=cuda:0>) -> !sym.t<[2, 4, 2, 2], bf16, device=cuda:0>
  %4 = aten.convolution(%x, %o, none, [1], [0], [1], false, [0], 1) : (!sym.t<[2, 4, 8, 8], bf16, device=cuda:0>, !sym.t<[4, 4, 1, 1], bf16, device=cuda:0>) -> !sym.t<[2, 4, 8, 8], bf16, device=cuda:0>
  %5 = aten.convolution(%x, %g, none, [2], [0], [1], false, [0], 2) : (!sym.t<[2, 4, 8, 8], bf16, device=cuda:0>, !sym.t<[4, 2, 2, 2], bf16, device=cuda:0>) -> !sym.t<[2, 4, 4, 4], bf16, device=cuda:0>
  %6 = aten.convolution(%f, %h, none, [2], [0], [1], false, [0], 1) : (!sym.t<[2, 4, 8, 8], f32, device=cuda:0>, !sym.t<[4, 4, 2, 2], f32, device=cuda:0>) -> !sym.t<[2, 4, 4, 4], f32, device=cuda:0>
  %7 = aten.convolution(%c, %d, none, [2], [0], [1], false, [0], 1) : (!sym.t<[2, 4, 8, 8], bf16>, !sym.t<[4, 4, 2, 2], bf16>) -> !sym.t<[2, 4, 4, 4], bf16>
  func.return %1, %2, %3, %4, %5, %6, %7 : !sym.t<[2, 4, 7, 7], bf16, device=cuda:0>, !sym.t<[2, 4, 5, 5], bf16, device=cuda:0>, !sym.t<[2, 4, 2, 2], bf16, device=cuda:0>, !sym.t<[2, 4, 8, 8], bf16, device=cuda:0>, !sym.t<[2, 4, 4, 4], bf16, device=cuda:0>, !sym.t<[2, 4, 4, 4], f32, device=cuda:0>, !sym.t<[2, 4, 4, 4], bf16>
}

// On a CPU: gradients of weights with large windows, in f32 and where halves are computed in it.
// CHECK-LABEL: func.func @gradients(
// CHECK: [[G:%\w+]] = aten.transpose.int({{%\w+}}, -2, -1) : (!sym.t<[32, 32], f32>)
// CHECK: aten.mm([[G]], {{%\w+}}) : (!sym.t<[32, 32], f32, strides=[1, 32]>, !sym.t<[32, 192], f32>) -> !sym.t<[32, 192], f32>
// CHECK: aten.sum.dim_IntList
// CHECK: aten.mm({{.*}} -> !sym.t<[32, 192], bf16>
// CHECK-NOT: aten.convolution_backward
// CHECK: func.return
func.func @gradients(%ag: !sym.t<[2, 32, 4, 4], f32>, %ax: !sym.t<[2, 3, 32, 32], f32>, %aw: !sym.t<[32, 3, 8, 8], f32>, %bg: !sym.t<[2, 32, 4, 4], bf16>, %bx: !sym.t<[2, 3, 32, 32], bf16>, %bw: !sym.t<[32, 3, 8, 8], bf16>) -> (!sym.t<[32, 3, 8, 8], f32>, !sym.t<[32], f32>, !sym.t<[32, 3, 8, 8], bf16>) {
  %a0, %a1, %a2 = aten.convolution_backward(%ag, %ax, %aw, [32], [8, 8], [0, 0], [1, 1], false, [0, 0], 1, [false, true, true]) : (!sym.t<[2, 32, 4, 4], f32>, !sym.t<[2, 3, 32, 32], f32>, !sym.t<[32, 3, 8, 8], f32>) -> (!sym.t<[2, 3, 32, 32], f32>, !sym.t<[32, 3, 8, 8], f32>, !sym.t<[32], f32>)
  %b0, %b1, %b2 = aten.convolution_backward(%bg, %bx, %bw, [32], [8, 8], [0, 0], [1, 1], false, [0, 0], 1, [false, true, false]) : (!sym.t<[2, 32, 4, 4], bf16>, !sym.t<[2, 3, 32, 32], bf16>, !sym.t<[32, 3, 8, 8], bf16>) -> (!sym.t<[2, 3, 32, 32], bf16>, !sym.t<[32, 3, 8, 8], bf16>, !sym.t<[32], bf16>)
  func.return %a1, %a2, %b1 : !sym.t<[32, 3, 8, 8], f32>, !sym.t<[32], f32>, !sym.t<[32, 3, 8, 8], bf16>
}

// Where the images have a gradient, and small windows: oneDNN is as fast or faster.
// CHECK-LABEL: func.func @gradients_left(
// CHECK-COUNT-2: aten.convolution_backward(
func.func @gradients_left(%ag: !sym.t<[2, 32, 4, 4], f32>, %ax: !sym.t<[2, 3, 32, 32], f32>, %aw: !sym.t<[32, 3, 8, 8], f32>, %cg: !sym.t<[2, 32, 8, 8], f32>, %cx: !sym.t<[2, 3, 32, 32], f32>, %cw: !sym.t<[32, 3, 4, 4], f32>) -> (!sym.t<[2, 3, 32, 32], f32>, !sym.t<[32, 3, 8, 8], f32>, !sym.t<[32, 3, 4, 4], f32>) {
  %a0, %a1, %a2 = aten.convolution_backward(%ag, %ax, %aw, [32], [8, 8], [0, 0], [1, 1], false, [0, 0], 1, [true, true, false]) : (!sym.t<[2, 32, 4, 4], f32>, !sym.t<[2, 3, 32, 32], f32>, !sym.t<[32, 3, 8, 8], f32>) -> (!sym.t<[2, 3, 32, 32], f32>, !sym.t<[32, 3, 8, 8], f32>, !sym.t<[32], f32>)
  %c0, %c1, %c2 = aten.convolution_backward(%cg, %cx, %cw, [32], [4, 4], [0, 0], [1, 1], false, [0, 0], 1, [false, true, false]) : (!sym.t<[2, 32, 8, 8], f32>, !sym.t<[2, 3, 32, 32], f32>, !sym.t<[32, 3, 4, 4], f32>) -> (!sym.t<[2, 3, 32, 32], f32>, !sym.t<[32, 3, 4, 4], f32>, !sym.t<[32], f32>)
  func.return %a0, %a1, %c1 : !sym.t<[2, 3, 32, 32], f32>, !sym.t<[32, 3, 8, 8], f32>, !sym.t<[32, 3, 4, 4], f32>
}
