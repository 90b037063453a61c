// RUN: lamella-opt %s -p 'aten-to-prims,prims-canonicalize,prims-to-loop,loop-fuse' | filecheck %s

// A residual stream is kept as eager keeps it: its sums in f32 stay within a kernel.
// CHECK: loop.kernel @fused_add_layer_norm_0(%x0: !sym.t<[64, 32], bf16>, %x1: !sym.t<[64, 32], bf16>) outs(%y0: !sym.t<[64, 32], bf16>, %y1: !sym.t<[64, 32], bf16>)
// CHECK: loop.kernel @{{[a-z_]*}}add_1(%x0: !sym.t<[64, 32], bf16>, %x1: !sym.t<[64, 32], bf16>) outs(%y0: !sym.t<[64, 32], bf16>)
func.func @main(%x: !sym.t<[64, 32], bf16>, %y: !sym.t<[64, 32], bf16>, %w: !sym.t<[32, 32], bf16>) -> !sym.t<[64, 32], bf16> {
  %s = aten.add.Tensor(%x, %y) : (!sym.t<[64, 32], bf16>, !sym.t<[64, 32], bf16>) -> !sym.t<[64, 32], bf16>
  %n, %m, %r = aten.native_layer_norm(%s, [32], none, none, 1.0e-05) : (!sym.t<[64, 32], bf16>) -> (!sym.t<[64, 32], bf16>, !sym.t<[64, 1], bf16>, !sym.t<[64, 1], bf16>)
  %p = aten.mm(%n, %w) : (!sym.t<[64, 32], bf16>, !sym.t<[32, 32], bf16>) -> !sym.t<[64, 32], bf16>
  %z = aten.add.Tensor(%s, %p) : (!sym.t<[64, 32], bf16>, !sym.t<[64, 32], bf16>) -> !sym.t<[64, 32], bf16>
  func.return %z : !sym.t<[64, 32], bf16>
}

// What a call gives in f32 is rounded before the calls that it does not wait for, by a kernel of its own: else it would be held.
// CHECK: loop.kernel @to_copy_{{[0-9]+}}(%x0: !sym.t<[64, 64], f32>) outs(%y0: !sym.t<[64, 64], bf16>)
// CHECK: loop.kernel @fused_{{[a-z_]*}}add_{{[0-9]+}}(%x0: !sym.t<[64, 64], bf16>, %x1: !sym.t<[64, 64], f32>)
func.func @product(%a: !sym.t<[64, 32], f32>, %b: !sym.t<[32, 64], f32>, %c: !sym.t<[64, 64], f32>) -> !sym.t<[64, 64], f32> {
  %m = aten.mm(%a, %b) : (!sym.t<[64, 32], f32>, !sym.t<[32, 64], f32>) -> !sym.t<[64, 64], f32>
  %h = aten._to_copy(%m, bf16) : (!sym.t<[64, 64], f32>) -> !sym.t<[64, 64], bf16>
  %n = aten.mm(%c, %c) : (!sym.t<[64, 64], f32>, !sym.t<[64, 64], f32>) -> !sym.t<[64, 64], f32>
  %o = aten.mm(%n, %n) : (!sym.t<[64, 64], f32>, !sym.t<[64, 64], f32>) -> !sym.t<[64, 64], f32>
  %e = aten.mul.Tensor(%h, %h) : (!sym.t<[64, 64], bf16>, !sym.t<[64, 64], bf16>) -> !sym.t<[64, 64], bf16>
  %r = aten.add.Tensor(%e, %o) : (!sym.t<[64, 64], bf16>, !sym.t<[64, 64], f32>) -> !sym.t<[64, 64], f32>
  func.return %r : !sym.t<[64, 64], f32>
}

// A scale for each channel is not what an image was rounded from: a batch norm is computed in the windows that read it.
// CHECK: loop.kernel @{{fused_batch_norm[a-z_]*}}max_pool2d_with_indices_{{[0-9]+}}({{.*}}) outs(%y0: !sym.t<[2, 8, 16, 16], bf16>) sizes [] grid
func.func @scaled(%x: !sym.t<[2, 8, 32, 32], bf16>, %w: !sym.t<[8, 8, 1, 1], bf16>, %g: !sym.t<[8], bf16>, %b: !sym.t<[8], bf16>, %m: !sym.t<[8], bf16>, %v: !sym.t<[8], bf16>) -> !sym.t<[2, 8, 16, 16], bf16> {
  %c = aten.convolution(%x, %w, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1) : (!sym.t<[2, 8, 32, 32], bf16>, !sym.t<[8, 8, 1, 1], bf16>) -> !sym.t<[2, 8, 32, 32], bf16>
  %n, %s, %t = aten._native_batch_norm_legit_no_training(%c, %g, %b, %m, %v, 0.1, 1.0e-05) : (!sym.t<[2, 8, 32, 32], bf16>, !sym.t<[8], bf16>, !sym.t<[8], bf16>, !sym.t<[8], bf16>, !sym.t<[8], bf16>) -> (!sym.t<[2, 8, 32, 32], bf16>, !sym.t<[0], bf16>, !sym.t<[0], bf16>)
  %r = aten.relu(%n) : (!sym.t<[2, 8, 32, 32], bf16>) -> !sym.t<[2, 8, 32, 32], bf16>
  %y, %i = aten.max_pool2d_with_indices(%r, [3, 3], [2, 2], [1, 1]) : (!sym.t<[2, 8, 32, 32], bf16>) -> (!sym.t<[2, 8, 16, 16], bf16>, !sym.t<[2, 8, 16, 16], i64>)
  func.return %y : !sym.t<[2, 8, 16, 16], bf16>
}

// What a call takes in f32 is summed in parts: the sum that they replace reads it no longer.
// CHECK: loop.kernel @fused_to_copy_sum_{{[0-9]+}}(%x0: !sym.t<[512, 512], bf16>) outs(%y0: !sym.t<[512, 512], f32>, %y1: !sym.t<[16], f32>)
// CHECK: loop.kernel @sum_{{[0-9]+}}(%x0: !sym.t<[16], f32>)
func.func @summed(%x: !sym.t<[512, 512], bf16>, %b: !sym.t<[512, 512], f32>) -> (!sym.t<[512, 512], f32>, !sym.t<[], f32>) {
  %w = aten._to_copy(%x, f32) : (!sym.t<[512, 512], bf16>) -> !sym.t<[512, 512], f32>
  %m = aten.mm(%w, %b) : (!sym.t<[512, 512], f32>, !sym.t<[512, 512], f32>) -> !sym.t<[512, 512], f32>
  %s = aten.sum(%w) : (!sym.t<[512, 512], f32>) -> !sym.t<[], f32>
  func.return %m, %s : !sym.t<[512, 512], f32>, !sym.t<[], f32>
}

// The same where the rows of the sum are those of two dims: the nest over one dim reads it no longer.
// CHECK: loop.kernel @sum_{{[0-9]+}}(%x0: !sym.t<[2, 65, 64], f32>) outs(%y0: !sym.t<[64], f32>)
func.func @folded(%x: !sym.t<[2, 65, 64], bf16>, %b: !sym.t<[2, 64, 64], f32>) -> (!sym.t<[2, 65, 64], f32>, !sym.t<[64], f32>) {
  %w = aten._to_copy(%x, f32) : (!sym.t<[2, 65, 64], bf16>) -> !sym.t<[2, 65, 64], f32>
  %m = aten.bmm(%w, %b) : (!sym.t<[2, 65, 64], f32>, !sym.t<[2, 64, 64], f32>) -> !sym.t<[2, 65, 64], f32>
  %v = aten.view(%w, [130, 64]) : (!sym.t<[2, 65, 64], f32>) -> !sym.t<[130, 64], f32>
  %s = aten.sum.dim_IntList(%v, [0]) : (!sym.t<[130, 64], f32>) -> !sym.t<[64], f32>
  func.return %m, %s : !sym.t<[2, 65, 64], f32>, !sym.t<[64], f32>
}

// What a call takes in f32 is there for that call only: a sum that comes after other calls reads the halves.
// CHECK: func.func @residual
// CHECK: [[H:%\w+]], [[W:%\w+]] = loop.launch @{{.*}} -> (!sym.t<[64, 64], bf16>, !sym.t<[64, 64], f32>)
// CHECK: aten.mm([[W]],
// CHECK: [[N:%\w+]] = aten.mm(
// CHECK: loop.launch @{{.*}}([[H]], [[N]])
func.func @residual(%x: !sym.t<[64, 64], bf16>, %b: !sym.t<[64, 64], f32>) -> !sym.t<[64, 64], f32> {
  %s = aten.softmax.int(%x, -1) : (!sym.t<[64, 64], bf16>) -> !sym.t<[64, 64], bf16>
  %w = aten._to_copy(%s, f32) : (!sym.t<[64, 64], bf16>) -> !sym.t<[64, 64], f32>
  %m = aten.mm(%w, %b) : (!sym.t<[64, 64], f32>, !sym.t<[64, 64], f32>) -> !sym.t<[64, 64], f32>
  %n = aten.mm(%m, %b) : (!sym.t<[64, 64], f32>, !sym.t<[64, 64], f32>) -> !sym.t<[64, 64], f32>
  %r = aten.add.Tensor(%s, %n) : (!sym.t<[64, 64], bf16>, !sym.t<[64, 64], f32>) -> !sym.t<[64, 64], f32>
  func.return %r : !sym.t<[64, 64], f32>
}

// Calls keep their order: what is rounded is not held in f32 for a call that comes after it, though that waits for nothing.
// CHECK-LABEL: func.func @shortcut
// CHECK: %a = aten.mm(%m, %m)
// CHECK-NEXT: [[H:%\w+]] = loop.launch @{{[a-z_0-9]+}}(%a)
// CHECK-NEXT: %n = aten.mm(%x, %y)
// CHECK-NEXT: loop.launch @{{[a-z_0-9]+}}([[H]], %n)
func.func @shortcut(%x: !sym.t<[64, 64], f32>, %y: !sym.t<[64, 64], f32>) -> !sym.t<[64, 64], f32> {
  %m = aten.mm(%x, %x) : (!sym.t<[64, 64], f32>, !sym.t<[64, 64], f32>) -> !sym.t<[64, 64], f32>
  %a = aten.mm(%m, %m) : (!sym.t<[64, 64], f32>, !sym.t<[64, 64], f32>) -> !sym.t<[64, 64], f32>
  %h = aten._to_copy(%a, bf16) : (!sym.t<[64, 64], f32>) -> !sym.t<[64, 64], bf16>
  %n = aten.mm(%x, %y) : (!sym.t<[64, 64], f32>, !sym.t<[64, 64], f32>) -> !sym.t<[64, 64], f32>
  %r = aten.add.Tensor(%h, %n) : (!sym.t<[64, 64], bf16>, !sym.t<[64, 64], f32>) -> !sym.t<[64, 64], f32>
  func.return %r : !sym.t<[64, 64], f32>
}
