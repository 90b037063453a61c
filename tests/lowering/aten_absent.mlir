// RUN: lamella-opt %s -p 'aten-absent' | filecheck %s
// The gradient of logits beside that of a loss: what is added to nothing is as it was. The argument goes, with what was
// computed from it alone.

// CHECK: lamella.decisions = ["gradients that are not given: 1, zeros of 512 B that are not made", "gradients that are not given: 1, zeros of 64 B that are not made", "gradients that are not given: 1, zeros of 96 B that are not made"]
// CHECK-LABEL: func.func @loss(
// CHECK-SAME: %g: !sym.t<[8, 16], f32>, %w: !sym.t<[16, 4], f32> {lamella.name = "w"}) -> !sym.t<[8, 4], f32> {
// CHECK-NEXT: [[M:%\w+]] = aten.mm(%g, %w)
// CHECK-NEXT: func.return [[M]]
func.func @loss(%g: !sym.t<[8, 16], f32>, %logits: !sym.t<[8, 16], f32> {lamella.absent}, %w: !sym.t<[16, 4], f32> {lamella.name = "w"}) -> !sym.t<[8, 4], f32> {
  %half = aten.mul.Tensor(%logits, 0.5) : (!sym.t<[8, 16], f32>) -> !sym.t<[8, 16], f32>
  %s = aten.add.Tensor(%half, %g) : (!sym.t<[8, 16], f32>, !sym.t<[8, 16], f32>) -> !sym.t<[8, 16], f32>
  %m = aten.mm(%s, %w) : (!sym.t<[8, 16], f32>, !sym.t<[16, 4], f32>) -> !sym.t<[8, 4], f32>
  func.return %m : !sym.t<[8, 4], f32>
}

// A branch that nobody uses has no products: what leaves is zeros, in the layout that it had.
// CHECK-LABEL: func.func @branch(
// CHECK-SAME: %g: !sym.t<[2, 8], f32>, %h: !sym.t<[2, 8], f32>, %w: !sym.t<[8, 8], f32>)
// CHECK-NEXT: [[Z:%\w+]] = aten.full([8, 8], 0.0, dtype = f32, device = "cpu")
// CHECK-NEXT: [[T:%\w+]] = aten.permute([[Z]], [1, 0]) : (!sym.t<[8, 8], f32>) -> !sym.t<[8, 8], f32, strides=[1, 8]>
// CHECK-NEXT: [[C:%\w+]] = aten.clone(%g, memory_format = contiguous_format)
// CHECK-NEXT: func.return [[T]], [[C]]
func.func @branch(%pooled: !sym.t<[2, 8], f32> {lamella.absent}, %g: !sym.t<[2, 8], f32>, %h: !sym.t<[2, 8], f32>, %w: !sym.t<[8, 8], f32>) -> (!sym.t<[8, 8], f32, strides=[1, 8]>, !sym.t<[2, 8], f32>) {
  %b = aten.tanh_backward(%pooled, %h) : (!sym.t<[2, 8], f32>, !sym.t<[2, 8], f32>) -> !sym.t<[2, 8], f32>
  %t = aten.t(%b) : (!sym.t<[2, 8], f32>) -> !sym.t<[8, 2], f32, strides=[1, 8]>
  %m = aten.mm(%t, %h) : (!sym.t<[8, 2], f32, strides=[1, 8]>, !sym.t<[2, 8], f32>) -> !sym.t<[8, 8], f32>
  %mt = aten.t(%m) : (!sym.t<[8, 8], f32>) -> !sym.t<[8, 8], f32, strides=[1, 8]>
  %d = aten.mm(%b, %w) : (!sym.t<[2, 8], f32>, !sym.t<[8, 8], f32>) -> !sym.t<[2, 8], f32>
  %s = aten.add.Tensor(%g, %d) : (!sym.t<[2, 8], f32>, !sym.t<[2, 8], f32>) -> !sym.t<[2, 8], f32>
  func.return %mt, %s : !sym.t<[8, 8], f32, strides=[1, 8]>, !sym.t<[2, 8], f32>
}

// What is not a sum, or no sum of what is alike, reads zeros; a view with gaps is of zeros. A sum in another layout is
// a copy.
// CHECK-LABEL: func.func @others(
// CHECK-SAME: %x: !sym.t<[4, 6], f32, strides=[1, 4]>, %y: !sym.t<[6], f32>)
// CHECK-NEXT: [[Z:%\w+]] = aten.full([4, 6], 0.0, dtype = f32, device = "cpu")
// CHECK-NEXT: [[E:%\w+]] = aten.exp([[Z]])
// CHECK-NEXT: [[A:%\w+]] = aten.add.Tensor([[Z]], %y)
// CHECK-NEXT: [[C:%\w+]] = aten.clone(%x, memory_format = contiguous_format)
// CHECK-NEXT: [[L:%\w+]] = aten.slice.Tensor([[Z]], 1, 0, 3)
// CHECK-NEXT: func.return [[E]], [[A]], [[C]], [[L]]
func.func @others(%a: !sym.t<[4, 6], f32> {lamella.absent}, %x: !sym.t<[4, 6], f32, strides=[1, 4]>, %y: !sym.t<[6], f32>) -> (!sym.t<[4, 6], f32>, !sym.t<[4, 6], f32>, !sym.t<[4, 6], f32>, !sym.t<[4, 3], f32, strides=[6, 1]>) {
  %e = aten.exp(%a) : (!sym.t<[4, 6], f32>) -> !sym.t<[4, 6], f32>
  %b = aten.add.Tensor(%a, %y) : (!sym.t<[4, 6], f32>, !sym.t<[6], f32>) -> !sym.t<[4, 6], f32>
  %c = aten.add.Tensor(%x, %a) : (!sym.t<[4, 6], f32, strides=[1, 4]>, !sym.t<[4, 6], f32>) -> !sym.t<[4, 6], f32>
  %l = aten.slice.Tensor(%a, 1, 0, 3) : (!sym.t<[4, 6], f32>) -> !sym.t<[4, 3], f32, strides=[6, 1]>
  func.return %e, %b, %c, %l : !sym.t<[4, 6], f32>, !sym.t<[4, 6], f32>, !sym.t<[4, 6], f32>, !sym.t<[4, 3], f32, strides=[6, 1]>
}
