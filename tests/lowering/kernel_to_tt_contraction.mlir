// RUN: lamella-opt %s -p kernel-to-tt --split-input-file | filecheck %s

// A product of tiles: each factor on axes of its own, zero beyond the end of the sum, what is fused before and after.
builtin.module {
  loop.kernel @linear_relu(%a: !sym.t<[100, 72], bf16, device=cuda:0>, %b: !sym.t<[64, 72], bf16, device=cuda:0>, %c: !sym.t<[64], bf16, device=cuda:0>) outs(%y: !sym.t<[100, 64], bf16, device=cuda:0>) sizes [] grid [d0 = 100, d1 = 64] attributes {tile = {d0 = 32 : i64, d1 = 64 : i64}, group = 8 : i64} {
    %0 = loop.for [r0 = 72] reduce [add] attributes {tile = {r0 = 16 : i64}, dot = "ieee"} {
      %1 = loop.load %a[d0, r0] : !sym.t<[100, 72], bf16, device=cuda:0>
      %2 = loop.load %b[d1, r0] : !sym.t<[64, 72], bf16, device=cuda:0>
      %3 = arith.extf %1 : bf16 to f32
      %4 = arith.extf %2 : bf16 to f32
      %5 = arith.mulf %3, %4 : f32
      loop.yield %5 : f32
    } : f32
    %6 = loop.load %c[d1] : !sym.t<[64], bf16, device=cuda:0>
    %7 = arith.extf %6 : bf16 to f32
    %8 = arith.addf %0, %7 : f32
    %9 = arith.constant 0.0 : f32
    %10 = arith.maximumf %8, %9 : f32
    %11 = arith.truncf %10 : f32 to bf16
    loop.store %11, %y[d0, d1] : !sym.t<[100, 64], bf16, device=cuda:0>
    loop.end
  }
}
// CHECK-LABEL: tt.func public @linear_relu
// CHECK-SAME: lamella.grid = #loop.index<[4]>
// CHECK: %[[SUM:.*]] = scf.for {{.*}} iter_args(%[[SO_FAR:.*]] = %{{.*}}) -> (tensor<32x64xf32>)
// CHECK: %[[A:.*]] = tt.load %{{.*}}, %{{.*}}, %{{.*}} : tensor<32x16x!tt.ptr<bf16>>
// CHECK: %[[B:.*]] = tt.load %{{.*}}, %{{.*}}, %{{.*}} : tensor<16x64x!tt.ptr<bf16>>
// CHECK: %[[NEXT:.*]] = tt.dot %[[A]], %[[B]], %[[SO_FAR]] : tensor<32x16xbf16> * tensor<16x64xbf16> -> tensor<32x64xf32>
// CHECK-NEXT: scf.yield %[[NEXT]]
// CHECK: arith.addf %[[SUM]], %{{.*}} : tensor<32x64xf32>
// CHECK: arith.maximumf
// CHECK: tt.store %{{.*}}, %{{.*}}, %{{.*}} : tensor<32x64x!tt.ptr<bf16>>

// -----

// Two products that share a factor: it is read once. Whole tiles have no masks.
builtin.module {
  loop.kernel @gated(%a: !sym.t<[s0, 64], f16, device=cuda:0>, %b: !sym.t<[64, 32], f16, device=cuda:0>, %c: !sym.t<[64, 32], f16, device=cuda:0>) outs(%y: !sym.t<[s0, 32], f16, device=cuda:0>) sizes [s0] grid [d0 = s0, d1 = 32] attributes {tile = {d0 = 16 : i64, d1 = 16 : i64}, group = 8 : i64} {
    %0, %1 = loop.for [r0 = 64] reduce [add, add] attributes {tile = {r0 = 32 : i64}, dot = "ieee"} {
      %2 = loop.load %a[d0, r0] : !sym.t<[s0, 64], f16, device=cuda:0>
      %3 = loop.load %b[r0, d1] : !sym.t<[64, 32], f16, device=cuda:0>
      %4 = loop.load %c[r0, d1] : !sym.t<[64, 32], f16, device=cuda:0>
      %5 = arith.extf %2 : f16 to f32
      %6 = arith.extf %3 : f16 to f32
      %7 = arith.extf %4 : f16 to f32
      %8 = arith.mulf %5, %6 : f32
      %9 = arith.mulf %7, %5 : f32
      loop.yield %8, %9 : f32, f32
    } : f32, f32
    %10 = arith.mulf %0, %1 : f32
    %11 = arith.truncf %10 : f32 to f16
    loop.store %11, %y[d0, d1] : !sym.t<[s0, 32], f16, device=cuda:0>
    loop.end
  }
}
// CHECK-LABEL: tt.func public @gated
// CHECK: scf.for {{.*}} -> (tensor<16x16xf32>, tensor<16x16xf32>)
// CHECK: %[[A:.*]] = tt.load %{{.*}}, %{{.*}}, %{{.*}} : tensor<16x32x!tt.ptr<f16>>
// CHECK: %[[B:.*]] = tt.load %{{[0-9]+}} : tensor<32x16x!tt.ptr<f16>>
// CHECK: tt.dot %[[A]], %[[B]]
// CHECK: %[[C:.*]] = tt.load %{{[0-9]+}} : tensor<32x16x!tt.ptr<f16>>
// CHECK: tt.dot %[[A]], %[[C]]

// -----

// There is no product of halves that adds up in f64: the factors are widened first.
builtin.module {
  loop.kernel @wide(%a: !sym.t<[64, 64], bf16, device=cuda:0>, %b: !sym.t<[64, 64], bf16, device=cuda:0>) outs(%y: !sym.t<[64, 64], f64, device=cuda:0>) sizes [] grid [d0 = 64, d1 = 64] attributes {tile = {d0 = 32 : i64, d1 = 32 : i64}, warps = 4 : i64, stages = 1 : i64} {
    %0 = loop.for [r0 = 64] reduce [add] attributes {tile = {r0 = 16 : i64}, dot = "ieee"} {
      %1 = loop.load %a[d0, r0] : !sym.t<[64, 64], bf16, device=cuda:0>
      %2 = loop.load %b[r0, d1] : !sym.t<[64, 64], bf16, device=cuda:0>
      %3 = arith.extf %1 : bf16 to f64
      %4 = arith.extf %2 : bf16 to f64
      %5 = arith.mulf %3, %4 : f64
      loop.yield %5 : f64
    } : f64
    loop.store %0, %y[d0, d1] : !sym.t<[64, 64], f64, device=cuda:0>
    loop.end
  }
}
// CHECK-LABEL: tt.func public @wide
// CHECK: tt.dot %{{.*}} : tensor<32x16xf64> * tensor<16x32xf64> -> tensor<32x32xf64>
