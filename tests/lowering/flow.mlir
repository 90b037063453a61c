// RUN: lamella-opt %s --to kernel | filecheck %s --check-prefix KERNEL
// RUN: lamella-opt %s --to host | filecheck %s --check-prefix HOST
// RUN: lamella-run %s --compare-levels --size s0=5 | filecheck %s --check-prefix LEVELS
// What is checked: regions come down as functions do, with kernels and memory of their own; all levels compute the same.

// LEVELS: all levels agree

// KERNEL-DAG: loop.kernel @sin_
// KERNEL-DAG: loop.kernel @fused_sum_mul_
// KERNEL-LABEL: func.func @main(
// KERNEL: loop.launch
// KERNEL: flow.if(
// KERNEL-NEXT: then
// KERNEL-NEXT: loop.launch @sin_
// KERNEL: else
// KERNEL-NEXT: loop.launch @fused_sum_mul_
// KERNEL: flow.while(
// KERNEL: loop.launch
// KERNEL: flow.scan(

// HOST-LABEL: host.func @main(
// What a region is given may lie in the arena; what it yields is a tensor.
// HOST: [[ARENA:%\w+]] = host.arena
// HOST: [[SUM:%\w+]] = host.slot [[ARENA]]
// HOST: flow.if(%p, [[SUM]], %w)
// HOST-NEXT: then (%a: !sym.t<[s0, 16], f32>, %b: !sym.t<[16], f32>) {
// HOST-NEXT: [[OUT:%\w+]] = host.empty
// HOST-NEXT: host.launch @sin_{{[0-9]+}}(%a) outs([[OUT]])
// HOST-NEXT: flow.yield([[OUT]])
// A region has an arena of its own.
// HOST: flow.scan(
// HOST-NEXT: do (
// HOST-NEXT: host.arena
builtin.module {
  func.func @main(%p: !sym.t<[], i1>, %x: !sym.t<[s0, 16], f32>, %w: !sym.t<[16], f32>) -> (!sym.t<[s0, 16], f32>, !sym.t<[16], f32>, !sym.t<[s0, 16], f32>) {
    %0 = aten.add.Tensor(%x, %w) : (!sym.t<[s0, 16], f32>, !sym.t<[16], f32>) -> !sym.t<[s0, 16], f32>
    %1 = flow.if(%p, %0, %w) : (!sym.t<[], i1>, !sym.t<[s0, 16], f32>, !sym.t<[16], f32>) -> !sym.t<[s0, 16], f32>
    then (%a: !sym.t<[s0, 16], f32>, %b: !sym.t<[16], f32>) {
      %2 = aten.sin(%a) : (!sym.t<[s0, 16], f32>) -> !sym.t<[s0, 16], f32>
      flow.yield(%2) : !sym.t<[s0, 16], f32>
    } else (%a: !sym.t<[s0, 16], f32>, %b: !sym.t<[16], f32>) {
      %2 = aten.sum.dim_IntList(%a, [-1], true) : (!sym.t<[s0, 16], f32>) -> !sym.t<[s0, 1], f32>
      %3 = aten.mul.Tensor(%2, %b) : (!sym.t<[s0, 1], f32>, !sym.t<[16], f32>) -> !sym.t<[s0, 16], f32>
      flow.yield(%3) : !sym.t<[s0, 16], f32>
    }
    %n, %4 = flow.while(1, %1) : (!sym.t<[s0, 16], f32>) -> (!sym.int<u9>, !sym.t<[s0, 16], f32>)
    while (%i: !sym.int<u0>, %a: !sym.t<[s0, 16], f32>) {
      flow.yield(lt(u0, s0))
    } do (%i: !sym.int<u0>, %a: !sym.t<[s0, 16], f32>) {
      %5 = aten.mul.Scalar(%a, u0) : (!sym.t<[s0, 16], f32>) -> !sym.t<[s0, 16], f32>
      flow.yield(u0 + 1, %5) : !sym.t<[s0, 16], f32>
    }
    %6, %7 = flow.scan(%w, %4) carried 1 over 1 : (!sym.t<[16], f32>, !sym.t<[s0, 16], f32>) -> (!sym.t<[16], f32>, !sym.t<[s0, 16], f32>)
    do (%c: !sym.t<[16], f32>, %r: !sym.t<[16], f32>) {
      %8 = aten.mul.Tensor(%c, %r) : (!sym.t<[16], f32>, !sym.t<[16], f32>) -> !sym.t<[16], f32>
      %q = aten.exp(%8) : (!sym.t<[16], f32>) -> !sym.t<[16], f32>
      %s = aten.histc(%q, 16) : (!sym.t<[16], f32>) -> !sym.t<[16], f32>
      %9 = aten.tanh(%s) : (!sym.t<[16], f32>) -> !sym.t<[16], f32>
      flow.yield(%9, %8) : !sym.t<[16], f32>, !sym.t<[16], f32>
    }
    func.return %4, %6, %7 : !sym.t<[s0, 16], f32>, !sym.t<[16], f32>, !sym.t<[s0, 16], f32>
  }
}
