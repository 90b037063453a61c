// RUN: lamella-opt %s --split-input-file -p 'loop-schedule{bits=512 threads=2}' | filecheck %s
// RUN: lamella-opt %s --split-input-file -p 'loop-schedule{bits=256 registers=16 threads=2}' | filecheck %s --check-prefix AVX2
// RUN: lamella-opt %s --split-input-file -p 'loop-schedule{bits=128 registers=32 threads=2}' | filecheck %s --check-prefix NEON

// A weight as linear layers keep it: vectors along the inner dim, four rows and six columns at once, each element once
// for all of them. The tiles of the larger factor are outside.

// CHECK:      grid [t0 = 8, t1 = 2]
// CHECK-NEXT: loop.for [r0 = 512] reduce [add, {{.*}}, add] attributes {vector = "r0", lanes = 16 : i64, unroll = 1 : i64} {
// CHECK-NEXT:   [[A:%\w+]] = loop.load %x0[4*t1, r0]
// CHECK-NEXT:   [[B:%\w+]] = loop.load %x0[4*t1 + 1, r0]
// CHECK-NEXT:   loop.load %x0[4*t1 + 2, r0]
// CHECK-NEXT:   loop.load %x0[4*t1 + 3, r0]
// CHECK-NEXT:   [[W:%\w+]] = loop.load %x1[6*t0, r0]
// CHECK:        loop.load %x1[6*t0 + 5, r0]
// CHECK-NEXT:   arith.mulf [[A]], [[W]]
// CHECK-NEXT:   arith.mulf [[B]], [[W]]
// CHECK:      loop.store {{.*}}, %y0[4*t1, 6*t0]
// CHECK:      loop.store {{.*}}, %y0[4*t1 + 3, 6*t0 + 5]
// CHECK-NEXT: loop.end
// AVX2-LABEL: loop.kernel @linear
// AVX2-SAME:  grid [t0 = 16, t1 = 2]
// AVX2:       %11 = loop.for [r0 = 512] reduce [add, add, add, add, add, add, add, add, add, add, add, add] attributes {vector = "r0", lanes = 8 : i64, unroll = 1 : i64}
// NEON-LABEL: loop.kernel @linear
// NEON-SAME:  grid [t0 = 8, t1 = 2]
// NEON:       %23 = loop.for [r0 = 512] {{.*}} attributes {vector = "r0", lanes = 4 : i64, unroll = 1 : i64}
loop.kernel @linear(%x0: !sym.t<[8, 512], f32>, %x1: !sym.t<[48, 512], f32>) outs(%y0: !sym.t<[8, 48], f32>) sizes [] grid [d0 = 8, d1 = 48] {
  %0 = loop.for [r0 = 512] reduce [add] {
    %1 = loop.load %x0[d0, r0] : !sym.t<[8, 512], f32>
    %2 = loop.load %x1[d1, r0] : !sym.t<[48, 512], f32>
    %3 = arith.mulf %1, %2 : f32
    loop.yield %3 : f32
  } : f32
  loop.store %0, %y0[d0, d1] : !sym.t<[8, 48], f32>
  loop.end
}

// -----

// A matrix whose rows lie in one piece: vectors along the columns, all rows at once. What rows share comes after the loop
// for each of them.

// CHECK:      grid [b0 = floordiv(64*s0 + 255, 256)]
// CHECK-NEXT: loop.for [d1 = 256*b0 : min(64*s0, 256*b0 + 256)] attributes {vector = "d1", lanes = 16 : i64, unroll = 4 : i64} {
// CHECK-NEXT:   loop.for [r0 = s1] reduce [add, add, add] {
// CHECK-NEXT:     loop.load %x0[0, r0]
// CHECK-NEXT:     loop.load %x0[1, r0]
// CHECK-NEXT:     loop.load %x0[2, r0]
// CHECK-NEXT:     loop.load %x1[r0, d1]
// CHECK:        [[B:%\w+]] = loop.load %x2[d1]
// CHECK-NEXT:   arith.addf {{.*}}, [[B]]
// CHECK-NEXT:   arith.addf {{.*}}, [[B]]
// CHECK-NEXT:   arith.addf {{.*}}, [[B]]
// CHECK-NEXT:   loop.store {{.*}}, %y0[0, d1]
loop.kernel @mm(%x0: !sym.t<[3, s1], f32>, %x1: !sym.t<[s1, 64*s0], f32>, %x2: !sym.t<[64*s0], f32>) outs(%y0: !sym.t<[3, 64*s0], f32>) sizes [s1, s0] grid [d0 = 3, d1 = 64*s0] {
  %0 = loop.for [r0 = s1] reduce [add] {
    %1 = loop.load %x0[d0, r0] : !sym.t<[3, s1], f32>
    %2 = loop.load %x1[r0, d1] : !sym.t<[s1, 64*s0], f32>
    %3 = arith.mulf %1, %2 : f32
    loop.yield %3 : f32
  } : f32
  %4 = loop.load %x2[d1] : !sym.t<[64*s0], f32>
  %5 = arith.addf %0, %4 : f32
  loop.store %5, %y0[d0, d1] : !sym.t<[3, 64*s0], f32>
  loop.end
}

// -----

// A vector times a matrix: five elements of the result at once. Seven rows have no smaller tiles; three columns fit.

// CHECK:      grid [t0 = 20]
// CHECK-NEXT: loop.for [r0 = 256] reduce [add, add, add, add, add]
// CHECK:      loop.kernel @seven
// CHECK-SAME: grid [t0 = 5]
// CHECK-NEXT: loop.for [r0 = 256] reduce [add, {{.*}}, add]
loop.kernel @row(%x0: !sym.t<[256], f32>, %x1: !sym.t<[100, 256], f32>) outs(%y0: !sym.t<[100], f32>) sizes [] grid [d0 = 100] {
  %0 = loop.for [r0 = 256] reduce [add] {
    %1 = loop.load %x0[r0] : !sym.t<[256], f32>
    %2 = loop.load %x1[d0, r0] : !sym.t<[100, 256], f32>
    %3 = arith.mulf %1, %2 : f32
    loop.yield %3 : f32
  } : f32
  loop.store %0, %y0[d0] : !sym.t<[100], f32>
  loop.end
}
loop.kernel @seven(%x0: !sym.t<[7, 256], f32>, %x1: !sym.t<[15, 256], f32>) outs(%y0: !sym.t<[7, 15], f32>) sizes [] grid [d0 = 7, d1 = 15] {
  %0 = loop.for [r0 = 256] reduce [add] {
    %1 = loop.load %x0[d0, r0] : !sym.t<[7, 256], f32>
    %2 = loop.load %x1[d1, r0] : !sym.t<[15, 256], f32>
    %3 = arith.mulf %1, %2 : f32
    loop.yield %3 : f32
  } : f32
  loop.store %0, %y0[d0, d1] : !sym.t<[7, 15], f32>
  loop.end
}

// -----

// Where much comes after the sums, those of a block are kept, and the rest is done as vectors.

// CHECK:      grid [t1 = 4]
// CHECK-NEXT:   [[S:%\w+]] = loop.scratch : !sym.t<[4, 16], f32>
// CHECK-NEXT:   loop.for [c0 = 4] {
// CHECK-NEXT:     loop.for [r0 = 64] reduce [add, {{.*}}, add] attributes {vector = "r0", lanes = 16 : i64, unroll = 1 : i64} {
// CHECK:            loop.load %x1[4*c0 + 16*t1, r0]
// CHECK:          loop.store {{.*}}, [[S]][0, 4*c0]
// CHECK:        loop.for [d0 = 4, d1 = 16*t1 : 16*t1 + 16] attributes {vector = "d1", lanes = 16 : i64,
// CHECK-NEXT:     [[V:%\w+]] = loop.load [[S]][d0, d1 - 16*t1]
// CHECK:          math.tanh
// CHECK-NEXT:     loop.store {{.*}}, %y0[d0, d1]
loop.kernel @tanh(%x0: !sym.t<[4, 64], f32>, %x1: !sym.t<[64, 64], f32>, %x2: !sym.t<[64], f32>) outs(%y0: !sym.t<[4, 64], f32>) sizes [] grid [d0 = 4, d1 = 64] {
  %0 = loop.for [r0 = 64] reduce [add] {
    %1 = loop.load %x0[d0, r0] : !sym.t<[4, 64], f32>
    %2 = loop.load %x1[d1, r0] : !sym.t<[64, 64], f32>
    %3 = arith.mulf %1, %2 : f32
    loop.yield %3 : f32
  } : f32
  %4 = loop.load %x2[d1] : !sym.t<[64], f32>
  %5 = arith.addf %0, %4 : f32
  %6 = math.tanh %5 : f32
  loop.store %6, %y0[d0, d1] : !sym.t<[4, 64], f32>
  loop.end
}

// -----

// Rows that no tile divides: thirteen as seven and six. Columns that are no neighbours are copied side by side first,
// where a sum over a vector for each element costs more.

// CHECK-LABEL: loop.kernel @thirteen
// CHECK-SAME:  grid []
// CHECK-NEXT:    [[P:%\w+]] = loop.scratch : !sym.t<[32, 48], f32>
// CHECK-NEXT:    loop.for [d1 = 40, r0 = 32] attributes {transpose = 16 : i64} {
// CHECK-NEXT:      [[V:%\w+]] = loop.load %x1[d1, r0]
// CHECK-NEXT:      loop.store [[V]], [[P]][r0, d1]
// CHECK:         loop.for [d1 = 40] attributes {vector = "d1", lanes = 16 : i64, unroll = 3 : i64} {
// CHECK-NEXT:      loop.for [r0 = 32] reduce [add, add, add, add, add, add, add] {
// CHECK:             loop.load %x0[6, r0]
// CHECK:             loop.load [[P]][r0, d1]
// CHECK:         loop.for [d1 = 40] attributes {vector = "d1", lanes = 16 : i64, unroll = 3 : i64} {
// CHECK-NEXT:      loop.for [r0 = 32] reduce [add, add, add, add, add, add] {
// CHECK-NEXT:        loop.load %x0[7, r0]
// CHECK:           loop.store {{.*}}, %y0[12, d1]
loop.kernel @thirteen(%x0: !sym.t<[13, 32], f32>, %x1: !sym.t<[40, 32], f32>) outs(%y0: !sym.t<[13, 40], f32>) sizes [] grid [d0 = 13, d1 = 40] {
  %0 = loop.for [r0 = 32] reduce [add] {
    %1 = loop.load %x0[d0, r0] : !sym.t<[13, 32], f32>
    %2 = loop.load %x1[d1, r0] : !sym.t<[40, 32], f32>
    %3 = arith.mulf %1, %2 : f32
    loop.yield %3 : f32
  } : f32
  loop.store %0, %y0[d0, d1] : !sym.t<[13, 40], f32>
  loop.end
}

// -----

// A number of rows that is not known: blocks of tiles, and the rows that are left one by one.

// CHECK-LABEL: loop.kernel @rows
// CHECK-SAME:  grid [t0 = floordiv(s0 + {{.*}})]
// CHECK:         loop.for [c0 = {{.*}}, d1 = 24] attributes {vector = "d1"
// CHECK:         loop.for [e0 = {{.*}}, d1 = 24] attributes {vector = "d1"
// AVX2-LABEL: loop.kernel @rows
// AVX2:         loop.for [{{.*}}] attributes {vector = "d1", lanes = 8 : i64, unroll = 2 : i64}
// AVX2-NEXT:      %0, %1, %2, %3, %4, %5 = loop.for [r0 = 32]
// NEON-LABEL: loop.kernel @rows
// NEON:         loop.for [{{.*}}] attributes {vector = "d1", lanes = 4 : i64, unroll = 4 : i64}
// NEON-NEXT:      %0, %1, %2, %3, %4, %5 = loop.for [r0 = 32]
loop.kernel @rows(%x0: !sym.t<[s0, 32], f32>, %x1: !sym.t<[32, 24], f32>) outs(%y0: !sym.t<[s0, 24], f32>) sizes [s0] grid [d0 = s0, d1 = 24] {
  %0 = loop.for [r0 = 32] reduce [add] {
    %1 = loop.load %x0[d0, r0] : !sym.t<[s0, 32], f32>
    %2 = loop.load %x1[r0, d1] : !sym.t<[32, 24], f32>
    %3 = arith.mulf %1, %2 : f32
    loop.yield %3 : f32
  } : f32
  loop.store %0, %y0[d0, d1] : !sym.t<[s0, 24], f32>
  loop.end
}

// -----

// A matrix that one row reads is fetched ahead though the second-level cache would hold it: a model reads others before
// it comes back.

// CHECK:      loop.kernel @decode(
// CHECK:        loop.load %w[{{.*}}, r0] attributes {prefetch = 8192 : i64} : !sym.t<[512, 512], bf16>
loop.kernel @decode(%x: !sym.t<[1, 512], bf16>, %w: !sym.t<[512, 512], bf16>) outs(%y: !sym.t<[1, 512], f32>) sizes [] grid [d0 = 1, d1 = 512] attributes {bytes = #loop.index<[527360]>, flops = #loop.index<[524288]>} {
  %0 = loop.for [r0 = 512] reduce [add] {
    %1 = loop.load %x[d0, r0] : !sym.t<[1, 512], bf16>
    %2 = arith.extf %1 : bf16 to f32
    %3 = loop.load %w[d1, r0] : !sym.t<[512, 512], bf16>
    %4 = arith.extf %3 : bf16 to f32
    %5 = arith.mulf %2, %4 : f32
    loop.yield %5 : f32
  } : f32
  loop.store %0, %y[d0, d1] : !sym.t<[1, 512], f32>
  loop.end
}

// -----

// A weight of bytes that is rounded to halves on its way to f32 is not.

// CHECK-LABEL: loop.kernel @bytes
// CHECK:       [[B:%\w+]] = arith.sitofp {{.*}} : i8 to f32
// CHECK-NOT:   arith.truncf
// CHECK:       arith.mulf {{.*}}, [[B]] : f32
loop.kernel @bytes(%x0: !sym.t<[16, 64], bf16>, %x1: !sym.t<[64, 64], i8>) outs(%y0: !sym.t<[16, 64], f32>) sizes [] grid [d0 = 16, d1 = 64] {
  %0 = loop.for [r0 = 64] reduce [add] {
    %1 = loop.load %x0[d0, r0] : !sym.t<[16, 64], bf16>
    %2 = arith.extf %1 : bf16 to f32
    %3 = loop.load %x1[d1, r0] : !sym.t<[64, 64], i8>
    %4 = arith.sitofp %3 : i8 to f32
    %5 = arith.truncf %4 : f32 to bf16
    %6 = arith.extf %5 : bf16 to f32
    %7 = arith.mulf %2, %6 : f32
    loop.yield %7 : f32
  } : f32
  loop.store %0, %y0[d0, d1] : !sym.t<[16, 64], f32>
  loop.end
}
