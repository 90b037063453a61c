// RUN: lamella-opt %s -p 'aten-to-prims' | filecheck %s
// Activation functions with ATen's constants and order of operations.

// CHECK-LABEL: func.func @relu(
// CHECK-NEXT: [[V0:%\w+]] = prims.full {value = 0.0} : !sym.t<[s0, 16], f32>
// CHECK-NEXT: [[LOW:%\w+]] = prims.lt %x, [[V0]] : !sym.t<[s0, 16], f32> -> !sym.t<[s0, 16], i1>
// CHECK-NEXT: [[V1:%\w+]] = prims.select [[LOW]], [[V0]], %x : !sym.t<[s0, 16], i1>, !sym.t<[s0, 16], f32>, !sym.t<[s0, 16], f32> -> !sym.t<[s0, 16], f32>
// CHECK-NEXT: func.return [[V1]] : !sym.t<[s0, 16], f32>
func.func @relu(%x: !sym.t<[s0, 16], f32>) -> !sym.t<[s0, 16], f32> {
  %r = aten.relu(%x) : (!sym.t<[s0, 16], f32>) -> !sym.t<[s0, 16], f32>
  func.return %r : !sym.t<[s0, 16], f32>
}

// CHECK-LABEL: func.func @silu(
// CHECK-NEXT: [[V0:%\w+]] = prims.neg %x : !sym.t<[s0, 16], f32>
// CHECK-NEXT: [[V1:%\w+]] = prims.exp [[V0]] : !sym.t<[s0, 16], f32>
// CHECK-NEXT: [[V2:%\w+]] = prims.full {value = 1.0} : !sym.t<[s0, 16], f32>
// CHECK-NEXT: [[V3:%\w+]] = prims.add [[V1]], [[V2]] : !sym.t<[s0, 16], f32>
// CHECK-NEXT: [[V4:%\w+]] = prims.div %x, [[V3]] : !sym.t<[s0, 16], f32>
// CHECK-NEXT: func.return [[V4]] : !sym.t<[s0, 16], f32>
func.func @silu(%x: !sym.t<[s0, 16], f32>) -> !sym.t<[s0, 16], f32> {
  %r = aten.silu(%x) : (!sym.t<[s0, 16], f32>) -> !sym.t<[s0, 16], f32>
  func.return %r : !sym.t<[s0, 16], f32>
}

// CHECK-LABEL: func.func @gelu(
// CHECK-NEXT: [[V0:%\w+]] = prims.full {value = 0.5} : !sym.t<[s0, 16], f32>
// CHECK-NEXT: [[V1:%\w+]] = prims.mul %x, [[V0]] : !sym.t<[s0, 16], f32>
// CHECK-NEXT: [[V2:%\w+]] = prims.full {value = 0.7071067811865476} : !sym.t<[s0, 16], f32>
// CHECK-NEXT: [[V3:%\w+]] = prims.mul %x, [[V2]] : !sym.t<[s0, 16], f32>
// CHECK-NEXT: [[V4:%\w+]] = prims.erf [[V3]] : !sym.t<[s0, 16], f32>
// CHECK-NEXT: [[V5:%\w+]] = prims.full {value = 1.0} : !sym.t<[s0, 16], f32>
// CHECK-NEXT: [[V6:%\w+]] = prims.add [[V4]], [[V5]] : !sym.t<[s0, 16], f32>
// CHECK-NEXT: [[V7:%\w+]] = prims.mul [[V1]], [[V6]] : !sym.t<[s0, 16], f32>
// CHECK-NEXT: func.return [[V7]] : !sym.t<[s0, 16], f32>
func.func @gelu(%x: !sym.t<[s0, 16], f32>) -> !sym.t<[s0, 16], f32> {
  %r = aten.gelu(%x) : (!sym.t<[s0, 16], f32>) -> !sym.t<[s0, 16], f32>
  func.return %r : !sym.t<[s0, 16], f32>
}

// CHECK-LABEL: func.func @gelu_tanh(
// CHECK-NEXT: [[V0:%\w+]] = prims.full {value = 0.5} : !sym.t<[s0, 16], f32>
// CHECK-NEXT: [[V1:%\w+]] = prims.mul %x, [[V0]] : !sym.t<[s0, 16], f32>
// CHECK-NEXT: [[V2:%\w+]] = prims.mul %x, %x : !sym.t<[s0, 16], f32>
// CHECK-NEXT: [[V3:%\w+]] = prims.mul [[V2]], %x : !sym.t<[s0, 16], f32>
// CHECK-NEXT: [[V4:%\w+]] = prims.full {value = 0.044715} : !sym.t<[s0, 16], f32>
// CHECK-NEXT: [[V5:%\w+]] = prims.mul [[V3]], [[V4]] : !sym.t<[s0, 16], f32>
// CHECK-NEXT: [[V6:%\w+]] = prims.add %x, [[V5]] : !sym.t<[s0, 16], f32>
// CHECK-NEXT: [[V7:%\w+]] = prims.full {value = 0.7978845608028654} : !sym.t<[s0, 16], f32>
// CHECK-NEXT: [[V8:%\w+]] = prims.mul [[V6]], [[V7]] : !sym.t<[s0, 16], f32>
// CHECK-NEXT: [[V9:%\w+]] = prims.tanh [[V8]] : !sym.t<[s0, 16], f32>
// CHECK-NEXT: [[V10:%\w+]] = prims.full {value = 1.0} : !sym.t<[s0, 16], f32>
// CHECK-NEXT: [[V11:%\w+]] = prims.add [[V9]], [[V10]] : !sym.t<[s0, 16], f32>
// CHECK-NEXT: [[V12:%\w+]] = prims.mul [[V1]], [[V11]] : !sym.t<[s0, 16], f32>
// CHECK-NEXT: func.return [[V12]] : !sym.t<[s0, 16], f32>
func.func @gelu_tanh(%x: !sym.t<[s0, 16], f32>) -> !sym.t<[s0, 16], f32> {
  %r = aten.gelu(%x, approximate = "tanh") : (!sym.t<[s0, 16], f32>) -> !sym.t<[s0, 16], f32>
  func.return %r : !sym.t<[s0, 16], f32>
}

// Outside of training, x itself.
// CHECK-LABEL: func.func @dropout_eval(
// CHECK-NEXT: func.return %x : !sym.t<[s0, 16], f32>
func.func @dropout_eval(%x: !sym.t<[s0, 16], f32>) -> !sym.t<[s0, 16], f32> {
  %r = aten.dropout(%x, 0.1, false) : (!sym.t<[s0, 16], f32>) -> !sym.t<[s0, 16], f32>
  func.return %r : !sym.t<[s0, 16], f32>
}

// Random: stays a call.
// CHECK-LABEL: func.func @dropout_train(
// CHECK-NEXT: [[R:%\w+]] = aten.dropout(%x, 0.1, true) : (!sym.t<[s0, 16], f32>) -> !sym.t<[s0, 16], f32>
// CHECK-NEXT: func.return [[R]] : !sym.t<[s0, 16], f32>
func.func @dropout_train(%x: !sym.t<[s0, 16], f32>) -> !sym.t<[s0, 16], f32> {
  %r = aten.dropout(%x, 0.1, true) : (!sym.t<[s0, 16], f32>) -> !sym.t<[s0, 16], f32>
  func.return %r : !sym.t<[s0, 16], f32>
}

// CHECK-LABEL: func.func @threshold_backward(
// CHECK-NEXT: [[V0:%\w+]] = prims.full {value = 0.0} : !sym.t<[s0, 16], f32>
// CHECK-NEXT: [[V1:%\w+]] = prims.le %x, [[V0]] : !sym.t<[s0, 16], f32> -> !sym.t<[s0, 16], i1>
// CHECK-NEXT: [[V2:%\w+]] = prims.select [[V1]], [[V0]], %g : !sym.t<[s0, 16], i1>, !sym.t<[s0, 16], f32>, !sym.t<[s0, 16], f32> -> !sym.t<[s0, 16], f32>
// CHECK-NEXT: func.return [[V2]] : !sym.t<[s0, 16], f32>
func.func @threshold_backward(%g: !sym.t<[s0, 16], f32>, %x: !sym.t<[s0, 16], f32>) -> !sym.t<[s0, 16], f32> {
  %r = aten.threshold_backward(%g, %x, 0) : (!sym.t<[s0, 16], f32>, !sym.t<[s0, 16], f32>) -> !sym.t<[s0, 16], f32>
  func.return %r : !sym.t<[s0, 16], f32>
}
