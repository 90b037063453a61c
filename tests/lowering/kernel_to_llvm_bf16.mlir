// RUN: lamella-opt %s -p 'kernel-to-llvm{target=amx}' | filecheck %s
// f32 is rounded to bf16 by the instruction of machines that have one; it takes denormals for zero, so where there are
// any it is done in integers.

// CHECK:      [[H:%\w+]] = llvm.fptrunc [[X:%\w+]] : vector<16xf32> to vector<16xbf16>
// CHECK-NEXT: [[B:%\w+]] = llvm.bitcast [[H]] : vector<16xbf16> to vector<16xi16>
// CHECK:      llvm.call_intrinsic "llvm.x86.avx512.fpclass.ps.512"([[X]],
// CHECK:      llvm.call_intrinsic "llvm.vector.reduce.or"
// CHECK-NEXT: llvm.cond_br
loop.kernel @round(%x: !sym.t<[64], f32>) outs(%y: !sym.t<[64], bf16>) sizes [] grid [] {
  loop.for [d0 = 64] attributes {vector = "d0", lanes = 16 : i64} {
    %0 = loop.load %x[d0] : !sym.t<[64], f32>
    %1 = arith.truncf %0 : f32 to bf16
    loop.store %1, %y[d0] : !sym.t<[64], bf16>
    loop.yield
  }
  loop.end
}
