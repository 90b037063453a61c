// RUN: lamella-opt %s -p 'loop-tile' --split-input-file | filecheck %s

// Large: tiles for warp groups, programs in groups that share columns.
builtin.module {
  loop.kernel @large(%a: !sym.t<[4096, 4096], bf16, device=cuda:0>, %b: !sym.t<[4096, 4096], bf16, device=cuda:0>) outs(%y: !sym.t<[4096, 4096], f32, device=cuda:0>) sizes [] grid [d0 = 4096, d1 = 4096] {
    %0 = loop.for [r0 = 4096] reduce [add] {
      %1 = loop.load %a[d0, r0] : !sym.t<[4096, 4096], bf16, device=cuda:0>
      %2 = loop.load %b[d1, r0] : !sym.t<[4096, 4096], bf16, device=cuda:0>
      %3 = arith.extf %1 : bf16 to f32
      %4 = arith.extf %2 : bf16 to f32
      %5 = arith.mulf %3, %4 : f32
      loop.yield %5 : f32
    } : f32
    loop.store %0, %y[d0, d1] : !sym.t<[4096, 4096], f32, device=cuda:0>
    loop.end
  }
}
// CHECK: loop.kernel @large({{.*}} attributes {tile = {d0 = 128 : i64, d1 = 256 : i64}, warps = 8 : i64, stages = 3 : i64, lamella.tiled = {kind = "bf16 1x4096x4096x4096 {{.*}}", tile = "128x256x64 w8 s3{{.*}}"}, group = 8 : i64}
// CHECK: loop.for [r0 = 4096] reduce [add] attributes {tile = {r0 = 64 : i64}, dot = "ieee"{{.*}}}

// -----

// A few rows, and what a measurement says of another kind.
builtin.module attributes {lamella.tiles = {"bf16 1x64x512x512 1+3" = "64x64x64 w4 s5"}} {
  loop.kernel @rows(%a: !sym.t<[8, 4096], bf16, device=cuda:0>, %b: !sym.t<[4096, 4096], bf16, device=cuda:0>) outs(%y: !sym.t<[8, 4096], f32, device=cuda:0>) sizes [] grid [d0 = 8, d1 = 4096] {
    %0 = loop.for [r0 = 4096] reduce [add] {
      %1 = loop.load %a[d0, r0] : !sym.t<[8, 4096], bf16, device=cuda:0>
      %2 = loop.load %b[d1, r0] : !sym.t<[4096, 4096], bf16, device=cuda:0>
      %3 = arith.extf %1 : bf16 to f32
      %4 = arith.extf %2 : bf16 to f32
      %5 = arith.mulf %3, %4 : f32
      loop.yield %5 : f32
    } : f32
    loop.store %0, %y[d0, d1] : !sym.t<[8, 4096], f32, device=cuda:0>
    loop.end
  }
  loop.kernel @small(%a: !sym.t<[64, 512], bf16, device=cuda:0>, %b: !sym.t<[512, 512], bf16, device=cuda:0>) outs(%y: !sym.t<[64, 512], f32, device=cuda:0>) sizes [] grid [d0 = 64, d1 = 512] {
    %0 = loop.for [r0 = 512] reduce [add] {
      %1 = loop.load %a[d0, r0] : !sym.t<[64, 512], bf16, device=cuda:0>
      %2 = loop.load %b[d1, r0] : !sym.t<[512, 512], bf16, device=cuda:0>
      %3 = arith.extf %1 : bf16 to f32
      %4 = arith.extf %2 : bf16 to f32
      %5 = arith.mulf %3, %4 : f32
      loop.yield %5 : f32
    } : f32
    loop.store %0, %y[d0, d1] : !sym.t<[64, 512], f32, device=cuda:0>
    loop.end
  }
}
// CHECK: loop.kernel @rows({{.*}} attributes {tile = {d0 = 16 : i64, d1 = 16 : i64}
// CHECK: loop.for [r0 = 4096] reduce [add] attributes {tile = {r0 = 256 : i64}
// CHECK: loop.kernel @small({{.*}} attributes {tile = {d0 = 64 : i64, d1 = 64 : i64}

// -----

// Batches are points of the grid before the tiles; a transposed result has its dims in the order of the grid.
builtin.module {
  loop.kernel @batched(%a: !sym.t<[3, 64, 64], f16, device=cuda:0>, %b: !sym.t<[3, 64, 64], f16, device=cuda:0>) outs(%y: !sym.t<[64, 3, 64], f32, device=cuda:0>) sizes [] grid [d0 = 64, d1 = 3, d2 = 64] {
    %0 = loop.for [r0 = 64] reduce [add] {
      %1 = loop.load %a[d1, d0, r0] : !sym.t<[3, 64, 64], f16, device=cuda:0>
      %2 = loop.load %b[d1, r0, d2] : !sym.t<[3, 64, 64], f16, device=cuda:0>
      %3 = arith.extf %1 : f16 to f32
      %4 = arith.extf %2 : f16 to f32
      %5 = arith.mulf %3, %4 : f32
      loop.yield %5 : f32
    } : f32
    loop.store %0, %y[d0, d1, d2] : !sym.t<[64, 3, 64], f32, device=cuda:0>
    loop.end
  }
}
// CHECK: loop.kernel @batched({{.*}} grid [d1 = 3, d0 = 64, d2 = 64] attributes

// -----

// A weight of bytes in f32: bf16 has each of its numbers, and the other factor is a sum of three.
builtin.module {
  loop.kernel @bytes(%a: !sym.t<[16, 4096], f32, device=cuda:0>, %b: !sym.t<[14336, 4096], i8, device=cuda:0>) outs(%y: !sym.t<[16, 14336], f32, device=cuda:0>) sizes [] grid [d0 = 16, d1 = 14336] {
    %0 = loop.for [r0 = 4096] reduce [add] {
      %1 = loop.load %a[d0, r0] : !sym.t<[16, 4096], f32, device=cuda:0>
      %2 = loop.load %b[d1, r0] : !sym.t<[14336, 4096], i8, device=cuda:0>
      %3 = arith.sitofp %2 : i8 to f32
      %4 = arith.mulf %1, %3 : f32
      loop.yield %4 : f32
    } : f32
    loop.store %0, %y[d0, d1] : !sym.t<[16, 14336], f32, device=cuda:0>
    loop.end
  }
}
// CHECK: loop.kernel @bytes
// CHECK: dot = "bf16x6"
