// RUN: lamella-opt %s -p 'aten-to-prims' | filecheck %s
// Operators on lists of tensors, element by element.

// CHECK-LABEL: func.func @addcmul(
// CHECK-NEXT: [[F0:%\w+]] = prims.full {value = 0.5} : !sym.t<[s0, 16], f32>
// CHECK-NEXT: [[S0:%\w+]] = prims.mul %a, [[F0]] : !sym.t<[s0, 16], f32>
// CHECK-NEXT: [[R0:%\w+]] = prims.fma [[S0]], %a, %x : !sym.t<[s0, 16], f32>
// CHECK-NEXT: [[F1:%\w+]] = prims.full {value = 0.25} : !sym.t<[4], f64>
// CHECK-NEXT: [[S1:%\w+]] = prims.mul %b, [[F1]] : !sym.t<[4], f64>
// CHECK-NEXT: [[R1:%\w+]] = prims.fma [[S1]], %b, %y : !sym.t<[4], f64>
// CHECK-NEXT: func.return [[R0]], [[R1]] : !sym.t<[s0, 16], f32>, !sym.t<[4], f64>
func.func @addcmul(%x: !sym.t<[s0, 16], f32>, %y: !sym.t<[4], f64>, %a: !sym.t<[s0, 16], f32>, %b: !sym.t<[4], f64>) -> (!sym.t<[s0, 16], f32>, !sym.t<[4], f64>) {
  %r, %s = aten._foreach_addcmul.ScalarList([%x, %y], [%a, %b], [%a, %b], [0.5, 0.25]) : (!sym.t<[s0, 16], f32>, !sym.t<[4], f64>, !sym.t<[s0, 16], f32>, !sym.t<[4], f64>, !sym.t<[s0, 16], f32>, !sym.t<[4], f64>) -> (!sym.t<[s0, 16], f32>, !sym.t<[4], f64>)
  func.return %r, %s : !sym.t<[s0, 16], f32>, !sym.t<[4], f64>
}

// A tensor without dims goes to every element.
// CHECK-LABEL: func.func @div_by_tensor(
// CHECK-NEXT: [[V0:%\w+]] = prims.broadcast %d {dims = []} : !sym.t<[], f32> -> !sym.t<[8], f32>
// CHECK-NEXT: [[V1:%\w+]] = prims.div %x, [[V0]] : !sym.t<[8], f32>
// CHECK-NEXT: [[V2:%\w+]] = prims.broadcast %d {dims = []} : !sym.t<[], f32> -> !sym.t<[4], f32>
// CHECK-NEXT: [[V3:%\w+]] = prims.div %y, [[V2]] : !sym.t<[4], f32>
// CHECK-NEXT: func.return [[V1]], [[V3]]
func.func @div_by_tensor(%x: !sym.t<[8], f32>, %y: !sym.t<[4], f32>, %d: !sym.t<[], f32>) -> (!sym.t<[8], f32>, !sym.t<[4], f32>) {
  %r, %s = aten._foreach_div.Tensor([%x, %y], %d) : (!sym.t<[8], f32>, !sym.t<[4], f32>, !sym.t<[], f32>) -> (!sym.t<[8], f32>, !sym.t<[4], f32>)
  func.return %r, %s : !sym.t<[8], f32>, !sym.t<[4], f32>
}

// Where the rule does not cover one element, the lists stay together; writes stay too.
// CHECK-LABEL: func.func @left(
// CHECK-NEXT: {{%\w+, %\w+}} = aten._foreach_neg([%x, %z])
// CHECK-NEXT: aten._foreach_neg_([%x])
func.func @left(%x: !sym.t<[8], f32>, %z: !sym.t<[4], c64>) -> (!sym.t<[8], f32>, !sym.t<[4], c64>) {
  %r, %s = aten._foreach_neg([%x, %z]) : (!sym.t<[8], f32>, !sym.t<[4], c64>) -> (!sym.t<[8], f32>, !sym.t<[4], c64>)
  aten._foreach_neg_([%x]) : (!sym.t<[8], f32>) -> ()
  func.return %r, %s : !sym.t<[8], f32>, !sym.t<[4], c64>
}
