// RUN: lamella-opt %s --split-input-file -p 'loop-schedule{bits=512 threads=2 amx=true}' | filecheck %s
// RUN: lamella-opt %s --split-input-file -p 'loop-schedule{bits=512 threads=2 amx=true parts=false}' | filecheck %s --check-prefix WITHOUT
// RUN: lamella-opt %s --split-input-file -p 'loop-schedule{bits=512 threads=16 busy=2 amx=true}' | filecheck %s

// A product of f32 is one for matrix units, too: as many blocks as there are threads, whose sums are kept, and what
// follows reads them. The attribute says along which dim each factor lies; what the next tiles are packed of is fetched
// ahead: 16 rows, or the next line of each.

// CHECK:      grid [t1 = 2]
// CHECK:        [[S:%\w+]] = loop.scratch : !sym.t<[512, 384], f32>
// CHECK-NEXT:   loop.for [d0 = 512, d1 = 384*t1 : 384*t1 + 384] attributes {matrix, split = ["r0", "d1"]} {
// CHECK-NEXT:     [[P:%\w+]] = loop.for [r0 = 256] reduce [add] {
// CHECK-NEXT:       loop.load %x0[d0, r0] attributes {prefetch = 16384 : i64, level = 2 : i64}
// CHECK-NEXT:       loop.load %x1[r0, d1] attributes {prefetch = 64 : i64}
// CHECK-NEXT:       arith.mulf
// CHECK:          loop.store [[P]], [[S]][d0, d1 - 384*t1]
// CHECK:        loop.for [d0 = 512, d1 = 384*t1 : 384*t1 + 384] attributes {vector = "d1", lanes = 16
// CHECK-NEXT:     loop.load [[S]]
// CHECK-NEXT:     math.exp
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

// Buffers have whole tiles, whatever the sizes. What is computed to make a factor is part of the loop; a weight of bf16
// beside f32 is a factor like others.

// CHECK:        loop.scratch : !sym.t<[192, 128], f32>
// CHECK-NEXT:   loop.for [d0 = 190, d1 = 128*t1 : min(250, 128*t1 + 128)] attributes {matrix, split = ["d0", "r0"]} {
// CHECK-NEXT:     loop.for [r0 = 300] reduce [add] {
// CHECK-NEXT:       loop.load %x0[r0, d0]
// CHECK-NEXT:       math.tanh
// CHECK-NEXT:       loop.load %x1[d1, r0]
// CHECK-NEXT:       arith.extf
loop.kernel @factors(%x0: !sym.t<[300, 190], f32>, %x1: !sym.t<[250, 300], bf16>) outs(%y0: !sym.t<[190, 250], f32>) sizes [] grid [d0 = 190, d1 = 250] {
  %0 = loop.for [r0 = 300] reduce [add] {
    %1 = loop.load %x0[r0, d0] : !sym.t<[300, 190], f32>
    %2 = math.tanh %1 : f32
    %3 = loop.load %x1[d1, r0] : !sym.t<[250, 300], bf16>
    %4 = arith.extf %3 : bf16 to f32
    %5 = arith.mulf %2, %4 : f32
    loop.yield %5 : f32
  } : f32
  loop.store %0, %y0[d0, d1] : !sym.t<[190, 250], f32>
  loop.end
}

// -----

// Any number of rows.

// CHECK:      loop.kernel @rows
// CHECK-SAME: grid [t0 = floordiv(s0 + 127, 128), t1 = 2]
// CHECK:        loop.for [d0 = 128*t0 : min(s0, 128*t0 + 128), d1 = 320*t1 : 320*t1 + 320] attributes {matrix, split
builtin.module attributes {lamella.hints = {s0 = 100 : i64}} {
  loop.kernel @rows(%x0: !sym.t<[s0, 70], f32>, %x1: !sym.t<[70, 640], f32>) outs(%y0: !sym.t<[s0, 640], f32>) sizes [s0] grid [d0 = s0, d1 = 640] {
    %0 = loop.for [r0 = 70] reduce [add] {
      %1 = loop.load %x0[d0, r0] : !sym.t<[s0, 70], f32>
      %2 = loop.load %x1[r0, d1] : !sym.t<[70, 640], f32>
      %3 = arith.mulf %1, %2 : f32
      loop.yield %3 : f32
    } : f32
    loop.store %0, %y0[d0, d1] : !sym.t<[s0, 640], f32>
    loop.end
  }
}

// -----

// Small ones are for vectors.

// CHECK-LABEL: loop.kernel @small
// CHECK-NOT: split
loop.kernel @small(%x0: !sym.t<[64, 64], f32>, %x1: !sym.t<[64, 64], f32>) outs(%y0: !sym.t<[64, 64], f32>) sizes [] grid [d0 = 64, d1 = 64] {
  %0 = loop.for [r0 = 64] reduce [add] {
    %1 = loop.load %x0[d0, r0] : !sym.t<[64, 64], f32>
    %2 = loop.load %x1[r0, d1] : !sym.t<[64, 64], f32>
    %3 = arith.mulf %1, %2 : f32
    loop.yield %3 : f32
  } : f32
  loop.store %0, %y0[d0, d1] : !sym.t<[64, 64], f32>
  loop.end
}

// -----

// What fails for a bad index is not where factors are packed.

// CHECK-LABEL: loop.kernel @fails
// CHECK-NOT: split
// CHECK: loop.assert
loop.kernel @fails(%x0: !sym.t<[512], i64>, %x1: !sym.t<[1000, 256], f32>, %x2: !sym.t<[256, 768], f32>) outs(%y0: !sym.t<[512, 768], f32>) sizes [] grid [d0 = 512, d1 = 768] {
  %0 = loop.for [r0 = 256] reduce [add] {
    %1 = loop.load %x0[d0] : !sym.t<[512], i64>
    %2 = arith.constant 1000 : i64
    %3 = arith.cmpi ult, %1, %2 : i64
    loop.assert %3, "index is out of bounds"
    %4 = loop.load %x1[v0, r0](%1) : !sym.t<[1000, 256], f32>
    %5 = loop.load %x2[r0, d1] : !sym.t<[256, 768], f32>
    %6 = arith.mulf %4, %5 : f32
    loop.yield %6 : f32
  } : f32
  loop.store %0, %y0[d0, d1] : !sym.t<[512, 768], f32>
  loop.end
}
