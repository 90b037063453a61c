// RUN: lamella-opt %s -p 'loop-schedule' | filecheck %s
// Both parts of a complex number are made at one point: what both need once, all reads before the writes.

// CHECK-LABEL: loop.kernel @product(
// CHECK-SAME: grid []
// CHECK: loop.for [d0 = 512] attributes {vector = "d0"
// CHECK-NEXT: [[A:%\w+]] = loop.load %x[d0, 0]
// CHECK-NEXT: [[B:%\w+]] = loop.load %x[d0, 1]
// CHECK-NEXT: [[AB:%\w+]] = arith.mulf [[A]], [[B]]
// CHECK-NEXT: [[BB:%\w+]] = arith.mulf [[B]], [[B]]
// CHECK-NEXT: loop.store [[AB]], %y[d0, 0]
// CHECK-NEXT: loop.store [[BB]], %y[d0, 1]
// CHECK-NEXT: loop.yield
builtin.module {
  loop.kernel @product(%x: !sym.t<[512, 2], f32>) outs(%y: !sym.t<[512, 2], f32>) sizes [] grid [d0 = 512, d1 = 2] attributes {ops = ["aten.mul.Tensor"], bytes = #loop.index<[8192]>, flops = #loop.index<[2048]>} {
    %0 = loop.load %x[d0, 0] mask [lt(d1, 1)] : !sym.t<[512, 2], f32>
    %1 = loop.load %x[d0, 1] mask [lt(d1, 1)] : !sym.t<[512, 2], f32>
    %2 = arith.mulf %0, %1 : f32
    %3 = loop.load %x[d0, 1] mask [ge(d1, 1)] : !sym.t<[512, 2], f32>
    %4 = arith.mulf %3, %3 : f32
    %5 = loop.pred [lt(d1, 1)]
    %6 = arith.select %5, %2, %4 : f32
    loop.store %6, %y[d0, d1] : !sym.t<[512, 2], f32>
    loop.end
  }

// What does not ask for the part stays a loop over both.
// CHECK-LABEL: loop.kernel @plain(
// CHECK-NOT: %y[d0, 1]
// CHECK: loop.end
  loop.kernel @plain(%x: !sym.t<[512, 2], f32>) outs(%y: !sym.t<[512, 2], f32>) sizes [] grid [d0 = 512, d1 = 2] attributes {ops = ["aten.neg"], bytes = #loop.index<[8192]>, flops = #loop.index<[1024]>} {
    %0 = loop.load %x[d0, d1] : !sym.t<[512, 2], f32>
    %1 = arith.negf %0 : f32
    loop.store %1, %y[d0, d1] : !sym.t<[512, 2], f32>
    loop.end
  }
}
