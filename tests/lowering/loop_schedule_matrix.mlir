// RUN: lamella-opt %s --split-input-file -p 'loop-schedule{bits=512 threads=2 amx=true}' | filecheck %s
// RUN: lamella-opt %s --split-input-file -p 'loop-schedule{bits=256 registers=16 threads=2 pairs=true}' | filecheck %s --check-prefix PAIRS

// For matrix units the right factor is packed in pairs along the inner dim, the left one is read where it lies; sums of
// a block are kept, and what follows reads them.

// CHECK:      grid [t1 = 2]
// CHECK-NEXT:   [[P:%\w+]] = loop.scratch : !sym.t<[2, 32, 16, 2], bf16>
// CHECK-NEXT:   loop.for [d1 = 32*t1 : 32*t1 + 32, r0 = 64] attributes {pack = "r0"} {
// CHECK-NEXT:     [[W:%\w+]] = loop.load %x1[d1, r0]
// CHECK-NEXT:     loop.store [[W]], [[P]]
// CHECK:        [[S:%\w+]] = loop.scratch : !sym.t<[40, 32], f32>
// CHECK-NEXT:   loop.for [d0 = 40, d1 = 32*t1 : 32*t1 + 32] attributes {matrix} {
// CHECK-NEXT:     loop.for [r0 = 64] reduce [add] {
// CHECK-NEXT:       loop.load %x0[d0, r0]
// CHECK:            loop.load [[P]]
// CHECK:          loop.store {{.*}}, [[S]][d0, d1 - 32*t1]
// CHECK:        loop.for [d0 = 40, d1 = 32*t1 : 32*t1 + 32] attributes {vector = "d1", lanes = 16
// CHECK-NEXT:     loop.load [[S]][d0, d1 - 32*t1]
// CHECK:          math.exp
// CHECK-NEXT:     loop.store
loop.kernel @linear(%x0: !sym.t<[40, 64], bf16>, %x1: !sym.t<[64, 64], bf16>) outs(%y0: !sym.t<[40, 64], f32>) sizes [] grid [d0 = 40, d1 = 64] {
  %0 = loop.for [r0 = 64] reduce [add] {
    %1 = loop.load %x0[d0, r0] : !sym.t<[40, 64], bf16>
    %2 = arith.extf %1 : bf16 to f32
    %3 = loop.load %x1[d1, r0] : !sym.t<[64, 64], bf16>
    %4 = arith.extf %3 : bf16 to f32
    %5 = arith.mulf %2, %4 : f32
    loop.yield %5 : f32
  } : f32
  %6 = math.exp %0 : f32
  loop.store %6, %y0[d0, d1] : !sym.t<[40, 64], f32>
  loop.end
}

// -----

// A weight of bytes is converted when it is packed, here along columns that are neighbours. What is not in one piece along
// the inner dim is copied. Many rows are blocks.

// CHECK:      grid [t0 = 2]
// CHECK:        loop.for [d1 = 128, r0 = 32] attributes {pack = "d1"} {
// CHECK-NEXT:     loop.load %x1[r0, d1] : !sym.t<[32, 128], i8>
// CHECK-NEXT:     arith.sitofp
// CHECK-NEXT:     arith.truncf
// CHECK:        [[C:%\w+]] = loop.scratch : !sym.t<[500, 32], bf16>
// CHECK-NEXT:   loop.for
// CHECK:        loop.for [d0 = 500*t0 : 500*t0 + 500, d1 = 128] attributes {matrix} {
// CHECK-NEXT:     loop.for
// CHECK-NEXT:       loop.load [[C]][d0 - 500*t0, r0]
loop.kernel @bytes(%x0: !sym.t<[32, 1000], bf16>, %x1: !sym.t<[32, 128], i8>) outs(%y0: !sym.t<[1000, 128], f32>) sizes [] grid [d0 = 1000, d1 = 128] {
  %0 = loop.for [r0 = 32] reduce [add] {
    %1 = loop.load %x0[r0, d0] : !sym.t<[32, 1000], bf16>
    %2 = arith.extf %1 : bf16 to f32
    %3 = loop.load %x1[r0, d1] : !sym.t<[32, 128], i8>
    %4 = arith.sitofp %3 : i8 to f32
    %5 = arith.mulf %2, %4 : f32
    loop.yield %5 : f32
  } : f32
  loop.store %0, %y0[d0, d1] : !sym.t<[1000, 128], f32>
  loop.end
}

// -----

// Bytes go to matrix units in fours, as they are; without such units both factors become pairs of 16 bits. What follows
// reads whole numbers.

// CHECK:      loop.kernel @bytes
// CHECK:        [[P:%\w+]] = loop.scratch : !sym.t<[2, 32, 16, 4], i8>
// CHECK-NEXT:   loop.for [d1 = 32*t1 : 32*t1 + 32, r0 = 128] attributes {pack = "d1"} {
// CHECK-NEXT:     [[W:%\w+]] = loop.load %x1[r0, d1]
// CHECK-NEXT:     loop.store [[W]], [[P]][{{.*}}floordiv(r0, 4), {{.*}}, mod(r0, 4)]
// CHECK:        [[S:%\w+]] = loop.scratch : !sym.t<[40, 32], i32>
// CHECK:        attributes {matrix} {
// CHECK:            loop.load %x0[d0, r0]
// CHECK-NEXT:       arith.extsi
// CHECK-NEXT:       loop.load [[P]]
// CHECK-NEXT:       arith.extui
// CHECK-NEXT:       arith.muli
// CHECK:          loop.load [[S]]
// CHECK-NEXT:     arith.sitofp
// PAIRS:      loop.kernel @bytes
// PAIRS:        [[P:%\w+]] = loop.scratch : !sym.t<[4, 64, 8, 2], i16>
// PAIRS:          [[W:%\w+]] = loop.load %x1[r0, d1]
// PAIRS-NEXT:     [[V:%\w+]] = arith.extui [[W]] : i8 to i16
// PAIRS-NEXT:     loop.store [[V]], [[P]]
// PAIRS:          loop.load %x0[d0, r0]
// PAIRS-NEXT:     arith.extsi {{.*}} : i8 to i16
// PAIRS:        attributes {matrix} {
// PAIRS:            arith.extsi {{.*}} : i16 to i32
// PAIRS:            arith.extsi {{.*}} : i16 to i32
loop.kernel @bytes(%x0: !sym.t<[40, 128], i8>, %x1: !sym.t<[128, 64], u8>, %x2: !sym.t<[40], f32>) outs(%y0: !sym.t<[40, 64], f32>) sizes [] grid [d0 = 40, d1 = 64] {
  %0 = loop.for [r0 = 128] reduce [add] {
    %1 = loop.load %x0[d0, r0] : !sym.t<[40, 128], i8>
    %2 = arith.extsi %1 : i8 to i32
    %3 = loop.load %x1[r0, d1] : !sym.t<[128, 64], u8>
    %4 = arith.extui %3 : i8 to i32
    %5 = arith.muli %2, %4 : i32
    loop.yield %5 : i32
  } : i32
  %6 = arith.sitofp %0 : i32 to f32
  %7 = loop.load %x2[d0] : !sym.t<[40], f32>
  %8 = arith.mulf %6, %7 : f32
  loop.store %8, %y0[d0, d1] : !sym.t<[40, 64], f32>
  loop.end
}

// -----

// Rows of several dims that are not one in memory: the outer one is as a batch's.

// CHECK-LABEL: loop.kernel @rows_of_two_dims
// CHECK:        loop.for [d1 = 40, d2 = 64] attributes {matrix} {
// CHECK:          loop.load %x0[d0, d1, r0]
loop.kernel @rows_of_two_dims(%x0: !sym.t<[2, 40, 64], bf16>, %x1: !sym.t<[64, 64], bf16>, %x2: !sym.t<[2, 40, 64], f32, strides=[2560, 1, 40]>) outs(%y0: !sym.t<[2, 40, 64], f32, strides=[2560, 1, 40]>) sizes [] grid [d0 = 2, d1 = 40, d2 = 64] {
  %0 = loop.for [r0 = 64] reduce [add] {
    %1 = loop.load %x0[d0, d1, r0] : !sym.t<[2, 40, 64], bf16>
    %2 = arith.extf %1 : bf16 to f32
    %3 = loop.load %x1[r0, d2] : !sym.t<[64, 64], bf16>
    %4 = arith.extf %3 : bf16 to f32
    %5 = arith.mulf %2, %4 : f32
    loop.yield %5 : f32
  } : f32
  %6 = loop.load %x2[d0, d1, d2] : !sym.t<[2, 40, 64], f32, strides=[2560, 1, 40]>
  %7 = arith.addf %0, %6 : f32
  loop.store %7, %y0[d0, d1, d2] : !sym.t<[2, 40, 64], f32, strides=[2560, 1, 40]>
  loop.end
}
