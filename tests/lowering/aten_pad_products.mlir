// RUN: lamella-opt %s -p 'aten-pad-products' | filecheck %s
// The head of a language model: 50257 columns make rows of the result that begin anywhere.

// CHECK-LABEL: func.func @head(
// CHECK-NEXT: [[W:%\w+]] = aten.constant_pad_nd(%w, [0, 7, 0, 0]) : (!sym.t<[768, 50257], bf16, strides=[1, 768], device=cuda:0>) -> !sym.t<[768, 50264], bf16, strides=[1, 768], device=cuda:0>
// CHECK-NEXT: [[P:%\w+]] = aten.mm(%x, [[W]]) : {{.*}} -> !sym.t<[s0, 50264], bf16, device=cuda:0>
// CHECK-NEXT: [[C:%\w+]] = aten.slice.Tensor([[P]], 1, 0, 50257) : {{.*}} -> !sym.t<[s0, 50257], bf16, strides=[50264, 1], device=cuda:0>
// CHECK-NEXT: [[R:%\w+]] = aten.clone([[C]], memory_format = contiguous_format) : {{.*}} -> !sym.t<[s0, 50257], bf16, device=cuda:0>
// CHECK-NEXT: func.return [[R]]
module attributes {lamella.hints = {s0 = 8192 : i64}} {
func.func @head(%x: !sym.t<[s0, 768], bf16, device=cuda:0>, %w: !sym.t<[768, 50257], bf16, strides=[1, 768], device=cuda:0>) -> !sym.t<[s0, 50257], bf16, device=cuda:0> {
  %r = aten.mm(%x, %w) : (!sym.t<[s0, 768], bf16, device=cuda:0>, !sym.t<[768, 50257], bf16, strides=[1, 768], device=cuda:0>) -> !sym.t<[s0, 50257], bf16, device=cuda:0>
  func.return %r : !sym.t<[s0, 50257], bf16, device=cuda:0>
}

// Its gradient: both factors are padded along the sum, the result is as it was. A bias stays where no column is added.
// CHECK-LABEL: func.func @gradient(
// CHECK-NEXT: [[A:%\w+]] = aten.constant_pad_nd(%x, [0, 7, 0, 0]) : {{.*}} -> !sym.t<[s0, 50264], bf16, device=cuda:0>
// CHECK-NEXT: [[B:%\w+]] = aten.constant_pad_nd(%w, [0, 0, 0, 7]) : {{.*}} -> !sym.t<[50264, 768], bf16, device=cuda:0>
// CHECK-NEXT: [[P:%\w+]] = aten.addmm(%b, [[A]], [[B]]) : {{.*}} -> !sym.t<[s0, 768], bf16, device=cuda:0>
// CHECK-NEXT: func.return [[P]]
func.func @gradient(%b: !sym.t<[768], bf16, device=cuda:0>, %x: !sym.t<[s0, 50257], bf16, device=cuda:0>, %w: !sym.t<[50257, 768], bf16, device=cuda:0>) -> !sym.t<[s0, 768], bf16, device=cuda:0> {
  %r = aten.addmm(%b, %x, %w) : (!sym.t<[768], bf16, device=cuda:0>, !sym.t<[s0, 50257], bf16, device=cuda:0>, !sym.t<[50257, 768], bf16, device=cuda:0>) -> !sym.t<[s0, 768], bf16, device=cuda:0>
  func.return %r : !sym.t<[s0, 768], bf16, device=cuda:0>
}

// A bias of the padded columns is padded with them.
// CHECK-LABEL: func.func @bias(
// CHECK: [[B:%\w+]] = aten.constant_pad_nd(%b, [0, 7]) : {{.*}} -> !sym.t<[4104], bf16, device=cuda:0>
// CHECK: aten.addmm([[B]],
func.func @bias(%b: !sym.t<[4097], bf16, device=cuda:0>, %x: !sym.t<[s0, 4096], bf16, device=cuda:0>, %w: !sym.t<[4096, 4097], bf16, device=cuda:0>) -> !sym.t<[s0, 4097], bf16, device=cuda:0> {
  %r = aten.addmm(%b, %x, %w) : (!sym.t<[4097], bf16, device=cuda:0>, !sym.t<[s0, 4096], bf16, device=cuda:0>, !sym.t<[4096, 4097], bf16, device=cuda:0>) -> !sym.t<[s0, 4097], bf16, device=cuda:0>
  func.return %r : !sym.t<[s0, 4097], bf16, device=cuda:0>
}

// Small products, aligned ones, f32, the CPU and what becomes a kernel of ours stay.
// CHECK-LABEL: func.func @left(
// CHECK-NOT: constant_pad_nd
func.func @left(%x: !sym.t<[16, 100], bf16, device=cuda:0>, %w: !sym.t<[100, 33], bf16, device=cuda:0>, %a: !sym.t<[8192, 4096], bf16, device=cuda:0>, %f: !sym.t<[8192, 4095], f32, device=cuda:0>, %c: !sym.t<[8192, 4095], bf16>, %h: !sym.t<[8192, 768], bf16, device=cuda:0>, %g: !sym.t<[768, 50257], bf16, strides=[1, 768], device=cuda:0>) -> (!sym.t<[8192, 50257], bf16, device=cuda:0>, !sym.t<[16, 33], bf16, device=cuda:0>, !sym.t<[8192, 8192], bf16, device=cuda:0>, !sym.t<[8192, 8192], f32, device=cuda:0>, !sym.t<[8192, 8192], bf16>) {
  %at = aten.t(%a) : (!sym.t<[8192, 4096], bf16, device=cuda:0>) -> !sym.t<[4096, 8192], bf16, strides=[1, 4096], device=cuda:0>
  %ft = aten.t(%f) : (!sym.t<[8192, 4095], f32, device=cuda:0>) -> !sym.t<[4095, 8192], f32, strides=[1, 4095], device=cuda:0>
  %ct = aten.t(%c) : (!sym.t<[8192, 4095], bf16>) -> !sym.t<[4095, 8192], bf16, strides=[1, 4095]>
  %k = aten.mm(%h, %g) {lamella.product = "generated"} : (!sym.t<[8192, 768], bf16, device=cuda:0>, !sym.t<[768, 50257], bf16, strides=[1, 768], device=cuda:0>) -> !sym.t<[8192, 50257], bf16, device=cuda:0>
  %r = aten.mm(%x, %w) : (!sym.t<[16, 100], bf16, device=cuda:0>, !sym.t<[100, 33], bf16, device=cuda:0>) -> !sym.t<[16, 33], bf16, device=cuda:0>
  %s = aten.mm(%a, %at) : (!sym.t<[8192, 4096], bf16, device=cuda:0>, !sym.t<[4096, 8192], bf16, strides=[1, 4096], device=cuda:0>) -> !sym.t<[8192, 8192], bf16, device=cuda:0>
  %u = aten.mm(%f, %ft) : (!sym.t<[8192, 4095], f32, device=cuda:0>, !sym.t<[4095, 8192], f32, strides=[1, 4095], device=cuda:0>) -> !sym.t<[8192, 8192], f32, device=cuda:0>
  %v = aten.mm(%c, %ct) : (!sym.t<[8192, 4095], bf16>, !sym.t<[4095, 8192], bf16, strides=[1, 4095]>) -> !sym.t<[8192, 8192], bf16>
  func.return %k, %r, %s, %u, %v : !sym.t<[8192, 50257], bf16, device=cuda:0>, !sym.t<[16, 33], bf16, device=cuda:0>, !sym.t<[8192, 8192], bf16, device=cuda:0>, !sym.t<[8192, 8192], f32, device=cuda:0>, !sym.t<[8192, 8192], bf16>
}

// Two gradients of one tensor, as it is and transposed, whose rows are padded once: the columns of the one factor are
// the rows of the other. Rows behind the last are cut off without a copy.
// CHECK-LABEL: func.func @gradients(
// CHECK: [[G:%\w+]] = aten.constant_pad_nd(%g, [0, 7, 0, 0]) : (!sym.t<[8192, 50257], bf16, device=cuda:0>) -> !sym.t<[8192, 50264], bf16, device=cuda:0>
// CHECK-NEXT: [[T:%\w+]] = aten.t([[G]]) : {{.*}} -> !sym.t<[50264, 8192], bf16, strides=[1, 50264], device=cuda:0>
// CHECK-NEXT: [[P:%\w+]] = aten.mm([[T]], %x) : {{.*}} -> !sym.t<[50264, 768], bf16, device=cuda:0>
// CHECK-NEXT: [[R:%\w+]] = aten.slice.Tensor([[P]], start = 0, end = 50257) : {{.*}} -> !sym.t<[50257, 768], bf16, device=cuda:0>
// CHECK-NOT: aten.constant_pad_nd(%g
// CHECK: [[W:%\w+]] = aten.constant_pad_nd(%w, [0, 0, 0, 7])
// CHECK-NEXT: [[S:%\w+]] = aten.mm([[G]], [[W]])
// CHECK-NEXT: func.return [[R]], [[S]]
func.func @gradients(%g: !sym.t<[8192, 50257], bf16, device=cuda:0>, %x: !sym.t<[8192, 768], bf16, device=cuda:0>, %w: !sym.t<[50257, 768], bf16, device=cuda:0>) -> (!sym.t<[50257, 768], bf16, device=cuda:0>, !sym.t<[8192, 768], bf16, device=cuda:0>) {
  %t = aten.t(%g) : (!sym.t<[8192, 50257], bf16, device=cuda:0>) -> !sym.t<[50257, 8192], bf16, strides=[1, 50257], device=cuda:0>
  %r = aten.mm(%t, %x) : (!sym.t<[50257, 8192], bf16, strides=[1, 50257], device=cuda:0>, !sym.t<[8192, 768], bf16, device=cuda:0>) -> !sym.t<[50257, 768], bf16, device=cuda:0>
  %s = aten.mm(%g, %w) : (!sym.t<[8192, 50257], bf16, device=cuda:0>, !sym.t<[50257, 768], bf16, device=cuda:0>) -> !sym.t<[8192, 768], bf16, device=cuda:0>
  func.return %r, %s : !sym.t<[50257, 768], bf16, device=cuda:0>, !sym.t<[8192, 768], bf16, device=cuda:0>
}

// What a kernel makes is in memory once: the sum that follows reads the padded tensor. An argument is read where it is.
// CHECK-LABEL: func.func @bias_gradient(
// CHECK: [[E:%\w+]] = aten.exp(%g)
// CHECK-NEXT: [[G:%\w+]] = aten.constant_pad_nd([[E]], [0, 7, 0, 0])
// CHECK: aten.mm([[G]],
// CHECK-NEXT: [[C:%\w+]] = aten.slice.Tensor([[G]], 1, 0, 50257) : {{.*}} -> !sym.t<[8192, 50257], bf16, strides=[50264, 1], device=cuda:0>
// CHECK-NEXT: aten.sum.dim_IntList([[C]], [0])
// CHECK: [[H:%\w+]] = aten.constant_pad_nd(%h, [0, 7, 0, 0])
// CHECK: aten.mm([[H]],
// CHECK-NEXT: aten.sum.dim_IntList(%h, [0])
func.func @bias_gradient(%g: !sym.t<[8192, 50257], bf16, device=cuda:0>, %h: !sym.t<[8192, 50257], bf16, device=cuda:0>, %w: !sym.t<[50257, 768], bf16, device=cuda:0>) -> (!sym.t<[8192, 768], bf16, device=cuda:0>, !sym.t<[50257], bf16, device=cuda:0>, !sym.t<[8192, 768], bf16, device=cuda:0>, !sym.t<[50257], bf16, device=cuda:0>) {
  %e = aten.exp(%g) : (!sym.t<[8192, 50257], bf16, device=cuda:0>) -> !sym.t<[8192, 50257], bf16, device=cuda:0>
  %r = aten.mm(%e, %w) : (!sym.t<[8192, 50257], bf16, device=cuda:0>, !sym.t<[50257, 768], bf16, device=cuda:0>) -> !sym.t<[8192, 768], bf16, device=cuda:0>
  %s = aten.sum.dim_IntList(%e, [0]) : (!sym.t<[8192, 50257], bf16, device=cuda:0>) -> !sym.t<[50257], bf16, device=cuda:0>
  %p = aten.mm(%h, %w) : (!sym.t<[8192, 50257], bf16, device=cuda:0>, !sym.t<[50257, 768], bf16, device=cuda:0>) -> !sym.t<[8192, 768], bf16, device=cuda:0>
  %q = aten.sum.dim_IntList(%h, [0]) : (!sym.t<[8192, 50257], bf16, device=cuda:0>) -> !sym.t<[50257], bf16, device=cuda:0>
  func.return %r, %s, %p, %q : !sym.t<[8192, 768], bf16, device=cuda:0>, !sym.t<[50257], bf16, device=cuda:0>, !sym.t<[8192, 768], bf16, device=cuda:0>, !sym.t<[50257], bf16, device=cuda:0>
}
}
