// RUN: lamella-opt %s -p kernel-to-tt | filecheck %s
// What is checked: a function for several launches of one kernel, in which each program finds its launch's arguments.

loop.kernel @neg(%x: !sym.t<[16*s0], f32, device=cuda:0>) outs(%y: !sym.t<[16*s0], f32, device=cuda:0>) sizes [s0] grid [d0 = 16*s0] attributes {tile = {d0 = 256 : i64}} {
  %0 = loop.load %x[d0] : !sym.t<[16*s0], f32, device=cuda:0>
  %1 = arith.negf %0 : f32
  loop.store %1, %y[d0] : !sym.t<[16*s0], f32, device=cuda:0>
  loop.end
}
// Three launches: a function for four.
// CHECK: tt.func public @neg_together(%x: !tt.ptr<f32> {tt.divisibility = 16 : i32}, %y: !tt.ptr<f32> {tt.divisibility = 16 : i32}, %x_1: !tt.ptr<f32>
// CHECK-SAME: %y_3: !tt.ptr<f32> {tt.divisibility = 16 : i32}, %s0: i32, %s0_1: i32, %s0_2: i32, %s0_3: i32, %0: i32, %1: i32, %2: i32, %3: i32)
// CHECK-SAME: lamella.segments = 4 : i64
// CHECK-NEXT: [[PROGRAM:%\w+]] = tt.get_program_id x : i32
// CHECK-NEXT: [[THIRD:%\w+]] = arith.cmpi sge, [[PROGRAM]], %2 : i32
// CHECK-NEXT: [[FOURTH:%\w+]] = arith.cmpi sge, [[PROGRAM]], %3 : i32
// CHECK-NEXT: [[SECOND:%\w+]] = arith.cmpi sge, [[PROGRAM]], %1 : i32
// CHECK-NEXT: %{{.*}} = scf.if [[THIRD]] -> (!tt.ptr<f32>, !tt.ptr<f32>, i32, i32) {
// CHECK-NEXT: %{{.*}} = scf.if [[FOURTH]] ->
// CHECK-NEXT: scf.yield %x_3, %y_3, %s0_3, %3
// CHECK: scf.yield %x_2, %y_2, %s0_2, %2
// CHECK: } else {
// CHECK-NEXT: %{{.*}} = scf.if [[SECOND]] ->
// CHECK-NEXT: scf.yield %x_1, %y_1, %s0_1, %1
// CHECK: scf.yield %x, %y, %s0, %0
// CHECK: arith.subi [[PROGRAM]], %{{.*}} : i32
// CHECK-NOT: tt.func public @neg(
// CHECK: host.func @main
host.func @main(%a: !sym.t<[64], f32, device=cuda:0>, %b: !sym.t<[16*s0], f32, device=cuda:0>, %c: !sym.t<[32], f32, device=cuda:0>, %n: !sym.int<s0>) {
  host.together {
    host.launch @neg(%a) outs(%a) sizes [4] : !sym.t<[64], f32, device=cuda:0>, !sym.t<[64], f32, device=cuda:0>
    host.launch @neg(%b) outs(%b) sizes [s0] : !sym.t<[16*s0], f32, device=cuda:0>, !sym.t<[16*s0], f32, device=cuda:0>
    host.launch @neg(%c) outs(%c) sizes [2] : !sym.t<[32], f32, device=cuda:0>, !sym.t<[32], f32, device=cuda:0>
  }
  host.return
}
