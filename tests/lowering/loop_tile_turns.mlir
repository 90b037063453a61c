// RUN: lamella-opt %s -p loop-tile | filecheck %s
// RUN: lamella-opt %s -p loop-tile,kernel-to-tt | filecheck %s --check-prefix=TT

// A program that takes rows in turn has sums of columns at hand: in scratch, which loops carry. It takes two rows at a
// time, as a warp reads the elements of one.

// CHECK-LABEL: loop.kernel @norm
// CHECK:         %[[S:.*]] = loop.scratch : !sym.t<[768], f32>
// CHECK:         loop.for [d2 = 768] attributes {tile = {d2 = 1024 : i64}} {
// CHECK-NEXT:      loop.store %{{.*}}, %[[S]][d2] :
// CHECK:         loop.for [d1 = 8*d0 : 8*d0 + 8] attributes {tile = {d1 = 2 : i64}} {
// CHECK-NEXT:      loop.for [d2 = 768] reduce [add]
// CHECK:             loop.store %{{.*}}, %[[S]][d2] combine add
// CHECK:           %[[V:.*]] = loop.load %[[S]][d2]
// CHECK-NEXT:      loop.store %[[V]], %s[d0, d2]

// TT-LABEL: tt.func public @norm
// TT:         %[[ZERO:.*]] = tt.splat %{{.*}} : f32 -> tensor<1024xf32>
// TT:         %[[SUM:.*]] = scf.for %{{.*}} iter_args(%[[OLD:.*]] = %[[ZERO]]) -> (tensor<1024xf32>)
// TT:           %[[BOTH:.*]] = "tt.reduce"(%{{.*}}) <{axis = 0 : i32}>
// TT:           %[[NEW:.*]] = arith.addf %[[OLD]], %[[BOTH]] : tensor<1024xf32>
// TT:           scf.yield %[[NEW]] : tensor<1024xf32>
// TT-NOT:     tt.atomic_rmw
// TT:         tt.store %{{.*}}, %[[SUM]]
loop.kernel @norm(%x: !sym.t<[40, 768], f32, device=cuda:0>) outs(%y: !sym.t<[40, 768], f32, device=cuda:0>, %s: !sym.t<[5, 768], f32, device=cuda:0>) sizes [] grid [d0 = 5] {
  %0 = arith.constant 0.0 : f32
  loop.for [d2 = 768] {
    loop.store %0, %s[d0, d2] : !sym.t<[5, 768], f32, device=cuda:0>
    loop.yield
  }
  loop.for [d1 = 8*d0 : 8*d0 + 8] {
    %1 = loop.for [d2 = 768] reduce [add] {
      %2 = loop.load %x[d1, d2] : !sym.t<[40, 768], f32, device=cuda:0>
      loop.store %2, %s[d0, d2] combine add : !sym.t<[5, 768], f32, device=cuda:0>
      loop.yield %2 : f32
    } : f32
    loop.for [d2 = 768] {
      %3 = loop.load %x[d1, d2] : !sym.t<[40, 768], f32, device=cuda:0>
      %4 = arith.subf %3, %1 : f32
      loop.store %4, %y[d1, d2] : !sym.t<[40, 768], f32, device=cuda:0>
      loop.yield
    }
    loop.yield
  }
  loop.end
}

// Columns whose number is not known stay in memory: they are set in one launch, and added to in the next.

// CHECK-NOT:   loop.scratch
// CHECK:       loop.kernel @unknown_part1
// CHECK:         loop.store %{{.*}}, %s[d0, d2] combine add
// CHECK:       loop.kernel @held

// TT:       tt.func public @unknown_part1
// TT:         tt.atomic_rmw
// TT:       tt.func public @held
loop.kernel @unknown(%x: !sym.t<[40, s0], f32, device=cuda:0>) outs(%s: !sym.t<[5, s0], f32, device=cuda:0>) sizes [s0] grid [d0 = 5] {
  %0 = arith.constant 0.0 : f32
  loop.for [d2 = s0] {
    loop.store %0, %s[d0, d2] : !sym.t<[5, s0], f32, device=cuda:0>
    loop.yield
  }
  loop.for [d1 = 8*d0 : 8*d0 + 8] {
    loop.for [d2 = s0] {
      %2 = loop.load %x[d1, d2] : !sym.t<[40, s0], f32, device=cuda:0>
      loop.store %2, %s[d0, d2] combine add : !sym.t<[5, s0], f32, device=cuda:0>
      loop.yield
    }
    loop.yield
  }
  loop.end
}

// Of a row in several tiles, each has its own sum; rows of the last turn that are none add nothing.

// CHECK:         loop.for [d1 = 7*d0 : min(33, 7*d0 + 7)] {
// CHECK-NEXT:      loop.for [d2 = 2500] attributes {unroll, tile = {d2 = 512 : i64}} {
// TT:           scf.for %{{.*}} -> (tensor<[[N:\d+]]xf32>, tensor<[[N]]xf32>, tensor<[[N]]xf32>
loop.kernel @held(%x: !sym.t<[33, 2500], f32, device=cuda:0>) outs(%y: !sym.t<[33, 2500], f32, device=cuda:0>, %s: !sym.t<[5, 2500], f32, device=cuda:0>) sizes [] grid [d0 = 5] {
  %0 = arith.constant 0.0 : f32
  loop.for [d2 = 2500] {
    loop.store %0, %s[d0, d2] : !sym.t<[5, 2500], f32, device=cuda:0>
    loop.yield
  }
  loop.for [d1 = 7*d0 : min(33, 7*d0 + 7)] {
    loop.for [d2 = 2500] {
      %2 = loop.load %x[d1, d2] : !sym.t<[33, 2500], f32, device=cuda:0>
      loop.store %2, %y[d1, d2] : !sym.t<[33, 2500], f32, device=cuda:0>
      loop.store %2, %s[d0, d2] combine add : !sym.t<[5, 2500], f32, device=cuda:0>
      loop.yield
    }
    loop.yield
  }
  loop.end
}
