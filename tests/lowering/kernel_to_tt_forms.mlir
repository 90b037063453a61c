// RUN: lamella-opt %s -p kernel-to-tt --split-input-file | filecheck %s

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

// -----

// A size that is a multiple is computed so that Triton sees it; the other form's loads say `ca`, or Triton's compiler
// would make one block of both.
// CHECK: %[[REST:.*]] = arith.remsi %s0
// CHECK: %[[ALIKE:.*]] = arith.cmpi eq, %[[REST]]
// CHECK: %[[SHARE:.*]] = arith.divsi %s0
// CHECK: arith.muli %[[SHARE]]
// CHECK: scf.if %[[ALIKE]] {
// CHECK: tt.load
// CHECK-NOT: cacheModifier
// CHECK: } else {
// CHECK: tt.load {{.*}} cacheModifier = ca
loop.kernel @twice(%x0: !sym.t<[s0], f32, device=cuda:0>) outs(%y0: !sym.t<[s0], f32, device=cuda:0>) sizes [s0] grid [d0 = s0] attributes {multiple = {s0 = 16 : i64}, tile = {d0 = 512 : i64}, warps = 4 : i64} {
  %0 = loop.load %x0[d0] : !sym.t<[s0], f32, device=cuda:0>
  %1 = arith.addf %0, %0 : f32
  loop.store %1, %y0[d0] : !sym.t<[s0], f32, device=cuda:0>
  loop.end
}
