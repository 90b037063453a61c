// RUN: lamella-opt %s -p 'prims-to-loop' | filecheck %s --check-prefix NEST
// RUN: lamella-opt %s -p 'prims-to-loop,loop-fuse,loop-schedule' | filecheck %s --check-prefix KERNEL
// RUN: lamella-opt %s -p 'prims-to-loop,loop-fuse,loop-schedule,kernel-to-llvm{target=avx512}' | filecheck %s --check-prefix LLVM
// RUN: lamella-run %s --compare-levels --size s0=70 | filecheck %s --check-prefix LEVELS
// A row is ordered in a buffer of the kernel; what makes its elements and what reads them is in the same kernel.

// LEVELS: all levels agree

// NEST: loop.nest [d0 = 6, d1 = 4] reduce [r0 = 300] scan d1 combine [sort] {
// NEST-NEXT: loop.load %{{.*}}[d0, r0]
// NEST: loop.nest [d0 = s0, d1 = 3] reduce [r0 = s0] scan d0 combine [sort] {
// NEST-NEXT: loop.load %y[r0, d1]

// The four least of 300 need a buffer of 64 candidates.
// KERNEL: loop.kernel @[[FEW:\w+]](%x0: !sym.t<[6, 300], i64>) outs(%y0: !sym.t<[6], i64>) sizes [] grid [d0 = 6]
// KERNEL: [[ROW:%.*]] = loop.scratch : !sym.t<[136], i64>
// KERNEL: loop.for [r0 = 300] attributes {vector = "r0"
// KERNEL: [[NEG:%.*]] = arith.subi
// KERNEL: loop.sort [[NEG]] into [[ROW]] along r0 first [4] : !sym.t<[136], i64>
// KERNEL: loop.for [d1 = 4]
// KERNEL: loop.load [[ROW]][d1]
// KERNEL: loop.for [d1 = 4] reduce [add]
// KERNEL: loop.end
// All of a row whose size is a symbol: columns are not vectors here.
// KERNEL: loop.kernel @{{.*}} sizes [s0] grid [d0 = 3]
// KERNEL: loop.scratch : !sym.t<[2*s0 + 288], i32>
// KERNEL: loop.sort %{{.*}} along r0 first [s0]

// LLVM: @[[FEW:\w+]].body
// LLVM: "llvm.masked.compressstore"
// LLVM: llvm.call @lamella_sort_i64
// LLVM: llvm.call @lamella_sort_i64
// LLVM: llvm.call @lamella_sort_i32
func.func @main(%x: !sym.t<[6, 300], i64>, %y: !sym.t<[s0, 3], i32>) -> (!sym.t<[6], i64>, !sym.t<[s0, 3], i32>) {
  %0 = prims.neg %x : !sym.t<[6, 300], i64>
  %1 = prims.sort %0 {dim = 1} : !sym.t<[6, 300], i64> -> !sym.t<[6, 4], i64>
  %2 = prims.reduce %1 {kind = sum, dims = [1]} : !sym.t<[6, 4], i64> -> !sym.t<[6], i64>
  %3 = prims.sort %y {dim = 0} : !sym.t<[s0, 3], i32>
  func.return %2, %3 : !sym.t<[6], i64>, !sym.t<[s0, 3], i32>
}
