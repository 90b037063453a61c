// RUN: lamella-opt %s -p aten-devices | filecheck %s
// What is checked: one copy of a number for all its uses on one GPU; none for calls without a rule, on the CPU, or of larger tensors.

// CHECK-LABEL: func.func @numbers
// CHECK-NEXT: [[S:%\w+]] = aten._to_copy(%s, device = "cuda:0") : (!sym.t<[], f32>) -> !sym.t<[], f32, device=cuda:0>
// CHECK-NEXT: %y = aten.mul.Tensor(%x, [[S]])
// CHECK-NEXT: %z = aten.add.Tensor(%y, [[S]])
// CHECK-NEXT: %n = aten.neg(%s)
// CHECK-NEXT: %e = aten.mul.Tensor(%n, %s)
func.func @numbers(%x: !sym.t<[8], f32, device=cuda:0>, %s: !sym.t<[], f32>) -> (!sym.t<[8], f32, device=cuda:0>, !sym.t<[], f32>) {
  %y = aten.mul.Tensor(%x, %s) : (!sym.t<[8], f32, device=cuda:0>, !sym.t<[], f32>) -> !sym.t<[8], f32, device=cuda:0>
  %z = aten.add.Tensor(%y, %s) : (!sym.t<[8], f32, device=cuda:0>, !sym.t<[], f32>) -> !sym.t<[8], f32, device=cuda:0>
  %n = aten.neg(%s) : (!sym.t<[], f32>) -> !sym.t<[], f32>
  %e = aten.mul.Tensor(%n, %s) : (!sym.t<[], f32>, !sym.t<[], f32>) -> !sym.t<[], f32>
  func.return %z, %e : !sym.t<[8], f32, device=cuda:0>, !sym.t<[], f32>
}

// CHECK-LABEL: func.func @others
// CHECK-NEXT: aten.index.Tensor(%x, [%i])
// CHECK-NEXT: aten._to_copy(%s,
// CHECK-NEXT: func.return
func.func @others(%x: !sym.t<[8], f32, device=cuda:0>, %i: !sym.t<[3], i64>, %s: !sym.t<[], f32>) -> (!sym.t<[3], f32, device=cuda:0>, !sym.t<[], f32, device=cuda:0>) {
  %y = aten.index.Tensor(%x, [%i]) : (!sym.t<[8], f32, device=cuda:0>, !sym.t<[3], i64>) -> !sym.t<[3], f32, device=cuda:0>
  %z = aten._to_copy(%s, device = "cuda:0") : (!sym.t<[], f32>) -> !sym.t<[], f32, device=cuda:0>
  func.return %y, %z : !sym.t<[3], f32, device=cuda:0>, !sym.t<[], f32, device=cuda:0>
}
