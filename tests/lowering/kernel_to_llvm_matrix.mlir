// RUN: lamella-opt %s -p 'loop-schedule{amx=true threads=1},kernel-to-llvm{target=amx}' | filecheck %s
// RUN: lamella-opt %s -p 'loop-schedule{amx=true threads=1},kernel-to-llvm{target=avx512}' | filecheck %s --check-prefix=WITHOUT
// RUN: lamella-opt %s -p 'loop-schedule{bits=256 registers=16 pairs=true threads=1},kernel-to-llvm{target=avx2}' | filecheck %s --check-prefix=PAIRS
// RUN: lamella-opt %s -p 'loop-schedule{bits=128 pairs=true threads=1},kernel-to-llvm{target=neon}' | filecheck %s --check-prefix=NEON

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

// Bytes with a sign times bytes without, in fours, or in pairs of 16 bits; a machine without either has loops.

// CHECK-LABEL: llvm.func internal @bytes.body
// CHECK:      llvm.call_intrinsic "llvm.x86.tileloadd64"
// CHECK:      llvm.call_intrinsic "llvm.x86.tdpbsud"
// PAIRS-LABEL: llvm.func internal @bytes.body
// PAIRS:      llvm.call_intrinsic "llvm.x86.avx2.pmadd.wd"({{.*}}) : (vector<16xi16>, vector<16xi16>) -> vector<8xi32>
// PAIRS-NEXT: llvm.add {{.*}} : vector<8xi32>
// NEON-NOT:   llvm.x86.
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
