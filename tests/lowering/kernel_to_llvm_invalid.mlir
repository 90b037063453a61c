// RUN: lamella-opt %s -p 'kernel-to-llvm{target=avx512}' --split-input-file --verify-diagnostics
// A kernel for which there is no code is named, with its place.

// expected-error@+1 {{'loop.kernel' op cannot be turned into code: loop.for [d0 = 64, d1 = 64] is transposed, but copies no elements of two dims}}
loop.kernel @k(%x: !sym.t<[64, 64], f32>) outs(%y: !sym.t<[64, 64], f32>) sizes [] grid [] {
  loop.for [d0 = 64, d1 = 64] attributes {transpose = 16 : i64} {
    %0 = loop.load %x[d0, d1] : !sym.t<[64, 64], f32>
    %1 = arith.negf %0 : f32
    loop.store %1, %y[d1, d0] : !sym.t<[64, 64], f32>
    loop.yield
  }
  loop.end
}

// -----

// expected-error@+1 {{'loop.kernel' op cannot be turned into code: kernels have no elements of type c64}}
loop.kernel @k(%x: !sym.t<[4], c64>) outs(%y: !sym.t<[4], c64>) sizes [] grid [d0 = 4] {
  %0 = loop.load %x[d0] : !sym.t<[4], c64>
  loop.store %0, %y[d0] : !sym.t<[4], c64>
  loop.end
}

// -----

// expected-error@+1 {{cannot be turned into code: loop.for [d0 = 96] is apart, which takes an even number of vectors}}
loop.kernel @k(%x: !sym.t<[96], bf16>) outs(%y: !sym.t<[96], bf16>) sizes [] grid [] {
  loop.for [d0 = 96] attributes {vector = "d0", lanes = 16 : i64, unroll = 3 : i64, apart} {
    %0 = loop.load %x[d0] : !sym.t<[96], bf16>
    %1 = arith.extf %0 : bf16 to f32
    %2 = arith.addf %1, %1 : f32
    %3 = arith.truncf %2 : f32 to bf16
    loop.store %3, %y[d0] : !sym.t<[96], bf16>
    loop.yield
  }
  loop.end
}
