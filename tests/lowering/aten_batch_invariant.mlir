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

// Attention of a GPU that depends on the batch is that which does not.
// CHECK-LABEL: func.func @attention(
// CHECK-NEXT: %o, {{.*}} = aten._scaled_dot_product_efficient_attention(%q, %q, %q, none, false, is_causal = true, scale = 0.5) : {{.*}} -> (!sym.t<[s0, 4, 64, 64], bf16, strides=[16384, 64, 256, 1], device=cuda:0>, !sym.t<[s0, 4, 0], f32, device=cuda:0>, !sym.t<[], i64>, !sym.t<[], i64>)
// CHECK-NEXT: func.return %o :
func.func @attention(%q: !sym.t<[s0, 4, 64, 64], bf16, device=cuda:0>) -> !sym.t<[s0, 4, 64, 64], bf16, strides=[16384, 64, 256, 1], device=cuda:0> {
  %o, %l, %cq, %ck, %mq, %mk, %r, %u, %d = aten._scaled_dot_product_flash_attention(%q, %q, %q, 0.0, true, scale = 0.5) : (!sym.t<[s0, 4, 64, 64], bf16, device=cuda:0>, !sym.t<[s0, 4, 64, 64], bf16, device=cuda:0>, !sym.t<[s0, 4, 64, 64], bf16, device=cuda:0>) -> (!sym.t<[s0, 4, 64, 64], bf16, strides=[16384, 64, 256, 1], device=cuda:0>, !sym.t<[s0, 4, 64], f32, device=cuda:0>, none, none, !sym.int<64>, !sym.int<64>, !sym.t<[2], u64, device=cuda:0>, !sym.t<[], u64, device=cuda:0>, !sym.t<[0], bf16, device=cuda:0>)
  func.return %o : !sym.t<[s0, 4, 64, 64], bf16, strides=[16384, 64, 256, 1], device=cuda:0>
}

// A backward asks for what the sums were: it is its own kernel's.
// CHECK-LABEL: func.func @logarithms(
// CHECK: aten._scaled_dot_product_cudnn_attention(
// CHECK-NOT: efficient
func.func @logarithms(%q: !sym.t<[s0, 4, 64, 64], bf16, device=cuda:0>) -> (!sym.t<[s0, 4, 64, 64], bf16, device=cuda:0>, !sym.t<[s0, 4, 64, 1], f32, device=cuda:0>) {
  %o, %l, %cq, %ck, %mq, %mk, %r, %u, %d = aten._scaled_dot_product_cudnn_attention(%q, %q, %q, none, true) : (!sym.t<[s0, 4, 64, 64], bf16, device=cuda:0>, !sym.t<[s0, 4, 64, 64], bf16, device=cuda:0>, !sym.t<[s0, 4, 64, 64], bf16, device=cuda:0>) -> (!sym.t<[s0, 4, 64, 64], bf16, device=cuda:0>, !sym.t<[s0, 4, 64, 1], f32, device=cuda:0>, none, none, !sym.int<64>, !sym.int<64>, !sym.t<[], i64, device=cuda:0>, !sym.t<[], i64, device=cuda:0>, none)
  func.return %o, %l : !sym.t<[s0, 4, 64, 64], bf16, device=cuda:0>, !sym.t<[s0, 4, 64, 1], f32, device=cuda:0>
}

// A mask is read for all scores, where its rows begin as that kernel asks.
// CHECK-LABEL: func.func @masked(
// CHECK-NEXT: [[E:%\w+]] = aten.expand(%m, [2, 4, 64, 64]) : (!sym.t<[64, 64], bf16, device=cuda:0>) -> !sym.t<[2, 4, 64, 64], bf16, strides=[0, 0, 64, 1], device=cuda:0>
// CHECK-NEXT: %o, {{.*}} = aten._scaled_dot_product_efficient_attention(%q, %q, %q, [[E]], false)
// CHECK: func.func @odd(
// CHECK-NOT: efficient
func.func @masked(%q: !sym.t<[2, 4, 64, 64], bf16, device=cuda:0>, %m: !sym.t<[64, 64], bf16, device=cuda:0>) -> !sym.t<[2, 4, 64, 64], bf16, device=cuda:0> {
  %o, %l, %cq, %ck, %mq, %mk, %r, %u, %d = aten._scaled_dot_product_cudnn_attention(%q, %q, %q, %m, false) : (!sym.t<[2, 4, 64, 64], bf16, device=cuda:0>, !sym.t<[2, 4, 64, 64], bf16, device=cuda:0>, !sym.t<[2, 4, 64, 64], bf16, device=cuda:0>, !sym.t<[64, 64], bf16, device=cuda:0>) -> (!sym.t<[2, 4, 64, 64], bf16, device=cuda:0>, !sym.t<[2, 4, 64, 1], f32, device=cuda:0>, none, none, !sym.int<64>, !sym.int<64>, !sym.t<[], i64, device=cuda:0>, !sym.t<[], i64, device=cuda:0>, none)
  func.return %o : !sym.t<[2, 4, 64, 64], bf16, device=cuda:0>
}
func.func @odd(%q: !sym.t<[2, 4, 61, 64], bf16, device=cuda:0>, %m: !sym.t<[61, 61], bf16, device=cuda:0>) -> !sym.t<[2, 4, 61, 64], bf16, device=cuda:0> {
  %o, %l, %cq, %ck, %mq, %mk, %r, %u, %d = aten._scaled_dot_product_cudnn_attention(%q, %q, %q, %m, false) : (!sym.t<[2, 4, 61, 64], bf16, device=cuda:0>, !sym.t<[2, 4, 61, 64], bf16, device=cuda:0>, !sym.t<[2, 4, 61, 64], bf16, device=cuda:0>, !sym.t<[61, 61], bf16, device=cuda:0>) -> (!sym.t<[2, 4, 61, 64], bf16, device=cuda:0>, !sym.t<[2, 4, 61, 1], f32, device=cuda:0>, none, none, !sym.int<61>, !sym.int<61>, !sym.t<[], i64, device=cuda:0>, !sym.t<[], i64, device=cuda:0>, none)
  func.return %o : !sym.t<[2, 4, 61, 64], bf16, device=cuda:0>
}
