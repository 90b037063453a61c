// RUN: lamella-opt %s -p 'prims-to-loop' --split-input-file | filecheck %s

// An elementwise op is one nest; the column of the table is that of the dtype.

func.func @main(%x: !sym.t<[s0, 16], f32>, %y: !sym.t<[s0, 16], f32>) -> !sym.t<[s0, 16], f32> {
  %0 = prims.mul %x, %y : !sym.t<[s0, 16], f32>
  func.return %0 : !sym.t<[s0, 16], f32>
}
// CHECK-LABEL: func.func @main
// CHECK-NEXT: %[[R:.*]] = loop.nest [d0 = s0, d1 = 16] {
// CHECK-NEXT:   %[[X:.*]] = loop.load %x[d0, d1] : !sym.t<[s0, 16], f32>
// CHECK-NEXT:   %[[Y:.*]] = loop.load %y[d0, d1] : !sym.t<[s0, 16], f32>
// CHECK-NEXT:   %[[V:.*]] = arith.mulf %[[X]], %[[Y]] : f32
// CHECK-NEXT:   loop.yield %[[V]] : f32
// CHECK-NEXT: } : !sym.t<[s0, 16], f32>
// CHECK-NEXT: func.return %[[R]]

// -----
// An operand that stands twice is loaded once.

func.func @main(%x: !sym.t<[8], f64>) -> !sym.t<[8], f64> {
  %0 = prims.mul %x, %x : !sym.t<[8], f64>
  func.return %0 : !sym.t<[8], f64>
}
// CHECK: %[[X:.*]] = loop.load %x[d0]
// CHECK-NEXT: arith.mulf %[[X]], %[[X]] : f64

// -----
// Unsigned integers: signless scalars, unsigned ops.

func.func @main(%x: !sym.t<[8], u8>, %y: !sym.t<[8], u8>) -> (!sym.t<[8], i1>, !sym.t<[8], u8>) {
  %0 = prims.lt %x, %y : !sym.t<[8], u8> -> !sym.t<[8], i1>
  %1 = prims.div_floor %x, %y : !sym.t<[8], u8>
  func.return %0, %1 : !sym.t<[8], i1>, !sym.t<[8], u8>
}
// CHECK: arith.cmpi ult, %{{.*}}, %{{.*}} : i8
// CHECK: } : !sym.t<[8], i1>
// CHECK: arith.divui %{{.*}}, %{{.*}} : i8
// CHECK: } : !sym.t<[8], u8>

// -----
// Constants of any shape stand in the body.

func.func @main(%x: !sym.t<[s0], i32>) -> !sym.t<[s0], i32> {
  %c = prims.full {value = 7} : !sym.t<[s0], i32>
  %0 = prims.add %x, %c : !sym.t<[s0], i32>
  func.return %0 : !sym.t<[s0], i32>
}
// CHECK: %[[C:.*]] = arith.constant 7 : i32
// CHECK: arith.addi %{{.*}}, %[[C]] : i32

// -----
// Symbolic constants and positions are index expressions, converted.

func.func @main(%x: !sym.t<[s0], f32>) -> !sym.t<[s0], f32> {
  %n = prims.full {value = 2*s0} : !sym.t<[s0], f32>
  %i = prims.iota {dim = 0} : !sym.t<[s0], f32>
  %0 = prims.div %i, %n : !sym.t<[s0], f32>
  func.return %0 : !sym.t<[s0], f32>
}
// CHECK: %[[I:.*]] = loop.index [d0]
// CHECK-NEXT: %[[A:.*]] = arith.sitofp %[[I]] : i64 to f32
// CHECK-NEXT: %[[N:.*]] = loop.index [2*s0]
// CHECK-NEXT: %[[B:.*]] = arith.sitofp %[[N]] : i64 to f32
// CHECK-NEXT: arith.divf %[[A]], %[[B]] : f32

// -----
// Halves convert by way of f32, as eager does.

func.func @main(%x: !sym.t<[8], f64>) -> !sym.t<[8], bf16> {
  %0 = prims.convert %x : !sym.t<[8], f64> -> !sym.t<[8], bf16>
  func.return %0 : !sym.t<[8], bf16>
}
// CHECK: %[[F:.*]] = arith.truncf %{{.*}} : f64 to f32
// CHECK-NEXT: arith.truncf %[[F]] : f32 to bf16

// -----
// What every operand repeats along a dim is computed once.

func.func @main(%m: !sym.t<[s0], f32>, %x: !sym.t<[s0, 64], f32>) -> !sym.t<[s0, 64], f32> {
  %eps = prims.full {value = 0.5} : !sym.t<[s0, 64], f32>
  %b = prims.broadcast %m {dims = [0]} : !sym.t<[s0], f32> -> !sym.t<[s0, 64], f32>
  %0 = prims.add %b, %eps : !sym.t<[s0, 64], f32>
  %1 = prims.rsqrt %0 : !sym.t<[s0, 64], f32>
  %2 = prims.mul %x, %1 : !sym.t<[s0, 64], f32>
  func.return %2 : !sym.t<[s0, 64], f32>
}
// CHECK: %[[A:.*]] = loop.nest [d0 = s0] {
// CHECK: arith.addf
// CHECK: %[[R:.*]] = loop.nest [d0 = s0] {
// CHECK-NEXT: loop.load %[[A]][d0] : !sym.t<[s0], f32>
// CHECK-NEXT: math.rsqrt
// CHECK: loop.nest [d0 = s0, d1 = 64] {
// CHECK: loop.load %[[R]][d0] : !sym.t<[s0], f32>

// A divisor that may be 0 is compared before it divides.
// CHECK-LABEL: func.func @divided(
// CHECK:      [[ZERO:%\w+]] = arith.constant 0 : i64
// CHECK-NEXT: [[OK:%\w+]] = arith.cmpi ne, [[Y:%\w+]], [[ZERO]] : i64
// CHECK-NEXT: loop.assert [[OK]], "RuntimeError: ZeroDivisionError"
// CHECK-NEXT: arith.remsi {{%\w+}}, [[Y]] : i64
func.func @divided(%x: !sym.t<[s0], i64>, %y: !sym.t<[s0], i64>) -> !sym.t<[s0], i64> {
  %r = prims.rem %x, %y {message = "RuntimeError: ZeroDivisionError"} : !sym.t<[s0], i64>
  func.return %r : !sym.t<[s0], i64>
}

// CHECK-LABEL: func.func @checked(
// CHECK:      [[C:%\w+]] = loop.load {{.*}} i1>
// CHECK-NEXT: [[X:%\w+]] = loop.load {{.*}} f32>
// CHECK-NEXT: loop.assert [[C]], "no"
// CHECK-NEXT: loop.yield [[X]]
func.func @checked(%c: !sym.t<[s0], i1>, %x: !sym.t<[s0], f32>) -> !sym.t<[s0], f32> {
  %r = prims.checked %c, %x {message = "no"} : !sym.t<[s0], i1>, !sym.t<[s0], f32> -> !sym.t<[s0], f32>
  func.return %r : !sym.t<[s0], f32>
}
