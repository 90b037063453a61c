// RUN: lamella-opt %s --to prims | filecheck %s
// RUN: lamella-opt %s -p 'aten-to-prims,prims-canonicalize,prims-to-loop,loop-fuse{threads=2}' | filecheck %s --check-prefix=FUSED

// CHECK-LABEL: func.func @one(
// CHECK: prims.mul {{.*}} : !sym.t<[2, 4, 1, s0, 16], f32>
// CHECK-NEXT: prims.reduce {{.*}} {kind = sum, dims = [4]} : !sym.t<[2, 4, 1, s0, 16], f32> -> !sym.t<[2, 4, 1, s0], f32>
// CHECK: prims.add
// CHECK: prims.reduce {{.*}} {kind = max, dims = [3]}
// CHECK: prims.exp
// CHECK: prims.reduce {{.*}} {kind = sum, dims = [3]}
// CHECK: prims.reduce {{.*}} {kind = sum, dims = [4]} : !sym.t<[2, 4, 1, 16, s0], f32> -> !sym.t<[2, 4, 1, 16], f32>
// CHECK: prims.div
// FUSED: loop.kernel
// FUSED-NOT: loop.kernel
// FUSED: func.func @one(
func.func @one(%q: !sym.t<[2, 4, 1, 16], f32>, %k: !sym.t<[2, 4, s0, 16], f32>, %m: !sym.t<[1, s0], f32>) -> !sym.t<[2, 4, 1, 16], f32> {
  %y, %l = aten._scaled_dot_product_flash_attention_for_cpu(%q, %k, %k, attn_mask = %m) : (!sym.t<[2, 4, 1, 16], f32>, !sym.t<[2, 4, s0, 16], f32>, !sym.t<[2, 4, s0, 16], f32>, !sym.t<[1, s0], f32>) -> (!sym.t<[2, 4, 1, 16], f32>, !sym.t<[2, 4, 1], f32>)
  func.return %y : !sym.t<[2, 4, 1, 16], f32>
}
