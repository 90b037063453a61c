// RUN: lamella-opt %s -p kernel-to-tt --split-input-file | filecheck %s

// Tiles that are written out: what the first loop loads is at hand in the second, and the last tile alone has lanes that
// are no points. Addresses are a known number apart.
builtin.module {
  loop.kernel @held(%x: !sym.t<[64, 600], f32, device=cuda:0>) outs(%y: !sym.t<[64, 600], f32, device=cuda:0>) sizes [] grid [d0 = 64] attributes {warps = 2 : i64, registers = 128 : i64} {
    %0 = loop.for [d1 = 600] reduce [max] attributes {unroll, tile = {d1 = 256 : i64}} {
      %1 = loop.load %x[d0, d1] : !sym.t<[64, 600], f32, device=cuda:0>
      loop.yield %1 : f32
    } : f32
    loop.for [d1 = 600] attributes {unroll, tile = {d1 = 256 : i64}} {
      %2 = loop.load %x[d0, d1] : !sym.t<[64, 600], f32, device=cuda:0>
      %3 = arith.subf %2, %0 : f32
      loop.store %3, %y[d0, d1] : !sym.t<[64, 600], f32, device=cuda:0>
      loop.yield
    }
    loop.end
  }
}
// CHECK-LABEL: tt.func public @held
// CHECK-SAME: lamella.registers = 128 : i64
// CHECK: %[[A:.*]] = tt.load %{{[^,]*}} : tensor<256x!tt.ptr<f32>>
// CHECK: %[[B:.*]] = tt.load %{{[^,]*}} : tensor<256x!tt.ptr<f32>>
// CHECK: %[[C:.*]] = tt.load %{{.*}}, %{{.*}} : tensor<256x!tt.ptr<f32>>
// CHECK-NOT: scf.for
// CHECK-NOT: tt.load
// CHECK: arith.subf %[[A]]
// CHECK: arith.subf %[[B]]
// CHECK: arith.subf %[[C]]
// CHECK: tt.return

// -----

// The last tile of a long loop is behind it: no lane of the others is left out.
builtin.module {
  loop.kernel @long(%x: !sym.t<[100000], f32, device=cuda:0>) outs(%y: !sym.t<[], f32, device=cuda:0>) sizes [] grid [] attributes {warps = 4 : i64} {
    %0 = loop.for [d1 = 100000] reduce [add] attributes {tile = {d1 = 1024 : i64}} {
      %1 = loop.load %x[d1] : !sym.t<[100000], f32, device=cuda:0>
      loop.yield %1 : f32
    } : f32
    loop.store %0, %y[] : !sym.t<[], f32, device=cuda:0>
    loop.end
  }
}
// CHECK-LABEL: tt.func public @long
// CHECK: %[[END:.*]] = arith.constant 99328 : i32
// CHECK: scf.for %{{.*}} = %{{.*}} to %[[END]]
// CHECK: tt.load %{{[^,]*}} : tensor<1024x!tt.ptr<f32>>
// CHECK: scf.yield
// CHECK: tt.load %{{.*}}, %{{.*}} : tensor<1024x!tt.ptr<f32>>

// -----

// Programs that go backwards, over a window whose elements are read in pairs: two of each row's three in one load.
builtin.module {
  loop.kernel @window(%x: !sym.t<[64, 128], bf16, device=cuda:0>) outs(%y: !sym.t<[64, 63], bf16, device=cuda:0>) sizes [] grid [d0 = 64, d1 = 63] attributes {tile = {d1 = 64 : i64}, warps = 1 : i64, reverse} {
    %0 = loop.for [r0 = 3] reduce [max] attributes {unroll} {
      %1 = loop.load %x[d0, 2*d1 + r0] : !sym.t<[64, 128], bf16, device=cuda:0>
      loop.yield %1 : bf16
    } : bf16
    loop.store %0, %y[d0, d1] : !sym.t<[64, 63], bf16, device=cuda:0>
    loop.end
  }
}
// CHECK-LABEL: tt.func public @window
// CHECK: %[[P:.*]] = tt.get_program_id x : i32
// CHECK: %[[LAST:.*]] = arith.constant 63 : i32
// CHECK: arith.subi %[[LAST]], %[[P]] : i32
// CHECK: %[[PAIRS:.*]] = tt.load %{{.*}} : tensor<64x2x!tt.ptr<bf16>>
// CHECK: %{{.*}}, %{{.*}} = tt.split %[[PAIRS]] : tensor<64x2xbf16> -> tensor<64xbf16>
// CHECK: tt.load %{{.*}} : tensor<64x2x!tt.ptr<bf16>>
// CHECK: tt.split
// CHECK-NOT: tt.load
// CHECK: tt.store

// -----

// Mean and variance of columns whose tiles have points in the same lanes at each turn: one count, and one division, for
// all of them; lanes without points count none in the end.
builtin.module {
  loop.kernel @counted(%x: !sym.t<[64, 56, 32], f32, device=cuda:0>) outs(%y: !sym.t<[32], f32, device=cuda:0>, %z: !sym.t<[32], f32, device=cuda:0>) sizes [] grid [d0 = 32] attributes {warps = 4 : i64, tile = {d0 = 32 : i64}} {
    %0, %1 = loop.for [r0 = 64, r1 = 56] reduce [welford] attributes {tile = {r1 = 64 : i64}} {
      %2 = loop.load %x[r0, r1, d0] : !sym.t<[64, 56, 32], f32, device=cuda:0>
      loop.yield %2 : f32
    } : f32, f32
    loop.store %0, %y[d0] : !sym.t<[32], f32, device=cuda:0>
    loop.store %1, %z[d0] : !sym.t<[32], f32, device=cuda:0>
    loop.end
  }
}
// CHECK-LABEL: tt.func public @counted
// CHECK: scf.for {{.*}} -> (tensor<32x64xf32>, tensor<32x64xf32>, f32)
// CHECK: arith.divf {{.*}} : f32
// CHECK: scf.yield {{.*}} : tensor<32x64xf32>, tensor<32x64xf32>, f32
// CHECK: arith.select {{.*}} : tensor<1x64xi1>, tensor<1x64xf32>
// CHECK: "tt.reduce"

// -----

// Where the last tile has fewer points, each lane of the reduction counts its own, for all lanes around it.
builtin.module {
  loop.kernel @uneven(%x: !sym.t<[100, 32], f32, device=cuda:0>) outs(%y: !sym.t<[32], f32, device=cuda:0>, %z: !sym.t<[32], f32, device=cuda:0>) sizes [] grid [d0 = 32] attributes {warps = 4 : i64, tile = {d0 = 32 : i64}} {
    %0, %1 = loop.for [r0 = 100] reduce [welford] attributes {tile = {r0 = 64 : i64}} {
      %2 = loop.load %x[r0, d0] : !sym.t<[100, 32], f32, device=cuda:0>
      loop.yield %2 : f32
    } : f32, f32
    loop.store %0, %y[d0] : !sym.t<[32], f32, device=cuda:0>
    loop.store %1, %z[d0] : !sym.t<[32], f32, device=cuda:0>
    loop.end
  }
}
// CHECK-LABEL: tt.func public @uneven
// CHECK: scf.for {{.*}} -> (tensor<32x64xf32>, tensor<32x64xf32>, tensor<1x64xf32>)

// -----

// The same where what has all of a dim at hand stands around the loop.
builtin.module {
  loop.kernel @outer(%x: !sym.t<[56, 70, 32], f32, device=cuda:0>) outs(%y: !sym.t<[32], f32, device=cuda:0>, %z: !sym.t<[32], f32, device=cuda:0>) sizes [] grid [d0 = 32] attributes {warps = 4 : i64, tile = {d0 = 32 : i64}} {
    %0, %1 = loop.for [r0 = 56, r1 = 70] reduce [welford] attributes {tile = {r0 = 64 : i64}} {
      %2 = loop.load %x[r0, r1, d0] : !sym.t<[56, 70, 32], f32, device=cuda:0>
      loop.yield %2 : f32
    } : f32, f32
    loop.store %0, %y[d0] : !sym.t<[32], f32, device=cuda:0>
    loop.store %1, %z[d0] : !sym.t<[32], f32, device=cuda:0>
    loop.end
  }
}
// CHECK-LABEL: tt.func public @outer
// CHECK: scf.for {{.*}} -> (tensor<32x64xf32>, tensor<32x64xf32>, f32)
// CHECK: arith.select {{.*}} : tensor<1x64xi1>, tensor<1x64xf32>
// CHECK: "tt.reduce"

// -----

// A loop that asks for what later turns read says so to Triton; the one around it has nothing to ask for.
builtin.module {
  loop.kernel @ahead(%x: !sym.t<[8, 512, 64], f32, device=cuda:0>) outs(%y: !sym.t<[64], f32, device=cuda:0>) sizes [] grid [d0 = 64] attributes {warps = 2 : i64, tile = {d0 = 64 : i64}} {
    %0 = loop.for [r0 = 8, r1 = 512] reduce [add] attributes {tile = {r1 = 16 : i64}, stages = 4 : i64} {
      %1 = loop.load %x[r0, r1, d0] : !sym.t<[8, 512, 64], f32, device=cuda:0>
      loop.yield %1 : f32
    } : f32
    loop.store %0, %y[d0] : !sym.t<[64], f32, device=cuda:0>
    loop.end
  }
}
// CHECK-LABEL: tt.func public @ahead
// CHECK: scf.for
// CHECK: scf.for
// CHECK: } {tt.num_stages = 4 : i32}
// CHECK-NOT: tt.num_stages
