// RUN: lamella-opt %s -p 'kernel-to-llvm{target=amx}' | filecheck %s
// RUN: lamella-opt %s -p 'kernel-to-llvm{target=avx2}' | filecheck %s --check-prefix WITHOUT

// What all such products share, once: parts of f32 with the rest taken off, without contraction; a tile of each part, and
// the six products of four tiles of sums. A kernel has memory for what is packed. Sums that are no numbers, or small, are
// added up again. Elsewhere the loop is a loop.

// CHECK-LABEL: llvm.func @lamella.pack.columns.along
// CHECK:      llvm.call_intrinsic "llvm.prefetch"
// CHECK-NEXT: llvm.intr.masked.load
// CHECK:      llvm.fsub %{{\d+}}, %{{\d+}} : vector<16xf32>
// CHECK-LABEL: llvm.func @lamella.pack.rows.along
// CHECK:      llvm.fsub %{{\d+}}, %{{\d+}} : vector<16xf32>
// CHECK-LABEL: llvm.func @lamella.tiles
// CHECK:      llvm.call_intrinsic "llvm.x86.tilezero"
// CHECK-COUNT-4: llvm.call_intrinsic "llvm.x86.tileloadd64"
// CHECK-COUNT-24: llvm.call_intrinsic "llvm.x86.tdpbf16ps"
// CHECK-COUNT-4: llvm.call_intrinsic "llvm.x86.tilestored64"
// CHECK-LABEL: llvm.func @lamella.again
// CHECK:      llvm.icmp "uge"
// CHECK:      llvm.call_intrinsic "llvm.fma"
// CHECK-LABEL: llvm.func internal @mm.body
// CHECK:      [[P:%\w+]] = llvm.call @aligned_alloc
// CHECK:      llvm.call @free([[P]])
// CHECK:      llvm.call_intrinsic "llvm.x86.ldtilecfg"
// CHECK:      llvm.call @lamella.pack.columns.along
// CHECK:      llvm.call @lamella.pack.rows.along
// CHECK:      llvm.call @lamella.tiles
// CHECK:      llvm.call_intrinsic "llvm.x86.tilerelease"
// CHECK:      llvm.call @lamella.again
// WITHOUT-NOT: llvm.x86
loop.kernel @mm(%x0: !sym.t<[32, 64], f32>, %x1: !sym.t<[32, 64], f32>) outs(%y0: !sym.t<[32, 32], f32>) sizes [] grid [] {
  %0 = loop.scratch : !sym.t<[32, 32], f32>
  loop.for [d0 = 32, d1 = 32] attributes {matrix, split = ["r0", "r0"]} {
    %1 = loop.for [r0 = 64] reduce [add] {
      %2 = loop.load %x0[d0, r0] : !sym.t<[32, 64], f32>
      %3 = loop.load %x1[d1, r0] : !sym.t<[32, 64], f32>
      %4 = arith.mulf %2, %3 : f32
      loop.yield %4 : f32
    } : f32
    loop.store %1, %0[d0, d1] : !sym.t<[32, 32], f32>
    loop.yield
  }
  loop.for [d0 = 32, d1 = 32] attributes {vector = "d1", lanes = 16 : i64, unroll = 1 : i64} {
    %5 = loop.load %0[d0, d1] : !sym.t<[32, 32], f32>
    loop.store %5, %y0[d0, d1] : !sym.t<[32, 32], f32>
    loop.yield
  }
  loop.end
}

// A loop of another form has no such code, whatever its attributes say: a maximum; sums that are no buffer's.

// CHECK-LABEL: llvm.func internal @maximum.body
// CHECK-NOT:  llvm.x86.t
loop.kernel @maximum(%x0: !sym.t<[32, 64], f32>, %x1: !sym.t<[32, 64], f32>) outs(%y0: !sym.t<[32, 32], f32>) sizes [] grid [] {
  loop.for [d0 = 32, d1 = 32] attributes {matrix, split = ["r0", "r0"]} {
    %1 = loop.for [r0 = 64] reduce [max] {
      %2 = loop.load %x0[d0, r0] : !sym.t<[32, 64], f32>
      %3 = loop.load %x1[d1, r0] : !sym.t<[32, 64], f32>
      %4 = arith.mulf %2, %3 : f32
      loop.yield %4 : f32
    } : f32
    loop.store %1, %y0[d0, d1] : !sym.t<[32, 32], f32>
    loop.yield
  }
  loop.end
}

// CHECK-LABEL: llvm.func internal @result.body
// CHECK-NOT:  llvm.x86.t
loop.kernel @result(%x0: !sym.t<[32, 64], f32>, %x1: !sym.t<[32, 64], f32>) outs(%y0: !sym.t<[32, 32], f32, strides=[1, 32]>) sizes [] grid [] {
  loop.for [d0 = 32, d1 = 32] attributes {matrix, split = ["r0", "r0"]} {
    %1 = loop.for [r0 = 64] reduce [add] {
      %2 = loop.load %x0[d0, r0] : !sym.t<[32, 64], f32>
      %3 = loop.load %x1[d1, r0] : !sym.t<[32, 64], f32>
      %4 = arith.mulf %2, %3 : f32
      loop.yield %4 : f32
    } : f32
    loop.store %1, %y0[d0, d1] : !sym.t<[32, 32], f32, strides=[1, 32]>
    loop.yield
  }
  loop.end
}

// A factor that is computed is packed by the kernel itself; of two such products, what is shared is there once.

// CHECK-NOT:  llvm.func @lamella
// CHECK-LABEL: llvm.func internal @computed.body
// CHECK:      llvm.call @lamella.pack.columns.along
// CHECK:      llvm.fneg
// CHECK:      llvm.fsub %{{\d+}}, %{{\d+}} : vector<16xf32>
// CHECK-NOT:  llvm.call @lamella.pack
// CHECK:      llvm.call @lamella.tiles
// CHECK-NOT:  llvm.call @lamella.again
// CHECK:      llvm.call_intrinsic "llvm.fma"
loop.kernel @computed(%x0: !sym.t<[32, 64], f32>, %x1: !sym.t<[32, 64], f32>) outs(%y0: !sym.t<[32, 32], f32>) sizes [] grid [] {
  %0 = loop.scratch : !sym.t<[32, 32], f32>
  loop.for [d0 = 32, d1 = 32] attributes {matrix, split = ["r0", "r0"]} {
    %1 = loop.for [r0 = 64] reduce [add] {
      %2 = loop.load %x0[d0, r0] : !sym.t<[32, 64], f32>
      %3 = arith.negf %2 : f32
      %4 = loop.load %x1[d1, r0] : !sym.t<[32, 64], f32>
      %5 = arith.mulf %3, %4 : f32
      loop.yield %5 : f32
    } : f32
    loop.store %1, %0[d0, d1] : !sym.t<[32, 32], f32>
    loop.yield
  }
  loop.for [d0 = 32, d1 = 32] attributes {vector = "d1", lanes = 16 : i64, unroll = 1 : i64} {
    %6 = loop.load %0[d0, d1] : !sym.t<[32, 32], f32>
    loop.store %6, %y0[d0, d1] : !sym.t<[32, 32], f32>
    loop.yield
  }
  loop.end
}
