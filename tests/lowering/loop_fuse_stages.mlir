// RUN: lamella-opt %s -p 'aten-to-prims,prims-canonicalize,prims-to-loop,loop-fuse' | filecheck %s

// A residual stream is kept as eager keeps it: its sums in f32 stay within a kernel.
// CHECK: loop.kernel @fused_add_layer_norm_0(%x0: !sym.t<[64, 32], bf16>, %x1: !sym.t<[64, 32], bf16>) outs(%y0: !sym.t<[64, 32], bf16>, %y1: !sym.t<[64, 32], bf16>)
// CHECK: loop.kernel @{{[a-z_]*}}add_1(%x0: !sym.t<[64, 32], bf16>, %x1: !sym.t<[64, 32], bf16>) outs(%y0: !sym.t<[64, 32], bf16>)
func.func @main(%x: !sym.t<[64, 32], bf16>, %y: !sym.t<[64, 32], bf16>, %w: !sym.t<[32, 32], bf16>) -> !sym.t<[64, 32], bf16> {
  %s = aten.add.Tensor(%x, %y) : (!sym.t<[64, 32], bf16>, !sym.t<[64, 32], bf16>) -> !sym.t<[64, 32], bf16>
  %n, %m, %r = aten.native_layer_norm(%s, [32], none, none, 1.0e-05) : (!sym.t<[64, 32], bf16>) -> (!sym.t<[64, 32], bf16>, !sym.t<[64, 1], bf16>, !sym.t<[64, 1], bf16>)
  %p = aten.mm(%n, %w) : (!sym.t<[64, 32], bf16>, !sym.t<[32, 32], bf16>) -> !sym.t<[64, 32], bf16>
  %z = aten.add.Tensor(%s, %p) : (!sym.t<[64, 32], bf16>, !sym.t<[64, 32], bf16>) -> !sym.t<[64, 32], bf16>
  func.return %z : !sym.t<[64, 32], bf16>
}
