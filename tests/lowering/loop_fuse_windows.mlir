// RUN: lamella-opt %s --split-input-file -p 'loop-fuse' | filecheck %s

// The largest element of each window and its place: windows that are alike are one grid, each point of which has both.

// CHECK:      loop.kernel @{{.*}} outs(%y0: !sym.t<[8, 64, 28, 28], f32>, %y1: !sym.t<[8, 64, 28, 28], i64>)
// CHECK-SAME:   grid [d0 = 8, d1 = 64, d2 = 28, d3 = 28]
// CHECK-NEXT:   = loop.for [r0 = 3, r1 = 3] reduce [max]
// CHECK:        loop.store %{{.*}}, %y0[d0, d1, d2, d3]
// CHECK-NEXT:   = loop.for [r0 = 3, r1 = 3] reduce [argmax]
func.func @main(%x: !sym.t<[8, 64, 57, 57], f32>) -> (!sym.t<[8, 64, 28, 28], f32>, !sym.t<[8, 64, 28, 28], i64>) {
  %m = loop.nest [d0 = 8, d1 = 64, d2 = 28, d3 = 28] reduce [r0 = 3, r1 = 3] combine [max] {
    %0 = loop.load %x[d0, d1, 2*d2 + r0, 2*d3 + r1] : !sym.t<[8, 64, 57, 57], f32>
    loop.yield %0 : f32
  } : !sym.t<[8, 64, 28, 28], f32>
  %p = loop.nest [d0 = 8, d1 = 64, d2 = 28, d3 = 28] reduce [r0 = 3, r1 = 3] combine [argmax] {
    %0 = loop.load %x[d0, d1, 2*d2 + r0, 2*d3 + r1] : !sym.t<[8, 64, 57, 57], f32>
    loop.yield %0 : f32
  } : !sym.t<[8, 64, 28, 28], i64>
  %q = loop.nest [d0 = 8, d1 = 64, d2 = 28, d3 = 28] {
    %0 = loop.load %p[d0, d1, d2, d3] : !sym.t<[8, 64, 28, 28], i64>
    loop.yield %0 : i64
  } : !sym.t<[8, 64, 28, 28], i64>
  func.return %m, %q : !sym.t<[8, 64, 28, 28], f32>, !sym.t<[8, 64, 28, 28], i64>
}

// -----

// Windows that step differently are not alike.

// CHECK:      loop.kernel @{{.*}} grid [d0 = 8]
// CHECK:        loop.for [r0 = 3] reduce [max]
// CHECK:        loop.for [r1 = 3] reduce [min]
func.func @main(%x: !sym.t<[8, 96], f32>) -> (!sym.t<[8, 30], f32>, !sym.t<[8, 30], f32>) {
  %m = loop.nest [d0 = 8, d1 = 30] reduce [r0 = 3] combine [max] {
    %0 = loop.load %x[d0, 2*d1 + r0] : !sym.t<[8, 96], f32>
    loop.yield %0 : f32
  } : !sym.t<[8, 30], f32>
  %p = loop.nest [d0 = 8, d1 = 30] reduce [r0 = 3] combine [min] {
    %0 = loop.load %x[d0, 3*d1 + r0] : !sym.t<[8, 96], f32>
    loop.yield %0 : f32
  } : !sym.t<[8, 30], f32>
  func.return %m, %p : !sym.t<[8, 30], f32>, !sym.t<[8, 30], f32>
}

// -----

// Of an image as it lies, a point of the grid makes a channel and has windows over it.

// CHECK:      loop.kernel @{{.*}} grid [d0 = 8, d1 = 64]
// CHECK:        loop.scratch : !sym.t<[57, 57], f32>
func.func @main(%x: !sym.t<[8, 64, 57, 57], f32>) -> (!sym.t<[8, 64, 28, 28], f32>, !sym.t<[8, 64, 28, 28], f32>) {
  %e = loop.nest [d0 = 8, d1 = 64, d2 = 57, d3 = 57] {
    %0 = loop.load %x[d0, d1, d2, d3] : !sym.t<[8, 64, 57, 57], f32>
    %1 = math.tanh %0 : f32
    loop.yield %1 : f32
  } : !sym.t<[8, 64, 57, 57], f32>
  %m = loop.nest [d0 = 8, d1 = 64, d2 = 28, d3 = 28] reduce [r0 = 3, r1 = 3] combine [max] {
    %0 = loop.load %e[d0, d1, 2*d2 + r0, 2*d3 + r1] : !sym.t<[8, 64, 57, 57], f32>
    loop.yield %0 : f32
  } : !sym.t<[8, 64, 28, 28], f32>
  %p = loop.nest [d0 = 8, d1 = 64, d2 = 28, d3 = 28] reduce [r0 = 3, r1 = 3] combine [min] {
    %0 = loop.load %e[d0, d1, 2*d2 + r0, 2*d3 + r1] : !sym.t<[8, 64, 57, 57], f32>
    loop.yield %0 : f32
  } : !sym.t<[8, 64, 28, 28], f32>
  func.return %m, %p : !sym.t<[8, 64, 28, 28], f32>, !sym.t<[8, 64, 28, 28], f32>
}

// -----

// With its channels side by side, a point of the grid would use one element of each line: two kernels.

// CHECK:      kept apart {{.*}}a point of the grid would keep one element of each of too many lines of memory
// CHECK:      loop.kernel @{{.*}} outs(%y0: !sym.t<[{{.*}}], f32
// CHECK:        math.tanh
// CHECK:      loop.kernel @{{.*}} grid [d0 = 8, d1 = 64, d2 = 28, d3 = 28]
// CHECK-NOT:    loop.scratch
func.func @main(%x: !sym.t<[8, 64, 57, 57], f32, strides=[207936, 1, 3648, 64]>) -> (!sym.t<[8, 64, 28, 28], f32, strides=[50176, 1, 1792, 64]>, !sym.t<[8, 64, 28, 28], f32, strides=[50176, 1, 1792, 64]>) {
  %e = loop.nest [d0 = 8, d1 = 64, d2 = 57, d3 = 57] {
    %0 = loop.load %x[d0, d1, d2, d3] : !sym.t<[8, 64, 57, 57], f32, strides=[207936, 1, 3648, 64]>
    %1 = math.tanh %0 : f32
    loop.yield %1 : f32
  } : !sym.t<[8, 64, 57, 57], f32, strides=[207936, 1, 3648, 64]>
  %m = loop.nest [d0 = 8, d1 = 64, d2 = 28, d3 = 28] reduce [r0 = 3, r1 = 3] combine [max] {
    %0 = loop.load %e[d0, d1, 2*d2 + r0, 2*d3 + r1] : !sym.t<[8, 64, 57, 57], f32, strides=[207936, 1, 3648, 64]>
    loop.yield %0 : f32
  } : !sym.t<[8, 64, 28, 28], f32, strides=[50176, 1, 1792, 64]>
  %p = loop.nest [d0 = 8, d1 = 64, d2 = 28, d3 = 28] reduce [r0 = 3, r1 = 3] combine [min] {
    %0 = loop.load %e[d0, d1, 2*d2 + r0, 2*d3 + r1] : !sym.t<[8, 64, 57, 57], f32, strides=[207936, 1, 3648, 64]>
    loop.yield %0 : f32
  } : !sym.t<[8, 64, 28, 28], f32, strides=[50176, 1, 1792, 64]>
  func.return %m, %p : !sym.t<[8, 64, 28, 28], f32, strides=[50176, 1, 1792, 64]>, !sym.t<[8, 64, 28, 28], f32, strides=[50176, 1, 1792, 64]>
}
