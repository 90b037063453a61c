// RUN: lamella-opt %s -p 'aten-to-prims' | filecheck %s
// Special functions are polynomials in f64.

// CHECK-LABEL: func.func @i0(
// CHECK-NEXT: [[X:%\w+]] = prims.convert %x : !sym.t<[s0], f32> -> !sym.t<[s0], f64>
// CHECK-NEXT: [[S:%\w+]] = prims.abs [[X]] : !sym.t<[s0], f64>
// CHECK-NEXT: [[E:%\w+]] = prims.exp [[S]] : !sym.t<[s0], f64>
// CHECK: prims.full {value = 8.0}
// CHECK-NEXT: [[NEAR:%\w+]] = prims.le
// CHECK: [[SCALED:%\w+]] = prims.select [[NEAR]]
// CHECK-NEXT: [[R:%\w+]] = prims.mul [[E]], [[SCALED]] : !sym.t<[s0], f64>
// CHECK-NEXT: [[SINGLE:%\w+]] = prims.convert [[R]] : !sym.t<[s0], f64> -> !sym.t<[s0], f32>
// CHECK-NEXT: func.return [[SINGLE]]
func.func @i0(%x: !sym.t<[s0], f32>) -> !sym.t<[s0], f32> {
  %r = aten.i0(%x) : (!sym.t<[s0], f32>) -> !sym.t<[s0], f32>
  func.return %r : !sym.t<[s0], f32>
}

// Cosines of 3 times an angle within [-1, 1], hyperbolic cosines outside of it.
// CHECK-LABEL: func.func @chebyshev(
// CHECK: prims.acos
// CHECK: prims.acosh
// CHECK: prims.cos
// CHECK: prims.cosh
// CHECK-NOT: aten.
func.func @chebyshev(%x: !sym.t<[s0], f32>) -> !sym.t<[s0], f32> {
  %r = aten.special_chebyshev_polynomial_t.n_scalar(%x, 3) : (!sym.t<[s0], f32>) -> !sym.t<[s0], f32>
  func.return %r : !sym.t<[s0], f32>
}
