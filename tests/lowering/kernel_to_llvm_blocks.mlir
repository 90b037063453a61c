// RUN: lamella-opt %s -p 'kernel-to-llvm{target=zen4}' | filecheck %s

// What all products in blocks share where there are no matrix units: copies of factors, with rows and columns exchanged
// where their vectors lie across, and tiles of sums in registers. What is computed is packed by the kernel itself.

// CHECK-LABEL: llvm.func @lamella.copy.columns.along
// CHECK-COUNT-16: llvm.intr.masked.load
// CHECK:      llvm.shufflevector
// CHECK-COUNT-16: llvm.store
// CHECK-LABEL: llvm.func @lamella.copy.rows.along
// CHECK:      llvm.intr.masked.load
// CHECK-NOT:  llvm.shufflevector %{{\d+}}, %{{\d+}} [0, 1, 2, 3, 4, 5, 6, 7, 16
// CHECK-LABEL: llvm.func @lamella.products
// CHECK-COUNT-80: llvm.call_intrinsic "llvm.fma"
// CHECK:      llvm.fadd
// CHECK-LABEL: llvm.func internal @mm.body
// CHECK:      [[P:%\w+]] = llvm.call @aligned_alloc
// CHECK-NOT:  llvm.x86
// CHECK:      llvm.call @lamella.copy.columns.along
// CHECK:      llvm.call @lamella.copy.rows.along
// CHECK:      llvm.call @lamella.products
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

// CHECK-LABEL: llvm.func internal @computed.body
// CHECK:      llvm.call @lamella.copy.columns.along
// CHECK:      llvm.intr.masked.load
// CHECK:      llvm.fadd
// CHECK:      llvm.call @lamella.products
loop.kernel @computed(%x0: !sym.t<[32, 60], f32>, %x1: !sym.t<[32, 60], f32>) outs(%y0: !sym.t<[32, 32], f32>) sizes [] grid [] {
  %0 = loop.scratch : !sym.t<[32, 32], f32>
  loop.for [d0 = 32, d1 = 32] attributes {matrix, split = ["r0", "r0"]} {
    %1 = loop.for [r0 = 60] reduce [add] {
      %2 = loop.load %x0[d0, r0] : !sym.t<[32, 60], f32>
      %r = arith.addf %2, %2 : f32
      %3 = loop.load %x1[d1, r0] : !sym.t<[32, 60], f32>
      %4 = arith.mulf %r, %3 : f32
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
