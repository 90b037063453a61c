// RUN: lamella-opt %s -p kernel-to-tt | filecheck %s

// Up to 64 columns a row is one tile, of which both loops have the same values; longer ones are gone through twice.
// CHECK: %[[SMALL:.*]] = arith.cmpi sle, %{{.*}}, %{{.*}} : i32
// CHECK: scf.if %[[SMALL]] {
// CHECK: tt.load
// CHECK-NOT: scf.for
// CHECK-NOT: tt.load
// CHECK: tt.store
// CHECK: } else {
// CHECK: scf.for
// CHECK: tt.load
// CHECK: scf.for
// CHECK: tt.load
// CHECK: tt.store
loop.kernel @apart(%x0: !sym.t<[s0, s1], f32, device=cuda:0>) outs(%y0: !sym.t<[s0, s1], f32, device=cuda:0>) sizes [s0, s1] grid [d0 = s0] attributes {held = {s1 = 64 : i64}, warps = 1 : i64} {
  %0 = loop.for [r0 = s1] reduce [max] attributes {tile = {r0 = 64 : i64}} {
    %1 = loop.load %x0[d0, r0] : !sym.t<[s0, s1], f32, device=cuda:0>
    loop.yield %1 : f32
  } : f32
  loop.for [d1 = s1] attributes {tile = {d1 = 64 : i64}} {
    %2 = loop.load %x0[d0, d1] : !sym.t<[s0, s1], f32, device=cuda:0>
    %3 = arith.subf %2, %0 : f32
    loop.store %3, %y0[d0, d1] : !sym.t<[s0, s1], f32, device=cuda:0>
    loop.yield
  }
  loop.end
}
