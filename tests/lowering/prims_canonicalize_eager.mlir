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
