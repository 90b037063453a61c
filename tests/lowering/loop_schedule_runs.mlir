// RUN: lamella-opt %s --split-input-file -p 'loop-schedule{bits=512 runs=4}' | filecheck %s

// Where long runs of memory are read faster: of strips of columns four rows are added up at a time, many vectors of each.
// What a strip has is added up in f64.

// CHECK:      grid [b0 = 16]
// CHECK-NEXT:   [[U:%\w+]] = loop.scratch : !sym.t<[1024], f64>
// CHECK-NEXT:   [[T:%\w+]] = loop.scratch : !sym.t<[1024], f32>
// CHECK-NEXT:   loop.for [d0 = 1024*b0 : 1024*b0 + 1024]
// CHECK:          loop.store %{{.*}}, [[U]][-1024*b0 + d0]
// CHECK:          loop.store %{{.*}}, [[T]][-1024*b0 + d0]
// CHECK:        loop.for [b1 = 5] {
// CHECK-NEXT:     loop.for [b2 = 50, d0 = 1024*b0 : 1024*b0 + 1024] attributes {vector = "d0", lanes = 16 : i64, unroll = 16 : i64} {
// CHECK-NEXT:       [[S:%\w+]] = loop.for [r0 = 200*b1 + 4*b2 : 200*b1 + 4*b2 + 4] reduce [add]
// CHECK:              loop.load %x[r0, d0] attributes {prefetch = 524288 : i64}
// CHECK:            loop.store [[S]], [[T]][-1024*b0 + d0] combine add
// CHECK:          loop.for [d0 = 1024*b0 : 1024*b0 + 1024]
// CHECK:            [[V:%\w+]] = loop.load [[T]][-1024*b0 + d0]
// CHECK-NEXT:       [[W:%\w+]] = arith.extf [[V]] : f32 to f64
// CHECK-NEXT:       loop.store [[W]], [[U]][-1024*b0 + d0] combine add
// CHECK:            loop.store %{{.*}}, [[T]][-1024*b0 + d0]
// CHECK:        loop.for [d0 = 1024*b0 : 1024*b0 + 1024]
// CHECK:          [[A:%\w+]] = loop.load [[U]][-1024*b0 + d0]
// CHECK-NEXT:     [[B:%\w+]] = arith.truncf [[A]] : f64 to f32
// CHECK-NEXT:     loop.store [[B]], %y[d0]
loop.kernel @k(%x: !sym.t<[1000, 16384], f32>) outs(%y: !sym.t<[16384], f32>) sizes [] grid [d0 = 16384] {
  %0 = loop.for [r0 = 1000] reduce [add] {
    %1 = loop.load %x[r0, d0] : !sym.t<[1000, 16384], f32>
    loop.yield %1 : f32
  } : f32
  loop.store %0, %y[d0] : !sym.t<[16384], f32>
  loop.end
}

// -----

// The same where there is more to do than to add, and rows are as many as it is told: of a strip that has fewer than 128 some
// loops have nothing to do.

// CHECK-LABEL: @more
// CHECK:       loop.for [b1 = floordiv(s0 + 127, 128)] {
// CHECK-NEXT:    loop.for [b2 = 32, d0 = 1024*b0 : 1024*b0 + 1024]
// CHECK-NEXT:      loop.for [r0 = 128*b1 + 4*b2 : min(s0, 128*b1 + 4*b2 + 4)] reduce [add]
// CHECK:             arith.mulf
loop.kernel @more(%x: !sym.t<[s0, 16384], f32>) outs(%y: !sym.t<[16384], f32>) sizes [s0] grid [d0 = 16384] {
  %0 = loop.for [r0 = s0] reduce [add] {
    %1 = loop.load %x[r0, d0] : !sym.t<[s0, 16384], f32>
    %2 = arith.mulf %1, %1 : f32
    loop.yield %2 : f32
  } : f32
  loop.store %0, %y[d0] : !sym.t<[16384], f32>
  loop.end
}

// -----

// Sums of f64 have nothing wider: they are made so where strips are few, and not as many as it is told.

// CHECK-LABEL: @double(
// CHECK:       loop.scratch : !sym.t<[1024], f64>
// CHECK-NEXT:  loop.scratch : !sym.t<[1024], f64>
// CHECK-LABEL: @doubles(
// CHECK-NOT:   loop.scratch
// CHECK:       loop.for [r0 = s0] reduce [add]
loop.kernel @double(%x: !sym.t<[1000, 16384], f64>) outs(%y: !sym.t<[16384], f64>) sizes [] grid [d0 = 16384] {
  %0 = loop.for [r0 = 1000] reduce [add] {
    %1 = loop.load %x[r0, d0] : !sym.t<[1000, 16384], f64>
    loop.yield %1 : f64
  } : f64
  loop.store %0, %y[d0] : !sym.t<[16384], f64>
  loop.end
}
loop.kernel @doubles(%x: !sym.t<[s0, 16384], f64>) outs(%y: !sym.t<[16384], f64>) sizes [s0] grid [d0 = 16384] {
  %0 = loop.for [r0 = s0] reduce [add] {
    %1 = loop.load %x[r0, d0] : !sym.t<[s0, 16384], f64>
    loop.yield %1 : f64
  } : f64
  loop.store %0, %y[d0] : !sym.t<[16384], f64>
  loop.end
}

// -----

// Tiles are twice as wide in what is written where its rows fall in the same places of the first cache, unless it is not
// kept there.

// CHECK-LABEL: @near(
// CHECK:       loop.scratch : !sym.t<[64, 128], f32>
// CHECK-LABEL: @apart(
// CHECK:       loop.scratch : !sym.t<[64, 64], f32>
// CHECK-LABEL: @far(
// CHECK:       loop.scratch : !sym.t<[64, 64], f32>
loop.kernel @near(%x: !sym.t<[1024, 2048], f32>) outs(%y: !sym.t<[2048, 1024], f32>) sizes [] grid [d0 = 2048, d1 = 1024] {
  %0 = loop.load %x[d1, d0] : !sym.t<[1024, 2048], f32>
  loop.store %0, %y[d0, d1] : !sym.t<[2048, 1024], f32>
  loop.end
}
loop.kernel @apart(%x: !sym.t<[1000, 2048], f32>) outs(%y: !sym.t<[2048, 1000], f32>) sizes [] grid [d0 = 2048, d1 = 1000] {
  %0 = loop.load %x[d1, d0] : !sym.t<[1000, 2048], f32>
  loop.store %0, %y[d0, d1] : !sym.t<[2048, 1000], f32>
  loop.end
}
loop.kernel @far(%x: !sym.t<[1024, 16384], f32>) outs(%y: !sym.t<[16384, 1024], f32>) sizes [] grid [d0 = 16384, d1 = 1024] {
  %0 = loop.load %x[d1, d0] : !sym.t<[1024, 16384], f32>
  loop.store %0, %y[d0, d1] : !sym.t<[16384, 1024], f32>
  loop.end
}
