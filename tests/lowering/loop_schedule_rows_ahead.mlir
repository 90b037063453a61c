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
