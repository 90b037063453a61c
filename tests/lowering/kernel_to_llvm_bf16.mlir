// RUN: lamella-opt %s --split-input-file -p 'kernel-to-llvm{target=amx}' | filecheck %s
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

// -----

// Two vectors are rounded as one.

// CHECK:      [[B:%\w+]] = llvm.call_intrinsic "llvm.x86.avx512bf16.cvtne2ps2bf16.512"([[H:%\w+]], [[L:%\w+]])
// CHECK-DAG:  llvm.call_intrinsic "llvm.x86.avx512.fpclass.ps.512"([[L]],
// CHECK-DAG:  llvm.call_intrinsic "llvm.x86.avx512.fpclass.ps.512"([[H]],
loop.kernel @round(%x: !sym.t<[64], f32>) outs(%y: !sym.t<[64], bf16>) sizes [] grid [] {
  loop.for [d0 = 64] attributes {vector = "d0", lanes = 16 : i64, unroll = 2 : i64} {
    %0 = loop.load %x[d0] : !sym.t<[64], f32>
    %1 = arith.truncf %0 : f32 to bf16
    loop.store %1, %y[d0] : !sym.t<[64], bf16>
    loop.yield
  }
  loop.end
}

// -----

// A quotient by 1 + e^x that is rounded to bf16, after a product, needs no division, and few digits of e^x.

// CHECK:      llvm.call_intrinsic "llvm.x86.avx512.mask.reduce.ps.512"
// CHECK:      llvm.call_intrinsic "llvm.x86.avx512.rcp14.ps.512"
// CHECK-NOT:  llvm.fdiv
// CHECK:      llvm.fptrunc
loop.kernel @silu(%x: !sym.t<[64], f32>) outs(%y: !sym.t<[64], bf16>) sizes [] grid [] {
  loop.for [d0 = 64] attributes {vector = "d0", lanes = 16 : i64} {
    %0 = loop.load %x[d0] : !sym.t<[64], f32>
    %1 = arith.negf %0 : f32
    %2 = math.exp %1 : f32
    %3 = arith.constant 1.0 : f32
    %4 = arith.addf %2, %3 : f32
    %5 = arith.divf %0, %4 : f32
    %6 = arith.mulf %5, %0 : f32
    %7 = arith.truncf %6 : f32 to bf16
    loop.store %7, %y[d0] : !sym.t<[64], bf16>
    loop.yield
  }
  loop.end
}

// -----

// What stays f32 is divided.

// CHECK-NOT:  mask.reduce
// CHECK-NOT:  rcp14
// CHECK:      llvm.fdiv
loop.kernel @sigmoid(%x: !sym.t<[64], f32>) outs(%y: !sym.t<[64], f32>) sizes [] grid [] {
  loop.for [d0 = 64] attributes {vector = "d0", lanes = 16 : i64} {
    %0 = loop.load %x[d0] : !sym.t<[64], f32>
    %1 = math.exp %0 : f32
    %2 = arith.constant 1.0 : f32
    %3 = arith.addf %1, %2 : f32
    %4 = arith.divf %2, %3 : f32
    loop.store %4, %y[d0] : !sym.t<[64], f32>
    loop.yield
  }
  loop.end
}

// -----

// The sum of exponentials and what scratch keeps of them is rounded in the end; one of which the difference is taken is not.

// CHECK-LABEL: @softmax.body
// CHECK:       mask.reduce
// CHECK-LABEL: @cancels.body
// CHECK-NOT:   mask.reduce
loop.kernel @softmax(%x: !sym.t<[64], f32>) outs(%y: !sym.t<[64], bf16>) sizes [] grid [] {
  %e = loop.scratch : !sym.t<[64], f32>
  %s = loop.for [r0 = 64] reduce [add] attributes {vector = "r0", lanes = 16 : i64} {
    %0 = loop.load %x[r0] : !sym.t<[64], f32>
    %1 = math.exp %0 : f32
    loop.store %1, %e[r0] : !sym.t<[64], f32>
    loop.yield %1 : f32
  } : f32
  loop.for [d0 = 64] attributes {vector = "d0", lanes = 16 : i64} {
    %0 = loop.load %e[d0] : !sym.t<[64], f32>
    %1 = arith.divf %0, %s : f32
    %2 = arith.truncf %1 : f32 to bf16
    loop.store %2, %y[d0] : !sym.t<[64], bf16>
    loop.yield
  }
  loop.end
}
loop.kernel @cancels(%x: !sym.t<[64], f32>) outs(%y: !sym.t<[64], bf16>) sizes [] grid [] {
  loop.for [d0 = 64] attributes {vector = "d0", lanes = 16 : i64} {
    %0 = loop.load %x[d0] : !sym.t<[64], f32>
    %1 = math.exp %0 : f32
    %2 = arith.subf %1, %0 : f32
    %3 = arith.truncf %2 : f32 to bf16
    loop.store %3, %y[d0] : !sym.t<[64], bf16>
    loop.yield
  }
  loop.end
}

// -----

// Bytes of bf16 are put where f32 has them: 63 names one of zeros.

// CHECK-LABEL: @widen.body
// CHECK:       [[PLACES:%\w+]] = llvm.load %{{.*}} {alignment = 64 : i64, volatile_}
// CHECK:       llvm.load %{{.*}} -> vector<16xi16>
// CHECK-NOT:   llvm.zext
// CHECK:       llvm.call_intrinsic "llvm.x86.avx512.permvar.qi.512"(%{{.*}}, [[PLACES]])
loop.kernel @widen(%x: !sym.t<[64], bf16>) outs(%y: !sym.t<[64], f32>) sizes [] grid [] {
  loop.for [d0 = 64] attributes {vector = "d0", lanes = 16 : i64} {
    %0 = loop.load %x[d0] : !sym.t<[64], bf16>
    %1 = arith.extf %0 : bf16 to f32
    loop.store %1, %y[d0] : !sym.t<[64], f32>
    loop.yield
  }
  loop.end
}

// -----

// Vectors of every other element: a shift and a mask make f32 of what is read, what is rounded is put together by a
// selection of bits, and NaN of bf16 needs no care.

// CHECK-LABEL: @apart.body
// CHECK:      [[V:%\w+]] = llvm.load {{.*}} {alignment = 2 : i64} : !llvm.ptr -> vector<16xi32>
// CHECK:      llvm.shl [[V]],
// CHECK:      llvm.and [[V]],
// CHECK-NOT:  fixupimm
// CHECK:      llvm.call_intrinsic "llvm.x86.avx512.vpdpwssd.512"
// CHECK:      llvm.store {{.*}} : vector<16xi32>, !llvm.ptr
loop.kernel @apart(%x: !sym.t<[64], bf16>) outs(%y: !sym.t<[64], bf16>) sizes [] grid [] {
  loop.for [d0 = 64] attributes {vector = "d0", lanes = 16 : i64, unroll = 2 : i64, apart} {
    %0 = loop.load %x[d0] : !sym.t<[64], bf16>
    %1 = arith.addf %0, %0 : bf16
    loop.store %1, %y[d0] : !sym.t<[64], bf16>
    loop.yield
  }
  loop.end
}

// -----

// That of f32 may have any digits.

// CHECK-LABEL: @floats.body
// CHECK:      llvm.call_intrinsic "llvm.x86.avx512.mask.fixupimm.ps.512"
// CHECK:      llvm.call_intrinsic "llvm.x86.avx512.vpdpwssd.512"
loop.kernel @floats(%x: !sym.t<[64], f32>) outs(%y: !sym.t<[64], bf16>) sizes [] grid [] {
  loop.for [d0 = 64] attributes {vector = "d0", lanes = 16 : i64, unroll = 2 : i64, apart} {
    %0 = loop.load %x[d0] : !sym.t<[64], f32>
    %1 = arith.truncf %0 : f32 to bf16
    loop.store %1, %y[d0] : !sym.t<[64], bf16>
    loop.yield
  }
  loop.end
}
