// RUN: lamella-opt %s | filecheck %s
// RUN: lamella-opt %s | lamella-opt - | filecheck %s
// RUN: lamella-opt %s --generic | lamella-opt - | filecheck %s
// What is checked: the text of prims, one op or form a line, is what is read back.

// CHECK: func.func @main(%x: !sym.t<[s0, 16], f32>, %i: !sym.t<[s0, 4], i64>, %s: !sym.t<[s0, 4], f32>) -> !sym.t<[s0], f32> {
// CHECK-NEXT: %y = prims.exp %x : !sym.t<[s0, 16], f32>
// CHECK-NEXT: %f = prims.full {value = -inf} : !sym.t<[s0, 16], f32>
// CHECK-NEXT: %f2 = prims.full {value = 2*s0 - 1} : !sym.t<[s0, 16], f32>
// CHECK-NEXT: %z = prims.add %y, %f : !sym.t<[s0, 16], f32>
// CHECK-NEXT: %c = prims.lt %y, %f : !sym.t<[s0, 16], f32> -> !sym.t<[s0, 16], i1>
// CHECK-NEXT: %fm = prims.fma %y, %z, %y : !sym.t<[s0, 16], f32>
// CHECK-NEXT: %se = prims.select %c, %y, %z : !sym.t<[s0, 16], i1>, !sym.t<[s0, 16], f32>, !sym.t<[s0, 16], f32> -> !sym.t<[s0, 16], f32>
// CHECK-NEXT: %h = prims.convert %se {rounding} : !sym.t<[s0, 16], f32> -> !sym.t<[s0, 16], bf16>
// CHECK-NEXT: %g = prims.gather %x[%i] {index = [d0, i0], message = "index out of range, \"x\" {"} : !sym.t<[s0, 16], f32>, !sym.t<[s0, 4], i64> -> !sym.t<[s0, 4], f32>
// CHECK-NEXT: %sc = prims.scatter %x[%i], %s {index = [d0, i0], combine = add} : !sym.t<[s0, 16], f32>, !sym.t<[s0, 4], i64>, !sym.t<[s0, 4], f32> -> !sym.t<[s0, 16], f32>
// CHECK-NEXT: %m, %v = prims.var_mean %x {dims = [1]} : !sym.t<[s0, 16], f32> -> !sym.t<[s0], f32>, !sym.t<[s0], f32>
// CHECK-NEXT: %r = prims.reduce %x {kind = sum, dims = [1]} : !sym.t<[s0, 16], f32> -> !sym.t<[s0], f32>
// CHECK-NEXT: %p = prims.pad %x {low = [0, 1], high = [s0, 0], value = 0.0} : !sym.t<[s0, 16], f32> -> !sym.t<[2*s0, 17], f32>
// CHECK-NEXT: %cc = prims.cat %x, %x {dim = 0} : !sym.t<[s0, 16], f32> -> !sym.t<[2*s0, 16], f32>
// CHECK-NEXT: %sl = prims.slice %x {start = [0, 2], stop = [s0, 16], step = [1, 3]} : !sym.t<[s0, 16], f32> -> !sym.t<[s0, 5], f32, strides=[16, 3]>
// CHECK-NEXT: %io = prims.iota {dim = 0} : !sym.t<[s0], i64>
// CHECK-NEXT: %ro = prims.round %x : !sym.t<[s0, 16], f32>
// CHECK-NEXT: %is = prims.isnan %x : !sym.t<[s0, 16], f32> -> !sym.t<[s0, 16], i1>
// CHECK-NEXT: %no = prims.not %is : !sym.t<[s0, 16], i1>
// CHECK-NEXT: %bi = prims.bitcast %x : !sym.t<[s0, 16], f32> -> !sym.t<[s0, 16], i32>
// CHECK-NEXT: %tr = prims.transpose %x {perm = [1, 0]} : !sym.t<[s0, 16], f32> -> !sym.t<[16, s0], f32, strides=[1, 16]>
// CHECK-NEXT: %re = prims.reshape %x : !sym.t<[s0, 16], f32> -> !sym.t<[16*s0], f32>
// CHECK-NEXT: %br = prims.broadcast %r {dims = [1]} : !sym.t<[s0], f32> -> !sym.t<[3, s0], f32>
// CHECK-NEXT: %fl = prims.flip %x {dims = [0, 1]} : !sym.t<[s0, 16], f32>
// CHECK-NEXT: %ge = prims.gather %x[] {index = [0, d0]} : !sym.t<[s0, 16], f32> -> !sym.t<[16], f32>
// CHECK-NEXT: %su = prims.subview %x {index = [2*d0, d0]} : !sym.t<[s0, 16], f32> -> !sym.t<[4], f32, strides=[33]>
// CHECK-NEXT: %sn = prims.scan %x {kind = logsumexp, dim = 1} : !sym.t<[s0, 16], f32>
// CHECK-NEXT: %so = prims.sort %i {dim = 1} : !sym.t<[s0, 4], i64> -> !sym.t<[s0, 3], i64>
// CHECK-NEXT: %at = prims.neg %x attributes {note = "kept"} : !sym.t<[s0, 16], f32>
// CHECK-NEXT: %fb = prims.full {value = true} : !sym.t<[], i1>
// CHECK-NEXT: %fe = prims.full {value = 1.0e-05} : !sym.t<[s0], f64>
// CHECK-NEXT: %do = prims.dot %x, %tr : !sym.t<[s0, 16], f32>, !sym.t<[16, s0], f32, strides=[1, 16]> -> !sym.t<[s0, s0], f32>
// CHECK-NEXT: func.return %r : !sym.t<[s0], f32>
func.func @main(%x: !sym.t<[s0, 16], f32>, %i: !sym.t<[s0, 4], i64>, %s: !sym.t<[s0, 4], f32>) -> !sym.t<[s0], f32> {
  %y = prims.exp %x : !sym.t<[s0, 16], f32>
  %f = prims.full {value = -inf} : !sym.t<[s0, 16], f32>
  %f2 = prims.full {value = 2*s0 - 1} : !sym.t<[s0, 16], f32>
  %z = prims.add %y, %f : !sym.t<[s0, 16], f32>
  %c = prims.lt %y, %f : !sym.t<[s0, 16], f32> -> !sym.t<[s0, 16], i1>
  %fm = prims.fma %y, %z, %y : !sym.t<[s0, 16], f32>
  %se = prims.select %c, %y, %z : !sym.t<[s0, 16], i1>, !sym.t<[s0, 16], f32>, !sym.t<[s0, 16], f32> -> !sym.t<[s0, 16], f32>
  %h = prims.convert %se {rounding} : !sym.t<[s0, 16], f32> -> !sym.t<[s0, 16], bf16>
  %g = prims.gather %x[%i] {index = [d0, i0], message = "index out of range, \"x\" {"} : !sym.t<[s0, 16], f32>, !sym.t<[s0, 4], i64> -> !sym.t<[s0, 4], f32>
  %sc = prims.scatter %x[%i], %s {index = [d0, i0], combine = add} : !sym.t<[s0, 16], f32>, !sym.t<[s0, 4], i64>, !sym.t<[s0, 4], f32> -> !sym.t<[s0, 16], f32>
  %m, %v = prims.var_mean %x {dims = [1]} : !sym.t<[s0, 16], f32> -> !sym.t<[s0], f32>, !sym.t<[s0], f32>
  %r = prims.reduce %x {kind = sum, dims = [1]} : !sym.t<[s0, 16], f32> -> !sym.t<[s0], f32>
  %p = prims.pad %x {low = [0, 1], high = [s0, 0], value = 0.0} : !sym.t<[s0, 16], f32> -> !sym.t<[2*s0, 17], f32>
  %cc = prims.cat %x, %x {dim = 0} : !sym.t<[s0, 16], f32> -> !sym.t<[2*s0, 16], f32>
  %sl = prims.slice %x {start = [0, 2], stop = [s0, 16], step = [1, 3]} : !sym.t<[s0, 16], f32> -> !sym.t<[s0, 5], f32, strides=[16, 3]>
  %io = prims.iota {dim = 0} : !sym.t<[s0], i64>
  %ro = prims.round %x : !sym.t<[s0, 16], f32>
  %is = prims.isnan %x : !sym.t<[s0, 16], f32> -> !sym.t<[s0, 16], i1>
  %no = prims.not %is : !sym.t<[s0, 16], i1>
  %bi = prims.bitcast %x : !sym.t<[s0, 16], f32> -> !sym.t<[s0, 16], i32>
  %tr = prims.transpose %x {perm = [1, 0]} : !sym.t<[s0, 16], f32> -> !sym.t<[16, s0], f32, strides=[1, 16]>
  %re = prims.reshape %x : !sym.t<[s0, 16], f32> -> !sym.t<[16*s0], f32>
  %br = prims.broadcast %r {dims = [1]} : !sym.t<[s0], f32> -> !sym.t<[3, s0], f32>
  %fl = prims.flip %x {dims = [0, 1]} : !sym.t<[s0, 16], f32>
  %ge = prims.gather %x[] {index = [0, d0]} : !sym.t<[s0, 16], f32> -> !sym.t<[16], f32>
  %su = prims.subview %x {index = [2*d0, d0]} : !sym.t<[s0, 16], f32> -> !sym.t<[4], f32, strides=[33]>
  %sn = prims.scan %x {kind = logsumexp, dim = 1} : !sym.t<[s0, 16], f32>
  %so = prims.sort %i {dim = 1} : !sym.t<[s0, 4], i64> -> !sym.t<[s0, 3], i64>
  %at = prims.neg %x attributes {note = "kept"} : !sym.t<[s0, 16], f32>
  %fb = prims.full {value = true} : !sym.t<[], i1>
  %fe = prims.full {value = 1.0e-05} : !sym.t<[s0], f64>
  %do = prims.dot %x, %tr : !sym.t<[s0, 16], f32>, !sym.t<[16, s0], f32, strides=[1, 16]> -> !sym.t<[s0, s0], f32>
  func.return %r : !sym.t<[s0], f32>
}
