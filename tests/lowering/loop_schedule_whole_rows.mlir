// RUN: lamella-opt %s --split-input-file -p 'loop-schedule{bits=512 l1=32768 l2=1048576 l3=33554432 threads=2 runs=1}' | filecheck %s

// Where each thread should read rows as they lie: a part's are added up one at a time, in strips of 32, all columns of each.
// Nothing is asked for ahead.

// CHECK-LABEL: @parts(
// CHECK-SAME:  grid [d0 = 8]
// CHECK:       loop.for [b1 = 16] {
// CHECK-NEXT:    loop.for [b2 = 32, d1 = 1024] attributes {vector = "d1", lanes = 16 : i64, unroll = 4 : i64} {
// CHECK-NEXT:      [[S:%\w+]] = loop.for [r0 = 32*b1 + b2 + 512*d0 : 32*b1 + b2 + 512*d0 + 1] reduce [add]
// CHECK-NEXT:        loop.load %x[r0, d1] : !sym.t<[4096, 1024], f32>
// CHECK:           loop.store [[S]], %{{.*}}[d1] combine add : !sym.t<[1024], f32>
// CHECK:         loop.store %{{.*}}, %{{.*}}[d1] combine add : !sym.t<[1024], f64>
// CHECK:       loop.store %{{.*}}, %y[d0, d1]
loop.kernel @parts(%x: !sym.t<[4096, 1024], f32>) outs(%y: !sym.t<[8, 1024], f32>) sizes [] grid [d0 = 8, d1 = 1024] {
  %0 = loop.for [r0 = 512*d0 : 512*d0 + 512] reduce [add] {
    %1 = loop.load %x[r0, d1] : !sym.t<[4096, 1024], f32>
    loop.yield %1 : f32
  } : f32
  loop.store %0, %y[d0, d1] : !sym.t<[8, 1024], f32>
  loop.end
}

// -----

// The last part has as many rows as there are.

// CHECK-LABEL: @last(
// CHECK:       loop.for [b2 = 32, d1 = 3072]
// CHECK-NEXT:    loop.for [r0 = 32*b1 + b2 + 160*d0 : min(1000, 160*d0 + 160, 32*b1 + b2 + 160*d0 + 1)] reduce [add]
loop.kernel @last(%x: !sym.t<[1000, 3072], f32>) outs(%y: !sym.t<[7, 3072], f32>) sizes [] grid [d0 = 7, d1 = 3072] {
  %0 = loop.for [r0 = 160*d0 : min(1000, 160*d0 + 160)] reduce [add] {
    %1 = loop.load %x[r0, d1] : !sym.t<[1000, 3072], f32>
    loop.yield %1 : f32
  } : f32
  loop.store %0, %y[d0, d1] : !sym.t<[7, 3072], f32>
  loop.end
}

// -----

// Halves that the last cache holds are added up from first to last row of a strip: else their sums would be read and written
// with each row.

// CHECK-LABEL: @halves(
// CHECK:       loop.for [b1 = 2, d0 = 2048*b0 : 2048*b0 + 2048]
// CHECK-NEXT:    loop.for [r0 = 500*b1 : 500*b1 + 500] reduce [add]
loop.kernel @halves(%x: !sym.t<[1000, 4096], bf16>) outs(%y: !sym.t<[4096], f32>) sizes [] grid [d0 = 4096] {
  %0 = loop.for [r0 = 1000] reduce [add] {
    %1 = loop.load %x[r0, d0] : !sym.t<[1000, 4096], bf16>
    %2 = arith.extf %1 : bf16 to f32
    loop.yield %2 : f32
  } : f32
  loop.store %0, %y[d0] : !sym.t<[4096], f32>
  loop.end
}
