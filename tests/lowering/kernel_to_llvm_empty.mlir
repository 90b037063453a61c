// RUN: lamella-opt %s -p 'kernel-to-llvm{target=avx512}' | filecheck %s
// A loop over nothing that is a vector gives what its sum begins with.

// CHECK-LABEL: @k.body
// CHECK:       llvm.store
loop.kernel @k(%x: !sym.t<[s0, 0], f32>) outs(%y: !sym.t<[s0], f32>) sizes [s0] grid [d0 = s0] {
  %s = loop.for [d1 = 0] reduce [add] attributes {vector = "d1", lanes = 16 : i64, unroll = 1 : i64} {
    %1 = loop.load %x[d0, d1] : !sym.t<[s0, 0], f32>
    loop.yield %1 : f32
  } : f32
  loop.store %s, %y[d0] : !sym.t<[s0], f32>
  loop.end
}
