// RUN: lamella-opt %s -p 'prims-canonicalize' | filecheck %s
// What is checked: identities of real numbers that NaN, infinities or the sign of zero break are not used on floats.

// x * 0 is NaN for NaN and infinities, -0.0 for negative x.
// CHECK-LABEL: func.func @times_zero(
// CHECK: prims.mul
func.func @times_zero(%x: !sym.t<[4], f32>) -> !sym.t<[4], f32> {
  %z = prims.full {value = 0.0} : !sym.t<[4], f32>
  %r = prims.mul %x, %z : !sym.t<[4], f32>
  func.return %r : !sym.t<[4], f32>
}

// CHECK-LABEL: func.func @minus_itself(
// CHECK: prims.sub
func.func @minus_itself(%x: !sym.t<[4], f32>) -> !sym.t<[4], f32> {
  %r = prims.sub %x, %x : !sym.t<[4], f32>
  func.return %r : !sym.t<[4], f32>
}

// CHECK-LABEL: func.func @divided_by_itself(
// CHECK: prims.div
func.func @divided_by_itself(%x: !sym.t<[4], f32>) -> !sym.t<[4], f32> {
  %r = prims.div %x, %x : !sym.t<[4], f32>
  func.return %r : !sym.t<[4], f32>
}

// A NaN is not equal to itself.
// CHECK-LABEL: func.func @equals_itself(
// CHECK: prims.eq
func.func @equals_itself(%x: !sym.t<[4], f32>) -> !sym.t<[4], i1> {
  %r = prims.eq %x, %x : !sym.t<[4], f32> -> !sym.t<[4], i1>
  func.return %r : !sym.t<[4], i1>
}

// CHECK-LABEL: func.func @twice_negated(
// CHECK-NEXT: [[R:%\w+]] = prims.{{neg|convert}}
func.func @twice_negated(%x: !sym.t<[4], f32>) -> !sym.t<[4], f32> {
  %a = prims.neg %x : !sym.t<[4], f32>
  %r = prims.neg %a : !sym.t<[4], f32>
  func.return %r : !sym.t<[4], f32>
}

// The exponential of the logarithm is NaN for negative x.
// CHECK-LABEL: func.func @exp_of_log(
// CHECK: prims.log
// CHECK: prims.exp
func.func @exp_of_log(%x: !sym.t<[4], f32>) -> !sym.t<[4], f32> {
  %a = prims.log %x : !sym.t<[4], f32>
  %r = prims.exp %a : !sym.t<[4], f32>
  func.return %r : !sym.t<[4], f32>
}
