// RUN: lamella-opt %s -p share-kernels | filecheck %s
// What is checked: kernels that read other elements of a tensor become one, which takes as sizes the places that differ.

// CHECK: loop.kernel @noise_0(%x: !sym.t<[8, 4], f32>, %seeds: !sym.t<[5], i64>) outs(%y: !sym.t<[8, 4], f32>) sizes [s0] grid
// The first element is the same for all.
// CHECK: loop.load %seeds[0]
// CHECK: loop.load %seeds[s0]
loop.kernel @noise_0(%x: !sym.t<[8, 4], f32>, %seeds: !sym.t<[5], i64>) outs(%y: !sym.t<[8, 4], f32>) sizes [] grid [d0 = 8, d1 = 4] {
  %0 = loop.load %seeds[0] : !sym.t<[5], i64>
  %1 = loop.load %seeds[1] : !sym.t<[5], i64>
  %2 = arith.addi %0, %1 : i64
  %3 = arith.sitofp %2 : i64 to f32
  %4 = loop.load %x[d0, d1] : !sym.t<[8, 4], f32>
  %5 = arith.mulf %3, %4 : f32
  loop.store %5, %y[d0, d1] : !sym.t<[8, 4], f32>
  loop.end
}
// CHECK-NOT: @noise_1
loop.kernel @noise_1(%x: !sym.t<[8, 4], f32>, %seeds: !sym.t<[5], i64>) outs(%y: !sym.t<[8, 4], f32>) sizes [] grid [d0 = 8, d1 = 4] {
  %0 = loop.load %seeds[0] : !sym.t<[5], i64>
  %1 = loop.load %seeds[3] : !sym.t<[5], i64>
  %2 = arith.addi %0, %1 : i64
  %3 = arith.sitofp %2 : i64 to f32
  %4 = loop.load %x[d0, d1] : !sym.t<[8, 4], f32>
  %5 = arith.mulf %3, %4 : f32
  loop.store %5, %y[d0, d1] : !sym.t<[8, 4], f32>
  loop.end
}
// One element twice is not two elements, and another body is another kernel.
// CHECK: loop.kernel @twice_2({{.*}} sizes [] grid
// CHECK: loop.load %seeds[4]
loop.kernel @twice_2(%x: !sym.t<[8, 4], f32>, %seeds: !sym.t<[5], i64>) outs(%y: !sym.t<[8, 4], f32>) sizes [] grid [d0 = 8, d1 = 4] {
  %0 = loop.load %seeds[4] : !sym.t<[5], i64>
  %1 = loop.load %seeds[4] : !sym.t<[5], i64>
  %2 = arith.addi %0, %1 : i64
  %3 = arith.sitofp %2 : i64 to f32
  %4 = loop.load %x[d0, d1] : !sym.t<[8, 4], f32>
  %5 = arith.mulf %3, %4 : f32
  loop.store %5, %y[d0, d1] : !sym.t<[8, 4], f32>
  loop.end
}
// CHECK: loop.kernel @other_3({{.*}} sizes [] grid
loop.kernel @other_3(%x: !sym.t<[8, 4], f32>, %seeds: !sym.t<[5], i64>) outs(%y: !sym.t<[8, 4], f32>) sizes [] grid [d0 = 8, d1 = 4] {
  %0 = loop.load %seeds[0] : !sym.t<[5], i64>
  %1 = loop.load %seeds[2] : !sym.t<[5], i64>
  %2 = arith.muli %0, %1 : i64
  %3 = arith.sitofp %2 : i64 to f32
  %4 = loop.load %x[d0, d1] : !sym.t<[8, 4], f32>
  %5 = arith.mulf %3, %4 : f32
  loop.store %5, %y[d0, d1] : !sym.t<[8, 4], f32>
  loop.end
}
// Sizes that a kernel has stay its first ones.
// CHECK: loop.kernel @rows_4(%x: !sym.t<[s0, 4], f32>, %seeds: !sym.t<[5], i64>) outs(%y: !sym.t<[s0, 4], f32>) sizes [s0, s1] grid
// CHECK: loop.load %seeds[s1]
loop.kernel @rows_4(%x: !sym.t<[s0, 4], f32>, %seeds: !sym.t<[5], i64>) outs(%y: !sym.t<[s0, 4], f32>) sizes [s0] grid [d0 = s0, d1 = 4] {
  %1 = loop.load %seeds[1] : !sym.t<[5], i64>
  %3 = arith.sitofp %1 : i64 to f32
  %4 = loop.load %x[d0, d1] : !sym.t<[s0, 4], f32>
  %5 = arith.mulf %3, %4 : f32
  loop.store %5, %y[d0, d1] : !sym.t<[s0, 4], f32>
  loop.end
}
// CHECK-NOT: @rows_5
loop.kernel @rows_5(%x: !sym.t<[s0, 4], f32>, %seeds: !sym.t<[5], i64>) outs(%y: !sym.t<[s0, 4], f32>) sizes [s0] grid [d0 = s0, d1 = 4] {
  %1 = loop.load %seeds[2] : !sym.t<[5], i64>
  %3 = arith.sitofp %1 : i64 to f32
  %4 = loop.load %x[d0, d1] : !sym.t<[s0, 4], f32>
  %5 = arith.mulf %3, %4 : f32
  loop.store %5, %y[d0, d1] : !sym.t<[s0, 4], f32>
  loop.end
}
// CHECK: func.func @main
// CHECK: loop.launch @noise_0(%x, %seeds) sizes [1]
// CHECK: loop.launch @noise_0({{.*}}, %seeds) sizes [3]
// CHECK: loop.launch @twice_2({{.*}}) sizes []
// CHECK: loop.launch @other_3({{.*}}) sizes []
// CHECK: loop.launch @rows_4(%z, %seeds) sizes [s3, 1]
// CHECK: loop.launch @rows_4({{.*}}, %seeds) sizes [s3, 2]
func.func @main(%x: !sym.t<[8, 4], f32>, %seeds: !sym.t<[5], i64>, %z: !sym.t<[s3, 4], f32>) -> (!sym.t<[8, 4], f32>, !sym.t<[s3, 4], f32>) {
  %0 = loop.launch @noise_0(%x, %seeds) sizes [] : (!sym.t<[8, 4], f32>, !sym.t<[5], i64>) -> !sym.t<[8, 4], f32>
  %1 = loop.launch @noise_1(%0, %seeds) sizes [] : (!sym.t<[8, 4], f32>, !sym.t<[5], i64>) -> !sym.t<[8, 4], f32>
  %2 = loop.launch @twice_2(%1, %seeds) sizes [] : (!sym.t<[8, 4], f32>, !sym.t<[5], i64>) -> !sym.t<[8, 4], f32>
  %3 = loop.launch @other_3(%2, %seeds) sizes [] : (!sym.t<[8, 4], f32>, !sym.t<[5], i64>) -> !sym.t<[8, 4], f32>
  %4 = loop.launch @rows_4(%z, %seeds) sizes [s3] : (!sym.t<[s3, 4], f32>, !sym.t<[5], i64>) -> !sym.t<[s3, 4], f32>
  %5 = loop.launch @rows_5(%4, %seeds) sizes [s3] : (!sym.t<[s3, 4], f32>, !sym.t<[5], i64>) -> !sym.t<[s3, 4], f32>
  func.return %3, %5 : !sym.t<[8, 4], f32>, !sym.t<[s3, 4], f32>
}
