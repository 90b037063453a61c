// RUN: lamella-opt %s --split-input-file -p 'aten-choose-products{target=avx512},aten-to-prims' | filecheck %s

// Depthwise, and small ones of any kind, are sums over windows; of others oneDNN is as fast.

// CHECK-LABEL: lamella.decisions
// CHECK-SAME: "aten.convolution f32 1x32x56x56 * 32x1x3x3 in 32 groups: a kernel, a row at a time reads images as they lie"
// CHECK-SAME: "aten.convolution f32 1x3x8x8 * 8x3x3x3: a kernel, a call costs more than the work"
// CHECK-SAME: "aten.convolution f32 1x32x56x56 * 32x32x3x3: ATen, where nothing is known to be faster"
// CHECK:      [[P:%\w+]] = prims.pad %x {low = [0, 0, 1, 1], high = [0, 0, 1, 1], value = 0.0}
// CHECK:      prims.gather [[P]][] {index = [d0, d1, d2 + d4, d3 + d5]}
// CHECK:      prims.reduce {{.*}} {kind = sum, dims = [5, 6, 7]}
// CHECK:      prims.gather {{.*}} {index = [d0, d1, d2 + d4, d3 + d5]}
// CHECK:      prims.reduce {{.*}} {kind = sum, dims = [5, 6, 7]}
// CHECK:      aten.convolution(%x, %v
func.func @main(%x: !sym.t<[1, 32, 56, 56], f32>, %w: !sym.t<[32, 1, 3, 3], f32>, %y: !sym.t<[1, 3, 8, 8], f32>, %u: !sym.t<[8, 3, 3, 3], f32>, %v: !sym.t<[32, 32, 3, 3], f32>) -> (!sym.t<[1, 32, 56, 56], f32>, !sym.t<[1, 8, 6, 6], f32>, !sym.t<[1, 32, 56, 56], f32>) {
  %0 = aten.convolution(%x, %w, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 32) : (!sym.t<[1, 32, 56, 56], f32>, !sym.t<[32, 1, 3, 3], f32>) -> !sym.t<[1, 32, 56, 56], f32>
  %1 = aten.convolution(%y, %u, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1) : (!sym.t<[1, 3, 8, 8], f32>, !sym.t<[8, 3, 3, 3], f32>) -> !sym.t<[1, 8, 6, 6], f32>
  %2 = aten.convolution(%x, %v, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1) : (!sym.t<[1, 32, 56, 56], f32>, !sym.t<[32, 32, 3, 3], f32>) -> !sym.t<[1, 32, 56, 56], f32>
  func.return %0, %1, %2 : !sym.t<[1, 32, 56, 56], f32>, !sym.t<[1, 8, 6, 6], f32>, !sym.t<[1, 32, 56, 56], f32>
}

// -----

// The other way: zeros between the elements of x, weights backwards with their channels exchanged, stride 1.

// CHECK:      prims.pad {{.*}} {low = [0, 0, 0, 0], high = [0, 0, 0, 1], value = 0.0}
// CHECK:      prims.slice
// CHECK:      prims.flip
// CHECK:      prims.pad {{.*}} {low = [0, 0, 1], high = [0, 0, 2], value = 0.0}
// CHECK:      prims.gather {{.*}} {index = [d0, d1, d2 + d3]}
func.func @main(%x: !sym.t<[1, 4, 5], f32>, %w: !sym.t<[4, 6, 3], f32>) -> !sym.t<[1, 6, 10], f32> {
  %0 = aten.convolution(%x, %w, none, [2], [1], [1], true, [1], 1) : (!sym.t<[1, 4, 5], f32>, !sym.t<[4, 6, 3], f32>) -> !sym.t<[1, 6, 10], f32>
  func.return %0 : !sym.t<[1, 6, 10], f32>
}

// -----

// Halves, where oneDNN has no instructions for them: a call in f32, forward and backward.

// CHECK:      [[X:%\w+]] = prims.convert %x : {{.*}} -> !sym.t<[1, 32, 28, 28], f32>
// CHECK-NEXT: [[V:%\w+]] = prims.convert %v : {{.*}} -> !sym.t<[32, 32, 3, 3], f32>
// CHECK-NEXT: aten.convolution([[X]], [[V]], {{.*}} -> !sym.t<[1, 32, 28, 28], f32>
// CHECK:      aten.convolution_backward({{.*}} -> (!sym.t<[1, 32, 28, 28], f32>, !sym.t<[32, 32, 3, 3], f32>, none)
func.func @main(%x: !sym.t<[1, 32, 28, 28], bf16>, %v: !sym.t<[32, 32, 3, 3], bf16>) -> (!sym.t<[1, 32, 28, 28], bf16>, !sym.t<[1, 32, 28, 28], bf16>, !sym.t<[32, 32, 3, 3], bf16>) {
  %0 = aten.convolution(%x, %v, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1) : (!sym.t<[1, 32, 28, 28], bf16>, !sym.t<[32, 32, 3, 3], bf16>) -> !sym.t<[1, 32, 28, 28], bf16>
  %1, %2, %3 = aten.convolution_backward(%0, %x, %v, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1, [true, true, false]) : (!sym.t<[1, 32, 28, 28], bf16>, !sym.t<[1, 32, 28, 28], bf16>, !sym.t<[32, 32, 3, 3], bf16>) -> (!sym.t<[1, 32, 28, 28], bf16>, !sym.t<[32, 32, 3, 3], bf16>, none)
  func.return %0, %1, %2 : !sym.t<[1, 32, 28, 28], bf16>, !sym.t<[1, 32, 28, 28], bf16>, !sym.t<[32, 32, 3, 3], bf16>
}

// -----

// On a GPU ATen adds the bias in a kernel of its own: kernels that read the result do that. Not so of depthwise ones.

// CHECK:      [[C:%\w+]] = aten.convolution(%x, %w, none, {{.*}} -> !sym.t<[1, 32, 26, 26], bf16, device=cuda:0>
// CHECK:      [[B:%\w+]] = prims.broadcast {{.*}} {dims = [1]}
// CHECK:      prims.add {{.*}}[[B]]
// CHECK:      aten.convolution(%x, %d, %b, {{.*}}, 32)
func.func @main(%x: !sym.t<[1, 32, 28, 28], bf16, device=cuda:0>, %w: !sym.t<[32, 32, 3, 3], bf16, device=cuda:0>, %d: !sym.t<[32, 1, 3, 3], bf16, device=cuda:0>, %b: !sym.t<[32], bf16, device=cuda:0>) -> (!sym.t<[1, 32, 26, 26], bf16, device=cuda:0>, !sym.t<[1, 32, 26, 26], bf16, device=cuda:0>) {
  %0 = aten.convolution(%x, %w, %b, [1, 1], [0, 0], [1, 1], false, [0, 0], 1) : (!sym.t<[1, 32, 28, 28], bf16, device=cuda:0>, !sym.t<[32, 32, 3, 3], bf16, device=cuda:0>, !sym.t<[32], bf16, device=cuda:0>) -> !sym.t<[1, 32, 26, 26], bf16, device=cuda:0>
  %1 = aten.convolution(%x, %d, %b, [1, 1], [0, 0], [1, 1], false, [0, 0], 32) : (!sym.t<[1, 32, 28, 28], bf16, device=cuda:0>, !sym.t<[32, 1, 3, 3], bf16, device=cuda:0>, !sym.t<[32], bf16, device=cuda:0>) -> !sym.t<[1, 32, 26, 26], bf16, device=cuda:0>
  func.return %0, %1 : !sym.t<[1, 32, 26, 26], bf16, device=cuda:0>, !sym.t<[1, 32, 26, 26], bf16, device=cuda:0>
}
