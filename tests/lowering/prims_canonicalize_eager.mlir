// RUN: lamella-opt %s -p 'prims-canonicalize{numerics=eager}' | filecheck %s
// numerics=eager rounds where eager does.

// CHECK-LABEL: func.func @rounding(
// CHECK-NEXT: [[C:%\w+]] = prims.convert %x {rounding} : !sym.t<[4], f32> -> !sym.t<[4], bf16>
// CHECK-NEXT: [[D:%\w+]] = prims.convert [[C]] : !sym.t<[4], bf16> -> !sym.t<[4], f32>
// CHECK-NEXT: [[R:%\w+]] = prims.neg [[D]] : !sym.t<[4], f32>
// CHECK-NEXT: func.return [[R]] : !sym.t<[4], f32>
func.func @rounding(%x: !sym.t<[4], f32>) -> !sym.t<[4], f32> {
  %c = prims.convert %x {rounding} : !sym.t<[4], f32> -> !sym.t<[4], bf16>
  %d = prims.convert %c : !sym.t<[4], bf16> -> !sym.t<[4], f32>
  %r = prims.neg %d : !sym.t<[4], f32>
  func.return %r : !sym.t<[4], f32>
}

// Sums keep their order.
// CHECK-LABEL: func.func @tied(
// CHECK: prims.full
// CHECK: prims.scatter
// CHECK: prims.add
func.func @tied(%a: !sym.t<[8, 4], f32>, %b: !sym.t<[4, 6], f32>, %i: !sym.t<[3, 6], i64>, %v: !sym.t<[3, 6], f32>) -> !sym.t<[8, 6], f32> {
  %m = aten.mm(%a, %b) : (!sym.t<[8, 4], f32>, !sym.t<[4, 6], f32>) -> !sym.t<[8, 6], f32>
  %z = prims.full {value = 0.0} : !sym.t<[8, 6], f32>
  %s = prims.scatter %z[%i], %v {index = [i0, d1], combine = add} : !sym.t<[8, 6], f32>, !sym.t<[3, 6], i64>, !sym.t<[3, 6], f32> -> !sym.t<[8, 6], f32>
  %r = prims.add %s, %m : !sym.t<[8, 6], f32>
  func.return %r : !sym.t<[8, 6], f32>
}
