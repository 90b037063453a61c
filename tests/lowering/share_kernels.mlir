// RUN: lamella-opt %s -p share-kernels{l2=65536} | filecheck %s
// What is checked: kernels that differ in the length of their only dim become one; what else they may not differ in.

// What decisions say of a kernel is about the one that it became now.
// CHECK: lamella.decisions = ["@other_5: kept apart from @double_0: another reason"]
builtin.module attributes {lamella.decisions = ["@double_1: kept apart from @double_0: so many of them", "@other_5: kept apart from @double_1: another reason"]} {
// The shapes are one dim in memory; lengths are multiples of 16.
// CHECK: loop.kernel @double_0(%x: !sym.t<[16*s0], f32>, %z: !sym.t<[], f32>) outs(%y: !sym.t<[16*s0], f32>) sizes [s0] grid [d0 = 16*s0] attributes {bytes = #loop.index<[128*s0 + 4]>
// CHECK: loop.load %x[d0] : !sym.t<[16*s0], f32>
// CHECK: loop.store %{{.*}}, %y[d0] : !sym.t<[16*s0], f32>
loop.kernel @double_0(%x: !sym.t<[8, 4], f32>, %z: !sym.t<[], f32>) outs(%y: !sym.t<[8, 4], f32>) sizes [] grid [d0 = 8, d1 = 4] {
  %0 = loop.load %x[d0, d1] : !sym.t<[8, 4], f32>
  %1 = loop.load %z[] : !sym.t<[], f32>
  %2 = arith.mulf %0, %1 : f32
  loop.store %2, %y[d0, d1] : !sym.t<[8, 4], f32>
  loop.end
}
// CHECK-NOT: @double_1
loop.kernel @double_1(%x: !sym.t<[64], f32>, %z: !sym.t<[], f32>) outs(%y: !sym.t<[64], f32>) sizes [] grid [d0 = 64] {
  %0 = loop.load %x[d0] : !sym.t<[64], f32>
  %1 = loop.load %z[] : !sym.t<[], f32>
  %2 = arith.mulf %0, %1 : f32
  loop.store %2, %y[d0] : !sym.t<[64], f32>
  loop.end
}
// Other lengths than multiples of 16: a kernel of their own.
// CHECK: loop.kernel @odd_2(%x: !sym.t<[s0], f32>, %z: !sym.t<[], f32>) outs(%y: !sym.t<[s0], f32>) sizes [s0] grid [d0 = s0]
loop.kernel @odd_2(%x: !sym.t<[7], f32>, %z: !sym.t<[], f32>) outs(%y: !sym.t<[7], f32>) sizes [] grid [d0 = 7] {
  %0 = loop.load %x[d0] : !sym.t<[7], f32>
  %1 = loop.load %z[] : !sym.t<[], f32>
  %2 = arith.mulf %0, %1 : f32
  loop.store %2, %y[d0] : !sym.t<[7], f32>
  loop.end
}
loop.kernel @odd_3(%x: !sym.t<[9], f32>, %z: !sym.t<[], f32>) outs(%y: !sym.t<[9], f32>) sizes [] grid [d0 = 9] {
  %0 = loop.load %x[d0] : !sym.t<[9], f32>
  %1 = loop.load %z[] : !sym.t<[], f32>
  %2 = arith.mulf %0, %1 : f32
  loop.store %2, %y[d0] : !sym.t<[9], f32>
  loop.end
}
// Alone in what no second-level cache holds.
// CHECK: loop.kernel @large_4(%x: !sym.t<[16384], f32>
loop.kernel @large_4(%x: !sym.t<[16384], f32>, %z: !sym.t<[], f32>) outs(%y: !sym.t<[16384], f32>) sizes [] grid [d0 = 16384] {
  %0 = loop.load %x[d0] : !sym.t<[16384], f32>
  %1 = loop.load %z[] : !sym.t<[], f32>
  %2 = arith.mulf %0, %1 : f32
  loop.store %2, %y[d0] : !sym.t<[16384], f32>
  loop.end
}
// A row of factors, elements backwards, another dtype, another body: not the same.
// CHECK: loop.kernel @other_5(%x: !sym.t<[8, 4], f32>, %z: !sym.t<[4], f32>
loop.kernel @other_5(%x: !sym.t<[8, 4], f32>, %z: !sym.t<[4], f32>) outs(%y: !sym.t<[8, 4], f32>) sizes [] grid [d0 = 8, d1 = 4] {
  %0 = loop.load %x[d0, d1] : !sym.t<[8, 4], f32>
  %1 = loop.load %z[d1] : !sym.t<[4], f32>
  %2 = arith.mulf %0, %1 : f32
  loop.store %2, %y[d0, d1] : !sym.t<[8, 4], f32>
  loop.end
}
// CHECK: loop.kernel @back_6(%x: !sym.t<[32], f32>
loop.kernel @back_6(%x: !sym.t<[32], f32>, %z: !sym.t<[], f32>) outs(%y: !sym.t<[32], f32>) sizes [] grid [d0 = 32] {
  %0 = loop.load %x[31 - d0] : !sym.t<[32], f32>
  %1 = loop.load %z[] : !sym.t<[], f32>
  %2 = arith.mulf %0, %1 : f32
  loop.store %2, %y[d0] : !sym.t<[32], f32>
  loop.end
}
// CHECK: loop.kernel @double_7(%x: !sym.t<[32], f64>
loop.kernel @double_7(%x: !sym.t<[32], f64>, %z: !sym.t<[], f64>) outs(%y: !sym.t<[32], f64>) sizes [] grid [d0 = 32] {
  %0 = loop.load %x[d0] : !sym.t<[32], f64>
  %1 = loop.load %z[] : !sym.t<[], f64>
  %2 = arith.mulf %0, %1 : f64
  loop.store %2, %y[d0] : !sym.t<[32], f64>
  loop.end
}
// CHECK: loop.launch @double_0(%a, %z) sizes [2] :
// CHECK-NEXT: loop.launch @double_0(%b, %z) sizes [4] :
// CHECK-NEXT: loop.launch @odd_2(%c, %z) sizes [7] :
// CHECK-NEXT: loop.launch @odd_2(%d, %z) sizes [9] :
func.func @main(%a: !sym.t<[8, 4], f32>, %b: !sym.t<[64], f32>, %c: !sym.t<[7], f32>, %d: !sym.t<[9], f32>, %z: !sym.t<[], f32>) {
  %0 = loop.launch @double_0(%a, %z) sizes [] : (!sym.t<[8, 4], f32>, !sym.t<[], f32>) -> !sym.t<[8, 4], f32>
  %1 = loop.launch @double_1(%b, %z) sizes [] : (!sym.t<[64], f32>, !sym.t<[], f32>) -> !sym.t<[64], f32>
  %2 = loop.launch @odd_2(%c, %z) sizes [] : (!sym.t<[7], f32>, !sym.t<[], f32>) -> !sym.t<[7], f32>
  %3 = loop.launch @odd_3(%d, %z) sizes [] : (!sym.t<[9], f32>, !sym.t<[], f32>) -> !sym.t<[9], f32>
  func.return
}
}
