// RUN: lamella-opt %s -p 'loop-tile{target=sm_90}' | filecheck %s
// Parts of one image: a row of two dims of which the first has one point.

// CHECK: loop.kernel @part
// CHECK: loop.for [r0 = d0 : d0 + 1, r1 = 12544] reduce [add] attributes {unroll, tile = {r1 = {{[0-9]+}} : i64}
// CHECK: loop.for [r0 = d0 : d0 + 1, r1 = 12544] reduce [add] attributes {unroll, tile = {r1 = {{[0-9]+}} : i64}
loop.kernel @part(%x: !sym.t<[64, 64, 12544], bf16, device=cuda:0>) outs(%y: !sym.t<[64, 64], f32, device=cuda:0>, %z: !sym.t<[64, 64], f32, device=cuda:0>) sizes [] grid [d0 = 64, d1 = 64] {
  %0 = loop.for [r0 = d0 : d0 + 1, r1 = 12544] reduce [add] {
    %1 = loop.load %x[r0, d1, r1] : !sym.t<[64, 64, 12544], bf16, device=cuda:0>
    %2 = arith.extf %1 : bf16 to f32
    loop.yield %2 : f32
  } : f32
  loop.store %0, %y[d0, d1] : !sym.t<[64, 64], f32, device=cuda:0>
  %3 = loop.for [r0 = d0 : d0 + 1, r1 = 12544] reduce [add] {
    %4 = loop.load %x[r0, d1, r1] : !sym.t<[64, 64, 12544], bf16, device=cuda:0>
    %5 = arith.extf %4 : bf16 to f32
    %6 = arith.subf %5, %0 : f32
    loop.yield %6 : f32
  } : f32
  loop.store %3, %z[d0, d1] : !sym.t<[64, 64], f32, device=cuda:0>
  loop.end
}
