// RUN: lamella-opt %s --split-input-file -p 'loop-fuse' | filecheck %s

// Softmax: three loops of one kernel; exp is expensive, so its row is kept.

// CHECK:      loop.kernel @softmax_0(%x0: !sym.t<[s0, 1024], f32>) outs(%y0: !sym.t<[s0, 1024], f32>) sizes [s0] grid [d0 = s0]
// CHECK-NEXT:   [[ROW:%.*]] = loop.scratch : !sym.t<[1024], f32>
// CHECK-NEXT:   [[MAX:%.*]] = loop.for [d1 = 1024] reduce [max] {
// CHECK:        [[SUM:%.*]] = loop.for [d1 = 1024] reduce [add] {
// CHECK:          [[E:%.*]] = math.exp
// CHECK-NEXT:     loop.store [[E]], [[ROW]][d1]
// CHECK-NEXT:     loop.yield [[E]]
// CHECK:        loop.for [d1 = 1024] {
// CHECK-NEXT:     [[A:%.*]] = loop.load [[ROW]][d1]
// CHECK-NEXT:     [[Q:%.*]] = arith.divf [[A]], [[SUM]]
// CHECK-NEXT:     loop.store [[Q]], %y0[d0, d1]
// CHECK:        loop.end
// CHECK-NOT:  loop.kernel
// CHECK:      func.func
// CHECK:      %q = loop.launch @softmax_0(%x) sizes [s3]
func.func @main(%x: !sym.t<[s3, 1024], f32>) -> !sym.t<[s3, 1024], f32> {
  %m = loop.nest [d0 = s3] reduce [r0 = 1024] combine [max] {
    %0 = loop.load %x[d0, r0] : !sym.t<[s3, 1024], f32>
    loop.yield %0 : f32
  } : !sym.t<[s3], f32> loc("aten.softmax.int"("model.py":1:1))
  %e = loop.nest [d0 = s3, d1 = 1024] {
    %0 = loop.load %x[d0, d1] : !sym.t<[s3, 1024], f32>
    %1 = loop.load %m[d0] : !sym.t<[s3], f32>
    %2 = arith.subf %0, %1 : f32
    %3 = math.exp %2 : f32
    loop.yield %3 : f32
  } : !sym.t<[s3, 1024], f32> loc("aten.softmax.int"("model.py":1:1))
  %s = loop.nest [d0 = s3] reduce [r0 = 1024] combine [add] {
    %0 = loop.load %e[d0, r0] : !sym.t<[s3, 1024], f32>
    loop.yield %0 : f32
  } : !sym.t<[s3], f32> loc("aten.softmax.int"("model.py":1:1))
  %q = loop.nest [d0 = s3, d1 = 1024] {
    %0 = loop.load %e[d0, d1] : !sym.t<[s3, 1024], f32>
    %1 = loop.load %s[d0] : !sym.t<[s3], f32>
    %2 = arith.divf %0, %1 : f32
    loop.yield %2 : f32
  } : !sym.t<[s3, 1024], f32> loc("aten.softmax.int"("model.py":1:1))
  func.return %q : !sym.t<[s3, 1024], f32>
}

// -----

// Residual and layer norm: the sum leaves, so later loops read it back; the variance takes two passes, of which the
// second mends the mean of a long row; what belongs to the row is computed once.

// CHECK:      loop.kernel @fused_add_layer_norm_0(
// CHECK-SAME:   grid [d0 = s0]
// CHECK:        [[SUM:%.*]] = loop.for [d1 = 768] reduce [add] {
// CHECK:          loop.store [[Y:%.*]], %y0[d0, d1]
// CHECK-NEXT:     loop.yield [[Y]]
// CHECK:        [[ABOUT:%.*]] = arith.divf [[SUM]], [[N:%.*]] :
// CHECK:        [[REST:%.*]], [[SQUARES:%.*]] = loop.for [d1 = 768] reduce [add, add] {
// CHECK-NEXT:     [[A:%.*]] = loop.load %y0[d0, d1]
// CHECK-NEXT:     [[B:%.*]] = arith.subf [[A]], [[ABOUT]]
// CHECK-NEXT:     [[C:%.*]] = arith.mulf [[B]], [[B]]
// CHECK-NEXT:     loop.yield [[B]], [[C]]
// CHECK:        [[OFF:%.*]] = arith.divf [[REST]], [[N]]
// CHECK-NEXT:   [[MEAN:%.*]] = arith.addf [[ABOUT]], [[OFF]]
// CHECK-NEXT:   [[MORE:%.*]] = arith.mulf [[REST]], [[OFF]]
// CHECK-NEXT:   [[TAKEN:%.*]] = arith.minimumf [[MORE]]
// CHECK-NEXT:   [[LEFT:%.*]] = arith.subf [[SQUARES]], [[TAKEN]]
// CHECK-NEXT:   [[M2:%.*]] = arith.maximumf [[LEFT]]
// CHECK-NEXT:   arith.divf [[M2]]
// CHECK:        math.rsqrt
// CHECK-NEXT:   loop.for [d1 = 768] {
// CHECK-NEXT:     [[X:%.*]] = loop.load %y0[d0, d1]
// CHECK:          arith.subf [[X]], [[MEAN]]
// CHECK-NOT:    math
// CHECK:        loop.end
// CHECK-NOT:  loop.kernel
// CHECK:      func.func
// CHECK:      %y, %o = loop.launch @fused_add_layer_norm_0(%x, %r, %w)
func.func @main(%x: !sym.t<[s0, 768], f32>, %r: !sym.t<[s0, 768], f32>, %w: !sym.t<[768], f32>) -> (!sym.t<[s0, 768], f32>, !sym.t<[s0, 768], f32>) {
  %y = loop.nest [d0 = s0, d1 = 768] {
    %0 = loop.load %x[d0, d1] : !sym.t<[s0, 768], f32>
    %1 = loop.load %r[d0, d1] : !sym.t<[s0, 768], f32>
    %2 = arith.addf %0, %1 : f32
    loop.yield %2 : f32
  } : !sym.t<[s0, 768], f32> loc("aten.add.Tensor"("model.py":1:1))
  %m, %v = loop.nest [d0 = s0] reduce [r0 = 768] combine [welford] {
    %0 = loop.load %y[d0, r0] : !sym.t<[s0, 768], f32>
    loop.yield %0 : f32
  } : !sym.t<[s0], f32>, !sym.t<[s0], f32> loc("aten.native_layer_norm"("model.py":1:1))
  %q = loop.nest [d0 = s0] {
    %0 = loop.load %v[d0] : !sym.t<[s0], f32>
    %c = arith.constant 768.0 : f32
    %1 = arith.divf %0, %c : f32
    %3 = math.rsqrt %1 : f32
    loop.yield %3 : f32
  } : !sym.t<[s0], f32> loc("aten.native_layer_norm"("model.py":1:1))
  %o = loop.nest [d0 = s0, d1 = 768] {
    %0 = loop.load %y[d0, d1] : !sym.t<[s0, 768], f32>
    %1 = loop.load %m[d0] : !sym.t<[s0], f32>
    %2 = loop.load %q[d0] : !sym.t<[s0], f32>
    %3 = loop.load %w[d1] : !sym.t<[768], f32>
    %5 = arith.subf %0, %1 : f32
    %6 = arith.mulf %5, %2 : f32
    %7 = arith.mulf %6, %3 : f32
    loop.yield %7 : f32
  } : !sym.t<[s0, 768], f32> loc("aten.native_layer_norm"("model.py":1:1))
  func.return %y, %o : !sym.t<[s0, 768], f32>, !sym.t<[s0, 768], f32>
}

// -----

// argmax and max of one row share its loop.

// CHECK:      loop.for [r0 = 100] reduce [max, argmax]
// CHECK-NOT:  loop.for
// CHECK:      loop.end
func.func @main(%x: !sym.t<[64, 100], f32>) -> (!sym.t<[64], f32>, !sym.t<[64], i64>) {
  %0 = loop.nest [d0 = 64] reduce [r0 = 100] combine [max] {
    %a = loop.load %x[d0, r0] : !sym.t<[64, 100], f32>
    loop.yield %a : f32
  } : !sym.t<[64], f32>
  %1 = loop.nest [d0 = 64] reduce [r0 = 100] combine [argmax] {
    %a = loop.load %x[d0, r0] : !sym.t<[64, 100], f32>
    loop.yield %a : f32
  } : !sym.t<[64], i64>
  func.return %0, %1 : !sym.t<[64], f32>, !sym.t<[64], i64>
}

// -----

// What is taken from the squares is finite in each dtype.

// CHECK-LABEL: loop.kernel @var_mean_0(
// CHECK:       arith.constant 3.389530e+38 : bf16
// CHECK:       arith.minimumf
func.func @main(%x: !sym.t<[s0, 768], bf16>) -> (!sym.t<[s0], bf16>, !sym.t<[s0], bf16>) {
  %m, %v = loop.nest [d0 = s0] reduce [r0 = 768] combine [welford] {
    %0 = loop.load %x[d0, r0] : !sym.t<[s0, 768], bf16>
    loop.yield %0 : bf16
  } : !sym.t<[s0], bf16>, !sym.t<[s0], bf16> loc("aten.var_mean.correction"("model.py":1:1))
  func.return %m, %v : !sym.t<[s0], bf16>, !sym.t<[s0], bf16>
}
