// RUN: lamella-opt %s -p 'kernel-to-llvm{target=avx512}' | filecheck %s
// RUN: lamella-opt %s -p 'kernel-to-llvm{target=avx512}' | filecheck %s --check-prefix ASK

// Two blocks of halves lie in one line of each row: they are exchanged side by side, and each asks for half of the lines.

// CHECK:          llvm.func internal @k.body
// CHECK-COUNT-32: llvm.load {{.*}} -> vector<16xi16>
// CHECK-NOT:      llvm.load {{.*}} -> vector<16xi16>
// ASK:            llvm.func internal @k.body
// ASK-COUNT-16:   llvm.call_intrinsic "llvm.prefetch"
// ASK-NOT:        llvm.call_intrinsic "llvm.prefetch"
loop.kernel @k(%x: !sym.t<[512, 64], bf16>) outs(%y: !sym.t<[64, 512], bf16>) sizes [] grid [b0 = 4] {
  %t = loop.scratch : !sym.t<[64, 128], bf16>
  loop.for [d0 = 128*b0 : 128*b0 + 128, d1 = 64] attributes {transpose = 16 : i64} {
    %1 = loop.load %x[d0, d1] attributes {level = 2 : i64, prefetch = 16384 : i64} : !sym.t<[512, 64], bf16>
    loop.store %1, %t[d1, -128*b0 + d0] : !sym.t<[64, 128], bf16>
    loop.yield
  }
  loop.for [d1 = 64, d0 = 128*b0 : 128*b0 + 128] {
    %1 = loop.load %t[d1, -128*b0 + d0] : !sym.t<[64, 128], bf16>
    loop.store %1, %y[d1, d0] : !sym.t<[64, 512], bf16>
    loop.yield
  }
  loop.end
}
