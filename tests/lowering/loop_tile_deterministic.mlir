// RUN: lamella-opt %s -p 'loop-tile{deterministic=true}' | filecheck %s

// Sums keep their order: a program goes through the updates one by one, for its columns.
// CHECK: loop.kernel @update_part1({{.*}} attributes {deterministic
// CHECK: loop.for [d0 = 512]
// CHECK: loop.store %{{.*}}, %y0[v0, d1](%{{.*}}) combine add
loop.kernel @update(%x0: !sym.t<[4096, 64], f32, device=cuda:0>, %x1: !sym.t<[512], i64, device=cuda:0>, %x2: !sym.t<[512, 64], f32, device=cuda:0>) outs(%y0: !sym.t<[4096, 64], f32, device=cuda:0>) sizes [] grid [] {
  loop.for [d2 = 4096, d1 = 64] {
    %0 = loop.load %x0[d2, d1] : !sym.t<[4096, 64], f32, device=cuda:0>
    loop.store %0, %y0[d2, d1] : !sym.t<[4096, 64], f32, device=cuda:0>
    loop.yield
  }
  loop.for [d0 = 512] {
    loop.for [d1 = 64] {
      %1 = loop.load %x1[d0] : !sym.t<[512], i64, device=cuda:0>
      %2 = loop.load %x2[d0, d1] : !sym.t<[512, 64], f32, device=cuda:0>
      loop.store %2, %y0[v0, d1](%1) combine add : !sym.t<[4096, 64], f32, device=cuda:0>
      loop.yield
    }
    loop.yield
  }
  loop.end
}
host.func @main(%x: !sym.t<[4096, 64], f32, device=cuda:0>, %i: !sym.t<[512], i64, device=cuda:0>, %v: !sym.t<[512, 64], f32, device=cuda:0>) -> !sym.t<[4096, 64], f32, device=cuda:0> {
  host.check %x "x" : !sym.t<[4096, 64], f32, device=cuda:0>
  %y = host.empty : !sym.t<[4096, 64], f32, device=cuda:0>
  host.launch @update(%x, %i, %v) outs(%y) sizes [] : !sym.t<[4096, 64], f32, device=cuda:0>, !sym.t<[512], i64, device=cuda:0>, !sym.t<[512, 64], f32, device=cuda:0>, !sym.t<[4096, 64], f32, device=cuda:0>
  host.return %y : !sym.t<[4096, 64], f32, device=cuda:0>
}
