// RUN: lamella-opt %s -p 'prims-to-loop' --split-input-file | filecheck %s

// A reduction keeps the other dims; views fold into its load.

func.func @main(%x: !sym.t<[s0, 12, 64], f32>) -> !sym.t<[12], f32> {
  %0 = prims.transpose %x {perm = [1, 0, 2]} : !sym.t<[s0, 12, 64], f32> -> !sym.t<[12, s0, 64], f32, strides=[64, 768, 1]>
  %1 = prims.reduce %0 {kind = sum, dims = [1, 2]} : !sym.t<[12, s0, 64], f32, strides=[64, 768, 1]> -> !sym.t<[12], f32>
  func.return %1 : !sym.t<[12], f32>
}
// CHECK: loop.nest [d0 = 12] reduce [r0 = s0, r1 = 64] combine [add] {
// CHECK-NEXT: %[[X:.*]] = loop.load %x[r0, d0, r1]
// CHECK-NEXT: loop.yield %[[X]] : f32
// CHECK-NEXT: } : !sym.t<[12], f32>

// -----
// Unsigned integers are compared as signed ones with the sign flipped.

func.func @main(%x: !sym.t<[8, 4], u8>) -> (!sym.t<[8], u8>, !sym.t<[8], i64>) {
  %0 = prims.reduce %x {kind = max, dims = [1]} : !sym.t<[8, 4], u8> -> !sym.t<[8], u8>
  %1 = prims.reduce %x {kind = argmin, dims = [1]} : !sym.t<[8, 4], u8> -> !sym.t<[8], i64>
  func.return %0, %1 : !sym.t<[8], u8>, !sym.t<[8], i64>
}
// CHECK: %[[M:.*]] = loop.nest [d0 = 8] reduce [r0 = 4] combine [max] {
// CHECK: arith.constant -128 : i8
// CHECK-NEXT: arith.xori
// CHECK: loop.nest [d0 = 8] {
// CHECK-NEXT: loop.load %[[M]][d0]
// CHECK: arith.xori
// CHECK: loop.nest [d0 = 8] reduce [r0 = 4] combine [argmin] {
// CHECK: arith.xori
// CHECK: } : !sym.t<[8], i64>

// -----

func.func @main(%x: !sym.t<[s0, 768], f32>) -> (!sym.t<[s0], f32>, !sym.t<[s0], f32>) {
  %m, %v = prims.var_mean %x {dims = [1]} : !sym.t<[s0, 768], f32> -> !sym.t<[s0], f32>, !sym.t<[s0], f32>
  func.return %m, %v : !sym.t<[s0], f32>, !sym.t<[s0], f32>
}
// CHECK: %[[MEAN:.*]], %[[M2:.*]] = loop.nest [d0 = s0] reduce [r0 = 768] combine [welford] {
// CHECK: %[[VAR:.*]] = loop.nest [d0 = s0] {
// CHECK-DAG: %[[N:.*]] = arith.constant 7.680000e+02 : f32
// CHECK-DAG: %[[X:.*]] = loop.load %[[M2]][d0]
// CHECK: arith.divf %[[X]], %[[N]] : f32
// CHECK: func.return %[[MEAN]], %[[VAR]]

// -----
// A scan runs along a dim of the domain.

func.func @main(%x: !sym.t<[s0, 64], i64>) -> !sym.t<[s0, 64], i64> {
  %0 = prims.scan %x {kind = sum, dim = 1} : !sym.t<[s0, 64], i64>
  func.return %0 : !sym.t<[s0, 64], i64>
}
// CHECK: loop.nest [d0 = s0, d1 = 64] scan d1 combine [add] {

// -----
// Reshape into a reduction: the dims of the reduction are split.

func.func @main(%a: !sym.t<[s0, 4, 8], f32>) -> !sym.t<[s0], i64> {
  %x = prims.exp %a : !sym.t<[s0, 4, 8], f32>
  %0 = prims.reshape %x : !sym.t<[s0, 4, 8], f32> -> !sym.t<[s0, 32], f32>
  %1 = prims.reduce %0 {kind = argmax, dims = [1]} : !sym.t<[s0, 32], f32> -> !sym.t<[s0], i64>
  func.return %1 : !sym.t<[s0], i64>
}
// CHECK: loop.nest [d0 = s0] reduce [r0 = 4, r1 = 8] combine [argmax] {
// CHECK-NEXT: loop.load %{{.*}}[d0, r0, r1]
