// RUN: lamella-opt %s -p 'aten-to-prims' | filecheck %s
// Arithmetic: operands are broadcast and converted first; numbers take the dtype of the value beside them.

// CHECK-LABEL: func.func @add_broadcast(
// CHECK-NEXT: [[V0:%\w+]] = prims.broadcast %y {dims = [1]} : !sym.t<[16], f32> -> !sym.t<[s0, 16], f32>
// CHECK-NEXT: [[V1:%\w+]] = prims.full {value = 2.0} : !sym.t<[s0, 16], f32>
// CHECK-NEXT: [[V2:%\w+]] = prims.fma [[V0]], [[V1]], %x : !sym.t<[s0, 16], f32>
// CHECK-NEXT: func.return [[V2]] : !sym.t<[s0, 16], f32>
func.func @add_broadcast(%x: !sym.t<[s0, 16], f32>, %y: !sym.t<[16], f32>) -> !sym.t<[s0, 16], f32> {
  %r = aten.add.Tensor(%x, %y, alpha = 2) : (!sym.t<[s0, 16], f32>, !sym.t<[16], f32>) -> !sym.t<[s0, 16], f32>
  func.return %r : !sym.t<[s0, 16], f32>
}

// FX passes Python numbers where a schema says Tensor.
// CHECK-LABEL: func.func @mul_number(
// CHECK-NEXT: [[V0:%\w+]] = prims.full {value = 0.5} : !sym.t<[s0, 16], f32>
// CHECK-NEXT: [[V1:%\w+]] = prims.mul %x, [[V0]] : !sym.t<[s0, 16], f32>
// CHECK-NEXT: func.return [[V1]] : !sym.t<[s0, 16], f32>
func.func @mul_number(%x: !sym.t<[s0, 16], f32>) -> !sym.t<[s0, 16], f32> {
  %r = aten.mul.Tensor(%x, 0.5) : (!sym.t<[s0, 16], f32>) -> !sym.t<[s0, 16], f32>
  func.return %r : !sym.t<[s0, 16], f32>
}

// bf16 is computed in f32, and rounded as eager does.
// CHECK-LABEL: func.func @add_bf16(
// CHECK-NEXT: [[V0:%\w+]] = prims.convert %x : !sym.t<[s0], bf16> -> !sym.t<[s0], f32>
// CHECK-NEXT: [[V1:%\w+]] = prims.convert %y : !sym.t<[s0], bf16> -> !sym.t<[s0], f32>
// CHECK-NEXT: [[V2:%\w+]] = prims.add [[V0]], [[V1]] : !sym.t<[s0], f32>
// CHECK-NEXT: [[V3:%\w+]] = prims.convert [[V2]] {rounding} : !sym.t<[s0], f32> -> !sym.t<[s0], bf16>
// CHECK-NEXT: func.return [[V3]] : !sym.t<[s0], bf16>
func.func @add_bf16(%x: !sym.t<[s0], bf16>, %y: !sym.t<[s0], bf16>) -> !sym.t<[s0], bf16> {
  %r = aten.add.Tensor(%x, %y) : (!sym.t<[s0], bf16>, !sym.t<[s0], bf16>) -> !sym.t<[s0], bf16>
  func.return %r : !sym.t<[s0], bf16>
}

// CHECK-LABEL: func.func @add_promotes(
// CHECK-NEXT: [[H:%\w+]] = prims.convert %i : !sym.t<[4], i64> -> !sym.t<[4], bf16>
// CHECK-NEXT: [[V0:%\w+]] = prims.convert %x : !sym.t<[4], bf16> -> !sym.t<[4], f32>
// CHECK-NEXT: [[V1:%\w+]] = prims.convert [[H]] : !sym.t<[4], bf16> -> !sym.t<[4], f32>
// CHECK-NEXT: [[V2:%\w+]] = prims.add [[V0]], [[V1]] : !sym.t<[4], f32>
// CHECK-NEXT: [[V3:%\w+]] = prims.convert [[V2]] {rounding} : !sym.t<[4], f32> -> !sym.t<[4], bf16>
// CHECK-NEXT: func.return [[V3]] : !sym.t<[4], bf16>
func.func @add_promotes(%x: !sym.t<[4], bf16>, %i: !sym.t<[4], i64>) -> !sym.t<[4], bf16> {
  %r = aten.add.Tensor(%x, %i) : (!sym.t<[4], bf16>, !sym.t<[4], i64>) -> !sym.t<[4], bf16>
  func.return %r : !sym.t<[4], bf16>
}

// CHECK-LABEL: func.func @true_division(
// CHECK-NEXT: [[V0:%\w+]] = prims.convert %x : !sym.t<[4], i64> -> !sym.t<[4], f32>
// CHECK-NEXT: [[V1:%\w+]] = prims.convert %y : !sym.t<[4], i64> -> !sym.t<[4], f32>
// CHECK-NEXT: [[V2:%\w+]] = prims.div [[V0]], [[V1]] : !sym.t<[4], f32>
// CHECK-NEXT: func.return [[V2]] : !sym.t<[4], f32>
func.func @true_division(%x: !sym.t<[4], i64>, %y: !sym.t<[4], i64>) -> !sym.t<[4], f32> {
  %r = aten.div.Tensor(%x, %y) : (!sym.t<[4], i64>, !sym.t<[4], i64>) -> !sym.t<[4], f32>
  func.return %r : !sym.t<[4], f32>
}

// CHECK-LABEL: func.func @bool_add(
// CHECK-NEXT: [[V0:%\w+]] = prims.or %x, %y : !sym.t<[4], i1>
// CHECK-NEXT: func.return [[V0]] : !sym.t<[4], i1>
func.func @bool_add(%x: !sym.t<[4], i1>, %y: !sym.t<[4], i1>) -> !sym.t<[4], i1> {
  %r = aten.add.Tensor(%x, %y) : (!sym.t<[4], i1>, !sym.t<[4], i1>) -> !sym.t<[4], i1>
  func.return %r : !sym.t<[4], i1>
}

// CHECK-LABEL: func.func @pow_2(
// CHECK-NEXT: [[V0:%\w+]] = prims.mul %x, %x : !sym.t<[s0, 16], f32>
// CHECK-NEXT: func.return [[V0]] : !sym.t<[s0, 16], f32>
func.func @pow_2(%x: !sym.t<[s0, 16], f32>) -> !sym.t<[s0, 16], f32> {
  %r = aten.pow.Tensor_Scalar(%x, 2) : (!sym.t<[s0, 16], f32>) -> !sym.t<[s0, 16], f32>
  func.return %r : !sym.t<[s0, 16], f32>
}

// CHECK-LABEL: func.func @pow_half(
// CHECK-NEXT: [[V0:%\w+]] = prims.sqrt %x : !sym.t<[s0, 16], f32>
// CHECK-NEXT: func.return [[V0]] : !sym.t<[s0, 16], f32>
func.func @pow_half(%x: !sym.t<[s0, 16], f32>) -> !sym.t<[s0, 16], f32> {
  %r = aten.pow.Tensor_Scalar(%x, 0.5) : (!sym.t<[s0, 16], f32>) -> !sym.t<[s0, 16], f32>
  func.return %r : !sym.t<[s0, 16], f32>
}

// A size is a constant whose value is its expression.
// CHECK-LABEL: func.func @size(
// CHECK-NEXT: [[V0:%\w+]] = prims.full {value = s0} : !sym.t<[s0, 16], f32>
// CHECK-NEXT: [[V1:%\w+]] = prims.mul %x, [[V0]] : !sym.t<[s0, 16], f32>
// CHECK-NEXT: func.return [[V1]] : !sym.t<[s0, 16], f32>
func.func @size(%x: !sym.t<[s0, 16], f32>) -> !sym.t<[s0, 16], f32> {
  %r = aten.mul.Tensor(%x, s0) : (!sym.t<[s0, 16], f32>) -> !sym.t<[s0, 16], f32>
  func.return %r : !sym.t<[s0, 16], f32>
}

// CHECK-LABEL: func.func @remainder(
// CHECK-NEXT: [[V0:%\w+]] = prims.full {value = 7} : !sym.t<[4], i64>
// CHECK-NEXT: [[V1:%\w+]] = prims.rem %x, [[V0]] {message = "RuntimeError: ZeroDivisionError"} : !sym.t<[4], i64>
// CHECK-NEXT: [[V2:%\w+]] = prims.full {value = 0} : !sym.t<[4], i64>
// CHECK-NEXT: [[V3:%\w+]] = prims.ne [[V1]], [[V2]] : !sym.t<[4], i64> -> !sym.t<[4], i1>
// CHECK-NEXT: [[V4:%\w+]] = prims.lt [[V1]], [[V2]] : !sym.t<[4], i64> -> !sym.t<[4], i1>
// CHECK-NEXT: [[V5:%\w+]] = prims.lt [[V0]], [[V2]] : !sym.t<[4], i64> -> !sym.t<[4], i1>
// CHECK-NEXT: [[V6:%\w+]] = prims.ne [[V4]], [[V5]] : !sym.t<[4], i1>
// CHECK-NEXT: [[V7:%\w+]] = prims.and [[V3]], [[V6]] : !sym.t<[4], i1>
// CHECK-NEXT: [[V8:%\w+]] = prims.add [[V1]], [[V0]] : !sym.t<[4], i64>
// CHECK-NEXT: [[V9:%\w+]] = prims.select [[V7]], [[V8]], [[V1]] : !sym.t<[4], i1>, !sym.t<[4], i64>, !sym.t<[4], i64> -> !sym.t<[4], i64>
// CHECK-NEXT: func.return [[V9]] : !sym.t<[4], i64>
func.func @remainder(%x: !sym.t<[4], i64>) -> !sym.t<[4], i64> {
  %r = aten.remainder.Scalar(%x, 7) : (!sym.t<[4], i64>) -> !sym.t<[4], i64>
  func.return %r : !sym.t<[4], i64>
}

// A GPU gives a result for 0.
// CHECK-LABEL: func.func @divided_on_gpu(
// CHECK-NEXT: [[R:%\w+]] = prims.div_floor %x, %y : !sym.t<[4], i64, device=cuda:0>
// CHECK-NEXT: func.return [[R]]
func.func @divided_on_gpu(%x: !sym.t<[4], i64, device=cuda:0>, %y: !sym.t<[4], i64, device=cuda:0>) -> !sym.t<[4], i64, device=cuda:0> {
  %r = aten.floor_divide(%x, %y) : (!sym.t<[4], i64, device=cuda:0>, !sym.t<[4], i64, device=cuda:0>) -> !sym.t<[4], i64, device=cuda:0>
  func.return %r : !sym.t<[4], i64, device=cuda:0>
}
