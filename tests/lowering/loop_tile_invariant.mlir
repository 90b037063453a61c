// RUN: lamella-opt %s -p 'loop-tile{target=sm_90 invariant=true}' | filecheck %s
// RUN: lamella-opt %s -p 'loop-tile{target=sm_90 invariant=true},kernel-to-tt' | filecheck %s --check-prefix=TT
// Tiles of a row are those of its length: as many warps, and one row a program, for three rows as for one.

// CHECK: loop.kernel @many{{.*}} attributes {warps = 8 : i64, stages = 3 : i64}
// CHECK: loop.for [r0 = 64] reduce [add] attributes {tile = {r0 = 64 : i64}}
// TT: tt.func public @many(%{{.*}}: !tt.ptr<f32> {tt.divisibility = 16 : i32}
loop.kernel @many(%x: !sym.t<[40000, 64], f32, device=cuda:0>) outs(%y: !sym.t<[40000], f32, device=cuda:0>) sizes [] grid [d0 = 40000] {
  %0 = loop.for [r0 = 64] reduce [add] {
    %1 = loop.load %x[d0, r0] : !sym.t<[40000, 64], f32, device=cuda:0>
    loop.yield %1 : f32
  } : f32
  loop.store %0, %y[d0] : !sym.t<[40000], f32, device=cuda:0>
  loop.end
}

// CHECK: loop.kernel @one{{.*}} attributes {warps = 8 : i64, stages = 3 : i64}
// CHECK: loop.for [r0 = 64] reduce [add] attributes {tile = {r0 = 64 : i64}}
loop.kernel @one(%x: !sym.t<[64], f32, device=cuda:0>) outs(%y: !sym.t<[], f32, device=cuda:0>) sizes [] grid [] {
  %0 = loop.for [r0 = 64] reduce [add] {
    %1 = loop.load %x[r0] : !sym.t<[64], f32, device=cuda:0>
    loop.yield %1 : f32
  } : f32
  loop.store %0, %y[] : !sym.t<[], f32, device=cuda:0>
  loop.end
}

// The second of several rows of 65 begins where no more than an element can be read: nor is more of a first one.
// CHECK: loop.kernel @odd{{.*}} attributes {warps = 8 : i64, stages = 3 : i64, unaligned}
// TT: tt.func public @odd(%{{\w+}}: !tt.ptr<f32>, %{{\w+}}: !tt.ptr<f32>)
loop.kernel @odd(%x: !sym.t<[65], f32, device=cuda:0>) outs(%y: !sym.t<[], f32, device=cuda:0>) sizes [] grid [] {
  %0 = loop.for [r0 = 65] reduce [add] {
    %1 = loop.load %x[r0] : !sym.t<[65], f32, device=cuda:0>
    loop.yield %1 : f32
  } : f32
  loop.store %0, %y[] : !sym.t<[], f32, device=cuda:0>
  loop.end
}

// A product has the tile of all products of bf16, though there are two rows.
// CHECK: loop.kernel @product{{.*}}tile = {d0 = 64 : i64, d1 = 128 : i64}, warps = 4 : i64, stages = 4 : i64
loop.kernel @product(%a: !sym.t<[2, 512], bf16, device=cuda:0>, %b: !sym.t<[512, 40], bf16, device=cuda:0>) outs(%y: !sym.t<[2, 40], f32, device=cuda:0>) sizes [] grid [d0 = 2, d1 = 40] {
  %0 = loop.for [r0 = 512] reduce [add] {
    %1 = loop.load %a[d0, r0] : !sym.t<[2, 512], bf16, device=cuda:0>
    %2 = loop.load %b[r0, d1] : !sym.t<[512, 40], bf16, device=cuda:0>
    %3 = arith.extf %1 : bf16 to f32
    %4 = arith.extf %2 : bf16 to f32
    %5 = arith.mulf %3, %4 : f32
    loop.yield %5 : f32
  } : f32
  loop.store %0, %y[d0, d1] : !sym.t<[2, 40], f32, device=cuda:0>
  loop.end
}
