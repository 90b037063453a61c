// RUN: lamella-opt %s --split-input-file -p 'aten-attention,aten-choose-products{choose=all target=avx512},aten-to-prims,prims-canonicalize,prims-to-loop,loop-fuse' | filecheck %s

// Attention is one kernel: a point is a row of scores. A mask of places is computed where it is needed.

// CHECK:      loop.kernel
// CHECK-SAME:   grid [d0 = 2, d1 = 4, d2 = 96] {{.*}} {
// CHECK:        loop.for [d3 = 96] {
// CHECK-NEXT:     loop.for [r0 = 16] reduce [add] {
// CHECK:        loop.for [d3 = 96] reduce [max] {
// CHECK:          arith.cmpi sle
// CHECK:        loop.for [d3 = 96] reduce [add] {
// CHECK:          math.exp
// CHECK:        loop.for [d4 = 16] {
// CHECK-NEXT:     loop.for [d3 = 96] reduce [add] {
// CHECK:        arith.divf
// CHECK-NOT:  loop.kernel
// CHECK:      func.func @main
func.func @main(%q: !sym.t<[2, 4, 96, 16], f32>, %k: !sym.t<[2, 4, 96, 16], f32>, %v: !sym.t<[2, 4, 96, 16], f32>) -> !sym.t<[2, 4, 96, 16], f32> {
  %y, %l = aten._scaled_dot_product_flash_attention_for_cpu(%q, %k, %v, 0.0, true) : (!sym.t<[2, 4, 96, 16], f32>, !sym.t<[2, 4, 96, 16], f32>, !sym.t<[2, 4, 96, 16], f32>) -> (!sym.t<[2, 4, 96, 16], f32>, !sym.t<[2, 4, 96], f32>)
  func.return %y : !sym.t<[2, 4, 96, 16], f32>
}

// -----

// The logarithm of the sums, which a backward reads, comes from the same kernel; heads that share keys are rows.

// CHECK:      loop.kernel
// CHECK-SAME:   outs(%y0: {{.*}}, %y1: {{.*}}) sizes [] grid [d0 = 2, d1 = 2, d2 = 3, d3 = 96
// CHECK-NOT:  loop.kernel
// CHECK:        math.log
// CHECK-NOT:  loop.kernel
// CHECK:      func.func @main
func.func @main(%q: !sym.t<[2, 6, 96, 16], f32>, %k: !sym.t<[2, 2, 32, 16], f32>, %v: !sym.t<[2, 2, 32, 16], f32>) -> (!sym.t<[2, 6, 96, 16], f32>, !sym.t<[2, 6, 96], f32>) {
  %y, %l = aten._scaled_dot_product_flash_attention_for_cpu(%q, %k, %v) : (!sym.t<[2, 6, 96, 16], f32>, !sym.t<[2, 2, 32, 16], f32>, !sym.t<[2, 2, 32, 16], f32>) -> (!sym.t<[2, 6, 96, 16], f32>, !sym.t<[2, 6, 96], f32>)
  func.return %y, %l : !sym.t<[2, 6, 96, 16], f32>, !sym.t<[2, 6, 96], f32>
}

// -----

// Weights that something else reads are in memory: two products, and a softmax.

// CHECK:      loop.kernel @{{.*}} grid [d0 = 4, d1 = 96, d2 = 96]
// CHECK:      loop.kernel @{{.*}} grid [d0 = 4, d1 = 96]
// CHECK:      loop.kernel @{{.*}} grid [d0 = 4, d1 = 96, d2 = 16]
// CHECK-NOT:  loop.kernel
// CHECK:      func.func @main
func.func @main(%q: !sym.t<[4, 96, 16], f32>, %k: !sym.t<[4, 16, 96], f32>, %v: !sym.t<[4, 96, 16], f32>) -> (!sym.t<[4, 96, 16], f32>, !sym.t<[4, 96, 96], f32>) {
  %s = aten.bmm(%q, %k) : (!sym.t<[4, 96, 16], f32>, !sym.t<[4, 16, 96], f32>) -> !sym.t<[4, 96, 96], f32>
  %p = aten._softmax(%s, -1, false) : (!sym.t<[4, 96, 96], f32>) -> !sym.t<[4, 96, 96], f32>
  %y = aten.bmm(%p, %v) : (!sym.t<[4, 96, 96], f32>, !sym.t<[4, 96, 16], f32>) -> !sym.t<[4, 96, 16], f32>
  func.return %y, %p : !sym.t<[4, 96, 16], f32>, !sym.t<[4, 96, 96], f32>
}

// -----

// What a backward reads besides, queries that something was done with and keys whose heads were repeated, is made at
// other points than rows of scores: by kernels of its own, so that what remains is attention. It reads heads once.

// CHECK:      loop.kernel @mul
// CHECK:      loop.kernel @scaled_dot_product_flash_attention_for_cpu
// CHECK-SAME:   outs(%y0: {{.*}}, %y1: {{.*}}) sizes [] grid [d0 = 2, d1 = 2, d2 = 3, d3 = 96] {{.*}} {
// CHECK:        loop.for [d4 = 32] {
// CHECK-NEXT:     loop.for [d5 = 16] reduce [add] {
// CHECK-NOT:  loop.kernel
// CHECK:        math.log
// CHECK:      func.func @main
func.func @main(%x: !sym.t<[2, 6, 96, 16], f32>, %w: !sym.t<[96, 16], f32>, %k: !sym.t<[2, 2, 32, 16], f32>) -> (!sym.t<[2, 6, 96, 16], f32>, !sym.t<[2, 6, 96], f32>, !sym.t<[2, 6, 96, 16], f32>, !sym.t<[2, 6, 32, 16], f32>) {
  %q = aten.mul.Tensor(%x, %w) : (!sym.t<[2, 6, 96, 16], f32>, !sym.t<[96, 16], f32>) -> !sym.t<[2, 6, 96, 16], f32>
  %u = aten.unsqueeze(%k, 2) : (!sym.t<[2, 2, 32, 16], f32>) -> !sym.t<[2, 2, 1, 32, 16], f32>
  %e = aten.expand(%u, [2, 2, 3, 32, 16]) : (!sym.t<[2, 2, 1, 32, 16], f32>) -> !sym.t<[2, 2, 3, 32, 16], f32, strides=[1024, 512, 0, 16, 1]>
  %c = aten.clone(%e, memory_format = contiguous_format) : (!sym.t<[2, 2, 3, 32, 16], f32, strides=[1024, 512, 0, 16, 1]>) -> !sym.t<[2, 2, 3, 32, 16], f32>
  %v = aten._unsafe_view(%c, [2, 6, 32, 16]) : (!sym.t<[2, 2, 3, 32, 16], f32>) -> !sym.t<[2, 6, 32, 16], f32>
  %y, %l = aten._scaled_dot_product_flash_attention_for_cpu(%q, %v, %v) : (!sym.t<[2, 6, 96, 16], f32>, !sym.t<[2, 6, 32, 16], f32>, !sym.t<[2, 6, 32, 16], f32>) -> (!sym.t<[2, 6, 96, 16], f32>, !sym.t<[2, 6, 96], f32>)
  func.return %y, %l, %q, %v : !sym.t<[2, 6, 96, 16], f32>, !sym.t<[2, 6, 96], f32>, !sym.t<[2, 6, 96, 16], f32>, !sym.t<[2, 6, 32, 16], f32>
}

// -----

// Two layers with a norm between them have the same form. Where weights are small they are one kernel, where no cache
// holds them three.

// CHECK:      loop.kernel @{{.*}} grid [d0 = 96]
// CHECK-NOT:  loop.kernel
// CHECK:      func.func @main
func.func @main(%x: !sym.t<[96, 64], f32>, %u: !sym.t<[64, 128], f32>, %w: !sym.t<[128, 256], f32>) -> !sym.t<[96, 256], f32> {
  %h = aten.mm(%x, %u) : (!sym.t<[96, 64], f32>, !sym.t<[64, 128], f32>) -> !sym.t<[96, 128], f32>
  %s = aten.mul.Tensor(%h, %h) : (!sym.t<[96, 128], f32>, !sym.t<[96, 128], f32>) -> !sym.t<[96, 128], f32>
  %m = aten.sum.dim_IntList(%s, [1], true) : (!sym.t<[96, 128], f32>) -> !sym.t<[96, 1], f32>
  %r = aten.rsqrt(%m) : (!sym.t<[96, 1], f32>) -> !sym.t<[96, 1], f32>
  %n = aten.mul.Tensor(%h, %r) : (!sym.t<[96, 128], f32>, !sym.t<[96, 1], f32>) -> !sym.t<[96, 128], f32>
  %y = aten.mm(%n, %w) : (!sym.t<[96, 128], f32>, !sym.t<[128, 256], f32>) -> !sym.t<[96, 256], f32>
  func.return %y : !sym.t<[96, 256], f32>
}

// -----

// CHECK:      loop.kernel @mm
// CHECK:      loop.kernel @fused_mul_sum_rsqrt
// CHECK:      loop.kernel @mm
// CHECK-NOT:  loop.kernel
// CHECK:      func.func @main
func.func @main(%x: !sym.t<[96, 1408], f32>, %u: !sym.t<[1408, 512], f32>, %w: !sym.t<[512, 8192], f32>) -> !sym.t<[96, 8192], f32> {
  %h = aten.mm(%x, %u) : (!sym.t<[96, 1408], f32>, !sym.t<[1408, 512], f32>) -> !sym.t<[96, 512], f32>
  %s = aten.mul.Tensor(%h, %h) : (!sym.t<[96, 512], f32>, !sym.t<[96, 512], f32>) -> !sym.t<[96, 512], f32>
  %m = aten.sum.dim_IntList(%s, [1], true) : (!sym.t<[96, 512], f32>) -> !sym.t<[96, 1], f32>
  %r = aten.rsqrt(%m) : (!sym.t<[96, 1], f32>) -> !sym.t<[96, 1], f32>
  %n = aten.mul.Tensor(%h, %r) : (!sym.t<[96, 512], f32>, !sym.t<[96, 1], f32>) -> !sym.t<[96, 512], f32>
  %y = aten.mm(%n, %w) : (!sym.t<[96, 512], f32>, !sym.t<[512, 8192], f32>) -> !sym.t<[96, 8192], f32>
  func.return %y : !sym.t<[96, 8192], f32>
}
