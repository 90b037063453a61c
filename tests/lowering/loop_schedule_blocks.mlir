// RUN: lamella-opt %s --split-input-file -p 'loop-schedule{bits=512 threads=2 l2=1048576 blocks=true}' | filecheck %s
// RUN: lamella-opt %s --split-input-file -p 'loop-schedule{bits=512 threads=2 l2=1048576}' | filecheck %s --check-prefix WITHOUT
// RUN: lamella-opt %s --split-input-file -p 'loop-schedule{bits=512 threads=2 l2=1048576 blocks=true parts=false}' | filecheck %s --check-prefix WITHOUT

// Without matrix units a product of f32 is made of packed factors, too, where a library has shorter vectors: the packed
// columns of a block fill less than half of the second cache.

// CHECK:      grid [t1 = 2]
// CHECK:        [[S:%\w+]] = loop.scratch : !sym.t<[512, 384], f32>
// CHECK-NEXT:   loop.for [d0 = 512, d1 = 384*t1 : 384*t1 + 384] attributes {matrix, split = ["r0", "d1"]} {
// CHECK:        loop.for [d0 = 512, d1 = 384*t1 : 384*t1 + 384] attributes {vector = "d1", lanes = 16
// CHECK-NEXT:     loop.load [[S]]
// WITHOUT-NOT: split
loop.kernel @two_blocks(%x0: !sym.t<[512, 256], f32>, %x1: !sym.t<[256, 768], f32>) outs(%y0: !sym.t<[512, 768], f32>) sizes [] grid [d0 = 512, d1 = 768] {
  %0 = loop.for [r0 = 256] reduce [add] {
    %1 = loop.load %x0[d0, r0] : !sym.t<[512, 256], f32>
    %2 = loop.load %x1[r0, d1] : !sym.t<[256, 768], f32>
    %3 = arith.mulf %1, %2 : f32
    loop.yield %3 : f32
  } : f32
  %4 = math.exp %0 : f32
  loop.store %4, %y0[d0, d1] : !sym.t<[512, 768], f32>
  loop.end
}

// -----

// Factors of halves become f32 when they are packed.

// CHECK:      split = ["r0", "r0"]
// WITHOUT-NOT: split
loop.kernel @halves(%x0: !sym.t<[128, 256], f16>, %x1: !sym.t<[128, 256], f16>) outs(%y0: !sym.t<[128, 128], f32>) sizes [] grid [d0 = 128, d1 = 128] {
  %0 = loop.for [r0 = 256] reduce [add] {
    %1 = loop.load %x0[d0, r0] : !sym.t<[128, 256], f16>
    %2 = arith.extf %1 : f16 to f32
    %3 = loop.load %x1[d1, r0] : !sym.t<[128, 256], f16>
    %4 = arith.extf %3 : f16 to f32
    %5 = arith.mulf %2, %4 : f32
    loop.yield %5 : f32
  } : f32
  loop.store %0, %y0[d0, d1] : !sym.t<[128, 128], f32>
  loop.end
}

// -----

// A small product, and one of f64.

// CHECK-NOT:   split
// WITHOUT-NOT: split
loop.kernel @small(%x0: !sym.t<[16, 256], f32>, %x1: !sym.t<[256, 64], f32>) outs(%y0: !sym.t<[16, 64], f32>) sizes [] grid [d0 = 16, d1 = 64] {
  %0 = loop.for [r0 = 256] reduce [add] {
    %1 = loop.load %x0[d0, r0] : !sym.t<[16, 256], f32>
    %2 = loop.load %x1[r0, d1] : !sym.t<[256, 64], f32>
    %3 = arith.mulf %1, %2 : f32
    loop.yield %3 : f32
  } : f32
  loop.store %0, %y0[d0, d1] : !sym.t<[16, 64], f32>
  loop.end
}

loop.kernel @of_f64(%x0: !sym.t<[512, 256], f64>, %x1: !sym.t<[256, 768], f64>) outs(%y0: !sym.t<[512, 768], f64>) sizes [] grid [d0 = 512, d1 = 768] {
  %0 = loop.for [r0 = 256] reduce [add] {
    %1 = loop.load %x0[d0, r0] : !sym.t<[512, 256], f64>
    %2 = loop.load %x1[r0, d1] : !sym.t<[256, 768], f64>
    %3 = arith.mulf %1, %2 : f64
    loop.yield %3 : f64
  } : f64
  loop.store %0, %y0[d0, d1] : !sym.t<[512, 768], f64>
  loop.end
}

// -----

// Blocks of rows are tiles of 8, so that two threads have about as much to do. A result that the second cache does not
// hold goes past it; one that it holds, and one of another kernel, do not.

// CHECK:      loop.kernel @rows
// CHECK:        loop.scratch : !sym.t<[400, 384], f32>
// CHECK:        loop.for [d0 = 400*t0 : min(788, 400*t0 + 400),
// CHECK:        loop.store {{.*}} attributes {nontemporal}
// WITHOUT:    loop.kernel @rows
// WITHOUT-NOT: nontemporal
loop.kernel @rows(%x0: !sym.t<[788, 768], f32>, %x1: !sym.t<[3072, 768], f32>) outs(%y0: !sym.t<[788, 3072], f32>) sizes [] grid [d0 = 788, d1 = 3072] {
  %0 = loop.for [r0 = 768] reduce [add] {
    %1 = loop.load %x0[d0, r0] : !sym.t<[788, 768], f32>
    %2 = loop.load %x1[d1, r0] : !sym.t<[3072, 768], f32>
    %3 = arith.mulf %1, %2 : f32
    loop.yield %3 : f32
  } : f32
  loop.store %0, %y0[d0, d1] : !sym.t<[788, 3072], f32>
  loop.end
}

// -----

// CHECK:      loop.kernel @small
// CHECK-NOT:  nontemporal
loop.kernel @small(%x0: !sym.t<[256, 768], f32>, %x1: !sym.t<[768, 768], f32>) outs(%y0: !sym.t<[256, 768], f32>) sizes [] grid [d0 = 256, d1 = 768] {
  %0 = loop.for [r0 = 768] reduce [add] {
    %1 = loop.load %x0[d0, r0] : !sym.t<[256, 768], f32>
    %2 = loop.load %x1[d1, r0] : !sym.t<[768, 768], f32>
    %3 = arith.mulf %1, %2 : f32
    loop.yield %3 : f32
  } : f32
  loop.store %0, %y0[d0, d1] : !sym.t<[256, 768], f32>
  loop.end
}
