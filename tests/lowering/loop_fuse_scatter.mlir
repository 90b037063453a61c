// RUN: lamella-opt %s --split-input-file -p 'loop-fuse' | filecheck %s
// RUN: lamella-opt %s --split-input-file -p 'loop-fuse,loop-schedule{threads=4}' | filecheck %s --check-prefix SCHED
// RUN: lamella-opt %s --split-input-file -p 'loop-fuse,loop-schedule{threads=4},bufferize' | filecheck %s --check-prefix HOST

// A key-value cache: heads are points of the grid, the row is along memory. In place, only the row moves.

// CHECK:      grid [d0 = 2, d1 = 8]
// CHECK-NEXT:   loop.for [d4 = 128, d3 = 64]
// CHECK-NEXT:     loop.load %x0[d0, d1, d4, d3]
// CHECK:        loop.assert
// CHECK-NEXT:   loop.for [d2 = 1, d3 = 64]
// CHECK-NEXT:     loop.load
// CHECK-NEXT:     loop.store {{.*}}, %y0[d0, d1, v0, d3](
// HOST:       loop.kernel @scatter_0_in_place_0_0
// HOST-SAME:    grid [d0 = 16]
// HOST-SAME:    grain = 126
// HOST-NOT:     loop.load %x0
// HOST:       host.launch @scatter_0_in_place_0_0(%c, %p, %k) outs(%c)
// HOST-NOT:   aten.copy_
func.func @main(%c: !sym.t<[2, 8, 128, 64], f32>, %p: !sym.t<[1], i64>, %k: !sym.t<[2, 8, 1, 64], f32>) {
  %0 = loop.scatter %c [d0 = 2, d1 = 8, d2 = 1, d3 = 64] combine none {
    %1 = loop.load %p[0] : !sym.t<[1], i64>
    %2 = loop.index [128]
    %3 = arith.cmpi ult, %1, %2 : i64
    loop.assert %3, "index out of range in self"
    %4 = loop.load %k[d0, d1, d2, d3] : !sym.t<[2, 8, 1, 64], f32>
    loop.yield_at %4[d0, d1, v0, d3](%1) : f32
  } : !sym.t<[2, 8, 128, 64], f32> -> !sym.t<[2, 8, 128, 64], f32>
  %5 = aten.copy_(%c, %0) : (!sym.t<[2, 8, 128, 64], f32>, !sym.t<[2, 8, 128, 64], f32>) -> !sym.t<[2, 8, 128, 64], f32>
  func.return
}

// -----

// Rows may meet, so they are in order; threads take columns, and every index is looked at once per row.

// CHECK:      grid []
// CHECK-NEXT:   loop.for [d2 = 1024, d1 = 768]
// CHECK:        loop.for [d0 = 4096]
// CHECK-NEXT:     loop.load %x1[d0]
// CHECK:          loop.for [d1 = 768]
// SCHED:      grid [b0 = 4]
// SCHED-NEXT:   loop.for [d2 = 1024, d1 = 192*b0 : 192*b0 + 192] attributes {vector = "d1"
// SCHED:        loop.for [d0 = 4096]
// SCHED-NOT:      vector
// SCHED-SAME:     {
// SCHED:          loop.for [d1 = 192*b0 : 192*b0 + 192] attributes {vector = "d1"
// SCHED:            loop.store {{.*}}, %y0[v0, d1]({{.*}}) combine add
func.func @main(%x: !sym.t<[1024, 768], f32>, %i: !sym.t<[4096], i64>, %v: !sym.t<[4096, 768], f32>) -> !sym.t<[1024, 768], f32> {
  %0 = loop.scatter %x [d0 = 4096, d1 = 768] combine add {
    %1 = loop.load %i[d0] : !sym.t<[4096], i64>
    %2 = loop.load %v[d0, d1] : !sym.t<[4096, 768], f32>
    loop.yield_at %2[v0, d1](%1) : f32
  } : !sym.t<[1024, 768], f32> -> !sym.t<[1024, 768], f32>
  func.return %0 : !sym.t<[1024, 768], f32>
}

// -----

// Nothing parallel: one dim, whose points may meet. A dim shorter than the target's is not of the grid: the copy is longer.

// CHECK:      grid []
// CHECK-NEXT:   loop.for [d1 = 100]
// CHECK:        loop.for [d0 = 50] {
// SCHED:      grid []
// SCHED:        loop.for [d0 = 50] {
// CHECK:      grid []
// CHECK-NEXT:   loop.for [d2 = 100, d3 = 100]
// CHECK:        loop.for [d0 = 50, d1 = 3]
func.func @main(%x: !sym.t<[100], f32>, %i: !sym.t<[50], i64>, %y: !sym.t<[100, 100], f32>) -> (!sym.t<[100], f32>, !sym.t<[100, 100], f32>) {
  %0 = loop.scatter %x [d0 = 50] combine none {
    %1 = loop.load %i[d0] : !sym.t<[50], i64>
    %2 = arith.constant 1.0 : f32
    loop.yield_at %2[v0](%1) : f32
  } : !sym.t<[100], f32> -> !sym.t<[100], f32>
  %1 = loop.scatter %y [d0 = 50, d1 = 3] combine none {
    %2 = loop.load %i[d1] : !sym.t<[50], i64>
    %3 = arith.constant 1.0 : f32
    loop.yield_at %3[d0, v0](%2) : f32
  } : !sym.t<[100, 100], f32> -> !sym.t<[100, 100], f32>
  func.return %0, %1 : !sym.t<[100], f32>, !sym.t<[100, 100], f32>
}
