// RUN: lamella-opt %s --split-input-file -p 'loop-schedule{bits=512}' | filecheck %s
// RUN: lamella-opt %s --split-input-file -p 'loop-schedule{bits=256 registers=16}' | filecheck %s --check-prefix AVX2

// Contiguous dims are one, cut into blocks.

// CHECK:      loop.kernel @k(%x: !sym.t<[1048576], f32>) outs(%y: !sym.t<[1048576], f32>) sizes [] grid [b0 = 256] attributes {grain = 2 : i64}
// CHECK-NEXT:   loop.for [d0 = 4096*b0 : 4096*b0 + 4096] attributes {vector = "d0", lanes = 16 : i64, unroll = 2 : i64}
// CHECK-NEXT:     loop.load %x[d0]
// AVX2:         attributes {vector = "d0", lanes = 8 : i64, unroll = 2 : i64}
loop.kernel @k(%x: !sym.t<[16, 256, 256], f32>) outs(%y: !sym.t<[16, 256, 256], f32>) sizes [] grid [d0 = 16, d1 = 256, d2 = 256] {
  %0 = loop.load %x[d0, d1, d2] : !sym.t<[16, 256, 256], f32>
  %1 = arith.negf %0 : f32
  loop.store %1, %y[d0, d1, d2] : !sym.t<[16, 256, 256], f32>
  loop.end
}

// -----

// A broadcast row: what does not change along it is loaded before the loop. The lanes are those of most of the work.

// CHECK:      grid [d0 = s0]
// CHECK-NEXT:   [[A:%.*]] = loop.load %x[d0]
// CHECK-NEXT:   loop.for [d1 = 768] attributes {vector = "d1", lanes = 16 : i64, unroll = 2 : i64}
// CHECK-NEXT:     loop.load %w[d1]
loop.kernel @k(%x: !sym.t<[s0], f32>, %w: !sym.t<[768], bf16>) outs(%y: !sym.t<[s0, 768], f32>) sizes [s0] grid [d0 = s0, d1 = 768] {
  %0 = loop.load %x[d0] : !sym.t<[s0], f32>
  %1 = loop.load %w[d1] : !sym.t<[768], bf16>
  %2 = arith.extf %1 : bf16 to f32
  %3 = arith.addf %0, %2 : f32
  loop.store %3, %y[d0, d1] : !sym.t<[s0, 768], f32>
  loop.end
}

// -----

// A transpose goes in tiles through scratch, where rows and columns are exchanged in registers. The next tile is fetched
// ahead, and of what is written too.

// CHECK:      grid [b0 = 16, b1 = 16]
// CHECK-NEXT:   [[T:%.*]] = loop.scratch : !sym.t<[64, 64], f32>
// CHECK-NEXT:   loop.for [d1 = 64*b1 : 64*b1 + 64, d0 = 64*b0 : 64*b0 + 64] attributes {transpose = 16 : i64} {
// CHECK-NEXT:     [[A:%.*]] = loop.load %x[d1, d0] attributes {level = 2 : i64, prefetch = 262144 : i64}
// CHECK-NEXT:     loop.store [[A]], [[T]][-64*b0 + d0, -64*b1 + d1]
// CHECK:        loop.for [d0 = 64*b0 : 64*b0 + 64, d1 = 64*b1 : 64*b1 + 64] attributes {vector = "d1"
// CHECK-NEXT:     [[B:%.*]] = loop.load [[T]][-64*b0 + d0, -64*b1 + d1]
// CHECK-NEXT:     loop.store [[B]], %y[d0, d1] attributes {prefetch = 256 : i64, level = 2 : i64}
loop.kernel @k(%x: !sym.t<[1024, 1024], f32>) outs(%y: !sym.t<[1024, 1024], f32>) sizes [] grid [d0 = 1024, d1 = 1024] {
  %0 = loop.load %x[d1, d0] : !sym.t<[1024, 1024], f32>
  loop.store %0, %y[d0, d1] : !sym.t<[1024, 1024], f32>
  loop.end
}

// -----

// A column sum: blocks of columns side by side, the sum inside.

// CHECK:      grid [b0 = floordiv(s1 + 63, 64)]
// CHECK-NEXT:   loop.for [d0 = 64*b0 : min(s1, 64*b0 + 64)] attributes {vector = "d0", lanes = 16 : i64, unroll = 4 : i64} {
// CHECK-NEXT:     [[S:%.*]] = loop.for [r0 = s0] reduce [add] {
// CHECK-NEXT:       loop.load %x[r0, d0] : !sym
// CHECK:          loop.store [[S]], %y[d0]
loop.kernel @k(%x: !sym.t<[s0, s1], f32>) outs(%y: !sym.t<[s1], f32>) sizes [s0, s1] grid [d0 = s1] {
  %0 = loop.for [r0 = s0] reduce [add] {
    %1 = loop.load %x[r0, d0] : !sym.t<[s0, s1], f32>
    loop.yield %1 : f32
  } : f32
  loop.store %0, %y[d0] : !sym.t<[s1], f32>
  loop.end
}

// -----

// Many columns, read once: strips of rows, of which a thread's columns are added up in the first cache, few vectors at a
// time, and rows that are fetched ahead.

// CHECK:      grid [b0 = 16]
// CHECK-NEXT:   [[T:%\w+]] = loop.scratch : !sym.t<[1024], f32>
// CHECK-NEXT:   loop.for [d0 = 1024*b0 : 1024*b0 + 1024]
// CHECK:          loop.store %{{.*}}, [[T]][-1024*b0 + d0]
// CHECK:        loop.for [b1 = 2, d0 = 1024*b0 : 1024*b0 + 1024] attributes {vector = "d0", lanes = 16 : i64, unroll = 4 : i64} {
// CHECK-NEXT:     [[S:%\w+]] = loop.for [r0 = 500*b1 : 500*b1 + 500] reduce [add]
// CHECK:            loop.load %x[r0, d0] attributes {prefetch = 524288 : i64}
// CHECK:          loop.store [[S]], [[T]][-1024*b0 + d0] combine add
// CHECK:        loop.for [d0 = 1024*b0 : 1024*b0 + 1024]
// CHECK:          [[V:%\w+]] = loop.load [[T]][-1024*b0 + d0]
// CHECK-NEXT:     loop.store [[V]], %y[d0]
loop.kernel @k(%x: !sym.t<[1000, 16384], f32>) outs(%y: !sym.t<[16384], f32>) sizes [] grid [d0 = 16384] {
  %0 = loop.for [r0 = 1000] reduce [add] {
    %1 = loop.load %x[r0, d0] : !sym.t<[1000, 16384], f32>
    loop.yield %1 : f32
  } : f32
  loop.store %0, %y[d0] : !sym.t<[16384], f32>
  loop.end
}

// -----

// Where there is more to do than to add, columns are gone through from first to last row.

// CHECK-LABEL: @more
// CHECK-NOT:   combine
// CHECK:       loop.for [r0 = 1000] reduce [add]
loop.kernel @more(%x: !sym.t<[1000, 16384], f32>) outs(%y: !sym.t<[16384], f32>) sizes [] grid [d0 = 16384] {
  %0 = loop.for [r0 = 1000] reduce [add] {
    %1 = loop.load %x[r0, d0] : !sym.t<[1000, 16384], f32>
    %2 = arith.mulf %1, %1 : f32
    loop.yield %2 : f32
  } : f32
  loop.store %0, %y[d0] : !sym.t<[16384], f32>
  loop.end
}

// -----

// Windows side by side are written out. The first one is cut off: what it leaves out depends on the vector dim.

// CHECK:      loop.for [d0 = 1] {
// CHECK:        loop.load %x[2*d0] : !sym
// CHECK:      loop.for [d0 = 1 : 100] attributes {vector = "d0",
// CHECK-NEXT:   [[B:%.*]] = loop.load %x[2*d0 - 1] : !sym
// CHECK-NEXT:   [[C:%.*]] = loop.load %x[2*d0] : !sym
// CHECK-NEXT:   [[D:%.*]] = arith.maximumf [[C]], [[B]] : f32
// CHECK-NEXT:   [[E:%.*]] = loop.load %x[2*d0 + 1] : !sym
// CHECK-NEXT:   [[F:%.*]] = arith.maximumf [[E]], [[D]] : f32
// CHECK-NEXT:   loop.store [[F]], %y[d0]
loop.kernel @k(%x: !sym.t<[200], f32>) outs(%y: !sym.t<[100], f32>) sizes [] grid [d0 = 100] {
  %0 = loop.for [r0 = 3] reduce [max] {
    %1 = loop.load %x[2*d0 + r0 - 1] mask [ge(2*d0 + r0, 1)] other 0xff800000 : f32 : !sym.t<[200], f32>
    loop.yield %1 : f32
  } : f32
  loop.store %0, %y[d0] : !sym.t<[100], f32>
  loop.end
}

// -----

// The place of the largest: a strictly larger value replaces it, or the first NaN. Half floats are compared as f32.

// CHECK:      [[A:%.*]] = arith.extf {{%.*}} : bf16 to f32
// CHECK:      [[B:%.*]] = arith.extf {{%.*}} : bf16 to f32
// CHECK:      [[U:%.*]] = arith.cmpf ugt, [[B]], [[A]] : f32
// CHECK-NEXT: [[O:%.*]] = arith.cmpf ord, [[A]], [[A]] : f32
// CHECK-NEXT: [[C:%.*]] = arith.andi [[U]], [[O]] : i1
// CHECK-NEXT: [[P:%.*]] = arith.select [[C]], {{%.*}}, {{%.*}} : i32
// CHECK-NEXT: arith.extsi [[P]] : i32 to i64
loop.kernel @k(%x: !sym.t<[s0, 2], bf16>) outs(%y: !sym.t<[s0], i64>) sizes [s0] grid [d0 = s0] {
  %0 = loop.for [r0 = 2] reduce [argmax] {
    %1 = loop.load %x[d0, r0] : !sym.t<[s0, 2], bf16>
    loop.yield %1 : bf16
  } : i64
  loop.store %0, %y[d0] : !sym.t<[s0], i64>
  loop.end
}

// -----

// Columns with a buffer of their own: one for the whole block.

// CHECK:      loop.scratch : !sym.t<[100, 64], f32>
// CHECK-NEXT: loop.for [d0 = 64*b0 : 64*b0 + 64]
// CHECK:        loop.store {{%.*}}, {{%.*}}[r0, -64*b0 + d0]
// CHECK:        loop.load {{%.*}}[d1, -64*b0 + d0]
loop.kernel @k(%x: !sym.t<[100, 640], f32>) outs(%y: !sym.t<[100, 640], f32>) sizes [] grid [d0 = 640] {
  %e = loop.scratch : !sym.t<[100], f32>
  %0 = loop.for [r0 = 100] reduce [add] {
    %1 = loop.load %x[r0, d0] : !sym.t<[100, 640], f32>
    %2 = math.exp %1 : f32
    loop.store %2, %e[r0] : !sym.t<[100], f32>
    loop.yield %2 : f32
  } : f32
  loop.for [d1 = 100] {
    %1 = loop.load %e[d1] : !sym.t<[100], f32>
    %2 = arith.divf %1, %0 : f32
    loop.store %2, %y[d1, d0] : !sym.t<[100, 640], f32>
    loop.yield
  }
  loop.end
}

// -----

// cat: a loop for each part, without masks; in the second one the first operand is not read.

// CHECK:      loop.for [d1 = 32]
// CHECK-NEXT:   [[A:%.*]] = loop.load %x[d0, d1] : !sym.t<[8, 32], f32>
// CHECK-NEXT:   loop.store [[A]], %z[d0, d1]
// CHECK:      loop.for [d1 = 32 : 64]
// CHECK-NEXT:   [[B:%.*]] = loop.load %y[d0, d1 - 32] : !sym.t<[8, 32], f32>
// CHECK-NEXT:   loop.store [[B]], %z[d0, d1]
loop.kernel @k(%x: !sym.t<[8, 32], f32>, %y: !sym.t<[8, 32], f32>) outs(%z: !sym.t<[8, 64], f32>) sizes [] grid [d0 = 8] {
  loop.for [d1 = 64] {
    %p = loop.pred [lt(d1, 32)]
    %a = loop.load %x[d0, d1] mask [lt(d1, 32)] other 0.0 : f32 : !sym.t<[8, 32], f32>
    %b = loop.load %y[d0, d1 - 32] mask [ge(d1, 32)] other 0.0 : f32 : !sym.t<[8, 32], f32>
    %c = arith.select %p, %a, %b : f32
    loop.store %c, %z[d0, d1] : !sym.t<[8, 64], f32>
    loop.yield
  }
  loop.end
}

// -----

// Updates at an index from memory keep their order: no vector along the dim that may meet itself.

// CHECK:      loop.for [d0 = 100] {
loop.kernel @k(%i: !sym.t<[100], i64>) outs(%y: !sym.t<[8], f32>) sizes [] grid [] {
  loop.for [d0 = 100] {
    %0 = loop.load %i[d0] : !sym.t<[100], i64>
    %1 = arith.constant 1.0 : f32
    loop.store %1, %y[v0](%0) combine add : !sym.t<[8], f32>
    loop.yield
  }
  loop.end
}

// -----

// channels_last: dims in the order of memory, the spatial ones as one, the channels as the vector; dims of one point go.

// CHECK:      loop.kernel @k(%x: !sym.t<[6272, 64], f32>, %w: !sym.t<[64], f32>) outs(%y: !sym.t<[6272, 64], f32>)
// CHECK-SAME:   grid [b0 = 98]
// CHECK-NEXT:   loop.for [d0 = 64*b0 : 64*b0 + 64, d1 = 64] attributes {vector = "d1"
// CHECK-NEXT:     loop.load %x[d0, d1]
// CHECK-NEXT:     loop.load %w[d1]
loop.kernel @k(%x: !sym.t<[8, 64, 28, 28], f32, strides=[50176, 1, 1792, 64]>, %w: !sym.t<[64], f32>) outs(%y: !sym.t<[8, 64, 28, 28], f32, strides=[50176, 1, 1792, 64]>) sizes [] grid [d0 = 8, d1 = 64, d2 = 28, d3 = 28, d4 = 1] {
  %0 = loop.load %x[d0, d1, d2, d3] : !sym.t<[8, 64, 28, 28], f32, strides=[50176, 1, 1792, 64]>
  %1 = loop.load %w[d1] : !sym.t<[64], f32>
  %2 = arith.mulf %0, %1 : f32
  loop.store %2, %y[d0, d1, d2, d3] : !sym.t<[8, 64, 28, 28], f32, strides=[50176, 1, 1792, 64]>
  loop.end
}

// -----

// Factors of the channels do not turn the loop: what is large lies along the last dim.

// CHECK:      loop.for [d2 = 784] attributes {vector = "d2"
loop.kernel @k(%x: !sym.t<[8, 64, 784], bf16>, %a: !sym.t<[64], f32>, %b: !sym.t<[64], f32>) outs(%y: !sym.t<[8, 64, 784], bf16>) sizes [] grid [d0 = 8, d1 = 64, d2 = 784] {
  %0 = loop.load %x[d0, d1, d2] : !sym.t<[8, 64, 784], bf16>
  %1 = loop.load %a[d1] : !sym.t<[64], f32>
  %2 = loop.load %b[d1] : !sym.t<[64], f32>
  %3 = arith.extf %0 : bf16 to f32
  %4 = arith.mulf %3, %1 : f32
  %5 = arith.addf %4, %2 : f32
  %6 = arith.truncf %5 : f32 to bf16
  loop.store %6, %y[d0, d1, d2] : !sym.t<[8, 64, 784], bf16>
  loop.end
}

// -----

// A window over channels that lie side by side is written out, though its weights do not: they are put in order first,
// once for all points of a row.

// CHECK-LABEL: loop.kernel @depthwise
// CHECK-SAME:  grid [d0 = 64]
// CHECK:         [[A:%\w+]] = loop.scratch : !sym.t<[64], f32>
// CHECK:         [[B:%\w+]] = loop.scratch : !sym.t<[64], f32>
// CHECK:         loop.for [d2 = 64] attributes {vector = "d2"
// CHECK-NEXT:      [[V:%\w+]] = loop.load %x1[d2, 0]
// CHECK-NEXT:      [[E:%\w+]] = arith.extf [[V]] : bf16 to f32
// CHECK-NEXT:      loop.store [[E]], [[A]][d2]
// CHECK:         loop.for [d1 = 40, d2 = 64] attributes {vector = "d2"
// CHECK:           loop.load [[A]][d2]
// CHECK-NOT:       loop.load %x1
loop.kernel @depthwise(%x0: !sym.t<[64, 41, 64], f32>, %x1: !sym.t<[64, 2], bf16>) outs(%y0: !sym.t<[64, 40, 64], f32>) sizes [] grid [d0 = 64, d1 = 40, d2 = 64] {
  %0 = loop.for [r0 = 2] reduce [add] {
    %1 = loop.load %x0[d0, d1 + r0, d2] : !sym.t<[64, 41, 64], f32>
    %2 = loop.load %x1[d2, r0] : !sym.t<[64, 2], bf16>
    %3 = arith.extf %2 : bf16 to f32
    %4 = arith.mulf %1, %3 : f32
    loop.yield %4 : f32
  } : f32
  loop.store %0, %y0[d0, d1, d2] : !sym.t<[64, 40, 64], f32>
  loop.end
}

// -----

// What is put in order first has the dtype it is made into.

// CHECK-LABEL: loop.kernel @widened
// CHECK:         [[A:%\w+]] = loop.scratch : !sym.t<[50], f64>
// CHECK:         [[E:%\w+]] = arith.extf %{{.*}} : f32 to f64
// CHECK-NEXT:      loop.store [[E]], [[A]][d1] : !sym.t<[50], f64>
loop.kernel @widened(%x0: !sym.t<[5, 50], f64>, %x1: !sym.t<[50], f32, strides=[2]>) outs(%y0: !sym.t<[5, 50], f64>) sizes [] grid [d0 = 5, d1 = 50] {
  %0 = loop.load %x0[d0, d1] : !sym.t<[5, 50], f64>
  %1 = loop.load %x1[d1] : !sym.t<[50], f32, strides=[2]>
  %2 = arith.extf %1 : f32 to f64
  %3 = math.powf %0, %2 : f64
  loop.store %3, %y0[d0, d1] : !sym.t<[5, 50], f64>
  loop.end
}

// -----

// What two loops read of a row: the last one asks for rows of points to come, while the cache holds this one.

// CHECK:      grid [d0 = 2048]
// CHECK:          loop.load %x[d0, d1] : !sym
// CHECK:          loop.load %x[d0, d1] attributes {prefetch = 4096 : i64} : !sym
loop.kernel @k(%x: !sym.t<[2048, 1024], f32>) outs(%y: !sym.t<[2048, 1024], f32>) sizes [] grid [d0 = 2048] {
  %0 = loop.for [d1 = 1024] reduce [max] {
    %1 = loop.load %x[d0, d1] : !sym.t<[2048, 1024], f32>
    loop.yield %1 : f32
  } : f32
  loop.for [d1 = 1024] {
    %1 = loop.load %x[d0, d1] : !sym.t<[2048, 1024], f32>
    %2 = arith.subf %1, %0 : f32
    loop.store %2, %y[d0, d1] : !sym.t<[2048, 1024], f32>
    loop.yield
  }
  loop.end
}

// -----

// The largest of halves is found as halves, twice as many a vector, and what is written as halves is asked for ahead.

// CHECK:      [[H:%.*]] = loop.for [d1 = 1024] reduce [max] attributes {vector = "d1", lanes = 32 : i64
// CHECK-NEXT:   [[X:%.*]] = loop.load %x[d0, d1] : !sym.t<[2048, 1024], bf16>
// CHECK-NEXT:   loop.yield [[X]] : bf16
// CHECK-NEXT: } : bf16
// CHECK-NEXT: arith.extf [[H]] : bf16 to f32
// CHECK:      loop.for [d1 = 1024] attributes {vector = "d1", lanes = 16 : i64
// CHECK:        loop.load %x[d0, d1] attributes {prefetch = 4096 : i64} : !sym
// CHECK:        loop.store %{{.*}}, %y[d0, d1] attributes {prefetch = 2048 : i64} : !sym
loop.kernel @k(%x: !sym.t<[2048, 1024], bf16>) outs(%y: !sym.t<[2048, 1024], bf16>) sizes [] grid [d0 = 2048] {
  %0 = loop.for [d1 = 1024] reduce [max] {
    %1 = loop.load %x[d0, d1] : !sym.t<[2048, 1024], bf16>
    %2 = arith.extf %1 : bf16 to f32
    loop.yield %2 : f32
  } : f32
  loop.for [d1 = 1024] {
    %1 = loop.load %x[d0, d1] : !sym.t<[2048, 1024], bf16>
    %2 = arith.extf %1 : bf16 to f32
    %3 = arith.subf %2, %0 : f32
    %4 = math.exp %3 : f32
    %5 = arith.truncf %4 : f32 to bf16
    loop.store %5, %y[d0, d1] : !sym.t<[2048, 1024], bf16>
    loop.yield
  }
  loop.end
}

// -----

// Tiles of halves: 128 bytes of what is read across, 256 of what is written.

// CHECK: loop.scratch : !sym.t<[64, 128], bf16>
// CHECK: loop.for [d1 = 128*b1 : 128*b1 + 128, d0 = 64*b0 : 64*b0 + 64] attributes {transpose = 16 : i64}
loop.kernel @k(%x: !sym.t<[2048, 1024], bf16>) outs(%y: !sym.t<[1024, 2048], bf16>) sizes [] grid [d0 = 1024, d1 = 2048] {
  %0 = loop.load %x[d1, d0] : !sym.t<[2048, 1024], bf16>
  loop.store %0, %y[d0, d1] : !sym.t<[1024, 2048], bf16>
  loop.end
}

// -----

// The sum of random numbers has one vector: what makes a number takes longer than adding it up.

// CHECK:      loop.for [d1 = 1024] reduce [add] attributes {vector = "d1", lanes = 16 : i64, unroll = 1 : i64}
// CHECK-NEXT:   loop.index
// CHECK-NEXT:   loop.fn philox32
loop.kernel @k(%x: !sym.t<[], i64>) outs(%y: !sym.t<[2048], f32>) sizes [] grid [d0 = 2048] {
  %seed = loop.load %x[] : !sym.t<[], i64>
  %0 = loop.for [d1 = 1024] reduce [add] {
    %1 = loop.index [1024*d0 + d1]
    %2 = loop.fn philox32(%seed, %1) : i64
    %3 = arith.trunci %2 : i64 to i32
    %4 = arith.sitofp %3 : i32 to f32
    loop.yield %4 : f32
  } : f32
  loop.store %0, %y[d0] : !sym.t<[2048], f32>
  loop.end
}

// -----

// An exponential takes longer than an addition waits for the one before: two vectors, where a plain sum has four.

// CHECK:      loop.for [d1 = 1024] reduce [add] attributes {vector = "d1", lanes = 16 : i64, unroll = 2 : i64}
// CHECK:        math.exp
// CHECK:      loop.for [d1 = 1024] reduce [add] attributes {vector = "d1", lanes = 16 : i64, unroll = 4 : i64}
loop.kernel @k(%x: !sym.t<[2048, 1024], f32>) outs(%y: !sym.t<[2048], f32>, %z: !sym.t<[2048], f32>) sizes [] grid [d0 = 2048] {
  %0 = loop.for [d1 = 1024] reduce [add] {
    %1 = loop.load %x[d0, d1] : !sym.t<[2048, 1024], f32>
    %2 = math.exp %1 : f32
    loop.yield %2 : f32
  } : f32
  %1 = loop.for [d1 = 1024] reduce [add] {
    %2 = loop.load %x[d0, d1] : !sym.t<[2048, 1024], f32>
    loop.yield %2 : f32
  } : f32
  loop.store %0, %y[d0] : !sym.t<[2048], f32>
  loop.store %1, %z[d0] : !sym.t<[2048], f32>
  loop.end
}
