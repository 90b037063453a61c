// RUN: lamella-opt %s -p 'kernel-to-llvm{target=avx512}' | filecheck %s
// RUN: lamella-opt %s -p 'kernel-to-llvm{target=avx512 contract=false}' | filecheck %s --check-prefix=EXACT

// Of a softmax that is rounded to bf16 all exponentials of a row may be so many times as large: what is below the largest
// is one step, a quotient is a product, and what is rounded is in the middle of two only by chance. A NaN is found in the
// sum: the largest of the numbers will do, if nothing else is made of it.

// CHECK-LABEL: @softmax.body
// CHECK-NOT:   umax
// CHECK:       "llvm.vector.reduce.smax"
// CHECK-NEXT:  {{.*}} "llvm.vector.reduce.umin"
// CHECK-NOT:   umax
// CHECK:       [[M:%\w+]] = llvm.fmul {{.*}} : f32
// CHECK-NEXT:  llvm.call_intrinsic "llvm.rint"([[M]])
// CHECK-NOT:   llvm.fsub
// CHECK:       [[Y:%\w+]] = llvm.call_intrinsic "llvm.fma"
// CHECK:       "llvm.x86.avx512.mask.reduce.ps.512"([[Y]],
// CHECK:       "llvm.x86.avx512.mask.scalef.ps.512"({{.*}}, [[Y]],
// CHECK:       llvm.fdiv {{.*}} : f32
// CHECK:       [[Q:%\w+]] = llvm.fmul {{.*}} : vector<16xf32>
// CHECK:       [[B:%\w+]] = llvm.bitcast [[Q]]
// CHECK-NEXT:  llvm.add [[B]],
// CHECK-NOT:   fixupimm
// CHECK-LABEL: @kept.body
// CHECK-NOT:   umax
// CHECK:       "llvm.vector.reduce.smax"
// CHECK-NOT:   umax
// CHECK:       llvm.fsub {{.*}} : vector<16xf32>
// CHECK-NOT:   llvm.rint

// CHECK-LABEL: @largest.body
// CHECK:       "llvm.vector.reduce.umax"
// CHECK-NOT:   llvm.fsub
// CHECK:       "llvm.fma"
// CHECK-LABEL: @f32.body
// CHECK-NOT:   "uno"
// CHECK:       llvm.fcmp "ogt"
// CHECK-NOT:   "uno"
// CHECK:       "llvm.rint"

// A softmax that is not rounded, and its logarithm: their sum lies between 1 and the number of points, or is NaN.

// CHECK-LABEL: @exact.body
// CHECK-NOT:   "uno"
// CHECK:       llvm.fcmp "ogt"
// CHECK-NOT:   "uno"
// CHECK:       llvm.fsub {{.*}} : vector<16xf32>
// CHECK-NOT:   llvm.fabs
// CHECK:       llvm.fdiv {{.*}} : f32
// CHECK-LABEL: @log.body
// CHECK-NOT:   "uno"
// CHECK:       llvm.fcmp "ogt"
// CHECK-NOT:   "uno"
// CHECK:       llvm.fsub {{.*}} : vector<16xf32>

// An exponential leaves, which the largest makes NaN.

// CHECK-LABEL: @weights.body
// CHECK:       llvm.fcmp "uno"
// CHECK:       llvm.fcmp "ogt"
// CHECK:       llvm.fsub {{.*}} : vector<16xf32>

// EXACT-LABEL: @softmax.body
// EXACT:       "llvm.vector.reduce.umax"
// EXACT:       llvm.fsub
// EXACT-NOT:   rint
// EXACT-LABEL: @kept.body
loop.kernel @softmax(%x: !sym.t<[64], bf16>) outs(%y: !sym.t<[64], bf16>) sizes [] grid [] {
  %e = loop.scratch : !sym.t<[64], f32>
  %m = loop.for [d0 = 64] reduce [max] attributes {vector = "d0", lanes = 32 : i64} {
    %0 = loop.load %x[d0] : !sym.t<[64], bf16>
    loop.yield %0 : bf16
  } : bf16
  %w = arith.extf %m : bf16 to f32
  %s = loop.for [d0 = 64] reduce [add] attributes {vector = "d0", lanes = 16 : i64, unroll = 2 : i64, apart} {
    %0 = loop.load %x[d0] : !sym.t<[64], bf16>
    %1 = arith.extf %0 : bf16 to f32
    %2 = arith.subf %1, %w : f32
    %3 = math.exp %2 : f32
    loop.store %3, %e[d0] attributes {apart} : !sym.t<[64], f32>
    loop.yield %3 : f32
  } : f32
  loop.for [d0 = 64] attributes {vector = "d0", lanes = 16 : i64, unroll = 2 : i64, apart} {
    %0 = loop.load %e[d0] attributes {apart} : !sym.t<[64], f32>
    %1 = arith.divf %0, %s : f32
    %2 = arith.truncf %1 : f32 to bf16
    loop.store %2, %y[d0] : !sym.t<[64], bf16>
    loop.yield
  }
  loop.end
}

// The sum leaves: it is that of e^(x - m).
loop.kernel @kept(%x: !sym.t<[64], bf16>) outs(%y: !sym.t<[64], bf16>, %z: !sym.t<[], f32>) sizes [] grid [] {
  %e = loop.scratch : !sym.t<[64], f32>
  %m = loop.for [d0 = 64] reduce [max] attributes {vector = "d0", lanes = 32 : i64} {
    %0 = loop.load %x[d0] : !sym.t<[64], bf16>
    loop.yield %0 : bf16
  } : bf16
  %w = arith.extf %m : bf16 to f32
  %s = loop.for [d0 = 64] reduce [add] attributes {vector = "d0", lanes = 16 : i64, unroll = 2 : i64, apart} {
    %0 = loop.load %x[d0] : !sym.t<[64], bf16>
    %1 = arith.extf %0 : bf16 to f32
    %2 = arith.subf %1, %w : f32
    %3 = math.exp %2 : f32
    loop.store %3, %e[d0] attributes {apart} : !sym.t<[64], f32>
    loop.yield %3 : f32
  } : f32
  loop.store %s, %z[] : !sym.t<[], f32>
  loop.for [d0 = 64] attributes {vector = "d0", lanes = 16 : i64, unroll = 2 : i64, apart} {
    %0 = loop.load %e[d0] attributes {apart} : !sym.t<[64], f32>
    %1 = arith.divf %0, %s : f32
    %2 = arith.truncf %1 : f32 to bf16
    loop.store %2, %y[d0] : !sym.t<[64], bf16>
    loop.yield
  }
  loop.end
}

// The largest leaves, too.
loop.kernel @largest(%x: !sym.t<[64], bf16>) outs(%y: !sym.t<[64], bf16>, %z: !sym.t<[], bf16>) sizes [] grid [] {
  %e = loop.scratch : !sym.t<[64], f32>
  %m = loop.for [d0 = 64] reduce [max] attributes {vector = "d0", lanes = 32 : i64} {
    %0 = loop.load %x[d0] : !sym.t<[64], bf16>
    loop.yield %0 : bf16
  } : bf16
  loop.store %m, %z[] : !sym.t<[], bf16>
  %w = arith.extf %m : bf16 to f32
  %s = loop.for [d0 = 64] reduce [add] attributes {vector = "d0", lanes = 16 : i64, unroll = 2 : i64, apart} {
    %0 = loop.load %x[d0] : !sym.t<[64], bf16>
    %1 = arith.extf %0 : bf16 to f32
    %2 = arith.subf %1, %w : f32
    %3 = math.exp %2 : f32
    loop.store %3, %e[d0] attributes {apart} : !sym.t<[64], f32>
    loop.yield %3 : f32
  } : f32
  loop.for [d0 = 64] attributes {vector = "d0", lanes = 16 : i64, unroll = 2 : i64, apart} {
    %0 = loop.load %e[d0] attributes {apart} : !sym.t<[64], f32>
    %1 = arith.divf %0, %s : f32
    %2 = arith.truncf %1 : f32 to bf16
    loop.store %2, %y[d0] : !sym.t<[64], bf16>
    loop.yield
  }
  loop.end
}

// The same of f32.
loop.kernel @f32(%x: !sym.t<[64], f32>) outs(%y: !sym.t<[64], bf16>) sizes [] grid [] {
  %m = loop.for [d0 = 64] reduce [max] attributes {vector = "d0", lanes = 16 : i64} {
    %0 = loop.load %x[d0] : !sym.t<[64], f32>
    loop.yield %0 : f32
  } : f32
  %s = loop.for [d0 = 64] reduce [add] attributes {vector = "d0", lanes = 16 : i64} {
    %0 = loop.load %x[d0] : !sym.t<[64], f32>
    %1 = arith.subf %0, %m : f32
    %2 = math.exp %1 : f32
    loop.yield %2 : f32
  } : f32
  loop.for [d0 = 64] attributes {vector = "d0", lanes = 16 : i64} {
    %0 = loop.load %x[d0] : !sym.t<[64], f32>
    %1 = arith.subf %0, %m : f32
    %2 = math.exp %1 : f32
    %3 = arith.divf %2, %s : f32
    %4 = arith.truncf %3 : f32 to bf16
    loop.store %4, %y[d0] : !sym.t<[64], bf16>
    loop.yield
  }
  loop.end
}

loop.kernel @exact(%x: !sym.t<[64], f32>) outs(%y: !sym.t<[64], f32>) sizes [] grid [] {
  %e = loop.scratch : !sym.t<[64], f32>
  %m = loop.for [d0 = 64] reduce [max] attributes {vector = "d0", lanes = 16 : i64} {
    %0 = loop.load %x[d0] : !sym.t<[64], f32>
    loop.yield %0 : f32
  } : f32
  %s = loop.for [d0 = 64] reduce [add] attributes {vector = "d0", lanes = 16 : i64} {
    %0 = loop.load %x[d0] : !sym.t<[64], f32>
    %1 = arith.subf %0, %m : f32
    %2 = math.exp %1 : f32
    loop.store %2, %e[d0] : !sym.t<[64], f32>
    loop.yield %2 : f32
  } : f32
  loop.for [d0 = 64] attributes {vector = "d0", lanes = 16 : i64} {
    %0 = loop.load %e[d0] : !sym.t<[64], f32>
    %1 = arith.divf %0, %s : f32
    loop.store %1, %y[d0] : !sym.t<[64], f32>
    loop.yield
  }
  loop.end
}

loop.kernel @log(%x: !sym.t<[64], f32>) outs(%y: !sym.t<[64], f32>) sizes [] grid [] {
  %m = loop.for [d0 = 64] reduce [max] attributes {vector = "d0", lanes = 16 : i64} {
    %0 = loop.load %x[d0] : !sym.t<[64], f32>
    loop.yield %0 : f32
  } : f32
  %s = loop.for [d0 = 64] reduce [add] attributes {vector = "d0", lanes = 16 : i64} {
    %0 = loop.load %x[d0] : !sym.t<[64], f32>
    %1 = arith.subf %0, %m : f32
    %2 = math.exp %1 : f32
    loop.yield %2 : f32
  } : f32
  %l = math.log %s : f32
  loop.for [d0 = 64] attributes {vector = "d0", lanes = 16 : i64} {
    %0 = loop.load %x[d0] : !sym.t<[64], f32>
    %1 = arith.subf %0, %m : f32
    %2 = arith.subf %1, %l : f32
    loop.store %2, %y[d0] : !sym.t<[64], f32>
    loop.yield
  }
  loop.end
}

loop.kernel @weights(%x: !sym.t<[64], f32>) outs(%y: !sym.t<[64], f32>, %z: !sym.t<[], f32>) sizes [] grid [] {
  %m = loop.for [d0 = 64] reduce [max] attributes {vector = "d0", lanes = 16 : i64} {
    %0 = loop.load %x[d0] : !sym.t<[64], f32>
    loop.yield %0 : f32
  } : f32
  %s = loop.for [d0 = 64] reduce [add] attributes {vector = "d0", lanes = 16 : i64} {
    %0 = loop.load %x[d0] : !sym.t<[64], f32>
    %1 = arith.subf %0, %m : f32
    %2 = math.exp %1 : f32
    loop.store %2, %y[d0] : !sym.t<[64], f32>
    loop.yield %2 : f32
  } : f32
  loop.store %s, %z[] : !sym.t<[], f32>
  loop.end
}
