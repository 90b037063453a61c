// RUN: lamella-opt %s --to host | filecheck %s
// RUN: lamella-opt %s --to prims | filecheck %s --check-prefix PRIMS

// A kernel of the user's is a call, and what it writes to before all else is memory without values.
// CHECK: host.func @main
// CHECK: host.arena
// CHECK: %e = host.slot
// CHECK-NEXT: lamella.triton_kernel("model:add", ["out", "x", "n"], [%e], [%x], [s0], grid = [floordiv(s0 + 127, 128), 1, 1], constants = ["BLOCK = 128"])
// CHECK: host.launch @mul_0(%e)
// PRIMS: %e = aten.empty_like(%x)
// PRIMS-NEXT: lamella.triton_kernel("model:add"
// PRIMS: prims.full {value = 0.0}
builtin.module {
  func.func @main(%x: !sym.t<[s0], f32>) -> (!sym.t<[s0], f32>, !sym.t<[s0], f32>) {
    %e = aten.empty_like(%x) : (!sym.t<[s0], f32>) -> !sym.t<[s0], f32>
    lamella.triton_kernel("model:add", ["out", "x", "n"], [%e], [%x], [s0], grid = [floordiv(s0 + 127, 128), 1, 1], constants = ["BLOCK = 128"]) : (!sym.t<[s0], f32>, !sym.t<[s0], f32>) -> ()
    %z = aten.mul.Scalar(%e, 2) : (!sym.t<[s0], f32>) -> !sym.t<[s0], f32>
    %u = aten.empty_like(%x) : (!sym.t<[s0], f32>) -> !sym.t<[s0], f32>
    func.return %z, %u : !sym.t<[s0], f32>, !sym.t<[s0], f32>
  }
}
