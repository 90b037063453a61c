// RUN: lamella-opt %s -p 'kernel-to-llvm{target=avx512}' | filecheck %s

// Two points at once: the loops of both in turns, with scratch of their own. One that is left over is made alone.

// CHECK-LABEL: @k.body
// CHECK-DAG:  [[S:%\w+]] = llvm.alloca {{.*}} x i8
// CHECK-DAG:  [[T:%\w+]] = llvm.alloca {{.*}} x i8
// CHECK:      llvm.call_intrinsic "llvm.vector.reduce.fadd"
// CHECK:      llvm.call_intrinsic "llvm.vector.reduce.fadd"
// CHECK:      llvm.fdiv
// CHECK:      llvm.fdiv
// CHECK:      llvm.call_intrinsic "llvm.vector.reduce.fadd"
// CHECK:      llvm.fdiv
// CHECK-NOT:  llvm.fdiv
loop.kernel @k(%x: !sym.t<[s0, 64], f32>) outs(%y: !sym.t<[s0, 64], f32>) sizes [s0] grid [d0 = s0] attributes {sides = 2 : i64} {
  %t = loop.scratch : !sym.t<[64], f32>
  %s = loop.for [d1 = 64] reduce [add] attributes {vector = "d1", lanes = 16 : i64, unroll = 1 : i64} {
    %1 = loop.load %x[d0, d1] : !sym.t<[s0, 64], f32>
    loop.store %1, %t[d1] : !sym.t<[64], f32>
    loop.yield %1 : f32
  } : f32
  loop.for [d1 = 64] attributes {vector = "d1", lanes = 16 : i64, unroll = 1 : i64} {
    %1 = loop.load %t[d1] : !sym.t<[64], f32>
    %2 = arith.divf %1, %s : f32
    loop.store %2, %y[d0, d1] : !sym.t<[s0, 64], f32>
    loop.yield
  }
  loop.end
}
