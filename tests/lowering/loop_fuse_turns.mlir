// RUN: lamella-opt %s --split-input-file -p 'loop-fuse' | filecheck %s
// RUN: lamella-opt %s --split-input-file -p 'loop-fuse{strips=0}' | filecheck %s --check-prefix=APART

// Sums of rows and of columns: the sums of columns are made in strips, whose rows one kernel takes in turn. What both
// read is computed once.

// CHECK:      loop.kernel @fused_sqrt_sum_0(%x0: !sym.t<[512, 1024], f32>, %x1: !sym.t<[512], f32>) outs(%y0: !sym.t<[512], f32>, %y1: !sym.t<[32, 1024], f32>) sizes [] grid [d0 = 32]
// CHECK:        loop.for [d2 = 1024] {
// CHECK-NEXT:     loop.store %{{.*}}, %y1[d0, d2]
// CHECK:        loop.for [d1 = 16*d0 : 16*d0 + 16] {
// CHECK-NEXT:     %[[M:.*]] = loop.load %x1[d1]
// CHECK-NEXT:     %[[S:.*]] = loop.for [d2 = 1024] reduce [add] {
// CHECK-NEXT:       loop.load %x0[d1, d2]
// CHECK-NEXT:       arith.subf
// CHECK-NEXT:       %[[R:.*]] = math.sqrt
// CHECK-NEXT:       loop.store %[[R]], %y1[d0, d2] combine add
// CHECK-NEXT:       loop.yield %[[R]]
// CHECK:          loop.store %[[S]], %y0[d1]
// CHECK:        loop.end
// CHECK:      loop.kernel @sum_1(%x0: !sym.t<[32, 1024], f32>) outs(%y0: !sym.t<[1024], f32>)
// CHECK-NOT:  loop.kernel
// CHECK:      func.func

// Without that, what both read is computed in each, and never stored.

// APART:      loop.kernel @{{.*}}(%x0: {{.*}}, %x1: {{.*}}) outs(%y0: !sym.t<[512], f32>)
// APART:        arith.subf
// APART:        loop.kernel @{{.*}}(%x0: {{.*}}, %x1: {{.*}}) outs(%y0: !sym.t<[1024], f32>)
// APART:        arith.subf
// APART-NOT:  loop.kernel
// APART:      func.func
func.func @main(%x: !sym.t<[512, 1024], f32>, %m: !sym.t<[512], f32>) -> (!sym.t<[512], f32>, !sym.t<[1024], f32>) {
  %c = loop.nest [d0 = 512, d1 = 1024] {
    %0 = loop.load %x[d0, d1] : !sym.t<[512, 1024], f32>
    %1 = loop.load %m[d0] : !sym.t<[512], f32>
    %2 = arith.subf %0, %1 : f32
    %3 = math.sqrt %2 : f32
    loop.yield %3 : f32
  } : !sym.t<[512, 1024], f32>
  %r = loop.nest [d0 = 512] reduce [r0 = 1024] combine [add] {
    %0 = loop.load %c[d0, r0] : !sym.t<[512, 1024], f32>
    loop.yield %0 : f32
  } : !sym.t<[512], f32>
  %s = loop.nest [d0 = 1024] reduce [r0 = 512] combine [add] {
    %0 = loop.load %c[r0, d0] : !sym.t<[512, 1024], f32>
    loop.yield %0 : f32
  } : !sym.t<[1024], f32>
  func.return %r, %s : !sym.t<[512], f32>, !sym.t<[1024], f32>
}

// -----

// Rows of two dims, one of unknown size; strips are cut along the other, whose last strip may be short. What is made
// of each row after its sum is added up too.

// CHECK:      loop.kernel @{{.*}} outs(%y0: !sym.t<[s0, 8, 512], f32>, %y1: !sym.t<[floordiv(s0 + 1, 2), 512], f32>)
// CHECK-SAME: grid [d0 = floordiv(s0 + 1, 2)]
// CHECK:        loop.for [d1 = 2*d0 : min(s0, 2*d0 + 2), d2 = 8] {
// CHECK-NEXT:     %[[S:.*]] = loop.for [d3 = 512] reduce [add] {
// CHECK:          loop.for [d3 = 512] {
// CHECK:            %[[Y:.*]] = arith.subf %{{.*}}, %[[S]]
// CHECK-NEXT:       loop.store %[[Y]], %y0[d1, d2, d3]
// CHECK-NEXT:       loop.store %[[Y]], %y1[d0, d3] combine add
// CHECK:      func.func
module attributes {lamella.hints = {s0 = 64 : i64}} {
  func.func @main(%x: !sym.t<[s0, 8, 512], f32>) -> (!sym.t<[s0, 8, 512], f32>, !sym.t<[512], f32>) {
    %r = loop.nest [d0 = s0, d1 = 8] reduce [r0 = 512] combine [add] {
      %0 = loop.load %x[d0, d1, r0] : !sym.t<[s0, 8, 512], f32>
      loop.yield %0 : f32
    } : !sym.t<[s0, 8], f32>
    %y = loop.nest [d0 = s0, d1 = 8, d2 = 512] {
      %0 = loop.load %x[d0, d1, d2] : !sym.t<[s0, 8, 512], f32>
      %1 = loop.load %r[d0, d1] : !sym.t<[s0, 8], f32>
      %2 = arith.subf %0, %1 : f32
      loop.yield %2 : f32
    } : !sym.t<[s0, 8, 512], f32>
    %s = loop.nest [d0 = 512] reduce [r0 = s0, r1 = 8] combine [add] {
      %0 = loop.load %y[r0, r1, d0] : !sym.t<[s0, 8, 512], f32>
      loop.yield %0 : f32
    } : !sym.t<[512], f32>
    func.return %y, %s : !sym.t<[s0, 8, 512], f32>, !sym.t<[512], f32>
  }
}

// -----

// Sums of rows that need the finished sums of columns cannot be made with them.

// CHECK:      loop.kernel @{{.*}} outs(%y0: !sym.t<[1024], f32>)
// CHECK-NEXT:   loop.for [r0 = 512] reduce [add]
// CHECK:      func.func
func.func @main(%x: !sym.t<[512, 1024], f32>) -> (!sym.t<[512, 1024], f32>, !sym.t<[512], f32>) {
  %s = loop.nest [d0 = 1024] reduce [r0 = 512] combine [add] {
    %0 = loop.load %x[r0, d0] : !sym.t<[512, 1024], f32>
    loop.yield %0 : f32
  } : !sym.t<[1024], f32>
  %y = loop.nest [d0 = 512, d1 = 1024] {
    %0 = loop.load %x[d0, d1] : !sym.t<[512, 1024], f32>
    %1 = loop.load %s[d1] : !sym.t<[1024], f32>
    %2 = arith.subf %0, %1 : f32
    loop.yield %2 : f32
  } : !sym.t<[512, 1024], f32>
  %r = loop.nest [d0 = 512] reduce [r0 = 1024] combine [add] {
    %0 = loop.load %y[d0, r0] : !sym.t<[512, 1024], f32>
    loop.yield %0 : f32
  } : !sym.t<[512], f32>
  func.return %y, %r : !sym.t<[512, 1024], f32>, !sym.t<[512], f32>
}

// -----

// Sums of halves, which are not made in memory, stay as they were.

// CHECK:      loop.kernel @{{.*}} outs(%y0: !sym.t<[1024], bf16>)
// CHECK-SAME: grid [d0 = 1024]
// CHECK:      func.func
func.func @main(%x: !sym.t<[512, 1024], bf16>) -> (!sym.t<[512], bf16>, !sym.t<[1024], bf16>) {
  %r = loop.nest [d0 = 512] reduce [r0 = 1024] combine [add] {
    %0 = loop.load %x[d0, r0] : !sym.t<[512, 1024], bf16>
    loop.yield %0 : bf16
  } : !sym.t<[512], bf16>
  %s = loop.nest [d0 = 1024] reduce [r0 = 512] combine [add] {
    %0 = loop.load %x[r0, d0] : !sym.t<[512, 1024], bf16>
    loop.yield %0 : bf16
  } : !sym.t<[1024], bf16>
  func.return %r, %s : !sym.t<[512], bf16>, !sym.t<[1024], bf16>
}

// -----

// Nothing is reduced along the rows, but what is summed is computed for something else too, which is stored: one kernel
// takes the rows in turn, and what is summed is not stored.

// CHECK:      loop.kernel @{{.*}}(%x0: !sym.t<[512, 1024], bf16>) outs(%y0: !sym.t<[512, 1024], bf16>, %y1: !sym.t<[32, 1024], f32>) sizes [] grid [d0 = 32]
// CHECK:        loop.for [d1 = 16*d0 : 16*d0 + 16] {
// CHECK-NEXT:     loop.for [d2 = 1024] {
// CHECK:            %[[E:.*]] = math.erf
// CHECK-DAG:        arith.truncf %[[E]]
// CHECK-DAG:        loop.store %[[E]], %y1[d0, d2] combine add
// CHECK:      loop.kernel @{{.*}}(%x0: !sym.t<[32, 1024], f32>) outs(%y0: !sym.t<[1024], f32>)
// CHECK-NOT:  loop.kernel
// CHECK:      func.func

// APART:      loop.kernel @{{.*}} outs(%y0: !sym.t<[512, 1024], f32>, %y1: !sym.t<[512, 1024], bf16>)
// APART:      loop.kernel @{{.*}} outs(%y0: !sym.t<[1024], f32>)
// APART:      func.func
func.func @main(%x: !sym.t<[512, 1024], bf16>) -> (!sym.t<[512, 1024], bf16>, !sym.t<[1024], f32>) {
  %e = loop.nest [d0 = 512, d1 = 1024] {
    %0 = loop.load %x[d0, d1] : !sym.t<[512, 1024], bf16>
    %1 = arith.extf %0 : bf16 to f32
    %2 = math.erf %1 : f32
    loop.yield %2 : f32
  } : !sym.t<[512, 1024], f32>
  %y = loop.nest [d0 = 512, d1 = 1024] {
    %0 = loop.load %e[d0, d1] : !sym.t<[512, 1024], f32>
    %1 = arith.truncf %0 : f32 to bf16
    loop.yield %1 : bf16
  } : !sym.t<[512, 1024], bf16>
  %s = loop.nest [d0 = 1024] reduce [r0 = 512] combine [add] {
    %0 = loop.load %e[r0, d0] : !sym.t<[512, 1024], f32>
    loop.yield %0 : f32
  } : !sym.t<[1024], f32>
  func.return %y, %s : !sym.t<[512, 1024], bf16>, !sym.t<[1024], f32>
}

// -----

// What is summed is an argument, of which something is stored that needs the sum: in no strips.

// CHECK:      loop.kernel @{{.*}} outs(%y0: !sym.t<[1024], f32>)
// CHECK:      loop.kernel @{{.*}} outs(%y0: !sym.t<[512, 1024], f32>)
// CHECK-NOT:  loop.kernel
// CHECK:      func.func
func.func @main(%x: !sym.t<[512, 1024], bf16>) -> !sym.t<[512, 1024], f32> {
  %e = loop.nest [d0 = 512, d1 = 1024] {
    %0 = loop.load %x[d0, d1] : !sym.t<[512, 1024], bf16>
    %1 = arith.extf %0 : bf16 to f32
    loop.yield %1 : f32
  } : !sym.t<[512, 1024], f32>
  %s = loop.nest [d0 = 1024] reduce [r0 = 512] combine [add] {
    %0 = loop.load %e[r0, d0] : !sym.t<[512, 1024], f32>
    loop.yield %0 : f32
  } : !sym.t<[1024], f32>
  %y = loop.nest [d0 = 512, d1 = 1024] {
    %0 = loop.load %e[d0, d1] : !sym.t<[512, 1024], f32>
    %1 = loop.load %s[d1] : !sym.t<[1024], f32>
    %2 = arith.subf %0, %1 : f32
    loop.yield %2 : f32
  } : !sym.t<[512, 1024], f32>
  func.return %y : !sym.t<[512, 1024], f32>
}

// -----

// What is stored is a factor of what is summed, each element of which is read for many results: in no strips.

// CHECK:      loop.kernel @{{.*}} outs(%y0: !sym.t<[512, 1024], f32>)
// CHECK:      loop.kernel @{{.*}} outs(%y0: !sym.t<[64, 1024], f32>)
// CHECK-NOT:  loop.kernel
// CHECK:      func.func
func.func @main(%x: !sym.t<[512, 1024], f32>, %w: !sym.t<[64, 512], f32>) -> (!sym.t<[512, 1024], f32>, !sym.t<[64, 1024], f32>) {
  %e = loop.nest [d0 = 512, d1 = 1024] {
    %0 = loop.load %x[d0, d1] : !sym.t<[512, 1024], f32>
    %1 = math.erf %0 : f32
    loop.yield %1 : f32
  } : !sym.t<[512, 1024], f32>
  %s = loop.nest [d0 = 64, d1 = 1024] reduce [r0 = 512] combine [add] {
    %0 = loop.load %e[r0, d1] : !sym.t<[512, 1024], f32>
    %1 = loop.load %w[d0, r0] : !sym.t<[64, 512], f32>
    %2 = arith.subf %0, %1 : f32
    %3 = math.absf %2 : f32
    loop.yield %3 : f32
  } : !sym.t<[64, 1024], f32>
  func.return %e, %s : !sym.t<[512, 1024], f32>, !sym.t<[64, 1024], f32>
}

// -----

// What is summed and stored is computed beside a product of matrices, in its tiles: in no strips.

// CHECK:      loop.kernel @{{.*}} outs(%y0: !sym.t<[512, 1024], f32>)
// CHECK-NOT:  outs(%y0: !sym.t<[32, 1024], f32>)
// CHECK:      loop.kernel @{{.*}} outs(%y0: !sym.t<[1024], f32>)
// CHECK-NOT:  loop.kernel
// CHECK:      func.func
func.func @main(%x: !sym.t<[512, 64], f32>, %w: !sym.t<[64, 1024], f32>) -> (!sym.t<[512, 1024], f32>, !sym.t<[1024], f32>) {
  %p = loop.nest [d0 = 512, d1 = 1024] reduce [r0 = 64] combine [add] {
    %0 = loop.load %x[d0, r0] : !sym.t<[512, 64], f32>
    %1 = loop.load %w[r0, d1] : !sym.t<[64, 1024], f32>
    %2 = arith.mulf %0, %1 : f32
    loop.yield %2 : f32
  } : !sym.t<[512, 1024], f32>
  %e = loop.nest [d0 = 512, d1 = 1024] {
    %0 = loop.load %p[d0, d1] : !sym.t<[512, 1024], f32>
    %1 = math.erf %0 : f32
    loop.yield %1 : f32
  } : !sym.t<[512, 1024], f32>
  %s = loop.nest [d0 = 1024] reduce [r0 = 512] combine [add] {
    %0 = loop.load %e[r0, d0] : !sym.t<[512, 1024], f32>
    loop.yield %0 : f32
  } : !sym.t<[1024], f32>
  func.return %e, %s : !sym.t<[512, 1024], f32>, !sym.t<[1024], f32>
}
