// RUN: lamella-opt %s --split-input-file -p 'loop-fuse' | filecheck %s

// A long sum with one result: parts of 16 K elements, then their sum, which takes the mean with it. The maximum of the
// same tensor shares the parts' loop.

// CHECK:      loop.kernel @fused_sum_max_0(%x0: !sym.t<[512, 1024], f32>) outs(%y0: !sym.t<[32], f32>, %y1: !sym.t<[32], f32>) sizes [] grid [d0 = 32]
// CHECK-NEXT:   loop.for [r0 = 16*d0 : 16*d0 + 16, r1 = 1024] reduce [add, max]
// CHECK:      loop.kernel @max_1(
// CHECK:      loop.kernel @fused_sum_mean_2(%x0: !sym.t<[32], f32>) outs(%y0: !sym.t<[], f32>)
// CHECK-NEXT:   loop.for [r0 = 32] reduce [add]
// CHECK:        arith.divf
// CHECK:      func.func
func.func @main(%x: !sym.t<[512, 1024], f32>) -> (!sym.t<[], f32>, !sym.t<[], f32>) {
  %0 = loop.nest [] reduce [r0 = 512, r1 = 1024] combine [add] {
    %a = loop.load %x[r0, r1] : !sym.t<[512, 1024], f32>
    loop.yield %a : f32
  } : !sym.t<[], f32> loc("aten.sum"("model.py":1:1))
  %1 = loop.nest [] reduce [r0 = 512, r1 = 1024] combine [max] {
    %a = loop.load %x[r0, r1] : !sym.t<[512, 1024], f32>
    loop.yield %a : f32
  } : !sym.t<[], f32> loc("aten.max"("model.py":1:1))
  %2 = loop.nest [] {
    %a = loop.load %0[] : !sym.t<[], f32>
    %n = arith.constant 524288.0 : f32
    %d = arith.divf %a, %n : f32
    loop.yield %d : f32
  } : !sym.t<[], f32> loc("aten.mean"("model.py":1:1))
  func.return %1, %2 : !sym.t<[], f32>, !sym.t<[], f32>
}

// -----

// Few columns: parts of rows, each a row of partial sums. The last part is short.

// CHECK:      loop.kernel @sum_0(%x0: !sym.t<[s0, 8], f32>) outs(%y0: !sym.t<[floordiv(s0 + 2047, 2048), 8], f32>) sizes [s0]
// CHECK-SAME:   grid [d0 = floordiv(s0 + 2047, 2048), d1 = 8]
// CHECK-NEXT:   loop.for [r0 = 2048*d0 : min(s0, 2048*d0 + 2048)] reduce [add]
// CHECK:      loop.kernel @sum_1(
// CHECK-SAME:   grid [d0 = 8]
// CHECK:      func.func
module attributes {lamella.hints = {s0 = 65536 : i64}} {
  func.func @main(%x: !sym.t<[s0, 8], f32>) -> !sym.t<[8], f32> {
    %0 = loop.nest [d0 = 8] reduce [r0 = s0] combine [add] {
      %a = loop.load %x[r0, d0] : !sym.t<[s0, 8], f32>
      loop.yield %a : f32
    } : !sym.t<[8], f32>
    func.return %0 : !sym.t<[8], f32>
  }
}

// -----

// A short sum, and one with enough results for all threads, stay whole.

// CHECK:      loop.kernel @sum_0(
// CHECK-SAME:   grid [d0 = 64]
// CHECK-NEXT:   loop.for [r0 = 4096] reduce [add]
// CHECK:      loop.kernel @sum_1(
// CHECK-SAME:   grid []
// CHECK-NEXT:   loop.for [r0 = 4096] reduce [add]
// CHECK:      func.func
func.func @main(%x: !sym.t<[64, 4096], f32>, %y: !sym.t<[4096], f32>) -> (!sym.t<[64], f32>, !sym.t<[], f32>) {
  %0 = loop.nest [d0 = 64] reduce [r0 = 4096] combine [add] {
    %a = loop.load %x[d0, r0] : !sym.t<[64, 4096], f32>
    loop.yield %a : f32
  } : !sym.t<[64], f32> loc("aten.sum"("model.py":1:1))
  %1 = loop.nest [] reduce [r0 = 4096] combine [add] {
    %a = loop.load %y[r0] : !sym.t<[4096], f32>
    loop.yield %a : f32
  } : !sym.t<[], f32> loc("aten.sum"("model.py":1:1))
  func.return %0, %1 : !sym.t<[64], f32>, !sym.t<[], f32>
}

// -----

// Variance of rows that do not fit the cache stays one pass.

// CHECK:      loop.for [r0 = 100000000] reduce [welford]
func.func @main(%x: !sym.t<[64, 100000000], f32>) -> (!sym.t<[64], f32>, !sym.t<[64], f32>) {
  %m, %v = loop.nest [d0 = 64] reduce [r0 = 100000000] combine [welford] {
    %a = loop.load %x[d0, r0] : !sym.t<[64, 100000000], f32>
    loop.yield %a : f32
  } : !sym.t<[64], f32>, !sym.t<[64], f32>
  func.return %m, %v : !sym.t<[64], f32>, !sym.t<[64], f32>
}

// -----

// The variance of a short row: its sum from the first element.

// CHECK:      loop.kernel @
// CHECK:        [[FIRST:%\w+]] = loop.load %x0[d0, 0]
// CHECK:        loop.for [r0 = 7] reduce [add]
// CHECK:          [[X:%\w+]] = loop.load %x0[d0, r0]
// CHECK:          arith.subf [[X]], [[FIRST]]
// CHECK:        arith.divf
// CHECK-NEXT:   arith.addf
// CHECK:        loop.for [r0 = 7] reduce [add]
func.func @main(%x: !sym.t<[64, 7], f32>) -> (!sym.t<[64], f32>, !sym.t<[64], f32>) {
  %0, %1 = loop.nest [d0 = 64] reduce [r0 = 7] combine [welford] {
    %a = loop.load %x[d0, r0] : !sym.t<[64, 7], f32>
    loop.yield %a : f32
  } : !sym.t<[64], f32>, !sym.t<[64], f32>
  func.return %0, %1 : !sym.t<[64], f32>, !sym.t<[64], f32>
}
