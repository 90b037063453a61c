// RUN: lamella-opt %s --split-input-file -p 'loop-schedule{bits=512}' | filecheck %s
// RUN: lamella-opt %s --split-input-file -p 'loop-schedule{bits=256 registers=16}' | filecheck %s --check-prefix AVX2
// RUN: lamella-opt %s --split-input-file -p 'loop-schedule{bits=128 registers=16}' | filecheck %s --check-prefix SHORT

// Even and odd elements of bf16 are vectors of f32 of their own.

// CHECK:  attributes {vector = "d0", lanes = 16 : i64, unroll = 4 : i64, apart}
// AVX2:   attributes {vector = "d0", lanes = 8 : i64, unroll = 4 : i64, apart}
// SHORT-NOT: apart
loop.kernel @k(%x: !sym.t<[s0], bf16>) outs(%y: !sym.t<[s0], bf16>) sizes [s0] grid [d0 = s0] {
  %0 = loop.load %x[d0] : !sym.t<[s0], bf16>
  %1 = arith.addf %0, %0 : bf16
  loop.store %1, %y[d0] : !sym.t<[s0], bf16>
  loop.end
}

// -----

// Scratch that only such loops use, in whole pairs of vectors, is in their order.

// CHECK:      loop.for [d1 = 1024] reduce [add] attributes {vector = "d1", lanes = 16 : i64, unroll = 2 : i64, apart} {
// CHECK:        loop.store {{%.*}}, [[S:%.*]][d1] attributes {apart}
// CHECK:      loop.for [d1 = 1024] attributes {vector = "d1", lanes = 16 : i64, unroll = 2 : i64, apart} {
// CHECK-NEXT:   loop.load [[S]][d1] attributes {apart}
loop.kernel @k(%x: !sym.t<[64, 1024], bf16>) outs(%y: !sym.t<[64, 1024], bf16>) sizes [] grid [d0 = 64] {
  %s = loop.scratch : !sym.t<[1024], f32>
  %0 = loop.for [d1 = 1024] reduce [add] {
    %1 = loop.load %x[d0, d1] : !sym.t<[64, 1024], bf16>
    %2 = arith.extf %1 : bf16 to f32
    %3 = math.exp %2 : f32
    loop.store %3, %s[d1] : !sym.t<[1024], f32>
    loop.yield %3 : f32
  } : f32
  loop.for [d1 = 1024] {
    %1 = loop.load %s[d1] : !sym.t<[1024], f32>
    %2 = arith.divf %1, %0 : f32
    %3 = arith.truncf %2 : f32 to bf16
    loop.store %3, %y[d0, d1] : !sym.t<[64, 1024], bf16>
    loop.yield
  }
  loop.end
}

// -----

// Not so where the rows of scratch end within a pair: then f32 is in order, and as much of it as there is bf16.

// CHECK-NOT: apart
loop.kernel @k(%x: !sym.t<[64, 1000], bf16>) outs(%y: !sym.t<[64, 1000], bf16>) sizes [] grid [d0 = 64] {
  %s = loop.scratch : !sym.t<[1000], f32>
  %0 = loop.for [d1 = 1000] reduce [add] {
    %1 = loop.load %x[d0, d1] : !sym.t<[64, 1000], bf16>
    %2 = arith.extf %1 : bf16 to f32
    %3 = math.exp %2 : f32
    loop.store %3, %s[d1] : !sym.t<[1000], f32>
    loop.yield %3 : f32
  } : f32
  loop.for [d1 = 1000] {
    %1 = loop.load %s[d1] : !sym.t<[1000], f32>
    %2 = arith.divf %1, %0 : f32
    %3 = arith.truncf %2 : f32 to bf16
    loop.store %3, %y[d0, d1] : !sym.t<[64, 1000], bf16>
    loop.yield
  }
  loop.end
}

// -----

// Nor where something asks for the place of an element, or reads f32 only.

// CHECK-NOT: apart
loop.kernel @k(%x: !sym.t<[s0], bf16>) outs(%y: !sym.t<[s0], bf16>) sizes [s0] grid [d0 = s0] {
  %0 = loop.load %x[d0] : !sym.t<[s0], bf16>
  %1 = loop.index [d0]
  %2 = arith.sitofp %1 : i64 to bf16
  %3 = arith.addf %0, %2 : bf16
  loop.store %3, %y[d0] : !sym.t<[s0], bf16>
  loop.end
}

// -----

// CHECK-NOT: apart
loop.kernel @k(%x: !sym.t<[s0], f32>, %z: !sym.t<[s0], f32>) outs(%y: !sym.t<[s0], bf16>) sizes [s0] grid [d0 = s0] {
  %0 = loop.load %x[d0] : !sym.t<[s0], f32>
  %1 = loop.load %z[d0] : !sym.t<[s0], f32>
  %2 = arith.addf %0, %1 : f32
  %3 = arith.truncf %2 : f32 to bf16
  loop.store %3, %y[d0] : !sym.t<[s0], bf16>
  loop.end
}
