// RUN: lamella-opt %s --split-input-file -p 'loop-fuse' | filecheck %s

// A chain is one kernel; a cheap value with several readers is computed in each; the cast leaves no tensor of its own.

// CHECK:      loop.kernel @fused_{{.*}}_0(%x0: !sym.t<[8, 32], bf16>) outs(%y0: !sym.t<[8, 32], f32>, %y1: !sym.t<[8], f32>)
// CHECK:        loop.load %x0[d0, d1]
// CHECK-NEXT:   arith.extf
// CHECK-NOT:    loop.load
// CHECK:        loop.end
// CHECK-NOT:  loop.kernel
// CHECK:      func.func
func.func @main(%x: !sym.t<[8, 32], bf16>) -> (!sym.t<[8, 32], f32>, !sym.t<[8], f32>) {
  %0 = loop.nest [d0 = 8, d1 = 32] {
    %a = loop.load %x[d0, d1] : !sym.t<[8, 32], bf16>
    %b = arith.extf %a : bf16 to f32
    loop.yield %b : f32
  } : !sym.t<[8, 32], f32>
  %1 = loop.nest [d0 = 8, d1 = 32] {
    %a = loop.load %0[d0, d1] : !sym.t<[8, 32], f32>
    %b = math.exp %a : f32
    loop.yield %b : f32
  } : !sym.t<[8, 32], f32>
  %2 = loop.nest [d0 = 8] reduce [r0 = 32] combine [add] {
    %a = loop.load %0[d0, r0] : !sym.t<[8, 32], f32>
    loop.yield %a : f32
  } : !sym.t<[8], f32>
  func.return %1, %2 : !sym.t<[8, 32], f32>, !sym.t<[8], f32>
}

// -----

// An expensive value that is broadcast along the outer dim is not computed once per row.

// CHECK:      loop.kernel @{{.*}}_0(%x0: !sym.t<[4096], f32>)
// CHECK:        math.exp
// CHECK:      loop.kernel @{{.*}}_1(
// CHECK-NOT:    math.exp
// CHECK:      func.func
func.func @main(%x: !sym.t<[4096], f32>, %y: !sym.t<[4096, 4096], f32>) -> !sym.t<[4096, 4096], f32> {
  %0 = loop.nest [d0 = 4096] {
    %a = loop.load %x[d0] : !sym.t<[4096], f32>
    %b = math.exp %a : f32
    loop.yield %b : f32
  } : !sym.t<[4096], f32>
  %1 = loop.nest [d0 = 4096, d1 = 4096] {
    %a = loop.load %0[d1] : !sym.t<[4096], f32>
    %b = loop.load %y[d0, d1] : !sym.t<[4096, 4096], f32>
    %c = arith.mulf %a, %b : f32
    loop.yield %c : f32
  } : !sym.t<[4096, 4096], f32>
  func.return %1 : !sym.t<[4096, 4096], f32>
}

// -----

// A transposed reader is substituted: the index expression changes, no copy is made.

// CHECK:      loop.kernel @{{.*}} grid [d0 = 16, d1 = 4]
// CHECK-NEXT:   loop.load %x0[d1, d0]
// CHECK-NOT:  loop.kernel
// CHECK:      func.func
func.func @main(%x: !sym.t<[4, 16], f32>) -> !sym.t<[16, 4], f32> {
  %0 = loop.nest [d0 = 4, d1 = 16] {
    %a = loop.load %x[d0, d1] : !sym.t<[4, 16], f32>
    %b = math.exp %a : f32
    loop.yield %b : f32
  } : !sym.t<[4, 16], f32>
  %1 = loop.nest [d0 = 16, d1 = 4] {
    %a = loop.load %0[d1, d0] : !sym.t<[4, 16], f32>
    %b = arith.negf %a : f32
    loop.yield %b : f32
  } : !sym.t<[16, 4], f32>
  func.return %1 : !sym.t<[16, 4], f32>
}

// -----

// cat: the parts are computed under the predicates of their loads, and nothing else is.

// CHECK:      loop.kernel @{{.*}}(%x0: !sym.t<[8, 32], f32>, %x1: !sym.t<[8, 32], f32>) outs(%y0: !sym.t<[8, 64], f32>)
// CHECK-SAME: grid [d0 = 8, d1 = 64]
// CHECK-DAG:    [[P:%.*]] = loop.pred [lt(d1, 32)]
// CHECK-DAG:    [[X:%.*]] = loop.load %x0[d0, d1] mask [lt(d1, 32)]
// CHECK-DAG:    [[NEG:%.*]] = arith.negf [[X]]
// CHECK-DAG:    loop.load %x1[d0, d1 - 32] mask [ge(d1, 32)]
// CHECK:        loop.store
// CHECK-NOT:    loop.store
// CHECK:        loop.end
// CHECK-NOT:  loop.kernel
// CHECK:      func.func
func.func @main(%x: !sym.t<[8, 32], f32>, %y: !sym.t<[8, 32], f32>) -> !sym.t<[8, 64], f32> {
  %0 = loop.nest [d0 = 8, d1 = 32] {
    %a = loop.load %x[d0, d1] : !sym.t<[8, 32], f32>
    %b = arith.negf %a : f32
    loop.yield %b : f32
  } : !sym.t<[8, 32], f32>
  %1 = loop.nest [d0 = 8, d1 = 64] {
    %p = loop.pred [lt(d1, 32)]
    %a = loop.load %0[d0, d1] mask [lt(d1, 32)] : !sym.t<[8, 32], f32>
    %b = loop.load %y[d0, d1 - 32] mask [ge(d1, 32)] : !sym.t<[8, 32], f32>
    %c = arith.select %p, %a, %b : f32
    loop.yield %c : f32
  } : !sym.t<[8, 64], f32>
  func.return %1 : !sym.t<[8, 64], f32>
}

// -----

// Siblings: no value flows between them, but both read %x, which is read once.

// CHECK:      loop.kernel @{{.*}}(%x0: !sym.t<[1024, 1024], f32>) outs(%y0: {{.*}}, %y1: {{.*}})
// CHECK-COUNT-1: loop.load
// CHECK-NOT:    loop.load
// CHECK:        loop.end
// CHECK-NOT:  loop.kernel
// CHECK:      func.func
func.func @main(%x: !sym.t<[1024, 1024], f32>) -> (!sym.t<[1024, 1024], f32>, !sym.t<[1024, 1024], f32>) {
  %0 = loop.nest [d0 = 1024, d1 = 1024] {
    %a = loop.load %x[d0, d1] : !sym.t<[1024, 1024], f32>
    %b = math.sin %a : f32
    loop.yield %b : f32
  } : !sym.t<[1024, 1024], f32>
  %1 = loop.nest [d0 = 1024, d1 = 1024] {
    %a = loop.load %x[d0, d1] : !sym.t<[1024, 1024], f32>
    %b = math.cos %a : f32
    loop.yield %b : f32
  } : !sym.t<[1024, 1024], f32>
  func.return %0, %1 : !sym.t<[1024, 1024], f32>, !sym.t<[1024, 1024], f32>
}

// -----

// A gather of a computed table computes what is gathered; its index value stands in the index expression.

// CHECK:      loop.kernel @{{.*}}(%x0: !sym.t<[10], i64>, %x1: !sym.t<[100, 8], f32>) outs(%y0: !sym.t<[10, 8], f32>)
// CHECK:        [[I:%.*]] = loop.load %x0[d0]
// CHECK-NEXT:   [[A:%.*]] = loop.load %x1[v0, d1]([[I]])
// CHECK-NEXT:   math.exp [[A]]
// CHECK-NOT:  loop.kernel
// CHECK:      func.func
func.func @main(%i: !sym.t<[10], i64>, %x: !sym.t<[100, 8], f32>) -> !sym.t<[10, 8], f32> {
  %0 = loop.nest [d0 = 100, d1 = 8] {
    %a = loop.load %x[d0, d1] : !sym.t<[100, 8], f32>
    %b = math.exp %a : f32
    loop.yield %b : f32
  } : !sym.t<[100, 8], f32>
  %1 = loop.nest [d0 = 10, d1 = 8] {
    %n = loop.load %i[d0] : !sym.t<[10], i64>
    %a = loop.load %0[v0, d1](%n) : !sym.t<[100, 8], f32>
    loop.yield %a : f32
  } : !sym.t<[10, 8], f32>
  func.return %1 : !sym.t<[10, 8], f32>
}
