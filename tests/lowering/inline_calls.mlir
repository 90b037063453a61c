// RUN: lamella-opt %s | filecheck %s
// RUN: lamella-opt %s -p inline-calls | filecheck %s --check-prefix INLINE
// RUN: lamella-opt %s --to kernel | filecheck %s --check-prefix KERNEL
// RUN: lamella-run %s --compare-levels | filecheck %s --check-prefix LEVELS

// A function that is called twice is lowered once: its kernel is launched twice.
// CHECK: %0 = flow.call(%x, %w) callee @layer : (!sym.t<[s0, 8], f32>, !sym.t<[8, 8], f32>) -> !sym.t<[s0, 8], f32>
// CHECK: func.func private @layer
// INLINE: func.func @main
// INLINE: aten.mm(%x, %w)
// INLINE: aten.tanh
// INLINE: aten.mm(%{{.*}}, %w)
// INLINE: aten.tanh
// INLINE-NOT: flow.call
// INLINE-NOT: func.func
// KERNEL-COUNT-1: loop.kernel
// KERNEL: func.func @main
// KERNEL: loop.launch @[[K:[a-z_0-9]+]]
// KERNEL: loop.launch @[[K]]
// KERNEL-NOT: flow.call
// LEVELS: all levels agree
builtin.module {
  func.func @main(%x: !sym.t<[s0, 8], f32>, %w: !sym.t<[8, 8], f32>) -> !sym.t<[s0, 8], f32> {
    %0 = flow.call(%x, %w) callee @layer : (!sym.t<[s0, 8], f32>, !sym.t<[8, 8], f32>) -> !sym.t<[s0, 8], f32>
    %1 = flow.call(%0, %w) callee @layer : (!sym.t<[s0, 8], f32>, !sym.t<[8, 8], f32>) -> !sym.t<[s0, 8], f32>
    func.return %1 : !sym.t<[s0, 8], f32>
  }
  func.func private @layer(%x: !sym.t<[s0, 8], f32>, %w: !sym.t<[8, 8], f32>) -> !sym.t<[s0, 8], f32> {
    %0 = aten.mm(%x, %w) : (!sym.t<[s0, 8], f32>, !sym.t<[8, 8], f32>) -> !sym.t<[s0, 8], f32>
    %1 = aten.tanh(%0) : (!sym.t<[s0, 8], f32>) -> !sym.t<[s0, 8], f32>
    func.return %1 : !sym.t<[s0, 8], f32>
  }
}
