// RUN: lamella-opt %s --to host | filecheck %s
// RUN: lamella-run %s --compare-levels --size s0=5 | filecheck %s --check-prefix LEVELS
// What is checked: what a loop carries is stacked, of one dtype and another, with kernels and memory of its regions; what
// a loop begins with is the stack of one that never runs; a part of a stack lies in the stack, not in what the loop began
// with.

// LEVELS: all levels agree

// CHECK-LABEL: host.func @main(
// CHECK: flow.while_stack(
// CHECK: host.launch
// CHECK: flow.yield(
// CHECK: flow.while_stack(
builtin.module {
  func.func @main(%x: !sym.t<[s0, 4], f32>, %w: !sym.t<[4], bf16>) -> (!sym.t<[u0], i64>, !sym.t<[u0, s0, 4], f32>, !sym.t<[u0, 4], bf16>, !sym.t<[u1, s0, 4], f32>, !sym.t<[], i64>) {
    %n = aten.zeros([], dtype = i64) : () -> !sym.t<[], i64>
    %i, %y, %z = flow.while_stack(%n, %x, %w) : (!sym.t<[], i64>, !sym.t<[s0, 4], f32>, !sym.t<[4], bf16>) -> (!sym.t<[u0], i64>, !sym.t<[u0, s0, 4], f32>, !sym.t<[u0, 4], bf16>)
    while (%a: !sym.t<[], i64>, %b: !sym.t<[s0, 4], f32>, %c: !sym.t<[4], bf16>) {
      %0 = aten.lt.Scalar(%a, 5) : (!sym.t<[], i64>) -> !sym.t<[], i1>
      flow.yield(%0) : !sym.t<[], i1>
    } do (%a: !sym.t<[], i64>, %b: !sym.t<[s0, 4], f32>, %c: !sym.t<[4], bf16>) {
      %0 = aten.add.Scalar(%a, 1) : (!sym.t<[], i64>) -> !sym.t<[], i64>
      %1 = aten.add.Tensor(%b, %c) : (!sym.t<[s0, 4], f32>, !sym.t<[4], bf16>) -> !sym.t<[s0, 4], f32>
      %2 = aten.neg(%c) : (!sym.t<[4], bf16>) -> !sym.t<[4], bf16>
      flow.yield(%0, %1, %2) : !sym.t<[], i64>, !sym.t<[s0, 4], f32>, !sym.t<[4], bf16>
    }
    %never = flow.while_stack(%x) : (!sym.t<[s0, 4], f32>) -> !sym.t<[u1, s0, 4], f32>
    while (%b: !sym.t<[s0, 4], f32>) {
      flow.yield(lt(s0, 2))
    } do (%b: !sym.t<[s0, 4], f32>) {
      %1 = aten.sin(%b) : (!sym.t<[s0, 4], f32>) -> !sym.t<[s0, 4], f32>
      flow.yield(%1) : !sym.t<[s0, 4], f32>
    }
    %last = aten.select.int(%i, 0, -1) : (!sym.t<[u0], i64>) -> !sym.t<[], i64>
    func.return %i, %y, %z, %never, %last : !sym.t<[u0], i64>, !sym.t<[u0, s0, 4], f32>, !sym.t<[u0, 4], bf16>, !sym.t<[u1, s0, 4], f32>, !sym.t<[], i64>
  }
}
