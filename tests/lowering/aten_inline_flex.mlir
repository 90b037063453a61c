// RUN: lamella-opt %s -p aten-inline-flex | filecheck %s
// RUN: lamella-opt %s --to host | filecheck %s --check-prefix HOST
// RUN: lamella-run %s --compare-levels | filecheck %s --check-prefix LEVELS

// Attention with regions and its gradient are written out: heads are shared, regions stand in place, the largest score
// that nobody reads is left out, a result has the strides of its type.

// CHECK: builtin.module attributes {lamella.decisions = ["flex_attention is written out", "the gradient of flex_attention is written out"]}
// CHECK-LABEL: func.func @main(
// CHECK-NOT: flex.
// CHECK: aten.unsqueeze(%k, 2)
// CHECK-NEXT: aten.expand(%{{.*}}, [2, 2, 2, 12, 16])
// CHECK-NEXT: aten.clone(%{{.*}}, memory_format = contiguous_format)
// CHECK-NEXT: aten.view(%{{.*}}, [2, 4, 12, 16])
// CHECK: aten.transpose.int(%{{.*}}, -2, -1)
// CHECK: aten.bmm(%{{.*}}, %{{.*}}) : (!sym.t<[8, 8, 16], f32>, !sym.t<[8, 16, 12], f32, strides=[192, 1, 16]>) -> !sym.t<[8, 8, 12], f32>
// CHECK: %[[S:.*]] = aten.mul.Scalar(%{{.*}}, 0.25)
// CHECK: %[[M:.*]] = aten.expand(%{{.*}}, [2, 4, 8, 12])
// CHECK: %[[P:.*]] = aten.mul.Tensor(%[[S]], %{{.*}})
// CHECK: aten.where.self(%[[M]], %[[P]], %{{.*}})
// CHECK: aten._safe_softmax
// CHECK: aten.bmm
// CHECK: aten.new_empty_strided(%{{.*}}, [2, 4, 8, 16], [512, 16, 64, 1])
// CHECK-NEXT: aten.copy
// CHECK: aten.logsumexp
// CHECK-NOT: aten.max.dim
// CHECK: aten.exp
// CHECK: aten.sum.dim_IntList(%{{.*}}, [0, 2, 3])
// CHECK: aten.sum.dim_IntList(%{{.*}}, [2]) : (!sym.t<[2, 2, 2, 12, 16], f32>) -> !sym.t<[2, 2, 12, 16], f32>
// CHECK: func.return

// HOST: host.func @main

// LEVELS: all levels agree
func.func @main(%q: !sym.t<[2, 4, 8, 16], f32, strides=[512, 16, 64, 1]>, %k: !sym.t<[2, 2, 12, 16], f32>, %v: !sym.t<[2, 2, 12, 16], f32>, %t: !sym.t<[4], f32>, %g: !sym.t<[2, 4, 8, 16], f32>) -> (!sym.t<[2, 4, 8, 16], f32, strides=[512, 16, 64, 1]>, !sym.t<[2, 4, 8], f32>, !sym.t<[2, 4, 8, 16], f32, strides=[512, 16, 64, 1]>, !sym.t<[2, 2, 12, 16], f32>, !sym.t<[2, 2, 12, 16], f32>, !sym.t<[4], f32>) {
  %out, %lse, %max = flex.attention(%q, %k, %v, 0.25, %t) blocks 0 score 1 mask 0 : (!sym.t<[2, 4, 8, 16], f32, strides=[512, 16, 64, 1]>, !sym.t<[2, 2, 12, 16], f32>, !sym.t<[2, 2, 12, 16], f32>, !sym.t<[4], f32>) -> (!sym.t<[2, 4, 8, 16], f32, strides=[512, 16, 64, 1]>, !sym.t<[2, 4, 8], f32>, !sym.t<[2, 4, 8], f32>)
  score_mod (%score: !sym.t<[2, 4, 8, 12], f32>, %b: !sym.t<[2], i64>, %h: !sym.t<[4], i64>, %i: !sym.t<[8], i64>, %j: !sym.t<[12], i64>, %table: !sym.t<[4], f32>) {
    %0 = aten.view(%table, [4, 1, 1]) : (!sym.t<[4], f32>) -> !sym.t<[4, 1, 1], f32>
    %1 = aten.mul.Tensor(%score, %0) : (!sym.t<[2, 4, 8, 12], f32>, !sym.t<[4, 1, 1], f32>) -> !sym.t<[2, 4, 8, 12], f32>
    flow.yield(%1) : !sym.t<[2, 4, 8, 12], f32>
  } mask_mod (%b: !sym.t<[2], i64>, %h: !sym.t<[4], i64>, %i: !sym.t<[8], i64>, %j: !sym.t<[12], i64>) {
    %0 = aten.view(%i, [8, 1]) : (!sym.t<[8], i64>) -> !sym.t<[8, 1], i64>
    %1 = aten.ge.Tensor(%0, %j) : (!sym.t<[8, 1], i64>, !sym.t<[12], i64>) -> !sym.t<[8, 12], i1>
    %2 = aten.ne.Scalar(%0, 5) : (!sym.t<[8, 1], i64>) -> !sym.t<[8, 1], i1>
    %3 = aten.logical_and(%1, %2) : (!sym.t<[8, 12], i1>, !sym.t<[8, 1], i1>) -> !sym.t<[8, 12], i1>
    %4 = aten.expand(%3, [2, 4, 8, 12]) : (!sym.t<[8, 12], i1>) -> !sym.t<[2, 4, 8, 12], i1, strides=[0, 0, 12, 1]>
    flow.yield(%4) : !sym.t<[2, 4, 8, 12], i1, strides=[0, 0, 12, 1]>
  }
  %dq, %dk, %dv, %dt = flex.attention_backward(%q, %k, %v, %out, %lse, %g, %lse, 0.25, %t) blocks 0 score 1 mask 0 : (!sym.t<[2, 4, 8, 16], f32, strides=[512, 16, 64, 1]>, !sym.t<[2, 2, 12, 16], f32>, !sym.t<[2, 2, 12, 16], f32>, !sym.t<[2, 4, 8, 16], f32, strides=[512, 16, 64, 1]>, !sym.t<[2, 4, 8], f32>, !sym.t<[2, 4, 8, 16], f32>, !sym.t<[2, 4, 8], f32>, !sym.t<[4], f32>) -> (!sym.t<[2, 4, 8, 16], f32, strides=[512, 16, 64, 1]>, !sym.t<[2, 2, 12, 16], f32>, !sym.t<[2, 2, 12, 16], f32>, !sym.t<[4], f32>)
  score_mod (%score: !sym.t<[2, 4, 8, 12], f32>, %b: !sym.t<[2], i64>, %h: !sym.t<[4], i64>, %i: !sym.t<[8], i64>, %j: !sym.t<[12], i64>, %table: !sym.t<[4], f32>) {
    %0 = aten.view(%table, [4, 1, 1]) : (!sym.t<[4], f32>) -> !sym.t<[4, 1, 1], f32>
    %1 = aten.mul.Tensor(%score, %0) : (!sym.t<[2, 4, 8, 12], f32>, !sym.t<[4, 1, 1], f32>) -> !sym.t<[2, 4, 8, 12], f32>
    flow.yield(%1) : !sym.t<[2, 4, 8, 12], f32>
  } mask_mod (%b: !sym.t<[2], i64>, %h: !sym.t<[4], i64>, %i: !sym.t<[8], i64>, %j: !sym.t<[12], i64>) {
    %0 = aten.ones([2, 4, 8, 12], dtype = i1) : () -> !sym.t<[2, 4, 8, 12], i1>
    flow.yield(%0) : !sym.t<[2, 4, 8, 12], i1>
  } joint (%score: !sym.t<[2, 4, 8, 12], f32>, %b: !sym.t<[2], i64>, %h: !sym.t<[4], i64>, %i: !sym.t<[8], i64>, %j: !sym.t<[12], i64>, %grad: !sym.t<[2, 4, 8, 12], f32>, %table: !sym.t<[4], f32>) {
    %0 = aten.view(%table, [4, 1, 1]) : (!sym.t<[4], f32>) -> !sym.t<[4, 1, 1], f32>
    %1 = aten.mul.Tensor(%grad, %0) : (!sym.t<[2, 4, 8, 12], f32>, !sym.t<[4, 1, 1], f32>) -> !sym.t<[2, 4, 8, 12], f32>
    %2 = aten.mul.Tensor(%grad, %score) : (!sym.t<[2, 4, 8, 12], f32>, !sym.t<[2, 4, 8, 12], f32>) -> !sym.t<[2, 4, 8, 12], f32>
    %3 = aten.sum.dim_IntList(%2, [0, 2, 3]) : (!sym.t<[2, 4, 8, 12], f32>) -> !sym.t<[4], f32>
    flow.yield(%1, %3) : !sym.t<[2, 4, 8, 12], f32>, !sym.t<[4], f32>
  }
  func.return %out, %lse, %dq, %dk, %dv, %dt : !sym.t<[2, 4, 8, 16], f32, strides=[512, 16, 64, 1]>, !sym.t<[2, 4, 8], f32>, !sym.t<[2, 4, 8, 16], f32, strides=[512, 16, 64, 1]>, !sym.t<[2, 2, 12, 16], f32>, !sym.t<[2, 2, 12, 16], f32>, !sym.t<[4], f32>
}
