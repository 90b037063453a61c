// RUN: lamella-opt %s --split-input-file -p 'loop-fuse{threads=2 l2=1048576 l3=33554432 runs=1}' | filecheck %s

// Where each thread should read rows as they lie, sums of columns are made in parts of rows, as many for each thread.

// CHECK:      loop.kernel @sum_0(%x0: !sym.t<[4096, 1024], f32>) outs(%y0: !sym.t<[8, 1024], f32>)
// CHECK-SAME:   grid [d0 = 8, d1 = 1024]
// CHECK-NEXT:   loop.for [r0 = 512*d0 : 512*d0 + 512] reduce [add]
// CHECK:      loop.kernel @sum_1(
// CHECK-SAME:   grid [d0 = 1024]
// CHECK-NEXT:   loop.for [r0 = 8] reduce [add]
func.func @main(%x: !sym.t<[4096, 1024], f32>) -> !sym.t<[1024], f32> {
  %0 = loop.nest [d0 = 1024] reduce [r0 = 4096] combine [add] {
    %a = loop.load %x[r0, d0] : !sym.t<[4096, 1024], f32>
    loop.yield %a : f32
  } : !sym.t<[1024], f32> loc("aten.sum"("model.py":1:1))
  func.return %0 : !sym.t<[1024], f32>
}

// -----

// Of rows that are few parts are shorter, and of so many as it is told the last one.

// CHECK:      grid [d0 = floordiv(s0 + 63, 64), d1 = 16384]
// CHECK-NEXT:   loop.for [r0 = 64*d0 : min(s0, 64*d0 + 64)] reduce [add]
module attributes {lamella.hints = {s0 = 1000 : i64}} {
  func.func @main(%x: !sym.t<[s0, 16384], f32>) -> !sym.t<[16384], f32> {
    %0 = loop.nest [d0 = 16384] reduce [r0 = s0] combine [add] {
      %a = loop.load %x[r0, d0] : !sym.t<[s0, 16384], f32>
      loop.yield %a : f32
    } : !sym.t<[16384], f32>
    func.return %0 : !sym.t<[16384], f32>
  }
}

// -----

// Not where columns are near, nor of halves that the last cache holds, nor where there are sums enough beside them.

// CHECK:      loop.kernel @sum_0(
// CHECK-SAME:   grid [d0 = 1024]
// CHECK-NEXT:   loop.for [r0 = 1000] reduce [add]
// CHECK:      loop.kernel @sum_1(
// CHECK-SAME:   grid [d0 = 1024]
// CHECK-NEXT:   loop.for [r0 = 4096] reduce [add]
// CHECK:      loop.kernel @sum_2(
// CHECK-SAME:   grid [d0 = 8, d1 = 1024]
// CHECK-NEXT:   loop.for [r0 = 1000] reduce [add]
// CHECK:      func.func
func.func @main(%near: !sym.t<[1000, 1024], f32>, %halves: !sym.t<[4096, 1024], bf16>, %many: !sym.t<[8, 1000, 1024], f32>)
    -> (!sym.t<[1024], f32>, !sym.t<[1024], f32>, !sym.t<[8, 1024], f32>) {
  %0 = loop.nest [d0 = 1024] reduce [r0 = 1000] combine [add] {
    %a = loop.load %near[r0, d0] : !sym.t<[1000, 1024], f32>
    loop.yield %a : f32
  } : !sym.t<[1024], f32>
  %1 = loop.nest [d0 = 1024] reduce [r0 = 4096] combine [add] {
    %a = loop.load %halves[r0, d0] : !sym.t<[4096, 1024], bf16>
    %b = arith.extf %a : bf16 to f32
    loop.yield %b : f32
  } : !sym.t<[1024], f32>
  %2 = loop.nest [d0 = 8, d1 = 1024] reduce [r0 = 1000] combine [add] {
    %a = loop.load %many[d0, r0, d1] : !sym.t<[8, 1000, 1024], f32>
    loop.yield %a : f32
  } : !sym.t<[8, 1024], f32>
  func.return %0, %1, %2 : !sym.t<[1024], f32>, !sym.t<[1024], f32>, !sym.t<[8, 1024], f32>
}

// -----

// Nor where a second pass finds columns at hand.

// CHECK:      loop.kernel @var_0(
// CHECK-SAME:   grid [d0 = 1024]
// CHECK-NEXT:   loop.for [r0 = 4096] reduce [add]
// CHECK:        loop.for [r0 = 4096] reduce [add
// CHECK:      func.func
func.func @main(%x: !sym.t<[4096, 1024], f32>) -> (!sym.t<[1024], f32>, !sym.t<[1024], f32>) {
  %0, %1 = loop.nest [d0 = 1024] reduce [r0 = 4096] combine [welford] {
    %a = loop.load %x[r0, d0] : !sym.t<[4096, 1024], f32>
    loop.yield %a : f32
  } : !sym.t<[1024], f32>, !sym.t<[1024], f32> loc("aten.var"("model.py":1:1))
  func.return %0, %1 : !sym.t<[1024], f32>, !sym.t<[1024], f32>
}

// -----

// Maxima are read from first to last row: strips add up.

// CHECK:      loop.kernel @amax_0(
// CHECK-SAME:   grid [d0 = 1024]
// CHECK-NEXT:   loop.for [r0 = 4096] reduce [max]
// CHECK:      func.func
func.func @main(%x: !sym.t<[4096, 1024], f32>) -> !sym.t<[1024], f32> {
  %0 = loop.nest [d0 = 1024] reduce [r0 = 4096] combine [max] {
    %a = loop.load %x[r0, d0] : !sym.t<[4096, 1024], f32>
    loop.yield %a : f32
  } : !sym.t<[1024], f32> loc("aten.amax"("model.py":1:1))
  func.return %0 : !sym.t<[1024], f32>
}
