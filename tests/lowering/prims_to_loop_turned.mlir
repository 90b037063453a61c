// RUN: lamella-opt %s -p 'prims-to-loop' | filecheck %s
// A padded matrix and its transpose, both for calls: it is copied once, the transpose is a view.

// CHECK-LABEL: func.func @both(
// CHECK: [[P:%\w+]] = loop.nest [d0 = 8, d1 = 16]
// CHECK: [[T:%\w+]] = loop.view [[P]] offset [0] : !sym.t<[8, 16], f32> -> !sym.t<[16, 8], f32, strides=[1, 16]>
// CHECK-NOT: loop.nest
// CHECK: aten.mm([[T]], %y)
// CHECK: aten.mm([[P]], %z)
func.func @both(%x: !sym.t<[8, 13], f32>, %y: !sym.t<[8, 4], f32>, %z: !sym.t<[16, 4], f32>) -> (!sym.t<[16, 4], f32>, !sym.t<[8, 4], f32>) {
  %p = prims.pad %x {low = [0, 0], high = [0, 3], value = 0.0} : !sym.t<[8, 13], f32> -> !sym.t<[8, 16], f32>
  %t = prims.transpose %p {perm = [1, 0]} : !sym.t<[8, 16], f32> -> !sym.t<[16, 8], f32, strides=[1, 16]>
  %r = aten.mm(%t, %y) : (!sym.t<[16, 8], f32, strides=[1, 16]>, !sym.t<[8, 4], f32>) -> !sym.t<[16, 4], f32>
  %s = aten.mm(%p, %z) : (!sym.t<[8, 16], f32>, !sym.t<[16, 4], f32>) -> !sym.t<[8, 4], f32>
  func.return %r, %s : !sym.t<[16, 4], f32>, !sym.t<[8, 4], f32>
}
