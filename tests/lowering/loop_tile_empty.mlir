// RUN: lamella-opt %s -p loop-tile | filecheck %s
// A product of no rows has tiles too.

// CHECK-LABEL: loop.kernel @product(
// CHECK-SAME:  tile = {d0 =
loop.kernel @product(%a: !sym.t<[0, 64], bf16, device=cuda:0>, %b: !sym.t<[64, 64], bf16, device=cuda:0>) outs(%y: !sym.t<[0, 64], f32, device=cuda:0>) sizes [] grid [d0 = 0, d1 = 64] {
  %0 = loop.for [r0 = 64] reduce [add] {
    %1 = loop.load %a[d0, r0] : !sym.t<[0, 64], bf16, device=cuda:0>
    %2 = loop.load %b[d1, r0] : !sym.t<[64, 64], bf16, device=cuda:0>
    %3 = arith.extf %1 : bf16 to f32
    %4 = arith.extf %2 : bf16 to f32
    %5 = arith.mulf %3, %4 : f32
    loop.yield %5 : f32
  } : f32
  loop.store %0, %y[d0, d1] : !sym.t<[0, 64], f32, device=cuda:0>
  loop.end
}
