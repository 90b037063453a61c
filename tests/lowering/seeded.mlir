// RUN: lamella-opt %s --to prims | filecheck %s
// RUN: lamella-opt %s --to kernel | filecheck %s --check-prefix KERNEL

// Numbers follow from a seed: two calls with one seed are one, and what has no rule stays a call.
// CHECK: %seed = aten.randint.low
// CHECK-NOT: aten.randint.low
// CHECK: prims.philox
// CHECK-NOT: prims.philox
// CHECK: seeded.multinomial(%seed, %w, 5, true)
// CHECK: %state = seeded.state(device = "cpu")
// CHECK: seeded.rand_like(%state, %x)
// KERNEL: loop.kernel @fused_
builtin.module {
  func.func @main(%x: !sym.t<[s0], f32>, %w: !sym.t<[7], f32>) -> (!sym.t<[s0], f32>, !sym.t<[s0], f32>, !sym.t<[5], i64>, !sym.t<[s0], f32>) {
    %seed = aten.randint.low(-9223372036854775808, 9223372036854775807, [], i64, device = "cpu") : () -> !sym.t<[], i64>
    %y, %m = seeded.native_dropout(%seed, %x, 0.5, true) : (!sym.t<[], i64>, !sym.t<[s0], f32>) -> (!sym.t<[s0], f32>, !sym.t<[s0], i1>)
    %z, %n = seeded.native_dropout(%seed, %x, 0.5, true) : (!sym.t<[], i64>, !sym.t<[s0], f32>) -> (!sym.t<[s0], f32>, !sym.t<[s0], i1>)
    %s = aten.add.Tensor(%y, %z) : (!sym.t<[s0], f32>, !sym.t<[s0], f32>) -> !sym.t<[s0], f32>
    %k = seeded.multinomial(%seed, %w, 5, true) : (!sym.t<[], i64>, !sym.t<[7], f32>) -> !sym.t<[5], i64>
    %state = seeded.state(device = "cpu") : () -> !sym.t<[u0], u8>
    %r = seeded.rand_like(%state, %x) : (!sym.t<[u0], u8>, !sym.t<[s0], f32>) -> !sym.t<[s0], f32>
    func.return %y, %s, %k, %r : !sym.t<[s0], f32>, !sym.t<[s0], f32>, !sym.t<[5], i64>, !sym.t<[s0], f32>
  }
}
