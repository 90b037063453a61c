// RUN: lamella-opt %s -p 'kernel-to-llvm{target=avx512}' | filecheck %s

// Scratch of a loop that is apart is added to as it lies: both vectors are read, added to and written.

// CHECK-LABEL: @sums.body
// CHECK:       [[X:%\w+]] = llvm.load {{.*}} : !llvm.ptr -> vector<16xi32>
// CHECK:       [[A:%\w+]] = llvm.load {{.*}} : !llvm.ptr -> vector<16xf32>
// CHECK-NEXT:  [[S:%\w+]] = llvm.fadd [[A]],
// CHECK:       llvm.store [[S]]
// CHECK:       [[B:%\w+]] = llvm.load {{.*}} : !llvm.ptr -> vector<16xf32>
// CHECK-NEXT:  [[T:%\w+]] = llvm.fadd [[B]],
// CHECK:       llvm.store [[T]]
loop.kernel @sums(%x: !sym.t<[64], bf16>) outs(%y: !sym.t<[64], f32>) sizes [] grid [] {
  loop.for [d0 = 64] attributes {vector = "d0", lanes = 16 : i64, unroll = 2 : i64, apart} {
    %0 = loop.load %x[d0] : !sym.t<[64], bf16>
    %1 = arith.extf %0 : bf16 to f32
    loop.store %1, %y[d0] combine add attributes {apart} : !sym.t<[64], f32>
    loop.yield
  }
  loop.end
}
