// RUN: lamella-opt %s --split-input-file -p 'loop-schedule{bits=512}' | filecheck %s
// RUN: lamella-opt %s --split-input-file -p 'loop-schedule{bits=512},kernel-to-llvm{target=avx512}' | filecheck %s --check-prefix LLVM

// Of a large table the row of the next point is asked for while this one is read.

// CHECK:      [[I:%.*]] = loop.load %i[d0]
// CHECK:        loop.load %w[v0, d1]([[I]]) attributes {next}
// LLVM-LABEL: @rows.body
// LLVM:       llvm.call_intrinsic "llvm.prefetch"
loop.kernel @rows(%i: !sym.t<[64], i64>, %w: !sym.t<[8192, 768], f32>) outs(%y: !sym.t<[64, 768], f32>) sizes [] grid [d0 = 64, d1 = 768] {
  %0 = loop.load %i[d0] : !sym.t<[64], i64>
  %1 = loop.load %w[v0, d1](%0) : !sym.t<[8192, 768], f32>
  loop.store %1, %y[d0, d1] : !sym.t<[64, 768], f32>
  loop.end
}

// -----

// One that the cache holds is not.

// CHECK-NOT: next
loop.kernel @small(%i: !sym.t<[64], i64>, %w: !sym.t<[16, 768], f32>) outs(%y: !sym.t<[64, 768], f32>) sizes [] grid [d0 = 64, d1 = 768] {
  %0 = loop.load %i[d0] : !sym.t<[64], i64>
  %1 = loop.load %w[v0, d1](%0) : !sym.t<[16, 768], f32>
  loop.store %1, %y[d0, d1] : !sym.t<[64, 768], f32>
  loop.end
}

// -----

// What is read of the left half of a row is asked for a row ahead: behind it is the right half, which nobody reads.

// CHECK:      loop.kernel @half
// CHECK:        loop.load %x[d0, d1] attributes {prefetch = 8192 : i64}
loop.kernel @half(%x: !sym.t<[4096, 2048], f32>) outs(%y: !sym.t<[4096, 1024], f32>) sizes [] grid [d0 = 4096, d1 = 1024] {
  %0 = loop.load %x[d0, d1] : !sym.t<[4096, 2048], f32>
  loop.store %0, %y[d0, d1] : !sym.t<[4096, 1024], f32>
  loop.end
}

// -----

// So it is where rows are taken eight at a time.

// CHECK:      loop.kernel @quarter
// CHECK:        loop.load %x[d0, d1] attributes {prefetch = 8192 : i64}
loop.kernel @quarter(%x: !sym.t<[4096, 2048], f32>) outs(%y: !sym.t<[4096, 512], f32>) sizes [] grid [d0 = 4096, d1 = 512] {
  %0 = loop.load %x[d0, d1] : !sym.t<[4096, 2048], f32>
  loop.store %0, %y[d0, d1] : !sym.t<[4096, 512], f32>
  loop.end
}

// -----

// What lies 4 KB further on is the same part of a later row already; a longer part goes on for as much.

// CHECK:      loop.kernel @short
// CHECK:        loop.load %x[d0, d1] attributes {prefetch = 4096 : i64}
loop.kernel @short(%x: !sym.t<[8192, 1024], f32>) outs(%y: !sym.t<[8192, 512], f32>) sizes [] grid [d0 = 8192, d1 = 512] {
  %0 = loop.load %x[d0, d1] : !sym.t<[8192, 1024], f32>
  loop.store %0, %y[d0, d1] : !sym.t<[8192, 512], f32>
  loop.end
}

// -----

// CHECK:      loop.kernel @long
// CHECK:        loop.load %x[d0, d1] attributes {prefetch = 4096 : i64}
loop.kernel @long(%x: !sym.t<[1024, 8192], f32>) outs(%y: !sym.t<[1024, 4096], f32>) sizes [] grid [d0 = 1024, d1 = 4096] {
  %0 = loop.load %x[d0, d1] : !sym.t<[1024, 8192], f32>
  loop.store %0, %y[d0, d1] : !sym.t<[1024, 4096], f32>
  loop.end
}
