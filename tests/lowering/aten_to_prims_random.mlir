// RUN: lamella-opt %s -p 'aten-to-prims' | filecheck %s
// RUN: lamella-opt %s -p 'aten-to-prims{random=eager}' | filecheck %s --check-prefix EAGER
// Random numbers are bits of a counter, the element's place, under a key that torch's generator gives.

// CHECK-LABEL: func.func @bernoulli(
// CHECK-NEXT: [[SEED:%\w+]] = aten.randint.low(-9223372036854775808, 9223372036854775807, [], device = "cpu") : () -> !sym.t<[], i64>
// CHECK-NEXT: [[KEY:%\w+]] = prims.broadcast [[SEED]] {dims = []} : !sym.t<[], i64> -> !sym.t<[s0, 4], i64>
// CHECK-NEXT: [[I:%\w+]] = prims.iota {dim = 0} : !sym.t<[4*s0], i64>
// CHECK-NEXT: [[COUNTER:%\w+]] = prims.reshape [[I]] : !sym.t<[4*s0], i64> -> !sym.t<[s0, 4], i64>
// CHECK-NEXT: [[WORD:%\w+]] = prims.philox32 [[KEY]], [[COUNTER]] : !sym.t<[s0, 4], i64>
// CHECK-NEXT: [[BITS:%\w+]] = prims.convert [[WORD]] : !sym.t<[s0, 4], i64> -> !sym.t<[s0, 4], i32>
// CHECK-NEXT: [[LIMIT:%\w+]] = prims.full {value = -1073741824} : !sym.t<[s0, 4], i32>
// CHECK-NEXT: [[COIN:%\w+]] = prims.lt [[BITS]], [[LIMIT]] : !sym.t<[s0, 4], i32> -> !sym.t<[s0, 4], i1>
// CHECK-NEXT: [[R:%\w+]] = prims.convert [[COIN]] : !sym.t<[s0, 4], i1> -> !sym.t<[s0, 4], f32>
// CHECK-NEXT: func.return [[R]]
// EAGER-LABEL: func.func @bernoulli(
// EAGER-NEXT: aten.bernoulli.p(%x, 0.25)
func.func @bernoulli(%x: !sym.t<[s0, 4], f32>) -> !sym.t<[s0, 4], f32> {
  %r = aten.bernoulli.p(%x, 0.25) : (!sym.t<[s0, 4], f32>) -> !sym.t<[s0, 4], f32>
  func.return %r : !sym.t<[s0, 4], f32>
}

// A function draws its seeds in one call.
// CHECK-LABEL: func.func @twice(
// CHECK-NEXT: [[SEEDS:%\w+]] = aten.randint.low({{.*}}, [2], device = "cpu") : () -> !sym.t<[2], i64>
// CHECK-NEXT: [[FIRST:%\w+]] = prims.slice [[SEEDS]] {start = [0], stop = [1], step = [1]} : !sym.t<[2], i64> -> !sym.t<[1], i64>
// CHECK-NEXT: [[KEY:%\w+]] = prims.reshape [[FIRST]] : !sym.t<[1], i64> -> !sym.t<[], i64>
// CHECK: [[BITS:%\w+]] = prims.philox32
// CHECK-NEXT: [[LOW:%\w+]] = prims.convert [[BITS]] : !sym.t<[8], i64> -> !sym.t<[8], i32>
// CHECK: [[DIGITS:%\w+]] = prims.shr [[LOW]]
// CHECK-NEXT: [[SIGNED:%\w+]] = prims.convert [[DIGITS]] : !sym.t<[8], i32> -> !sym.t<[8], f32>
// CHECK: prims.mul [[SIGNED]]
// CHECK: prims.slice [[SEEDS]] {start = [1], stop = [2], step = [1]}
// CHECK-NOT: aten.
func.func @twice() -> (!sym.t<[8], f32>, !sym.t<[8], f32>) {
  %a = aten.rand([8]) : () -> !sym.t<[8], f32>
  %b = aten.rand([8]) : () -> !sym.t<[8], f32>
  func.return %a, %b : !sym.t<[8], f32>, !sym.t<[8], f32>
}

// A range that 32 random bits do not fill is ATen's.
// CHECK-LABEL: func.func @wide(
// CHECK-NEXT: aten.randint.low(0, 1099511627776, [8])
func.func @wide() -> !sym.t<[8], i64> {
  %a = aten.randint.low(0, 1099511627776, [8]) : () -> !sym.t<[8], i64>
  func.return %a : !sym.t<[8], i64>
}

// Of a tensor that another one is made like, on another device, nothing but its sizes is read.
// CHECK-LABEL: func.func @elsewhere(
// CHECK-NOT: aten.randn_like
// CHECK-NOT: aten.full_like
// CHECK: prims.philox
// CHECK: func.return
func.func @elsewhere(%x: !sym.t<[s0], c64>) -> (!sym.t<[s0], c64, device=cuda:0>, !sym.t<[s0], f32, device=cuda:0>) {
  %y = aten.randn_like(%x, device = "cuda:0") : (!sym.t<[s0], c64>) -> !sym.t<[s0], c64, device=cuda:0>
  %z = aten.full_like(%x, 2.0, dtype = f32, device = "cuda:0") : (!sym.t<[s0], c64>) -> !sym.t<[s0], f32, device=cuda:0>
  func.return %y, %z : !sym.t<[s0], c64, device=cuda:0>, !sym.t<[s0], f32, device=cuda:0>
}
