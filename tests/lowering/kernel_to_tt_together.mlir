// RUN: lamella-opt %s -p kernel-to-tt | filecheck %s
// What is checked: a function for several launches of one kernel, in which each program finds its launch's arguments; what
// is the same buffer in each launch (%x and %y), or for all of them (%z), comes once.

loop.kernel @add(%x: !sym.t<[16*s0], f32, device=cuda:0>, %z: !sym.t<[], f32, device=cuda:0>, %w: !sym.t<[16*s0], f32, device=cuda:0>) outs(%y: !sym.t<[16*s0], f32, device=cuda:0>) sizes [s0] grid [d0 = 16*s0] attributes {tile = {d0 = 256 : i64}} {
  %0 = loop.load %x[d0] : !sym.t<[16*s0], f32, device=cuda:0>
  %1 = loop.load %z[] : !sym.t<[], f32, device=cuda:0>
  %2 = loop.load %w[d0] : !sym.t<[16*s0], f32, device=cuda:0>
  %3 = arith.addf %0, %1 : f32
  %4 = arith.addf %3, %2 : f32
  loop.store %4, %y[d0] : !sym.t<[16*s0], f32, device=cuda:0>
  loop.end
}
// Three launches: a function for four.
// CHECK: tt.func public @add_together(%x: !tt.ptr<f32> {tt.divisibility = 16 : i32}, %w: !tt.ptr<f32> {tt.divisibility = 16 : i32}, %x_1: !tt.ptr<f32>
// CHECK-SAME: %w_3: !tt.ptr<f32> {tt.divisibility = 16 : i32}, %z: !tt.ptr<f32> {tt.divisibility = 16 : i32}, %s0: i32, %s0_1: i32, %s0_2: i32, %s0_3: i32, %0: i32, %1: i32, %2: i32, %3: i32)
// CHECK-SAME: lamella.segments = 4 : i64, lamella.places = [0 : i64, -1 : i64, 1 : i64, 0 : i64]
// CHECK-NEXT: [[PROGRAM:%\w+]] = tt.get_program_id x : i32
// CHECK-NEXT: [[THIRD:%\w+]] = arith.cmpi sge, [[PROGRAM]], %2 : i32
// CHECK-NEXT: [[FOURTH:%\w+]] = arith.cmpi sge, [[PROGRAM]], %3 : i32
// CHECK-NEXT: [[SECOND:%\w+]] = arith.cmpi sge, [[PROGRAM]], %1 : i32
// CHECK-NEXT: %{{.*}} = scf.if [[THIRD]] -> (!tt.ptr<f32>, !tt.ptr<f32>, i32, i32) {
// CHECK-NEXT: %{{.*}} = scf.if [[FOURTH]] ->
// CHECK-NEXT: scf.yield %x_3, %w_3, %s0_3, %3
// CHECK: scf.yield %x_2, %w_2, %s0_2, %2
// CHECK: } else {
// CHECK-NEXT: %{{.*}} = scf.if [[SECOND]] ->
// CHECK-NEXT: scf.yield %x_1, %w_1, %s0_1, %1
// CHECK: scf.yield %x, %w, %s0, %0
// CHECK: arith.subi [[PROGRAM]], %{{.*}} : i32
// CHECK: tt.load %z
// CHECK: tt.store
// CHECK-NOT: tt.func public @add(
// CHECK: host.func @main
host.func @main(%a: !sym.t<[64], f32, device=cuda:0>, %b: !sym.t<[16*s0], f32, device=cuda:0>, %c: !sym.t<[32], f32, device=cuda:0>, %z: !sym.t<[], f32, device=cuda:0>, %u: !sym.t<[64], f32, device=cuda:0>, %v: !sym.t<[16*s0], f32, device=cuda:0>, %w: !sym.t<[32], f32, device=cuda:0>, %n: !sym.int<s0>) {
  host.together {
    host.launch @add(%a, %z, %u) outs(%a) sizes [4] : !sym.t<[64], f32, device=cuda:0>, !sym.t<[], f32, device=cuda:0>, !sym.t<[64], f32, device=cuda:0>, !sym.t<[64], f32, device=cuda:0>
    host.launch @add(%b, %z, %v) outs(%b) sizes [s0] : !sym.t<[16*s0], f32, device=cuda:0>, !sym.t<[], f32, device=cuda:0>, !sym.t<[16*s0], f32, device=cuda:0>, !sym.t<[16*s0], f32, device=cuda:0>
    host.launch @add(%c, %z, %w) outs(%c) sizes [2] : !sym.t<[32], f32, device=cuda:0>, !sym.t<[], f32, device=cuda:0>, !sym.t<[32], f32, device=cuda:0>, !sym.t<[32], f32, device=cuda:0>
  }
  host.return
}
