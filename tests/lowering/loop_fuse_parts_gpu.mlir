// RUN: lamella-opt %s -p 'loop-fuse{threads=528 rows=512 hold=106496 strips=0 launch=3.0 fork=0.0 op=0.25}' | filecheck %s
// RUN: lamella-opt %s -p 'loop-fuse{threads=528 rows=512 hold=106496 strips=0 launch=3.0 fork=0.0 op=4.0}' | filecheck %s --check-prefix=SLOW

// Sums in parts are there before they are used: a mask is computed for both, and not stored, unless that takes longer.

// CHECK:      loop.kernel @{{.*}}(%x0: !sym.t<[65536, 64], bf16>, %x1: !sym.t<[65536, 64], bf16>) outs(%y0: !sym.t<[{{[0-9]+}}, 64], f32>)
// CHECK:      loop.kernel @{{.*}}(%x0: !sym.t<[{{[0-9]+}}, 64], f32>) outs(%y0: !sym.t<[64], f32>)
// CHECK:      loop.kernel @{{.*}}(%x0: !sym.t<[65536, 64], bf16>, %x1: !sym.t<[65536, 64], bf16>, %x2: !sym.t<[64], f32>) outs(%y0: !sym.t<[65536, 64], bf16>)
// CHECK-NOT:  loop.kernel

// SLOW:      loop.kernel @{{.*}}(%x0: !sym.t<[{{.*}}], bf16>, %x1: !sym.t<[{{.*}}], bf16>) outs(%y0: !sym.t<[{{.*}}], bf16>)
// SLOW:      loop.kernel @{{.*}}(%x0: !sym.t<[65536, 64], bf16>) outs(%y0: !sym.t<[{{[0-9]+}}, 64], f32>)
func.func @main(%g: !sym.t<[65536, 64], bf16>, %x: !sym.t<[65536, 64], bf16>) -> !sym.t<[65536, 64], bf16> {
  %m = loop.nest [d0 = 65536, d1 = 64] {
    %0 = loop.load %g[d0, d1] : !sym.t<[65536, 64], bf16>
    %1 = loop.load %x[d0, d1] : !sym.t<[65536, 64], bf16>
    %2 = arith.constant 0.0 : bf16
    %3 = arith.cmpf ole, %1, %2 : bf16
    %4 = arith.select %3, %2, %0 : bf16
    loop.yield %4 : bf16
  } : !sym.t<[65536, 64], bf16> loc("aten.threshold_backward"("model.py":1:1))
  %s = loop.nest [d0 = 64] reduce [r0 = 65536] combine [add] {
    %0 = loop.load %m[r0, d0] : !sym.t<[65536, 64], bf16>
    %1 = arith.extf %0 : bf16 to f32
    loop.yield %1 : f32
  } : !sym.t<[64], f32> loc("aten.sum"("model.py":1:1))
  %y = loop.nest [d0 = 65536, d1 = 64] {
    %0 = loop.load %m[d0, d1] : !sym.t<[65536, 64], bf16>
    %1 = loop.load %s[d1] : !sym.t<[64], f32>
    %2 = arith.extf %0 : bf16 to f32
    %3 = arith.subf %2, %1 : f32
    %4 = arith.truncf %3 : f32 to bf16
    loop.yield %4 : bf16
  } : !sym.t<[65536, 64], bf16> loc("aten.sub"("model.py":1:1))
  func.return %y : !sym.t<[65536, 64], bf16>
}
