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

// What takes as many steps as its operands say is one function.
// CHECK-LABEL: func.func @steps(
// CHECK-NEXT: [[A:%\w+]] = prims.convert %a : !sym.t<[s0], bf16> -> !sym.t<[s0], f32>
// CHECK-NEXT: [[X:%\w+]] = prims.convert %x : !sym.t<[s0], bf16> -> !sym.t<[s0], f32>
// CHECK-NEXT: [[P:%\w+]] = prims.igamma [[A]], [[X]] : !sym.t<[s0], f32>
// CHECK-NEXT: prims.convert [[P]] {rounding} : !sym.t<[s0], f32> -> !sym.t<[s0], bf16>
// CHECK-NEXT: [[N:%\w+]] = prims.convert %n : !sym.t<[s0], i64> -> !sym.t<[s0], f32>
// CHECK-NEXT: [[TWO:%\w+]] = prims.full {value = 2.0}
// CHECK-NEXT: prims.hermite_he [[TWO]], [[N]] : !sym.t<[s0], f32>
func.func @steps(%a: !sym.t<[s0], bf16>, %x: !sym.t<[s0], bf16>, %n: !sym.t<[s0], i64>) -> (!sym.t<[s0], bf16>, !sym.t<[s0], f32>) {
  %r = aten.igamma(%a, %x) : (!sym.t<[s0], bf16>, !sym.t<[s0], bf16>) -> !sym.t<[s0], bf16>
  %h = aten.special_hermite_polynomial_he.x_scalar(2, %n) : (!sym.t<[s0], i64>) -> !sym.t<[s0], f32>
  func.return %r, %h : !sym.t<[s0], bf16>, !sym.t<[s0], f32>
}

// There are no such functions on a GPU.
// CHECK-LABEL: func.func @gpu(
// CHECK-NEXT: aten.igammac
// CHECK-NEXT: func.return
func.func @gpu(%a: !sym.t<[8], f32, device=cuda:0>) -> !sym.t<[8], f32, device=cuda:0> {
  %r = aten.igammac(%a, %a) : (!sym.t<[8], f32, device=cuda:0>, !sym.t<[8], f32, device=cuda:0>) -> !sym.t<[8], f32, device=cuda:0>
  func.return %r : !sym.t<[8], f32, device=cuda:0>
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
