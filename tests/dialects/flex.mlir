// RUN: lamella-opt %s | filecheck %s
// RUN: lamella-opt %s --print-locations | lamella-opt - | filecheck %s
// What is checked: the text of attention with regions, and of its gradient, reads back and prints the same.

// CHECK: %out, %lse, %max = flex.attention(%q, %k, %v, 0.25, %n, %t) blocks 1 score 1 mask 0 attributes {block_mask = ["kv_num_blocks"], block_size = [128 : i64, 128 : i64]} : (!sym.t<[s0, 4, s1, 16], f32>, !sym.t<[s0, 2, s1, 16], f32>, !sym.t<[s0, 2, s1, 8], f32>, !sym.t<[1, 1, 1], i32>, !sym.t<[4], f32>) -> (!sym.t<[s0, 4, s1, 8], f32>, !sym.t<[s0, 4, s1], f32>, !sym.t<[s0, 4, s1], f32>)
// CHECK-NEXT: score_mod (%score: !sym.t<[s0, 4, s1, s1], f32>, %b: !sym.t<[s0], i64>, %h: !sym.t<[4], i64>, %i: !sym.t<[s1], i64>, %j: !sym.t<[s1], i64>, %table: !sym.t<[4], f32>) {
// CHECK: flow.yield(%{{.*}}) : !sym.t<[s0, 4, s1, s1], f32>
// CHECK-NEXT: } mask_mod (%{{.*}}: !sym.t<[s0], i64>, %{{.*}}: !sym.t<[4], i64>, %{{.*}}: !sym.t<[s1], i64>, %{{.*}}: !sym.t<[s1], i64>) {
// CHECK: flow.yield(%{{.*}}) : !sym.t<[s0, 4, s1, s1], i1, strides=[0, 0, s1, 1]>
// CHECK-NEXT: }
func.func @main(%q: !sym.t<[s0, 4, s1, 16], f32>, %k: !sym.t<[s0, 2, s1, 16], f32>, %v: !sym.t<[s0, 2, s1, 8], f32>, %n: !sym.t<[1, 1, 1], i32>, %t: !sym.t<[4], f32>) -> (!sym.t<[s0, 4, s1, 8], f32>, !sym.t<[s0, 4, s1], f32>) {
  %out, %lse, %max = flex.attention(%q, %k, %v, 0.25, %n, %t) blocks 1 score 1 mask 0 attributes {block_mask = ["kv_num_blocks"], block_size = [128, 128]} : (!sym.t<[s0, 4, s1, 16], f32>, !sym.t<[s0, 2, s1, 16], f32>, !sym.t<[s0, 2, s1, 8], f32>, !sym.t<[1, 1, 1], i32>, !sym.t<[4], f32>) -> (!sym.t<[s0, 4, s1, 8], f32>, !sym.t<[s0, 4, s1], f32>, !sym.t<[s0, 4, s1], f32>)
  score_mod (%score: !sym.t<[s0, 4, s1, s1], f32>, %b: !sym.t<[s0], i64>, %h: !sym.t<[4], i64>, %i: !sym.t<[s1], i64>, %j: !sym.t<[s1], i64>, %table: !sym.t<[4], f32>) {
    %0 = aten.index.Tensor(%table, [%h]) : (!sym.t<[4], f32>, !sym.t<[4], i64>) -> !sym.t<[4], f32>
    %1 = aten.view(%0, [4, 1, 1]) : (!sym.t<[4], f32>) -> !sym.t<[4, 1, 1], f32>
    %2 = aten.mul.Tensor(%score, %1) : (!sym.t<[s0, 4, s1, s1], f32>, !sym.t<[4, 1, 1], f32>) -> !sym.t<[s0, 4, s1, s1], f32>
    flow.yield(%2) : !sym.t<[s0, 4, s1, s1], f32>
  } mask_mod (%b: !sym.t<[s0], i64>, %h: !sym.t<[4], i64>, %i: !sym.t<[s1], i64>, %j: !sym.t<[s1], i64>) {
    %0 = aten.view(%i, [s1, 1]) : (!sym.t<[s1], i64>) -> !sym.t<[s1, 1], i64>
    %1 = aten.ge.Tensor(%0, %j) : (!sym.t<[s1, 1], i64>, !sym.t<[s1], i64>) -> !sym.t<[s1, s1], i1>
    %2 = aten.expand(%1, [s0, 4, s1, s1]) : (!sym.t<[s1, s1], i1>) -> !sym.t<[s0, 4, s1, s1], i1, strides=[0, 0, s1, 1]>
    flow.yield(%2) : !sym.t<[s0, 4, s1, s1], i1, strides=[0, 0, s1, 1]>
  }
  func.return %out, %lse : !sym.t<[s0, 4, s1, 8], f32>, !sym.t<[s0, 4, s1], f32>
}

// CHECK: flex.attention_backward(%q, %q, %q, %q, %lse, %q, %lse, 0.5, %t) blocks 0 score 1 mask 0 : (
// CHECK-NEXT: score_mod (
// CHECK: } mask_mod (
// CHECK: } joint (%{{.*}}: !sym.t<[1, 1, 4, 4], f32>, %{{.*}}: !sym.t<[1], i64>, %{{.*}}: !sym.t<[1], i64>, %{{.*}}: !sym.t<[4], i64>, %{{.*}}: !sym.t<[4], i64>, %{{.*}}: !sym.t<[1, 1, 4, 4], f32>, %{{.*}}: !sym.t<[4], f32>) {
// CHECK: flow.yield(%{{.*}}, %{{.*}}) : !sym.t<[1, 1, 4, 4], f32>, !sym.t<[4], f32>
func.func @gradient(%q: !sym.t<[1, 1, 4, 8], bf16>, %lse: !sym.t<[1, 1, 4], f32>, %t: !sym.t<[4], f32>) -> (!sym.t<[1, 1, 4, 8], bf16>, !sym.t<[4], f32>) {
  %dq, %dk, %dv, %dt = flex.attention_backward(%q, %q, %q, %q, %lse, %q, %lse, 0.5, %t) blocks 0 score 1 mask 0 : (!sym.t<[1, 1, 4, 8], bf16>, !sym.t<[1, 1, 4, 8], bf16>, !sym.t<[1, 1, 4, 8], bf16>, !sym.t<[1, 1, 4, 8], bf16>, !sym.t<[1, 1, 4], f32>, !sym.t<[1, 1, 4, 8], bf16>, !sym.t<[1, 1, 4], f32>, !sym.t<[4], f32>) -> (!sym.t<[1, 1, 4, 8], bf16>, !sym.t<[1, 1, 4, 8], bf16>, !sym.t<[1, 1, 4, 8], bf16>, !sym.t<[4], f32>)
  score_mod (%score: !sym.t<[1, 1, 4, 4], f32>, %b: !sym.t<[1], i64>, %h: !sym.t<[1], i64>, %i: !sym.t<[4], i64>, %j: !sym.t<[4], i64>, %table: !sym.t<[4], f32>) {
    %0 = aten.add.Tensor(%score, %table) : (!sym.t<[1, 1, 4, 4], f32>, !sym.t<[4], f32>) -> !sym.t<[1, 1, 4, 4], f32>
    flow.yield(%0) : !sym.t<[1, 1, 4, 4], f32>
  } mask_mod (%b: !sym.t<[1], i64>, %h: !sym.t<[1], i64>, %i: !sym.t<[4], i64>, %j: !sym.t<[4], i64>) {
    %0 = aten.ones([1, 1, 4, 4], dtype = i1) : () -> !sym.t<[1, 1, 4, 4], i1>
    flow.yield(%0) : !sym.t<[1, 1, 4, 4], i1>
  } joint (%score: !sym.t<[1, 1, 4, 4], f32>, %b: !sym.t<[1], i64>, %h: !sym.t<[1], i64>, %i: !sym.t<[4], i64>, %j: !sym.t<[4], i64>, %grad: !sym.t<[1, 1, 4, 4], f32>, %table: !sym.t<[4], f32>) {
    %0 = aten.sum.dim_IntList(%grad, [0, 1, 2]) : (!sym.t<[1, 1, 4, 4], f32>) -> !sym.t<[4], f32>
    flow.yield(%grad, %0) : !sym.t<[1, 1, 4, 4], f32>, !sym.t<[4], f32>
  }
  func.return %dq, %dt : !sym.t<[1, 1, 4, 8], bf16>, !sym.t<[4], f32>
}
