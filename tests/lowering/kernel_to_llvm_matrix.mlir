// RUN: lamella-opt %s -p 'loop-schedule{amx=true threads=1},kernel-to-llvm{target=amx}' | filecheck %s
// RUN: lamella-opt %s -p 'loop-schedule{amx=true threads=1},kernel-to-llvm{target=avx512}' | filecheck %s --check-prefix=WITHOUT

// Two tiles of rows and two of columns; the last strip of rows overlaps the one before. Elsewhere the loops are loops.

// CHECK:      llvm.call_intrinsic "llvm.x86.ldtilecfg"
// CHECK:      llvm.call_intrinsic "llvm.x86.tilezero"
// CHECK:      llvm.call_intrinsic "llvm.x86.tileloadd64"
// CHECK:      llvm.call_intrinsic "llvm.x86.tdpbf16ps"
// CHECK:      llvm.call_intrinsic "llvm.x86.tilestored64"
// CHECK:      llvm.call_intrinsic "llvm.x86.tilerelease"
// WITHOUT-NOT: llvm.x86.t
loop.kernel @mm(%x0: !sym.t<[40, 64], bf16>, %x1: !sym.t<[64, 64], bf16>) outs(%y0: !sym.t<[40, 64], f32>) sizes [] grid [d0 = 40, d1 = 64] {
  %0 = loop.for [r0 = 64] reduce [add] {
    %1 = loop.load %x0[d0, r0] : !sym.t<[40, 64], bf16>
    %2 = arith.extf %1 : bf16 to f32
    %3 = loop.load %x1[r0, d1] : !sym.t<[64, 64], bf16>
    %4 = arith.extf %3 : bf16 to f32
    %5 = arith.mulf %2, %4 : f32
    loop.yield %5 : f32
  } : f32
  loop.store %0, %y0[d0, d1] : !sym.t<[40, 64], f32>
  loop.end
}
