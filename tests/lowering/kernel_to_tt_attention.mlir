// RUN: lamella-opt %s --split-input-file -p 'aten-fuse-attention{gpu=sm_90},aten-choose-products{target=avx512},aten-to-prims,prims-canonicalize,prims-to-loop,loop-fuse{l1=65536 l2=3276800 l3=52428800 hold=106496 threads=528 rows=512 one_pass=true reuse=64 launch=3.0 fork=0.0 speed=9090.90909090909},bufferize,loop-tile' | filecheck %s --check-prefix=TILE
// RUN: lamella-opt %s --split-input-file -p 'aten-fuse-attention{gpu=sm_90},aten-choose-products{target=avx512},aten-to-prims,prims-canonicalize,prims-to-loop,loop-fuse{l1=65536 l2=3276800 l3=52428800 hold=106496 threads=528 rows=512 one_pass=true reuse=64 launch=3.0 fork=0.0 speed=9090.90909090909},bufferize,loop-tile,kernel-to-tt' | filecheck %s

// Attention of 16-bit floats is one kernel on a GPU, whose programs go over the keys once.

// TILE:      loop.kernel @{{.*}} grid [d0 = 64, d1 = 256] attributes {{{.*}}tile = {d1 = 64 : i64}, attention
// TILE:        loop.for [d2 = 256] attributes {tile = {d2 = 64 : i64}} {
// TILE-NEXT:     loop.for [r0 = 16] reduce [add] attributes {tile = {r0 = 16 : i64}, dot = "ieee"} {
// TILE:      host.return
// CHECK:      tt.func public
// CHECK:        tt.load {{.*}} : tensor<64x16x!tt.ptr<bf16>>
// CHECK:        scf.for {{.*}} -> (tensor<64xf32>, tensor<64xf32>, tensor<64x16xf32>)
// CHECK:          [[S:%\w+]] = tt.dot {{.*}} : tensor<64x16xbf16> * tensor<16x64xbf16> -> tensor<64x64xf32>
// CHECK:          tt.reduce
// CHECK:          tt.extern_elementwise
// CHECK:          tt.dot {{.*}} : tensor<64x64xbf16> * tensor<64x16xbf16> -> tensor<64x16xf32>
// CHECK:          scf.yield
// CHECK:        arith.divf {{.*}} : tensor<64xf32>
// CHECK:        tt.store
func.func @main(%q: !sym.t<[64, 256, 16], bf16, device=cuda:0>, %k: !sym.t<[64, 16, 256], bf16, strides=[4096, 1, 16], device=cuda:0>, %v: !sym.t<[64, 256, 16], bf16, device=cuda:0>) -> !sym.t<[64, 256, 16], bf16, device=cuda:0> {
  %s = aten.bmm(%q, %k) : (!sym.t<[64, 256, 16], bf16, device=cuda:0>, !sym.t<[64, 16, 256], bf16, strides=[4096, 1, 16], device=cuda:0>) -> !sym.t<[64, 256, 256], bf16, device=cuda:0>
  %d = aten.div.Tensor(%s, 8) : (!sym.t<[64, 256, 256], bf16, device=cuda:0>) -> !sym.t<[64, 256, 256], bf16, device=cuda:0>
  %p = aten._softmax(%d, -1, false) : (!sym.t<[64, 256, 256], bf16, device=cuda:0>) -> !sym.t<[64, 256, 256], bf16, device=cuda:0>
  %y = aten.bmm(%p, %v) : (!sym.t<[64, 256, 256], bf16, device=cuda:0>, !sym.t<[64, 256, 16], bf16, device=cuda:0>) -> !sym.t<[64, 256, 16], bf16, device=cuda:0>
  func.return %y : !sym.t<[64, 256, 16], bf16, device=cuda:0>
}

// -----

// A call with a mask; keys that no row of a program may see are not looked at.

// TILE:      loop.kernel @{{.*}}, attention
// CHECK:      tt.func public
// CHECK:        [[END:%\w+]] = arith.minsi
// CHECK:        scf.for {{.*}} to [[END]] step
// CHECK:        tt.load {{.*}} : tensor<64x64x!tt.ptr<bf16>>
func.func @main(%q: !sym.t<[4, 16, 256, 32], bf16, device=cuda:0>, %k: !sym.t<[4, 16, 256, 32], bf16, device=cuda:0>, %v: !sym.t<[4, 16, 256, 32], bf16, device=cuda:0>, %m: !sym.t<[4, 16, 256, 256], bf16, device=cuda:0>) -> !sym.t<[4, 16, 256, 32], bf16, strides=[131072, 32, 512, 1], device=cuda:0> {
  %y, %l, %s, %o = aten._scaled_dot_product_efficient_attention(%q, %k, %v, %m, false, 0.0, true) : (!sym.t<[4, 16, 256, 32], bf16, device=cuda:0>, !sym.t<[4, 16, 256, 32], bf16, device=cuda:0>, !sym.t<[4, 16, 256, 32], bf16, device=cuda:0>, !sym.t<[4, 16, 256, 256], bf16, device=cuda:0>) -> (!sym.t<[4, 16, 256, 32], bf16, strides=[131072, 32, 512, 1], device=cuda:0>, !sym.t<[4, 16, 0], f32, device=cuda:0>, !sym.t<[], i64>, !sym.t<[], i64>)
  func.return %y : !sym.t<[4, 16, 256, 32], bf16, strides=[131072, 32, 512, 1], device=cuda:0>
}

// -----

// In f32 a product is six of bf16, or three where that is as exact as torch is asked to be.

// TILE:      loop.kernel @{{.*}} grid [d0 = 64, d1 = 256] attributes {{{.*}}tile = {d1 = 64 : i64}, attention
// TILE:          loop.for [r0 = 16] reduce [add] attributes {tile = {r0 = 16 : i64}, dot = "bf16x6"} {
// TILE:      host.return
// CHECK:      tt.func public
// CHECK:        scf.for
// CHECK:          tt.dot {{.*}} inputPrecision = bf16x6 : tensor<64x16xf32>
// CHECK:          tt.dot {{.*}} inputPrecision = bf16x6
// CHECK-NOT:      bf16
// CHECK:        tt.store
func.func @main(%q: !sym.t<[64, 256, 16], f32, device=cuda:0>, %k: !sym.t<[64, 16, 256], f32, device=cuda:0>, %v: !sym.t<[64, 256, 16], f32, device=cuda:0>) -> !sym.t<[64, 256, 16], f32, device=cuda:0> {
  %s = aten.bmm(%q, %k) : (!sym.t<[64, 256, 16], f32, device=cuda:0>, !sym.t<[64, 16, 256], f32, device=cuda:0>) -> !sym.t<[64, 256, 256], f32, device=cuda:0>
  %p = aten._softmax(%s, -1, false) : (!sym.t<[64, 256, 256], f32, device=cuda:0>) -> !sym.t<[64, 256, 256], f32, device=cuda:0>
  %y = aten.bmm(%p, %v) : (!sym.t<[64, 256, 256], f32, device=cuda:0>, !sym.t<[64, 256, 16], f32, device=cuda:0>) -> !sym.t<[64, 256, 16], f32, device=cuda:0>
  func.return %y : !sym.t<[64, 256, 16], f32, device=cuda:0>
}

// -----

// A call in f32, without a mask.

// TILE:      loop.kernel @{{.*}}, attention
// CHECK:        scf.for
// CHECK:          tt.dot {{.*}} inputPrecision = bf16x6
func.func @main(%q: !sym.t<[4, 16, 256, 32], f32, device=cuda:0>, %k: !sym.t<[4, 16, 256, 32], f32, device=cuda:0>, %v: !sym.t<[4, 16, 256, 32], f32, device=cuda:0>) -> !sym.t<[4, 16, 256, 32], f32, strides=[131072, 32, 512, 1], device=cuda:0> {
  %y, %l, %s, %o = aten._scaled_dot_product_efficient_attention(%q, %k, %v, none, false, 0.0, true) : (!sym.t<[4, 16, 256, 32], f32, device=cuda:0>, !sym.t<[4, 16, 256, 32], f32, device=cuda:0>, !sym.t<[4, 16, 256, 32], f32, device=cuda:0>) -> (!sym.t<[4, 16, 256, 32], f32, strides=[131072, 32, 512, 1], device=cuda:0>, !sym.t<[4, 16, 0], f32, device=cuda:0>, !sym.t<[], i64>, !sym.t<[], i64>)
  func.return %y : !sym.t<[4, 16, 256, 32], f32, strides=[131072, 32, 512, 1], device=cuda:0>
}

// -----

// Weights that something else reads are in memory.

// TILE-NOT:  attention,
// CHECK-NOT: scf.for {{.*}} -> (tensor<64xf32>, tensor<64xf32>
func.func @main(%q: !sym.t<[64, 256, 16], bf16, device=cuda:0>, %k: !sym.t<[64, 16, 256], bf16, device=cuda:0>, %v: !sym.t<[64, 256, 16], bf16, device=cuda:0>) -> (!sym.t<[64, 256, 16], bf16, device=cuda:0>, !sym.t<[64, 256, 256], bf16, device=cuda:0>) {
  %s = aten.bmm(%q, %k) : (!sym.t<[64, 256, 16], bf16, device=cuda:0>, !sym.t<[64, 16, 256], bf16, device=cuda:0>) -> !sym.t<[64, 256, 256], bf16, device=cuda:0>
  %p = aten._softmax(%s, -1, false) : (!sym.t<[64, 256, 256], bf16, device=cuda:0>) -> !sym.t<[64, 256, 256], bf16, device=cuda:0>
  %y = aten.bmm(%p, %v) : (!sym.t<[64, 256, 256], bf16, device=cuda:0>, !sym.t<[64, 256, 16], bf16, device=cuda:0>) -> !sym.t<[64, 256, 16], bf16, device=cuda:0>
  func.return %y, %p : !sym.t<[64, 256, 16], bf16, device=cuda:0>, !sym.t<[64, 256, 256], bf16, device=cuda:0>
}
