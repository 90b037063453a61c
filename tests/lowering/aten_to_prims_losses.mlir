// RUN: lamella-opt %s -p 'aten-to-prims' | filecheck %s
// Losses.

// CHECK-LABEL: func.func @mse(
// CHECK-NEXT: [[V0:%\w+]] = prims.sub %x, %y : !sym.t<[s0, 16], f32>
// CHECK-NEXT: [[V1:%\w+]] = prims.mul [[V0]], [[V0]] : !sym.t<[s0, 16], f32>
// CHECK-NEXT: [[V2:%\w+]] = prims.reduce [[V1]] {kind = sum, dims = [0, 1]} : !sym.t<[s0, 16], f32> -> !sym.t<[], f32>
// CHECK-NEXT: [[V3:%\w+]] = prims.full {value = 16*s0} : !sym.t<[], f32>
// CHECK-NEXT: [[V4:%\w+]] = prims.div [[V2]], [[V3]] : !sym.t<[], f32>
// CHECK-NEXT: func.return [[V4]] : !sym.t<[], f32>
func.func @mse(%x: !sym.t<[s0, 16], f32>, %y: !sym.t<[s0, 16], f32>) -> !sym.t<[], f32> {
  %r = aten.mse_loss(%x, %y) : (!sym.t<[s0, 16], f32>, !sym.t<[s0, 16], f32>) -> !sym.t<[], f32>
  func.return %r : !sym.t<[], f32>
}

// CHECK-LABEL: func.func @nll(
// CHECK-NEXT: [[V0:%\w+]] = prims.full {value = -100} : !sym.t<[s0], i64>
// CHECK-NEXT: [[V1:%\w+]] = prims.ne %t, [[V0]] : !sym.t<[s0], i64> -> !sym.t<[s0], i1>
// CHECK-NEXT: [[V2:%\w+]] = prims.full {value = 0} : !sym.t<[s0], i64>
// CHECK-NEXT: [[V3:%\w+]] = prims.select [[V1]], %t, [[V2]] : !sym.t<[s0], i1>, !sym.t<[s0], i64>, !sym.t<[s0], i64> -> !sym.t<[s0], i64>
// CHECK-NEXT: [[V4:%\w+]] = prims.gather %x{{\[}}[[V3]]{{\]}} {index = [d0, i0], message = "Target is out of bounds"} : !sym.t<[s0, 10], f32>, !sym.t<[s0], i64> -> !sym.t<[s0], f32>
// CHECK-NEXT: [[V5:%\w+]] = prims.full {value = 1.0} : !sym.t<[s0], f32>
// CHECK-NEXT: [[V6:%\w+]] = prims.full {value = 0.0} : !sym.t<[s0], f32>
// CHECK-NEXT: [[V7:%\w+]] = prims.select [[V1]], [[V5]], [[V6]] : !sym.t<[s0], i1>, !sym.t<[s0], f32>, !sym.t<[s0], f32> -> !sym.t<[s0], f32>
// CHECK-NEXT: [[V8:%\w+]] = prims.select [[V1]], [[V4]], [[V6]] : !sym.t<[s0], i1>, !sym.t<[s0], f32>, !sym.t<[s0], f32> -> !sym.t<[s0], f32>
// CHECK-NEXT: [[V9:%\w+]] = prims.mul [[V8]], [[V7]] : !sym.t<[s0], f32>
// CHECK-NEXT: [[V10:%\w+]] = prims.neg [[V9]] : !sym.t<[s0], f32>
// CHECK-NEXT: [[V11:%\w+]] = prims.reduce [[V10]] {kind = sum, dims = [0]} : !sym.t<[s0], f32> -> !sym.t<[], f32>
// CHECK-NEXT: [[V12:%\w+]] = prims.reduce [[V7]] {kind = sum, dims = [0]} : !sym.t<[s0], f32> -> !sym.t<[], f32>
// CHECK-NEXT: func.return [[V11]] : !sym.t<[], f32>
func.func @nll(%x: !sym.t<[s0, 10], f32>, %t: !sym.t<[s0], i64>) -> !sym.t<[], f32> {
  %r, %w = aten.nll_loss_forward(%x, %t, none, 2, -100) : (!sym.t<[s0, 10], f32>, !sym.t<[s0], i64>) -> (!sym.t<[], f32>, !sym.t<[], f32>)
  func.return %r : !sym.t<[], f32>
}
