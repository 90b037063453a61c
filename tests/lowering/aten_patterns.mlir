// RUN: lamella-opt %s -p aten-patterns | filecheck %s
// What is checked: sizes of a pattern stand for any, a number of its arguments too; two results; operands that are swapped; what
// does not match: another number, a value that is used elsewhere, another dtype, a size that two arguments have in common.

// CHECK: lamella.decisions = ["pattern scaled: 3 x"
// CHECK-NOT: @pattern
func.func private @pattern.scaled.search(%a: !sym.t<[s0, s1], f32>, %b: !sym.t<[s0, s1], f32>, %e: !sym.int<z0, f64>) -> (!sym.t<[s0, s1], f32>, !sym.t<[s0], f32>) {
  %0 = aten.mul.Tensor(%a, %b) : (!sym.t<[s0, s1], f32>, !sym.t<[s0, s1], f32>) -> !sym.t<[s0, s1], f32>
  %1 = aten.exp(%0) : (!sym.t<[s0, s1], f32>) -> !sym.t<[s0, s1], f32>
  %2 = aten.add.Scalar(%1, z0) : (!sym.t<[s0, s1], f32>) -> !sym.t<[s0, s1], f32>
  %3 = aten.sum.dim_IntList(%0, [1]) : (!sym.t<[s0, s1], f32>) -> !sym.t<[s0], f32>
  func.return %2, %3 : !sym.t<[s0, s1], f32>, !sym.t<[s0], f32>
}
func.func private @pattern.scaled.replace(%a: !sym.t<[s3, s4], f32>, %b: !sym.t<[s3, s4], f32>, %e: !sym.int<z1, f64>) -> (!sym.t<[s3, s4], f32>, !sym.t<[s3], f32>) {
  %0 = aten.sub.Tensor(%a, %b) : (!sym.t<[s3, s4], f32>, !sym.t<[s3, s4], f32>) -> !sym.t<[s3, s4], f32>
  %1 = aten.mul.Scalar(%0, 2*z1) : (!sym.t<[s3, s4], f32>) -> !sym.t<[s3, s4], f32>
  %2 = aten.sum.dim_IntList(%b, [1]) : (!sym.t<[s3, s4], f32>) -> !sym.t<[s3], f32>
  func.return %1, %2 : !sym.t<[s3, s4], f32>, !sym.t<[s3], f32>
}

// CHECK-LABEL: func.func @fixed(
func.func @fixed(%x: !sym.t<[2, 3], f32>, %y: !sym.t<[2, 3], f32>) -> (!sym.t<[2], f32>, !sym.t<[2, 3], f32>) {
  // CHECK-NEXT: [[D:%\w+]] = aten.sub.Tensor(%x, %y)
  // CHECK-NEXT: [[M:%\w+]] = aten.mul.Scalar([[D]], 1.0)
  // CHECK-NEXT: [[S:%\w+]] = aten.sum.dim_IntList(%y, [1])
  // CHECK-NEXT: func.return [[S]], [[M]]
  %0 = aten.mul.Tensor(%x, %y) : (!sym.t<[2, 3], f32>, !sym.t<[2, 3], f32>) -> !sym.t<[2, 3], f32>
  %3 = aten.sum.dim_IntList(%0, [1]) : (!sym.t<[2, 3], f32>) -> !sym.t<[2], f32>
  %1 = aten.exp(%0) : (!sym.t<[2, 3], f32>) -> !sym.t<[2, 3], f32>
  %2 = aten.add.Scalar(%1, 0.5) : (!sym.t<[2, 3], f32>) -> !sym.t<[2, 3], f32>
  func.return %3, %2 : !sym.t<[2], f32>, !sym.t<[2, 3], f32>
}

// CHECK-LABEL: func.func @in_a_branch(
func.func @in_a_branch(%p: !sym.t<[], i1>, %x: !sym.t<[s7, 3], f32>) -> (!sym.t<[s7], f32>, !sym.t<[s7, 3], f32>) {
  // CHECK: then
  // CHECK-NEXT: aten.sub.Tensor
  // CHECK: else
  // CHECK-NEXT: aten.sub.Tensor
  %4, %5 = flow.if(%p, %x) : (!sym.t<[], i1>, !sym.t<[s7, 3], f32>) -> (!sym.t<[s7], f32>, !sym.t<[s7, 3], f32>)
  then (%a: !sym.t<[s7, 3], f32>) {
    %0 = aten.mul.Tensor(%a, %a) : (!sym.t<[s7, 3], f32>, !sym.t<[s7, 3], f32>) -> !sym.t<[s7, 3], f32>
    %3 = aten.sum.dim_IntList(%0, [1]) : (!sym.t<[s7, 3], f32>) -> !sym.t<[s7], f32>
    %1 = aten.exp(%0) : (!sym.t<[s7, 3], f32>) -> !sym.t<[s7, 3], f32>
    %2 = aten.add.Scalar(%1, 0.5) : (!sym.t<[s7, 3], f32>) -> !sym.t<[s7, 3], f32>
    flow.yield(%3, %2) : !sym.t<[s7], f32>, !sym.t<[s7, 3], f32>
  } else (%a: !sym.t<[s7, 3], f32>) {
    %0 = aten.mul.Tensor(%a, %a) : (!sym.t<[s7, 3], f32>, !sym.t<[s7, 3], f32>) -> !sym.t<[s7, 3], f32>
    %1 = aten.exp(%0) : (!sym.t<[s7, 3], f32>) -> !sym.t<[s7, 3], f32>
    %2 = aten.add.Scalar(%1, 0.25) : (!sym.t<[s7, 3], f32>) -> !sym.t<[s7, 3], f32>
    %3 = aten.sum.dim_IntList(%0, [1]) : (!sym.t<[s7, 3], f32>) -> !sym.t<[s7], f32>
    flow.yield(%3, %2) : !sym.t<[s7], f32>, !sym.t<[s7, 3], f32>
  }
  func.return %4, %5 : !sym.t<[s7], f32>, !sym.t<[s7, 3], f32>
}

// The product is a result of the function too.
// CHECK-LABEL: func.func @used_elsewhere(
// CHECK-NOT: aten.sub.Tensor
func.func @used_elsewhere(%x: !sym.t<[2, 3], f32>) -> (!sym.t<[2], f32>, !sym.t<[2, 3], f32>, !sym.t<[2, 3], f32>) {
  %0 = aten.mul.Tensor(%x, %x) : (!sym.t<[2, 3], f32>, !sym.t<[2, 3], f32>) -> !sym.t<[2, 3], f32>
  %3 = aten.sum.dim_IntList(%0, [1]) : (!sym.t<[2, 3], f32>) -> !sym.t<[2], f32>
  %1 = aten.exp(%0) : (!sym.t<[2, 3], f32>) -> !sym.t<[2, 3], f32>
  %2 = aten.add.Scalar(%1, 0.5) : (!sym.t<[2, 3], f32>) -> !sym.t<[2, 3], f32>
  func.return %3, %2, %0 : !sym.t<[2], f32>, !sym.t<[2, 3], f32>, !sym.t<[2, 3], f32>
}

// Another dim is summed up, then another dtype, then sizes that are not the same.
// CHECK-LABEL: func.func @others(
// CHECK-NOT: aten.sub.Tensor
func.func @others(%x: !sym.t<[3, 3], f32>, %z: !sym.t<[3, 3], f64>, %r: !sym.t<[1, 3], f32>) -> (!sym.t<[3], f32>, !sym.t<[3, 3], f32>, !sym.t<[3], f64>, !sym.t<[3, 3], f64>, !sym.t<[3], f32>, !sym.t<[3, 3], f32>) {
  %0 = aten.mul.Tensor(%x, %x) : (!sym.t<[3, 3], f32>, !sym.t<[3, 3], f32>) -> !sym.t<[3, 3], f32>
  %3 = aten.sum.dim_IntList(%0, [0]) : (!sym.t<[3, 3], f32>) -> !sym.t<[3], f32>
  %1 = aten.exp(%0) : (!sym.t<[3, 3], f32>) -> !sym.t<[3, 3], f32>
  %2 = aten.add.Scalar(%1, 0.5) : (!sym.t<[3, 3], f32>) -> !sym.t<[3, 3], f32>
  %4 = aten.mul.Tensor(%z, %z) : (!sym.t<[3, 3], f64>, !sym.t<[3, 3], f64>) -> !sym.t<[3, 3], f64>
  %5 = aten.sum.dim_IntList(%4, [1]) : (!sym.t<[3, 3], f64>) -> !sym.t<[3], f64>
  %6 = aten.exp(%4) : (!sym.t<[3, 3], f64>) -> !sym.t<[3, 3], f64>
  %7 = aten.add.Scalar(%6, 0.5) : (!sym.t<[3, 3], f64>) -> !sym.t<[3, 3], f64>
  %8 = aten.mul.Tensor(%x, %r) : (!sym.t<[3, 3], f32>, !sym.t<[1, 3], f32>) -> !sym.t<[3, 3], f32>
  %9 = aten.sum.dim_IntList(%8, [1]) : (!sym.t<[3, 3], f32>) -> !sym.t<[3], f32>
  %10 = aten.exp(%8) : (!sym.t<[3, 3], f32>) -> !sym.t<[3, 3], f32>
  %11 = aten.add.Scalar(%10, 0.5) : (!sym.t<[3, 3], f32>) -> !sym.t<[3, 3], f32>
  func.return %3, %2, %5, %7, %9, %11 : !sym.t<[3], f32>, !sym.t<[3, 3], f32>, !sym.t<[3], f64>, !sym.t<[3, 3], f64>, !sym.t<[3], f32>, !sym.t<[3, 3], f32>
}
