// RUN: lamella-opt %s -p 'aten-to-prims{halves=true}' | filecheck %s
// RUN: lamella-opt %s -p 'aten-to-prims' | filecheck %s --check-prefix=WIDE
// A GPU that adds halves in memory does so where eager rounds after each sum: not for other kinds, nor on a CPU.

// CHECK-LABEL: func.func @scatter_add(
// CHECK-NOT:   prims.convert
// CHECK:       prims.scatter %x[%i], %y {index = [i0], combine = add
// CHECK-NEXT:  func.return
// WIDE-LABEL:  func.func @scatter_add(
// WIDE:        prims.scatter {{.*}}, f32, device=cuda:0>
func.func @scatter_add(%x: !sym.t<[8], bf16, device=cuda:0>, %i: !sym.t<[4], i64, device=cuda:0>, %y: !sym.t<[4], bf16, device=cuda:0>) -> !sym.t<[8], bf16, device=cuda:0> {
  %r = aten.scatter_add(%x, 0, %i, %y) : (!sym.t<[8], bf16, device=cuda:0>, !sym.t<[4], i64, device=cuda:0>, !sym.t<[4], bf16, device=cuda:0>) -> !sym.t<[8], bf16, device=cuda:0>
  func.return %r : !sym.t<[8], bf16, device=cuda:0>
}

// CHECK-LABEL: func.func @index_add(
// CHECK:       prims.scatter %x[{{.*}}], {{.*}} {index = [i0, d1], combine = add{{.*}}f16, device=cuda:0>
func.func @index_add(%x: !sym.t<[8, 2], f16, device=cuda:0>, %i: !sym.t<[4], i64, device=cuda:0>, %y: !sym.t<[4, 2], f16, device=cuda:0>) -> !sym.t<[8, 2], f16, device=cuda:0> {
  %r = aten.index_add(%x, 0, %i, %y, alpha = 2) : (!sym.t<[8, 2], f16, device=cuda:0>, !sym.t<[4], i64, device=cuda:0>, !sym.t<[4, 2], f16, device=cuda:0>) -> !sym.t<[8, 2], f16, device=cuda:0>
  func.return %r : !sym.t<[8, 2], f16, device=cuda:0>
}

// Eager sorts these, and sums in f32.
// CHECK-LABEL: func.func @index_put(
// CHECK:       prims.scatter {{.*}}combine = add{{.*}}f32, device=cuda:0>
func.func @index_put(%x: !sym.t<[8], bf16, device=cuda:0>, %i: !sym.t<[4], i64, device=cuda:0>, %y: !sym.t<[4], bf16, device=cuda:0>) -> !sym.t<[8], bf16, device=cuda:0> {
  %r = aten.index_put(%x, [%i], %y, true) : (!sym.t<[8], bf16, device=cuda:0>, !sym.t<[4], i64, device=cuda:0>, !sym.t<[4], bf16, device=cuda:0>) -> !sym.t<[8], bf16, device=cuda:0>
  func.return %r : !sym.t<[8], bf16, device=cuda:0>
}

// CHECK-LABEL: func.func @product(
// CHECK:       prims.scatter {{.*}}combine = mul{{.*}}f32, device=cuda:0>
func.func @product(%x: !sym.t<[8], bf16, device=cuda:0>, %i: !sym.t<[4], i64, device=cuda:0>, %y: !sym.t<[4], bf16, device=cuda:0>) -> !sym.t<[8], bf16, device=cuda:0> {
  %r = aten.scatter_reduce.two(%x, 0, %i, %y, "prod") : (!sym.t<[8], bf16, device=cuda:0>, !sym.t<[4], i64, device=cuda:0>, !sym.t<[4], bf16, device=cuda:0>) -> !sym.t<[8], bf16, device=cuda:0>
  func.return %r : !sym.t<[8], bf16, device=cuda:0>
}

// CHECK-LABEL: func.func @on_a_cpu(
// CHECK:       prims.scatter {{.*}}combine = add{{.*}}f32>
func.func @on_a_cpu(%x: !sym.t<[8], bf16>, %i: !sym.t<[4], i64>, %y: !sym.t<[4], bf16>) -> !sym.t<[8], bf16> {
  %r = aten.scatter_add(%x, 0, %i, %y) : (!sym.t<[8], bf16>, !sym.t<[4], i64>, !sym.t<[4], bf16>) -> !sym.t<[8], bf16>
  func.return %r : !sym.t<[8], bf16>
}
